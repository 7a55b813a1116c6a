"""Verify a trail: a pure function of its bytes, and of a store if one is given.

Every check has a verdict and a sentence with its finding. ``error`` means that the trail is not what it claims,
``warning`` that a person should know something, ``skipped`` that the check had nothing to do or could not be made.
"""

from __future__ import annotations

__all__ = ["Check", "ObjectReader", "Report", "Verdict", "verify"]

import hashlib
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from periplus.base.encoding.container import KIND_TRAIL, unpack
from periplus.base.errors import DamageError, FormatError, NewerFormatError, NotFoundError
from periplus.trail.format import layout
from periplus.trail.format.concatenation import Parts, is_concatenation, parts_digest
from periplus.trail.format.identity import Identity
from periplus.trail.format.reader import TrailReader
from periplus.trail.integrity.signature import is_signed_soundly
from periplus.trail.model import Digest, TextObject, Withheld
from periplus.trail.opcodes import opcode_name

IsRedacted: TypeAlias = Callable[[bytes], bool]
Verdict: TypeAlias = Literal["ok", "warning", "error", "skipped"]

_NAMED_MAX: Final = 5  # number of faults of one kind that are named
_CHECK_BY_TAG: Final = {
    layout.TAG_STRINGS: "strings",
    layout.TAG_STEPS: "steps",
    layout.TAG_HEADER: "header",
    layout.TAG_TIMES: "times",
    layout.TAG_SOURCES: "times",
    layout.TAG_RECEIPTS: "receipts",
    layout.TAG_SIGNATURE: "signature",
}
_CHECKS: Final = (
    *("framing", "strings", "steps", "header", "times"),
    *("tree", "receipts", "digest", "signature", "parents", "objects"),
)


class ObjectReader(Protocol):
    def get(self, digest: bytes) -> bytes:
        """Return the object with this SHA-256. Raises NotFoundError or DamageError."""
        ...


class Check(NamedTuple):
    name: str
    verdict: Verdict
    detail: str
    offset: int | None = None


class Report(NamedTuple):
    """The result of ``verify``. ``digest`` is the computed trail digest, empty if the bytes are no trail."""

    checks: tuple[Check, ...]
    summary: str
    digest: bytes

    @property
    def ok(self) -> bool:
        """True if no check found an error."""
        return all(check.verdict != "error" for check in self.checks)

    @property
    def offset(self) -> int | None:
        """The byte offset of the first error, if it has one."""
        return next(
            (check.offset for check in self.checks if check.verdict == "error" and check.offset is not None), None
        )


def _nothing_is(_digest: bytes) -> bool:
    return False


def verify(
    data: bytes,
    *,
    store: ObjectReader | None = None,
    key: bytes | None = None,
    parent_of: Callable[[bytes], bytes | None] | None = None,
    is_redacted: IsRedacted = _nothing_is,
) -> Report:
    """Verify the trail in ``data``; bytes that are no trail give a report as well.

    Every part of a concatenation is verified, as a check of its own, and ``key`` must have signed the whole.

    ``store`` holds the objects that the trail refers to; ``key`` is the Ed25519 public key (32 bytes) that must have
    signed it; ``parent_of`` returns the bytes of the trail with a trail digest, None if it is not available. A text for
    which ``is_redacted`` is true was removed from the store: its absence is no error.
    """
    if is_concatenation(data):
        return _verify_parts(data, store, key, parent_of, is_redacted)
    return _verify_trail(data, store, key, parent_of, is_redacted)


def _verify_trail(
    data: bytes, store: ObjectReader | None, key: bytes | None, parent_of: Callable[[bytes], bytes | None] | None,
    is_redacted: IsRedacted,
) -> Report:  # fmt: skip
    try:
        reader = TrailReader(data)
    except (FormatError, NewerFormatError) as error:
        return _unreadable(data, error)
    identity = reader.computed_identity()
    checks = (
        Check("framing", "ok", f"{len(data):,} bytes; {_counted(len(reader.extra), 'section')} of a newer version"),
        _check_strings(reader),
        _check_steps(reader),
        Check("header", "ok", "every entry has its use, in the order of first use"),
        _check_times(reader),
        *_check_identity(reader, identity),
        _check_signature(reader, key),
        _check_parents(reader, parent_of),
        _check_objects(reader, store, is_redacted),
    )
    return Report(checks, _summary(reader, checks), identity.digest)


