"""Late changes: fields that one clone changed in an entity that another clone had superseded meanwhile.

After a sync the entity is superseded and has the change, perhaps in conflict, and nobody looks at superseded
entities: readers of the successor would miss the change. It is found in the graph of versions: from the present ones
back to those that say that the entity was replaced, beside some that do not say so and that none of the former had
known. Settling a conflict or setting a field does not settle it, for that says nothing of the successor; writing the
present state once more does.
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
    """``writers`` changed ``fields`` of ``entity`` while another clone superseded it by ``successors`` (ids; none
    where by nothing).
    """

    entity: Entity
    fields: tuple[str, ...]
    writers: tuple[str, ...]
    successors: tuple[str, ...]

    @property
    def command(self) -> str:
        """Return the command that settles it, once what still holds was carried over."""
        return f"periplus state {self.entity.item_id} {self.entity.value['state']}"


def late_changes(journal: Journal) -> list[LateChange]:
    """Return the late changes by type and id, conflicts included."""
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
    """Return an index with every version that merged several: the journal's own may begin at a checkpoint. The caller
    closes it where it is another one.
    """
    from periplus.journal.checkpoints.partial_history import index_with_history

    if journal.index.has_floors:
        where = f"item_type IN ({marks}) AND rev > 1 AND deleted = 0"
        if journal.index.db.execute(f"SELECT 1 FROM heads WHERE {where} LIMIT 1", tuple(types)).fetchone():  # noqa: S608 - question marks
            return index_with_history(journal)
    return journal.index


def late_change(journal: Journal, entity: Entity) -> LateChange | None:
    """Return the late change of ``entity`` that is not settled; None where there is none."""
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
        return bytes(shown.get(name, b"")) == (
            said or b""
        )  # its former value is unknown: the present one counts as changed

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
    """Return the newest versions that say that ``entity`` was replaced, and the newest that do not and that none of
    the former had known.
    """
    replaced, others, known, seen = list[str](), list[str](), list[str](), set[str]()
    waiting = list(entity.heads)
    while waiting:
        version = waiting.pop()
        if version in seen:
            continue
        seen.add(version)
        fields, actions = versions.fields(version), {one.action for one in versions.records.get(version, ())}
        if not fields:  # a tombstone, or redacted: its place in the graph is known all the same
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
