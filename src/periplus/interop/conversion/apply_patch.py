"""Patch format of Codex's ``apply_patch``, as file changes.

::

    *** Begin Patch
    *** Add File: PATH        then its lines, each after a +
    *** Delete File: PATH
    *** Update File: PATH     then, where it is renamed, *** Move to: PATH, then hunks: @@, and lines after ' ', - or +
    *** End Patch
"""

from __future__ import annotations

__all__ = ["Change", "find_patch", "parse_patch"]

from typing import Final, Literal, NamedTuple

_BEGIN: Final = "*** Begin Patch"
_END: Final = "\n*** End Patch"  # at the start of a line: lines of a file have a + before them
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "
_LAST_LINE: Final = "*** End of File"
CHANGES_MAX: Final = 10_000


class Change(NamedTuple):
    """Change of one file: ``old`` and ``new`` of an edit, the contents (``new``) of a write, the ``target`` of a
    move.
    """

    kind: Literal["write", "edit", "delete", "move"]
    path: str
    old: str = ""
    new: str = ""
    target: str = ""


def find_patch(text: str) -> str | None:
    """Return the patch within ``text``; None where there is none."""
    start = text.find(_BEGIN)
    if start < 0:
        return None
    end = text.find(_END, start)
    return text[start : end if end >= 0 else len(text)]


def parse_patch(text: str) -> list[Change]:
    """Return the changes of a patch in order, one edit per hunk; unknown parts are left out."""
    changes: list[Change] = []
    path = target = ""
    kind = ""
    old: list[str] = []
    new: list[str] = []

    def close_hunk() -> None:
        if kind == "update" and (old or new) and old != new:
            changes.append(Change("edit", path, "\n".join(old), "\n".join(new)))
        old.clear()
        new.clear()

    def close_file() -> None:
        nonlocal kind, target
        if kind == "add":
            changes.append(Change("write", path, new="".join(line + "\n" for line in new)))
            new.clear()
        close_hunk()
        if target:
            changes.append(Change("move", path, target=target))
        kind = target = ""

    for line in text.split("\n"):
        if len(changes) >= CHANGES_MAX:
            break
        if line.startswith("*** "):
            if line.startswith(_MOVE) and kind == "update":
                target = line[len(_MOVE) :].strip()
                continue
            if line.startswith(_LAST_LINE):
                continue
            close_file()
            for mark, name in ((_ADD, "add"), (_UPDATE, "update"), (_DELETE, "delete")):
                if line.startswith(mark):
                    path, kind = line[len(mark) :].strip(), name
            if kind == "delete":
                changes.append(Change("delete", path))
        elif kind == "add":
            if line.startswith("+"):
                new.append(line[1:])
        elif kind == "update":
            if line.startswith("@@"):
                close_hunk()
            elif line.startswith("-"):
                old.append(line[1:])
            elif line.startswith("+"):
                new.append(line[1:])
            elif line.startswith(" ") or not line:
                old.append(line[1:])
                new.append(line[1:])
    close_file()
    return changes
