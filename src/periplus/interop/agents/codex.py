"""Codex: servers as tables of ``config.toml``, hooks in ``hooks.json`` beside it, ``AGENTS.md``, the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site, hook_groups
from periplus.interop.agents.config_parts import JsonPart, Part, TomlPart
from periplus.interop.agents.shared_parts import instructions, skill

NAME: Final = "codex"
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", "apply_patch|Edit|Write|Read|Bash|shell|shell_command|exec_command|local_shell"),
    ("PostToolUse", ""),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = os.path.join(site.folder, ".codex") if in_project else site.codex
    server: dict[str, str | tuple[str, ...]] = {"command": site.command[0], "args": (*site.command[1:], "mcp")}
    return (
        TomlPart(os.path.join(folder, "config.toml"), "server", ("mcp_servers", "periplus"), server),
        JsonPart(os.path.join(folder, "hooks.json"), "hooks", NAME, hook_groups(site, NAME, EVENTS)),
        instructions(site, os.path.join(site.folder if in_project else folder, "AGENTS.md")),
        skill(os.path.join(site.folder if in_project else site.home, ".agents", "skills")),
    )


AGENT: Final = Agent(
    NAME, "Codex", ("codex",), ("{codex}",), (".codex",), _parts,
    "Restart it, trust the project, and review its hooks: /hooks lists them.",
    tried="0.171",
    sources=("developers.openai.com/codex: hooks, mcp, skills",),
    format="codex",
)  # fmt: skip
