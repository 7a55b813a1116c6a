"""Antigravity: ``.agents/mcp_config.json``, ``AGENTS.md``; for a person ``~/.gemini``.

Gemini CLI reads the ``GEMINI.md`` there too.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import instructions, json_server, server_entry, skill

NAME: Final = "antigravity"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        return (
            json_server(os.path.join(site.folder, ".agents", "mcp_config.json"), NAME, server_entry(site)),
            instructions(site, os.path.join(site.folder, "AGENTS.md")),
            skill(os.path.join(site.folder, ".agents", "skills")),
        )
    folder = os.path.join(site.home, ".gemini")
    return (
        json_server(os.path.join(folder, "antigravity", "mcp_config.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(folder, "GEMINI.md")),
    )


AGENT: Final = Agent(
    NAME, "Antigravity", ("antigravity", "agy"), (".gemini/antigravity", ".gemini/antigravity-cli"), (".agents/mcp_config.json", ".agents/rules"), _parts,
    "Refresh its list of MCP servers.",
    sources=("antigravity.google/docs: mcp, rules, skills",),
    lacks=("no hooks are set up: its terminal runs those of installed plugins only", "no skill for all projects"),
    format="antigravity",
)  # fmt: skip
