"""Undo: new records that reverse the changes of others. Nothing is removed from the journal.

A record's change is the difference between its version and the version before it (the merged view, if it had several parents). The changes
are removed from the present entity, newest record first:

* nothing else happened since: the entity is exactly as before (a creation becomes a tombstone, a deleted entity comes back);
* others changed other fields since: theirs stay, the undone fields go back; sets are reversed by element, maps by key;
* it was undone before: nothing is left of it, whatever others wrote since. A difference only in the time of the last write counts as nothing;
* others changed the same field to another value, or changed an entity whose creation is undone: a *conflict*, which is reported, and the
  entity stays as it is. Only if it was deleted in one clone and changed in another, which is in conflict, does naming the record that created it delete it;
* clones disagree about it, and the disagreement is unsettled or was settled only by the record to be undone: also a conflict, unless the record is
  one of the concurrent versions. Removing that one leaves the others, and so settles it.

Records of one mutation that belong together (``mutation_groups``) are undone together: naming one includes the others, and a conflict in
one keeps all of them. The layer above states its rules as a ``Judge``: an entity that may not become what it would is a conflict like any
other.

The undo is planned without the lock and written as one mutation, which compares each entity with what the plan saw. Its records are
ordinary ones, and can be undone.
"""

from __future__ import annotations

__all__ = ["Judge", "Undoing", "Undone", "plan_undo", "undo"]

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, UsageError
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.field_reversal import Content, Overlap, TakenOut, content_of, decoded, differing, same
from periplus.journal.history.log import versions_of_session
from periplus.journal.history.mutation_groups import families_of
from periplus.journal.history.versions import Versions
from periplus.journal.index.receipt import key_used, records_of
from periplus.journal.records.record import action_class
from periplus.journal.state.transaction import ABSENT, summary_line
from periplus.journal.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.state.entity import Entity
    from periplus.journal.state.index_values import IndexedRecord
    from periplus.journal.state.transaction import Receipt, Transaction, Writer
    from periplus.journal.state.version_cycles import Remaining

RECORDS_MAX: Final = 20_000
_ATTEMPTS: Final = 3
_SEQS_NAMED: Final = 12
_WRITTEN: Final = ("restored", "deleted")
Outcome: TypeAlias = Literal["restored", "deleted", "unchanged", "conflict"]
Key: TypeAlias = tuple[str, str]
Judge: TypeAlias = Callable[[Mapping[Key, Content]], Mapping[Key, str]]  # reasons against the planned contents


