"""Life cycle of entities: changes of state with their consequences, updates, and lineage.

Every change is one mutation: it is decided under the lock on the journal's newest records and written in one batch
with all its consequences, or not at all. The table (``memory.entities.types``) says what is allowed; any other change
is refused with the possible ones.

Lineage is kept in relations: an entity that evolved, was merged or split is *superseded* by the new one, and goes to
the state that its row names for that. Nothing is deleted. Where a live entity has the new text already, it becomes
the successor.

A new text is anchored to the code as it is now, where the code can be found (``Ground``). Anchors that cannot be
found stay as they were, so that the entity is stale, and a note says so.
"""

from __future__ import annotations

__all__ = [
    "Changed",
    "about_anchored",
    "bring",
    "change_state",
    "evolve",
    "link",
    "merge",
    "split",
    "supersede",
    "typed_fields",
    "update",
]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Receipt, Transaction, Writer
from periplus.memory.claim_status import is_claimed
from periplus.memory.entities.types import (
    CANDIDATE,
    DISPATCHED,
    MEMORY_TYPES,
    NOT_REMEMBERED,
    Cascade,
    MemoryType,
    check_tags,
    row_of,
    state_of,
)
from periplus.memory.entities.validity import expiry_notes
from periplus.memory.fulltext.index_rows import text_digest
from periplus.memory.fulltext.links import linked
from periplus.memory.succession.conflict_settlement import (
    is_settled_by_state,
    said_apart,
    settles_state,
    states_apart,
    with_group_of_state,
)
from periplus.memory.writing.write_keys import Written, check_repeated, has_fields

if TYPE_CHECKING:
    from periplus.memory.code_anchors.anchors import Ground

CASCADES_MAX: Final = 10_000
PARTS_MAX: Final = 100
_RELATIONS: Final = frozenset(
    {"supersedes", "contradicts", "caused", "resolves", "depends_on", "part_of", "references"}
)
_BY_OTHERS: Final = {
    (CANDIDATE, "accepted"): (
        "a candidate is accepted by its own command, which writes the memory", "candidates accept {id}"
    ),
    ("claim", "held"): ("a claim is taken by its own command, which checks the claims of others", "claim take SCOPE"),
}  # fmt: skip
_SAID_BY_WHO_DID_IT: Final = frozenset({"done", "review"})
_CARRIED: Final = frozenset({"tags", "about", "evidence"})


class Changed(NamedTuple):
    """``entities`` in their present state, the requested ones first, then those that changed with them; ``receipt``
    is None where nothing had to change.

    ``near`` are ids of entities with almost the same text; ``notes`` are about anchors that are weaker than what was
    asked for.
    """

    entities: tuple[Entity, ...]
    receipt: Receipt | None
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def change_state(
    journal: Journal, writer: Writer, item_ids: Sequence[str], state: str, *, reason: str = "", force: bool = False,
    key: str = "",
) -> Changed:  # fmt: skip
    """Bring entities (ids, or unique beginnings of them) into ``state`` with all consequences, all or none of them.

    An entity that is in that state already is left unchanged. Raises NotFoundError, UsageError for a state that
    cannot follow, and without ``force`` RefusedError for work that somebody else has claimed.
    """
    asked = [_known(journal, item_id) for item_id in item_ids]
    for one in asked:
        if (one.item_type, state) in _BY_OTHERS and not _is_said_already(journal, one, state):
            wrong, command = _BY_OTHERS[one.item_type, state]
            raise UsageError(
                wrong, safe="Nothing was written.", mend=f"Write: periplus {command}".format(id=one.item_id)
            )
        if one.item_type in DISPATCHED and not one.is_in_conflict:
            raise UsageError(
                f"a {one.item_type} changes by the work that it is for, not by hand", safe="Nothing was written.",
                mend="See `periplus dispatch --help`: stop, drop, answer, retry.",
            )  # fmt: skip
    late = _changed_late(journal, asked, state)
    from periplus.memory.succession.lost_successors import lost_successor_of

    ended = [one for one in asked if one.value.get("state") == state]  # to say so again settles it
    bereft = frozenset(one.item_id for one in ended if lost_successor_of(journal, one) is not None)

    def write(transaction: Transaction) -> list[tuple[str, str]]:
        if not force:
            _refuse_others_work(journal, transaction, writer, asked, state)
        change = _Change(journal, transaction, reason, late, bereft)
        for one in asked:
            change.enter(one.item_type, one.item_id, state)
        change.cascade()
        return change.touched

    def is_same(written: Sequence[Written]) -> bool:
        then = {(one.item_type, one.item_id): one.value for one in written}
        said = [value for one in asked if (value := then.get((one.item_type, one.item_id))) is not None]
        is_said = all(value.get("state") == state and value.get("reason", reason) == reason for value in said)
        return bool(said) and is_said and (len(said) == len(asked) or len(asked) > 1)  # some were in the state already

    return _mutated(journal, writer, write, asked, key, is_same)


