"""What a clone changed in an entity that another clone, which knew nothing of it, had put something else in place of.

After a sync the entity is superseded and has the change, perhaps in conflict, and nobody looks at what is superseded: what was
changed would be lost on whoever reads its successor. It shows in the graph of versions: from what is there now back to those
that say that the entity was replaced, beside some that do not say so and that none of the former had known. Who settles a conflict
or sets a field there says nothing of the successor; a change of state to what it is already does, and so it is settled.
"""

from __future__ import annotations

__all__ = ["LateChange", "late_change", "late_changes"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal
from periplus.journal.history.versions import Versions
from periplus.journal.state.merge import Node, nearest_common_ancestors
from periplus.memory.entities.types import row_of, rows_of
from periplus.memory.succession.successors import successors

if TYPE_CHECKING:
    from periplus.journal.index.tables import Index

_SAYS_NOTHING: Final = frozenset({"state", "updated", "v"})
_SAID: Final = frozenset({"transition"})
_FROM_FILES: Final = frozenset({"import"})


class LateChange(NamedTuple):
    """``fields`` of ``entity`` were changed by ``writers`` apart from its being superseded by ``successors`` (ids; none where by nothing)."""

    entity: Entity
    fields: tuple[str, ...]
    writers: tuple[str, ...]
    successors: tuple[str, ...]

    @property
    def command(self) -> str:
        """What settles it, once what still holds was carried over."""
        return f"periplus state {self.entity.item_id} {self.entity.value['state']}"


def late_changes(journal: Journal) -> list[LateChange]:
    """By type and id, with what is in conflict."""
    types = [row.name for row in rows_of(journal.types).values() if row.replaced_state]
    marks = ", ".join("?" * len(types))
    index = _index_with_merges(journal, types, marks)
    try:
        rows = index.db.execute(
            f"SELECT DISTINCT item_type, item_id FROM records WHERE item_type IN ({marks}) AND parents LIKE '%,%'", types  # noqa: S608 - question marks
        ).fetchall()  # fmt: skip
    finally:
        if index is not journal.index:
            index.close()
    met = {(str(row[0]), str(row[1])) for row in rows}
    met |= {(one.item_type, one.item_id) for one in journal.contested()}
    met |= {key for key in journal.unindexed() if key[0] in types}
    entities = [entity for key in sorted(met) if (entity := journal.as_read(*key)) is not None]
    return [found for entity in entities if (found := late_change(journal, entity)) is not None]


def _index_with_merges(journal: Journal, types: Sequence[str], marks: str) -> Index:
    """One in which every version is that brought several together: the journal's may begin at a checkpoint. The caller closes what is another."""
    from periplus.journal.checkpoints.partial_history import index_with_history

    if journal.index.has_floors:
        where = f"item_type IN ({marks}) AND rev > 1 AND deleted = 0"
        if journal.index.db.execute(f"SELECT 1 FROM heads WHERE {where} LIMIT 1", tuple(types)).fetchone():  # noqa: S608 - question marks
            return index_with_history(journal)
    return journal.index


def late_change(journal: Journal, entity: Entity) -> LateChange | None:
    """What was changed late in ``entity``, and is not settled; None where nothing was."""
    row = row_of(journal.types, entity.item_type)
    if row is None or not row.replaced_state or entity.value.get("state") != row.replaced_state:
        return None
    versions = Versions(journal, entity.item_type, entity.item_id, is_rest_enough=True)
    replaced, others = _sides(versions, entity, msgspec.json.encode(row.replaced_state))
    if not (replaced and others):
        return None
    held = versions.fields
    nodes = {version: Node(versions.parents(version), versions.rev_of(version)) for version in replaced + others}
    grounds = nearest_common_ancestors(
        nodes,
        lambda one: Node(versions.parents(one), versions.rev_of(one)) if one in versions.records else None,
    )
    before = [held(version) for version in grounds if held(version)]
    shown = msgspec.json.decode(entity.payload, type=dict[str, msgspec.Raw])

    def is_late(name: str, version: str) -> bool:
        said = held(version).get(name)
        if any(held(one).get(name) == said for one in replaced):
            return False
        if before:
            return all(one.get(name) != said for one in before)
        return bytes(shown.get(name, b"")) == (said or b"")  # nobody knows what it was: what is shown was changed

    names = sorted({name for version in (*replaced, *others) for name in held(version)} - _SAYS_NOTHING)
    fields = [name for name in names if any(is_late(name, version) for version in others)]
    if not fields:
        return None
    writers = {head.version: head.writer for head in journal.heads_of(entity.item_type, entity.item_id)}
    named = [head.writer if (head := versions.head(one)) is not None else writers.get(one, "") for one in others]
    return LateChange(
        entity, tuple(fields), tuple(dict.fromkeys(named)), tuple(one.item_id for one in successors(journal, entity.item_id))
    )  # fmt: skip


def _sides(versions: Versions, entity: Entity, state: bytes) -> tuple[list[str], list[str]]:
    """The newest versions that say that ``entity`` was replaced, and the newest that do not and that none of the former had known."""
    replaced, others, known, seen = list[str](), list[str](), list[str](), set[str]()
    waiting = list(entity.heads)
    while waiting:
        version = waiting.pop()
        if version in seen:
            continue
        seen.add(version)
        fields, actions = versions.fields(version), {one.action for one in versions.records.get(version, ())}
        if not fields:  # a tombstone, or redacted: where it stands is known all the same
            if actions & _SAID:
                known.append(version)
            else:
                waiting += versions.parents(version)
        elif fields.get("state") != state:
            others.append(version)
        elif actions & _SAID or actions <= _FROM_FILES or not _is_said_before(versions, version, state):
            replaced.append(version)
        else:
            waiting += versions.parents(version)
    knew = versions.ancestors((*replaced, *known))
    return sorted(replaced), sorted(version for version in others if version not in knew)


def _is_said_before(versions: Versions, version: str, state: bytes) -> bool:
    return any(versions.fields(one).get("state") == state for one in versions.parents(version))
