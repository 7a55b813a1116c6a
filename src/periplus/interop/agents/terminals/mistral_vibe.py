"""Mistral Vibe: an element of ``mcp_servers`` of ``.vibe/config.toml``; ``AGENTS.md``, skills in ``.vibe/skills``.

A project's ``config.toml`` replaces the person's own one with its models and keys. So ``connect`` makes none in a
project, and adds the server to an existing one.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part, TomlItemPart
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, skill

NAME: Final = "mistral-vibe"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = os.path.join(base_of(site), ".vibe")
    config = os.path.join(folder, "config.toml")
    values: dict[str, str | tuple[str, ...]] = {
        "name": "periplus", "transport": "stdio", "command": site.command[0], "args": (*site.command[1:], "mcp"),
    }  # fmt: skip
    others = (
        skill(os.path.join(folder, "skills")),
        instructions(site, os.path.join(site.folder if in_project else folder, "AGENTS.md")),
    )
    server = (TomlItemPart(config, "server", ("mcp_servers",), values),)
    return (*others, *server) if not in_project or os.path.lexists(config) else others


AGENT: Final = Agent(
    NAME, "Mistral Vibe", ("vibe",), (".vibe",), (".vibe",), _parts,
    "Restart it, and trust the folder when it asks. Its server is for all projects, and comes with --scope user.",
    sources=("mistralai/mistral-vibe 2.18.4: README.md, vibe/core/config, vibe/core/skills",),
    lacks=("no server of one project, unless it has a .vibe/config.toml, which hides a person's own", NO_HOOKS),
    format="mistral-vibe",
)  # fmt: skip
