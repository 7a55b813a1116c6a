"""Qwen Code: servers and hooks in ``.qwen/settings.json``, ``AGENTS.md`` or a person's ``QWEN.md``, ``.qwen/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site, hook_groups
from periplus.interop.agents.config_parts import JsonPart, Part
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "qwen-code"
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", "edit|write_file|notebook_edit|run_shell_command"),
    ("PostToolUse", ""),
    ("PostToolUseFailure", ""),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
    ("SessionEnd", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".qwen")
    settings = os.path.join(folder, "settings.json")
    text = os.path.join(site.folder, "AGENTS.md") if site.scope == "project" else os.path.join(folder, "QWEN.md")
    return (
        json_server(settings, NAME, server_entry(site)),
        JsonPart(settings, "hooks", NAME, hook_groups(site, NAME, EVENTS)),
        instructions(site, text),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Qwen Code", ("qwen",), (".qwen",), (".qwen", "QWEN.md"), _parts,
    "Restart it; /mcp lists the server, /hooks the hooks. Where folders have to be trusted, trust this one.",
    tried="0.24",
    sources=("@qwen-code/qwen-code 0.24.4: docs/features/hooks.md, mcp.md, skills.md",),
    format="qwen-code",
)  # fmt: skip
