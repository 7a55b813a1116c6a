"""Claude Code: servers in ``.mcp.json`` or ``~/.claude.json``, hooks in ``settings.json``, ``CLAUDE.md``, skills of its own."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site, hook_groups
from periplus.interop.agents.config_parts import BlockPart, Entry, JsonPart, Part
from periplus.interop.agents.shared_parts import instructions, server_entry, skill

NAME: Final = "claude-code"
EDITS: Final = "Edit|MultiEdit|Write|NotebookEdit"
READS: Final = "Read|NotebookRead"
EVENTS: Final = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PreToolUse", f"{EDITS}|{READS}|Bash"),
    ("PostToolUse", ""),
    ("PostToolUseFailure", ""),
    ("SubagentStop", ""),
    ("PreCompact", ""),
    ("Stop", ""),
    ("SessionEnd", ""),
)
IMPORT: Final = "@AGENTS.md"


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    base = site.folder if in_project else site.home
    folder = os.path.join(base, ".claude")
    server = {"type": "stdio", **server_entry(site)}
    parts: list[Part] = [
        JsonPart(os.path.join(base, ".mcp.json" if in_project else ".claude.json"), "server", NAME,
                 (Entry(("mcpServers", "periplus"), server),)),
        JsonPart(os.path.join(folder, "settings.json"), "hooks", NAME, hook_groups(site, NAME, EVENTS)),
    ]  # fmt: skip
    if in_project:
        parts += [
            instructions(site, os.path.join(base, "AGENTS.md")),
            BlockPart(os.path.join(base, "CLAUDE.md"), "instructions", f"{IMPORT}\n", unless=IMPORT),
        ]
    else:
        parts.append(instructions(site, os.path.join(folder, "CLAUDE.md")))
    return (*parts, skill(os.path.join(folder, "skills")))


AGENT: Final = Agent(
    NAME, "Claude Code", ("claude",), (".claude",), (".claude", "CLAUDE.md"), _parts,
    "Restart it; it asks once whether you trust the server of this project.",
    tried="2.1",
    sources=("code.claude.com/docs: hooks, mcp, memory, skills",),
    format="claude-code",
)  # fmt: skip
