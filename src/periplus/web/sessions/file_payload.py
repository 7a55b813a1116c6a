"""Data blocks of a shared file: trails and objects, and the notes at its head.

The blocks are read by their exact form only, because a file is made again and compared byte by byte: a file with
anything else in it does not verify.
"""

from __future__ import annotations

__all__ = [
    "FILE_BYTES_MAX",
    "Block",
    "Carried",
    "FileParts",
    "blocks_of",
    "is_shared_file",
    "read_file_parts",
    "unpacked",
]

import base64
import binascii
import hashlib
import html
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from periplus.base.errors import FormatError, NewerFormatError
from periplus.web.sessions.file_notes import NOTES_VERSION, FileNotes

FILE_BYTES_MAX: Final = 256 << 20
BLOCK_BYTES_MAX: Final = 1 << 30  # of one block, unpacked
_ALL_BYTES_MAX: Final = 1 << 30
_BLOCKS_MAX: Final = 20_000
_NOTES_BYTES_MAX: Final = 16 << 20
_LEVEL: Final = 9
_HEAD_BYTES: Final = 4_096
_DOCTYPE: Final = b"<!doctype html>"
_NOTES: Final = b'<meta name="periplus-session" content="'
_FORM: Final = '<script type="application/octet-stream" data-kind="{}" data-encoding="zlib base64">{}</script>\n'
_BLOCK: Final = re.compile(
    rb'<script type="application/octet-stream" data-kind="(trail|object)" data-encoding="zlib base64">([A-Za-z0-9+/]*={0,2})</script>\n'
)
BlockKind: TypeAlias = Literal["trail", "object"]


class Block(NamedTuple):
    """A block as it stands in the file: packed, in base64. Packing the same bytes again may give another form."""

    kind: BlockKind
    text: str

    def markup(self) -> str:
        return _FORM.format(self.kind, self.text)


class Carried(NamedTuple):
    """The content of the blocks."""

    trails: tuple[bytes, ...]
    objects: dict[bytes, bytes]


class FileParts(NamedTuple):
    notes: FileNotes
    blocks: tuple[Block, ...]


def blocks_of(trails: Sequence[bytes], objects: Mapping[bytes, bytes]) -> tuple[Block, ...]:
    packed = [("trail", data) for data in trails] + [("object", objects[name]) for name in sorted(objects)]
    return tuple(Block(kind, base64.b64encode(zlib.compress(data, _LEVEL)).decode()) for kind, data in packed)  # type: ignore[arg-type]  # the two kinds above


def is_shared_file(data: bytes) -> bool:
    """Return True for the beginning of an HTML document with the notes of a session."""
    head = data[:_HEAD_BYTES]
    return head.lstrip()[: len(_DOCTYPE)].lower() == _DOCTYPE and _NOTES in head


def read_file_parts(data: bytes) -> FileParts:
    """Return notes and blocks of a file. Raises FormatError, NewerFormatError."""
    start = data.find(_NOTES, 0, _HEAD_BYTES)
    end = data.find(b'"', start + len(_NOTES), start + len(_NOTES) + _NOTES_BYTES_MAX)
    if start < 0 or end < 0:
        raise FormatError("the notes of a shared session are missing", safe="The file was only read.")
    text = html.unescape(data[start + len(_NOTES) : end].decode("utf-8", "replace"))
    try:
        version = msgspec.json.decode(text, type=_Versioned).v
        if version > NOTES_VERSION:
            raise NewerFormatError(f"a shared file of format {version}; this Periplus reads {NOTES_VERSION}",
                                   offset=start, safe="The file was only read.", mend="Update Periplus.")  # fmt: skip
        notes = msgspec.json.decode(text, type=FileNotes)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise FormatError(
            "the notes of a shared session cannot be read", offset=start, safe="The file was only read."
        ) from error
    blocks = tuple(Block(_kind(found[1]), found[2].decode()) for found in _limited(_BLOCK.finditer(data)))
    return FileParts(notes, blocks)


class _Versioned(msgspec.Struct):
    v: int = 0


def _kind(name: bytes) -> BlockKind:
    return "trail" if name == b"trail" else "object"


def _limited(found: Iterable[re.Match[bytes]]) -> Iterable[re.Match[bytes]]:
    for number, one in enumerate(found):
        if number >= _BLOCKS_MAX:
            raise FormatError(f"over {_BLOCKS_MAX:,} data blocks", offset=one.start(), safe="The file was only read.")
        yield one


def unpacked(blocks: Sequence[Block]) -> Carried:
    """Return the content of blocks; an object has the name of its content. Raises FormatError."""
    trails: list[bytes] = []
    objects: dict[bytes, bytes] = {}
    room = _ALL_BYTES_MAX
    for place, block in enumerate(blocks):
        data = _unpacked(block.text, min(room, BLOCK_BYTES_MAX), place)
        room -= len(data)
        if block.kind == "trail":
            trails.append(data)
        else:
            objects[hashlib.sha256(data).digest()] = data
    return Carried(tuple(trails), objects)


def _unpacked(text: str, most: int, place: int) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        engine = zlib.decompressobj()
        data = engine.decompress(packed, most + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise FormatError(f"data block {place + 1} is damaged", safe="The file was only read.") from error
    if len(data) > most or not engine.eof or engine.unused_data:
        raise FormatError(f"data block {place + 1} is damaged or too large", safe="The file was only read.")
    return data
