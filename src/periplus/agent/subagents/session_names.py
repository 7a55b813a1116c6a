"""The names of subagents' sessions: they say whose a subagent is, and which call of it began it.

``run-4f/2.3.1`` is that of the first call of the third step of the second turn of ``run-4f``. A name follows from the place of its call and
from nothing else: a call that is run again after a crash finds the session that it began.
"""

from __future__ import annotations

__all__ = ["child_name", "lineage_of", "parent_of"]

import re
from typing import Final

_CHILD: Final = re.compile(r"(.+)/[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")


def child_name(parent: str, turn: int, step: int, place: int) -> str:
    return f"{parent}/{turn}.{step}.{place}"


def parent_of(name: str) -> str:
    """The session that a subagent works for, by the name of its own; empty where the name is no subagent's."""
    match = _CHILD.fullmatch(name)
    return match[1] if match else ""


def lineage_of(name: str) -> tuple[str, ...]:
    """A session, the one that it works for, and so on."""
    parent = parent_of(name)
    return (name, *lineage_of(parent)) if parent else (name,)
