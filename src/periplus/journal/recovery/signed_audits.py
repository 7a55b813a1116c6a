"""Audit records for a lineage that is no longer written, signed with its key and stored in other lineages.

A lineage is left when its store was copied, moved or restored, or gave way in a fork. No record may be added to it: another clone that
holds it may be its owner and still write to it. The audit record is therefore written to the lineage that the redacting store writes now,
and signed with the key of the left lineage. The signature alone makes it valid, regardless of the lineage in which it lies, of its source,
and of the trust in that lineage.
"""

from __future__ import annotations

__all__ = [
    "Audits",
    "audits_elsewhere",
    "audits_of",
    "file_with_content",
    "key_of",
    "segments_of_carrier",
    "segments_of_readers",
]

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from periplus.base.errors import FormatError, PeriplusError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.segment import Entry, decode_header, scan
from periplus.journal.records.stub import AUDIT_MARK, AuditedRecord, audited_by, lost_by, signed_audit
from periplus.journal.storage.keys import public_key, verify_signature
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, LineageReader
from periplus.journal.storage.tree_head import pinned_key

if TYPE_CHECKING:
    from periplus.journal.carriers import Carrier


def audits_elsewhere(segments: Iterable[tuple[str, int, bytes]], lineage: str, key: bytes) -> set[AuditedRecord]:
    """Return the redactions of ``lineage``, whose public key (32 bytes) is ``key``, that signed audit records in other lineages state.

    ``segments`` are lineage, first seq and bytes of each segment. Unreadable segments are skipped.
    """
    found: set[AuditedRecord] = set()
    name = lineage.encode()
    for written_in, first, data in segments:
        if written_in == lineage or AUDIT_MARK not in data or name not in data:
            continue
        for entry in _entries(first, data):
            audit = signed_audit(entry.record, written_in)
            if audit is not None and audit.lineage == lineage and verify_signature(key, audit.signature, audit.message):
                found.update(audit.records)
    return found


class Audits(NamedTuple):
    """Summary of the audit records about one lineage.

    ``lost`` are seq and leaf hash of records that were lost to damage and not redacted; ``taken_out`` are the redacted records with their
    stubs.
    """

    lost: frozenset[tuple[int, str]]
    taken_out: frozenset[AuditedRecord]


def audits_of(segments: Iterable[tuple[str, int, bytes]], lineage: str, key: bytes) -> Audits:
    """Return what ``segments`` state of ``lineage``, whose public key is ``key``; arguments as in ``audits_elsewhere``.

    A stub that was lost to damage and made again has other bytes, so a redacted record is identified by seq and leaf hash.
    """
    saying = [one for one in segments if AUDIT_MARK in one[2]]
    lost: set[tuple[int, str]] = set()
    taken_out = audits_elsewhere(saying, lineage, key) if key else set()
    for written_in, first, data in saying:
        if written_in == lineage:
            for entry in _entries(first, data):
                if lost_by(entry.record, lineage):
                    lost.update((one.seq, one.leaf) for one in audited_by(entry.record, lineage))
                else:
                    taken_out.update(audited_by(entry.record, lineage))
    return Audits(frozenset(lost - {(one.seq, one.leaf) for one in taken_out}), frozenset(taken_out))


def _entries(first: int, data: bytes) -> list[Entry]:
    try:
        start = decode_header(data)[1]
    except FormatError:
        return []
    return scan(data[start:], base=start, next_seq=first, salvage=True).entries


def file_with_content(reader: LineageReader, seq: int) -> str:
    """Return the path of the segment in which record ``seq`` has its content now; empty if it has none or cannot be read."""
    first = max((one for one in reader.segments() if one <= seq), default=0)
    if not first:
        return ""
    path = reader.path_of(first)
    try:
        entries = _entries(first, read_plain(path, SEGMENT_READ_MAX))
    except OSError:
        return ""
    return path if any(one.record.seq == seq and not one.record.is_stub for one in entries) else ""


def segments_of_readers(
    lineages: Iterable[str], reader_of: Callable[[str], LineageReader]
) -> Iterator[tuple[str, int, bytes]]:
    """Yield the segments of ``lineages`` in a folder; missing and unreadable ones are skipped."""
    for lineage in lineages:
        reader = reader_of(lineage)
        for segment in reader.segments():
            try:
                yield lineage, segment, read_plain(reader.path_of(segment), SEGMENT_READ_MAX)
            except OSError:
                continue


def segments_of_carrier(source: Carrier) -> Iterator[tuple[str, int, bytes]]:
    """Yield the segments that ``source`` has, as ``segments_of_readers`` does."""
    for lineage in source.lineages():
        try:
            for segment in source.segments(lineage):
                yield lineage, segment, source.fetch(lineage, segment)
        except PeriplusError:
            continue


def key_of(layout: Layout, lineage: str) -> bytes:
    """Return the public key by which a store knows ``lineage``; empty if it knows none."""
    try:
        pinned = pinned_key(layout, lineage)
        return pinned.key if pinned is not None else public_key(layout, lineage)
    except PeriplusError:
        return b""
