"""Droid of Factory: ``.factory/mcp.json``, ``AGENTS.md``, skills in ``.factory/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry, skill

NAME: Final = "droid"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".factory")
    return (
        json_server(os.path.join(folder, "mcp.json"), NAME, {"type": "stdio", **server_entry(site)}),
        instructions(site, os.path.join(site.folder if site.scope == "project" else folder, "AGENTS.md")),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Droid", ("droid",), (".factory",), (".factory",), _parts,
    "Restart it; /mcp lists the server.",
    sources=("docs.factory.ai/cli/configuration: mcp, agents-md, skills",),
    lacks=(NO_HOOKS,),
    format="droid",
)  # fmt: skip
