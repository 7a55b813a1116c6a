"""What redactions took out of a store, by digest: it does not come back with what others bring.

An audit record names the objects that went. Whoever takes objects from elsewhere (a sync, a repair, an import of a session)
asks here first. What is known is read from the segments themselves, never from the index, and only those segments are parsed
in which such a record stands. Rules kept here:

* an object that a record which kept its content has as its payload is not taken out, whatever an audit record says: what
  the journal says has to be readable, and other clones redact their records themselves. A line of a write that was cut off, which no
  record ever was, keeps none;
* who wants something back writes it anew: a record that its lineage has *after* its own audit record may name it.
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
_REMOVED_AT_ONCE: Final = 16  # each is a sync of its folder
_PAYLOAD: Final = re.compile(rb'"payload_ref":\{"sha256":"([0-9a-f]{64})"')
_PLACE: Final = re.compile(rb'"txn":\[(\d{1,9}),(\d{1,9})\]')
_END_BYTES: Final = 8192  # most lines are shorter
_MARK_BYTES: Final = 90  # the length of what that matches; of an audit record's mark, less


class _Store(Protocol):
    """As ``JournalReader``, and as the folder of a store that is exchanged with."""

    def lineages(self) -> list[str]: ...

    def reader(self, lineage: str) -> LineageReader: ...


class Removed:
    """The objects that audit records name, and the last of those records in each lineage.

    ``renewed`` are those that were made anew without what went, by the digests that they had: what stood on one may stand on the other.
    Which of them are payloads is looked up when it is asked, in the files as they are then.
    """

    def __init__(self) -> None:
        self.renewed: dict[bytes, bytes] = {}
        self._audits: dict[bytes, dict[str, int]] = {}
        self._readers: dict[str, LineageReader] = {}  # by their folders: where payloads are named
        self._unfinished: set[tuple[str, int]] = set()  # segments that ended in a write that was half seen
        self._named: dict[tuple[str, int], _Payloads] = {}  # in the bytes of each segment
        self._counting: dict[tuple[str, int], _Payloads] = {}  # of those segments that were looked at closely

    def add(self, entries: Iterable[Entry], lineage: str) -> None:
        for entry in entries:
            for digest in removed_objects(entry, lineage):
                self._audits.setdefault(digest, {})[lineage] = entry.record.seq
            for old, new in renewed_by(entry.record, lineage).items():
                if is_digest_text(old) and is_digest_text(new):
                    self.renewed[bytes.fromhex(old)] = bytes.fromhex(new)

    def add_lineage(self, reader: LineageReader, lineage: str) -> None:
        """What the files of a lineage say; those that are not here, or cannot be read, say nothing."""
        self._readers[reader.folder] = reader
        for segment in reader.segments():
            self.add_segment(reader, lineage, segment, _read(reader.path_of(segment)))

    def add_segment(self, reader: LineageReader, lineage: str, segment: int, seen: bytes) -> None:
        """What a segment says, where ``seen`` of its bytes may have an audit record: then all of it is read."""
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
        """Whether record ``seq`` of ``lineage`` may not bring ``digest`` as its payload."""
        return digest in self and any(seq < audit or other != lineage for other, audit in self._audits[digest].items())

    def _is_payload(self, digest: bytes) -> bool:
        for folder, reader in self._readers.items():
            for segment in reader.segments():
                path = reader.path_of(segment)
                try:
                    at = os.stat(path)
                except OSError:
                    continue  # what cannot be read says nothing
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
    """What a segment's file ``place`` (device and inode) names as payloads in its first ``size`` bytes."""

    place: tuple[int, int]
    size: int
    names: frozenset[bytes]


class _End(NamedTuple):
    """Where the newest segment of a lineage lies, and how long it is."""

    lineage: str
    newest: int
    place: tuple[int, int]
    size: int


_NOTHING: Final = _End("", 0, (0, 0), 0)


class _Added(NamedTuple):
    """What was written to a segment since it was looked at."""

    reader: LineageReader
    lineage: str
    segment: int
    data: bytes


