"""Undo: new records that take out what some records changed. Nothing is removed from the journal.

What a record changed is the difference between its version and the version before it (the merged view, where it had several
parents). That difference is taken out of what the entity is now, newest record first:

* nothing else happened since: the entity is again just what it was (a create becomes a tombstone, a deletion comes back);
* others changed other fields since: theirs stay, the undone fields go back; sets are taken out by element, maps by key;
* others changed the same field to something else, or built on what is to be un-created: a *conflict*, which is told, and
  that entity stays as it is. Only where it was un-created in one clone and changed in another, which is in conflict, to name
  the record that made it once more lets it be deleted.

All is planned without the lock and written as one mutation, each entity compared with what the plan had seen. What undo writes
are records like all others, and so can be undone.
"""

from __future__ import annotations

__all__ = ["Undoing", "Undone", "plan_undo", "take_out", "undo"]

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from periplus.base.canonical import JSONValue, canonical
from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, UsageError
from periplus.base.ids import is_id
from periplus.base.tuples import NamedTuple
from periplus.journal.history import versions_of_session
from periplus.journal.record import action_class
from periplus.journal.state import MergeRules
from periplus.journal.transaction import ABSENT
from periplus.journal.versions import Versions

if TYPE_CHECKING:
    from periplus.journal.index import IndexedRecord
    from periplus.journal.journal import Journal
    from periplus.journal.state import Entity
    from periplus.journal.transaction import Receipt, Transaction, Writer

RECORDS_MAX: Final = 20_000
_ATTEMPTS: Final = 3
_SEQS_NAMED: Final = 12
Content: TypeAlias = "Mapping[str, JSONValue] | None"  # None: it is not there
Outcome: TypeAlias = Literal["restored", "deleted", "unchanged", "conflict"]


class Undone(NamedTuple):
    """What undo makes of one entity.

    ``fields`` are those that go back, ``kept`` those that others changed since and that stay, ``reason`` says of a conflict or of
    what stays unchanged why. ``expect`` is the version that the plan saw, empty for a deleted entity.
    """

    item_type: str
    item_id: str
    outcome: Outcome
    seqs: tuple[int, ...]
    fields: tuple[str, ...]
    kept: tuple[str, ...]
    reason: str
    expect: str
    content: Content


class Undoing(NamedTuple):
    """``receipt`` is None of a plan, and where nothing was to be written."""

    lineage: str
    seqs: tuple[int, ...]
    entities: tuple[Undone, ...]
    receipt: Receipt | None


