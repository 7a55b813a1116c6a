"""Gemini CLI: servers and hooks in one ``settings.json``, ``GEMINI.md``, the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site, hook_groups
from periplus.interop.agents.config_parts import BlockPart, Entry, JsonPart, Part
from periplus.interop.agents.shared_parts import instructions, server_entry, skill

NAME: Final = "gemini"
IMPORT: Final = "@./AGENTS.md"
EVENTS: Final = (
    ("SessionStart", ""),
    ("BeforeAgent", ""),
    ("BeforeTool", "write_file|replace|run_shell_command"),
    ("AfterTool", ""),
    ("PreCompress", ""),
    ("AfterAgent", ""),
    ("SessionEnd", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    base = site.folder if in_project else site.home
    folder = os.path.join(base, ".gemini")
    settings = os.path.join(folder, "settings.json")
    parts: list[Part] = [
        JsonPart(settings, "server", NAME, (Entry(("mcpServers", "periplus"), server_entry(site)),)),
        JsonPart(
            settings, "hooks", NAME, hook_groups(site, NAME, EVENTS, timeout=HOOK_SECONDS * 1_000, name="periplus")
        ),
    ]
    if in_project:
        parts += [
            instructions(site, os.path.join(base, "AGENTS.md")),
            BlockPart(os.path.join(base, "GEMINI.md"), "instructions", f"{IMPORT}\n", unless=IMPORT),
        ]
    else:
        parts.append(instructions(site, os.path.join(folder, "GEMINI.md")))
    return (*parts, skill(os.path.join(base, ".agents", "skills")))


AGENT: Final = Agent(
    NAME, "Gemini CLI", ("gemini",), (".gemini",), (".gemini", "GEMINI.md"), _parts,
    "Restart it, and trust the folder when it asks.",
    tried="0.61",
    sources=("google-gemini/gemini-cli: docs/hooks, docs/tools/mcp-server.md",),
    format="gemini-cli",
)  # fmt: skip
