"""Merkle tree of a lineage, kept as tiles in ``journal/tree/<lineage>/``: derived, checked, repaired.

Theory of operation
-------------------
Each level of ``periplus.merkle.tiles`` is one file, ``level-0``, ``level-1`` …: the hashes in order, 32 bytes each, tile n from byte 8,192 n
on. ``head`` states how far they go: size and root of the tree, the place in the segments where the next record begins, and a seal
(HMAC-SHA-256 under a key derived from the store's own secret).

What is trusted, and why:

* the *root* in ``head`` was computed here from the records' lines, whose checksums were verified; a flipped bit, or somebody without the
  store's secret, cannot produce a valid seal for another root;
* a *tile* is never trusted. A proof made from tiles is checked against that root, by the verifier that recipients use, before it is given away;
  the last tiles are hashed to that root before the tree grows on them. So all hashes that matter either led to the right root or are found
  wrong;
* wrong tiles are made again from the records, from the first one on, and these must give the same root: if they do, the tiles were damaged
  and are repaired; if they do not, the *records* have changed since they were summed up, which is an error, reported with both roots.

Tiles are written when a proof or a head is requested, from their end to the durable end. Hashes of durable records never change, so all
processes write the same bytes: no lock is needed, nothing is synced, and a torn or truncated file only leads to a wrong root. If the folder
cannot be written, the missing tiles are kept in memory by this process.
"""

from __future__ import annotations

__all__ = [
    "TREE_FILES_MEND",
    "TREE_VERSION",
    "LineageTree",
    "TileHead",
    "held_now",
    "is_sealed_by",
    "no_longer_extends",
    "read_tile_head",
]

import hmac
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import DamageError, EnvironmentFailure, NotFoundError, UsageError
from periplus.base.files import read_plain, write_atomic
from periplus.journal.records.record import SUM_TRAILER_BYTES
from periplus.journal.storage.keys import trail_key
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import START, LineageReader, Position
from periplus.journal.storage.progress import Progress, no_progress
from periplus.journal.storage.segment_entries import entry_in_segment
from periplus.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    Frontier,
    TiledTree,
    verify_consistency,
    verify_inclusion,
)
from periplus.merkle.tiles import Added

if TYPE_CHECKING:
    from periplus.journal.storage.stored_journal import StoredJournal


TREE_VERSION: Final = 1
TREE_FILES_MEND: Final = "The next proof that needs them makes them again; or remove the folder: it is derived."
_HEAD_BYTES_MAX: Final = 4096
_SEAL: Final = b"PPLS/tile-head/1\0"
_Found = TypeVar("_Found")


class TileHead(msgspec.Struct, frozen=True):
    """The file ``head`` of a tree folder: ``root`` and ``mac`` in hexadecimal, and the position of record ``size`` + 1."""

    lineage: str
    size: int
    root: str
    segment: int
    offset: int
    sum: str
    mac: str = ""
    v: int = TREE_VERSION

    @property
    def position(self) -> Position:
        return Position(self.segment, self.offset, self.size + 1, self.sum)

    def sealed(self, secret: bytes) -> TileHead:
        fields: dict[str, JSONValue] = msgspec.to_builtins(msgspec.structs.replace(self, mac=""))
        mac = hmac.digest(secret, _SEAL + canonical(fields), "sha256").hex()
        return msgspec.structs.replace(self, mac=mac)


