"""Checkpoint files: all heads at a place in every lineage, so that loading need not read what lies before. Pure.

Sealed lines, as in a segment: a header that names the places, a line for each head (tombstones too) in the order of
type, id and version, one for each of the newest idempotency keys, the digests of the objects that the heads need, and
an end line with the counts and the SHA-256 of everything before it. A file counts only when a record of action
``checkpoint``, written after it in the same lineage, names the SHA-256 of the whole of it: so its bytes are under the
same tree as the records are, and whoever reads it by that digest need not look at its seals.
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
from periplus.journal.record import PAYLOAD_INLINE_MAX, PayloadRef, Record, seal_line, unseal_line, version_id
from periplus.journal.state import Head

CHECKPOINT_VERSION: Final = 1
KEYS_MAX: Final = 4_096
KEY_RECORDS_A_LINE: Final = 1_000  # some 130 KB: readers give a line up at twice the length of a record
_SUFFIX: Final = ".jsonl"
_DIGITS: Final = 12
_OBJECTS_A_LINE: Final = 1_000


class CheckpointHeader(msgspec.Struct, frozen=True, tag="checkpoint", tag_field="line"):
    """``positions``: for each lineage segment, offset, next seq and sum; ``root`` of our own tree of ``seq`` leaves."""

    v: int
    checkpoint: int
    store: str
    lineage: str
    seq: int
    ts: str
    positions: dict[str, tuple[int, int, int, str]]
    root: str


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


class KeyLine(msgspec.Struct, frozen=True, tag="key", tag_field="line"):
    """An idempotency key with the records that it was written on: lineage, seq, version (empty if none), ts; at most
    KEY_RECORDS_A_LINE, the rest in further lines of the same key.
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
    """The payload of a ``checkpoint`` record: which file counts, by its digest."""

    seq: int
    sha256: str
    bytes: int
    root: str


_Line: TypeAlias = CheckpointHeader | _HeadLine | KeyLine | _ObjectsLine | _EndLine
_decoder: Final[msgspec.json.Decoder[_Line]] = msgspec.json.Decoder(_Line)


def checkpoint_name(seq: int) -> str:
    return f"{seq:0{_DIGITS}d}{_SUFFIX}"


def checkpoint_seq(name: str) -> int | None:
    """The seq that a file's name stands for, or None where it is no checkpoint's name."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != _SUFFIX or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem) or None


def announcement_of(record: Record) -> Announcement | None:
    """What a record announces; None for one that announces no checkpoint."""
    if record.action != "checkpoint" or isinstance(record.payload, msgspec.UnsetType):
        return None
    try:
        return msgspec.json.decode(record.payload, type=Announcement)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # a later version's


def encode_checkpoint(
    header: CheckpointHeader, heads: Iterable[Head], keys: Iterable[KeyLine], payload_object: Callable[[bytes], str]
) -> Iterator[bytes]:
    """The lines of the file. ``payload_object`` names the object that holds a content too large for a line."""
    digest = sha256()
    counts = {"heads": 0, "keys": 0, "objects": 0}

    def sealed(line: _Line) -> bytes:
        data = seal_line(msgspec.json.encode(line)[:-1])[0]
        digest.update(data)
        return data

    yield sealed(header)
    objects: list[str] = []
    for head in heads:
        ref = None
        if len(head.payload) > PAYLOAD_INLINE_MAX:
            ref = PayloadRef(payload_object(head.payload), len(head.payload))
            objects.append(ref.sha256)
        counts["heads"] += 1
        yield sealed(_head_line(head, ref))
    for key in keys:
        counts["keys"] += 1
        yield sealed(key)
    objects = sorted(set(objects))
    counts["objects"] = len(objects)
    for start in range(0, len(objects), _OBJECTS_A_LINE):
        yield sealed(_ObjectsLine(objects[start : start + _OBJECTS_A_LINE]))
    yield sealed(_EndLine(**counts, sha256=digest.hexdigest()))


def decode_header_line(line: bytes) -> CheckpointHeader:
    """Raises FormatError where the first line (without its newline) is no header of a version that is known here."""
    header = _decoded(line, 0)
    if not isinstance(header, CheckpointHeader) or header.checkpoint != CHECKPOINT_VERSION:
        raise FormatError("not the header of a checkpoint that this Periplus reads", offset=0)
    return header


def decode_checkpoint(
    lines: Iterable[bytes], load: Callable[[str], bytes], *, is_known: bool = False
) -> Iterator[Head | KeyLine]:
    """The heads and keys of a file, given by its lines with their newlines.

    Everything is checked: seals, order, counts, the digest and, by its content, each version's id; with ``is_known``,
    for a file whose digest was checked, no more than that it can be decoded. Raises FormatError with the offset, and
    what ``load`` raises for a content that lies in an object.
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
                raise FormatError("a head out of its order", offset=offset)
            counts["heads"] += 1
            yield head
        elif isinstance(line, KeyLine):
            counts["keys"] += 1
            yield line
        elif isinstance(line, _ObjectsLine):
            counts["objects"] += len(line.objects)
        elif isinstance(line, _EndLine):
            ended = True
            if counts != {"heads": line.heads, "keys": line.keys, "objects": line.objects}:
                raise FormatError("the counts are not those of the lines", offset=offset)
            if not is_known and line.sha256 != digest.hexdigest():
                raise FormatError("the digest is not that of the lines", offset=offset)
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


def _head_line(head: Head, ref: PayloadRef | None) -> _HeadLine:
    return _HeadLine(
        head.item_type, head.item_id, head.version, head.rev, head.ts, head.lineage, head.seq, head.writer, head.session,
        head.parents, head.deleted, head.is_stub,
        msgspec.UNSET if ref is not None or not head.payload else msgspec.Raw(head.payload), ref,
    )  # fmt: skip


def _head(line: _HeadLine, load: Callable[[str], bytes], offset: int, *, is_known: bool) -> Head:
    payload = b""
    if line.payload_ref is not None:
        payload = load(line.payload_ref.sha256)
    elif not isinstance(line.payload, msgspec.UnsetType):
        payload = bytes(line.payload)
    if not is_known and not line.stub:
        version = version_id(line.item_type, line.item_id, deleted=line.deleted, payload=payload or None,
                             parents=line.parents)  # fmt: skip
        if version != line.version or line.deleted != (not payload):
            raise FormatError(f"{line.item_id} is not the version that it is called", offset=offset)
    return Head(
        line.item_type, line.item_id, line.version, line.parents, line.rev, line.deleted, payload, line.ts, line.writer,
        line.session, line.lineage, line.seq, line.stub,
    )  # fmt: skip
