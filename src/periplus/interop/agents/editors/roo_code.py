"""Roo Code: ``.roo/mcp.json``, ``AGENTS.md``; for a person the settings of the extension and ``~/.roo/rules``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, code_settings, instructions, json_server, server_entry

NAME: Final = "roo-code"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        return (
            json_server(os.path.join(site.folder, ".roo", "mcp.json"), NAME, server_entry(site)),
            instructions(site, os.path.join(site.folder, "AGENTS.md")),
        )
    settings = os.path.join(code_settings(site), "globalStorage", "rooveterinaryinc.roo-cline", "settings")
    return (
        json_server(os.path.join(settings, "mcp_settings.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(site.home, ".roo", "rules", "periplus.md")),
    )


AGENT: Final = Agent(
    NAME, "Roo Code", (), (".roo", "{config}/Code/User/globalStorage/rooveterinaryinc.roo-cline"), (".roo", ".roorules"), _parts,
    "Reload the window, and look at the server in its MCP settings.",
    sources=("docs.roocode.com: features/mcp, features/custom-instructions",),
    lacks=(NO_HOOKS,),
    format="roo-code",
)  # fmt: skip