def update(
    journal: Journal, writer: Writer, item_id: str, fields: Mapping[str, JSONValue], *, expect: str = "", root: str = "",
    key: str = "",
) -> Changed:  # fmt: skip
    """Set fields of an entity; None removes a field. ``expect`` is the version that the caller had read. ``about`` is
    anchored as it is now in the folder ``root``.

    Raises UsageError for a field that a plain update may not set, ConflictError where ``expect`` is not the present
    version.
    """
    asked = _known(journal, item_id)
    row = _row(journal, asked.item_type)
    for name in fields:
        if name == "state":
            raise UsageError(f"a {row.name} changes its state by its own command", safe="Nothing was written.")
        if name not in row.touchable:
            raise UsageError(
                f"{name} of a {row.name} cannot be set", safe="Nothing was written.",
                mend=f"These can: {', '.join(sorted(row.touchable))}." if row.touchable else "To correct it, write an entity that supersedes it.",
            )  # fmt: skip

    check_tags(fields.get("tags"))
    fields, notes = about_anchored(row, typed_fields(row, fields), root)
    if row.may_expire:
        notes += expiry_notes(fields.get("expires"), journal.clock.now_ms())
    said = fields.get("text")

    def write(transaction: Transaction) -> list[tuple[str, str]]:
        entity = _now(transaction, row.name, asked.item_id)
        if isinstance(said, str) and row.name not in NOT_REMEMBERED:
            _refuse_duplicate(journal, row.name, said, asked.item_id)
        value = {**entity.value, **fields}
        value = {name: held for name, held in value.items() if held is not None}
        if (
            value == entity.value and not entity.is_in_conflict
        ):  # the value that is shown of a conflict may be the wanted one
            return []
        if "depends_on" in fields:
            _refuse_circle(transaction, row.name, asked.item_id, value.get("depends_on"))
        if "updated" in row.fields:
            value["updated"] = _time(journal)
        transaction.put(row.name, asked.item_id, value, action="update",
                        expect=expect or entity.version, summary=f"{row.name} updated: {', '.join(sorted(fields))}")  # fmt: skip
        return [(row.name, asked.item_id)]

    def is_same(written: Sequence[Written]) -> bool:
        return (written[0].item_type, written[0].item_id) == (row.name, asked.item_id) and has_fields(
            written[0].value, fields
        )

    return _mutated(journal, writer, write, [asked], key, is_same)._replace(notes=notes)


def evolve(
    journal: Journal,
    writer: Writer,
    item_id: str,
    text: str,
    fields: Mapping[str, JSONValue] | None = None,
    *,
    ground: Ground | None = None,
    key: str = "",
) -> Changed:
    """Write a new entity with ``text`` in place of ``item_id``, which it supersedes, with its tags, anchors and
    evidence.
    """
    return _replaced(journal, writer, [item_id], [text], fields or {}, ground, key)


def merge(
    journal: Journal, writer: Writer, item_ids: Sequence[str], text: str, fields: Mapping[str, JSONValue] | None = None, *,
    ground: Ground | None = None, key: str = "",
) -> Changed:  # fmt: skip
    """Write one new entity in place of several of one type, with the tags, anchors and evidence of all of them."""
    if len(set(item_ids)) < 2:
        raise UsageError("a merge needs two or more entities", safe="Nothing was written.")
    return _replaced(journal, writer, item_ids, [text], fields or {}, ground, key)


