"""Droid of Factory: ``mcp.json``, hooks in ``settings.json`` and skills in the folder ``.factory``; ``AGENTS.md``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site, hook_groups
from periplus.interop.agents.config_parts import JsonPart, Part
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "droid"
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", "Edit|Create|ApplyPatch|Execute"),
    ("PostToolUse", "*"),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
    ("SessionEnd", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".factory")
    return (
        json_server(os.path.join(folder, "mcp.json"), NAME, {"type": "stdio", **server_entry(site)}),
        JsonPart(os.path.join(folder, "settings.json"), "hooks", NAME, hook_groups(site, NAME, EVENTS)),
        instructions(site, os.path.join(site.folder if site.scope == "project" else folder, "AGENTS.md")),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Droid", ("droid",), (".factory",), (".factory",), _parts,
    "Restart it; /mcp lists the server.",
    sources=("docs.factory.ai: cli/configuration (mcp, agents-md, skills), reference/hooks-reference",),
    lacks=(
        "not tried: its package holds no program, and it asks for an account first",
        "where a folder .factory has hooks.json, the hooks in settings.json beside it are not read",
        "before the call of a tool hooks can only refuse or ask",
    ),
    format="droid",
)  # fmt: skip
