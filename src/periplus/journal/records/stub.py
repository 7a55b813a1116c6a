"""Stubs: records whose content was taken out, and the audit records that make them count. Pure.

A stub keeps every field of its record but payload, summary and salt, and adds the leaf hash and the version id that
the record had. So seqs, batches, the version graph and the Merkle tree stay what they were. It is filled up with
spaces to the length of the line that it replaces, so that every offset in the segment stays true.

Anybody can write such a line, and its fields are not what the tree's leaf was made of. So it counts only if an *audit
record* of the same lineage (action ``redact``, written before the content was taken out) names its seq, its leaf hash and
the digest of the stub itself: the tree holds the audit record, and with it the stub.

A record that was lost to damage gets a stub, too. Its audit record says ``lost``: then the content may come back, from whoever has it.

A lineage that was left (its store was copied, moved, restored, or gave way in a fork) gets no more records. What is taken out of it
an audit record of another lineage names, signed with the key of the one that was left: see ``periplus.journal.recovery.signed_audits``.
"""

from __future__ import annotations

__all__ = [
    "AUDIT_MARK",
    "AUDIT_RECORDS_MAX",
    "AuditedRecord",
    "SignedAudit",
    "audit_message",
    "audited_by",
    "audited_record",
    "lost_by",
    "make_stub",
    "objects_removed_by",
    "renewed_by",
    "signed_audit",
    "unaudited",
]

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.encoding.digests import is_digest_text
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import SUM_TRAILER_BYTES, Record, seal_line
from periplus.journal.records.segment import Entry

AUDIT_MARK: Final = b'"action":"redact"'  # stands in the line of every audit record
AUDIT_RECORDS_MAX: Final = 300  # what fits into the payload of one audit record
_NAMES: Final = ("writer", "session")  # what a person chose, and may hold what has to go
_TAKEN_OUT: Final = frozenset({"payload", "payload_ref", "summary", "salt", "sum"})


class AuditedRecord(NamedTuple):
    """A record whose content an audit record allows to take out: its leaf, and the SHA-256 of the stub's line."""

    seq: int
    leaf: str
    stub: str


class SignedAudit(NamedTuple):
    """What a record of another lineage allows to take out of ``lineage``, if ``signature`` (64 bytes) is of that lineage's key."""

    lineage: str
    records: list[AuditedRecord]
    signature: bytes

    @property
    def message(self) -> bytes:
        return audit_message(self.lineage, self.records)


class _Audit(msgspec.Struct, frozen=True):
    lineage: str
    records: list[tuple[int, str, str]] = []
    objects: list[str] = []
    signature: str = ""
    lost: bool = False
    renewed: dict[str, str] = {}


def make_stub(line: bytes, leaf: bytes, version: str, masked: Callable[[str], str] = str) -> bytes:
    """The stub of ``line`` (no newline), with its newline; as long as ``line`` and its own where that suffices.

    Who wrote it, and the session, stand in it as ``masked`` has them; a key that this changes is left out. Fields of later versions
    are kept as they are.
    """
    fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    for name in _NAMES:
        if name in fields:
            fields[name] = msgspec.Raw(canonical(masked(msgspec.json.decode(fields[name], type=str))))
    key = msgspec.json.decode(fields.get("key", b'""'), type=str)
    if masked(key) != key:
        del fields["key"]
    kept = [b"%b:%b" % (msgspec.json.encode(name), raw) for name, raw in fields.items() if name not in _TAKEN_OUT]
    kept.append(b'"leaf":"%b"' % leaf.hex().encode())
    if version:
        kept.append(b'"version":"%b"' % version.encode())
    body = b"{" + b",".join(kept)
    room = len(line) - SUM_TRAILER_BYTES - len(body)
    return seal_line(body + b" " * room)[0]


def audited_by(record: Record, lineage: str) -> list[AuditedRecord]:
    """What an audit record of ``lineage`` names; nothing for any other record."""
    audit = _audit_of(record)
    return _records_of(audit) if audit is not None and audit.lineage == lineage else []


def lost_by(record: Record, lineage: str) -> list[AuditedRecord]:
    """What of ``audited_by`` was lost to damage, not taken out on purpose: whoever has the content keeps it, and may give it back."""
    audit = _audit_of(record)
    return _records_of(audit) if audit is not None and audit.lineage == lineage and audit.lost else []


def signed_audit(record: Record, written_in: str) -> SignedAudit | None:
    """What a record of the lineage ``written_in`` allows to take out of another; None for any other record."""
    audit = _audit_of(record)
    if audit is None or audit.lineage == written_in:
        return None
    try:
        signature = bytes.fromhex(audit.signature)
    except ValueError:
        return None
    return SignedAudit(audit.lineage, _records_of(audit), signature) if len(signature) == 64 else None


def audit_message(lineage: str, records: Iterable[AuditedRecord]) -> bytes:
    """The bytes that are signed where another lineage says what is taken out of ``lineage``."""
    fields: dict[str, JSONValue] = {"lineage": lineage, "records": [list(one) for one in records]}
    return b"PPLS/redact/1\0" + canonical(fields)


def audited_record(line: bytes, leaf: bytes, seq: int) -> AuditedRecord:
    """What an audit record has to name for the stub ``line`` (no newline) to count."""
    return AuditedRecord(seq, leaf.hex(), hashlib.sha256(line).hexdigest())


def objects_removed_by(record: Record, lineage: str) -> list[str]:
    """The digests of the objects that went with what an audit record of ``lineage`` names."""
    audit = _audit_of(record)
    return audit.objects if audit is not None and audit.lineage == lineage else []


def renewed_by(record: Record, lineage: str) -> dict[str, str]:
    """What an audit record of ``lineage`` says of objects that were made anew without what went: digests, old and new."""
    audit = _audit_of(record)
    return audit.renewed if audit is not None and audit.lineage == lineage else {}


def _records_of(audit: _Audit) -> list[AuditedRecord]:
    return [AuditedRecord(*one) for one in audit.records if is_digest_text(one[1])]


def _audit_of(record: Record) -> _Audit | None:
    if record.action != "redact" or isinstance(record.payload, msgspec.UnsetType):
        return None
    try:
        return msgspec.json.decode(record.payload, type=_Audit)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # of a later version: what it allows is not known here


def unaudited(
    entries: Iterable[Entry], lineage: str, line_of: Callable[[Entry], bytes]
) -> list[tuple[Entry, AuditedRecord]]:
    """The stubs among *all* records of a lineage that no audit record of it names, and what one would have to say.

    ``line_of`` gives the line of a stub without its newline, when it comes by.
    """
    stubs: list[tuple[Entry, AuditedRecord]] = []
    audited: set[AuditedRecord] = set()
    for entry in entries:
        if entry.record.is_stub:
            stubs.append((entry, audited_record(line_of(entry), entry.leaf, entry.record.seq)))
        else:
            audited.update(audited_by(entry.record, lineage))
    return [(entry, wanted) for entry, wanted in stubs if wanted not in audited]
