"""Proof of one step as a file that needs nothing else.

A container of kind 3, like the proofs of the journal, whose statement has the kind ``trail-step``. Beside the leaf
input of the step, its path and the openings of its commitments (``periplus.trail.integrity.step_proof``) it holds the
committed header, status and last receipt, so that the trail digest can be computed: the step is proved to be in the
trail with *that* digest. If the trail is signed, the file holds the signature and the two hashes that it covers beside
the digest.

::

    01  statement, canonical JSON        05  openings of the step's commitments, in order
    02  leaf input                       06  openings of the header's, in order
    03  path, 32 bytes a node            07  key 32 · signature 64 · SHA-256 of times 32 · SHA-256 of sources 32
    04  committed header
    opening: 00 withheld, or 01 · salt 32 · form u8 · length varint · content
"""

from __future__ import annotations

__all__ = [
    "HEADER_NAMES",
    "STEP_PROOF_BYTES_MAX",
    "HeaderValue",
    "StepStatement",
    "StepVerdict",
    "is_step_proof",
    "pack_step_proof",
    "verify_step_proof",
]

import hashlib
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

import msgspec

from periplus.base.encoding.canonical import canonical, decode_canonical
from periplus.base.encoding.container import KIND_PROOF, kind_of, pack, unpack
from periplus.base.encoding.varint import append_uint, read_uint, unzigzag
from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.merkle.verify import PATH_NODES_MAX
from periplus.trail.format import layout
from periplus.trail.format.identity import committed_header, ref_offsets, trail_digest
from periplus.trail.format.reader import TrailReader
from periplus.trail.integrity.signature import is_signature_sound
from periplus.trail.integrity.step_proof import Opening, StepProof, committed_content, holds, step_proof
from periplus.trail.model import (
    DIGEST_SIZES,
    OUTCOMES,
    STATUSES,
    Digest,
    OperandValue,
    Signed,
    Step,
    TextObject,
    Withheld,
)
from periplus.trail.opcodes import BY_CODE

STEP_PROOF_BYTES_MAX: Final = 1 << 20
_KIND: Final = "trail-step"
_STATEMENT, _LEAF, _PATH, _HEADER, _OPENINGS, _HEADER_OPENINGS, _SIGNATURE = range(1, 8)
_FIXED: Final = ("agent", "trail_id", "tool", "tool_version")
_OPTIONAL: Final = ("base", "model", "host", "source", "title")
HEADER_NAMES: Final = (*_FIXED, *_OPTIONAL, "parents")


class StepStatement(msgspec.Struct, frozen=True, tag_field="kind", tag=_KIND, forbid_unknown_fields=True):
    """The statement: step ``step`` (from 0) of the ``steps`` of the trail with ``digest`` is the one in the file."""

    digest: str
    step: int
    steps: int
    root: str
    receipt: str
    status: str
    format: Literal[1] = 1


class HeaderValue(NamedTuple):
    """A field of the header; Withheld if the file does not open it."""

    name: str
    value: OperandValue


class StepVerdict(NamedTuple):
    """The result of a check: ``holds`` if the proof is valid, otherwise ``reason``.

    ``key`` is the public key that signed the trail, empty for an unsigned one.
    """

    holds: bool
    reason: str
    statement: StepStatement | None = None
    step: Step | None = None
    header: tuple[HeaderValue, ...] = ()
    key: bytes = b""


def is_step_proof(data: bytes) -> bool:
    """Return whether the bytes claim to be the proof of a step, by the kind in their first section, the statement."""
    if kind_of(data) != KIND_PROOF or data[6:7] != bytes((_STATEMENT,)):
        return False
    try:
        length, start = read_uint(data, 7, len(data))
    except FormatError:
        return False
    return f'"kind":"{_KIND}"'.encode() in data[start : start + min(length, 1024)]


# Writing