def _verify_parts(
    data: bytes, store: ObjectReader | None, key: bytes | None, parent_of: Callable[[bytes], bytes | None] | None,
    is_redacted: IsRedacted,
) -> Report:  # fmt: skip
    try:
        parts = Parts(data)
    except (FormatError, NewerFormatError) as error:
        place = f" at byte {error.offset:,}" if error.offset is not None else ""
        wrong = Check("framing", "error", error.wrong, error.offset)
        return Report((wrong,), f"not a sound concatenation: {error.wrong}{place}", b"")
    reports = [_verify_trail(file, store, None, parent_of, is_redacted) for file in parts.files()]
    digest = parts_digest([report.digest for report in reports])
    is_whole = digest == parts.digest
    found = [
        Check("framing", "ok", f"{len(data):,} bytes; {_counted(len(parts.extra), 'section')} of a newer version"),
        *(_check_part(index, report, parts.offset(index)) for index, report in enumerate(reports)),
        Check("digest", "ok", f"digest {digest.hex()} agrees")
        if is_whole
        else Check(
            "digest", "error", "the digest does not match these parts in this order", parts.span(layout.TAG_DIGEST)[0]
        ),
        _check_signature(parts, key),
    ]
    checks = tuple(found)
    return Report(checks, _parts_summary(parts, checks), digest if all(report.digest for report in reports) else b"")


def _check_part(index: int, report: Report, start: int) -> Check:
    has_warnings = any(check.verdict == "warning" for check in report.checks)
    verdict: Verdict = "error" if not report.ok else "warning" if has_warnings else "ok"
    offset = next((check.offset for check in report.checks if check.verdict == verdict), None)
    detail = f"{report.digest.hex()[:16]}: {report.summary}" if report.digest else report.summary
    return Check(f"part {index + 1}", verdict, detail, None if offset is None else start + offset)


def _parts_summary(parts: Parts, checks: tuple[Check, ...]) -> str:
    errors = [check for check in checks if check.verdict == "error"]
    if errors:
        return f"not sound: {errors[0].name}: {errors[0].detail}"
    warnings = sum(check.verdict == "warning" for check in checks)
    said = [f"sound: {_counted(len(parts), 'part')}", "signed" if parts.signature is not None else "not signed"]
    return ", ".join([*said, _counted(warnings, "warning")] if warnings else said)


def _unreadable(data: bytes, error: FormatError | NewerFormatError) -> Report:
    name = "framing"
    try:
        for tag, (start, end) in unpack(data, KIND_TRAIL).items():
            if error.offset is not None and start <= error.offset < end and tag in _CHECK_BY_TAG:
                name = _CHECK_BY_TAG[tag]
                break
    except (FormatError, NewerFormatError):
        pass  # same fault as ``error``
    checks = [Check(other, "skipped", "not reached") for other in _CHECKS]
    if name != "framing":
        checks[0] = Check("framing", "ok", f"{len(data):,} bytes")
    checks[_CHECKS.index(name)] = Check(name, "error", error.wrong, error.offset)
    place = f" at byte {error.offset:,}" if error.offset is not None else ""
    return Report(tuple(checks), f"not a sound trail: {error.wrong}{place}", b"")


def _check_strings(reader: TrailReader) -> Check:
    count = len(reader.strings)
    if not reader.is_redacted:
        return Check("strings", "ok", f"{_counted(count, 'string')}, none withheld")
    withheld = reader.strings.forms.count(layout.FORM_WITHHELD)
    return Check("strings", "ok", f"redacted: {withheld:,} of {_counted(count, 'string')} withheld")


def _check_steps(reader: TrailReader) -> Check:
    count, unknown = reader.step_count, reader.unknown_opcodes
    if not unknown:
        return Check("steps", "ok", f"{_counted(count, 'step')}, opcodes and operands as in the table")
    named = ", ".join(f"{opcode_name(code)} ×{unknown[code]:,}" for code in sorted(unknown)[:_NAMED_MAX])
    return Check(
        "steps", "warning", f"{_counted(count, 'step')}; opcodes of a newer version: {named}", reader.unknown_at
    )


def _check_times(reader: TrailReader) -> Check:
    has_sources = len(reader.view(layout.TAG_SOURCES)) > 0
    detail = f"{_counted(reader.step_count, 'time')}, {'as many' if has_sources else 'no'} sources"
    return Check("times", "ok", detail)


def _check_identity(reader: TrailReader, computed: Identity) -> tuple[Check, Check, Check]:
    stored = reader.stored_identity
    start, _ = reader.span(layout.TAG_RECEIPTS)

    def compare(name: str, what: str, stated: bytes, found: bytes, offset: int) -> Check:
        if stated == found:
            return Check(name, "ok", f"{what} agrees")
        return Check(name, "error", f"{what} does not match the content", offset)

    return (
        compare("tree", "tree root", stored.root, computed.root, start + 1),
        compare("receipts", "last receipt", stored.receipt, computed.receipt, start + 33),
        compare("digest", f"trail digest {stored.digest.hex()}", stored.digest, computed.digest, start + 65),
    )


