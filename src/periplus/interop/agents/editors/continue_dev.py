"""Continue: a file of ours in ``.continue/mcpServers``, one in ``.continue/rules``, skills in ``.continue/skills``.

The server is written as JSON, which its extension reads.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry, skill

NAME: Final = "continue"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".continue")
    return (
        json_server(os.path.join(folder, "mcpServers", "periplus.json"), NAME, server_entry(site)),
        instructions(site, os.path.join(folder, "rules", "periplus.md")),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Continue", ("cn",), (".continue",), (".continue",), _parts,
    "Reload the window; servers work in agent mode only. For its terminal client, name the server in ~/.continue/config.yaml.",
    tried="1.5",
    sources=(
        "continuedev/continue: docs/customize/deep-dives/mcp.mdx, rules.mdx",
        "@continuedev/cli 1.5.47: src/configLoader.ts, src/systemMessage.ts, src/util/loadMarkdownSkills.ts",
    ),
    lacks=("its terminal client takes servers from ~/.continue/config.yaml only, which is not written", NO_HOOKS),
    format="continue",
)  # fmt: skip
