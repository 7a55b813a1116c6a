"""Kimi Code: ``.kimi-code/mcp.json``, ``AGENTS.md``, the shared skills; hooks in a person's ``config.toml``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site, hook_command
from periplus.interop.agents.config_parts import Part, TomlHooksPart
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "kimi-code"
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", "Edit|Write|Bash"),
    ("PostToolUse", ""),
    ("PostToolUseFailure", ""),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
    ("SessionEnd", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".kimi-code")
    parts: tuple[Part, ...] = (
        json_server(os.path.join(folder, "mcp.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(site.folder if site.scope == "project" else folder, "AGENTS.md")),
        skill(os.path.join(base_of(site), ".agents", "skills")),
    )
    return parts if site.scope == "project" else (*parts, _hooks(site, os.path.join(folder, "config.toml")))


def _hooks(site: Site, path: str) -> TomlHooksPart:
    """Return a person's hooks; a project has none. One element is one event, and other keys than these are errors."""
    items = []
    for event, matcher in EVENTS:
        item = {"event": event, "command": hook_command(site, event, NAME)}
        items.append({**item, "matcher": matcher} if matcher else item)
    return TomlHooksPart(path, "hooks", NAME, tuple(items))


AGENT: Final = Agent(
    NAME, "Kimi Code", ("kimi",), (".kimi-code",), (".kimi-code",), _parts,
    "Restart it, and trust the folder when it asks; /mcp lists the server. Its hooks come with --scope user.",
    tried="2.1",
    sources=("MoonshotAI/kimi-code: docs/en/customization/hooks.md, mcp.md",),
    lacks=(
        "hooks of a person only, for all projects",
        "hooks tell it facts with a prompt only, the brief with the first one; of a tool call they can only refuse",
    ),
    format="kimi-code",
)  # fmt: skip