def pack_step_proof(
    reader: TrailReader, index: int, *, withheld: Collection[str] = (), header_shown: Collection[str] = HEADER_NAMES
) -> bytes:
    """Return the file that proves step ``index``. Raises NotFoundError if there is no such step.

    ``withheld`` are strings of the step to keep closed, by the names of their operands, ``error``, ``result`` and
    ``note``; ``header_shown`` are the strings of the header to open. A string withheld from the step is opened nowhere.
    Raises UsageError for a name that the step does not have.
    """
    proof = step_proof(reader, index)
    stored = reader.stored_identity
    start, end = reader.span(layout.TAG_HEADER)
    commitments = reader.commitments()
    header = committed_header(reader.to_bytes()[start:end], commitments)
    places = _header_places(header)
    by_commitment = _openings_of(reader, commitments, {header[at : at + 32] for _, at in places})
    named = list(zip(_names(proof.leaf_input), ref_offsets(proof.leaf_input), strict=True))
    _check_names(withheld, [name for name, _ in named])
    hidden = {proof.leaf_input[at : at + 32] for name, at in named if name in withheld}
    step_openings = [
        None if proof.leaf_input[at : at + 32] in hidden else opening
        for at, opening in zip(ref_offsets(proof.leaf_input), proof.openings, strict=True)
    ]
    header_openings = [
        by_commitment[header[at : at + 32]] if name in header_shown and header[at : at + 32] not in hidden else None
        for name, at in places
    ]
    statement = StepStatement(
        stored.digest.hex(),
        index,
        proof.step_count,
        proof.root.hex(),
        stored.receipt.hex(),
        STATUSES[stored.status],
    )
    sections: dict[int, bytes | bytearray] = {
        _STATEMENT: canonical(msgspec.to_builtins(statement)),
        _LEAF: proof.leaf_input,
        _PATH: b"".join(proof.path),
        _HEADER: header,
        _OPENINGS: _packed(step_openings),
        _HEADER_OPENINGS: _packed(header_openings),
    }
    if reader.signature is not None:
        hashes = (hashlib.sha256(reader.view(tag)).digest() for tag in (layout.TAG_TIMES, layout.TAG_SOURCES))
        sections[_SIGNATURE] = reader.signature + b"".join(hashes)
    return pack(KIND_PROOF, sections)


def _check_names(withheld: Collection[str], known: list[str]) -> None:
    wrong = sorted(set(withheld) - set(known))
    if wrong:
        raise UsageError(
            f"the step has nothing called {wrong[0][:40]!r}",
            safe="Nothing was written.",
            mend=f"It has {', '.join(known)}." if known else "It has no strings.",
        )


def _openings_of(reader: TrailReader, commitments: bytes, wanted: set[bytes]) -> dict[bytes, Opening | None]:
    found: dict[bytes, Opening | None] = {}
    for index in range(len(reader.strings)):
        commitment = commitments[32 * index : 32 * index + 32]
        if commitment in wanted:
            form, content, salt = reader.strings.entry(index)
            found[commitment] = None if salt is None else Opening(salt, form, committed_content(form, content))
    return found


def _packed(openings: list[Opening | None]) -> bytearray:
    out = bytearray()
    for opening in openings:
        if opening is None:
            out.append(0)
            continue
        out.append(1)
        out += opening.salt
        out.append(opening.form)
        append_uint(out, len(opening.content))
        out += opening.content
    return out


# Checking


def verify_step_proof(data: bytes, *, digest: bytes | None = None, key: bytes | None = None) -> StepVerdict:
    """Check the file in ``data``; malformed bytes give a verdict, not an error.

    ``digest`` is the trail digest that it must prove, ``key`` the Ed25519 public key that must have signed the trail.
    Raises NewerFormatError for a sound file of a later version.
    """
    if len(data) > STEP_PROOF_BYTES_MAX:
        return StepVerdict(
            False, f"it has {len(data):,} bytes, and no proof of a step has over {STEP_PROOF_BYTES_MAX:,}"
        )
    try:
        sections = {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_PROOF).items()}
        return _verified(sections, digest, key)
    except NewerFormatError:
        raise
    except FormatError as error:
        place = f" at byte {error.offset:,}" if error.offset is not None else ""
        return StepVerdict(False, f"{error.wrong}{place}")


