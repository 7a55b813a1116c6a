"""Qwen Code: ``.qwen/settings.json``, ``AGENTS.md``, for a person ``QWEN.md``, skills in ``.qwen/skills``."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.shared_parts import NO_HOOKS, base_of, instructions, json_server, server_entry, skill

NAME: Final = "qwen-code"


def _parts(site: Site) -> tuple[Part, ...]:
    folder = os.path.join(base_of(site), ".qwen")
    text = os.path.join(site.folder, "AGENTS.md") if site.scope == "project" else os.path.join(folder, "QWEN.md")
    return (
        json_server(os.path.join(folder, "settings.json"), NAME, server_entry(site)),
        instructions(site, text),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Qwen Code", ("qwen",), (".qwen",), (".qwen", "QWEN.md"), _parts,
    "Restart it; /mcp lists the server.",
    listed="0.15.10",
    sources=("@qwen-code/qwen-code 0.15.10: docs/features/mcp.md, skills.md",),
    lacks=(NO_HOOKS,),
    format="qwen-code",
)  # fmt: skip