class LineageTree:
    """The tree over the durable records of ``lineage`` (our own by default), for proofs.

    ``refresh`` adds new records, at a cost in proportion to them; everything else answers for the size it reached. Raises DamageError if
    the records have changed since they were summed up, or cannot be read.
    """

    def __init__(self, journal: StoredJournal, lineage: str = "", progress: Progress = no_progress) -> None:
        self.lineage = lineage or journal.lineage
        self._journal = journal
        self._progress = progress
        self._secret = _secret(journal)
        self._frontier: Frontier | None = None  # None until the tiles on disk were read
        self._position = START
        self._root = EMPTY_ROOT
        self._unwritten: dict[int, tuple[int, bytearray]] = {}
        self._tree = TiledTree(0, self._read)
        self.rebuilt = 0  # number of times that tiles were missing or wrong
        self.refresh()

    @property
    def size(self) -> int:
        """Number of records."""
        return self._tree.size

    @property
    def head_root(self) -> bytes:
        """The root over all of them, computed from their lines."""
        return self._root

    def refresh(self, at_least: int = 0) -> None:
        """Add the records that became durable since the last call; the first ``at_least`` are known to be durable."""
        if not self.lineage:
            return
        journal = self._journal
        held = journal.end(self.lineage).next_seq - 1
        if self._frontier is None:
            known = read_tile_head(journal, self.lineage, self._secret)
            if known is not None:
                held = held_now(journal, self.lineage, known.size)
                self._adopt(known, held)
        if held < self.size:
            raise journal.damage or no_longer_extends(self.lineage, (self.size, self._root), held)
        durable = journal.durable_end() if self.lineage == journal.lineage else held
        end = min(held, max(durable, at_least))
        if self._frontier is None:
            self._rebuild(end)
        elif end > self.size:
            frontier, self._frontier = (
                self._frontier,
                None,
            )  # it changes while it grows, and an error may leave it incomplete
            try:
                self._take(frontier, self._position, end)
            except DamageError:
                self._go_on_elsewhere(end)

    def _go_on_elsewhere(self, end: int) -> None:
        """Find the record at which the tree ended again, after its position changed: a stub before it may have moved it."""
        found = entry_in_segment(self._journal.reader(self.lineage), self.size)
        try:
            frontier = Frontier(self.size, self._tree.tails())
            if found is not None and frontier.root() == self._root and found.end.sum == self._position.sum:
                self._take(frontier, found.end, end)
                return
        except DamageError:
            pass  # the rebuild below reports the error
        self._rebuild(end)

    def root(self, size: int | None = None) -> bytes:
        """Return the root over the first ``size`` records. Raises UsageError if there are fewer."""
        count = self.size if size is None else size
        if count == self.size:
            return self._root
        return self._sure(
            lambda: (self._tree.root(count), self._tree.consistency(count)),
            lambda found: verify_consistency(count, self.size, found[1], found[0], self._root),
        )[0]

    def inclusion(self, leaf: bytes, seq: int, size: int | None = None) -> list[bytes]:
        """Return the path from record ``seq``, whose leaf hash is ``leaf``, to the root over the first ``size`` records."""
        count = self.size if size is None else size
        root = self.root(count)
        return self._sure(
            lambda: self._tree.inclusion(seq - 1, count),
            lambda path: verify_inclusion(leaf, seq - 1, count, path, root),
        )

    def consistency(self, first: int, second: int | None = None) -> list[bytes]:
        """Return the path that shows that the first ``second`` records begin with the first ``first``."""
        count = self.size if second is None else second
        first_root, second_root = self.root(first), self.root(count)
        return self._sure(
            lambda: self._tree.consistency(first, count),
            lambda path: verify_consistency(first, count, path, first_root, second_root),
        )

    def _sure(self, ask: Callable[[], _Found], holds: Callable[[_Found], bool]) -> _Found:
        """Return what ``ask`` finds in the tiles if it ``holds``, or else what it finds in tiles made again."""
        try:
            found = ask()
            if holds(found):
                return found
        except DamageError:
            pass  # a missing or truncated file; made again below
        self._rebuild(self.size)
        found = ask()
        if not holds(found):
            raise DamageError(
                f"lineage {self.lineage}: the record differs from the one that the tree was computed from",
                safe="Nothing was proved.",
                mend="Run `periplus doctor`.",
            )
        return found

    # -- growing -----------------------------------------------------------------------------------------------------

    def _adopt(self, known: TileHead, held: int) -> None:
        """Continue from the tiles on disk, if the last ones lead to the sealed root."""
        self._tree.grow(known.size)
        self._root = bytes.fromhex(known.root)
        if held < known.size:
            return  # the caller reports it
        try:
            frontier = Frontier(known.size, self._tree.tails())
        except DamageError:
            return  # rebuilt by the caller
        if frontier.root() == self._root:
            self._frontier = frontier
            self._position = known.position

    def _rebuild(self, end: int) -> None:
        """Make all tiles again from the records. The records summed up before must give the same root."""
        before, root = self.size, self._root
        self.rebuilt += 1
        self._unwritten.clear()
        self._tree.forget()
        self._take(Frontier(), START, max(end, before), (before, root))

    def _take(self, frontier: Frontier, position: Position, end: int, before: tuple[int, bytes] = (0, b"")) -> None:
        """Add the records from ``position`` to ``end``; nothing is written before ``before`` is confirmed."""
        journal = self._journal
        waiting: list[Added] = []
        for chunk in journal.reader(self.lineage).read_from(position):
            leaves = [entry.leaf for entry in chunk.entries if entry.record.seq <= end]
            if frontier.size < before[0]:
                rest = before[0] - frontier.size
                waiting += frontier.extend(leaves[:rest])
                leaves = leaves[rest:]
                if frontier.size < before[0]:
                    continue
                if frontier.root() != before[1]:
                    raise no_longer_extends(self.lineage, before, before[0], frontier.root())
            self._write([*waiting, *frontier.extend(leaves)])
            waiting = []
            counted = [entry for entry in chunk.entries if entry.record.seq == frontier.size]
            if counted:
                last = counted[0]
                position = Position(chunk.segment, last.offset + last.length, frontier.size + 1, last.leaf[:8].hex())
            self._progress(frontier.size, end)
        if frontier.size < max(end, before[0]):
            raise no_longer_extends(self.lineage, before, frontier.size) if before[0] else _gone(self.lineage, end)
        self._frontier, self._position = frontier, position
        self._root = frontier.root()
        self._tree.grow(frontier.size)
        self._save()

    # -- files -------------------------------------------------------------------------------------------------------

    def _read(self, level: int, start: int, count: int) -> bytes:
        base, unwritten = self._unwritten.get(level, (start + count, bytearray()))
        data = b""
        if start < base:
            try:
                data = read_plain(
                    self._path(level), (min(base, start + count) - start) * HASH_BYTES, start * HASH_BYTES
                )
            except OSError:
                return b""  # too few bytes, which the caller detects
        first = max(start - base, 0) * HASH_BYTES
        return data + bytes(unwritten[first : max(start + count - base, 0) * HASH_BYTES])

    def _write(self, added: list[Added]) -> None:
        for one in added:
            if self._unwritten or not self._secret or not self._try_write(one):
                self._unwritten.setdefault(one.level, (one.start, bytearray()))[1].extend(one.data)

    def _try_write(self, added: Added) -> bool:
        files = self._journal.files
        try:
            files.make_folder(self._journal.layout.tree_folder(self.lineage))
            fd = files.open(self._path(added.level), os.O_WRONLY | os.O_CREAT)
            try:
                done = 0
                while done < len(added.data):
                    written = files.pwrite(fd, added.data[done:], added.start * HASH_BYTES + done)
                    if written <= 0:
                        return False
                    done += written
            finally:
                files.close(fd)
        except OSError:
            return False  # derived; kept in memory, and written by a process that can
        return True

    def _save(self) -> None:
        if self._unwritten or not self._secret or not self.size:
            return
        segment, offset, _, checksum = self._position
        head = TileHead(self.lineage, self.size, self._root.hex(), segment, offset, checksum).sealed(self._secret)
        path = os.path.join(self._journal.layout.tree_folder(self.lineage), "head")
        try:
            write_atomic(self._journal.files, path, _rendered(head), durable=False)
        except EnvironmentFailure:
            pass  # the next process continues from the last head

    def _path(self, level: int) -> str:
        return os.path.join(self._journal.layout.tree_folder(self.lineage), f"level-{level}")


