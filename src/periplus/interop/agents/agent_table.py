"""Table of the agents that can be connected, in the order of listing.

A row is the module that describes an agent, with its ``AGENT``. It is loaded when somebody asks for that agent: commands
and hooks that have nothing to do with agents load none.
"""

from __future__ import annotations

__all__ = ["AGENT_NAMES", "agent_named", "all_agents"]

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from periplus.interop.agents.agent_model import Agent

_MODULES: Final[dict[str, str]] = {
    "claude-code": "claude_code",
    "codex": "codex",
    "cursor": "cursor",
    "vscode": "vscode",
    "gemini": "gemini",
    "opencode": "opencode",
}
AGENT_NAMES: Final = tuple(_MODULES)


def agent_named(name: str) -> Agent:
    """Return the agent called ``name``. Raises KeyError."""
    agent: Agent = importlib.import_module(f"periplus.interop.agents.{_MODULES[name]}").AGENT
    return agent


def all_agents() -> tuple[Agent, ...]:
    """Return all agents; this loads each row."""
    return tuple(map(agent_named, AGENT_NAMES))
