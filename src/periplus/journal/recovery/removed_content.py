"""Objects that redactions removed from a store, by digest; they must not come back with content from elsewhere.

An audit record names the removed objects. Code that takes objects from elsewhere (a sync, a repair, an import of a session) asks here
first. The audit records are read from the segments themselves, never from the index, and only segments that contain one are parsed. Rules
kept here:

* an object that is the payload of an unredacted record is not removed, whatever an audit record says: the journal must stay readable, and
  other clones redact their records themselves. A line of an interrupted write, which never became a record, does not count;
* content is brought back by writing it anew: a record that its lineage has *after* its own audit record may name the object.
"""

from __future__ import annotations

__all__ = ["Removed", "TakenOut", "removed_objects", "taken_out"]

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import FormatError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import LINE_BYTES_MAX
from periplus.journal.records.segment import Entry, decode_header, scan
from periplus.journal.records.stub import AUDIT_MARK, objects_removed_by, renewed_by
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, LineageReader
from periplus.objects.store import ObjectStore

Writing: TypeAlias = Callable[[], AbstractContextManager[object]]
_REMOVED_AT_ONCE: Final = 16  # each removal syncs its folder
_PAYLOAD: Final = re.compile(rb'"payload_ref":\{"sha256":"([0-9a-f]{64})"')
_PLACE: Final = re.compile(rb'"txn":\[(\d{1,9}),(\d{1,9})\]')
_END_BYTES: Final = 8192  # most lines are shorter
_MARK_BYTES: Final = 90  # the length of a match of _PAYLOAD; an audit record's mark is shorter


class _Store(Protocol):
    """The common part of ``JournalReader`` and of the folder of a store that is exchanged with."""

    def lineages(self) -> list[str]: ...

    def reader(self, lineage: str) -> LineageReader: ...


class Removed:
    """The objects that audit records name, and the last of those audit records in each lineage.

    ``renewed`` maps the digests of objects replaced by redacted ones to the new digests. Whether an object is a payload is looked up on
    request, in the current files.
    """

    def __init__(self) -> None:
        self.renewed: dict[bytes, bytes] = {}
        self._audits: dict[bytes, dict[str, int]] = {}
        self._readers: dict[str, LineageReader] = {}  # by folder
        self._unfinished: set[tuple[str, int]] = set()  # segments that ended in an incomplete write when they were read
        self._named: dict[tuple[str, int], _Payloads] = {}  # all payload digests in the bytes of each segment
        self._counting: dict[tuple[str, int], _Payloads] = {}  # only those of records

    def add(self, entries: Iterable[Entry], lineage: str) -> None:
        for entry in entries:
            for digest in removed_objects(entry, lineage):
                self._audits.setdefault(digest, {})[lineage] = entry.record.seq
            for old, new in renewed_by(entry.record, lineage).items():
                if is_digest_text(old) and is_digest_text(new):
                    self.renewed[bytes.fromhex(old)] = bytes.fromhex(new)

    def add_lineage(self, reader: LineageReader, lineage: str) -> None:
        """Add the audit records in the files of a lineage; missing or unreadable files are skipped."""
        self._readers[reader.folder] = reader
        for segment in reader.segments():
            self.add_segment(reader, lineage, segment, _read(reader.path_of(segment)))

    def add_segment(self, reader: LineageReader, lineage: str, segment: int, seen: bytes) -> None:
        """Add the audit records of a segment; it is read in full only if ``seen``, a part of its bytes, may contain one."""
        self._readers[reader.folder] = reader
        if AUDIT_MARK not in seen and (lineage, segment) not in self._unfinished:
            return
        self._unfinished.discard((lineage, segment))
        data = _read(reader.path_of(segment))
        try:
            start = decode_header(data)[1]
        except FormatError:
            return
        found = scan(data[start:], base=start, next_seq=segment, salvage=True)
        self.add(found.entries, lineage)
        if found.tail is not None:
            self._unfinished.add((lineage, segment))

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._audits and not self._is_payload(digest)

    def __iter__(self) -> Iterator[bytes]:
        return (digest for digest in self._audits if not self._is_payload(digest))

    def forbids(self, digest: bytes, lineage: str, seq: int) -> bool:
        """Return True if record ``seq`` of ``lineage`` may not bring ``digest`` as its payload."""
        return digest in self and any(seq < audit or other != lineage for other, audit in self._audits[digest].items())

    def _is_payload(self, digest: bytes) -> bool:
        for folder, reader in self._readers.items():
            for segment in reader.segments():
                path = reader.path_of(segment)
                try:
                    at = os.stat(path)
                except OSError:
                    continue  # an unreadable segment is skipped
                place, known = (at.st_dev, at.st_ino), self._named.get((folder, segment))
                if known is None or known.place != place or known.size > at.st_size:
                    known = _Payloads(place, 0, frozenset())
                if known.size < at.st_size:
                    data = _read(path, max(0, known.size - _MARK_BYTES + 1))
                    known = _Payloads(place, at.st_size, known.names | _payloads_in(data))
                    self._named[folder, segment] = known
                if digest not in known.names:
                    continue
                close = self._counting.get((folder, segment))
                if close is None or (close.place, close.size) != (place, at.st_size):
                    close = _Payloads(place, at.st_size, frozenset(_payloads_that_count(reader, segment)))
                    self._counting[folder, segment] = close
                if digest in close.names:
                    return True
        return False


