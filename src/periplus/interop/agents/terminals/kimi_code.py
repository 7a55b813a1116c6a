"""Kimi Code: ``.kimi-code/mcp.json``, ``AGENTS.md``, the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry, skill

NAME: Final = "kimi-code"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".kimi-code")
    return (
        json_server(os.path.join(folder, "mcp.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(site.folder if site.scope == "project" else folder, "AGENTS.md")),
        skill(os.path.join(base_of(site), ".agents", "skills")),
    )


AGENT: Final = Agent(
    NAME, "Kimi Code", ("kimi",), (".kimi-code",), (".kimi-code",), _parts,
    "Restart it; /mcp lists the server. It reads the servers of .mcp.json too.",
    sources=("@moonshot-ai/kimi-code 2.1.0: dist/main.mjs",),
    lacks=(NO_HOOKS,),
    format="kimi-code",
)  # fmt: skip