def _verified(sections: dict[int, bytes], digest: bytes | None, key: bytes | None) -> StepVerdict:
    if not {*range(1, 7)} <= sections.keys() <= {*range(1, 8)}:
        raise FormatError("its sections are not those of the proof of a step")
    statement = _statement(sections[_STATEMENT])
    leaf, header = sections[_LEAF], sections[_HEADER]
    openings = _unpacked(sections[_OPENINGS])
    places = _header_places(header)
    header_openings = _unpacked(sections[_HEADER_OPENINGS])
    path = sections[_PATH]
    if len(path) % 32 or len(path) > 32 * PATH_NODES_MAX:
        raise FormatError("its path is not a list of hashes")
    root = bytes.fromhex(statement.root)
    nodes = tuple(path[at : at + 32] for at in range(0, len(path), 32))
    proof = StepProof(statement.step, statement.steps, leaf, nodes, root, openings)
    if not holds(proof):
        return StepVerdict(False, _why_not(proof), statement)
    if len(places) != len(header_openings) or not all(
        opening is None or _opens(opening, header[at : at + 32])
        for (_, at), opening in zip(places, header_openings, strict=True)
    ):
        return StepVerdict(False, "a string of the header does not match its commitment", statement)
    stated, status = bytes.fromhex(statement.digest), STATUSES.index(statement.status)
    if trail_digest(header, statement.steps, root, bytes.fromhex(statement.receipt), status) != stated:
        return StepVerdict(False, "the trail digest does not match header, steps, receipt and status", statement)
    step = _step(leaf, openings)
    values = tuple(
        HeaderValue(name, _value(opening, header[at : at + 32]))
        for (name, at), opening in zip(places, header_openings, strict=True)
    )
    signature = sections.get(_SIGNATURE)
    signer = b"" if signature is None else signature[:32]
    if signature is not None and not is_signature_sound(stated, signature[:96], signature[96:128], signature[128:]):
        return StepVerdict(False, f"the signature does not match the public key beside it, {signer.hex()}", statement)
    found = StepVerdict(True, "", statement, step, values, signer)
    if digest is not None and digest != stated:
        return found._replace(holds=False, reason=f"it is of another trail, with digest {stated.hex()}")
    if key is not None and signer != key:
        whose = f"signed by the key {signer.hex()}" if signer else "of an unsigned trail"
        return found._replace(holds=False, reason=f"it is {whose}, not by {key.hex()}")
    return found


def _statement(data: bytes) -> StepStatement:
    try:
        found = msgspec.convert(decode_canonical(data), StepStatement)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise FormatError(f"its statement is malformed: {error}") from error
    hashes = (found.digest, found.root, found.receipt)
    if not all(len(text) == 64 and set(text) <= set("0123456789abcdef") for text in hashes):
        raise FormatError("a hash in its statement is malformed")
    if found.status not in STATUSES or not 0 <= found.step < found.steps <= layout.STEPS_MAX:
        raise FormatError("its statement has an impossible step number")
    return found


def _why_not(proof: StepProof) -> str:
    places = ref_offsets(proof.leaf_input)
    if len(places) != len(proof.openings):
        return "it opens another number of strings than the step has"
    for place, opening in zip(places, proof.openings, strict=True):
        if opening is not None and not _opens(opening, proof.leaf_input[place : place + 32]):
            return "a string of the step does not match its commitment"
    return f"the step is not number {proof.step_index:,} of the {proof.step_count:,} under that root"


def _opens(opening: Opening, commitment: bytes) -> bool:
    return hashlib.sha256(opening.salt + bytes((opening.form,)) + opening.content).digest() == commitment


def _unpacked(data: bytes) -> tuple[Opening | None, ...]:
    at, end = 0, len(data)
    found: list[Opening | None] = []
    while at < end:
        flag = data[at]
        at += 1
        if flag == 0:
            found.append(None)
            continue
        if flag != 1 or end - at < 34:
            raise FormatError("the openings of its strings are cut off or unknown")
        salt, form = data[at : at + 32], data[at + 32]
        length, at = read_uint(data, at + 33, end)
        if length > end - at or form > layout.FORM_DIGEST:
            raise FormatError("the openings of its strings are cut off or unknown")
        found.append(Opening(salt, form, data[at : at + length]))
        at += length
    return tuple(found)


