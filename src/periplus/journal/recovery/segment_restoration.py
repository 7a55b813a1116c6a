"""Restoration of the damaged segments of a lineage, prepared without the writers' lock and written under it.

Reading the records of a large store takes half a minute, and reading copies as long again, but writing a segment takes a moment. So each
segment is prepared without the lock. Under the lock, the bytes it was prepared from are compared with the current file. If another process
wrote, restored or redacted meanwhile, the segment is prepared again: a few times without the lock, then under it. Writers never wait for
more than one segment.
"""

from __future__ import annotations

__all__ = ["PREPARED_MAX", "known_last", "lender", "restore_lineage", "write_restored"]

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from periplus.base.errors import DamageError, FormatError, NotFoundError, PeriplusError
from periplus.base.files import write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.journal.checkpoints.contents import payloads_in_checkpoints
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.journal import Journal
from periplus.journal.records.record import RECORD_VERSION, Record, decode_line, version_id
from periplus.journal.records.segment import Entry, Header, decode_header, encode_header, scan
from periplus.journal.records.segment_repair import Known, Lost, Mended, Restored, restore_segment
from periplus.journal.records.stub import audited_record, make_stub
from periplus.journal.recovery.copies import Copies
from periplus.journal.recovery.lost_records import Remembered, payload_in_file, payload_in_remains
from periplus.journal.recovery.missing_records import noted_size
from periplus.journal.recovery.object_transfer import Lender
from periplus.journal.recovery.repair_plan import LostContent, LostPlan
from periplus.journal.recovery.signed_audits import key_of
from periplus.journal.state.entity import change_of
from periplus.journal.storage.lineage import read_durable
from periplus.journal.storage.lineage_size import seen_size
from periplus.journal.storage.parking import Parking, Repair, read_whole
from periplus.journal.storage.progress import Progress

PREPARED_MAX: Final = 4
_PLAN: Final = "lost.json"
_HOW: Final = {
    "copy": "restored from a copy",
    "byte": "one byte corrected by its checksum",
    "pieces": "reconstructed from its remains and other records",
    "stub": "its content is lost, its place is kept",
    "header": "the header is written anew",
    "payload": "the object with its payload is lost: its place is kept",
}


class _Prepared(NamedTuple):
    """A segment's current bytes (``data``, None if the file is missing) and its restored form; ``restored`` is None if it stays as it is."""

    path: str
    data: bytes | None
    look: _Look
    restored: Restored | None
    plan: LostPlan | None
    may_be_away: bool


def restore_lineage(
    journal: Journal, lineage: str, copies: Copies, rows: IndexRows, yard: Parking, progress: Progress, away: int
) -> Iterator[Repair]:
    """Restore the segments of a lineage. Segments that begin before seq ``away`` may lie in an archive elsewhere."""
    restoring = _Restoring(journal, lineage, copies, rows, away)
    segments = restoring.segments()
    before = "" if segments[:1] == [1] else None  # the sum that the next header names; None if unknown
    for number, first in enumerate(segments):
        progress(number, len(segments))
        following = segments[number + 1] if number + 1 < len(segments) else 0
        done, look, last = restoring.restore(first, following, before, yard)
        yield from done
        before = look.sum if look.last == last or not following else None


