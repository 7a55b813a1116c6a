"""Names of subagent sessions, from which follow the parent session and the call.

``run-4f/2.3.1`` belongs to the first call of the third step of the second turn of ``run-4f``. The name depends only on the place of the
call, so a call that is run again after a crash finds the session that it began.
"""

from __future__ import annotations

__all__ = ["child_name", "lineage_of", "parent_of"]

import re
from typing import Final

_CHILD: Final = re.compile(r"(.+)/[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")


def child_name(parent: str, turn: int, step: int, place: int) -> str:
    return f"{parent}/{turn}.{step}.{place}"


def parent_of(name: str) -> str:
    """The parent session by the name of a subagent; empty if the name is not a subagent's."""
    match = _CHILD.fullmatch(name)
    return match[1] if match else ""


def lineage_of(name: str) -> tuple[str, ...]:
    """A session, its parent, and so on."""
    parent = parent_of(name)
    return (name, *lineage_of(parent)) if parent else (name,)
