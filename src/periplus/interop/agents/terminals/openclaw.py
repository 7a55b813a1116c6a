"""OpenClaw: a server in ``mcp.servers`` of ``~/.openclaw/openclaw.json``, which is JSON5; skills there; ``AGENTS.md``.

OpenClaw fills its workspace with files of its own, among them ``AGENTS.md``. So ``connect`` makes none there, and adds
the block to an existing one.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Entry, JsonPart, Part
from periplus.interop.agents.shared_parts import NO_HOOKS, instructions, server_entry, skill

NAME: Final = "openclaw"


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        return (
            instructions(site, os.path.join(site.folder, "AGENTS.md")),
            skill(os.path.join(site.folder, ".agents", "skills")),
        )
    folder = os.path.join(site.home, ".openclaw")
    entry = Entry(("mcp", "servers", "periplus"), server_entry(site))
    parts: tuple[Part, ...] = (
        JsonPart(os.path.join(folder, "openclaw.json"), "server", NAME, (entry,), dialect="json5"),
        skill(os.path.join(folder, "skills")),
    )
    text = os.path.join(folder, "workspace", "AGENTS.md")
    return (*parts, instructions(site, text)) if os.path.lexists(text) else parts


AGENT: Final = Agent(
    NAME, "OpenClaw", ("openclaw",), (".openclaw",), (), _parts,
    "A running gateway reads its file anew; openclaw mcp list names the server. It is for all projects, and comes with --scope user.",
    tried="2026.9",
    sources=("openclaw 2026.9.6: docs/gateway/config-extensions.md, docs/cli/mcp, docs/tools/skills.md, docs/concepts/agent-workspace.md",),
    lacks=(
        "no servers of one project",
        "the model finds the server's tools by a search of its own, unless tools.toolSearch is false",
        NO_HOOKS,
    ),
    format="openclaw",
    unmarked=("project",),
)  # fmt: skip
