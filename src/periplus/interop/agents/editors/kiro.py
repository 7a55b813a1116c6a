"""Kiro: ``.kiro/settings/mcp.json``, ``AGENTS.md`` or the steering files of a person, skills in ``.kiro/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "kiro"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".kiro")
    steering = site.folder if site.scope == "project" else os.path.join(folder, "steering")
    return (
        json_server(os.path.join(folder, "settings", "mcp.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(steering, "AGENTS.md")),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Kiro", ("kiro", "kiro-cli"), (".kiro",), (".kiro",), _parts,
    "Look at the server in the Kiro panel under MCP servers; in the terminal, type /mcp.",
    sources=("kiro.dev/docs: mcp/configuration, steering, skills",),
    lacks=("no hooks are set up: those of the terminal are part of an agent of the person, and name no session",),
)  # fmt: skip
