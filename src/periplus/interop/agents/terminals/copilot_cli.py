"""Copilot CLI: ``.github/mcp.json`` or ``~/.copilot/mcp-config.json``, ``AGENTS.md``, the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry, skill

NAME: Final = "copilot-cli"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    own = os.path.join(site.home, ".copilot")
    path = os.path.join(site.folder, ".github", "mcp.json") if in_project else os.path.join(own, "mcp-config.json")
    text = os.path.join(site.folder, "AGENTS.md") if in_project else os.path.join(own, "copilot-instructions.md")
    return (
        json_server(path, NAME, {"type": "local", **server_entry(site), "tools": ["*"]}),
        instructions(site, text),
        skill(os.path.join(base_of(site), ".agents", "skills")),
    )


AGENT: Final = Agent(
    NAME, "Copilot CLI", ("copilot",), (".copilot/mcp-config.json", ".copilot/session-state"), (".github/mcp.json",), _parts,
    "Restart it, and trust the folder when it asks; /mcp show lists the server.",
    listed="1.0.102",
    sources=("docs.github.com: copilot/how-tos/copilot-cli/customize-copilot",),
    lacks=(NO_HOOKS,),
    format="copilot-cli",
)  # fmt: skip
