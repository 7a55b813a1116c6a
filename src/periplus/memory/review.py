"""Review: list memory that is stale, expired, or failed its check; confirm memory; run checks.

Nothing is archived by age. Listed memory stays as it is until somebody confirms it, which anchors it to the present
code, replaces it, or changes its state.
"""

from __future__ import annotations

__all__ = ["Due", "DueAtAGlance", "checks_of", "confirm", "due_at_a_glance", "in_force", "review"]

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Transaction, Writer
from periplus.journal.storage.progress import Progress, no_progress
from periplus.memory.code_anchors.anchors import Ground
from periplus.memory.coordination.stuck_work import Stuck, stuck_work
from periplus.memory.entities.check_results import CHECKED, FAILED, Check, CheckResult, command_of, last_check
from periplus.memory.entities.types import MemoryType, is_ended, row_of, rows_of
from periplus.memory.entities.validity import expired, expiry_notes
from periplus.memory.fulltext.index_rows import EXPIRES
from periplus.memory.fulltext.links import linked_ids, open_states
from periplus.memory.retrieval.recall import bring_up_to_date
from periplus.memory.succession.late_changes import LateChange, late_changes
from periplus.memory.succession.lost_successors import LostSuccessor, unreplaced
from periplus.memory.succession.successors import CompetingSuccessors, rivalries
from periplus.memory.writing.lifecycle import Changed
from periplus.memory.writing.write_keys import check_repeated

_SAFE: Final = "Nothing was written."
_AT_ONCE: Final = 200
_EXAMINED_MAX: Final = 1_000  # of a kind, by a glance
_BESIDE_MAX: Final = 20  # entities whose code is looked for in other worktrees, by a glance
_WORK: Final = ("plan", "step")
_CHANGED: Final = "its code changed"
_GLANCE_BYTES_MAX: Final = 64 << 20


class Due(NamedTuple):
    """An entity to review. ``stale`` and ``moved`` are text; ``expired`` is a time; ``check`` is set where its last
    run failed; ``rivals`` where other clones replaced the same entity; ``late`` where it is superseded and another
    clone changed it apart from that; ``stuck`` where it is work that cannot start; ``unreplaced`` where its
    replacement is gone.
    """

    entity: Entity
    stale: tuple[str, ...]
    moved: tuple[str, ...]
    expired: str
    check: CheckResult | None
    rivals: tuple[CompetingSuccessors, ...] = ()
    late: LateChange | None = None
    stuck: Stuck | None = None
    unreplaced: LostSuccessor | None = None

    @property
    def command(self) -> str:
        if self.stuck is not None:
            return self.stuck.command
        if self.unreplaced is not None:
            return self.unreplaced.command
        if self.late is not None:
            return self.late.command
        if self.rivals:
            return self.rivals[0].command
        if self.check is not None and not (self.stale or self.moved or self.expired):
            return f"periplus probe {self.entity.item_id}"
        return f"periplus confirm {self.entity.item_id}"


def review(journal: Journal, ground: Ground, progress: Progress = no_progress) -> list[Due]:
    """Return what needs review: live entities that are stale, moved or expired, or whose check failed; competing
    replacements; entities whose replacement is gone. The greatest weight first.
    """
    bring_up_to_date(journal)
    now_ms = journal.clock.now_ms()
    likely = _may_be_due(journal, now_ms, progress)
    found = [due for entity in likely if (due := _due(journal, ground, entity, now_ms)) is not None]
    apart: dict[tuple[str, str], list[CompetingSuccessors]] = {}
    entities: dict[tuple[str, str], Entity] = {}
    for rivalry in rivalries(journal):
        for one in rivalry.rivals:
            apart.setdefault((one.item_type, one.item_id), []).append(rivalry)
            entities[one.item_type, one.item_id] = one
    told = [due._replace(rivals=tuple(apart.pop((due.entity.item_type, due.entity.item_id), ()))) for due in found]
    told += [Due(entities[key], (), (), "", None, tuple(rivals)) for key, rivals in apart.items()]
    told += [Due(late.entity, (), (), "", None, late=late) for late in late_changes(journal)]
    told += [Due(stuck.entity, (), (), "", None, stuck=stuck) for stuck in stuck_work(journal)]
    told += [Due(one.entity, (), (), "", None, unreplaced=one) for one in unreplaced(journal)]
    rows = rows_of(journal.types)
    return sorted(told, key=lambda due: (-rows[due.entity.item_type].weight, due.entity.item_id))


