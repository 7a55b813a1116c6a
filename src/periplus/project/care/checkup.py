"""Check the whole store once a week, in a process that nobody waits for.

Answers from the index do not read the journal, so a changed byte there would be found only when somebody asks for
just that, or for a rebuild, and by then the copies that had it may be gone. Once a week, at the end of a session,
everything that cannot be rebuilt is read and checked as by ``doctor``; the findings are kept until they are gone.
"""

from __future__ import annotations

__all__ = ["AGAIN_S", "CHECKUP_S", "check_up_if_due"]

import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import LockTimeoutError, environment_failure
from periplus.base.files import write_atomic
from periplus.base.process.locks import Lock
from periplus.project.checkup_report import FILE, CheckUp, last_checkup

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

CHECKUP_S: Final = 7 * 86_400
AGAIN_S: Final = 3_600  # where errors were found: somebody may be mending them
_TOLD_MAX: Final = 3
_WHAT_CHARACTERS_MAX: Final = 300


def check_up_if_due(project: ProjectStore) -> CheckUp | None:
    """Check everything that cannot be rebuilt, where that was not done for a week, or for an hour where errors were
    found; None where it is not due, or another process does it.

    Raises what ``Project.examine`` raises, and EnvironmentFailure.
    """
    folder, files = os.path.join(project.root, os.path.dirname(FILE)), project.journal.files
    try:
        files.make_folder(folder)
        with Lock(os.path.join(folder, "checkup.lock")).holding(0.0):
            return _checked_up(project) if _is_due(project) else None
    except LockTimeoutError:
        return None
    except OSError as error:
        raise environment_failure(error, "make", folder) from error


def _is_due(project: ProjectStore) -> bool:
    last, now_ms = last_checkup(project.root), project.journal.clock.now_ms()
    return last is None or not 0 <= now_ms - last.at_ms < (AGAIN_S if last.errors else CHECKUP_S) * 1_000


def _checked_up(project: ProjectStore) -> CheckUp:
    from periplus.journal.care.doctor import lies_elsewhere
    from periplus.journal.storage.progress import no_progress
    from periplus.project.care.examination import examine

    now_ms = project.journal.clock.now_ms()
    problems = [
        one
        for one in examine(project, no_progress, derived=False).problems
        if one.severity == "error" and not lies_elsewhere(one)
    ]
    told = tuple(_line(one.what, one.path and os.path.relpath(one.path, project.root)) for one in problems[:_TOLD_MAX])
    found = CheckUp(1, now_ms, format_ms(now_ms), len(problems), told)
    write_atomic(project.journal.files, os.path.join(project.root, FILE), msgspec.json.encode(found), durable=False)
    return found


def _line(what: str, path: str) -> str:
    text = " ".join(f"{what} ({path})".split() if path else what.split())
    return text if len(text) <= _WHAT_CHARACTERS_MAX else f"{text[: _WHAT_CHARACTERS_MAX - 1]}…"
