"""gptme: an element of ``mcp.servers`` of ``gptme.toml`` or of a person's ``config.toml``; ``AGENTS.md``, skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part, TomlItemPart
from periplus.interop.agents.shared_parts import NO_HOOKS, instructions, skill

NAME: Final = "gptme"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        places = [os.path.join(site.folder, *names) for names in (("gptme.toml",), (".github", "gptme.toml"))]
        config = next((place for place in places if os.path.lexists(place)), places[0])
        text = os.path.join(site.folder, "AGENTS.md")
        skills = os.path.join(site.folder, ".gptme", "skills")
    else:
        folder = os.path.join(site.home, ".config", "gptme")  # gptme ignores XDG_CONFIG_HOME, on macOS too
        config, text = os.path.join(folder, "config.toml"), os.path.join(folder, "AGENTS.md")
        skills = os.path.join(site.home, ".agents", "skills")
    values: dict[str, str | tuple[str, ...]] = {
        "name": "periplus", "command": site.command[0], "args": (*site.command[1:], "mcp"),
    }  # fmt: skip
    return (
        # gptme starts servers only if ``enabled`` is true, and a project's file overrides that of a person.
        TomlItemPart(config, "server", ("mcp", "servers"), values, (("enabled", True),)),
        instructions(site, text),
        skill(skills),
    )


AGENT: Final = Agent(
    NAME, "gptme", ("gptme",), (".config/gptme",), ("gptme.toml", ".github/gptme.toml"), _parts,
    "Start it again. Its servers start where [mcp] has enabled = true, which is added where nothing is said there.",
    tried="0.35",
    sources=("gptme 0.35.1: gptme/config, gptme/lessons/index.py, gptme/prompts/workspace.py",),
    lacks=(NO_HOOKS,),
    format="gptme",
)  # fmt: skip
