"""The superseded versions that a checkpoint keeps of an entity with several heads, because they are merged over them.

Kept are all versions that one of the heads descends from and none of their nearest common ancestors does, and these
ancestors. A reader of the checkpoint then merges the heads as a reader of the whole history does, and a change made from any
of these versions finds its place. Versions that are not kept lie below a common ancestor, where nothing new can come between.
Of those reached by a way around the common ancestor only their ids are kept (``Ancestor.below``).

Nothing is kept if the graph is not what parents say (a version stated to come after others, a circle, a stub that states
other parents), if a version on the way is not held, or if it is too much for a line. Then the whole history has to be read, as
for any entity with a change made from something older.
"""

from __future__ import annotations

__all__ = ["heads_to_keep", "kept_of"]

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError
from periplus.journal.checkpoints.format import can_keep
from periplus.journal.records.record import version_id
from periplus.journal.state.entity import Ancestor, Head
from periplus.journal.state.merge import Node, ancestry
from periplus.journal.state.version_cycles import head_in
from periplus.journal.state.version_graph import is_before

if TYPE_CHECKING:
    from periplus.journal.index.tables import Index

_ANCESTORS_MAX: Final = 1_000  # per entity; each takes about 400 bytes of a line besides its content
_COMES_AFTER: Final = """
SELECT 1 FROM records JOIN edges ON child = version
WHERE item_type = ? AND item_id = ? AND version <> '' AND instr(parents, parent) = 0 LIMIT 1
"""


def heads_to_keep(index: Index) -> Iterator[Head | Ancestor]:
    """Yield every head by type, id and version; after the first of several of an entity the versions they are merged over, by rev and version."""
    for _, group in groupby(index.all_heads(), key=lambda head: (head.item_type, head.item_id)):
        first, *more = group
        yield first
        if more:
            yield from kept_of(index, [first, *more])
            yield from more


def kept_of(index: Index, heads: Sequence[Head]) -> list[Ancestor]:
    """Return the versions that ``heads``, all of one entity, are merged over; empty if they are not kept."""
    key = (heads[0].item_type, heads[0].item_id)
    found = ancestry(
        {head.version: Node(head.parents, head.rev) for head in heads}, lambda version: index.node(*key, version),
        is_for_keeping=True,
    )  # fmt: skip
    versions = found.versions[: _ANCESTORS_MAX + len(heads) + 1]
    is_odd = key in index.circular() or index.db.execute(_COMES_AFTER, key).fetchone() is not None
    if not found.is_whole or is_odd or len(versions) > _ANCESTORS_MAX + len(heads):
        return []
    shown = {head.version for head in heads}
    try:
        kept = [_version(index, key, version) for version in versions if version not in shown]
    except DamageError:
        return []
    ancestors = [Ancestor(one, tuple(found.below.get(one.version, ()))) for one in kept if one is not None]
    ancestors.sort(key=lambda one: (one.version.rev, one.version.version))
    return ancestors if len(ancestors) == len(kept) and can_keep(ancestors) else []


def _version(index: Index, key: tuple[str, str], version: str) -> Head | None:
    """Return a version in the form of a head; None if it is not what its parents and its content say."""
    records, before = index.versions(*key, version), index.ancestor(*key, version)
    if not records:
        return None if before is None else before.version
    node = index.node(*key, version)
    assert node is not None
    head = head_in(records, node.rev, index.view.payload_at)
    if before is not None and is_before(before.version, head):
        head = before.version._replace(rev=node.rev)
    id_of = version_id(*key, deleted=head.deleted, payload=head.payload or None, parents=head.parents)
    is_sound = head.parents == node.parents and (head.is_stub or id_of == version)
    return head if is_sound else None
