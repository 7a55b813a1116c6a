"""Fold all records of a journal into heads and rows of the index, in memory bounded by the number of entities. Pure.

Nearly every entity grows in a line: each version is made from the only head. Such a version needs no look-up but that head,
so these are folded here in one loop. An entity with any other version (a second head, a parent that is not held yet, a stub)
is *odd*: from that version on its changes are returned, in order, for the index, which knows the whole graph.

For an entity that grows in a line, version and rev of its head and the place of the head's line are kept, packed into one
``bytes``. A history touches its entities in no order, and each further object that a change looks up, frees and allocates
costs as much as hashing its line (decision 0091). Contents are read again when all heads are known, because only the heads'
contents are needed and most records are superseded. Decoding a line proves that its payload is JSON; whether every reader
can decode it (UTF-8, depth, size of numbers) is checked for heads only. A superseded payload is checked when it is read.
"""

from __future__ import annotations

__all__ = ["Fold", "Folded", "LinesAt", "without_collector"]

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from struct import Struct
from typing import Final, TypeAlias

from msgspec import UNSET

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import ACTIONS, decode_lines
from periplus.journal.records.segment import Block, Entry
from periplus.journal.state.entity import Change, Head, change_of, check_payload, head_of

Key: TypeAlias = tuple[str, str]
Row: TypeAlias = tuple[object, ...]
LinesAt: TypeAlias = Callable[[str, int, Sequence[tuple[int, int]]], Iterable[bytes]]
_Place: TypeAlias = tuple[int, int, int, int, bytes, bytes]
# The only head, packed so that the bytes sort in this order: number of the source, offset and length of the line, rev,
# leaf hash, version.
_known: Final = Struct(">IQIQ32s64s")
_source_rev_version: Final = Struct(">I12xQ32x64s")
_BEFORE: Final = 0  # source number of heads that a checkpoint holds
_NONE: Final = (_BEFORE, 0, b"")
_REV_MAX: Final = 1 << 62
_HEADS_A_TIME: Final = 1_000
_STATE: Final = frozenset(action for action, kind in ACTIONS.items() if kind == "state")


@contextmanager
def without_collector() -> Iterator[None]:
    """Switch off the garbage collector in this block: the many small objects made in it form no cycles, and collecting takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Folded(NamedTuple):
    """The result of one block: rows of the index's tables ``records`` and ``edges``, and the odd changes, in order."""

    rows: list[Row]
    edges: list[tuple[str, str]]
    odd: list[tuple[Entry, Change | None]]