def _header_places(header: bytes) -> list[tuple[str, int]]:
    """Return name and offset of each commitment in a committed header. Raises FormatError for other bytes."""
    end = len(header)
    version, at = read_uint(header, 0, end)
    if version > layout.FORMAT_VERSION:
        raise FormatError(f"it is of a trail of format {version}, later than this Periplus reads")
    found = [(name, at + 32 * place) for place, name in enumerate(_FIXED)]
    at += 32 * len(_FIXED)
    if version < layout.FORMAT_VERSION or at >= end or header[at] >> len(_OPTIONAL):
        raise FormatError("its header is malformed")
    present = header[at]
    at += 1
    for bit, name in enumerate(_OPTIONAL):
        if present >> bit & 1:
            found.append((name, at))
            at += 32
    count, at = read_uint(header, at, end)
    if count > layout.PARENTS_MAX or at + 32 * count != end:
        raise FormatError("its header is malformed")
    return [*found, *(("parents", at + 32 * place) for place in range(count))]


def _names(leaf: bytes) -> list[str]:
    """Return the names of the strings that the leaf input commits to, in order."""
    row = BY_CODE.get(leaf[5])
    names = []
    at = 8
    for place in range(leaf[7]):
        wire = leaf[at]
        at += 1
        if wire == layout.WIRE_ENTRY:
            names.append(row.operands[place].name if row is not None and place < len(row.operands) else str(place))
            at += 32
        elif wire:
            _, at = read_uint(leaf, at, len(leaf))
    flags = ((layout.HAS_ERROR, "error"), (layout.HAS_RESULT, "result"), (layout.HAS_NOTE, "note"))
    return [*names, *(name for flag, name in flags if leaf[6] & flag)]


def _step(leaf: bytes, openings: tuple[Opening | None, ...]) -> Step:
    """Return the step of a leaf input that ``ref_offsets`` has accepted; it has no time."""
    code, meta, count = leaf[5], leaf[6], leaf[7]
    if meta & 7 >= len(OUTCOMES):
        raise FormatError("the step's outcome is unknown")
    opened = iter(openings)
    at, end = 8, len(leaf)

    def entry() -> OperandValue:
        nonlocal at
        at += 32
        return _value(next(opened), leaf[at - 32 : at])

    operands: list[OperandValue] = []
    for _ in range(count):
        wire = leaf[at]
        at += 1
        if wire == layout.WIRE_ENTRY:
            operands.append(entry())
        elif wire == layout.WIRE_ABSENT:
            operands.append(None)
        else:
            number, at = read_uint(leaf, at, end)
            operands.append(number if wire == layout.WIRE_UNSIGNED else Signed(unzigzag(number)))
    row = BY_CODE.get(code)
    if row is not None and len(operands) > len(row.operands):
        raise FormatError("the step has more operands than its opcode")
    exit_code = None
    if meta & layout.HAS_EXIT_CODE:
        number, at = read_uint(leaf, at, end)
        exit_code = unzigzag(number)
    error = _text(entry()) if meta & layout.HAS_ERROR else None
    result: Digest | Withheld | None = None
    size = 0
    if meta & layout.HAS_RESULT:
        found = entry()
        size, at = read_uint(leaf, at, end)
        if not isinstance(found, (Digest, Withheld)):
            raise FormatError("the step's result is not a digest")
        result = found
    note = _text(entry()) if meta & layout.HAS_NOTE else None
    return Step(code, tuple(operands), OUTCOMES[meta & 7], exit_code, error, result, size, note)


def _text(value: OperandValue) -> str | TextObject | Withheld:
    if not isinstance(value, (str, TextObject, Withheld)):
        raise FormatError("the step's error or note is not text")
    return value


def _value(opening: Opening | None, commitment: bytes) -> str | TextObject | Digest | Withheld:
    """Return the value of an opening. Raises FormatError for a value that no trail holds."""
    if opening is None:
        return Withheld(commitment)
    form, content = opening.form, opening.content
    if form == layout.FORM_TEXT and len(content) <= layout.INLINE_TEXT_BYTES_MAX:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise FormatError("a string of it is not UTF-8") from error
    if form == layout.FORM_TEXT_OBJECT and len(content) == 40:
        return TextObject(content[:32], int.from_bytes(content[32:], "big"))
    if form == layout.FORM_DIGEST and content:
        algorithm = layout.ALGORITHM_BY_CODE.get(content[0])
        if algorithm is not None and len(content) == 1 + DIGEST_SIZES[algorithm]:
            return Digest(algorithm, content[1:])
    raise FormatError("a string of it is malformed")