def read_tile_head(journal: StoredJournal, lineage: str, secret: bytes | None = None) -> TileHead | None:
    """Return the head of the tiles of ``lineage``; None if there is none or its seal is invalid."""
    path = os.path.join(journal.layout.tree_folder(lineage), "head")
    secret = _secret(journal) if secret is None else secret
    try:
        data = read_plain(path, _HEAD_BYTES_MAX)
        head = msgspec.json.decode(data, type=TileHead)
        is_ours = bool(secret) and head.lineage == lineage and data == _rendered(head.sealed(secret))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, UsageError, TypeError):
        return None
    return head if is_ours and head.v == TREE_VERSION else None


def is_sealed_by(data: bytes, key: bytes, layout: Layout, lineage: str) -> bool | None:
    """Return True if ``data``, the tiles' head of ``lineage``, is sealed with the store's secret ``key``.

    Return None if it proves nothing about the key, because it or what it sums up is damaged.
    """
    try:
        head = msgspec.json.decode(data, type=TileHead)
        sealed = head.sealed(_seal_key(key))
        is_whole = data == _rendered(head)
    except (msgspec.DecodeError, UnicodeDecodeError, UsageError, TypeError):
        return None
    if is_whole and sealed == head:
        return True
    same = sum(
        one == other for one, other in zip(sealed.mac, head.mac, strict=False)
    )  # with another key one digit in 16 agrees
    is_seal_damaged = same * 2 > len(sealed.mac)
    return False if is_whole and not is_seal_damaged and _sums_up(head, layout, lineage) else None


