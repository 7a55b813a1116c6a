"""What a checkpoint keeps of an entity that has several heads: the superseded versions that they are merged over.

Kept are all that one of the heads descends from and none of their nearest common ancestors does, and these. Who loads from
the checkpoint then merges the heads as who has read the whole history, and a change that was made from any of these versions has
its place: what is not kept lies below a common ancestor, and nothing that is new can come between. Of what lies below by a way
around the common ancestor no more is kept than that it does (``Ancestor.below``).

Nothing is kept where the graph is not what parents say (a version that is stated to come after others, a circle, a stub that
states other parents), where a version on the way is not held, and where it is too much for a line. The whole history has to be
read then, as for any entity of which a change comes that was made from something older.
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

_ANCESTORS_MAX: Final = 1_000  # of an entity; each takes some 400 bytes of a line without what it says
_COMES_AFTER: Final = """
SELECT 1 FROM records JOIN edges ON child = version
WHERE item_type = ? AND item_id = ? AND version <> '' AND instr(parents, parent) = 0 LIMIT 1
"""


def heads_to_keep(index: Index) -> Iterator[Head | Ancestor]:
    """Every head by type, id and version; behind the first of several of an entity, by rev and version, what they are merged over."""
    for _, group in groupby(index.all_heads(), key=lambda head: (head.item_type, head.item_id)):
        first, *more = group
        yield first
        if more:
            yield from kept_of(index, [first, *more])
            yield from more


def kept_of(index: Index, heads: Sequence[Head]) -> list[Ancestor]:
    """What ``heads``, all of one entity, are merged over; empty where it is not kept."""
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
    """A version as a head would be; None where it is not what its parents and its content say."""
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