class _Restoring:
    """State of the restoration of one lineage."""

    def __init__(self, journal: Journal, lineage: str, copies: Copies, rows: IndexRows, away: int) -> None:
        self._journal = journal
        self._lineage = lineage
        self._copies = copies
        self._rows = rows
        self._away = away
        self._reader = journal.reader(lineage)
        self._durable = known_last(journal, lineage)
        self._audited = copies.audited(lineage, key_of(journal.layout, lineage))
        self._lend = lender(journal, copies)
        self._remembered = Remembered(journal, rows)
        self._is_placed: bool | None = None
        self._is_left = False  # an earlier segment was left; stubs alone would cost the index, which has the content

    def segments(self) -> list[int]:
        """Return the first seqs of the segments that are here or known from the index and copies."""
        last = max(self._durable, self._rows.last(self._lineage))
        known = self._rows.segments(self._lineage) | self._copies.segments(self._lineage)
        return sorted({*self._reader.segments()} | {first for first in known if first <= last})

    def restore(self, first: int, following: int, before: str | None, yard: Parking) -> tuple[list[Repair], _Look, int]:
        """Restore the segment that begins at ``first``; return the repairs, its resulting state, and the seq that it should reach.

        ``following`` is the next segment's first seq, 0 for none; ``before`` the sum that the header names, None if unknown.
        """
        for _ in range(PREPARED_MAX - 1):
            prepared, last = self._prepare(first, following, before)
            done = self._write(prepared, first, yard, is_locked=False)
            if done is not None:
                break
        else:
            with self._journal.writing():
                prepared, last = self._prepare(first, following, before)
                done = self._write(prepared, first, yard, is_locked=True) or []
        look = prepared.look if prepared.restored is None else _look(prepared.restored.data, b"", first, last)
        self._is_left |= prepared.may_be_away and look.last != last
        return done, look, last

    def _prepare(self, first: int, following: int, before: str | None) -> tuple[_Prepared, int]:
        """Prepare the segment as for ``restore``; write nothing."""
        journal, lineage, rows = self._journal, self._lineage, self._rows
        path = self._reader.path_of(first)
        data = read_whole(path, around=True)
        header = _header(journal, lineage, first, before, data)
        last = following - 1 if following else max(self._durable, rows.last(lineage), first - 1)
        look = _look(data, header if before is not None else b"", first, last)
        if not look.is_damaged:
            return _Prepared(path, data, look, None, None, False), last
        may_be_away = data is None and (first < self._away or self._is_left)
        restored = restore_segment(
            data or b"",
            first=first,
            last=last if following else max(last, look.last),
            header=header,
            known=lambda seq: rows.get(lineage, seq),
            copy_of=lambda seq: _copied(lineage, seq, self._copies, self._audited, self._load),
            allow_stubs=lineage == journal.lineage and not may_be_away,
            remember=self._remember,
            contents=self._contents,
        )
        is_only_header = data is None and all(one.how == "header" for one in restored.mended)
        if not restored.mended or is_only_header or (may_be_away and restored.stopped_at):
            return _Prepared(path, data, look, None, None, may_be_away), last
        plan = _plan(journal, lineage, restored.mended, self._contents)
        return _Prepared(path, data, look, restored, plan, may_be_away), last

    def _write(self, prepared: _Prepared, first: int, yard: Parking, *, is_locked: bool) -> list[Repair] | None:
        """Write the prepared segment; return None if the file changed since. With ``is_locked`` it cannot have changed."""
        path, data, _, restored, plan, _ = prepared
        if restored is None or plan is None:
            return []
        if is_locked:
            return list(write_restored(self._journal, path, data, restored, plan, yard))
        with self._journal.writing():
            if self._reader.path_of(first) != path or read_whole(path, around=True) != data:
                return None
            return list(write_restored(self._journal, path, data, restored, plan, yard))

    def _load(self, sha256: str) -> bytes:
        return self._lend(bytes.fromhex(sha256))

    def _remember(self, lost: Lost) -> Known | None:
        if self._is_placed is None:
            last = max(self._durable, self._rows.last(self._lineage))
            self._is_placed = self._lineage == self._journal.lineage and self._remembered.places_all(
                last, lambda seq: self._copies.line(self._lineage, seq) is not None
            )
        return self._remembered.known(lost) if self._is_placed else None

    def _contents(self, known: Known, remains: bytes) -> Iterator[bytes]:
        head = self._remembered.head(known.seq) if self._lineage == self._journal.lineage else None
        yield head.payload if head is not None else b""
        yield self._rows.payload(known.version)
        yield payload_in_file(self._journal, known.item_type, known.item_id)
        yield payload_in_remains(remains)


def _header(journal: Journal, lineage: str, first: int, before: str | None, data: bytes | None) -> bytes:
    """Return the header that the segment should have. If the sum before it is unknown, a sound existing header is kept."""
    if before is None and data is not None:
        try:
            found, start = decode_header(data)
        except FormatError:
            pass  # a new header is made
        else:
            if (found.lineage, found.first_seq) == (lineage, first) and found.store in journal.stores:
                return data[:start]
    return encode_header(
        Header(RECORD_VERSION, RECORD_VERSION, journal.store_of(lineage), lineage, first, before or "")
    )