class Fold:
    """Takes the blocks of each lineage in order; the lineages may come in any order.

    ``load`` reads a payload from the objects; ``lines_at`` returns lines by lineage, segment, offsets and lengths, as
    ``LineageReader.lines_at`` does.
    """

    def __init__(self, load: Callable[[str], bytes], lines_at: LinesAt) -> None:
        self._load = load
        self._lines_at = lines_at
        self._lines: dict[str, dict[str, bytes]] = {}  # by type and id, packed by ``_known``
        self._sources: list[tuple[str, int]] = [("", 0)]  # lineage and segment, by number
        self._taken = _BEFORE  # heads of sources up to this number were taken
        self._changed: list[Key] = []  # entities whose heads were not taken yet, each once
        self._odd: dict[Key, bytes] = {}  # with the last only head, or empty

    @property
    def entities(self) -> set[Key]:
        return self._odd.keys() | {(kind, item) for kind, of_type in self._lines.items() for item in of_type}

    def begin(self, heads: Iterable[Head]) -> None:
        """Take over the heads of a checkpoint; an entity with several is odd."""
        for head in heads:
            key = (head.item_type, head.item_id)
            of_type = self._lines.setdefault(head.item_type, {})
            is_lone = key not in self._odd and head.item_id not in of_type and not head.is_stub and _is_plain(*key)
            if is_lone and is_digest_text(head.version) and 0 <= head.rev < _REV_MAX:
                of_type[head.item_id] = _known.pack(_BEFORE, 0, 0, head.rev, b"", head.version.encode())
            else:
                of_type.pop(head.item_id, None)
                self._odd[key] = b""

    def take_heads(self) -> Iterator[Head]:
        """Yield the heads that changed since the last call; for entities that became odd, as they were before.

        Raises DamageError for a content that cannot be read or that changed since it was folded.
        """
        lines, odd = self._lines, self._odd
        changed = sorted([odd.get(key) or lines[key[0]][key[1]] for key in self._changed])
        self._changed.clear()
        self._taken = len(self._sources) - 1
        for number, group in groupby(map(_known.unpack, changed), key=itemgetter(0)):
            while some := list(islice(group, _HEADS_A_TIME)):
                yield from self._read_heads(self._sources[number], some)

    def add(self, block: Block, lineage: str, segment: int) -> Folded:
        """Fold in a block of one segment. Raises DamageError for a payload that cannot be read."""
        folded = Folded([], [], [])
        put_row, put_edge = folded.rows.append, folded.edges.append
        lines, changed, odd = self._lines, self._changed, self._odd
        pack, unpack, taken, source = (
            _known.pack,
            _source_rev_version.unpack,
            self._taken,
            self._number_of(lineage, segment),
        )
        for record, offset, length, leaf in zip(*block, strict=True):
            item_type, item_id, parents, raw = record.item_type, record.item_id, record.parents, record.payload
            of_type = lines.get(item_type)
            known = of_type.get(item_id) if of_type is not None else None
            if raw is UNSET or record.leaf or record.after or record.action not in _STATE:
                self._add_other(Entry(record, offset, length, leaf), lineage, segment, folded)
                continue
            before, rev, version_before = unpack(known) if known is not None else _NONE
            if known is not None and len(parents) == 1 and parents[0].encode() == version_before:
                parent = parents[0]
                head = f'{{"deleted":false,"item_id":"{item_id}","item_type":"{item_type}","parents":["{parent}"],"payload":'
                if before <= taken:
                    changed.append((item_type, item_id))
            elif known is None and not parents and _is_plain(item_type, item_id) and (item_type, item_id) not in odd:
                parent = ""
                head = f'{{"deleted":false,"item_id":"{item_id}","item_type":"{item_type}","parents":[],"payload":'
                of_type = lines.setdefault(item_type, {})
                changed.append((item_type, item_id))
            else:
                self._add_other(Entry(record, offset, length, leaf), lineage, segment, folded)
                continue
            digest = sha256(head.encode())
            digest.update(raw)
            digest.update(b"}")
            version, rev = digest.hexdigest(), rev + 1
            assert of_type is not None
            of_type[item_id] = pack(source, offset, length, rev, leaf, version.encode())
            if parent:
                put_edge((parent, version))
            put_row((
                lineage, record.seq, segment, offset, length, leaf, record.ts, record.writer, record.session,
                record.action, item_type, item_id, version, rev, record.key, record.summary, parent,
            ))  # fmt: skip
        return folded

    def _add_other(self, entry: Entry, lineage: str, segment: int, folded: Folded) -> None:
        record = entry.record
        key = (record.item_type, record.item_id)
        change = change_of(entry, lineage, segment, self._load)
        if change is None:
            folded.rows.append(_row(entry, lineage, segment, "", 0))
            return
        of_type = self._lines.setdefault(key[0], {})
        known = of_type.get(key[1])
        before, rev, version = _source_rev_version.unpack(known) if known is not None else _NONE
        expected = () if known is None else (version.decode(),)
        if key in self._odd or record.is_stub or record.after or change.parents != expected or not _is_plain(*key):
            self._odd.setdefault(key, known or b"")
            of_type.pop(key[1], None)
            folded.odd.append((entry, change))
            return
        if before <= self._taken:
            self._changed.append(key)
        source = self._number_of(lineage, segment)
        of_type[key[1]] = _known.pack(source, entry.offset, entry.length, rev + 1, entry.leaf, change.version.encode())
        folded.edges.extend((parent, change.version) for parent in change.parents)
        folded.rows.append(_row(entry, lineage, segment, change.version, rev + 1))

    def _number_of(self, lineage: str, segment: int) -> int:
        """Return the number of a source whose heads were not taken yet."""
        source = (lineage, segment)
        if self._taken == len(self._sources) - 1 or self._sources[-1] != source:
            self._sources.append(source)
        return len(self._sources) - 1

    def _read_heads(self, source: tuple[str, int], places: list[_Place]) -> Iterator[Head]:
        """Read the heads at ``places`` of one segment again, check them, and yield them."""
        lines = [line[:-1] for line in self._lines_at(*source, [place[1:3] for place in places])]
        records, leaves = decode_lines(lines)
        if leaves != [place[4] for place in places]:
            raise DamageError(
                "a record changed while the journal was read",
                offset=places[0][1],
                safe="Nothing was derived from it.",
                mend="Repeat the command.",
            )
        lineage, segment = source
        for record, (_, offset, length, rev, leaf, known_version) in zip(records, places, strict=True):
            version = known_version.decode()
            raw = record.payload
            if raw is UNSET or record.leaf or record.action not in _STATE:
                change = change_of(Entry(record, offset, length, leaf), lineage, segment, self._load, version)
                assert change is not None
                payload, head = change.payload, head_of(change, rev)
            else:
                payload = bytes(raw)
                head = Head(
                    record.item_type, record.item_id, version, record.parents, rev, False, payload, record.ts,
                    record.writer, record.session, lineage, record.seq,
                )  # fmt: skip
            if payload:
                check_payload(payload, record)
            yield head


def _row(entry: Entry, lineage: str, segment: int, version: str, rev: int) -> Row:
    record, offset, length, leaf = entry
    return (
        lineage, record.seq, segment, offset, length, leaf, record.ts, record.writer, record.session, record.action,
        record.item_type, record.item_id, version, rev, record.key, record.summary,
        ",".join(record.parents) if version else "",
    )  # fmt: skip


def _is_plain(item_type: str, item_id: str) -> bool:
    """Return True if JSON writes both without escapes."""
    return item_type.isidentifier() and item_id.isidentifier() and item_type.isascii() and item_id.isascii()
