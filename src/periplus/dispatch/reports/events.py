"""Events of a dispatch: its course as values, derived from the records of the journal.

Every change of a dispatch, an assignment or a question is a record, so the difference of two versions of an entity is what happened. The
supervisor in the foreground, `periplus dispatch watch --json` in another process and the spans read the same records and tell the same.
"""

from __future__ import annotations

__all__ = ["DISPATCH_TYPES", "Event", "EventKind", "EventReader", "newest_events", "note"]

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.dispatch.reports.stored import assignment_of, dispatch_of, numbered, question_of
from periplus.journal import IndexedRecord, Journal, Writer
from periplus.journal.history.follow import follow
from periplus.journal.history.log import news, of_entity
from periplus.journal.history.record_filter import RecordFilter
from periplus.journal.history.versions import Versions
from periplus.memory.entities.schemas import Assignment, Attempt
from periplus.memory.fulltext.links import linked

EventKind: TypeAlias = Literal["dispatch", "assignment", "run", "question", "integrated", "note"]
DISPATCH_TYPES: Final = ("dispatch", "assignment", "question")
_NEWS_MAX: Final = 1_000
_REST_LOOKS_MAX: Final = 100
_REST_LOOK_S: Final = 0.05
_KNOWN_MAX: Final = 10_000  # entities whose last version is remembered


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="periplus.dispatch.event/1"):
    """An event of a dispatch.

    ``event`` is its kind: a change of the ``dispatch`` or of an ``assignment``, the start or end of a ``run``, a ``question`` that is
    asked or answered, a step that was ``integrated``, a ``note``. ``before`` and ``state`` are the states before and after it, empty
    before the first; of a run they are `started` and how it ended. ``number`` is the step's place in the plan. ``tokens_in`` came
    from no cache, ``cached`` did; ``cost`` is in millionths of a dollar. ``commit`` is that of the target branch. Fields that do not apply are empty or 0.
    """

    v: int = 1
    event: EventKind
    ts: str
    dispatch: str
    assignment: str = ""
    step: str = ""
    number: int = 0
    run: str = ""
    question: str = ""
    agent: str = ""
    purpose: str = ""
    before: str = ""
    state: str = ""
    attempt: int = 0
    text: str = ""
    commit: str = ""
    trail: str = ""
    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0
    wall_ms: int = 0


def note(ts_ms: int, dispatch: str, text: str, assignment: str = "") -> Event:
    """Return a remark that no record holds."""
    return Event(event="note", ts=format_ms(ts_ms), dispatch=dispatch, assignment=assignment, text=text)


class EventReader:
    """Reads the events of one dispatch. Without ``seen`` the first reading begins at the journal's first record."""

    def __init__(self, journal: Journal, dispatch: str, seen: Mapping[str, int] | None = None) -> None:
        self._journal = journal
        self._dispatch = dispatch
        self._seen = dict(seen or {})
        self._known: dict[str, tuple[str, dict[str, JSONValue]]] = {}  # entity: its last version and payload

    def read(self) -> list[Event]:
        """Return the events since the last reading."""
        found: list[Event] = []
        while True:
            told = news(self._journal, self._seen, _WANTED, lineages=self._journal.lineages(), limit=_NEWS_MAX)
            self._seen = told.seen
            found += self.of_records(told.records)
            if not told.more:
                return found

    def read_rest(self, writer: Writer) -> list[Event]:
        """Return the events up to the end of what this process has seen of our own lineage.

        ``read`` leaves out records of other processes that are not durable yet, or that another process is adding to the index.
        """
        self._journal.settle(writer)
        found = self.read()
        for _ in range(_REST_LOOKS_MAX):
            if self._seen.get(self._journal.lineage, 0) >= self._journal.end().next_seq - 1:
                break
            time.sleep(_REST_LOOK_S)
            found += self.read()
        return found

    def follow(self, wait: Callable[[float], bool]) -> Iterator[list[Event]]:
        """Yield events as they come; an empty list for a change of the journal that is none of them. ``wait`` is that of
        `journal.history.follow`.
        """
        for told in follow(self._journal, self._seen, _WANTED, wait=wait):
            self._seen = told.seen
            yield list(self.of_records(told.records))

    def of_records(self, records: Sequence[IndexedRecord]) -> Iterator[Event]:
        """Yield the events of records, which are in the order of their lineages."""
        versions: dict[str, Versions] = {}
        for record in records:
            if not record.version:
                continue
            if record.item_id not in versions:
                versions[record.item_id] = Versions(
                    self._journal, record.item_type, record.item_id, is_rest_enough=True, is_index_enough=True
                )
            after = _payload(versions[record.item_id], record.version)
            known = self._known.get(record.item_id)
            if known is not None and known[0] in record.parents:
                before = known[1]
            else:
                before = _payload(versions[record.item_id], record.parents[0]) if record.parents else {}
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[record.item_id] = record.version, after
            if self._is_ours(record, after):
                yield from self._told(record, before, after)

    def _is_ours(self, record: IndexedRecord, value: Mapping[str, JSONValue]) -> bool:
        return self._dispatch == (record.item_id if record.item_type == "dispatch" else value.get("dispatch"))

    def _told(
        self, record: IndexedRecord, before: Mapping[str, JSONValue], after: Mapping[str, JSONValue]
    ) -> Iterator[Event]:
        if record.item_type == "dispatch":
            yield from _of_dispatch(record, before, after)
        elif record.item_type == "question":
            yield from _of_question(record, before, after)
        else:
            step = self._journal.as_read("step", str(after.get("step", "")))
            yield from _of_assignment(
                record, assignment_of(before) if before else None, assignment_of(after),
                numbered(step.value, "place") if step is not None else 0,
            )  # fmt: skip