def _copied(
    lineage: str, seq: int, copies: Copies, audited: Mapping[int, Collection[str]], load: Callable[[str], bytes]
) -> bytes | None:
    """Return the record's line from a copy; for a redacted record its stub, made from the line if necessary."""
    stubs = audited.get(seq)
    if not stubs:  # not redacted: prefer the record to a stub for a lost record
        found = list(copies.lines(lineage, seq))
        return next((line for line in found if not decode_line(line)[0].is_stub), found[0] if found else None)
    for line in copies.lines(lineage, seq):
        record, leaf = decode_line(line)
        stub = line if record.is_stub else _stub_again(line, record, leaf, lineage, load)
        if stub and audited_record(stub, leaf, seq).stub in stubs:
            return stub
    return None


def _stub_again(line: bytes, record: Record, leaf: bytes, lineage: str, load: Callable[[str], bytes]) -> bytes:
    """Return the stub that a redaction made of the line; empty if its payload is missing, because then the version is unknown."""
    try:
        change = change_of(Entry(record, 0, len(line) + 1, leaf), lineage, 0, load)
    except PeriplusError:
        return b""
    return make_stub(line, leaf, change.version if change is not None else "")[:-1]


class _Look(NamedTuple):
    """The state of a segment: whether it is damaged, its last sound seq, and the sum of that record (or of the header)."""

    is_damaged: bool
    last: int
    sum: str


def _look(data: bytes | None, header: bytes, first: int, last: int) -> _Look:
    """Examine a segment. ``last`` is the seq that it should reach; ``header`` what it should begin with, empty if unknown."""
    if data is None:
        return _Look(True, 0, "")
    try:
        found, start = decode_header(data)
    except FormatError:
        start = data.find(b"\n") + 1
        found = None
    read = scan(data[start:], base=start, next_seq=first, durable_seq=last, salvage=True)
    entries = [entry for entry in read.entries if entry.record.seq <= last] if last >= first else read.entries
    reached = entries[-1].record.seq if entries else first - 1
    is_damaged = found is None or not data.startswith(header) or bool(read.damages) or reached < last
    end = entries[-1].leaf[:8].hex() if entries else data[start - 19 : start - 3].decode("ascii", "replace")
    return _Look(is_damaged, reached, end)


def write_restored(
    journal: Journal, path: str, old: bytes | None, restored: Restored, plan: LostPlan, yard: Parking
) -> Iterator[Repair]:
    if old is not None:
        yard.park(path)
    if plan.records:
        yard.write(_PLAN, msgspec.json.encode(plan))
    write_atomic(journal.files, path, restored.data)
    for one in restored.mended:
        yield Repair(_HOW[one.how], path, one.seq)


def _plan(
    journal: Journal, lineage: str, mended: Iterable[Mended], contents: Callable[[Known, bytes], Iterable[bytes]]
) -> LostPlan:
    plan = LostPlan(lineage, [], [])
    lost: dict[str, Mended] = {}
    for one in mended:
        if one.how == "stub":
            plan.records.append(audited_record(one.line, one.leaf, one.seq))
            if one.known is not None and one.known.version and one.known.action != "delete":
                lost[one.known.version] = one
    kept = payloads_in_checkpoints(journal, lost.keys()) if lost else {}
    for version, one in lost.items():
        row = one.known
        assert row is not None
        for payload in (*contents(row, one.remains), kept.get(version, b"")):
            if payload and version == version_id(
                row.item_type, row.item_id, deleted=False, payload=payload, parents=row.parents
            ):
                plan.contents.append(LostContent.of(row, payload))
                break
    return plan


def known_last(journal: Journal, lineage: str) -> int:
    """Return the last seq that must exist, according to everything except the records."""
    mark = read_durable(journal.layout.durable)
    marked = mark.seq if mark is not None and mark.lineage == lineage else 0
    return max(marked, seen_size(journal.layout, lineage), noted_size(journal.layout, lineage))


def lender(journal: Journal, copies: Copies) -> Lender:
    def lend(digest: bytes) -> bytes:
        try:
            return journal.objects.get(digest)
        except (NotFoundError, DamageError):
            data = copies.object(digest)
            if data is None:
                raise
            return data

    return lend
