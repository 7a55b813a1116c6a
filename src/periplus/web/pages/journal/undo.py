"""Undo a session or records: first what it would do, then the deed."""

from __future__ import annotations

__all__ = ["UndoEntity", "UndoPage", "undo", "undo_plan"]

import re
import secrets
import shlex
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from periplus.base.errors import ConflictError, NotFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.field_reversal import content_of
from periplus.memory.coordination.sessions import session_named
from periplus.web.pages.journal.field_differences import FieldDifference, field_differences, text_of
from periplus.web.pages.journal.records import lineage_of, record_address
from periplus.web.pages.model import Asked, Done, Form, Query, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.journal.history.undo import Undoing, Undone
    from periplus.project import Project
    from periplus.web.background import Job

ENTITIES_SHOWN_MAX: Final = 200
DIFFERENCES_SHOWN_MAX: Final = 40
RECORDS_SHOWN_MAX: Final = 100
RECORDS_MAX: Final = 20_000
PLANNED_AT_ONCE: Final = 20_000  # records of a journal that is searched within a request; more in the background
PLANNED_RECORDS: Final = 500
_UNDOING: Final = "undoing "
_KEY: Final = re.compile(r"[0-9a-f]{20}")
_WRITTEN: Final = ("restored", "deleted")
_RANGE: Final = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")


class What(NamedTuple):
    """Selection of an undo: a session, records, or the records of a session among some."""

    session: str
    seqs: tuple[int, ...]
    lineage: str
    record: str


_NOTHING: Final = What("", (), "", "")


class UndoEntity(NamedTuple):
    """Outcome of an undo for one entity. ``fields`` is the difference from the present content, for the first ones."""

    item_type: str
    item_id: str
    text: str
    outcome: str
    kind: str
    seqs: tuple[int, ...]
    changed: tuple[str, ...]
    kept: tuple[str, ...]
    reason: str
    differences: tuple[FieldDifference, ...]


class UndoPage(NamedTuple):
    """Outcome of an undo, before it is done; ``entities`` is None where nothing was named yet, or it is being found out (``job``).

    ``plan`` is a digest of all of it, which the form sends along: what is done is what was shown.
    """

    what: What
    entities: tuple[UndoEntity, ...] | None
    counts: tuple[tuple[str, int], ...]
    records: tuple[tuple[int, str], ...]
    record_count: int
    along: tuple[int, ...]
    left_out: int
    is_anything_written: bool
    plan: str
    key: str
    job: Job | None


def undo_plan(asked: Asked) -> View | Done:
    """Show what undoing a session or records would do. Nothing is written."""
    project = asked.project
    if asked.query.text("doing"):
        return _doing(asked, asked.query.text("doing"))
    project.journal.refresh()
    what = _what(project, asked.query)
    if not what.session and not what.seqs:
        empty = UndoPage(what, None, (), (), 0, (), 0, False, "", "", None)
        return View("journal/undo.html", "Undo", {"page": empty}, "periplus undo --session ID --dry-run")
    plan, job = _planned(asked, what)
    shown = (
        _shown(project, what, plan) if plan is not None else UndoPage(what, None, (), (), 0, (), 0, False, "", "", job)
    )
    return View("journal/undo.html", "Undo", {"page": shown}, f"{_command(what)} --dry-run")


def undo(asked: Asked, form: Form) -> Done:
    """Undo what the form names, if that would still do what was shown. Raises ConflictError where it would not.

    In a long journal it is done in the background, and the browser is sent to where that is told.
    """
    project = asked.project
    project.journal.refresh()
    what, shown, key = _what(project, form), form.text("plan"), form.text("key")
    if not _KEY.fullmatch(key):
        raise UsageError(
            "the form has no key of this page", safe="Nothing was written.", mend="Look at it again, then decide."
        )
    if _is_short(project, what):
        return _undone(what, shown, key, project)
    asked.context.background.start(f"{_UNDOING}{key}", partial(_undone, what, shown, key))
    return Done(f"/journal/undo?doing={key}", "")


def _undone(
    what: What, shown: str, key: str, project: Project, progress: Callable[[int, int], None] = lambda *_: None
) -> Done:
    """Undo ``what`` if its plan is still the one with the digest ``shown``; return what is said of it, and where that can be seen."""
    if _digest(_plan(what, project, progress)) != shown:
        raise ConflictError(
            "what this would do has changed since it was shown", safe="Nothing was written.", mend="Look at it again, then decide.",
        )  # fmt: skip
    done = project.undo(seqs=what.seqs, session=what.session, lineage=what.lineage, key=key, progress=progress)
    written = done.receipt
    conflicts = sum(one.outcome == "conflict" for one in done.entities)
    kept = f" {conflicts:,} in conflict: not changed." if conflicts else ""
    if written is None or written.last_seq < written.first_seq:
        return Done("/journal", f"Nothing was written.{kept}")
    span = f"{written.first_seq}-{written.last_seq}" if written.last_seq > written.first_seq else f"{written.first_seq}"
    return Done(
        record_address(written.first_seq),
        f"Undone by record {span}.{kept} To redo the change: periplus undo --seq {span}",
    )


