"""Table of the agents that can be connected, in the order of listing."""

from __future__ import annotations

__all__ = ["AGENTS", "agent_named"]

from typing import Final

from periplus.interop.agents.agent_model import Agent
from periplus.interop.agents.claude_code import CLAUDE_CODE
from periplus.interop.agents.codex import CODEX
from periplus.interop.agents.cursor import CURSOR
from periplus.interop.agents.gemini import GEMINI
from periplus.interop.agents.opencode import OPENCODE
from periplus.interop.agents.vscode import VSCODE

AGENTS: Final = (CLAUDE_CODE, CODEX, CURSOR, VSCODE, GEMINI, OPENCODE)
_BY_NAME: Final = {agent.name: agent for agent in AGENTS}


def agent_named(name: str) -> Agent:
    """Return the agent called ``name``. Raises KeyError."""
    return _BY_NAME[name]
