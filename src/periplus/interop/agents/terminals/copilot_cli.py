"""Copilot CLI: ``.github/mcp.json`` or ``~/.copilot/mcp-config.json``, hooks, ``AGENTS.md``, the shared skills.

Copilot CLI and VS Code load all hook files of the same folder, and Copilot CLI also loads those of Claude Code. A hook
of ours may therefore run in either program. ``periplus hook`` recognises Copilot CLI by an environment variable, so that
a session is recorded once, under its own agent.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site, hook_command
from periplus.interop.agents.config_parts import Entry, JsonPart, Part
from periplus.interop.agents.editing.jsonc_editing import Json
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "copilot-cli"
# For events in this spelling, Copilot CLI names tools and arguments as VS Code and Claude Code do.
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", "Edit|Write|Bash"),
    ("PostToolUse", ""),
    ("PostToolUseFailure", ""),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
    ("SessionEnd", ""),
)


def _hooks(site: Site) -> tuple[Entry, ...]:
    """Return the hooks. A failing hook refuses the call, so a hook must not fail where its program is missing."""
    entries = []
    for event, matcher in EVENTS:
        line = hook_command(site, event, NAME)
        command = line if line.endswith("|| true") else f"{line} || true"
        hook: dict[str, Json] = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        entries.append(Entry(("hooks", event), {**hook, "matcher": matcher} if matcher else hook, is_item=True))
    return tuple(entries)


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    own = os.path.join(site.home, ".copilot")
    path = os.path.join(site.folder, ".github", "mcp.json") if in_project else os.path.join(own, "mcp-config.json")
    text = os.path.join(site.folder, "AGENTS.md") if in_project else os.path.join(own, "copilot-instructions.md")
    hooks = os.path.join(os.path.join(site.folder, ".github") if in_project else own, "hooks", "periplus-cli.json")
    return (
        json_server(path, NAME, {"type": "local", **server_entry(site), "tools": ["*"]}),
        JsonPart(hooks, "hooks", NAME, _hooks(site), (Entry(("version",), 1),)),
        instructions(site, text),
        skill(os.path.join(base_of(site), ".agents", "skills")),
    )


AGENT: Final = Agent(
    NAME, "Copilot CLI", ("copilot",), (".copilot/mcp-config.json", ".copilot/session-state"), (".github/mcp.json",), _parts,
    "Restart it, and trust the folder when it asks; /mcp show lists the server.",
    tried="1.0",
    sources=("docs.github.com: copilot/how-tos/copilot-cli/customize-copilot, copilot/reference/hooks-reference",),
    format="copilot-cli",
)  # fmt: skip
