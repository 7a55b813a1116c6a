"""Kilo Code: servers in ``kilo.json`` or ``.kilo/kilo.json``, a plugin, ``AGENTS.md``, skills in ``.kilo/skills``.

Kilo Code is based on opencode: its configuration may have comments, and a plugin stands in place of hooks.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Entry, Part
from periplus.interop.agents.editing.jsonc_editing import Json
from periplus.interop.agents.opencode_plugin import plugin
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, skill

NAME: Final = "kilo-code"
SCHEMA: Final = "https://app.kilo.ai/config.json"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        places = [
            os.path.join(site.folder, *at)
            for at in (("kilo.json",), ("kilo.jsonc",), (".kilo", "kilo.json"), (".kilo", "kilo.jsonc"))
        ]
        config = next((place for place in places if os.path.lexists(place)), places[2])
        text = os.path.join(site.folder, "AGENTS.md")
        plugins = os.path.join(site.folder, ".kilo", "plugins")
    else:
        own = os.path.join(site.config, "kilo")
        config = os.path.join(own, "kilo.json")
        if not os.path.lexists(config) and os.path.lexists(f"{config}c"):
            config += "c"
        text = os.path.join(own, "AGENTS.md")
        plugins = os.path.join(own, "plugins")
    server: dict[str, Json] = {"type": "local", "command": [*site.command, "mcp"], "enabled": True}
    return (
        json_server(config, NAME, server, table="mcp", defaults=(Entry(("$schema",), SCHEMA),)),
        plugin(site, NAME, plugins),
        instructions(site, text),
        skill(os.path.join(base_of(site), ".kilo", "skills")),
    )


AGENT: Final = Agent(
    NAME, "Kilo Code", ("kilo",), ("{config}/kilo", ".kilo"), (".kilo", "kilo.json", "kilo.jsonc"), _parts,
    "Restart it, or reload the window.",
    tried="7.7",
    sources=(
        "Kilo-Org/kilocode: packages/kilo-docs/pages/automate/mcp",
        "@kilocode/cli-linux-x64-baseline 7.7.9: its skill kilo-config",
    ),
    format="kilo-code",
)  # fmt: skip