class Undone(NamedTuple):
    """The plan or result of an undo for one entity.

    ``fields`` are those that go back, ``kept`` those that others changed since and that stay, ``reason`` explains a conflict or an
    unchanged entity. ``expect`` is the version that the plan saw, empty for a deleted entity.
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
    """The plan or result of an undo. ``along`` are those of ``seqs`` that were added because they belong to named ones.

    ``receipt`` is None for a plan, and if nothing was written.
    """

    lineage: str
    seqs: tuple[int, ...]
    entities: tuple[Undone, ...]
    receipt: Receipt | None
    along: tuple[int, ...] = ()


def undo(
    journal: Journal,
    writer: Writer,
    *,
    seqs: Sequence[int] = (),
    session: str = "",
    lineage: str = "",
    key: str = "",
    judge: Judge | None = None,
    progress: Progress = no_progress,
) -> Undoing:
    """Undo the records ``seqs`` of ``lineage`` (our own by default), or those of a ``session``, or with both the session's among them; one
    mutation.

    Entities in conflict are left out and reported. Raises as ``plan_undo`` and as ``Journal.mutate``.
    """
    for attempt in range(_ATTEMPTS):
        plan = plan_undo(journal, seqs=seqs, session=session, lineage=lineage, judge=judge, progress=progress)
        changed = [one for one in plan.entities if one.outcome in _WRITTEN]
        if not changed and not key:
            return plan
        summary = _summary(plan, session, is_own=plan.lineage == journal.lineage)
        try:
            receipt = journal.mutate(partial(_write, journal, changed, summary, judge), writer, key=key)
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue  # another process wrote meanwhile; plan again
        return _as_written(journal, plan, receipt, summary) if receipt.repeated else plan._replace(receipt=receipt)
    raise AssertionError("the loop returns or raises")


def _as_written(journal: Journal, plan: Undoing, receipt: Receipt, summary: str) -> Undoing:
    """Return the result as of the mutation ``receipt``. Raises ConflictError if that was not this undo."""
    records = records_of(journal, receipt)
    of = "" if plan.lineage == journal.lineage else f" --lineage {plan.lineage}"
    said = {record.summary for record in records if not record.is_stub}
    keys = {(record.item_type, record.item_id): record for record in records}
    if said - {summary_line(summary)} or keys.keys() - {(one.item_type, one.item_id) for one in plan.entities}:
        raise key_used(receipt)
    told = []
    for one in plan.entities:
        record = keys.get((one.item_type, one.item_id))
        if record is not None:
            told.append(_told_then(journal, one, record.seq, receipt.lineage))
        elif one.outcome in _WRITTEN:
            again = f"periplus undo --seq {one.seqs[0]}{of}"
            told.append(_in_conflict(one, f"it stayed as it was then; to undo it now: {again}"))
        else:
            told.append(one)
    return plan._replace(entities=tuple(told), receipt=receipt)


def _told_then(journal: Journal, one: Undone, seq: int, lineage: str) -> Undone:
    """Return the result for one entity according to its record ``seq`` in the repeated mutation."""
    versions = Versions(journal, one.item_type, one.item_id)
    by_seq = {(record.lineage, record.seq): record for records in versions.records.values() for record in records}
    written = by_seq[lineage, seq]
    goal, before = versions.head(written.version), versions.shown(written.parents)
    undone = [record for record in by_seq.values() if record.seq in one.seqs]
    content = decoded(goal.payload) if goal is not None else None
    stamp = _stamp(journal, one.item_type)
    return _changed(versions, undone, content_of(before), content, stamp)._replace(seqs=one.seqs)


def _stamp(journal: Journal, item_type: str) -> str:
    """Return the field in which entities of this type store the time of their last write; empty if there is none."""
    return journal.types[item_type].rules.stamp if item_type in journal.types else ""


def plan_undo(
    journal: Journal, *, seqs: Sequence[int] = (), session: str = "", lineage: str = "", judge: Judge | None = None,
    progress: Progress = no_progress,
) -> Undoing:  # fmt: skip
    """Return what ``undo`` would do now. ``progress`` gets the number of examined entities, and their total.

    Raises UsageError for a record that did not change an entity, NotFoundError for a missing seq or a session that changed nothing,
    DamageError if a needed record cannot be read.
    """
    lineage = lineage or journal.lineage
    journal.refresh()
    journal.project()
    named = _session_records(journal, lineage, session, seqs) if session else _named_records(journal, lineage, seqs)
    _check_count(len(named))
    families = families_of(journal, named)
    records = sorted((record for family in families for record in family), key=lambda record: record.seq)
    _check_count(len(records))
    by_entity: dict[Key, list[IndexedRecord]] = {}
    for record in records:
        by_entity.setdefault((record.item_type, record.item_id), []).append(record)
    entities: dict[Key, Undone] = {}
    for key, of_it in by_entity.items():
        progress(len(entities), len(by_entity))
        entities[key] = _plan_entity(journal, key, of_it, is_named=not session)
    _settle(entities, families, judge)
    along = {record.seq for record in records} - {record.seq for record in named}
    seqs = tuple(record.seq for record in records)
    return Undoing(lineage, seqs, tuple(entities.values()), None, tuple(sorted(along)))


def _check_count(count: int) -> None:
    if count > RECORDS_MAX:
        raise UsageError(f"{count:,} records to undo; the limit is {RECORDS_MAX:,} at a time",
                         safe="Nothing was changed.", mend="Undo fewer at a time, the newest first, with --seq FIRST-LAST.")  # fmt: skip


def _in_conflict(one: Undone, reason: str) -> Undone:
    return one._replace(outcome="conflict", fields=(), kept=(), reason=reason, content=None)


def _settle(entities: dict[Key, Undone], families: Sequence[Sequence[IndexedRecord]], judge: Judge | None) -> None:
    """Mark entities as in conflict that ``judge`` refuses, or that belong to one that stays as it is. What stays may be a reason
    against others, so all is judged anew until nothing more stays.
    """
    while True:
        would = {key: one.content for key, one in entities.items() if one.outcome in _WRITTEN}
        refused = judge(would) if judge is not None else {}
        entities |= {key: _in_conflict(entities[key], why) for key, why in refused.items()}
        _keep_together(entities, families)
        if judge is None or sum(one.outcome in _WRITTEN for one in entities.values()) == len(would):
            return


def _keep_together(entities: dict[Key, Undone], families: Sequence[Sequence[IndexedRecord]]) -> None:
    """Mark entities as in conflict that belong to one that stays as it is."""
    members = [{(record.item_type, record.item_id) for record in family} for family in families]
    of_entity: dict[Key, list[set[Key]]] = {}
    for family in members:
        for key in family:
            of_entity.setdefault(key, []).append(family)
    waiting = [key for key, one in entities.items() if one.outcome == "conflict"]
    while waiting:
        key = waiting.pop()
        for family in of_entity[key]:
            for other in family:
                if entities[other].outcome in _WRITTEN:
                    entities[other] = _in_conflict(entities[other], f"it belongs to {key[1]}, which stays as it is")
                    waiting.append(other)
            family.clear()  # done; a whole mutation may be one group and must not be scanned for each member


def _write(
    journal: Journal, changed: Iterable[Undone], summary: str, judge: Judge | None, transaction: Transaction
) -> None:
    if judge is not None:  # check again under the lock, for types whose rules need the newest state
        would = {(one.item_type, one.item_id): one.content for one in changed}
        would = {key: content for key, content in would.items() if journal.types[key[0]].reads_through}
        for (_, item_id), why in (judge(would) if would else {}).items():
            raise ConflictError(f"{item_id}: {why}", safe="Nothing was written.", mend="Repeat the command.")
    for one in changed:
        if one.content is None:
            transaction.delete(one.item_type, one.item_id, expect=one.expect, summary=summary)
        else:
            expect = one.expect or ABSENT
            transaction.put(
                one.item_type, one.item_id, dict(one.content), expect=expect, summary=summary, is_of_before=True
            )


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


def _session_records(journal: Journal, lineage: str, session: str, seqs: Sequence[int]) -> list[IndexedRecord]:
    """Return the session's records, among ``seqs`` if given. Raises UsageError if they are too many for one undo."""
    journal.need_history()
    wanted = {*seqs}
    span = (min(wanted), max(wanted)) if wanted else (1, None)
    found = versions_of_session(journal, lineage, session, RECORDS_MAX + 1, *span)
    if len(found) > RECORDS_MAX:
        raise _too_many(journal, lineage, session)
    if wanted:
        found = [record for record in found if record.seq in wanted]
    if not found:
        among = " among those records" if wanted else ""
        raise NotFoundError(f"session {session[:100]!r} changed nothing{among} in {lineage or 'this store'}",
                            mend="See `periplus log --session ID`.")  # fmt: skip
    return found


