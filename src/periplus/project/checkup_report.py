"""The report of the last weekly checkup of the store."""

from __future__ import annotations

__all__ = ["CheckUp", "forget_checkup", "last_checkup", "told_of_damage"]

import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.files import read_plain

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

FILE: Final = os.path.join("cache", "checkup.json")
_FILE_BYTES_MAX: Final = 64 << 10


class CheckUp(msgspec.Struct, frozen=True):
    """A report: the begin in ms since 1970 and for people; the number of errors (damage to acknowledged records), and
    the first of them.
    """

    v: int
    at_ms: int
    at: str
    errors: int
    told: tuple[str, ...]


def last_checkup(root: str) -> CheckUp | None:
    """Return the last report of the store ``root``; None where there is none, or it cannot be read."""
    try:
        found = msgspec.json.decode(read_plain(os.path.join(root, FILE), _FILE_BYTES_MAX), type=CheckUp)
    except (OSError, ValueError):  # also what is not JSON, or not of this form
        return None
    return found if found.v == 1 else None


def forget_checkup(project: ProjectStore) -> None:
    """Remove the report: its findings were repaired, or will be found again. Raises nothing."""
    try:
        project.journal.files.unlink(os.path.join(project.root, FILE))
    except OSError:
        pass


def told_of_damage(root: str) -> str:
    """Return the findings of the last report in a sentence; empty where there are none."""
    found = last_checkup(root)
    if found is None or not found.errors or not found.told:
        return ""
    more = f", and {found.errors - 1:,} more" if found.errors > 1 else ""
    return f"on {found.at[:10]} the store was found damaged: {found.told[0]}{more}"