def split(
    journal: Journal, writer: Writer, item_id: str, texts: Sequence[str], *, ground: Ground | None = None, key: str = ""
) -> Changed:
    """Write several new entities in place of one, each with its tags, anchors and evidence."""
    if len(texts) < 2:
        raise UsageError("a split needs two or more texts", safe="Nothing was written.")
    return _replaced(journal, writer, [item_id], texts, {}, ground, key)


def link(journal: Journal, writer: Writer, item_id: str, kind: str, target_id: str, *, key: str = "") -> Changed:
    """Add a relation from an entity to another. ``supersedes`` and ``depends_on`` also have their consequences."""
    if kind not in _RELATIONS:
        raise UsageError(
            f"{kind!r} is not a relation",
            safe="Nothing was written.",
            mend=f"Known are: {', '.join(sorted(_RELATIONS))}.",
        )
    asked, target = _known(journal, item_id), _known(journal, target_id)
    if asked.item_id == target.item_id:
        raise UsageError("an entity has no relation to itself", safe="Nothing was written.")

    def write(transaction: Transaction) -> list[tuple[str, str]]:
        entity = _now(transaction, asked.item_type, asked.item_id)
        if "relations" not in _row(journal, asked.item_type).fields:
            raise UsageError(f"a {asked.item_type} has no relations", safe="Nothing was written.")
        relations = _list(entity.value.get("relations"))
        said: JSONValue = {"kind": kind, "target": target.item_id}
        if said in relations:
            return []
        transaction.put(asked.item_type, asked.item_id,
                        {**entity.value, "relations": [*relations, said], "updated": _time(journal)}, action="update",
                        expect=entity.version, summary=f"{asked.item_type} {kind} {target.item_id}")  # fmt: skip
        touched = [(asked.item_type, asked.item_id)]
        return touched + (supersede(journal, transaction, target) if kind == "supersedes" else [])

    def is_same(written: Sequence[Written]) -> bool:
        of = [one for one in written if one.item_id == asked.item_id]
        return any({"kind": kind, "target": target.item_id} in _list(one.value.get("relations")) for one in of)

    return _mutated(journal, writer, write, [asked], key, is_same)


def bring(
    journal: Journal, transaction: Transaction, entities: Sequence[Entity], state: str, reason: str = "",
    fields: Mapping[str, JSONValue] | None = None,
) -> list[tuple[str, str]]:  # fmt: skip
    """Within a mutation: bring ``entities`` into ``state`` with all consequences; returns what was changed. ``fields`` are
    set together with the state.
    """
    change = _Change(journal, transaction, reason)
    for entity in entities:
        change.enter(entity.item_type, entity.item_id, state, fields=fields or {})
    change.cascade()
    return change.touched


def supersede(journal: Journal, transaction: Transaction, old: Entity) -> list[tuple[str, str]]:
    """Within a mutation: mark ``old`` as replaced, with all consequences; returns what was changed."""
    change = _Change(journal, transaction, "")
    change.enter(old.item_type, old.item_id, "", is_replaced=True)
    change.cascade()
    return change.touched


