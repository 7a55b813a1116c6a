"""State from zero: the records of a journal folded into heads and rows, in memory bounded by the entities. Pure.

Nearly every entity grows in a line: each version is made from the one head that there is. For such a version nothing
has to be looked up but that head, so these are folded here, in one loop. An entity with any other version (a second
head, a parent that is not held yet, a stub) is *odd*: from that version on its changes are handed out, in order, for
whoever knows the whole graph to take in.

Of an entity that grows in a line are kept its head's version and rev and, until ``take_heads``, the head's own line.
A payload is known to be JSON when its line was decoded; whether everybody can read it (UTF-8, depth, no endless
number) is asked of heads only: what is superseded shows nowhere, and whoever reads it as a single record checks it then.
"""

from __future__ import annotations

__all__ = ["Fold", "Folded"]

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from msgspec import UNSET

from periplus.journal.record import ACTIONS, record_of
from periplus.journal.segment import Block, Entry
from periplus.journal.state import Change, Head, change_of, check_payload, head_of

Key: TypeAlias = tuple[str, str]
Row: TypeAlias = tuple[object, ...]
_STATE: Final = frozenset(action for action, kind in ACTIONS.items() if kind == "state")


class Folded(NamedTuple):
    """What a block adds: rows of the index's tables ``records`` and ``edges``, and what is odd, in order."""

    rows: list[Row]
    edges: list[tuple[str, str]]
    odd: list[tuple[Entry, Change | None]]


class Fold:
    """Feed it the blocks of each lineage in order; the lineages may come in any order."""

    def __init__(self, load: Callable[[str], bytes]) -> None:
        self._load = load
        self._lines: dict[str, dict[str, tuple[str, int]]] = {}  # by type and id: version and rev of the only head
        self._heads: dict[Key, tuple[str, int, bytes]] = {}  # those not taken: lineage, segment, line
        self._odd: dict[Key, tuple[str, int]] = {}  # with version and rev of the last head that was the only one

    @property
    def entities(self) -> set[Key]:
        return self._odd.keys() | {(kind, item) for kind, of_type in self._lines.items() for item in of_type}

    @property
    def held_bytes(self) -> int:
        """Of the lines of heads that were not taken yet."""
        return sum([len(line) for _, _, line in self._heads.values()])

    def begin(self, heads: Iterable[Head]) -> None:
        """The heads that a checkpoint holds; an entity with several is odd."""
        for head in heads:
            key = (head.item_type, head.item_id)
            of_type = self._lines.setdefault(head.item_type, {})
            if key in self._odd or head.item_id in of_type or head.is_stub or not _is_plain(*key):
                of_type.pop(head.item_id, None)
                self._odd[key] = ("", 0)
            else:
                of_type[head.item_id] = (head.version, head.rev)

    def take_heads(self) -> list[Head]:
        """The heads that changed since this was last called; entities that are odd by now as they were before.

        Raises DamageError for a content that cannot be read.
        """
        taken = []
        for key, (lineage, segment, line) in self._heads.items():
            version, rev = self._odd.get(key) or self._lines[key[0]][key[1]]
            entry = Entry(record_of(line), 0, len(line) + 1, b"")
            change = change_of(entry, lineage, segment, self._load, version)
            assert change is not None
            if change.payload:
                check_payload(change.payload, entry.record)
            taken.append(head_of(change, rev))
        self._heads.clear()
        return taken

    def add(self, block: Block, lineage: str, segment: int) -> Folded:
        """Fold in what was read of one segment. Raises DamageError for a payload that cannot be had."""
        folded = Folded([], [], [])
        put_row, put_edge = folded.rows.append, folded.edges.append
        lines, heads, odd = self._lines, self._heads, self._odd
        for record, offset, length, leaf, line in zip(*block, strict=True):
            item_type, item_id, parents, raw = record.item_type, record.item_id, record.parents, record.payload
            of_type = lines.get(item_type)
            known = of_type.get(item_id) if of_type is not None else None
            if known is not None and len(parents) == 1 and parents[0] == known[0]:
                parent, rev, names = parents[0], known[1] + 1, f'"{parents[0]}"'
            elif known is None and not parents and _is_plain(item_type, item_id) and (item_type, item_id) not in odd:
                parent, rev, names = "", 1, ""
                of_type = lines.setdefault(item_type, {})
            else:
                self._add_other(Entry(record, offset, length, leaf), line, lineage, segment, folded)
                continue
            if raw is UNSET or record.leaf or record.after or record.action not in _STATE or of_type is None:
                self._add_other(Entry(record, offset, length, leaf), line, lineage, segment, folded)
                continue
            head = f'{{"deleted":false,"item_id":"{item_id}","item_type":"{item_type}","parents":[{names}],"payload":'
            version = sha256(b"%b%b}" % (head.encode(), raw)).hexdigest()
            of_type[item_id] = (version, rev)
            heads[item_type, item_id] = (lineage, segment, line)
            if parent:
                put_edge((parent, version))
            put_row((
                lineage, record.seq, segment, offset, length, leaf, record.ts, record.writer, record.session,
                record.action, item_type, item_id, version, rev, record.key, record.summary, parent,
            ))  # fmt: skip
        return folded

    def _add_other(self, entry: Entry, line: bytes, lineage: str, segment: int, folded: Folded) -> None:
        record = entry.record
        key = (record.item_type, record.item_id)
        change = change_of(entry, lineage, segment, self._load)
        if change is None:
            folded.rows.append(_row(entry, lineage, segment, "", 0))
            return
        of_type = self._lines.setdefault(key[0], {})
        known = of_type.get(key[1])
        expected = () if known is None else (known[0],)
        if key in self._odd or record.is_stub or record.after or change.parents != expected or not _is_plain(*key):
            self._odd.setdefault(key, known or ("", 0))
            of_type.pop(key[1], None)
            folded.odd.append((entry, change))
            return
        rev = 1 if known is None else known[1] + 1
        of_type[key[1]] = (change.version, rev)
        self._heads[key] = (lineage, segment, line)
        folded.edges.extend((parent, change.version) for parent in change.parents)
        folded.rows.append(_row(entry, lineage, segment, change.version, rev))


def _row(entry: Entry, lineage: str, segment: int, version: str, rev: int) -> Row:
    record, offset, length, leaf = entry
    return (
        lineage, record.seq, segment, offset, length, leaf, record.ts, record.writer, record.session, record.action,
        record.item_type, record.item_id, version, rev, record.key, record.summary,
        ",".join(record.parents) if version else "",
    )  # fmt: skip


def _is_plain(item_type: str, item_id: str) -> bool:
    """Whether JSON writes both as they are."""
    return item_type.isidentifier() and item_id.isidentifier() and item_type.isascii() and item_id.isascii()
