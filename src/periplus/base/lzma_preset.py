"""LZMA that has read a text before: short texts of coding agents, packed to less than any packer makes of them alone.

``primed.lzma`` is a text of 48,143 bytes (`xz -dc --format=lzma` shows it), packed by LZMA. Whoever packs puts it
in front of the data and leaves out of the result what the text alone made; whoever unpacks puts that in front again. So
the words, phrases and odds that such data begin with are known to both. The stream is LZMA's own: the bytes in front
are a constant, ``_KNOWN_BYTES`` of the file, and another LZMA may cut the text into other matches: then nothing is left
out, ``pack`` says None, and the data is kept in another form. A reader never depends on that.

The end marker of LZMA and what follows it are left out too: the length is known to whoever unpacks.
"""

from __future__ import annotations

__all__ = ["pack_alone", "pack_primed", "unpack_alone", "unpack_primed"]

import os
from functools import cache
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from lzma import LZMADecompressor

_FILE: Final = os.path.join(os.path.dirname(__file__), "primed.lzma")
_KNOWN_BYTES: Final = 19_580  # of the packed text: what does not depend on the data behind it
_PRIMED_WINDOW_BYTES: Final = 1 << 18
_ALONE_WINDOW_BYTES: Final = 1 << 22
_LEAST_WINDOW_BYTES: Final = 1 << 15
_HEAD_BYTES: Final = 13  # properties u8, window u32, length u64
_PROPERTIES: Final = 3  # three bits of the byte before as context, none of the position
_ENDING_BYTES: Final = 24  # more than end marker and flush can take
_LENIENT_BYTES: Final = 64  # of a broken stream, at most what so many bytes stand for is lost
_MEMORY_BYTES_MAX: Final = 16 << 20


class _Known(NamedTuple):
    text: bytes
    stream: bytes  # what it is packed to, as far as that is the same whatever follows


@cache
def _known() -> _Known:
    import lzma

    with open(_FILE, "rb") as file:
        data = file.read()
    return _Known(lzma.decompress(data, lzma.FORMAT_ALONE), data[_HEAD_BYTES:_KNOWN_BYTES])


def pack_primed(data: bytes) -> bytes | None:
    """``data`` packed behind the known text; None where this machine's LZMA packs that text in another way."""
    known = _known()
    stream = _packed(known.text + data, _PRIMED_WINDOW_BYTES)
    return stream[len(known.stream) :] if stream.startswith(known.stream) else None


def pack_alone(data: bytes) -> bytes:
    """``data`` packed with nothing known before, and in less time: for what is long."""
    return _packed(data, _ALONE_WINDOW_BYTES, is_fast=True)


def unpack_primed(packed: bytes, length: int, *, is_lenient: bool = False) -> bytes:
    """The ``length`` bytes that were packed; fewer where ``packed`` breaks off.

    Raises FormatError where it is no such stream; who ``is_lenient`` gets what came before the fault.
    """
    known = _known()
    whole = len(known.text) + length
    out = _unpacked(known.stream + packed, whole, _PRIMED_WINDOW_BYTES, is_lenient=is_lenient)
    return out[len(known.text) :]


def unpack_alone(packed: bytes, length: int, *, is_lenient: bool = False) -> bytes:
    """As ``unpack_primed``, of what ``pack_alone`` gave."""
    return _unpacked(packed, length, _ALONE_WINDOW_BYTES, is_lenient=is_lenient)


def _packed(data: bytes, window_bytes: int, *, is_fast: bool = False) -> bytes:
    import lzma

    how = {"preset": 2 if is_fast else 6, "nice_len": 128}
    # What packs takes memory by its window, used or not. Into a known text's stream its size goes, so there it stands still.
    size = min(window_bytes, 1 << max(len(data) - 1, _LEAST_WINDOW_BYTES).bit_length()) if is_fast else window_bytes
    row = {"id": lzma.FILTER_LZMA1, **how, "lc": 3, "lp": 0, "pb": 0, "dict_size": size}
    stream = lzma.compress(data, lzma.FORMAT_ALONE, filters=[row])[_HEAD_BYTES:]
    return stream[: _end(stream, len(data), window_bytes)]


def _end(stream: bytes, length: int, window_bytes: int) -> int:
    """Where the stream has told all of its ``length`` bytes."""
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
