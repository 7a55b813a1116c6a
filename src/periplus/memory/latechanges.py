"""What a clone changed in an entity that another clone, which knew nothing of it, had put something else in place of.

After a sync the entity is superseded and has the change, no field is in conflict, and nobody looks at what is superseded: what
was changed would be lost on whoever reads its successor. It shows in the versions that stand beside each other, one that says
that the entity was replaced and one that does not. Whoever writes the entity once more knew of both, and has settled it.
"""

from __future__ import annotations

__all__ = ["LateChange", "late_changes"]

from typing import Final

import msgspec

from periplus.base.tuples import NamedTuple
from periplus.journal import Entity, Journal
from periplus.memory.successors import successors
from periplus.memory.types import row_of

_SAYS_NOTHING: Final = frozenset({"state", "updated", "v"})


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
    """By type and id. What is in conflict is told as such."""
    return [
        found
        for entity in journal.contested()
        if not entity.is_in_conflict and (found := _late_change(journal, entity)) is not None
    ]


def _late_change(journal: Journal, entity: Entity) -> LateChange | None:
    row = row_of(journal.types, entity.item_type)
    if row is None or not row.replaced_state or entity.value.get("state") != row.replaced_state:
        return None
    heads = [head for head in journal.heads_of(entity.item_type, entity.item_id) if head.payload]
    said = [(head, msgspec.json.decode(head.payload, type=dict[str, msgspec.Raw])) for head in heads]
    state = msgspec.json.encode(row.replaced_state)
    replaced = [value for _, value in said if bytes(value.get("state", msgspec.Raw())) == state]
    others = [head for head, value in said if bytes(value.get("state", msgspec.Raw())) != state]
    shown = msgspec.json.decode(entity.payload, type=dict[str, msgspec.Raw])
    fields = [
        name
        for name in sorted({*shown, *(name for value in replaced for name in value)} - _SAYS_NOTHING)
        if all(shown.get(name) != value.get(name) for value in replaced)
    ]
    if not (replaced and others and fields):
        return None
    writers = dict.fromkeys(head.writer for head in others)
    return LateChange(
        entity, tuple(fields), tuple(writers), tuple(one.item_id for one in successors(journal, entity.item_id))
    )
