"""The config files of coding agents: where they are, what is put into them, and how it gets out again.

One module for each agent says what it reads; ``parts`` puts something into a file and takes it out, as text, so that everything else
keeps its bytes; ``files`` reads and writes them, with what is kept to bring the old bytes back.
"""

from __future__ import annotations

__all__ = ["AGENTS", "GREETING", "Agent", "Scope", "Site", "agent_named"]

from typing import Final

from periplus.interop.agents.claude_code import CLAUDE_CODE
from periplus.interop.agents.codex import CODEX
from periplus.interop.agents.cursor import CURSOR
from periplus.interop.agents.gemini import GEMINI
from periplus.interop.agents.model import Agent, Scope, Site
from periplus.interop.agents.opencode import OPENCODE
from periplus.interop.agents.shared import GREETING
from periplus.interop.agents.vscode import VSCODE

AGENTS: Final = (CLAUDE_CODE, CODEX, CURSOR, VSCODE, GEMINI, OPENCODE)


def agent_named(name: str) -> Agent:
    """Raises KeyError."""
    return _BY_NAME[name]


_BY_NAME: Final = {agent.name: agent for agent in AGENTS}