class _Payloads(NamedTuple):
    """The payload digests in the first ``size`` bytes of the segment file ``place`` (device and inode)."""

    place: tuple[int, int]
    size: int
    names: frozenset[bytes]


class _End(NamedTuple):
    """The place (device and inode) and size of a lineage's newest segment."""

    lineage: str
    newest: int
    place: tuple[int, int]
    size: int


_NOTHING: Final = _End("", 0, (0, 0), 0)


class _Added(NamedTuple):
    """Bytes written to a segment since it was last read."""

    reader: LineageReader
    lineage: str
    segment: int
    data: bytes


class TakenOut:
    """Tracks removed objects of a store while other processes write to it; reads only what was written since the last look.

    An audit record is written before its object is removed. There are three safe ways to put an object: check and put under the writers'
    lock; check and put within ``ObjectStore.keeping``; or put first, then check and remove what was named.
    """

    def __init__(self, store: _Store) -> None:
        self._store = store
        self._readers: dict[str, LineageReader] = {}
        self._state = self._quiet = self._state_now()  # read up to; without audit records up to
        self._found: Removed | None = None

    def is_current(self) -> bool:
        """Return True if nothing was written since the last read."""
        return self._state_now() == self._state

    def now(self) -> Removed:
        state = self._state_now()
        if self._found is None or not {one.lineage for one in self._state} <= {one.lineage for one in state}:
            self._found = taken_out(self._store)
        elif state != self._state:
            for added in self._added(state, self._state):
                self._found.add_segment(added.reader, added.lineage, added.segment, added.data)
        self._state = self._quiet = state
        return self._found

    def is_more(self) -> bool:
        """Return True if bytes written since may contain an audit record. They are read only once, because this is asked for each object."""
        state = self._state_now()
        if any(AUDIT_MARK in added.data for added in self._added(state, self._quiet)):
            return True
        self._quiet = state
        return False

    def take_back(self, put: Iterable[bytes], objects: ObjectStore, writing: Writing) -> bool:
        """Remove those of the objects ``put`` that were redacted since the last check; return False if there was no redaction."""
        if not self.is_more():
            return False
        self.now()
        self.remove([digest for digest in put if digest in self.now()], objects, writing)
        return True

    def remove(self, digests: Iterable[bytes], objects: ObjectStore, writing: Writing) -> None:
        """Remove those of ``digests`` that did not become the payload of a record since the last check.

        They are removed a few at a time under the writers' lock, which ``writing`` takes: a writer finds an object and names it under that
        lock.
        """
        objects.wait_for_keepers()  # they checked before the audit record and may still write records that name some
        there, named = [digest for digest in digests if objects.has(digest)], set[bytes]()
        for begin in range(0, len(there), _REMOVED_AT_ONCE):
            with writing():
                state = self._state_now()
                for added in self._added(state, self._state):
                    named |= _payloads_in(added.data)
                self._state, self._quiet, self._found = state, state, None
                for digest in there[begin : begin + _REMOVED_AT_ONCE]:
                    if digest not in named:
                        objects.remove(digest)

    def _state_now(self) -> tuple[_End, ...]:
        """Return the ends of all lineages; the value changes when anything is written."""
        lineages = self._store.lineages()
        for lineage in lineages:
            if lineage not in self._readers:
                self._readers[lineage] = self._store.reader(lineage)
        return tuple([_End(lineage, *self._readers[lineage].newest_place()) for lineage in lineages])

    def _added(self, state: tuple[_End, ...], since: tuple[_End, ...]) -> Iterator[_Added]:
        """Yield what was written between ``since`` and ``state``; the whole segment if its file was replaced."""
        before = {one.lineage: one for one in since}
        for end in state:
            known = before.get(end.lineage, _NOTHING)
            if known == end:
                continue
            reader = self._readers[end.lineage]
            # If the bytes seen before ended in an incomplete write, a match may lie across that end or before it.
            begin = 0
            if (known.newest, known.place) == (end.newest, end.place):
                whole = _whole_up_to(reader.path_of(known.newest), known.size)
                begin = max(0, min(whole, known.size - _MARK_BYTES + 1))
            for segment in reader.segments():
                if segment >= known.newest:
                    yield _Added(reader, end.lineage, segment, _read(reader.path_of(segment), begin))


