"""Reconstruction of lost records of our lineage that the index does not have: from tiles, checkpoints, entity files and other records.

The tiles give a record's leaf hash if they lead to a root that was sealed or that a checkpoint's record states; without that hash nothing
can take the record's place in the tree. Its version comes from a checkpoint, from later records, or from the entity's file. Other fields
come from the damaged line as far as they can be read; a stub is authenticated by its audit record, not by them.
"""

from __future__ import annotations

__all__ = ["Remembered", "payload_in_file", "payload_in_remains", "tile_leaves"]

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from typing import Final

import msgspec

from periplus.base.encoding.canonical import canonical
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import FormatError, PeriplusError, UsageError
from periplus.base.files import read_plain
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal.checkpoints.contents import versions_in_checkpoints
from periplus.journal.checkpoints.format import KeyLine, announcement_of
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.journal import Journal
from periplus.journal.projections.entity_file import FILE_BYTES_MAX, has_file
from periplus.journal.projections.external_edits import ADOPTED, EDITED
from periplus.journal.projections.file_verdict import read_document
from periplus.journal.proofs.tiles import read_tile_head
from periplus.journal.records.record import ACTIONS, Record, action_class, version_id
from periplus.journal.records.segment import Entry
from periplus.journal.records.segment_repair import Known, Lost
from periplus.journal.state.entity import Head, change_of
from periplus.journal.storage.parking import read_whole
from periplus.merkle import HASH_BYTES, Frontier

_FIELD_BYTES_MAX: Final = 300
_FROM_FILES: Final = frozenset({ADOPTED.name, EDITED.name})
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_PAYLOAD: Final = b'"payload":'


class _Named(NamedTuple):
    """A version that no record holds, and the first later record of ours that names it."""

    version: str
    item_type: str
    item_id: str
    seq: int


class _Keyed(NamedTuple):
    """Fields of a record that a checkpoint states beside its idempotency key; ``txn`` is its place in its batch, None if it was alone."""

    key: str
    version: str
    ts: str
    txn: tuple[int, int] | None


class _Said(NamedTuple):
    """Summary of the readable records: all versions held, missing versions that our records name, and the versions of each entity in our
    records.
    """

    versions: set[str]
    missing: list[_Named]
    held: dict[tuple[str, str], list[tuple[int, str]]]
    parents: set[str]


