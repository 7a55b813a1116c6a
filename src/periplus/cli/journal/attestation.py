"""``periplus verify`` of an in-toto statement in a DSSE envelope, as ``trail export --format in-toto`` writes it."""

from __future__ import annotations

__all__ = ["verify_attestation"]

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from periplus.cli.common.face import Face, counted, visible

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import SubjectOut

_SHOWN_MAX: Final = 20


def verify_attestation(face: Face, data: bytes, key: bytes | None) -> int:
    """Verify the envelope ``data`` with ``key``, or with the key of this store; return the exit code."""
    from periplus.base.errors import FormatError
    from periplus.cli.trail.schemas import AttestationOut
    from periplus.interop.exports.in_toto import verify_envelope
    from periplus.journal.storage.keys import verify_signature

    asked, whose = (key, "the key given") if key is not None else _own_key(face)
    reason, statement, signer = "", dict[str, Any](), ""
    try:
        found = verify_envelope(data, (asked,) if asked is not None else (), verify_signature)
        statement = found.statement
        if found.keys:
            signer = f"key {found.keys[0].hex()}, {whose}"
        elif asked is None:
            reason = "there is no key to check it with"
        else:
            reason = f"it is not signed by {whose}"
    except FormatError as error:
        reason = str(error)
    subjects = list(_subjects(statement))
    predicate = str(statement.get("predicateType", ""))
    result = AttestationOut(bool(signer), signer, reason, predicate, subjects)

    def lines() -> Iterator[str]:
        paint = face.palette
        if not signer:
            yield f"{paint.bad}does not hold{paint.end}: {visible(reason)}"
            if asked is None and statement:
                yield "Give the public key of whom it should come from: --key"
            return
        yield f"{paint.good}holds{paint.end}: signed by {signer}"
        yield f"  {visible(predicate, 80)} about {counted(len(subjects), 'subjects')}"
        for subject in subjects[:_SHOWN_MAX]:
            kind, digest = next(iter(sorted(subject.digest.items())), ("", ""))
            yield f"  {visible(kind, 12):9} {visible(digest, 64)}  {visible(subject.name, 80)}"
        if len(subjects) > _SHOWN_MAX:
            yield f"  … and {len(subjects) - _SHOWN_MAX:,} more"

    return face.emit(result, lines, 0 if signer else 3)


def _subjects(statement: dict[str, Any]) -> Iterator[SubjectOut]:
    from periplus.cli.trail.schemas import SubjectOut

    found = statement.get("subject")
    for one in found if isinstance(found, list) else []:
        digests = one.get("digest") if isinstance(one, dict) else None
        if isinstance(digests, dict):
            yield SubjectOut(str(one.get("name", "")), {str(name): str(value) for name, value in digests.items()})


def _own_key(face: Face) -> tuple[bytes | None, str]:
    from periplus.base.errors import NotAStoreError

    try:
        with face.open() as project:
            return project.public_key(), "this store's own"
    except NotAStoreError:
        if face.store_option is not None:
            raise
        return None, ""
