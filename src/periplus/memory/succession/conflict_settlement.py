"""Settle conflicts: the command that ends a conflict, and what a repeated state settles.

Any write over all heads ends all conflicts of an entity. The table (``memory.entities.types``) says which fields a
person may set: those are set; for the others, and where the entity as a whole or its state is in conflict, its state
is written, which settles also where it is the shown one already.
"""

from __future__ import annotations

__all__ = ["is_settled_by_state", "said_apart", "settled_by", "settles_state", "states_apart", "with_group_of_state"]

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.journal import Entity, Journal
from periplus.journal.state.entity import Conflict
from periplus.memory.entities.types import CONTEXT_REF, MemoryType, row_of


def is_settled_by_state(row: MemoryType, entity: Entity) -> bool:
    """Return True where ``entity`` is in conflict in a field that writing its state once more settles."""
    return any(_is_by_state(row, conflict) for conflict in entity.conflicts)


def settles_state(row: MemoryType, entity: Entity) -> bool:
    """Return True where ``entity`` is in conflict in its state, or in a field of the same group, such as the reason."""
    return any(conflict.path[:1] in {(name,) for name in _with_state(row)} for conflict in entity.conflicts)


def said_apart(
    journal: Journal, entity: Entity, versions: AbstractSet[str] | None = None
) -> list[dict[str, JSONValue]]:
    """Return the content of each head (among ``versions``) that is not deleted where there are several; the newest
    first.
    """
    heads = journal.heads_of(entity.item_type, entity.item_id) if len(entity.heads) > 1 else []
    said = (head for head in heads if head.payload and (versions is None or head.version in versions))
    ranked = sorted(said, key=lambda head: (head.rev, head.version), reverse=True)
    return [msgspec.json.decode(head.payload, type=dict) for head in ranked]


def states_apart(journal: Journal, entity: Entity) -> list[dict[str, JSONValue]]:
    """Return the contents between which the state is in conflict, the newest first; empty where there is no conflict."""
    versions = {one.version for conflict in entity.conflicts if conflict.path == ("state",) for one in conflict.values}
    return said_apart(journal, entity, versions) if versions else []


def with_group_of_state(
    row: MemoryType, value: Mapping[str, JSONValue], said: Mapping[str, JSONValue]
) -> dict[str, JSONValue]:
    """Return ``value`` with the state of ``said``, and the fields of the same group."""
    names = _with_state(row)
    kept = {name: part for name, part in value.items() if name not in names}
    return kept | {name: said[name] for name in sorted(names) if name in said}


def settled_by(journal: Journal, entity: Entity, conflict: Conflict) -> str:
    """Return what ends ``conflict`` as text, with the command to type."""
    if entity.item_type == CONTEXT_REF:
        return f"`periplus context merge --ref {entity.value.get('name')}` ends it"
    if entity.item_type == "trail":
        return "`periplus trail import` of its session ends it"
    row = row_of(journal.types, entity.item_type)
    if row is None:
        return "the next write by a Periplus that knows its type settles it"
    name = conflict.path[0] if conflict.path else "text"
    command = f"set {entity.item_id} {name}=VALUE"
    if row.transitions and (name not in row.touchable or (conflict.path and _is_by_state(row, conflict))):
        is_state = any(one.path == ("state",) for one in entity.conflicts)
        command = f"state {entity.item_id} {'STATE' if is_state else entity.value.get('state', row.default_state)}"
        command += " --reason TEXT" if name in _with_state(row) and "reason" in _with_state(row) else ""
    elif name not in row.touchable:
        command = f"set {entity.item_id} text=VALUE"
    said = f"the next write settles it: periplus {command}"
    if conflict.path == ("accepted_by",):
        return f"{said}, or `periplus handoff accept {entity.item_id}` by another of them"
    deletes = _deletes(journal, entity) if not conflict.path else ""
    return f"{said}; as deleted: {deletes}" if deletes else said


def _is_by_state(row: MemoryType, conflict: Conflict) -> bool:
    return not conflict.path or conflict.path[0] not in row.touchable or conflict.path[0] in _with_state(row)


def _with_state(row: MemoryType) -> frozenset[str]:
    return frozenset({"state"}).union(*(group for group in row.groups if "state" in group))


def _deletes(journal: Journal, entity: Entity) -> str:
    """Return the command that deletes it once more; empty where the record that created it is not here."""
    where = "item_type = ? AND item_id = ? AND version <> '' AND parents = '' ORDER BY lineage <> ?, lineage, seq"
    journal.project()
    for record in journal.index.records(where, (entity.item_type, entity.item_id, journal.lineage), 1):
        of = "" if record.lineage == journal.lineage else f" --lineage {record.lineage}"
        return f"periplus undo --seq {record.seq}{of}"
    return ""