def newest_events(journal: Journal, dispatch: str, limit: int) -> list[Event]:
    """Return the last events of a dispatch, oldest first. The records of its own entities alone are read."""
    items = [("dispatch", dispatch)]
    items += [
        (kind, one.item_id)
        for kind in ("assignment", "question")
        for one in linked(journal, kind, "dispatch", dispatch)
    ]
    records = [record for kind, item_id in items for record in of_entity(journal, kind, item_id)[: limit + 1]]
    records.sort(key=lambda record: (record.ts, record.lineage, record.seq))
    return list(EventReader(journal, dispatch).of_records(records[-limit:]))[-limit:]


_WANTED: Final = RecordFilter(types=DISPATCH_TYPES)


def _payload(versions: Versions, version: str) -> dict[str, JSONValue]:
    head = versions.head(version)
    if head is None or not head.payload:
        return {}
    found: dict[str, JSONValue] = msgspec.json.decode(head.payload)
    return found


def _of_dispatch(
    record: IndexedRecord, before: Mapping[str, JSONValue], after: Mapping[str, JSONValue]
) -> Iterator[Event]:
    old, new = dispatch_of(before), dispatch_of(after)
    if not before or old.state != new.state:
        yield Event(
            event="dispatch", ts=record.ts, dispatch=record.item_id, before=old.state if before else "", state=new.state,
            text=new.reason or new.text,
        )  # fmt: skip


def _of_question(
    record: IndexedRecord, before: Mapping[str, JSONValue], after: Mapping[str, JSONValue]
) -> Iterator[Event]:
    old, new = question_of(before), question_of(after)
    if not before or old.state != new.state:
        yield Event(
            event="question", ts=record.ts, dispatch=new.dispatch, assignment=new.assignment, question=record.item_id, agent=new.asker,
            before=old.state if before else "", state=new.state, text=new.answer if new.state == "answered" else new.text,
        )  # fmt: skip


def _of_assignment(record: IndexedRecord, old: Assignment | None, new: Assignment, number: int) -> Iterator[Event]:
    """Yield the differences of two versions of an assignment: runs that ended, then its state, then runs that began."""
    at = _Place(record, new, number)
    runs = {one.id: one for one in (old.runs if old is not None else ())}
    for run in new.runs:
        if run.ended and not (run.id in runs and runs[run.id].ended):
            if run.id not in runs:
                yield at.run_event(run, "", "started", run.started)
            yield at.run_event(run, "started", run.ending or "ended", record.ts)
    if old is None or (old.state, old.attempt) != (new.state, new.attempt):
        yield at.event("assignment", before=old.state if old is not None else "", state=new.state, text=_why(old, new))
        if new.state == "integrated":
            yield at.event(
                "integrated", before=old.state if old is not None else "", state=new.state, commit=new.merged
            )
    if new.verdict and (old is None or old.verdict != new.verdict):
        yield at.event("note", state=new.state, purpose="review", text=_verdict(new))
    for remark in new.remarks[len(old.remarks) if old is not None else 0 :]:
        yield at.event("note", state=new.state, text=remark)
    for run in new.runs:
        if not run.ended and run.id not in runs:
            yield at.run_event(run, "", "started", record.ts)


class _Place:
    """The fields that all events of a record of an assignment have."""

    def __init__(self, record: IndexedRecord, one: Assignment, number: int) -> None:
        self._record, self._one, self._number = record, one, number

    def event(
        self, kind: EventKind, *, state: str, before: str = "", text: str = "", commit: str = "", purpose: str = ""
    ) -> Event:
        one = self._one
        return Event(
            event=kind, ts=self._record.ts, dispatch=one.dispatch, assignment=self._record.item_id, step=one.step, number=self._number,
            run=one.run, agent=one.agent, before=before, state=state, attempt=one.attempt, text=text or one.text, commit=commit,
            purpose=purpose, tokens_in=one.tokens_in, cached=one.cached, out=one.out, cost=one.cost, wall_ms=one.wall_ms,
        )  # fmt: skip

    def run_event(self, run: Attempt, before: str, state: str, ts: str) -> Event:
        one = self._one
        return Event(
            event="run", ts=ts or self._record.ts, dispatch=one.dispatch, assignment=self._record.item_id, step=one.step,
            number=self._number, run=run.id, agent=run.agent, purpose=run.purpose, before=before, state=state, attempt=one.attempt,
            text=one.text, trail=run.trail, tokens_in=run.tokens_in, cached=run.cached, out=run.out, cost=run.cost,
            wall_ms=run.wall_ms,
        )  # fmt: skip


def _why(old: Assignment | None, new: Assignment) -> str:
    """Return the reason of a change of state; empty for an ordinary one."""
    if new.state == "running" and old is not None and len(new.returns) > len(old.returns):
        return f"{new.returns[-1].why}: {new.returns[-1].text}"
    if new.state == "submitted":
        return new.summary
    return (
        new.reason
        if old is None or new.reason != old.reason or new.state in ("failed", "cancelled", "timed_out")
        else ""
    )


def _verdict(one: Assignment) -> str:
    blocking = sum(finding.severity == "blocking" for finding in one.findings)
    return f"review: {one.verdict}, {len(one.findings)} findings, {blocking} of them blocking"
