"""Crush: ``crush.json`` or ``.crush.json``, which it reads beside its newer ``crushrc``; ``AGENTS.md``, skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Entry, Part
from periplus.interop.agents.jsonc_editing import Json
from periplus.interop.agents.shared_parts import NO_HOOKS, instructions, json_server, server_entry, skill

NAME: Final = "crush"


def _parts(site: Site) -> tuple[Part, ...]:
    schema = (Entry(("$schema",), "https://charm.land/crush.json"),)
    server: dict[str, Json] = {"type": "stdio", **server_entry(site)}
    if site.scope == "project":
        places = [os.path.join(site.folder, name) for name in (".crush.json", "crush.json")]
        config = next((place for place in places if os.path.lexists(place)), places[1])
        return (
            json_server(config, NAME, server, table="mcp", defaults=schema),
            instructions(site, os.path.join(site.folder, "AGENTS.md")),
            skill(os.path.join(site.folder, ".agents", "skills")),
        )
    folder = os.path.join(site.config, "crush")
    return (
        json_server(os.path.join(folder, "crush.json"), NAME, server, table="mcp", defaults=schema),
        instructions(site, os.path.join(folder, "CRUSH.md")),
        skill(os.path.join(site.home, ".agents", "skills")),
    )


AGENT: Final = Agent(
    NAME, "Crush", ("crush",), ("{config}/crush",), (".crush.json", "crush.json", ".crush", "crushrc", ".crushrc"), _parts,
    "Restart it.",
    sources=("@charmland/crush 0.96.1: README.md",),
    lacks=(NO_HOOKS,),
    format="crush",
)  # fmt: skip
