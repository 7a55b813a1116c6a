"""Goose: an extension in ``config.yaml``, ``AGENTS.md`` or a person's ``.goosehints``, the shared skills.

Its desktop app reads the same files.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part, YamlPart
from periplus.interop.agents.editing.yaml_editing import YamlValue
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, skill

NAME: Final = "goose"
SECONDS: Final = 300


def _parts(site: Site) -> tuple[Part, ...]:
    skills = skill(os.path.join(base_of(site), ".agents", "skills"))
    if site.scope == "project":
        return instructions(site, os.path.join(site.folder, "AGENTS.md")), skills
    folder = os.path.join(site.config, "goose")
    values: dict[str, YamlValue] = {
        "enabled": True, "type": "stdio", "name": "periplus", "description": "The memory of this project",
        "cmd": site.command[0], "args": (*site.command[1:], "mcp"), "timeout": SECONDS,
    }  # fmt: skip
    return (
        YamlPart(os.path.join(folder, "config.yaml"), "server", ("extensions", "periplus"), values),
        instructions(site, os.path.join(folder, ".goosehints")),
        skills,
    )


AGENT: Final = Agent(
    NAME, "Goose", ("goose",), ("{config}/goose",), (".goosehints",), _parts,
    "Restart it. Its server is for all projects, and comes with --scope user.",
    sources=("block/goose: documentation/docs/guides: config-files, context-engineering; crates/goose/src/config/extensions.rs",),
    lacks=("no servers of one project", NO_HOOKS),
    format="goose",
    unmarked=("project",),
)  # fmt: skip
