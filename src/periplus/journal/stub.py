"""Stubs: records whose content was taken out, and the audit records that make them count. Pure.

A stub keeps every field of its record but payload, summary and salt, and adds the leaf hash and the version id that
the record had. So seqs, batches, the version graph and the Merkle tree stay what they were. It is filled up with
spaces to the length of the line that it replaces, so that every offset in the segment stays true.

Anybody can write such a line, so it counts only if an *audit record* of the same lineage (action ``redact``, written
before the content was taken out) names its seq and leaf hash.
"""

from __future__ import annotations

__all__ = ["AUDIT_RECORDS_MAX", "AuditedRecord", "audited_by", "make_stub", "objects_removed_by", "unaudited"]

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from periplus.base.digests import is_digest_text
from periplus.journal.record import SUM_TRAILER_BYTES, Record, seal_line
from periplus.journal.segment import Entry

AUDIT_RECORDS_MAX: Final = 400  # what fits into the payload of one audit record
_TAKEN_OUT: Final = frozenset({"payload", "payload_ref", "summary", "salt", "sum"})


class AuditedRecord(NamedTuple):
    """A record whose content an audit record allows to take out."""

    seq: int
    leaf: str


class _Audit(msgspec.Struct, frozen=True):
    lineage: str
    records: list[tuple[int, str]] = []
    objects: list[str] = []


def make_stub(line: bytes, leaf: bytes, version: str) -> bytes:
    """The stub of ``line`` (no newline), with its newline; as long as ``line`` and its own where that suffices.

    Fields of later versions are kept as they are.
    """
    fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    kept = [b"%b:%b" % (msgspec.json.encode(name), raw) for name, raw in fields.items() if name not in _TAKEN_OUT]
    kept.append(b'"leaf":"%b"' % leaf.hex().encode())
    if version:
        kept.append(b'"version":"%b"' % version.encode())
    body = b"{" + b",".join(kept)
    room = len(line) - SUM_TRAILER_BYTES - len(body)
    return seal_line(body + b" " * room)[0]


def audited_by(record: Record, lineage: str) -> list[AuditedRecord]:
    """What an audit record of ``lineage`` names; nothing for any other record."""
    audit = _audit_of(record, lineage)
    return (
        [AuditedRecord(seq, leaf) for seq, leaf in audit.records if is_digest_text(leaf)] if audit is not None else []
    )


def objects_removed_by(record: Record, lineage: str) -> list[str]:
    """The digests of the objects that went with what an audit record of ``lineage`` names."""
    audit = _audit_of(record, lineage)
    return audit.objects if audit is not None else []


def _audit_of(record: Record, lineage: str) -> _Audit | None:
    if record.action != "redact" or isinstance(record.payload, msgspec.UnsetType):
        return None
    try:
        audit = msgspec.json.decode(record.payload, type=_Audit)
    except msgspec.DecodeError:
        return None  # of a later version: what it allows is not known here
    return audit if audit.lineage == lineage else None


def unaudited(entries: Iterable[Entry], lineage: str) -> list[Entry]:
    """The stubs among *all* records of a lineage that no audit record names: they count for nothing."""
    stubs: list[Entry] = []
    audited: set[AuditedRecord] = set()
    for entry in entries:
        if entry.record.is_stub:
            stubs.append(entry)
        else:
            audited.update(audited_by(entry.record, lineage))
    return [stub for stub in stubs if AuditedRecord(stub.record.seq, stub.leaf.hex()) not in audited]
