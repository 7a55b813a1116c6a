"""Windsurf: servers of a person in ``~/.codeium/windsurf``; ``AGENTS.md``, skills in ``.windsurf/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import instructions, json_server, server_entry, skill

NAME: Final = "windsurf"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        return (
            skill(os.path.join(site.folder, ".windsurf", "skills")),
            instructions(site, os.path.join(site.folder, "AGENTS.md")),
        )
    folder = os.path.join(site.home, ".codeium", "windsurf")
    return (
        json_server(os.path.join(folder, "mcp_config.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(folder, "memories", "global_rules.md")),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Windsurf", ("windsurf",), (".codeium/windsurf",), (".windsurf", ".windsurfrules"), _parts,
    "Reload the window. Its server is for all projects, and comes with --scope user.",
    sources=("docs.windsurf.com: windsurf/cascade/mcp, agents-md, memories, skills",),
    lacks=("no servers of one project", "no hooks are set up: those of Cascade tell the model nothing, and refuse by an exit status only"),
    format="windsurf",
)  # fmt: skip
