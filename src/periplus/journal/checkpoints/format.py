"""Format of checkpoint files: all heads at a position in every lineage, so loading need not read the records before. Pure.

Sealed lines, as in a segment: a header with the positions; a line for each head (tombstones too) in the order of type, id and
version, where the first of several heads of an entity also holds the versions that they are merged over; a line for each of
the newest idempotency keys; the digests of the objects that the heads need; and an end line with the counts and the SHA-256 of
everything before it. A file is valid only if a record of action ``checkpoint``, written after it in the same lineage, names
the SHA-256 of the whole file. So its bytes are covered by the tree of the records, and a reader that checks this digest need
not check the seals.
"""

from __future__ import annotations

__all__ = [
    "CHECKPOINT_VERSION",
    "KEYS_MAX",
    "KEY_RECORDS_A_LINE",
    "Announcement",
    "CheckpointHeader",
    "KeyLine",
    "announcement_of",
    "can_keep",
    "checkpoint_name",
    "checkpoint_seq",
    "decode_checkpoint",
    "decode_header_line",
    "encode_checkpoint",
]

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from periplus.base.errors import FormatError
from periplus.journal.records.record import (
    LINE_BYTES_MAX,
    PAYLOAD_INLINE_MAX,
    PayloadRef,
    Record,
    seal_line,
    unseal_line,
    version_id,
)
from periplus.journal.state.entity import Ancestor, Head

CHECKPOINT_VERSION: Final = 1
KEYS_MAX: Final = 4_096
KEY_RECORDS_A_LINE: Final = 1_000  # about 130 KB; readers refuse lines over twice the length of a record
_SUFFIX: Final = ".jsonl"
_DIGITS: Final = 12
_OBJECTS_A_LINE: Final = 1_000
_ANCESTORS_BYTES_MAX: Final = LINE_BYTES_MAX  # together with a head's content short enough for every reader


class CheckpointHeader(msgspec.Struct, frozen=True, tag="checkpoint", tag_field="line"):
    """The header: ``positions`` has for each lineage segment, offset, next seq and sum; ``root`` is that of our own tree of ``seq`` leaves."""

    v: int
    checkpoint: int
    store: str
    lineage: str
    seq: int
    ts: str
    positions: dict[str, tuple[int, int, int, str]]
    root: str


class _AncestorPart(msgspec.Struct, frozen=True, omit_defaults=True):  # like a head line without type and id
    version: str
    rev: int
    ts: str
    lineage: str
    seq: int
    writer: str = ""
    session: str = ""
    parents: tuple[str, ...] = ()
    deleted: bool = False
    stub: bool = False
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_ref: PayloadRef | None = None
    below: tuple[str, ...] = ()


# Repeats the fields of _AncestorPart: a common base class would put them first, which changes the bytes of a line.
class _HeadLine(msgspec.Struct, frozen=True, omit_defaults=True, tag="head", tag_field="line"):
    item_type: str
    item_id: str
    version: str
    rev: int
    ts: str
    lineage: str
    seq: int
    writer: str = ""
    session: str = ""
    parents: tuple[str, ...] = ()
    deleted: bool = False
    stub: bool = False
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_ref: PayloadRef | None = None
    ancestors: tuple[_AncestorPart, ...] = ()


class KeyLine(msgspec.Struct, frozen=True, tag="key", tag_field="line"):
    """An idempotency key with the records written under it: lineage, seq, version (empty if none), ts.

    At most KEY_RECORDS_A_LINE records; the rest are in further lines of the same key.
    """

    key: str
    records: list[tuple[str, int, str, str]]


class _ObjectsLine(msgspec.Struct, frozen=True, tag="objects", tag_field="line"):
    objects: list[str]


class _EndLine(msgspec.Struct, frozen=True, tag="end", tag_field="line"):
    heads: int
    keys: int
    objects: int
    sha256: str


class Announcement(msgspec.Struct, frozen=True):
    """The payload of a ``checkpoint`` record: the digest of the file that it makes valid."""

    seq: int
    sha256: str
    bytes: int
    root: str


