"""Hermes: an entry of ``mcp_servers`` and hooks in ``~/.hermes/config.yaml``, skills there, ``AGENTS.md`` in a project.

``SOUL.md`` replaces the text in which Hermes describes itself. So ``connect`` makes no such file, and adds the block to
an existing one.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site, hook_command
from periplus.interop.agents.config_parts import Part, YamlHooksPart, YamlPart
from periplus.interop.agents.editing.yaml_editing import YamlValue
from periplus.interop.agents.shared_parts import instructions, skill

NAME: Final = "hermes"
EVENTS: Final = (
    ("on_session_start", ""),
    ("pre_llm_call", ""),  # once for each prompt
    ("pre_tool_call", "patch|write_file|terminal"),
    ("post_tool_call", ""),
    ("subagent_stop", ""),
    ("on_session_end", ""),  # of a turn
    ("on_session_finalize", ""),
)


def _parts(site: Site) -> tuple[Part, ...]:
    if site.scope == "project":
        return (instructions(site, os.path.join(site.folder, "AGENTS.md")),)
    folder = os.path.join(site.home, ".hermes")
    values: dict[str, YamlValue] = {"command": site.command[0], "args": (*site.command[1:], "mcp")}
    config = os.path.join(folder, "config.yaml")
    parts: tuple[Part, ...] = (
        YamlPart(config, "server", ("mcp_servers", "periplus"), values),
        YamlHooksPart(config, "hooks", NAME, {event: _hook(site, event, matcher) for event, matcher in EVENTS}),
        skill(os.path.join(folder, "skills")),
    )
    soul = os.path.join(folder, "SOUL.md")
    return (*parts, instructions(site, soul)) if os.path.lexists(soul) else parts


def _hook(site: Site, event: str, matcher: str) -> dict[str, str | int]:
    hook: dict[str, str | int] = {"command": hook_command(site, event, NAME), "timeout": HOOK_SECONDS}
    return {**hook, "matcher": matcher} if matcher else hook


AGENT: Final = Agent(
    NAME, "Hermes", ("hermes",), (".hermes",), (".hermes.md", "HERMES.md"), _parts,
    "Start it again, and allow the hooks when it asks. Its server and hooks are for all projects, and come with --scope user.",
    tried="0.19",
    sources=("hermes-agent 0.19.0: tools/mcp_tool.py, agent/shell_hooks.py, agent/prompt_builder.py, tools/skills_tool.py",),
    lacks=(
        "no servers of one project",
        "where a project has .hermes.md or HERMES.md, it does not read AGENTS.md",
        "hooks tell it facts with a prompt only, the brief with the first one; of a tool call they can only refuse",
    ),
    format="hermes",
    unmarked=("project",),
)  # fmt: skip