class _Change:
    """Changes of state within one mutation: each entity once, cascades until none is left."""

    def __init__(
        self, journal: Journal, transaction: Transaction, reason: str, late: frozenset[str] = frozenset(),
        bereft: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """``bereft`` are ids of entities whose replacement is gone: they are written though they are in the state
        already.
        """
        self._bereft = bereft
        self._journal = journal
        self._transaction = transaction
        self._reason = reason
        self._late = late  # ids of entities that are written though they are in the state already
        self._waiting: list[tuple[MemoryType, str, dict[str, JSONValue], bool]] = []
        self.touched: list[tuple[str, str]] = []

    def enter(
        self, item_type: str, item_id: str, state: str, *, is_replaced: bool = False, fields: Mapping[str, JSONValue] | None = None
    ) -> None:  # fmt: skip
        """Bring an entity into ``state``; with ``is_replaced`` into the state that its type has for what was replaced,
        where it has one.
        """
        entity = _now(self._transaction, item_type, item_id)
        row = _row(self._journal, item_type)
        if is_replaced:
            state = row.replaced_state
            if not state:
                return
        before = state_of(item_type, entity.value, row.default_state)
        is_contested = is_settled_by_state(row, entity)
        is_contested |= not is_replaced and state == row.replaced_state and self._is_said_apart(entity, state)
        is_contested |= item_id in self._bereft
        if (before == state and not is_contested) or (is_replaced and before in row.ended_states):
            return
        if not row.transitions:
            raise UsageError(f"a {item_type} has no states", safe="Nothing was written.")
        heads = states_apart(self._journal, entity)
        said_so = next((one for one in heads if state_of(item_type, one, row.default_state) == state), None)
        following = row.transitions.get(before, frozenset()).union(
            *(row.transitions.get(state_of(item_type, one, row.default_state), frozenset()) for one in heads)
        )
        is_again = state == before or said_so is not None
        if state not in following and not is_again and not is_replaced:
            known = (
                f"From {before} it can become: {', '.join(sorted(following))}."
                if following
                else f"{before} is an end state."
            )
            raise UsageError(
                f"{item_id} is {before} and cannot become {state}", safe="Nothing was written.", mend=known
            )
        if len(self.touched) >= CASCADES_MAX:
            raise UsageError(f"over {CASCADES_MAX:,} entities would change with it", safe="Nothing was written.")
        value = {**entity.value, **(fields or {}), "state": state}
        if (
            said_so is not None and before != state
        ):  # keeps the reason of the clone that said this, not of the other one
            value = with_group_of_state(row, value, said_so) | {"state": state}
        names = row.fields
        if "updated" in names and not is_replaced:  # a replaced entity keeps its time: its successor has the new one
            value["updated"] = _time(self._journal)
        if "reason" in names and (self._reason or ("reason" in value and not is_again)):
            value["reason"] = self._reason
        why = f": {self._reason}" if self._reason else ""
        self._transaction.put(item_type, item_id, value, action="transition", expect=entity.version,
                              summary=f"{item_type} {state}" if is_replaced else f"{item_type} {before} → {state}{why}")  # fmt: skip
        self.touched.append((item_type, item_id))
        self._waiting.append((row, item_id, value, is_again))

    def _is_said_apart(self, entity: Entity, state: str) -> bool:
        """Return True where the entity is in ``state`` by one clone and another clone changed it apart from that:
        writing the state once more settles both.
        """
        if entity.item_id in self._late:
            return True
        return any(one.get("state") != state for one in said_apart(self._journal, entity))

    def cascade(self) -> None:
        while self._waiting:
            row, item_id, value, is_again = self._waiting.pop(0)
            for one in row.cascades:
                if value["state"] in one.into:
                    for other_id in self._reached(one, item_id, value, is_again=is_again):
                        self.enter(one.item_type, other_id, one.to)

    def _reached(self, cascade: Cascade, item_id: str, value: Mapping[str, JSONValue], *, is_again: bool) -> list[str]:
        """Return the entities that a cascade reaches; where the state of their origin was settled between clones,
        also those for which these clones said the same.
        """
        if cascade.is_own:
            named = value.get(cascade.field)
            found = [named] if isinstance(named, str) and named else []
        else:
            found = [entity.item_id for entity in linked(self._journal, cascade.item_type, cascade.field, item_id)]
        reached = []
        for other_id in found:
            entity = self._transaction.get(cascade.item_type, other_id)
            if entity is None or entity.deleted:
                continue
            state = entity.value.get("state")
            is_settled = is_again and state == cascade.to and settles_state(MEMORY_TYPES[cascade.item_type], entity)
            is_kept = cascade.to == "todo" and is_claimed(self._journal, self._transaction, other_id)
            if (state in cascade.states or is_settled) and not is_kept:
                reached.append(other_id)
        return reached


def _replaced(
    journal: Journal,
    writer: Writer,
    item_ids: Sequence[str],
    texts: Sequence[str],
    fields: Mapping[str, JSONValue],
    ground: Ground | None,
    key: str,
) -> Changed:
    from periplus.memory.retrieval.duplicates import duplicate_of, near_memories

    olds = list({one.item_id: one for one in (_known(journal, item_id) for item_id in item_ids)}.values())
    row = _row(journal, olds[0].item_type)
    _check_replacing(row, olds, texts, fields)
    check_tags(fields.get("tags"))
    fields, notes = about_anchored(row, typed_fields(row, fields), ground.root if ground is not None else "")
    said = [" ".join(text.split()) for text in texts]
    if len(texts) > 1 and (len(set(said)) < len(said) or " ".join(str(olds[0].value.get("text", "")).split()) in said):
        raise UsageError("one of the texts is given twice, or is the present text", safe="Nothing was written.",
                         mend="Give each part its own words.")  # fmt: skip
    anew = {old.item_id: _anew(old, ground) for old in olds} if "about" not in fields else {}
    notes += tuple(note for _, told in anew.values() for note in told)
    carried = _CARRIED - fields.keys()
    made = [new_id(row.prefix) for _ in texts]
    standing: list[str] = []

    def write(transaction: Transaction) -> list[tuple[str, str]]:
        sources = [_now(transaction, row.name, old.item_id) for old in olds]
        _refuse_fork(journal, row, sources, texts)
        now, touched = _time(journal), list[tuple[str, str]]()
        standing.clear()
        for item_id, text in zip(made, texts, strict=True):
            held = None if row.name in NOT_REMEMBERED else duplicate_of(journal, row.name, text)
            value = _successor(row, sources, {**fields, "text": text.strip()}, writer, now, anew)
            if held is not None and not (fields and held.item_id in anew):
                standing.append(held.item_id)
                others = [one for one in sources if one.item_id != held.item_id]
                if others:
                    _take_over(transaction, held, value, others, now, carried | {"relations"})
                    touched.append((row.name, held.item_id))
                continue
            transaction.put(
                row.name, item_id, value, expect=ABSENT, summary=f"{row.name}: {text.strip()}", carried=carried
            )
            touched.append((row.name, item_id))
        for old in sources:
            if old.item_id not in standing:
                touched += supersede(journal, transaction, old)
        return touched

    def is_same(written: Sequence[Written]) -> bool:
        return _was_put_so([one for one in written if one.item_type == row.name], olds, texts, fields)

    done = _mutated(journal, writer, write, [], key, is_same)
    if not done.entities:  # the entities to be replaced say all of it already
        done = done._replace(entities=tuple(one for item_id in standing if (one := journal.get(row.name, item_id))))
    known = {old.item_id for old in olds} | {one.item_id for one in done.entities}
    near = [item_id for text in texts for item_id in near_memories(journal, text, (row.name,), known)]
    return done._replace(near=tuple(dict.fromkeys(near)), notes=notes)


def _refuse_fork(journal: Journal, row: MemoryType, sources: Sequence[Entity], texts: Sequence[str]) -> None:
    """Raise ConflictError where something else in force already replaced one of ``sources``: both would hold without
    knowing of each other.
    """
    from periplus.memory.succession.successors import in_place_of

    known, said = {one.item_id for one in sources}, {text_digest(row.name, text) for text in texts}
    for source in sources:
        found = in_place_of(journal, source.item_id)
        others = [
            one.item_id for one in found
            if one.item_id not in known and text_digest(one.item_type, str(one.value.get("text", ""))) not in said
        ]  # fmt: skip
        if not others:
            continue
        command = f"evolve {others[0]} '…'" if len(others) == 1 else f"merge {' '.join(others)} --text '…'"
        raise ConflictError(
            f"{source.item_id} was replaced already, by {', '.join(others)}", safe="Nothing was written.",
            mend=f"See the replacement, and replace that: periplus {command}",
        )  # fmt: skip


def _was_put_so(
    written: Sequence[Written], olds: Sequence[Entity], texts: Sequence[str], fields: Mapping[str, JSONValue]
) -> bool:
    """Return True where earlier records put just ``texts``, with ``fields``, in place of ``olds``. An entity that had
    one of the texts already counts as it.
    """
    name, ids = olds[0].item_type, {old.item_id for old in olds}
    said = {one.item_id: text_digest(name, str(one.value.get("text", ""))) for one in written}
    relations = [relation for one in written for relation in _list(one.value.get("relations"))]
    named = {str(relation.get("target")) for relation in relations if isinstance(relation, dict)}
    new = {digest for item_id, digest in said.items() if item_id not in ids}
    are_alike = all(has_fields(one.value, fields) for one in written if one.action == "create")
    return (
        are_alike
        and new <= {text_digest(name, text) for text in texts} <= {*said.values()}
        and ids <= said.keys() | named
    )


def _check_replacing(
    row: MemoryType, olds: Sequence[Entity], texts: Sequence[str], fields: Mapping[str, JSONValue]
) -> None:
    if any(old.item_type != row.name for old in olds):
        raise UsageError(f"they are not all of one type: {', '.join(sorted({old.item_type for old in olds}))}",
                         safe="Nothing was written.")  # fmt: skip
    is_stateless = row.name == "note" or (row.name not in MEMORY_TYPES and not row.transitions)
    if not row.replaced_state and not is_stateless:
        raise UsageError(f"a {row.name} cannot be replaced", safe="Nothing was written.")
    if len(olds) > PARTS_MAX or len(texts) > PARTS_MAX:
        raise UsageError(f"more than {PARTS_MAX} at once", safe="Nothing was written.")
    strange = set(fields) - row.touchable
    if strange:
        raise UsageError(f"a {row.name} cannot be given {', '.join(sorted(strange))}", safe="Nothing was written.")


def _anew(old: Entity, ground: Ground | None) -> tuple[list[JSONValue], list[str]]:
    """Return ``about`` of ``old`` as it would be anchored now, with a note for what cannot be found and stays
    unchanged.
    """
    from periplus.memory.code_anchors.anchor_renewal import renewed_anchors

    found, notes = list[JSONValue](), list[str]()
    for item in _list(old.value.get("about")):
        about = renewed_anchors(item, ground)[0] if ground is not None else item
        if about is None:
            ref = item.get("ref", "") if isinstance(item, dict) else ""
            notes.append(f"{ref} cannot be found again: it stays stale until it is confirmed")
        found.append(item if about is None else about)
    return found, notes


def _successor(
    row: MemoryType, sources: Sequence[Entity], fields: Mapping[str, JSONValue], writer: Writer, now: str,
    anew: Mapping[str, tuple[list[JSONValue], list[str]]],
) -> dict[str, JSONValue]:  # fmt: skip
    """Return the payload of a successor of ``sources``: the fields of the first, the lists of all, and the relation."""
    value = dict(sources[0].value)
    for name in sorted(_CARRIED):
        joined: list[JSONValue] = []
        for source in sources:
            of_source = _list(source.value.get(name))
            if name == "about" and source.item_id in anew:
                of_source = anew[source.item_id][0]
            joined += [one for one in of_source if one not in joined]
        if joined:
            value[name] = joined
    value |= fields
    value["relations"] = [{"kind": "supersedes", "target": source.item_id} for source in sources]
    value |= {
        "author": writer.name,
        "created": now,
        "updated": now,
        "provenance": {"kind": "person", "name": writer.name},
    }
    value = {name: part for name, part in value.items() if part is not None}
    for name in ("session", "confirmed"):
        value.pop(name, None)
    if writer.session:
        value["session"] = writer.session
    state = value.get("state")
    if row.default_state and isinstance(state, str) and state in row.ended_states:
        value["state"] = row.default_state
    return value


def _take_over(
    transaction: Transaction, held: Entity, value: Mapping[str, JSONValue], sources: Sequence[Entity], now: str,
    carried: frozenset[str],
) -> None:  # fmt: skip
    """Let ``held``, which has the new text already, take the place of ``sources``."""
    taken: dict[str, JSONValue] = {**held.value, "updated": now}
    for name in sorted({*_CARRIED, "relations"}):
        said: JSONValue = [{"kind": "supersedes", "target": one.item_id} for one in sources]
        more = said if name == "relations" else value.get(name)
        mine = _list(held.value.get(name))
        joined = [*mine, *(one for one in _list(more) if one not in mine)]
        if joined:
            taken[name] = joined
    transaction.put(held.item_type, held.item_id, taken, action="update", expect=held.version, carried=carried,
                    summary=f"{held.item_type} stands in place of {', '.join(one.item_id for one in sources)}")  # fmt: skip


def about_anchored(
    row: MemoryType, fields: Mapping[str, JSONValue], root: str
) -> tuple[dict[str, JSONValue], tuple[str, ...]]:
    """Return ``fields`` with ``about`` anchored as it is now, with notes. The scopes of a step have no anchors.

    Items are words as people type them, or objects with a ``ref``. Raises UsageError for an item that names nothing.
    """
    about = fields.get("about")
    if "about" not in fields or about is None:
        return dict(fields), ()
    from periplus.memory.code_anchors.anchor_creation import anchored
    from periplus.memory.scopes import parse_scopes

    refs = []
    for item in about if isinstance(about, list | tuple) else [about]:
        ref = item.get("ref") if isinstance(item, dict) else item
        if not isinstance(ref, str) or not ref:
            raise UsageError(f"about names nothing: {str(item)[:80]!r}", safe="Nothing was written.",
                             mend="Name a path (with :10-20 or :symbol behind) or an id.")  # fmt: skip
        refs.append(ref)
    if row.name == "step":
        found: list[JSONValue] = [
            {"kind": "symbol" if scope.symbol else "path", "ref": scope.text} for scope in parse_scopes(refs)
        ]
        return {**fields, "about": found}, ()
    made = [anchored(ref, root, with_digest=bool(row.stale_when)) for ref in refs]
    return {**fields, "about": [one.about for one in made]}, tuple(one.note for one in made if one.note)


def _is_said_already(journal: Journal, entity: Entity, state: str) -> bool:
    """Return True where a clone said so of an entity in conflict: to confirm it does not need the command of its own."""
    said = [entity.value, *(states_apart(journal, entity) if entity.item_type == CANDIDATE else ())]
    return entity.is_in_conflict and any(state_of(entity.item_type, one) == state for one in said)


def _changed_late(journal: Journal, asked: Sequence[Entity], state: str) -> frozenset[str]:
    """Return the ids of entities with late changes that the same state, written once more, would settle."""
    from periplus.memory.succession.late_changes import late_change

    again = [one for one in asked if _row(journal, one.item_type).replaced_state == state == one.value.get("state")]
    return frozenset(one.item_id for one in again if late_change(journal, one) is not None)


def _refuse_duplicate(journal: Journal, item_type: str, text: str, item_id: str) -> None:
    """Raise ConflictError where another live entity has the text ``text``."""
    from periplus.memory.retrieval.duplicates import duplicate_of

    held = duplicate_of(journal, item_type, text)
    if held is not None and held.item_id != item_id:
        raise ConflictError(f"{held.item_id} already says that", safe="Nothing was written.",
                            mend=f"Merge the two: periplus merge {item_id} {held.item_id} --text '…'")  # fmt: skip


def _refuse_others_work(
    journal: Journal, transaction: Transaction, writer: Writer, asked: Sequence[Entity], state: str
) -> None:
    """Raise RefusedError where one of ``asked`` is a claim of somebody else, or a step, or a plan that would end with
    steps, under such a claim. Of a step that two writers took in separate clones each may say that it is done.
    """
    from periplus.memory.claim_status import holds, is_live

    now_ms = journal.clock.now_ms()
    for one in asked:
        entity = transaction.get(one.item_type, one.item_id)
        if entity is None or state_of(one.item_type, entity.value) == state:
            continue
        claims: list[Entity] = []
        if one.item_type == "claim":
            claims = [entity]
        elif one.item_type == "step":
            claims = linked(journal, "claim", "step", one.item_id)
            if state in _SAID_BY_WHO_DID_IT and any(
                is_live(journal, it, now_ms) and holds(writer, it) for it in claims
            ):
                continue
        elif one.item_type == "plan" and state in MEMORY_TYPES["plan"].ended_states:
            steps = {step.item_id for step in linked(journal, "step", "plan", one.item_id)}
            held = linked(journal, "claim", "state", "held")
            claims = [claim for claim in held if str(claim.value.get("step", "")) in steps]
        for claim in claims:
            if is_live(journal, claim, now_ms) and not holds(writer, claim):
                what = (
                    f"{claim.value.get('step')} is being done by"
                    if claim.value.get("step")
                    else f"{claim.item_id} is a claim of"
                )
                raise RefusedError(f"{what} {claim.value.get('holder')} until {claim.value.get('expires')} [{claim.item_id}]",
                                   safe="Nothing was written.", mend="Ask the holder, or insist with --force.")  # fmt: skip


def _refuse_circle(transaction: Transaction, item_type: str, item_id: str, depends_on: JSONValue) -> None:
    """Raise UsageError where work would wait for itself, naming the circle."""
    way: dict[str, str] = {}
    waiting = [(str(one), item_id) for one in _list(depends_on)]
    while waiting:
        at, before = waiting.pop()
        if at in way:
            continue
        way[at] = before
        if at == item_id:
            names = [at]
            while (at := way[at]) != item_id:
                names.append(at)
            raise UsageError(f"it would wait for itself: {' ← '.join([*names, item_id])}", safe="Nothing was written.",
                             mend="Take one of these dependencies away first.")  # fmt: skip
        found = next(
            (entity for kind in (item_type, "step", "plan") if (entity := transaction.get(kind, at)) is not None), None
        )
        if found is not None:
            waiting += [(str(one), at) for one in _list(found.value.get("depends_on"))]


def _mutated(
    journal: Journal,
    writer: Writer,
    write: Callable[[Transaction], list[tuple[str, str]]],
    asked: Sequence[Entity],
    key: str,
    is_same: Callable[[Sequence[Written]], bool],
) -> Changed:
    """Run the mutation. Raises ConflictError for a ``key`` that was used for something else."""
    touched: list[tuple[str, str]] = []

    def run(transaction: Transaction) -> None:
        touched[:] = write(transaction)

    receipt = journal.mutate(run, writer, key=key)
    check_repeated(journal, receipt, is_same)
    if receipt.repeated:
        touched = journal.written_by(receipt)
    keys = dict.fromkeys([*[(one.item_type, one.item_id) for one in asked], *touched])
    entities = tuple(entity for one in keys if (entity := journal.get(*one)) is not None)
    return Changed(entities, receipt if receipt.record_count else None)


def _known(journal: Journal, item_id: str) -> Entity:
    entity = journal.find(item_id)
    _row(journal, entity.item_type)
    return entity


def _row(journal: Journal, item_type: str) -> MemoryType:
    row = row_of(journal.types, item_type)
    if row is None:
        raise NotFoundError(f"{item_type!r} is an unknown type", safe="Nothing was written; existing entities are kept.",
                            mend="It may be declared in a config.toml that this store lacks, or by a later Periplus.")  # fmt: skip
    return row


def _now(transaction: Transaction, item_type: str, item_id: str) -> Entity:
    entity = transaction.get(item_type, item_id)
    if entity is None or entity.deleted:
        raise ConflictError(f"{item_id} was deleted meanwhile", safe="Nothing was written.")
    return entity


def _list(value: JSONValue) -> list[JSONValue]:
    return list(value) if isinstance(value, list | tuple) else []


def _time(journal: Journal) -> str:
    return format_ms(journal.clock.now_ms())


def typed_fields(row: MemoryType, fields: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
    """Return ``fields`` of a declared type as its schema has them, where they are given as texts; those of our own
    types unchanged.
    """
    if not row.own:
        return dict(fields)
    from periplus.memory.entities.declared_types import coerced

    return coerced(row, fields)
