"""Parts that several agents get in the same form: the server, the instructions, the skill; and places that several have."""

from __future__ import annotations

__all__ = ["GREETING", "NO_HOOKS", "base_of", "code_settings", "instructions", "json_server", "server_entry", "skill"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Site
from periplus.interop.agents.config_parts import BlockPart, Entry, JsonPart, WholePart
from periplus.interop.agents.editing.jsonc_editing import Json
from periplus.interop.agents.editing.markdown_block import OPEN_SEAL

GREETING: Final = """\
## Periplus

Projects with a folder `.periplus` at the top keep a memory and a logbook with Periplus. In those, and only there:

- Before a task: `periplus brief "TASK"`. Before you edit: `periplus check PATHS`; leave what others hold, or ask.
- What others would have to learn again: `periplus remember "…" --type decision|constraint|trap|lesson --about PATH`.
- When you stop with work open: `periplus handoff write "…"`.
"""

_SKILL: Final = """\
---
name: periplus
description: This project's memory. Use it before a task, to know why something is as it is, to keep what others would have to learn again, and to hand work over.
---

<!-- Written by `periplus connect`; `periplus disconnect` removes it. {seal} -->

# Periplus

The tools of the server `periplus` and the command `periplus` do the same; take whichever you have. Every command has `--json` and `--help`.

## Before a task

    periplus brief "what you are about to do" --budget 2000

It names the constraints to obey, the traps, the decisions, what others are doing now, and the files that such a task touched before.

## To know why

    periplus recall "question in your own words"
    periplus show ID

Each answer says how fresh it is. What is marked stale was said of code that has changed since: look before you rely on it.

## Before you edit

    periplus check src/auth.py
    periplus claim take src/auth.py

A claim tells others that you work there. Somebody else's claim is a reason to do something else or to ask: `periplus inbox send NAME "…"`.

## What is worth keeping

    periplus remember "Passwords are hashed with scrypt" --type decision --about src/auth.py

- `decision`: a choice, with its reason. `constraint`: a rule to obey. `trap`: a pitfall, and what to do. `lesson`: how something is done here.
- One thing in one sentence, as you would want to find it in a year. Name the files with `--about`.
- Never a secret, never what the code says by itself.

What replaces something older: `periplus evolve ID "what holds now"`.

## When you stop

    periplus handoff write "what is done, what is open, what to look out for"
    periplus claim release
"""


NO_HOOKS: Final = "no hooks are set up: it gets facts only when it asks the server"


def base_of(site: Site) -> str:
    """Return the folder that a site's paths begin with: the project, or the home folder."""
    return site.folder if site.scope == "project" else site.home


def code_settings(site: Site) -> str:
    """Return the folder of a person's settings of VS Code, in which its extensions keep theirs."""
    if site.is_mac:
        return os.path.join(site.home, "Library", "Application Support", "Code", "User")
    return os.path.join(site.config, "Code", "User")


def json_server(
    path: str, agent: str, server: dict[str, Json], *, table: str = "mcpServers", defaults: tuple[Entry, ...] = ()
) -> JsonPart:
    """Return our server as a member of ``table`` of a JSON file."""
    return JsonPart(path, "server", agent, (Entry((table, "periplus"), server),), defaults)


def server_entry(site: Site) -> dict[str, Json]:
    return {"command": site.command[0], "args": [*site.command[1:], "mcp"]}


def instructions(site: Site, path: str) -> BlockPart:
    return BlockPart(path, "instructions", site.rules if site.scope == "project" else site.greeting)


def skill(folder: str) -> WholePart:
    return WholePart(os.path.join(folder, "periplus", "SKILL.md"), "skill", _SKILL.format(seal=OPEN_SEAL))