def _doing(asked: Asked, key: str) -> View | Done:
    """Tell how far an undo in the background is; when it has ended, go where its first record is shown."""
    job = asked.context.background.job(f"{_UNDOING}{key}")
    if job is None:
        raise NotFoundError("there is no such undo under way", mend="See the journal for what was written.")
    if job.error is not None:
        raise job.error
    if not job.is_running:
        done: Done = job.result  # type: ignore[assignment]  # as ``_undone`` made it
        return done
    page = UndoPage(_NOTHING, None, (), (), 0, (), 0, False, "", "", job)
    return View("journal/undo.html", "Undo", {"page": page}, "periplus log")


def _what(project: Project, query: Query) -> What:
    """Return what an address or a form names. Raises UsageError, NotFoundError."""
    record, session = query.text("record"), query.text("session")
    lineage = query.text("lineage")
    lineage = lineage_of(project, lineage)[0] if lineage and lineage != "all" else ""
    found = _RANGE.fullmatch(record.replace(" ", "")) if record else None
    if record and found is None:
        raise UsageError(f"a record is a number, or FIRST-LAST, not {record[:40]!r}", safe="Nothing was changed.")
    seqs: Sequence[int] = ()
    if found is not None:
        seqs = range(int(found[1]), int(found[2] or found[1]) + 1)
        if not seqs or len(seqs) > RECORDS_MAX:
            raise UsageError(
                f"{record[:40]!r} is not a range of 1 to {RECORDS_MAX:,} records", safe="Nothing was changed."
            )
    return What(session_named(project.journal, session) if session else "", tuple(seqs), lineage, record)


def _planned(asked: Asked, what: What) -> tuple[Undoing | None, Job | None]:
    """Return the plan, or the job that makes it: in a long journal its records are searched in the background."""
    journal, background = asked.project.journal, asked.context.background
    if _is_short(asked.project, what):
        return _plan(what, asked.project), None
    end = journal.end(what.lineage or journal.lineage).next_seq - 1
    name = f"undo {what.lineage} {what.session} {what.record} {end}"
    job = background.job(name) or background.start(name, partial(_plan, what))
    if job.error is not None:
        raise job.error
    plan: Undoing | None = None if job.is_running else job.result  # type: ignore[assignment]  # as ``_plan`` made it
    return plan, job


def _is_short(project: Project, what: What) -> bool:
    """Return True if a request may plan it: records are found at once, those of a session in a short journal only."""
    journal = project.journal
    end = journal.end(what.lineage or journal.lineage).next_seq - 1
    is_short = end <= PLANNED_AT_ONCE or (not what.session and len(what.seqs) <= PLANNED_RECORDS)
    return is_short and not journal.index.has_floors


def _plan(what: What, project: Project, progress: Callable[[int, int], None] = lambda *_: None) -> Undoing:
    return project.undo(seqs=what.seqs, session=what.session, lineage=what.lineage, dry_run=True, progress=progress)


def _shown(project: Project, what: What, plan: Undoing) -> UndoPage:
    of = "" if plan.lineage == project.journal.lineage else plan.lineage
    ordered = sorted(plan.entities, key=lambda one: one.outcome != "conflict")
    counts: dict[str, int] = {}
    for one in plan.entities:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    entities = tuple(
        _entity(project, one, with_differences=place < DIFFERENCES_SHOWN_MAX)
        for place, one in enumerate(ordered[:ENTITIES_SHOWN_MAX])
    )
    return UndoPage(
        what, entities, tuple(sorted(counts.items())), tuple((seq, record_address(seq, of)) for seq in plan.seqs[:RECORDS_SHOWN_MAX]),
        len(plan.seqs), plan.along[:RECORDS_SHOWN_MAX], max(0, len(ordered) - ENTITIES_SHOWN_MAX),
        any(one.outcome in _WRITTEN for one in plan.entities), _digest(plan), secrets.token_hex(10), None,
    )  # fmt: skip


def _entity(project: Project, one: Undone, *, with_differences: bool) -> UndoEntity:
    kind = {"restored": "good", "deleted": "warn", "conflict": "bad"}.get(one.outcome, "quiet")
    differences: tuple[FieldDifference, ...] = ()
    now = content_of(project.journal.get(one.item_type, one.item_id)) if with_differences else None
    if with_differences and one.outcome in _WRITTEN:
        differences = field_differences(now, one.content)
    return UndoEntity(
        one.item_type, one.item_id, text_of(now or one.content or {}), one.outcome, kind, one.seqs[:RECORDS_SHOWN_MAX],
        one.fields if one.outcome == "restored" else (), one.kept, one.reason, differences
    )  # fmt: skip


def _digest(plan: Undoing) -> str:
    """Return a digest of what a plan does to which versions."""
    told = [(*one[:7], one.expect) for one in plan.entities]
    return sha256(repr((plan.lineage, plan.seqs, told)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _command(what: What) -> str:
    parts = ["periplus undo"]
    parts += [f"--session {shlex.quote(what.session)}"] if what.session else []
    parts += [f"--seq {what.record.replace(' ', '')}"] if what.record else []
    parts += [f"--lineage {what.lineage}"] if what.lineage else []
    return " ".join(parts)