class Remembered:
    """Reconstructs records of our own lineage without the index. Sources are read on first use.

    ``lost`` are seqs of records that can be read but whose payload cannot.
    """

    def __init__(self, journal: Journal, rows: IndexRows, lost: Collection[int] = ()) -> None:
        self._lost = lost
        self._journal = journal
        self._rows = rows
        self._leaves: bytes | None = None
        self._heads: dict[int, Head] | None = None
        self._keys: dict[int, _Keyed] = {}
        self._said: _Said | None = None
        self._seqs: set[int] | None = None
        self._end = 0
        self._versions: dict[int, _Named] | None = None

    def places_all(self, last: int, has_copy: Callable[[int], bool]) -> bool:
        """Return True if every record up to ``last`` is held or has a known place; stubs are useful only if the whole lineage becomes
        writable.
        """
        held = self._held()
        lost = [seq for seq in range(1, last + 1) if seq not in held]
        return all(self._leaf(seq) or self._rows.get(self._journal.lineage, seq) or has_copy(seq) for seq in lost)

    def _leaf(self, seq: int) -> bytes:
        if self._leaves is None:
            self._leaves = tile_leaves(self._journal, self._journal.lineage)
        return self._leaves[(seq - 1) * HASH_BYTES : seq * HASH_BYTES]

    def known(self, lost: Lost) -> Known | None:
        """Return the fields for a stub of the record; None if its place in the tree is not known."""
        leaf = self._leaf(lost.seq)
        if not leaf:
            return None
        fields = _Remains(lost)
        head = self.head(lost.seq)
        keyed = self._keys.get(lost.seq, _Keyed(fields.key, "", fields.ts, fields.txn))
        if head is not None:
            key, parents, version = (head.item_type, head.item_id), head.parents, head.version
            action = "delete" if head.deleted else fields.action if fields.action in ACTIONS else "import"
        else:
            named = self.version(lost.seq)
            version = named.version if named is not None else keyed.version
            key = (named.item_type, named.item_id) if named is not None else (fields.item_type, fields.item_id)
            parents = fields.parents if fields.parents is not None else self._unfollowed(lost.seq, key)
            action = fields.action
            if version and action_class(action) not in ("state", "tombstone"):
                action = "import"
        return Known(
            lost.seq, lost.offset, max(len(lost.remains), 1), leaf, (head.ts if head else "") or keyed.ts,
            (head.writer if head else "") or fields.writer, head.session if head else fields.session, action or "note", *key,
            parents, version, keyed.key, keyed.txn,
        )  # fmt: skip

    def version_of(self, entry: Entry) -> str:
        """Return the version of a record whose payload is lost; empty if nothing names it, in which case no later record here descends from
        it.
        """
        seq = entry.record.seq
        row = self._rows.get(self._journal.lineage, seq)
        if row is not None and row.leaf == entry.leaf and row.version:
            return row.version
        head = self.head(seq)
        if head is not None:
            return head.version
        named = self.version(seq)
        return named.version if named is not None else self._keys[seq].version if seq in self._keys else ""

    def head(self, seq: int) -> Head | None:
        """Return the version that record ``seq`` wrote, if a checkpoint has it."""
        if self._heads is None:
            self._heads = {}
            self._look_in_checkpoints(self._held(), self._heads)
        return self._heads.get(seq)

    def _look_in_checkpoints(self, held: Collection[int], heads: dict[int, Head]) -> None:
        own = self._journal.lineage
        for key, lines in groupby(versions_in_checkpoints(self._journal), key=lambda line: getattr(line, "key", None)):
            said: dict[int, tuple[str, str]] = {}  # from all lines of the key; a large batch has several
            for line in lines:
                if isinstance(line, KeyLine):
                    said |= {seq: (version, ts) for lineage, seq, version, ts in line.records if lineage == own}
                elif line.lineage == own and not line.is_stub and line.seq not in held:
                    heads[line.seq] = line
            for number, seq in enumerate(sorted(said), 1):
                if seq not in held:
                    version, ts = said[seq]
                    txn = (number, len(said)) if len(said) > 1 else None
                    self._keys[seq] = _Keyed(key or "", version if is_digest_text(version) else "", ts, txn)

    def version(self, seq: int) -> _Named | None:
        """Return the version of record ``seq``, inferred from later records or from the entity's file; None if it cannot be inferred."""
        if self._versions is None:
            self._versions = self._assigned()
        return self._versions.get(seq)

    def _assigned(self) -> dict[int, _Named]:
        """Assign each missing version to the last lost record of its entity before the first record that names it."""
        held = self._held()
        lost = [seq for seq in range(self._end, 0, -1) if seq not in held and self.head(seq) is None]
        found: dict[int, _Named] = {}
        remains = dict(_remains_of(self._journal, lost))
        said = self.said()
        missing = self._missing(said, remains)

        def take(seq: int, fits: Callable[[_Named], bool]) -> None:
            fitting = next((one for one in missing if one.seq > seq and fits(one)), None)
            if seq not in found and fitting is not None:
                found[seq] = fitting
                missing.remove(fitting)

        for seq in lost:  # by the version in a checkpoint, or in the damaged line itself
            version = self._keys[seq].version if seq in self._keys else remains[seq].version if seq in remains else ""
            take(seq, lambda one, version=version: one.version == version)  # type: ignore[misc]  # binds the loop's
        for seq in lost:
            if seq in remains and remains[seq].item_id:
                take(seq, remains[seq].is_of)
        for seq in lost:
            if seq not in remains or not remains[seq].item_id:
                take(seq, lambda _one: True)
        for seq in lost:
            if seq not in found and seq in remains:
                one = remains[seq]
                version = _version_in_file(self._journal, one.item_type, one.item_id, one.parents)
                if version and version not in said.versions:
                    found[seq] = _Named(version, one.item_type, one.item_id, seq)
        return found

    def _missing(self, said: _Said, remains: Mapping[int, _Remains]) -> list[_Named]:
        """Return the versions that records (lost ones included) name but that no record and no checkpoint holds."""
        heads = (self._heads or {}).values()
        named = {one.version: one for one in said.missing}
        for head in heads:
            for parent in head.parents:
                named.setdefault(parent, _Named(parent, head.item_type, head.item_id, head.seq))
        for seq, one in remains.items():
            for parent in (one.parents or ()) if one.item_id else ():
                named.setdefault(parent, _Named(parent, one.item_type, one.item_id, seq))
        held = said.versions | {head.version for head in heads}
        return sorted((one for version, one in named.items() if version not in held), key=lambda one: one.seq)

    def said(self) -> _Said:
        if self._said is None:
            self._said = _said(self._journal)
        return self._said

    def _held(self) -> set[int]:
        if self._seqs is None:
            self._seqs = {entry.record.seq for _, entry in _readable(self._journal, self._journal.lineage)}
            self._end = max(self._seqs, default=0)
            self._seqs.difference_update(self._lost)
        return self._seqs

    def _unfollowed(self, seq: int, key: tuple[str, str]) -> tuple[str, ...]:
        """Return the entity's earlier versions without descendants; left without one they would appear to be current."""
        said = self.said()
        return tuple(
            sorted(version for at, version in said.held.get(key, ()) if at < seq and version not in said.parents)
        )


