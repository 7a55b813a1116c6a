"""Kilo Code: servers in ``kilo.json`` or ``.kilo/kilo.json``, with or without comments; ``AGENTS.md``, skills in ``.kilo/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.jsonc_editing import Json
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, skill

NAME: Final = "kilo-code"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        places = [
            os.path.join(site.folder, *at)
            for at in (("kilo.json",), ("kilo.jsonc",), (".kilo", "kilo.json"), (".kilo", "kilo.jsonc"))
        ]
        config = next((place for place in places if os.path.lexists(place)), places[2])
    else:
        config = os.path.join(site.config, "kilo", "kilo.json")
        if not os.path.lexists(config) and os.path.lexists(f"{config}c"):
            config += "c"
    server: dict[str, Json] = {"type": "local", "command": [*site.command, "mcp"], "enabled": True}
    parts: tuple[Part, ...] = (json_server(config, NAME, server, table="mcp"),)
    if site.scope == "project":
        parts = (*parts, instructions(site, os.path.join(site.folder, "AGENTS.md")))
    return (*parts, skill(os.path.join(base_of(site), ".kilo", "skills")))


AGENT: Final = Agent(
    NAME, "Kilo Code", ("kilo",), ("{config}/kilo", ".kilo"), (".kilo", "kilo.json", "kilo.jsonc"), _parts,
    "Restart it, or reload the window.",
    listed="7.8.1",
    sources=("Kilo-Org/kilocode: packages/kilo-docs/pages/automate/mcp",),
    lacks=(NO_HOOKS, "no instructions for all projects"),
)  # fmt: skip
