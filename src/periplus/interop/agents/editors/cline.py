"""Cline: servers of a person in ``~/.cline``, rules in ``.clinerules``, skills in ``.cline/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry, skill

NAME: Final = "cline"


def _parts(site: Site) -> tuple[Part, ...]:
    rules = (
        os.path.join(site.folder, ".clinerules")
        if site.scope == "project"
        else os.path.join(site.home, ".cline", "rules")
    )
    own: tuple[Part, ...] = (
        instructions(site, os.path.join(rules, "periplus.md")),
        skill(os.path.join(base_of(site), ".cline", "skills")),
    )
    if site.scope == "project":
        return own
    settings = os.path.join(site.home, ".cline", "data", "settings", "cline_mcp_settings.json")
    return (json_server(settings, NAME, server_entry(site)), *own)


AGENT: Final = Agent(
    NAME, "Cline", ("cline",), (".cline", "{config}/Code/User/globalStorage/saoudrizwan.claude-dev"), (".clinerules", ".cline"), _parts,
    "Restart it. Its server is for all projects, and comes with --scope user.",
    listed="3.0.65",
    sources=("docs.cline.bot: getting-started/config, mcp",),
    lacks=("no servers of one project", NO_HOOKS),
    format="cline",
)  # fmt: skip
