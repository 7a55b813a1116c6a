"""LZMA with a preset text: short texts of coding agents are packed smaller than by any packer on its own.

``primed.lzma`` is a text of 48,143 bytes (`xz -dc --format=lzma` shows it), packed by LZMA. The packer puts it
in front of the data and leaves out of the result the part that the text alone produced; the unpacker puts that part in
front again. So both know the words, phrases and probabilities that such data begins with. The stream is LZMA's own:
the bytes in front are a constant, ``_KNOWN_BYTES`` of the file. Another LZMA may divide the text into other matches: then
nothing is left out, ``pack_with_preset`` returns None, and the data is stored in another form. A reader never depends on that.

The end marker of LZMA and the bytes after it are left out too: the unpacker knows the length.
"""

from __future__ import annotations

__all__ = ["pack_alone", "pack_with_preset", "unpack_alone", "unpack_with_preset"]

import os
from functools import cache
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from lzma import LZMADecompressor

_FILE: Final = os.path.join(os.path.dirname(__file__), "primed.lzma")
_KNOWN_BYTES: Final = 19_580  # of the packed text: the part that does not depend on the data after it
_PRIMED_WINDOW_BYTES: Final = 1 << 18
_ALONE_WINDOW_BYTES: Final = 1 << 22
_LEAST_WINDOW_BYTES: Final = 1 << 15
_HEAD_BYTES: Final = 13  # properties u8, window u32, length u64
_PROPERTIES: Final = 3  # three bits of the byte before as context, none of the position
_ENDING_BYTES: Final = 24  # more than end marker and flush can take
_LENIENT_BYTES: Final = 64  # granularity of what is lost in a broken stream
_MEMORY_BYTES_MAX: Final = 16 << 20


class _Known(NamedTuple):
    text: bytes
    stream: bytes  # packed form, as far as it is the same whatever follows


@cache
def _known() -> _Known:
    import lzma

    with open(_FILE, "rb") as file:
        data = file.read()
    return _Known(lzma.decompress(data, lzma.FORMAT_ALONE), data[_HEAD_BYTES:_KNOWN_BYTES])


def pack_with_preset(data: bytes) -> bytes | None:
    """Pack ``data`` after the preset text; None where this machine's LZMA packs that text in another way."""
    known = _known()
    stream = _packed(known.text + data, _PRIMED_WINDOW_BYTES)
    return stream[len(known.stream) :] if stream.startswith(known.stream) else None


def pack_alone(data: bytes) -> bytes:
    """Pack ``data`` without the preset, in less time: for long data."""
    return _packed(data, _ALONE_WINDOW_BYTES, is_fast=True)


def unpack_with_preset(packed: bytes, length: int, *, is_lenient: bool = False) -> bytes:
    """Return the ``length`` bytes that were packed; fewer where ``packed`` is cut off.

    Raises FormatError for an invalid stream; with ``is_lenient`` return what came before the error.
    """
    known = _known()
    whole = len(known.text) + length
    out = _unpacked(known.stream + packed, whole, _PRIMED_WINDOW_BYTES, is_lenient=is_lenient)
    return out[len(known.text) :]


def unpack_alone(packed: bytes, length: int, *, is_lenient: bool = False) -> bytes:
    """Unpack the result of ``pack_alone``, like ``unpack_with_preset``."""
    return _unpacked(packed, length, _ALONE_WINDOW_BYTES, is_lenient=is_lenient)


def _packed(data: bytes, window_bytes: int, *, is_fast: bool = False) -> bytes:
    import lzma

    how = {"preset": 2 if is_fast else 6, "nice_len": 128}
    # The packer takes memory by its window, used or not. The size is part of the preset's stream, so it is fixed
    # there.
    size = min(window_bytes, 1 << max(len(data) - 1, _LEAST_WINDOW_BYTES).bit_length()) if is_fast else window_bytes
    row = {"id": lzma.FILTER_LZMA1, **how, "lc": 3, "lp": 0, "pb": 0, "dict_size": size}
    stream = lzma.compress(data, lzma.FORMAT_ALONE, filters=[row])[_HEAD_BYTES:]
    return stream[: _end(stream, len(data), window_bytes)]


def _end(stream: bytes, length: int, window_bytes: int) -> int:
    """Return the place in the stream at which all of its ``length`` bytes are decoded."""
    reader = _reader()
    first = max(0, len(stream) - _ENDING_BYTES)
    found = len(reader.decompress(_head(length, window_bytes) + stream[:first], length))
    at = first
    while found < length:
        found += len(reader.decompress(stream[at : at + 1], length - found))
        at += 1
    return at


def _unpacked(stream: bytes, length: int, window_bytes: int, *, is_lenient: bool) -> bytes:
    import lzma

    reader = _reader()
    head = _head(length, window_bytes)
    if not is_lenient:
        try:
            return reader.decompress(head + stream, length)
        except lzma.LZMAError as error:
            raise FormatError(f"the packed bytes are broken ({error})") from error
    out = bytearray(reader.decompress(head))
    for at in range(0, len(stream), _LENIENT_BYTES):
        try:
            out += reader.decompress(stream[at : at + _LENIENT_BYTES], length - len(out))
        except (lzma.LZMAError, EOFError):
            break
    return bytes(out)


def _head(length: int, window_bytes: int) -> bytes:
    return bytes((_PROPERTIES,)) + window_bytes.to_bytes(4, "little") + length.to_bytes(8, "little")


def _reader() -> LZMADecompressor:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_ALONE, _MEMORY_BYTES_MAX)
