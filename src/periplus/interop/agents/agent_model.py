"""Model of an agent: how it is found on a machine, and which files it reads."""

from __future__ import annotations

__all__ = ["Agent", "Scope", "Site", "hook_command", "hook_groups"]

import shlex
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.interop.agents.config_parts import Entry, Part
from periplus.interop.agents.editing.jsonc_editing import Json

Scope: TypeAlias = Literal["project", "user"]

HOOK_SECONDS: Final = 10


class Site(NamedTuple):
    """Place of a connection. ``folder`` is the project's; ``config`` holds the settings of programs, ``codex`` those
    of Codex.

    ``command`` starts Periplus. ``rules`` is our text in AGENTS.md of the project, ``greeting`` that in a person's
    own file for all projects; both are whole lines.
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
    """An agent, found by ``programs`` and ``folders`` (of the home folder, or with ``{config}`` of the settings).

    ``in_project`` are its own files in a project. ``parts`` are what it gets at a site; the first, which is in no other
    agent's file, marks that it is connected. ``next_step`` is what a person still has to do in it.

    ``tried`` is the version of the program that was driven with these files; ``listed`` the version that was seen to list
    our server from them, and not driven. Both are empty where they are by its documentation alone.
    ``sources`` are that documentation or the package whose code was read. ``lacks`` are sentences on what the agent
    cannot do, or what `connect` does not do for it. ``format`` is the name of its sessions in `trail import`.
    ``unmarked`` are the scopes in which it has nothing but what others have too: there it is never said to be connected.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    folders: tuple[str, ...]
    in_project: tuple[str, ...]
    parts: Callable[[Site], tuple[Part, ...]]
    next_step: str
    tried: str = ""
    listed: str = ""
    sources: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    format: str = ""
    unmarked: tuple[Scope, ...] = ()


def hook_command(site: Site, event: str, agent: str) -> str:
    """Return the shell command of a hook. A project's files reach people without Periplus: it does nothing for them."""
    line = shlex.join((*site.command, "hook", event, "--agent", agent))
    if site.scope == "user":
        return line
    return f"command -v {shlex.quote(site.command[0])} >/dev/null 2>&1 && {line} || true"


def hook_groups(
    site: Site, agent: str, events: Sequence[tuple[str, str]], *, timeout: int = HOOK_SECONDS, name: str = ""
) -> tuple[Entry, ...]:
    """Return hooks in the form of Claude Code, Codex and Gemini CLI: groups with a matcher, each with its commands."""
    entries = []
    for event, matcher in events:
        hook: dict[str, Json] = {"type": "command", "command": hook_command(site, event, agent), "timeout": timeout}
        if name:
            hook = {"name": name, **hook}
        group: dict[str, Json] = {"matcher": matcher} if matcher else {}
        entries.append(Entry(("hooks", event), {**group, "hooks": [hook]}, is_item=True))
    return tuple(entries)
