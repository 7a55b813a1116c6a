"""What is known of an agent: how it is found on a machine, and what it reads from where."""

from __future__ import annotations

__all__ = ["Agent", "Scope", "Site", "hook_command", "hook_groups"]

import shlex
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.interop.agents.config_parts import Entry, Part
from periplus.interop.agents.jsonc_editing import Json

Scope: TypeAlias = Literal["project", "user"]

HOOK_SECONDS: Final = 10


class Site(NamedTuple):
    """Where to connect. ``folder`` is the project's; ``config`` is where programs keep their settings, ``codex`` where Codex does.

    ``command`` starts Periplus. ``rules`` is what AGENTS.md says of this project, ``greeting`` what a person's own file says of all
    projects; both are whole lines.
    """

    scope: Scope
    folder: str
    home: str
    config: str
    codex: str
    is_mac: bool
    command: tuple[str, ...]
    rules: str
    greeting: str


class Agent(NamedTuple):
    """``programs`` and ``folders`` (of the home folder, or with ``{config}`` of the settings) by which it is found.

    ``primary`` says what only this agent reads. ``next_step`` is what a person still has to do in it.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    folders: tuple[str, ...]
    in_project: tuple[str, ...]
    parts: Callable[[Site], tuple[Part, ...]]
    next_step: str


def hook_command(site: Site, event: str, agent: str) -> str:
    """The shell's line that runs a hook. A project's files reach people who have no Periplus: for them it does nothing."""
    line = shlex.join((*site.command, "hook", event, "--agent", agent))
    if site.scope == "user":
        return line
    return f"command -v {shlex.quote(site.command[0])} >/dev/null 2>&1 && {line} || true"


def hook_groups(
    site: Site, agent: str, events: Sequence[tuple[str, str]], *, timeout: int = HOOK_SECONDS, name: str = ""
) -> tuple[Entry, ...]:
    """Hooks in the form that Claude Code, Codex and Gemini CLI share: groups with a matcher, each with its commands."""
    entries = []
    for event, matcher in events:
        hook: dict[str, Json] = {"type": "command", "command": hook_command(site, event, agent), "timeout": timeout}
        if name:
            hook = {"name": name, **hook}
        group: dict[str, Json] = {"matcher": matcher} if matcher else {}
        entries.append(Entry(("hooks", event), {**group, "hooks": [hook]}, is_item=True))
    return tuple(entries)
