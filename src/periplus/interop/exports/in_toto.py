"""Export of a trail as an attestation: an in-toto Statement v1 in a DSSE v1 envelope, for supply-chain tools.

Its subjects are the trail's own file and the results of the run by their digests: files written, commits, and the
last checkpoint. The predicate names the agent, the base and the outcome; it contains no texts except names, so that
it can be published where the trail cannot. DSSE signs the pre-authentication encoding of type and payload, not JSON.
"""

from __future__ import annotations

__all__ = ["PAYLOAD_TYPE", "PREDICATE_TYPE", "envelope", "pae", "statement", "verify_envelope"]

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import FormatError
from periplus.interop.exports.trail_source import ExportSource
from periplus.trail import Digest, OperandValue
from periplus.trail.model import TOOL_VERSION

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:periplus:trail:v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
SUBJECTS_MAX: Final = 10_000
ENVELOPE_BYTES_MAX: Final = 16 << 20
_GIT_OBJECTS: Final = {"git-sha1": "gitCommit", "git-sha256": "gitCommit", "sha256": "sha256"}


class Envelope(NamedTuple):
    """Result of ``verify_envelope``; ``keys`` are the public keys, 32 bytes each, with valid signatures."""

    statement: dict[str, Any]
    keys: tuple[bytes, ...]


class _Signature(msgspec.Struct):
    sig: str
    keyid: str = ""


class _Outer(msgspec.Struct):
    payload: str
    payload_type: str = msgspec.field(name="payloadType")
    signatures: list[_Signature] = []


def statement(source: ExportSource) -> bytes:
    """Return the Statement as canonical JSON: the same trail gives the same bytes."""
    files: dict[str, str | None] = {}
    commits: dict[str, str] = {}
    checkpoint = ""
    ops: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    last_ms = 0
    for moment in source.moments():
        ops[moment.op] += 1
        outcomes[moment.step.outcome] += 1
        last_ms = max(last_ms, moment.at_ms + (moment.step.duration_ms or 0))
        if moment.op == "TEST_RUN":
            tests[moment.step.outcome] += 1
        elif moment.op == "CHECKPOINT":
            checkpoint = _hex(moment.operand(0))
        elif moment.step.outcome == "ok":
            _note_files(source, moment.op, moment.step.operands, files)
            if moment.op == "GIT_COMMIT" and (commit := _hex(moment.operand(2))):
                commits[commit] = source.text(moment.operand(0))
    subjects: list[JSONValue] = [{"name": source.name, "digest": {"sha256": source.file_sha256.hex()}}]
    subjects += [{"name": path, "digest": {"sha256": found}} for path, found in sorted(files.items()) if found]
    subjects += [{"name": f"commit {commit}", "digest": {"gitCommit": commit}} for commit in sorted(commits)]
    if checkpoint:
        subjects.append({"name": "checkpoint", "digest": {"gitTree": checkpoint}})
    header = source.readers[0].header
    predicate: dict[str, Any] = {
        "trail": {
            "digest": {"sha256": source.digest.hex()},
            "steps": source.step_count,
            "status": [reader.status for reader in source.readers],
            "redacted": any(reader.is_redacted for reader in source.readers),
            "parts": [
                {"digest": reader.digest.hex(), "root": reader.stored_identity.root.hex(), "steps": reader.step_count}
                for reader in source.readers
            ],
        },
        "recorder": {"name": source.text(header.tool), "version": source.text(header.tool_version)},
        "exporter": {"name": "periplus", "version": TOOL_VERSION},
        "agent": source.text(header.agent),
        "steps": dict(sorted(ops.items())),
        "outcomes": dict(sorted(outcomes.items())),
        "tests": dict(sorted(tests.items())),
        "subjectsLeftOut": max(0, len(subjects) - SUBJECTS_MAX),
    }
    if header.model is not None:
        predicate["model"] = source.text(header.model)
    if header.base is not None:
        predicate["base"] = _base(source, header.base)
    if header.started_ms:
        predicate["startedOn"] = format_ms(header.started_ms)
        predicate["finishedOn"] = format_ms(max(last_ms, header.started_ms))
    return canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": subjects[:SUBJECTS_MAX],
            "predicateType": PREDICATE_TYPE,
            "predicate": predicate,
        }
    )


def _note_files(
    source: ExportSource, op: str, operands: tuple[OperandValue, ...], files: dict[str, str | None]
) -> None:
    """Track the final contents of files as far as the trail contains them: None after an edit."""
    if op == "FILE_WRITE":
        content = operands[1]
        is_known = isinstance(content, Digest) and content.algorithm == "sha256"
        files[source.path(operands[0])] = content.value.hex() if is_known and isinstance(content, Digest) else None
    elif op in ("FILE_EDIT", "FILE_DELETE"):
        files[source.path(operands[0])] = None
    elif op == "FILE_MOVE":
        files[source.path(operands[1])] = files.get(source.path(operands[0]))
        files[source.path(operands[0])] = None


def _hex(value: OperandValue) -> str:
    return value.value.hex() if isinstance(value, Digest) else ""


def _base(source: ExportSource, base: OperandValue) -> dict[str, Any]:
    if isinstance(base, Digest):
        return {"digest": {_GIT_OBJECTS[base.algorithm]: base.value.hex()}}
    return {"name": source.text(base)}


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding of DSSE v1, which is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope(payload: bytes, key: bytes | None, sign: Callable[[bytes], bytes] | None) -> bytes:
    """Return the DSSE envelope of ``payload``, signed by ``sign`` with the key whose public half (32 bytes) is
    ``key``.
    """
    signatures: list[JSONValue] = []
    if key is not None and sign is not None:
        signature = sign(pae(PAYLOAD_TYPE, payload))
        signatures.append({"keyid": hashlib.sha256(key).hexdigest(), "sig": base64.b64encode(signature).decode()})
    encoded = base64.b64encode(payload).decode()
    return canonical({"payload": encoded, "payloadType": PAYLOAD_TYPE, "signatures": signatures}) + b"\n"


def verify_envelope(data: bytes, keys: tuple[bytes, ...], check: Callable[[bytes, bytes, bytes], bool]) -> Envelope:
    """Return the statement in the envelope ``data``, and those of ``keys`` that signed it by ``check(key, signature,
    message)``. Raises FormatError for other data.
    """
    if len(data) > ENVELOPE_BYTES_MAX:
        raise FormatError(f"an envelope of {len(data):,} bytes; the limit is {ENVELOPE_BYTES_MAX:,}")
    try:
        outer = msgspec.json.decode(data, type=_Outer)
        payload = base64.b64decode(outer.payload, validate=True)
        signatures = [base64.b64decode(one.sig, validate=True) for one in outer.signatures]
        inner = msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, binascii.Error, ValueError, RecursionError) as error:
        raise FormatError(f"not a DSSE envelope of an in-toto statement: {error}") from error
    if outer.payload_type != PAYLOAD_TYPE or inner.get("_type") != STATEMENT_TYPE:
        raise FormatError("not a DSSE envelope of an in-toto statement")
    message = pae(outer.payload_type, payload)
    return Envelope(inner, tuple(key for key in keys if any(check(key, one, message) for one in signatures)))