class _Overlap(Exception):  # noqa: N818 - it is caught here and never seen outside
    """What is to be taken out was changed since."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def undo(
    journal: Journal,
    writer: Writer,
    *,
    seqs: Sequence[int] = (),
    session: str = "",
    lineage: str = "",
    key: str = "",
) -> Undoing:
    """Undo the records ``seqs`` of ``lineage`` (our own by default), or all that a ``session`` wrote there; one mutation.

    Entities in conflict are left out and told. Raises as ``plan_undo`` and as ``Journal.mutate``.
    """
    for attempt in range(_ATTEMPTS):
        plan = plan_undo(journal, seqs=seqs, session=session, lineage=lineage)
        changed = [one for one in plan.entities if one.outcome in ("restored", "deleted")]
        if not changed and not key:
            return plan
        summary = _summary(plan, session, is_own=plan.lineage == journal.lineage)
        try:
            receipt = journal.mutate(partial(_write, changed, summary), writer, key=key)
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue  # somebody was faster: what he wrote is part of the next plan
        return plan._replace(receipt=receipt)
    raise AssertionError("the loop returns or raises")


def plan_undo(journal: Journal, *, seqs: Sequence[int] = (), session: str = "", lineage: str = "") -> Undoing:
    """What ``undo`` would do now.

    Raises UsageError for a seq that there is not or whose record is no change of an entity, NotFoundError for a session that
    wrote none, DamageError where a record that is needed cannot be read.
    """
    lineage = lineage or journal.lineage
    journal.refresh()
    journal.project()
    records = _session_records(journal, lineage, session) if session else _named_records(journal, lineage, seqs)
    if len(records) > RECORDS_MAX:
        raise UsageError(f"{len(records):,} records to undo; the limit is {RECORDS_MAX:,} at a time",
                         safe="Nothing was changed.", mend="Undo the newest first, with --seq FIRST-LAST.")  # fmt: skip
    by_entity: dict[tuple[str, str], list[IndexedRecord]] = {}
    for record in records:
        by_entity.setdefault((record.item_type, record.item_id), []).append(record)
    entities = [_plan_entity(journal, key, found, is_named=not session) for key, found in by_entity.items()]
    return Undoing(lineage, tuple(record.seq for record in records), tuple(entities), None)


def _write(changed: Iterable[Undone], summary: str, transaction: Transaction) -> None:
    for one in changed:
        if one.content is None:
            transaction.delete(one.item_type, one.item_id, expect=one.expect, summary=summary)
        else:
            expect = one.expect or ABSENT
            transaction.put(one.item_type, one.item_id, dict(one.content), expect=expect, summary=summary)


def _summary(plan: Undoing, session: str, *, is_own: bool) -> str:
    runs: list[list[int]] = []
    for seq in plan.seqs:
        if runs and seq == runs[-1][1] + 1:
            runs[-1][1] = seq
        else:
            runs.append([seq, seq])
    named = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs[:_SEQS_NAMED])
    more = f" and {len(runs) - _SEQS_NAMED} more" if len(runs) > _SEQS_NAMED else ""
    return f"undo of seq {named}{more}" + (f", session {session}" if session else "") + (
        "" if is_own else f" of {plan.lineage}")  # fmt: skip


# -- which records -----------------------------------------------------------------------------------------------------


def _session_records(journal: Journal, lineage: str, session: str) -> list[IndexedRecord]:
    journal.need_history()
    found = versions_of_session(journal, lineage, session, RECORDS_MAX + 1)
    if not found:
        raise NotFoundError(f"session {session[:100]!r} changed nothing in {lineage or 'this store'}",
                            mend="See `periplus log --session ID`.")  # fmt: skip
    return found


def _named_records(journal: Journal, lineage: str, seqs: Sequence[int]) -> list[IndexedRecord]:
    end = journal.end(lineage).next_seq - 1
    wanted = sorted(set(seqs))
    if not wanted:
        raise UsageError("nothing to undo was named", safe="Nothing was changed.")
    if not 1 <= wanted[0] <= wanted[-1] <= end:
        outside = wanted[0] if wanted[0] < 1 else wanted[-1]
        raise NotFoundError(f"there is no record {outside:,}: the newest of {lineage or 'this store'} is {end:,}",
                            safe="Nothing was changed.", mend="See `periplus log`.")  # fmt: skip
    journal.need_history()
    found = []
    for seq in wanted:
        record = next(iter(journal.index.records("lineage = ? AND seq = ?", (lineage, seq), 1)), None)
        if record is None:
            raise NotFoundError(
                f"record {seq:,} cannot be read", safe="Nothing was changed.", mend="Run `periplus doctor`."
            )
        if not record.version:
            if action_class(record.action) == "unknown":
                raise UsageError(f"record {seq:,} is of a later version of Periplus", safe="Nothing was changed.")
            raise UsageError(f"record {seq:,} ({record.action}) changed no entity: there is nothing to take back",
                             safe="Nothing was changed.")  # fmt: skip
        found.append(record)
    return found


# -- what becomes of an entity -----------------------------------------------------------------------------------------


def _plan_entity(journal: Journal, key: tuple[str, str], records: Sequence[IndexedRecord], *, is_named: bool) -> Undone:
    present = journal.get(*key)
    versions = Versions(journal, *key)
    now: Content = present.value if present is not None else None
    expect = present.version if present is not None else ""
    seqs = tuple(record.seq for record in records)
    try:
        goal = _without(versions, journal, now, records)
    except _Overlap as overlap:
        is_gone = present is not None and any(not conflict.path for conflict in present.conflicts)
        if is_named and is_gone and not all(record.parents for record in records):
            goal = None  # it was deleted, and changed apart from that: who un-creates it once more settles that
            return Undone(*key, "deleted", seqs, _differing(now, goal), (), "", expect, goal)
        return Undone(*key, "conflict", seqs, (), (), overlap.reason, expect, None)
    if _same(goal, now):
        reason = "it is deleted since" if now is None else "nothing of it is left"
        return Undone(*key, "unchanged", seqs, (), (), reason, expect, None)
    last = versions.head(records[-1].version)
    kept = _differing(now, _content(last.payload)) if last is not None and now is not None and goal is not None else ()
    changed = _differing(now, goal)
    outcome: Outcome = "deleted" if goal is None else "restored"
    return Undone(*key, outcome, seqs, changed, tuple(name for name in kept if name not in changed), "", expect, goal)


def _without(versions: Versions, journal: Journal, now: Content, records: Sequence[IndexedRecord]) -> Content:
    """``now`` without what ``records`` changed. Raises _Overlap where that cannot be told apart or may not be written."""
    kind = journal.types.get(versions.item_type)
    if kind is None or not is_id(versions.item_id):
        raise _Overlap("this Periplus does not know its type")
    goal = now
    for record in reversed(records):
        made = versions.head(record.version)
        if made is None or made.is_stub:
            raise _Overlap(f"the content of record {record.seq:,} was redacted")
        if not all(map(versions.is_known, record.parents)):
            raise _Overlap(f"what it was before record {record.seq:,} was redacted, or is not held")
        before = versions.shown(record.parents)
        goal = take_out(goal, _content(made.payload), _before(before), kind.rules)
    if goal is not None and not _same(goal, now):
        try:
            kind.check(dict(goal))
        except PeriplusError as error:
            raise _Overlap(f"what it was is refused today: {error}") from error
    return goal


def _before(entity: Entity | None) -> Content:
    return None if entity is None or entity.deleted else entity.value


def _content(payload: bytes) -> Content:
    import orjson

    if not payload:
        return None
    value: dict[str, JSONValue] = orjson.loads(payload)
    return value


def _differing(one: Content, other: Content) -> tuple[str, ...]:
    """The fields in which they differ."""
    one, other = one or {}, other or {}
    return tuple(name for name in sorted({*one, *other}) if _bytes(one, name) != _bytes(other, name))


def _same(one: Content, other: Content) -> bool:
    return (one is None) == (other is None) and not _differing(one, other)


def take_out(now: Content, made: Content, before: Content, rules: MergeRules) -> Content:
    """``now`` without the change from ``before`` to ``made``. Pure. Raises an error of its own where others changed the same.

    An entity that is gone stays gone, unless it was its deletion that is taken out.
    """
    if made is None:
        if now is None or _same(now, before):
            return before
        raise _Overlap("it was deleted, and written anew since")
    if before is None:
        if now is None or _same(now, made):
            return None
        raise _Overlap(f"it was created there, and changed since: {', '.join(_differing(now, made))}")
    if now is None:
        return None
    result = dict(now)
    clashes = _take_out_names(result, made, before, rules, "")
    if clashes:
        raise _Overlap(f"changed since: {', '.join(clashes)}")
    return result


def _take_out_names(
    now: dict[str, JSONValue],
    made: Mapping[str, JSONValue],
    before: Mapping[str, JSONValue],
    rules: MergeRules,
    path: str,
) -> list[str]:
    """Take the change out of ``now``, in place; gives the paths where others changed the same."""
    clashes: list[str] = []
    held = _held_groups(now, made, before, rules)
    for name in sorted({*made, *before}):
        old, new, there = _bytes(before, name), _bytes(made, name), _bytes(now, name)
        if old in (new, there) or (name in rules.latest and there != new):
            continue  # as it was, or said again since
        if name in held:
            clashes.append(path + name)
            continue
        if there == new:
            if old is None:
                del now[name]
            else:
                now[name] = before[name]
            continue
        current, made_value, earlier = now.get(name), made.get(name), before.get(name)
        if not path and name in rules.sets and _is_list(current) and _is_list(made_value) and _is_list(earlier):
            now[name] = _take_out_elements(_list(current), _list(made_value), _list(earlier))
            if not now[name] and name not in before:
                del now[name]
        elif isinstance(current, dict) and isinstance(made_value, dict) and isinstance(earlier, dict):
            inner = dict(current)
            clashes += _take_out_names(inner, made_value, earlier, MergeRules(), f"{path}{name}.")
            now[name] = inner
        else:
            clashes.append(path + name)
    return clashes


def _held_groups(
    now: Mapping[str, JSONValue], made: Mapping[str, JSONValue], before: Mapping[str, JSONValue], rules: MergeRules
) -> frozenset[str]:
    """The fields of the groups that were changed since to something that is neither what was made nor what was before."""
    return frozenset(
        name
        for group in rules.groups
        if any(_bytes(now, one) != _bytes(made, one) for one in group)
        and any(_bytes(now, one) != _bytes(before, one) for one in group)
        for name in group
    )


def _is_list(value: JSONValue) -> bool:
    return value is None or isinstance(value, list)


def _list(value: JSONValue) -> list[JSONValue]:
    return value if isinstance(value, list) else []


def _take_out_elements(now: list[JSONValue], made: list[JSONValue], before: list[JSONValue]) -> list[JSONValue]:
    old, new, there = ({canonical(one) for one in part} for part in (before, made, now))
    kept = [one for one in now if canonical(one) not in new - old]
    return kept + [one for one in before if canonical(one) not in new | there]


def _bytes(content: Mapping[str, JSONValue], name: str) -> bytes | None:
    return canonical(content[name]) if name in content else None