class DueAtAGlance(NamedTuple):
    """Entities that a glance found to need review, each with the reason: competing successors and stuck work, then the
    newest; ``is_more`` where the glance ended before it had seen all.
    """

    due: tuple[tuple[Entity, str], ...] = ()
    is_more: bool = False


def due_at_a_glance(journal: Journal, ground: Ground, *, has_others: bool = False) -> DueAtAGlance:
    """Return much of what ``review`` returns, for a part of its time: the newest entities whose code changed or that are
    expired, failed their check, have competing successors, or are stuck work. No other file is searched for code that
    moved, and late changes and lost successors are left to ``review``. ``has_others`` where the project has other
    worktrees, in which the code may be.
    """
    bring_up_to_date(journal)
    now_ms = journal.clock.now_ms()
    found: dict[str, tuple[Entity, str]] = {}
    keys, is_more = _glanced_keys(journal, now_ms)
    for at in range(0, len(keys), _AT_ONCE):
        if ground.bytes_read > _GLANCE_BYTES_MAX:
            is_more = True
            break
        for entity in _holding(journal, (), keys[at : at + _AT_ONCE]):
            reason = _reason_at_a_glance(journal, ground, entity, now_ms)
            may_be_beside = has_others and reason == _CHANGED and len(found) < _BESIDE_MAX
            if reason and not (may_be_beside and ground.is_beside(entity)):
                found[entity.item_id] = entity, reason
    for rivalry in rivalries(journal, _EXAMINED_MAX):
        found.update({one.item_id: (one, "replaced apart in several clones") for one in rivalry.rivals})
    if (
        max(len(linked_ids(journal, kind, {"state": open_states(kind)}, _EXAMINED_MAX + 1)) for kind in _WORK)
        > _EXAMINED_MAX
    ):
        is_more = True
    else:
        found.update({one.entity.item_id: (one.entity, f"stuck: {one.words()}") for one in stuck_work(journal)})
    places = {item_id: place for place, (_, item_id) in enumerate(keys)}
    ordered = sorted(found, key=lambda item_id: (places.get(item_id, -1), item_id))
    return DueAtAGlance(tuple(found[item_id] for item_id in ordered), is_more)


def _glanced_keys(journal: Journal, now_ms: int) -> tuple[list[tuple[str, str]], bool]:
    """Return type and id of the newest entities that may be due, by the index, and True where there are more."""
    wanted = _confirmed_types(journal)
    marks = ", ".join("?" * len(wanted))
    checked = ", ".join("?" * len(CHECKED))
    asked: tuple[tuple[str, tuple[str, ...]], ...] = (
        (f"SELECT item_type, item_id FROM documents WHERE anchored AND item_type IN ({marks}) ORDER BY id DESC", (*wanted,)),  # noqa: S608 - question marks
        (f"SELECT item_type, item_id FROM links WHERE field = ? AND value <= ? AND item_type IN ({marks})",  # noqa: S608 - question marks
         (EXPIRES, format_ms(now_ms), *wanted)),
        ((f"SELECT DISTINCT item_type, item_id FROM (SELECT DISTINCT item_type, item_id FROM documents WHERE item_type IN ({checked})"  # noqa: S608 - question marks
         f" ORDER BY id DESC LIMIT {_EXAMINED_MAX}) JOIN records USING (item_type, item_id) WHERE action = 'observe' AND summary LIKE ?"),
         (*CHECKED, f"{FAILED}: %")),
    )  # fmt: skip
    found: dict[tuple[str, str], None] = {}
    is_more = False
    for sql, values in asked:
        rows = journal.index.db.execute(f"{sql} LIMIT ?", (*values, _EXAMINED_MAX + 1)).fetchall()
        is_more = is_more or len(rows) > _EXAMINED_MAX
        found.update(dict.fromkeys((str(row[0]), str(row[1])) for row in rows[:_EXAMINED_MAX]))
    return list(found), is_more


def _reason_at_a_glance(journal: Journal, ground: Ground, entity: Entity, now_ms: int) -> str:
    """Return the reason to review an entity, as a glance tells it; empty where there is none."""
    since = expired(journal.types, entity, now_ms)
    if since:
        return f"expired {since}"
    if ground.differs(entity):
        return _CHANGED
    check = last_check(journal, entity)
    return check.words() if check is not None and not check.passed else ""


