"""Amp: ``amp.mcpServers`` of its settings, with or without comments; ``AGENTS.md``, the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, instructions, json_server, server_entry, skill

NAME: Final = "amp"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = os.path.join(site.folder, ".amp") if in_project else os.path.join(site.config, "amp")
    config = os.path.join(folder, "settings.json")
    if not os.path.lexists(config) and os.path.lexists(f"{config}c"):
        config += "c"
    return (
        json_server(config, NAME, server_entry(site), table="amp.mcpServers"),
        instructions(site, os.path.join(site.folder if in_project else folder, "AGENTS.md")),
        skill(os.path.join(site.folder, ".agents", "skills") if in_project else os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Amp", ("amp",), ("{config}/amp",), (".amp",), _parts,
    "Restart it, and approve the server of this project: amp mcp approve periplus.",
    sources=("ampcode.com/manual: MCP, AGENTS.md, Agent Skills",),
    lacks=(NO_HOOKS,),
    format="amp",
)  # fmt: skip
