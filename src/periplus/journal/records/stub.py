"""Stubs: records whose content was removed, and the audit records that make them valid. Pure.

A stub keeps every field of its record except payload, summary and salt, and adds the leaf hash and the version id of the
original record. Seqs, batches, the version graph and the Merkle tree therefore do not change. A stub is padded with
spaces to the length of the line that it replaces, so every offset in the segment stays right.

Anybody can write such a line, and the leaf of the tree was not computed from its fields. So a stub is valid only if an
*audit record* of the same lineage (action ``redact``, written before the content was removed) names its seq, its leaf hash
and the digest of the stub. The audit record is in the tree, and so is the stub through it.

A record that was lost to damage gets a stub, too. Its audit record says ``lost``; the content may then come back from a copy.

A lineage that is no longer written (its store was copied, moved or restored, or it gave way in a fork) gets no more
records. What is removed from it is named by an audit record of another lineage, signed with the key of the old one: see
``periplus.journal.recovery.signed_audits``.
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

AUDIT_MARK: Final = b'"action":"redact"'  # in the line of every audit record
AUDIT_RECORDS_MAX: Final = 300  # what fits into the payload of one audit record
_NAMES: Final = ("writer", "session")  # names that a person chose; they may contain the secret
_TAKEN_OUT: Final = frozenset({"payload", "payload_ref", "summary", "salt", "sum"})


class AuditedRecord(NamedTuple):
    """A record whose content an audit record allows to remove: its leaf hash and the SHA-256 of the stub's line."""

    seq: int
    leaf: str
    stub: str


class SignedAudit(NamedTuple):
    """Records that a record of another lineage allows to remove from ``lineage``, if ``signature`` (64 bytes) is valid."""

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
    """Return the stub of ``line`` (no newline), with its newline; padded to the length of ``line`` if it is shorter.

    ``masked`` is applied to the writer's name and to the session; a key that it changes is left out. Fields of later versions
    are kept.
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
    """Return the records that an audit record of ``lineage`` names; an empty list for any other record."""
    audit = _audit_of(record)
    return _records_of(audit) if audit is not None and audit.lineage == lineage else []


def lost_by(record: Record, lineage: str) -> list[AuditedRecord]:
    """Return the records of ``audited_by`` that were lost to damage; whoever has their content may give it back."""
    audit = _audit_of(record)
    return _records_of(audit) if audit is not None and audit.lineage == lineage and audit.lost else []


def signed_audit(record: Record, written_in: str) -> SignedAudit | None:
    """Return what a record of the lineage ``written_in`` allows to remove from another lineage; None for any other record."""
    audit = _audit_of(record)
    if audit is None or audit.lineage == written_in:
        return None
    try:
        signature = bytes.fromhex(audit.signature)
    except ValueError:
        return None
    return SignedAudit(audit.lineage, _records_of(audit), signature) if len(signature) == 64 else None


def audit_message(lineage: str, records: Iterable[AuditedRecord]) -> bytes:
    """Return the bytes that are signed when another lineage states what is removed from ``lineage``."""
    fields: dict[str, JSONValue] = {"lineage": lineage, "records": [list(one) for one in records]}
    return b"PPLS/redact/1\0" + canonical(fields)


def audited_record(line: bytes, leaf: bytes, seq: int) -> AuditedRecord:
    """Return what an audit record has to name for the stub ``line`` (no newline) to be valid."""
    return AuditedRecord(seq, leaf.hex(), hashlib.sha256(line).hexdigest())


def objects_removed_by(record: Record, lineage: str) -> list[str]:
    """Return the digests of the objects that were removed with the records that an audit record of ``lineage`` names."""
    audit = _audit_of(record)
    return audit.objects if audit is not None and audit.lineage == lineage else []


def renewed_by(record: Record, lineage: str) -> dict[str, str]:
    """Map the digests of objects that an audit record of ``lineage`` replaced to the digests of their replacements."""
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
        return None  # of a later version: it allows nothing here


def unaudited(
    entries: Iterable[Entry], lineage: str, line_of: Callable[[Entry], bytes]
) -> list[tuple[Entry, AuditedRecord]]:
    """Find the stubs among *all* records of a lineage that no audit record names. Return each with the entry that it needs.

    ``line_of`` returns the line of a stub without its newline; it is called when the stub is reached.
    """
    stubs: list[tuple[Entry, AuditedRecord]] = []
    audited: set[AuditedRecord] = set()
    for entry in entries:
        if entry.record.is_stub:
            stubs.append((entry, audited_record(line_of(entry), entry.leaf, entry.record.seq)))
        else:
            audited.update(audited_by(entry.record, lineage))
    return [(entry, wanted) for entry, wanted in stubs if wanted not in audited]
