"""Memory as it was after a record, and what changed between two."""

from __future__ import annotations

__all__ = ["DifferencePage", "PastEntity", "PastPage", "difference", "past"]

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.past_state import (
    content_at,
    content_before,
    counted_states,
    first_between,
    last_records,
)
from periplus.memory.entities.types import NOT_REMEMBERED, rows_of, state_of
from periplus.web.pages.journal.field_differences import (
    TEXT_CHARACTERS_MAX,
    FieldDifference,
    field_differences,
    text_of,
)
from periplus.web.pages.journal.older_records import OlderRecords, older_records
from periplus.web.pages.journal.records import RecordRow, lineage_of, row_of
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.journal import IndexedRecord
    from periplus.project import Project
    from periplus.web.background import Job

ROWS: Final = 50
CHANGED_ROWS: Final = 30
COUNTED_AT_ONCE: Final = (
    10_000  # records of a journal whose states are counted within a request; more in the background
)
_MARKS_MAX: Final = 8
_WORK: Final = ("plan", "step", "handoff")

Counts = Mapping[tuple[str, str], int]


class PastEntity(NamedTuple):
    """An entity as it was, and the record that made it so. ``is_as_now`` where it has not changed since."""

    row: RecordRow
    state: str
    text: str
    address: str
    is_as_now: bool
    is_gone: bool


class Counted(NamedTuple):
    """The number of entities of a type, whole and by state, largest first."""

    item_type: str
    total: int
    states: tuple[tuple[str, int], ...]


class PastPage(NamedTuple):
    """Memory as it was after record ``seq`` of ``end``. ``counts`` is None while they are counted; ``job`` is the counting then."""

    seq: int
    end: int
    ts: str
    writer: str
    lineage: str
    is_own: bool
    jumps: tuple[int, ...]
    item_type: str
    types: tuple[str, ...]
    entities: tuple[PastEntity, ...]
    older: str
    older_records: OlderRecords
    counts: tuple[Counted, ...] | None
    job: Job | None
    marks: tuple[tuple[int, str], ...]


class ChangedEntity(NamedTuple):
    """An entity that records ``first`` to ``row.seq`` changed: how, and its fields that differ."""

    row: RecordRow
    first: int
    outcome: str
    text: str
    fields: tuple[FieldDifference, ...]


class DifferencePage(NamedTuple):
    """Changes by the records ``first + 1`` to ``last``."""

    first: int
    last: int
    end: int
    lineage: str
    is_own: bool
    first_ts: str
    last_ts: str
    item_type: str
    types: tuple[str, ...]
    entities: tuple[ChangedEntity, ...]
    older: str
    older_records: OlderRecords


def past(asked: Asked) -> View:
    """Show memory as a lineage had it after one of its records."""
    project, query = asked.project, asked.query
    lineage, end = _lineage(asked)
    seq = query.number("seq", end, least=1, most=end)
    types = _types(project)
    item_type = query.choice("type", ("", *types))
    found = last_records(
        project.journal, lineage, 1, seq, types=_one(item_type) or types, before=query.number("before", 0), limit=ROWS
    )  # fmt: skip
    missing = older_records(asked, [lineage])
    counts, job = (None, None) if missing.floors else _counts(asked, lineage, seq, end, types)
    record = _record_at(project, lineage, seq)
    is_own = lineage == project.journal.lineage
    shown = PastPage(
        seq, end, record.ts if record else "", record.writer if record else "", lineage, is_own, _jumps(seq, end), item_type, types,
        tuple(_past_entity(project, one) for one in found.records), asked.link(before=found.before) if found.before else "",
        missing, counts, job, _marks(project, lineage, end),
    )  # fmt: skip
    return View("journal/past.html", f"Memory at record {seq:,}", {"page": shown}, f"periplus show ID --at {seq}")


def difference(asked: Asked) -> View:
    """Show by entity what changed between two records of a lineage."""
    project, query = asked.project, asked.query
    lineage, end = _lineage(asked)
    first = query.number("from", max(0, end - 100), most=end)
    last = query.number("to", end, least=1, most=end)
    if first > last:
        raise UsageError(f"record {first:,} comes after record {last:,}", mend="Exchange the two.")
    types = tuple(rows_of(project.types))
    item_type = query.choice("type", ("", *types))
    found = last_records(
        project.journal, lineage, first + 1, last, types=_one(item_type), before=query.number("before", 0), limit=CHANGED_ROWS
    )  # fmt: skip
    start, stop = (_record_at(project, lineage, seq) for seq in (first, last))
    shown = DifferencePage(
        first, last, end, lineage, lineage == project.journal.lineage, start.ts if start else "", stop.ts if stop else "", item_type, types,
        tuple(_changed_entity(project, one, first + 1) for one in found.records), asked.link(before=found.before) if found.before else "",
        older_records(asked, [lineage]),
    )  # fmt: skip
    of = "" if shown.is_own else f" --lineage {lineage}"
    return View("journal/difference.html", "What changed", {"page": shown}, f"periplus log --since-seq {first}{of}")


