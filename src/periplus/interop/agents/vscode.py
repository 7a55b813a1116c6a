"""VS Code with Copilot: ``.vscode/mcp.json``, hooks in a file of ours in ``.github/hooks``, ``AGENTS.md``, shared skills."""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site, hook_command
from periplus.interop.agents.config_parts import Entry, JsonPart, Part
from periplus.interop.agents.shared_parts import code_settings, instructions, server_entry, skill

NAME: Final = "vscode"
EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStop", "PreCompact", "Stop")


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    servers = os.path.join(site.folder, ".vscode") if in_project else code_settings(site)
    hooks_folder = os.path.join(site.folder, ".github") if in_project else os.path.join(site.home, ".copilot")
    server = {"type": "stdio", **server_entry(site), "cwd": "${workspaceFolder}"}
    hooks = tuple(
        Entry(
            ("hooks", event),
            {"type": "command", "command": hook_command(site, event, NAME), "timeout": HOOK_SECONDS},
            is_item=True,
        )
        for event in EVENTS
    )
    parts: tuple[Part, ...] = (
        JsonPart(os.path.join(servers, "mcp.json"), "server", NAME, (Entry(("servers", "periplus"), server),)),
        JsonPart(os.path.join(hooks_folder, "hooks", "periplus.json"), "hooks", NAME, hooks, (Entry(("version",), 1),)),
    )
    if in_project:
        parts = (*parts, instructions(site, os.path.join(site.folder, "AGENTS.md")))
    return (*parts, skill(os.path.join(site.folder if in_project else site.home, ".agents", "skills")))


AGENT: Final = Agent(
    NAME, "VS Code", ("code",), (".vscode", "{config}/Code"), (".vscode",), _parts,
    "Start the server once: MCP: List Servers in the command palette.",
    sources=("microsoft/vscode-docs: docs/agent-customization",),
    format="copilot-chat",
)  # fmt: skip
