"""Cursor: ``.cursor/mcp.json`` and ``.cursor/hooks.json``; it reads ``AGENTS.md`` and the shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site, hook_command
from periplus.interop.agents.config_parts import Entry, JsonPart, Part
from periplus.interop.agents.editing.jsonc_editing import Json
from periplus.interop.agents.shared_parts import instructions, server_entry, skill

NAME: Final = "cursor"
EVENTS: Final = (
    ("sessionStart", ""),
    ("beforeSubmitPrompt", ""),
    ("preToolUse", "Write|Edit|Delete|Shell"),
    ("postToolUse", ""),
    ("postToolUseFailure", ""),
    ("subagentStop", ""),
    ("preCompact", ""),
    ("stop", ""),
    ("sessionEnd", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    base = site.folder if in_project else site.home
    folder = os.path.join(base, ".cursor")
    # Cursor starts servers in any folder, and gives the project's folder only by this variable.
    server: dict[str, Json] = {**server_entry(site), "env": {"PERIPLUS_STORE": "${workspaceFolder}"}}
    hooks = []
    for event, matcher in EVENTS:
        hook: dict[str, Json] = {"command": hook_command(site, event, NAME), "timeout": HOOK_SECONDS}
        hooks.append(Entry(("hooks", event), {**hook, "matcher": matcher} if matcher else hook, is_item=True))
    parts: tuple[Part, ...] = (
        JsonPart(os.path.join(folder, "mcp.json"), "server", NAME, (Entry(("mcpServers", "periplus"), server),)),
        JsonPart(os.path.join(folder, "hooks.json"), "hooks", NAME, tuple(hooks), defaults=(Entry(("version",), 1),)),
    )
    if in_project:  # Cursor's user rules are not in a file
        parts = (*parts, instructions(site, os.path.join(base, "AGENTS.md")))
    return (*parts, skill(os.path.join(base, ".agents", "skills")))


AGENT: Final = Agent(
    NAME, "Cursor", ("cursor", "cursor-agent"), (".cursor",), (".cursor",), _parts,
    "Reload the window, and enable the server under Settings, Tools & MCP.",
    sources=("cursor.com/docs: hooks, mcp, rules, skills",),
    format="cursor",
)  # fmt: skip
