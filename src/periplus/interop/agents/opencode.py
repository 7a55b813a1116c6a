"""opencode: servers in ``opencode.json`` or ``.jsonc``, a plugin in place of hooks, ``AGENTS.md``, the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Entry, JsonPart, Part
from periplus.interop.agents.editing.jsonc_editing import Json
from periplus.interop.agents.opencode_plugin import plugin
from periplus.interop.agents.shared_parts import instructions, skill

NAME: Final = "opencode"
SCHEMA: Final = "https://opencode.ai/config.json"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = site.folder if in_project else os.path.join(site.config, "opencode")
    config = os.path.join(folder, "opencode.json")
    if not os.path.lexists(config) and os.path.lexists(f"{config}c"):
        config += "c"
    server: dict[str, Json] = {"type": "local", "command": [*site.command, "mcp"], "enabled": True}
    plugins = os.path.join(folder, ".opencode", "plugins") if in_project else os.path.join(folder, "plugins")
    return (
        JsonPart(config, "server", NAME, (Entry(("mcp", "periplus"), server),), (Entry(("$schema",), SCHEMA),)),
        plugin(site, NAME, plugins),
        instructions(site, os.path.join(folder, "AGENTS.md")),
        skill(os.path.join(site.folder if in_project else site.home, ".agents", "skills")),
    )


AGENT: Final = Agent(
    NAME, "opencode", ("opencode",), ("{config}/opencode",), (".opencode", "opencode.json", "opencode.jsonc"), _parts,
    "Restart it.",
    tried="1.18",
    sources=("anomalyco/opencode: packages/web/src/content/docs",),
    format="opencode",
)  # fmt: skip