_Line: TypeAlias = CheckpointHeader | _HeadLine | KeyLine | _ObjectsLine | _EndLine
_decoder: Final[msgspec.json.Decoder[_Line]] = msgspec.json.Decoder(_Line)


def checkpoint_name(seq: int) -> str:
    return f"{seq:0{_DIGITS}d}{_SUFFIX}"


def checkpoint_seq(name: str) -> int | None:
    """Return the seq in a file's name, or None if it is not the name of a checkpoint."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != _SUFFIX or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem) or None


def announcement_of(record: Record) -> Announcement | None:
    """Return what a record announces; None if it announces no checkpoint."""
    if record.action != "checkpoint" or isinstance(record.payload, msgspec.UnsetType):
        return None
    try:
        return msgspec.json.decode(record.payload, type=Announcement)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # from a later version


def encode_checkpoint(
    header: CheckpointHeader,
    heads: Iterable[Head | Ancestor],
    keys: Iterable[KeyLine],
    payload_object: Callable[[bytes], str],
) -> Iterator[bytes]:
    """Yield the lines of the file; ``heads`` as ``decode_checkpoint`` yields them.

    ``payload_object`` stores a content that is too large for a line and returns the name of its object.
    """
    digest = sha256()
    counts = {"heads": 0, "keys": 0, "objects": 0}

    def sealed(line: _Line) -> bytes:
        data = seal_line(msgspec.json.encode(line)[:-1])[0]
        digest.update(data)
        return data

    def ref_of(version: Head) -> PayloadRef | None:
        if len(version.payload) <= PAYLOAD_INLINE_MAX:
            return None
        ref = PayloadRef(payload_object(version.payload), len(version.payload))
        objects.append(ref.sha256)
        return ref

    yield sealed(header)
    objects: list[str] = []
    for head, ancestors in _with_ancestors(heads):
        counts["heads"] += 1
        parts = tuple(_ancestor_part(one, ref_of(one.version)) for one in ancestors)
        yield sealed(_head_line(head, ref_of(head), parts))
    for key in keys:
        counts["keys"] += 1
        yield sealed(key)
    objects = sorted(set(objects))
    counts["objects"] = len(objects)
    for start in range(0, len(objects), _OBJECTS_A_LINE):
        yield sealed(_ObjectsLine(objects[start : start + _OBJECTS_A_LINE]))
    yield sealed(_EndLine(**counts, sha256=digest.hexdigest()))


def can_keep(ancestors: Iterable[Ancestor]) -> bool:
    """Return True if the ancestors fit into the line of a head."""
    size = 0
    for one in ancestors:
        ref = PayloadRef("0" * 64, len(one.version.payload)) if len(one.version.payload) > PAYLOAD_INLINE_MAX else None
        size += len(msgspec.json.encode(_ancestor_part(one, ref))) + 1
        if size > _ANCESTORS_BYTES_MAX:
            return False
    return True


def _with_ancestors(heads: Iterable[Head | Ancestor]) -> Iterator[tuple[Head, list[Ancestor]]]:
    """Yield each head with the ancestors that follow it."""
    head: Head | None = None
    ancestors: list[Ancestor] = []
    for one in heads:
        if isinstance(one, Ancestor):
            ancestors.append(one)
            continue
        if head is not None:
            yield head, ancestors
        head, ancestors = one, []
    if head is not None:
        yield head, ancestors


def decode_header_line(line: bytes) -> CheckpointHeader:
    """Decode the first line (without its newline). Raises FormatError if it is not a header of a known version."""
    header = _decoded(line, 0)
    if not isinstance(header, CheckpointHeader) or header.checkpoint != CHECKPOINT_VERSION:
        raise FormatError("not the header of a checkpoint that this Periplus reads", offset=0)
    return header


def decode_checkpoint(
    lines: Iterable[bytes], load: Callable[[str], bytes], *, is_known: bool = False
) -> Iterator[Head | Ancestor | KeyLine]:
    """Yield the heads, each followed by its ancestors, and the keys of a file, given by its lines with their newlines.

    Everything is checked: seals, order, counts, the digest and each version's id. With ``is_known``, for a file whose digest was
    checked, only the decoding is. Raises FormatError with the offset, and what ``load`` raises for a content in an object.
    """
    digest, offset = sha256(), 0
    counts = {"heads": 0, "keys": 0, "objects": 0}
    before: tuple[str, str, str] = ("", "", "")
    ended = False
    for number, raw in enumerate(lines):
        if ended or not raw.endswith(b"\n"):
            raise FormatError("bytes after the end" if ended else "cut short", offset=offset)
        line = decode_header_line(raw[:-1]) if number == 0 else _decoded(raw[:-1], offset, is_known=is_known)
        if isinstance(line, _HeadLine):
            head = _head(line, load, offset, is_known=is_known)
            if not is_known and not before < (before := (head.item_type, head.item_id, head.version)):
                raise FormatError("a head out of order", offset=offset)
            counts["heads"] += 1
            yield head
            yield from _ancestors(line, load, offset, is_known=is_known)
        elif isinstance(line, KeyLine):
            counts["keys"] += 1
            yield line
        elif isinstance(line, _ObjectsLine):
            counts["objects"] += len(line.objects)
        elif isinstance(line, _EndLine):
            ended = True
            if counts != {"heads": line.heads, "keys": line.keys, "objects": line.objects}:
                raise FormatError("the counts do not match the lines", offset=offset)
            if not is_known and line.sha256 != digest.hexdigest():
                raise FormatError("the digest does not match the lines", offset=offset)
        elif number:
            raise FormatError("a second header", offset=offset)
        if not is_known:
            digest.update(raw)
        offset += len(raw)
    if not ended:
        raise FormatError("cut short", offset=offset)


def _decoded(line: bytes, offset: int, *, is_known: bool = False) -> _Line:
    if not is_known and unseal_line(line) is None:
        raise FormatError("checksum does not hold", offset=offset)
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not a line of a checkpoint: {error}", offset=offset) from error


def _head_line(head: Head, ref: PayloadRef | None, ancestors: tuple[_AncestorPart, ...]) -> _HeadLine:
    return _HeadLine(
        head.item_type, head.item_id, head.version, head.rev, head.ts, head.lineage, head.seq, head.writer, head.session,
        head.parents, head.deleted, head.is_stub, _inline(head, ref), ref, ancestors,
    )  # fmt: skip


def _ancestor_part(ancestor: Ancestor, ref: PayloadRef | None) -> _AncestorPart:
    one = ancestor.version
    return _AncestorPart(
        one.version, one.rev, one.ts, one.lineage, one.seq, one.writer, one.session, one.parents, one.deleted,
        one.is_stub, _inline(one, ref), ref, ancestor.below,
    )  # fmt: skip


def _inline(version: Head, ref: PayloadRef | None) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if ref is not None or not version.payload else msgspec.Raw(version.payload)


def _ancestors(line: _HeadLine, load: Callable[[str], bytes], offset: int, *, is_known: bool) -> Iterator[Ancestor]:
    before = (0, "")
    for part in line.ancestors:
        if not is_known and not before < (before := (part.rev, part.version)):
            raise FormatError("an ancestor out of order", offset=offset)
        yield Ancestor(_version(line.item_type, line.item_id, part, load, offset, is_known=is_known), part.below)


def _head(line: _HeadLine, load: Callable[[str], bytes], offset: int, *, is_known: bool) -> Head:
    return _version(line.item_type, line.item_id, line, load, offset, is_known=is_known)


def _version(
    item_type: str, item_id: str, said: _HeadLine | _AncestorPart, load: Callable[[str], bytes], offset: int, *, is_known: bool
) -> Head:  # fmt: skip
    payload = b""
    if said.payload_ref is not None:
        payload = load(said.payload_ref.sha256)
    elif not isinstance(said.payload, msgspec.UnsetType):
        payload = bytes(said.payload)
    if not is_known and not said.stub:
        version = version_id(item_type, item_id, deleted=said.deleted, payload=payload or None, parents=said.parents)
        if version != said.version or said.deleted != (not payload):
            raise FormatError(f"{item_id} does not have the version id that it states", offset=offset)
    return Head(
        item_type, item_id, said.version, said.parents, said.rev, said.deleted, payload, said.ts, said.writer,
        said.session, said.lineage, said.seq, said.stub,
    )  # fmt: skip
