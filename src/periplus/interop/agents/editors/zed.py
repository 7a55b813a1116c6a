"""Zed: servers as ``context_servers`` of its settings, of a project and of a person; it reads ``AGENTS.md``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, instructions, json_server, server_entry

NAME: Final = "zed"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = os.path.join(site.folder, ".zed") if in_project else os.path.join(site.config, "zed")
    parts: tuple[Part, ...] = (
        json_server(os.path.join(folder, "settings.json"), NAME, server_entry(site), table="context_servers"),
    )
    return (*parts, instructions(site, os.path.join(site.folder, "AGENTS.md"))) if in_project else parts


AGENT: Final = Agent(
    NAME, "Zed", ("zed", "zeditor"), ("{config}/zed",), (".zed", ".rules"), _parts,
    "Look at the server in the settings of the agent panel: a green dot means that it runs.",
    sources=("zed-industries/zed: docs/src/ai/mcp.md, docs/src/ai/rules.md",),
    lacks=(NO_HOOKS, "no instructions for all projects"),
)  # fmt: skip
