"""Grok Build: a server in ``.grok/config.toml``, hooks in ``.grok/hooks``, ``AGENTS.md``, skills in ``.grok/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site, hook_groups
from periplus.interop.agents.config_parts import JsonPart, Part, TomlPart
from periplus.interop.agents.shared_parts import base_of, instructions, skill

NAME: Final = "grok-build"
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", "search_replace|write|run_terminal_command"),
    ("PostToolUse", ""),
    ("PostToolUseFailure", ""),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
    ("SessionEnd", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".grok")
    values: dict[str, str | tuple[str, ...]] = {"command": site.command[0], "args": (*site.command[1:], "mcp")}
    server = TomlPart(os.path.join(folder, "config.toml"), "server", ("mcp_servers", "periplus"), values)
    hooks = JsonPart(os.path.join(folder, "hooks", "periplus.json"), "hooks", NAME, hook_groups(site, NAME, EVENTS))
    text = os.path.join(site.folder if site.scope == "project" else folder, "AGENTS.md")
    return server, hooks, instructions(site, text), skill(os.path.join(folder, "skills"))


AGENT: Final = Agent(
    NAME, "Grok Build", ("grok",), (".grok",), (".grok",), _parts,
    "Restart it, and trust the project: /hooks-trust; grok inspect lists what it reads.",
    sources=("docs.x.ai/build: settings, features/mcp-servers, features/hooks", "xai-org/grok-build: user-guide, xai-grok-hooks/src/event.rs"),
    lacks=(
        "its hooks record and refuse, and tell it nothing: it gets facts only when it asks the server",
        "it runs the hooks of Claude Code and Cursor too, unless hooks = false in [compat.claude] and [compat.cursor]",
    ),
    format="grok-build",
)  # fmt: skip
