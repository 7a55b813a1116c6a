"""A look at the whole store from time to time, by a process that nobody waits for.

What is served by the index is not read in the journal, so a byte that changed there is met when somebody asks for just that, or for a rebuild, and
by then the copies that had it may be gone. Once a week, at the end of a session, everything that cannot be made anew is read and checked as
``doctor`` does it; what was found is kept until it is not found any more.
"""

from __future__ import annotations

__all__ = ["AGAIN_S", "CHECKUP_S", "CheckUp", "check_up_if_due", "forget_checkup", "last_checkup", "told_of_damage"]

import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import LockTimeoutError, environment_failure
from periplus.base.files import read_plain, write_atomic
from periplus.base.locks import Lock

if TYPE_CHECKING:
    from periplus.project.project import Project

CHECKUP_S: Final = 7 * 86_400
AGAIN_S: Final = 3_600  # where errors were found: somebody may be mending them
_FILE: Final = os.path.join("cache", "checkup.json")
_FILE_BYTES_MAX: Final = 64 << 10
_TOLD_MAX: Final = 3
_WHAT_CHARACTERS_MAX: Final = 300


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
        found = msgspec.json.decode(read_plain(os.path.join(root, _FILE), _FILE_BYTES_MAX), type=CheckUp)
    except (OSError, ValueError):  # also what is no JSON, or not of this form
        return None
    return found if found.v == 1 else None


def check_up_if_due(project: Project) -> CheckUp | None:
    """Look at everything that cannot be made anew where that was not done for a week, or for an hour where errors were found; None where it is not due,
    or another process looks.

    Raises what ``Project.examine`` raises, and EnvironmentFailure.
    """
    folder, files = os.path.join(project.root, os.path.dirname(_FILE)), project.journal.files
    try:
        files.make_folder(folder)
        with Lock(os.path.join(folder, "checkup.lock")).holding(0.0):
            return _checked_up(project) if _is_due(project) else None
    except LockTimeoutError:
        return None
    except OSError as error:
        raise environment_failure(error, "make", folder) from error


def _is_due(project: Project) -> bool:
    last, now_ms = last_checkup(project.root), project.journal.clock.now_ms()
    return last is None or not 0 <= now_ms - last.at_ms < (AGAIN_S if last.errors else CHECKUP_S) * 1_000


def _checked_up(project: Project) -> CheckUp:
    from periplus.journal.doctor import lies_elsewhere

    now_ms = project.journal.clock.now_ms()
    problems = [
        one for one in project.examine(derived=False).problems if one.severity == "error" and not lies_elsewhere(one)
    ]
    told = tuple(_line(one.what, one.path and os.path.relpath(one.path, project.root)) for one in problems[:_TOLD_MAX])
    found = CheckUp(1, now_ms, format_ms(now_ms), len(problems), told)
    write_atomic(project.journal.files, os.path.join(project.root, _FILE), msgspec.json.encode(found), durable=False)
    return found


def forget_checkup(project: Project) -> None:
    """What was found was mended, or will be found again. Raises nothing."""
    try:
        project.journal.files.unlink(os.path.join(project.root, _FILE))
    except OSError:
        pass


def told_of_damage(root: str) -> str:
    """What the last one found wrong, in a sentence; empty where that was nothing."""
    found = last_checkup(root)
    if found is None or not found.errors or not found.told:
        return ""
    more = f", and {found.errors - 1:,} more" if found.errors > 1 else ""
    return f"on {found.at[:10]} the store was found damaged: {found.told[0]}{more}"


def _line(what: str, path: str) -> str:
    text = " ".join(f"{what} ({path})".split() if path else what.split())
    return text if len(text) <= _WHAT_CHARACTERS_MAX else f"{text[: _WHAT_CHARACTERS_MAX - 1]}…"
