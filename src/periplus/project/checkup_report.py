"""What the last weekly examination of the store found."""

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
    """When it began, in ms since 1970 and for people; how many errors there were (damage to what was acknowledged), and the first of them."""

    v: int
    at_ms: int
    at: str
    errors: int
    told: tuple[str, ...]


def last_checkup(root: str) -> CheckUp | None:
    """What the last one of the store ``root`` found; None where there was none, or nobody can tell."""
    try:
        found = msgspec.json.decode(read_plain(os.path.join(root, FILE), _FILE_BYTES_MAX), type=CheckUp)
    except (OSError, ValueError):  # also what is no JSON, or not of this form
        return None
    return found if found.v == 1 else None


def forget_checkup(project: ProjectStore) -> None:
    """What was found was mended, or will be found again. Raises nothing."""
    try:
        project.journal.files.unlink(os.path.join(project.root, FILE))
    except OSError:
        pass


def told_of_damage(root: str) -> str:
    """What the last one found wrong, in a sentence; empty where that was nothing."""
    found = last_checkup(root)
    if found is None or not found.errors or not found.told:
        return ""
    more = f", and {found.errors - 1:,} more" if found.errors > 1 else ""
    return f"on {found.at[:10]} the store was found damaged: {found.told[0]}{more}"