def _too_many(journal: Journal, lineage: str, session: str) -> UsageError:
    """Return the error for a session with too many records for one undo, with a command that undoes them in parts."""
    counted = "SELECT COUNT(*), MAX(seq) FROM records WHERE lineage = ? AND session = ? AND version <> ''"
    count, last = journal.index.db.execute(counted, (lineage, session)).fetchone()
    of = "" if lineage == journal.lineage else f" --lineage {lineage}"
    part = f"periplus undo --session {shlex.quote(session)}{of} --seq {max(1, last - RECORDS_MAX // 2 + 1)}-{last}"
    return UsageError(
        f"{count:,} records of session {session[:100]} to undo; the limit is {RECORDS_MAX:,} at a time", safe="Nothing was changed.",
        mend=f"Undo them in parts, the newest first: `{part}`, then those before. Records of others among them stay.",
    )  # fmt: skip


def _named_records(journal: Journal, lineage: str, seqs: Sequence[int]) -> list[IndexedRecord]:
    end = journal.end(lineage).next_seq - 1
    wanted = sorted(set(seqs))
    if not wanted:
        raise UsageError("no record to undo was named", safe="Nothing was changed.")
    if not 1 <= wanted[0] <= wanted[-1] <= end:
        outside = wanted[0] if wanted[0] < 1 else wanted[-1]
        is_alone = {*journal.lineages()} <= {journal.lineage}
        raise NotFoundError(f"there is no record {outside:,}: the newest of {lineage or 'this store'} is {end:,}",
                            safe="Nothing was changed.", mend=f"See `periplus log{'' if is_alone else ' --lineage all'}`."
                            + ("" if is_alone else " Of another lineage: periplus undo --lineage ID --seq N."))  # fmt: skip
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
            raise UsageError(f"record {seq:,} ({record.action}) changed no entity: there is nothing to undo",
                             safe="Nothing was changed.")  # fmt: skip
        found.append(record)
    return found


# -- what becomes of an entity -----------------------------------------------------------------------------------------


def _plan_entity(journal: Journal, key: Key, records: Sequence[IndexedRecord], *, is_named: bool) -> Undone:
    present = journal.get(*key)
    versions = Versions(journal, *key)
    now: Content = present.value if present is not None else None
    expect = present.version if present is not None else ""
    seqs = tuple(record.seq for record in records)
    try:
        goal = _without(versions, journal, present, records)
    except Overlap as overlap:
        is_gone = present is not None and any(not conflict.path for conflict in present.conflicts)
        if is_named and is_gone and not all(record.parents for record in records):
            goal = None  # deleted in one clone, changed in another: undoing its creation again settles that
            return Undone(*key, "deleted", seqs, differing(now, goal), (), "", expect, goal)
        return Undone(*key, "conflict", seqs, (), (), overlap.reason, expect, None)
    stamp = _stamp(journal, key[0])
    if same(goal, now, stamp) and not (present is not None and present.is_in_conflict):
        reason = "it is deleted since" if now is None else "nothing of it is left"
        return Undone(*key, "unchanged", seqs, (), (), reason, expect, None)
    changed = _changed(versions, records, now, goal, stamp)._replace(expect=expect)
    if goal is not None and present is not None and present.is_in_conflict:  # the shown value may equal the goal
        decided = {name.partition(".")[0] for name in present.conflict_names} & goal.keys()
        return changed._replace(fields=tuple(sorted({*changed.fields, *decided})))
    return changed


