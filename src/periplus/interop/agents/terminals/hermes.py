"""Hermes: an entry of ``mcp_servers`` of ``~/.hermes/config.yaml``, skills there, ``AGENTS.md`` in a project.

``SOUL.md`` says who it is: it stands in the place of its own text, so none is made, and an existing one gets the block.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part, YamlPart
from periplus.interop.agents.shared_parts import NO_HOOKS, instructions, skill
from periplus.interop.agents.yaml_editing import YamlValue

NAME: Final = "hermes"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        return (instructions(site, os.path.join(site.folder, "AGENTS.md")),)
    folder = os.path.join(site.home, ".hermes")
    values: dict[str, YamlValue] = {"command": site.command[0], "args": (*site.command[1:], "mcp")}
    parts: tuple[Part, ...] = (
        YamlPart(os.path.join(folder, "config.yaml"), "server", ("mcp_servers", "periplus"), values),
        skill(os.path.join(folder, "skills")),
    )
    soul = os.path.join(folder, "SOUL.md")
    return (*parts, instructions(site, soul)) if os.path.lexists(soul) else parts


AGENT: Final = Agent(
    NAME, "Hermes", ("hermes",), (".hermes",), (".hermes.md", "HERMES.md"), _parts,
    "Start it again; /reload-mcp reads the servers anew. Its server is for all projects, and comes with --scope user.",
    tried="0.19",
    sources=("hermes-agent 0.19.0: tools/mcp_tool.py, agent/prompt_builder.py, tools/skills_tool.py",),
    lacks=(
        "no servers of one project",
        "where a project has .hermes.md or HERMES.md, it does not read AGENTS.md",
        NO_HOOKS,
    ),
    unmarked=("project",),
)  # fmt: skip