def confirm(
    journal: Journal,
    writer: Writer,
    item_ids: Sequence[str],
    ground: Ground,
    *,
    about: Sequence[str] = (),
    expires: str = "",
    key: str = "",
) -> Changed:
    """Confirm that entities still hold: each is anchored to the present code, all or none of them. ``about`` (for one
    entity) replaces its anchors, for code that cannot be found; ``expires`` is the new end of a note, which
    otherwise loses an end that is past.

    Raises UsageError for what has ended or cannot be found, ConflictError for what another writer changed meanwhile.
    """
    bring_up_to_date(journal)
    now_ms = journal.clock.now_ms()
    asked = list({one.item_id: one for one in (journal.find(item_id) for item_id in item_ids)}.values())
    if about and len(asked) != 1:
        raise UsageError("anchors can be given for one entity at a time", safe=_SAFE)
    fixed = [one.item_type for one in asked if not _expires(journal, one)]
    if expires and fixed:
        raise UsageError(f"a {fixed[0]} does not expire", safe=_SAFE)
    values = [(entity, _confirmed(journal, entity, ground, writer, now_ms, about, expires)) for entity in asked]

    def write(transaction: Transaction) -> None:
        for entity, value in values:
            transaction.put(entity.item_type, entity.item_id, value, action="update", expect=entity.version,
                            summary=f"{entity.item_type} confirmed")  # fmt: skip

    notes = expiry_notes(expires, now_ms)
    receipt = journal.mutate(write, writer, key=key)
    ids = {one.item_id for one in asked}
    check_repeated(
        journal, receipt, lambda written: {one.item_id for one in written if one.summary.endswith(" confirmed")} == ids
    )
    entities = tuple(entity for one in asked if (entity := journal.get(one.item_type, one.item_id)) is not None)
    return Changed(entities, receipt, notes=notes)


def checks_of(journal: Journal, item_ids: Sequence[str] = ()) -> list[Check]:
    """Return the checks of these entities, or of all constraints and traps in force. Raises UsageError for an entity
    without one.
    """
    bring_up_to_date(journal)
    named = [journal.find(item_id) for item_id in item_ids]
    for one in named:
        if not command_of(one):
            row = row_of(journal.types, one.item_type)
            mend = f"Give it one: periplus set {one.item_id} check='…'"
            if row is None or "check" not in row.touchable:
                mend = "Constraints and traps can have one."
            raise UsageError(f"{one.item_id} has no check", safe="Nothing was run.", mend=mend)
    entities = list({one.item_id: one for one in named}.values()) if item_ids else in_force(journal, CHECKED)
    return [Check(entity, command_of(entity)) for entity in entities if command_of(entity)]


def in_force(journal: Journal, types: Sequence[str] = ()) -> list[Entity]:
    """Return the entities in force that can be confirmed, of ``types`` or all such types, by id."""
    wanted = _confirmed_types(journal, types)
    marks = ", ".join("?" * len(wanted))
    rows = journal.index.db.execute(
        f"SELECT DISTINCT item_type, item_id FROM documents WHERE item_type IN ({marks})", wanted  # noqa: S608 - question marks
    ).fetchall()  # fmt: skip
    return list(_holding(journal, wanted, rows))


def _confirmed_types(journal: Journal, types: Sequence[str] = ()) -> list[str]:
    return [
        row.name for row in rows_of(journal.types).values() if _is_confirmed(row) and row.name in (types or [row.name])
    ]


def _holding(
    journal: Journal, wanted: Sequence[str], rows: Iterable[tuple[str, str]], progress: Progress = no_progress
) -> Iterator[Entity]:
    """Yield the entities of ``rows``, as the index has them, and of records behind the index, that are of a wanted
    type and in force, by id.
    """
    held = {(str(row[0]), str(row[1])) for row in rows} | {key for key in journal.unindexed() if key[0] in wanted}
    keys = sorted(held, key=lambda key: key[1])
    for at in range(0, len(keys), _AT_ONCE):
        some = keys[at : at + _AT_ONCE]
        journal.have_ready(some)
        for number, key in enumerate(some, at):
            progress(number, len(keys))
            entity = journal.get(*key)
            if entity is not None and not is_ended(entity.item_type, entity.value.get("state"), journal.types):
                yield entity


