"""Crush: servers and hooks in ``crush.json`` or ``.crush.json``, ``AGENTS.md``, the shared skills.

Crush reads these files beside its newer ``crushrc``.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site, hook_command
from periplus.interop.agents.config_parts import Entry, JsonPart, Part
from periplus.interop.agents.editing.jsonc_editing import Json
from periplus.interop.agents.shared_parts import instructions, json_server, server_entry, skill

NAME: Final = "crush"
TOLD_TOOLS: Final = "^(bash|edit|multiedit|view|write)$"


def _parts(site: Site) -> tuple[Part, ...]:
    schema = (Entry(("$schema",), "https://charm.land/crush.json"),)
    server: dict[str, Json] = {"type": "stdio", **server_entry(site)}
    if site.scope == "project":
        places = [os.path.join(site.folder, name) for name in (".crush.json", "crush.json")]
        config = next((place for place in places if os.path.lexists(place)), places[1])
        return (
            json_server(config, NAME, server, table="mcp", defaults=schema),
            _hooks(site, config),
            instructions(site, os.path.join(site.folder, "AGENTS.md")),
            skill(os.path.join(site.folder, ".agents", "skills")),
        )
    folder = os.path.join(site.config, "crush")
    config = os.path.join(folder, "crush.json")
    return (
        json_server(config, NAME, server, table="mcp", defaults=schema),
        _hooks(site, config),
        instructions(site, os.path.join(folder, "CRUSH.md")),
        skill(os.path.join(site.home, ".agents", "skills")),
    )


def _hooks(site: Site, path: str) -> JsonPart:
    hook: dict[str, Json] = {
        "matcher": TOLD_TOOLS, "command": hook_command(site, "PreToolUse", NAME), "timeout": HOOK_SECONDS,
    }  # fmt: skip
    return JsonPart(path, "hooks", NAME, (Entry(("hooks", "PreToolUse"), hook, is_item=True),))


AGENT: Final = Agent(
    NAME, "Crush", ("crush",), ("{config}/crush",), (".crush.json", "crush.json", ".crush", "crushrc", ".crushrc"), _parts,
    "Restart it.",
    sources=("@charmland/crush 0.96.1: README.md", "charmbracelet/crush: docs/hooks/README.md"),
    lacks=(
        "not tried: its package holds no program",
        "hooks only before the call of a tool: it gets no brief at the start, and nothing of its sessions but what is imported",
    ),
    format="crush",
)  # fmt: skip
