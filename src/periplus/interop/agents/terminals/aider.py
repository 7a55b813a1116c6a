"""aider: a file of conventions that a person gives it to read; it has neither MCP servers nor hooks."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import instructions

NAME: Final = "aider"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = site.folder if site.scope == "project" else os.path.join(site.home, ".aider")
    return (instructions(site, os.path.join(folder, "CONVENTIONS.md")),)


AGENT: Final = Agent(
    NAME, "aider", ("aider",), (".aider.conf.yml", ".aider"), (".aider.conf.yml", ".aider.chat.history.md"), _parts,
    "Start it with --read and the path of CONVENTIONS.md, or name it under read: in .aider.conf.yml.",
    tried="0.86",
    sources=("aider.chat/docs: usage/conventions.html, config/aider_conf.html",),
    lacks=("no server, no hooks, no skills: it only reads that file, and its person runs the commands",),
    format="aider",
)  # fmt: skip
