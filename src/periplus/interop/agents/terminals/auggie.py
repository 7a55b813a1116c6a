"""Auggie of Augment: ``.augment/settings.json``, ``AGENTS.md`` or the rules of a person, skills in ``.augment/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "auggie"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".augment")
    in_project = site.scope == "project"
    text = os.path.join(site.folder, "AGENTS.md") if in_project else os.path.join(folder, "rules", "periplus.md")
    return (
        json_server(os.path.join(folder, "settings.json"), NAME, server_entry(site)),
        instructions(site, text),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Auggie", ("auggie",), (".augment",), (".augment", ".augment-guidelines"), _parts,
    "Restart it.",
    listed="0.36.0",
    sources=("@augmentcode/auggie 0.36.0: augment.mjs",),
    lacks=("no hooks are set up: it runs script files only, and no commands with arguments",),
)  # fmt: skip