def _said(journal: Journal) -> _Said:
    said = _Said(set(), [], {}, set())
    named: dict[str, _Named] = {}
    elsewhere: set[str] = set()
    for lineage in journal.lineages():
        is_ours = lineage == journal.lineage
        for segment, entry in _readable(journal, lineage):
            record = entry.record
            said.parents.update(record.parents)
            if record.writer in _FROM_FILES:
                elsewhere.update(record.parents)
            for parent in record.parents if is_ours else ():
                named.setdefault(parent, _Named(parent, record.item_type, record.item_id, record.seq))
            try:
                change = change_of(entry, lineage, segment, journal.load_object)
            except PeriplusError:
                continue  # its payload is missing
            if change is not None:
                said.versions.add(change.version)
                if is_ours:
                    said.held.setdefault((record.item_type, record.item_id), []).append((record.seq, change.version))
    said.missing.extend(
        one for version, one in named.items() if version not in said.versions and version not in elsewhere
    )
    return said


def _readable(journal: Journal, lineage: str) -> Iterator[tuple[int, Entry]]:
    try:
        yield from journal.entries(lineage, salvage=True)
    except PeriplusError:
        return  # unreadable records are ignored


# -- tiles, checkpoints, files, remains ------------------------------------------------------------------------------


def tile_leaves(journal: Journal, lineage: str) -> bytes:
    """Return the leaf hashes of a lineage's first records from its tiles, as far as a known root confirms them."""
    roots = {}
    head = read_tile_head(journal, lineage)
    if head is not None:
        roots[head.size] = head.root
    for _, entry in _readable(journal, lineage):
        announced = announcement_of(entry.record)
        if announced is not None:
            roots[announced.seq] = announced.root
    path = os.path.join(journal.layout.tree_folder(lineage), "level-0")
    for size in sorted(roots, reverse=True):
        try:
            leaves = read_plain(path, size * HASH_BYTES)
        except (OSError, FormatError):
            return b""
        if len(leaves) == size * HASH_BYTES and _root(leaves).hex() == roots[size]:
            return leaves
    return b""


def _root(leaves: bytes) -> bytes:
    frontier = Frontier()
    frontier.extend(leaves[at : at + HASH_BYTES] for at in range(0, len(leaves), HASH_BYTES))
    return frontier.root()