class TakenOut:
    """What was taken out of a store by now, for who puts objects into it beside others: of what was written since, only that is read.

    An audit record is written before its object goes. Who looks under the writers' lock and puts an object before he gives it back brings nothing
    back, nor does who looks and puts while ``ObjectStore.keeping``; nor who puts first and looks then, and takes out again what is named.
    """

    def __init__(self, store: _Store) -> None:
        self._store = store
        self._readers: dict[str, LineageReader] = {}
        self._state = self._quiet = self._state_now()  # that was read; up to where nothing written since says anything
        self._found: Removed | None = None

    def is_current(self) -> bool:
        """Whether nothing was written since it was read."""
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
        """Whether what was written since may say that something was taken out: only that is read, and once, for it is asked for each object."""
        state = self._state_now()
        if any(AUDIT_MARK in added.data for added in self._added(state, self._quiet)):
            return True
        self._quiet = state
        return False

    def take_back(self, put: Iterable[bytes], objects: ObjectStore, writing: Writing) -> bool:
        """Remove those of the objects ``put`` that were taken out since this was made or asked; False where nothing was since."""
        if not self.is_more():
            return False
        self.now()
        self.remove([digest for digest in put if digest in self.now()], objects, writing)
        return True

    def remove(self, digests: Iterable[bytes], objects: ObjectStore, writing: Writing) -> None:
        """Remove those of ``digests`` that no record came to have as its payload since this was made or asked.

        A few at a time under the writers' lock, which ``writing`` takes: a writer finds an object there and names it under that lock.
        """
        objects.wait_for_keepers()  # of those who did not know yet; they may still write what names some
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
        """Another once anything was written."""
        lineages = self._store.lineages()
        for lineage in lineages:
            if lineage not in self._readers:
                self._readers[lineage] = self._store.reader(lineage)
        return tuple([_End(lineage, *self._readers[lineage].newest_place()) for lineage in lineages])

    def _added(self, state: tuple[_End, ...], since: tuple[_End, ...]) -> Iterator[_Added]:
        """What was written from ``since`` up to ``state``; all of a segment that is another file by now."""
        before = {one.lineage: one for one in since}
        for end in state:
            known = before.get(end.lineage, _NOTHING)
            if known == end:
                continue
            reader = self._readers[end.lineage]
            # A write that was half seen then may have what is looked for across the place, or before it: it counted for nothing.
            begin = 0
            if (known.newest, known.place) == (end.newest, end.place):
                whole = _whole_up_to(reader.path_of(known.newest), known.size)
                begin = max(0, min(whole, known.size - _MARK_BYTES + 1))
            for segment in reader.segments():
                if segment >= known.newest:
                    yield _Added(reader, end.lineage, segment, _read(reader.path_of(segment), begin))


def removed_objects(entry: Entry, lineage: str) -> set[bytes]:
    """The objects that an audit record of ``lineage`` names; none of any other record."""
    return {bytes.fromhex(one) for one in objects_removed_by(entry.record, lineage) if is_digest_text(one)}


def taken_out(store: _Store) -> Removed:
    """What was taken out of the store, by the records of all lineages that are held."""
    found = Removed()
    for lineage in store.lineages():
        found.add_lineage(store.reader(lineage), lineage)
    return found


def _payloads_in(data: bytes) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(name.decode()) for name in _PAYLOAD.findall(data))


def _payloads_that_count(reader: LineageReader, segment: int) -> Iterator[bytes]:
    """The payloads that a segment names but in what is void, or was never finished; in damage too, which may be mended."""
    try:
        data = read_plain(reader.path_of(segment), SEGMENT_READ_MAX)
        start = decode_header(data)[1]
    except (OSError, FormatError):
        return  # what cannot be read says nothing
    following = min((one for one in reader.segments() if one > segment), default=0)
    found = scan(data[start:], base=start, next_seq=segment, durable_seq=max(0, following - 1), salvage=True)
    void = list(found.voided)
    if found.tail is not None and following:  # what was on its way when the segment was given up
        void.append((found.tail.offset, found.tail.length))
    for name in _PAYLOAD.finditer(data):
        if not any(begin <= name.start() < begin + length for begin, length in void):
            yield bytes.fromhex(name[1].decode())


def _whole_up_to(path: str, size: int) -> int:
    """Where the write begins of which the first ``size`` bytes of a segment show a part; ``size`` where they end with a whole one."""
    data, begin, start, end = b"", size, 0, 0
    for window in (_END_BYTES, 2 * LINE_BYTES_MAX):
        begin = max(0, size - window)
        data = _read(path, begin, size - begin)
        end = data.rfind(b"\n") + 1
        start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start or not begin:
            break
    place = _PLACE.search(data, start, end)
    return 0 if place is not None and int(place[1]) < int(place[2]) else begin + end  # of a batch more was to come


def _read(path: str, begin: int = 0, bytes_max: int = SEGMENT_READ_MAX) -> bytes:
    try:
        return read_plain(path, bytes_max, begin)
    except OSError:
        return b""  # what cannot be read says nothing