def _changed(versions: Versions, records: Sequence[IndexedRecord], now: Content, goal: Content, stamp: str) -> Undone:
    """Return the result for an entity that was ``now`` and is ``goal`` without ``records``; the field ``stamp`` does not count as kept."""
    last = versions.head(records[-1].version)
    kept = differing(now, decoded(last.payload)) if last is not None and now is not None and goal is not None else ()
    changed = differing(now, goal)
    outcome: Outcome = "deleted" if goal is None else "restored"
    kept = tuple(name for name in kept if name not in changed and name != stamp)
    seqs = tuple(record.seq for record in records)
    return Undone(versions.item_type, versions.item_id, outcome, seqs, changed, kept, "", "", goal)


def _without(
    versions: Versions, journal: Journal, present: Entity | None, records: Sequence[IndexedRecord]
) -> Content:  # fmt: skip
    """Return the entity without the changes of ``records``. Raises Overlap if they cannot be separated or the result may not be written."""
    kind = journal.types.get(versions.item_type)
    if kind is None or not is_id(versions.item_id):
        raise Overlap("this Periplus does not know its type")
    now = goal = content_of(present)
    apart = present.conflict_names if present is not None else ()
    heads = _Heads(versions, [head.version for head in journal.heads_of(versions.item_type, versions.item_id)])
    taken = TakenOut(versions, present, {record.version for record in records}, kind.rules)
    last: IndexedRecord | None = None  # the newest of consecutive records, which count as one change
    for number, record in reversed(list(enumerate(records))):
        made = versions.head(record.version)
        if made is None or made.is_stub:
            raise Overlap(f"the content of record {record.seq:,} was redacted")
        if not all(map(versions.is_known, record.parents)):
            raise Overlap(f"its content before record {record.seq:,} was redacted or is missing")
        if heads.is_one(record.version):
            heads.take_away(record)
            continue
        if heads.are_left:
            left = heads.shown()
            goal, apart = content_of(left), left.conflict_names if left is not None else ()
        heads.stay()
        last = record if last is None else last
        if number and record.parents == (records[number - 1].version,):
            continue
        before = versions.shown(record.parents)
        if before is not None and before.is_in_conflict:
            raise Overlap(
                f"record {record.seq:,} settled a conflict between clones: {', '.join(before.conflict_names)}"
            )
        goal = taken.of(goal, last, content_of(before))
        last = None
    if heads.are_left:
        left = heads.shown()
        goal, apart = content_of(left), left.conflict_names if left is not None else ()
    if apart:
        what = f"clones disagree on: {', '.join(apart)}"
        if present is None or not present.is_in_conflict:
            name = apart[0].partition(".")[0]
            say = f"state {versions.item_id} STATE" if name == "state" else f"set {versions.item_id} {name}=VALUE"
            raise Overlap(f"{what}; it would be in conflict again. State the value to keep instead (`periplus {say}`)")
        command = "context refs" if versions.item_type == "context_ref" else f"show {versions.item_id}"
        raise Overlap(f"{what}; settle that first (`periplus {command}`)")
    if goal is not None and not same(goal, now):
        try:
            kind.check(dict(goal))
        except PeriplusError as error:
            raise Overlap(f"its earlier content is no longer allowed: {error}") from error
    return goal


class _Heads:
    """The heads of an entity while undone versions are among them.

    The entity shown by the remaining heads is computed on demand, once for all removed ones: an entity may have thousands of heads.
    """

    def __init__(self, versions: Versions, heads: Iterable[str]) -> None:
        self._versions = versions
        self._heads = set(heads)
        self._graph: Remaining | None = None
        self._gone: set[str] = set()
        self.are_left = False  # heads were removed, and no other change since

    def is_one(self, version: str) -> bool:
        return version in self._heads

    def stay(self) -> None:
        """Note that another change is removed; from now on no version can simply be dropped."""
        self._heads = set()
        self.are_left = False

    def take_away(self, record: IndexedRecord) -> None:
        """Drop ``record``, whose version is one of the heads, as if it had never been written."""
        self.are_left = True
        self._gone.add(record.version)
        if self._graph is None and len(self._heads) == 1 and len(record.parents) < 2:
            self._heads = set(record.parents)
            return
        if self._graph is None:
            self._graph = self._versions.remaining(self._gone - {record.version})
        self._heads = self._graph.without(record.version)

    def shown(self) -> Entity | None:
        """Return the entity that the remaining heads show."""
        return self._versions.shown(self._heads)
