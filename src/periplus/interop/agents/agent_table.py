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
    "cline": "editors.cline",
    "kilo-code": "editors.kilo_code",
    "roo-code": "editors.roo_code",
    "continue": "editors.continue_dev",
    "windsurf": "editors.windsurf",
    "zed": "editors.zed",
    "kiro": "editors.kiro",
    "antigravity": "editors.antigravity",
    "qwen-code": "terminals.qwen_code",
    "copilot-cli": "terminals.copilot_cli",
    "crush": "terminals.crush",
    "amp": "terminals.amp",
    "droid": "terminals.droid",
    "auggie": "terminals.auggie",
    "kimi-code": "terminals.kimi_code",
    "grok-build": "terminals.grok_build",
    "pi": "terminals.pi",
    "aider": "terminals.aider",
    "gptme": "terminals.gptme",
    "mistral-vibe": "terminals.mistral_vibe",
    "hermes": "terminals.hermes",
    "goose": "terminals.goose",
    "openclaw": "terminals.openclaw",
}
AGENT_NAMES: Final = tuple(_MODULES)


def agent_named(name: str) -> Agent:
    """Return the agent called ``name``. Raises KeyError."""
    agent: Agent = importlib.import_module(f"periplus.interop.agents.{_MODULES[name]}").AGENT
    return agent


def all_agents() -> tuple[Agent, ...]:
    """Return all agents; this loads each row."""
    return tuple(map(agent_named, AGENT_NAMES))