def _lineage(asked: Asked) -> tuple[str, int]:
    """Return the lineage and its last seq. Raises NotFoundError where it has no records."""
    asked.project.journal.refresh()
    lineage = next(iter(lineage_of(asked.project, asked.query.text("lineage"))), "")
    end = asked.project.journal.end(lineage).next_seq - 1 if lineage else 0
    if end < 1:
        raise NotFoundError(
            "there are no records yet", mend='The first is made by `periplus remember "…" --type decision`.'
        )
    return lineage, end


def _types(project: Project) -> tuple[str, ...]:
    """Return the types that are remembered, and those of work."""
    return tuple(name for name in rows_of(project.types) if name not in NOT_REMEMBERED or name in _WORK)


def _one(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _record_at(project: Project, lineage: str, seq: int) -> IndexedRecord | None:
    return next(iter(project.journal.index.records("lineage = ? AND seq = ?", (lineage, seq), 1)), None)


def _past_entity(project: Project, record: IndexedRecord) -> PastEntity:
    content = content_at(project.journal, record)
    heads = project.journal.index.heads(record.item_type, record.item_id)
    is_as_now = any(head.version == record.version for head in heads)
    address = f"/memory/{record.item_id}" + ("" if is_as_now else f"?at={record.seq}")
    value = content or {}
    return PastEntity(
        row_of(project, record), state_of(record.item_type, value) if content is not None else "", text_of(value) or record.summary[:TEXT_CHARACTERS_MAX], address,
        is_as_now, content is None,
    )  # fmt: skip


def _changed_entity(project: Project, record: IndexedRecord, first: int) -> ChangedEntity:
    began = first_between(project.journal, record, first)
    before, after = content_before(project.journal, began), content_at(project.journal, record)
    outcome = "changed"
    if before is None:
        outcome = "created" if after is not None else "came and went"
    elif after is None:
        outcome = "deleted"
    return ChangedEntity(
        row_of(project, record), began.seq, outcome, text_of(after or before or {}) or record.summary[:TEXT_CHARACTERS_MAX], field_differences(before, after)
    )  # fmt: skip


def _jumps(seq: int, end: int) -> tuple[int, ...]:
    """Return distances to records nearby and further off, of those that there are."""
    step = max(10, end // 100)
    return tuple(distance for distance in (-step, -1, 1, step) if 1 <= seq + distance <= end)


def _marks(project: Project, lineage: str, end: int) -> tuple[tuple[int, str], ...]:
    """Return seqs to jump to, with names: the newest checkpoints."""
    from periplus.journal.checkpoints.checkpoint_files import checkpoint_headers

    found = [
        (header.seq, "checkpoint") for _, _, header in checkpoint_headers(project.journal) if header.lineage == lineage
    ]
    return tuple((seq, name) for seq, name in found[:_MARKS_MAX] if seq <= end)


def _counts(
    asked: Asked, lineage: str, seq: int, end: int, types: Sequence[str]
) -> tuple[tuple[Counted, ...] | None, Job | None]:
    """Return the counts at a seq: at once in a short journal, otherwise from the background where somebody asks for them."""
    context, project = asked.context, asked.project
    if end <= COUNTED_AT_ONCE:
        made = partial(_counted, project, lineage, seq, types)
        return context.cache.get(("states", project.root, lineage, seq), made), None
    name = f"states {lineage} {seq}"
    job = context.background.job(name)
    if job is None or (not job.is_running and job.error is not None and asked.query.flag("count")):
        if not asked.query.flag("count"):
            return None, None
        job = context.background.start(name, partial(_count, lineage, seq, types))
    if job.is_running or job.error is not None:
        return None, job
    counts: tuple[Counted, ...] = job.result  # type: ignore[assignment]  # as ``_count`` made it
    return counts, job


def _count(
    lineage: str, seq: int, types: Sequence[str], project: Project, progress: Callable[[int, int], None]
) -> tuple[Counted, ...]:
    return _counted(project, lineage, seq, types, progress)


def _counted(
    project: Project,
    lineage: str,
    seq: int,
    types: Sequence[str],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Counted, ...]:
    found = counted_states(project.journal, lineage, seq, types, progress)
    by_type: dict[str, dict[str, int]] = {}
    for (item_type, state), count in found.items():
        named = state_of(item_type, {"state": state} if state else {})
        states = by_type.setdefault(item_type, {})
        states[named] = states.get(named, 0) + count
    return tuple(
        Counted(item_type, sum(states.values()), tuple(sorted(states.items(), key=lambda one: (-one[1], one[0]))))
        for item_type, states in sorted(by_type.items(), key=lambda one: (-sum(one[1].values()), one[0]))
    )
