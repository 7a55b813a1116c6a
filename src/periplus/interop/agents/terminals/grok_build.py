"""Grok Build: tables of ``.grok/config.toml``, which in a project may hold servers; ``AGENTS.md``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part, TomlPart
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions

NAME: Final = "grok-build"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".grok")
    values: dict[str, str | tuple[str, ...]] = {"command": site.command[0], "args": (*site.command[1:], "mcp")}
    server = TomlPart(os.path.join(folder, "config.toml"), "server", ("mcp_servers", "periplus"), values)
    return (
        (server, instructions(site, os.path.join(site.folder, "AGENTS.md"))) if site.scope == "project" else (server,)
    )


AGENT: Final = Agent(
    NAME, "Grok Build", ("grok",), (".grok",), (".grok",), _parts,
    "Restart it; grok inspect lists what it reads.",
    sources=("docs.x.ai/build: settings, features/mcp-servers",),
    lacks=(NO_HOOKS, "no instructions for all projects"),
)  # fmt: skip
