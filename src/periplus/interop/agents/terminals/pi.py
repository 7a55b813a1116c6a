"""Pi: skills in ``.pi/skills`` and ``AGENTS.md``; it has no MCP servers in the version that was read."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import instructions, skill

NAME: Final = "pi"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = os.path.join(site.folder, ".pi") if in_project else os.path.join(site.home, ".pi", "agent")
    return (
        skill(os.path.join(folder, "skills")),
        instructions(site, os.path.join(site.folder if in_project else folder, "AGENTS.md")),
    )


AGENT: Final = Agent(
    NAME, "Pi", (), (".pi/agent",), (".pi",), _parts,
    "Restart it; it uses Periplus through the command line.",
    sources=("@mariozechner/pi-coding-agent 0.73.1: README.md, docs",),
    lacks=("no server: it uses the command line of Periplus, as its skill says", "no hooks are set up"),
    format="pi-agent",
)  # fmt: skip
