"""Continue: a file of our own in ``.continue/mcpServers``, in the JSON form that it also reads, and one in ``.continue/rules``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry

NAME: Final = "continue"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".continue")
    return (
        json_server(os.path.join(folder, "mcpServers", "periplus.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(folder, "rules", "periplus.md")),
    )


AGENT: Final = Agent(
    NAME, "Continue", ("cn",), (".continue",), (".continue",), _parts,
    "Reload the window; in its terminal client, restart it. Servers work in agent mode only.",
    sources=("continuedev/continue: docs/customize/deep-dives/mcp.mdx, rules.mdx",),
    lacks=(NO_HOOKS,),
    format="continue",
)  # fmt: skip
