"""Check of a lineage's tiles and heads for ``doctor``."""

from __future__ import annotations

__all__ = ["TreeFinding", "check_tree"]

import os
from collections.abc import Iterator
from typing import Final

from periplus.base.errors import DamageError, EnvironmentFailure
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.proofs.tiles import TREE_FILES_MEND, no_longer_extends, read_tile_head
from periplus.journal.storage.stored_journal import StoredJournal
from periplus.journal.storage.tree_head import read_peer
from periplus.merkle import HASH_BYTES, Frontier
from periplus.merkle.tiles import Added

_SLICE: Final = 8_192  # leaves at a time


class TreeFinding(NamedTuple):
    """A defect of tiles or heads. ``is_error``: acknowledged records are affected, not only derived data."""

    is_error: bool
    what: str
    path: str
    offset: int = -1
    mend: str = ""


def check_tree(journal: StoredJournal, lineage: str, leaves: bytes | bytearray) -> Iterator[TreeFinding]:
    """Compare tiles and heads with ``leaves``, the leaf hashes of all records of the lineage, computed from their lines."""
    held = len(leaves) // HASH_BYTES
    frontier = Frontier()
    yield from _check_tiles(journal, lineage, leaves, frontier)
    path = journal.layout.peer_file(lineage)
    try:
        peer = read_peer(journal.layout, lineage)
    except (DamageError, EnvironmentFailure) as error:
        yield TreeFinding(False, error.wrong, path, mend=error.mend)
        return
    if peer is None or peer.seen is None:
        return
    seen = (peer.seen.size, bytes.fromhex(peer.seen.root))
    if held < seen[0]:
        yield _lost(no_longer_extends(lineage, seen, held), path)
        return
    if seen[0] < frontier.size:
        frontier = Frontier()
    for _ in _grown(frontier, leaves, seen[0]):
        pass
    if frontier.root() != seen[1]:
        yield _lost(no_longer_extends(lineage, seen, seen[0], frontier.root()), path)


def _check_tiles(
    journal: StoredJournal, lineage: str, leaves: bytes | bytearray, frontier: Frontier
) -> Iterator[TreeFinding]:
    folder = journal.layout.tree_folder(lineage)
    if not os.path.isdir(folder):
        return
    head = read_tile_head(journal, lineage)
    path = os.path.join(folder, "head")
    if head is None:
        yield TreeFinding(False, "the tiles' head is missing or damaged", path, mend=TREE_FILES_MEND)
        return
    held = len(leaves) // HASH_BYTES
    known = (head.size, bytes.fromhex(head.root))
    if held < head.size:
        yield _lost(no_longer_extends(lineage, known, held), path)
        return
    wrong: dict[int, TreeFinding] = {}  # the first of each level
    for level, start, wanted in _grown(frontier, leaves, head.size):
        if level in wrong:
            continue
        path = os.path.join(folder, f"level-{level}")
        try:
            found = read_plain(path, len(wanted), start * HASH_BYTES)
        except OSError as error:
            wrong[level] = TreeFinding(False, f"tiles cannot be read: {error.strerror}", path, mend=TREE_FILES_MEND)
            continue
        if found != wanted:
            place = next((at for at, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), len(found))
            wrong[level] = TreeFinding(
                False, "tiles that do not lead to the records' root", path, start * HASH_BYTES + place, TREE_FILES_MEND
            )
    if frontier.root() != known[1]:  # the tiles then necessarily differ too
        yield _lost(no_longer_extends(lineage, known, head.size, frontier.root()), os.path.join(folder, "head"))
        return
    yield from wrong.values()


def _grown(frontier: Frontier, leaves: bytes | bytearray, end: int) -> Iterator[Added]:
    """Extend ``frontier`` to the first ``end`` of ``leaves``; yield the hashes added to each level."""
    while frontier.size < end:
        last = min(frontier.size + _SLICE, end) * HASH_BYTES
        places = range(frontier.size * HASH_BYTES, last, HASH_BYTES)
        yield from frontier.extend([bytes(leaves[at : at + HASH_BYTES]) for at in places])


def _lost(error: DamageError, path: str) -> TreeFinding:
    return TreeFinding(True, error.wrong, path, mend="Restore the newest copy of the journal.")