def _check_signature(signed: TrailReader | Parts, key: bytes | None) -> Check:
    signature = signed.signature
    if signature is None:
        if key is None:
            return Check("signature", "skipped", "not signed")
        end = len(signed.to_bytes())  # offset at which a signature would be
        return Check("signature", "error", f"not signed, and the key {key.hex()} should have", end)
    offset, _ = signed.span(layout.TAG_SIGNATURE)
    signer = signature[:32]
    try:
        is_sound = is_signed_soundly(signed)
    except (FormatError, NewerFormatError):
        return Check("signature", "skipped", "not checked: some parts cannot be read")
    if not is_sound:
        return Check("signature", "error", f"not by the key beside it, {signer.hex()}", offset)
    if key is None:
        return Check("signature", "ok", f"sound, by the key {signer.hex()}; the owner of the key was not given")
    if signer != key:
        return Check("signature", "error", f"by the key {signer.hex()}, not by {key.hex()}", offset)
    return Check("signature", "ok", f"sound, by the key {signer.hex()}")


def _check_parents(reader: TrailReader, parent_of: Callable[[bytes], bytes | None] | None) -> Check:
    parents = reader.header.parents
    if not parents:
        return Check("parents", "skipped", "no parents")
    missing = 0
    for parent in parents:
        if isinstance(parent, Withheld):
            missing += 1
            continue
        data = parent_of(parent.value) if parent_of is not None else None
        if data is None:
            missing += 1
            continue
        try:
            found = TrailReader(data).computed_identity().digest
        except (FormatError, NewerFormatError) as error:
            return Check("parents", "error", f"parent {parent.value.hex()} cannot be read: {error.wrong}")
        if found != parent.value:
            return Check("parents", "error", f"parent {parent.value.hex()} is another trail: {found.hex()}")
    count = _counted(len(parents), "parent")
    if missing:
        return Check("parents", "skipped" if parent_of is None else "warning", f"{count}, {missing:,} not at hand")
    return Check("parents", "ok", f"{count}, each with a matching digest")


class _Tally(NamedTuple):
    """Counts of the objects in a store."""

    sound: int
    absent: list[str]
    wrong: list[str]
    not_kept: int
    redacted: int


def _check_objects(reader: TrailReader, store: ObjectReader | None, is_redacted: IsRedacted) -> Check:
    if store is None:
        objects = reader.strings.forms.count(layout.FORM_TEXT_OBJECT)
        return Check("objects", "skipped", f"no store to look for {_counted(objects, 'text object')} in")
    tally = _tally_objects(reader, store, is_redacted)
    if tally.wrong:
        return Check("objects", "error", f"{len(tally.wrong):,} wrong: {_some(tally.wrong)}")
    if tally.absent:
        return Check(
            "objects", "error", f"{len(tally.absent):,} text objects are not in the store: {_some(tally.absent)}"
        )
    detail = f"{_counted(tally.sound, 'object')} sound; {_counted(tally.not_kept, 'digest')} without an object here"
    if tally.redacted:
        detail += f"; {_counted(tally.redacted, 'text')} redacted"
    return Check("objects", "ok", detail)


def _tally_objects(reader: TrailReader, store: ObjectReader, is_redacted: IsRedacted) -> _Tally:
    # A text object is part of the trail and must exist; a digest may be of a result or file that was not kept.
    sound = not_kept = redacted = 0
    absent: list[str] = []
    wrong: list[str] = []
    for index, form in enumerate(reader.strings.forms):
        if form not in (layout.FORM_TEXT_OBJECT, layout.FORM_DIGEST):
            continue
        value = reader.string(index)
        if isinstance(value, TextObject):
            digest, length = value.sha256, value.length
        elif isinstance(value, Digest) and value.algorithm == "sha256":
            digest, length = value.value, -1
        else:
            continue
        try:
            data = store.get(digest)
        except NotFoundError:
            if length < 0:
                not_kept += 1
            elif is_redacted(digest):
                redacted += 1
            else:
                absent.append(digest.hex())
            continue
        except DamageError as error:
            wrong.append(f"{digest.hex()} ({error.wrong})")
            continue
        if hashlib.sha256(data).digest() != digest or length not in (-1, len(data)):
            wrong.append(digest.hex())
        else:
            sound += 1
    return _Tally(sound, absent, wrong, not_kept, redacted)


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _summary(reader: TrailReader, checks: tuple[Check, ...]) -> str:
    errors = [check for check in checks if check.verdict == "error"]
    if errors:
        place = f" at byte {errors[0].offset:,}" if errors[0].offset is not None else ""
        return f"not sound: {errors[0].name}: {errors[0].detail}{place}"
    warnings = sum(check.verdict == "warning" for check in checks)
    parts = [f"sound: {_counted(reader.step_count, 'step')}", f"status {reader.status}"]
    if reader.is_redacted:
        parts.append("redacted")
    parts.append("signed" if reader.signature is not None else "not signed")
    if warnings:
        parts.append(_counted(warnings, "warning"))
    return ", ".join(parts)