def _may_be_due(journal: Journal, now_ms: int, progress: Progress) -> Iterator[Entity]:
    """Yield the entities that ``_due`` may report, by the index: with anchors, expired, or with a check that failed
    once. All others, most of a large memory, need not be read.
    """
    wanted = _confirmed_types(journal)
    marks = ", ".join("?" * len(wanted))
    checked = ", ".join("?" * len(CHECKED))
    # Where records are elsewhere the failed checks are unknown: each check is asked for its last run.
    failed = (
        f"SELECT item_type, item_id FROM documents WHERE item_type IN ({checked})"  # noqa: S608 - question marks
        if journal.index.has_floors else
        f"SELECT item_type, item_id FROM records WHERE item_type IN ({checked}) AND action = 'observe' AND summary LIKE ?"  # noqa: S608
    )  # fmt: skip
    rows = journal.index.db.execute(
        f"SELECT item_type, item_id FROM documents WHERE anchored AND item_type IN ({marks})"  # noqa: S608 - question marks
        f" UNION SELECT item_type, item_id FROM links WHERE field = ? AND value <= ? AND item_type IN ({marks}) UNION {failed}",
        (*wanted, EXPIRES, format_ms(now_ms), *wanted, *CHECKED, *(() if journal.index.has_floors else (f"{FAILED}: %",))),
    ).fetchall()  # fmt: skip
    return _holding(journal, wanted, rows, progress)


def _due(journal: Journal, ground: Ground, entity: Entity, now_ms: int) -> Due | None:
    moved = tuple(
        f"{one.anchor.ref} moved to {one.path}{f':{one.start}' if one.start else ''}"
        for one in ground.standings(entity)
        if one.state == "moved"
    )
    since = expired(journal.types, entity, now_ms)
    check = last_check(journal, entity)
    if check is not None and check.passed:
        check = None
    stale = () if ground.is_beside(entity) else ground.told(entity)
    due = Due(entity, stale, moved, since, check)
    return due if due.stale or moved or since or check is not None else None


def _is_confirmed(row: MemoryType) -> bool:
    return "about" in row.touchable and bool(row.stale_when)


def _confirmed(
    journal: Journal, entity: Entity, ground: Ground, writer: Writer, now_ms: int, about: Sequence[str], expires: str
) -> dict[str, JSONValue]:
    row = row_of(journal.types, entity.item_type)
    if row is None or not _is_confirmed(row):
        raise UsageError(f"a {entity.item_type} is not confirmed", safe=_SAFE)
    if is_ended(entity.item_type, entity.value.get("state"), journal.types):
        raise UsageError(f"{entity.item_id} is {entity.value.get('state')}: it is no longer in force", safe=_SAFE,
                         mend=f"See what is in force: periplus show {entity.item_id}")  # fmt: skip
    now = format_ms(now_ms)
    value = {**entity.value, "updated": now, "confirmed": f"{now} {writer.name}"}
    held = entity.value.get("about")
    items = list(held) if isinstance(held, list) else []
    if about:
        # It loads what finds symbols: readers need none of it.
        from periplus.memory.code_anchors.anchor_creation import anchored

        kept = [item for item in items if isinstance(item, dict) and item.get("kind") == "entity"]
        value["about"] = [*kept, *(anchored(ref, ground.root).about for ref in about)]
    elif items:
        value["about"] = [_found_again(entity, item, ground) for item in items]
    if expires:
        value["expires"] = expires
    elif expired(journal.types, entity, now_ms):
        value.pop("expires", None)
    return value


def _expires(journal: Journal, entity: Entity) -> bool:
    """Return True for entities that may have an expiry: a note, or an entity of a declared type that allows it."""
    row = row_of(journal.types, entity.item_type)
    return row is not None and "expires" in row.touchable


def _found_again(entity: Entity, item: JSONValue, ground: Ground) -> JSONValue:
    from periplus.memory.code_anchors.anchor_renewal import renewed_anchors

    about, path = renewed_anchors(item, ground)
    if about is None:
        ref = str(item.get("ref", "")) if isinstance(item, dict) else ""
        raise _lost(entity, ref, f"{path}:FIRST-LAST" if ground.read(path) is not None else "FILE")
    return about


def _lost(entity: Entity, ref: str, about: str) -> UsageError:
    return UsageError(
        f"{ref} cannot be found again", safe=_SAFE,
        mend=f"Say what it is about now: periplus confirm {entity.item_id} --about {about}",
    )  # fmt: skip