def payload_in_file(journal: Journal, item_type: str, item_id: str) -> bytes:
    """Return the payload in the entity's file if it can be read; the caller checks the version or digest."""
    if not has_file(journal.types, item_type, item_id):
        return b""
    try:
        document = json.loads(read_plain(journal.layout.entity_file(item_type, item_id), FILE_BYTES_MAX))
        return canonical(document["entity"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError, UsageError):
        return b""


def _version_in_file(journal: Journal, item_type: str, item_id: str, parents: Collection[str] | None) -> str:
    """Return the version in the entity's file if its content matches that version and its parents are ``parents``; else empty."""
    if parents is None or not has_file(journal.types, item_type, item_id):
        return ""
    try:
        data = read_plain(journal.layout.entity_file(item_type, item_id), FILE_BYTES_MAX)
        document = read_document(data, item_type, item_id)
    except (OSError, PeriplusError):
        return ""
    is_it = document.version == document.content_version and not document.is_view
    return document.version if is_it and set(document.parents) == set(parents) else ""


def payload_in_remains(remains: bytes) -> bytes:
    """Return the payload of a damaged line if it is in canonical form; the caller checks the version."""
    at = remains.find(_PAYLOAD)
    if at < 0:
        return b""
    try:
        text = remains[at + len(_PAYLOAD) :].decode()
        _, length = json.JSONDecoder().raw_decode(text)
        return text[:length].encode() if canonical(json.loads(text[:length])) == text[:length].encode() else b""
    except (ValueError, RecursionError, UsageError):
        return b""


def _remains_of(journal: Journal, lost: Collection[int]) -> Iterator[tuple[int, _Remains]]:
    """Yield what is left of the lines of our ``lost`` records, if their seq can still be read."""
    reader = journal.reader(journal.lineage)
    segments = reader.segments()
    for number, first in enumerate(segments):
        behind = segments[number + 1] if number + 1 < len(segments) else max(lost, default=0) + 1
        among = [seq for seq in lost if first <= seq < behind]
        data = read_whole(reader.path_of(first), around=True) if among else None
        for seq in among if data is not None else ():
            assert data is not None
            at = data.find(b'"seq":%d,' % seq)
            if at >= 0:
                yield seq, _Remains(Lost(seq, b"{" + data[at : data.find(b"\n", at)], 0, None, None))


class _Remains:
    """The readable fields of a damaged line. Its neighbours supply batch and time if the line does not."""

    def __init__(self, lost: Lost) -> None:
        head = lost.remains[:1] + lost.remains[1:].split(b"{", 1)[0]  # up to the payload, which has its own fields
        if f'"seq":{lost.seq},'.encode() not in head:
            stated = re.search(rb'"seq":(\d+),', head)
            head = head if stated is None else b""  # another record's line
        self._head = head
        before, after = lost.before, lost.after
        self.ts = self._text("ts")
        if not _TIME.fullmatch(self.ts):
            self.ts = before.ts if before is not None else after.ts if after is not None else "1970-01-01T00:00:00.000Z"
        self.writer = self._text("writer")
        self.session = self._text("session")
        action = self._text("action")
        self.action = action if action in ACTIONS else ""
        self.item_type, self.item_id = self._text("item_type"), self._text("item_id")
        if not is_id(self.item_id) or not self.item_type:
            self.item_type = self.item_id = ""
        self.parents = self._parents()
        self._payload = payload_in_remains(lost.remains)
        self.txn = _txn(before, after) or self._txn()
        self.key = self._text("key")
        if not self.key and self.txn is not None:
            neighbour = before if self.txn[0] > 1 else after
            self.key = neighbour.key if neighbour is not None and neighbour.txn is not None else ""

    @property
    def version(self) -> str:
        """The version, if all fields that determine it can be read; else empty."""
        if not self._payload or not self.item_id or self.parents is None:
            return ""
        return version_id(self.item_type, self.item_id, deleted=False, payload=self._payload, parents=self.parents)

    def is_of(self, one: _Named) -> bool:
        """Return True if the record may have been version ``one``."""
        return (self.item_type, self.item_id) == (one.item_type, one.item_id) and one.version not in (
            self.parents or ()
        )

    def _raw(self, name: str, what: bytes) -> bytes:
        found = re.search(b'"%b":(%b)' % (name.encode(), what), self._head)
        return found[1] if found is not None else b""

    def _text(self, name: str) -> str:
        raw = self._raw(name, rb'"(?:[^"\\\x00-\x1f]|\\.){0,%d}"' % _FIELD_BYTES_MAX)
        try:
            return msgspec.json.decode(raw, type=str) if raw else ""
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""

    def _parents(self) -> tuple[str, ...] | None:
        """Return the parents; None if they cannot be read or may have been lost."""
        raw = self._raw("parents", rb'\["[^\]]*"\]')
        if raw:
            found = tuple(raw[2:-2].decode("ascii", "replace").split('","'))
            return found if all(map(is_digest_text, found)) else None
        return () if self.action == "create" else None

    def _txn(self) -> tuple[int, int] | None:
        found = re.search(rb'"txn":\[(\d{1,5}),(\d{1,5})\]', self._head)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            return None
        return int(found[1]), int(found[2])


def _txn(before: Record | None, after: Record | None) -> tuple[int, int] | None:
    """Return the place in a batch that lies between these neighbours."""
    if before is not None and before.txn is not None and before.txn[0] < before.txn[1]:
        return before.txn[0] + 1, before.txn[1]
    if after is not None and after.txn is not None and after.txn[0] > 1:
        return after.txn[0] - 1, after.txn[1]
    return None