def _sums_up(head: TileHead, layout: Layout, lineage: str) -> bool:
    """Return True if tiles and records agree with ``head``, so that only its seal can be damaged."""
    if head.lineage != lineage or head.v != TREE_VERSION or head.size < 1:
        return False
    folder, length = layout.lineage_folder(lineage), SUM_TRAILER_BYTES + 1
    level, path = (
        os.path.join(layout.tree_folder(lineage), "level-0"),
        LineageReader(folder, (), lineage).path_of(head.segment),
    )
    try:
        if head.size * HASH_BYTES > os.path.getsize(level) or head.offset > os.path.getsize(path):
            return False
        leaves = read_plain(level, head.size * HASH_BYTES)
        before = read_plain(path, length, max(head.offset - length, 0))
    except OSError:
        return False
    frontier = Frontier()
    frontier.extend([leaves[at : at + HASH_BYTES] for at in range(0, len(leaves), HASH_BYTES)])
    is_root = frontier.size == head.size and frontier.root().hex() == head.root
    return is_root and leaves[-HASH_BYTES:][:8].hex() == head.sum == before[8:24].decode("ascii", "replace")


def _seal_key(key: bytes) -> bytes:
    return hmac.digest(key, b"PPLS/tiles/1", "sha256")


def _rendered(head: TileHead) -> bytes:
    return canonical(msgspec.to_builtins(head)) + b"\n"


def held_now(journal: StoredJournal, lineage: str, wanted: int) -> int:
    """Return the number of records of ``lineage`` held; look again if they are fewer than ``wanted``.

    Another process may have written and announced them since the last look.
    """
    if journal.end(lineage).next_seq - 1 < wanted:
        journal.refresh()
    return journal.end(lineage).next_seq - 1


def no_longer_extends(lineage: str, seen: tuple[int, bytes], held: int, root: bytes | None = None) -> DamageError:
    """Return the error for a ``lineage`` that was seen with ``seen`` = (size, root), but now has fewer records or another root."""
    size, seen_root = seen
    if root is None:
        wrong = (
            f"lineage {lineage} was seen with {size:,} records (root {seen_root.hex()}), but only {held:,} {'is' if held == 1 else 'are'} here: "
            "it was cut short, or an older copy was put in its place"
        )
    else:
        wrong = (
            f"lineage {lineage} was seen with {size:,} records under root {seen_root.hex()}, but those here have root "
            f"{root.hex()}: records were rewritten, or this is another past (a fork)"
        )
    return DamageError(
        wrong, seq=min(held + 1, size), safe="Nothing was signed; records that are here stay readable.",
        mend="Restore the newest copy of the journal, or run `periplus doctor`.",
    )  # fmt: skip


def _gone(lineage: str, end: int) -> DamageError:
    return DamageError(
        f"lineage {lineage}: the records up to {end:,} can no longer be read", mend="Run `periplus doctor`."
    )


def _secret(journal: StoredJournal) -> bytes:
    """Return the key of the seals; empty if the store has no secret yet, in which case tiles stay in memory."""
    try:
        return _seal_key(trail_key(journal.layout))
    except (NotFoundError, DamageError, EnvironmentFailure):
        return b""