def removed_objects(entry: Entry, lineage: str) -> set[bytes]:
    """Return the objects that an audit record of ``lineage`` names; empty for any other record."""
    return {bytes.fromhex(one) for one in objects_removed_by(entry.record, lineage) if is_digest_text(one)}


def taken_out(store: _Store) -> Removed:
    """Return what was removed from the store, according to the records of all lineages it holds."""
    found = Removed()
    for lineage in store.lineages():
        found.add_lineage(store.reader(lineage), lineage)
    return found


def _payloads_in(data: bytes) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(name.decode()) for name in _PAYLOAD.findall(data))


def _payloads_that_count(reader: LineageReader, segment: int) -> Iterator[bytes]:
    """Yield the payload digests in a segment outside voided and unfinished batches; damaged lines count, since they may be repaired."""
    try:
        data = read_plain(reader.path_of(segment), SEGMENT_READ_MAX)
        start = decode_header(data)[1]
    except (OSError, FormatError):
        return  # an unreadable segment is skipped
    following = min((one for one in reader.segments() if one > segment), default=0)
    found = scan(data[start:], base=start, next_seq=segment, durable_seq=max(0, following - 1), salvage=True)
    void = list(found.voided)
    if found.tail is not None and following:  # a batch that was unfinished when the next segment began
        void.append((found.tail.offset, found.tail.length))
    for name in _PAYLOAD.finditer(data):
        if not any(begin <= name.start() < begin + length for begin, length in void):
            yield bytes.fromhex(name[1].decode())


def _whole_up_to(path: str, size: int) -> int:
    """Return the offset of the incomplete write at the end of a segment's first ``size`` bytes; ``size`` if they end with a complete write."""
    data, begin, start, end = b"", size, 0, 0
    for window in (_END_BYTES, 2 * LINE_BYTES_MAX):
        begin = max(0, size - window)
        data = _read(path, begin, size - begin)
        end = data.rfind(b"\n") + 1
        start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start or not begin:
            break
    place = _PLACE.search(data, start, end)
    return 0 if place is not None and int(place[1]) < int(place[2]) else begin + end  # an unfinished batch


def _read(path: str, begin: int = 0, bytes_max: int = SEGMENT_READ_MAX) -> bytes:
    try:
        return read_plain(path, bytes_max, begin)
    except OSError:
        return b""  # an unreadable segment is skipped
