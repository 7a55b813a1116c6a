"""Forms of an object's file: plain, a zlib stream, or the packing of a higher layer for its own kind."""

from __future__ import annotations

__all__ = [
    "PACKED_SUFFIX",
    "SUFFIXES",
    "ZLIB_SUFFIX",
    "Packing",
    "damaged",
    "digits_of",
    "encode_object",
    "form_in_file",
    "inflate_pieces",
    "is_packed",
]

import os
from collections.abc import Callable, Iterator
from typing import Final

from periplus.base.errors import DamageError
from periplus.base.named_tuple import NamedTuple

ZLIB_SUFFIX: Final = ".z"
PACKED_SUFFIX: Final = ".t"
SUFFIXES: Final = ("", ZLIB_SUFFIX, PACKED_SUFFIX)  # in the order in which a reader looks for them
_ZLIB_FROM_BYTES: Final = 512
_PIECE_BYTES: Final = 1 << 20


class Packing(NamedTuple):
    """Form that a higher layer defines for one kind of object, with the functions that the store needs to write and
    read it.

    ``pack(data)`` returns None for any other object. ``unpack`` raises FormatError for invalid input; ``remains``
    returns the readable rest of a damaged file, perhaps nothing, and ``mended`` yields candidates for the contents
    before a small change. No object or file of this form has over ``bytes_max`` bytes.
    """

    pack: Callable[[bytes], bytes | None]
    unpack: Callable[[bytes], bytes]
    remains: Callable[[bytes], bytes]
    mended: Callable[[bytes], Iterator[bytes]]
    bytes_max: int


def encode_object(data: bytes, packing: Packing | None) -> tuple[str, bytes]:
    """Choose the smallest form for ``data``; return the suffix of the file and its contents."""
    if packing is not None and len(data) <= packing.bytes_max:
        packed = packing.pack(data)
        if packed is not None and len(packed) * 10 <= len(data) * 9:
            return PACKED_SUFFIX, packed
    if len(data) >= _ZLIB_FROM_BYTES:
        import zlib

        packed = zlib.compress(data)
        if len(packed) * 10 <= len(data) * 9:
            return ZLIB_SUFFIX, packed
    return "", data


def form_in_file(path: str, data: bytes, packing: Packing | None) -> bytes | None:
    """Return the contents of the object's file at ``path`` in the form of its suffix; None where that form cannot
    hold it.
    """
    if path.endswith(PACKED_SUFFIX):
        return packing.pack(data) if packing is not None and len(data) <= packing.bytes_max else None
    if not path.endswith(ZLIB_SUFFIX):
        return data
    import zlib

    return zlib.compress(data)


def is_packed(name: str) -> bool:
    """Test for the name of a packed file, which need not be compressed again."""
    return name.endswith((ZLIB_SUFFIX, PACKED_SUFFIX))


def digits_of(name: str) -> str:
    """Return the name of an object's file without the suffix of its form."""
    return name[: -len(ZLIB_SUFFIX)] if is_packed(name) else name


def inflate_pieces(fd: int, path: str, piece_bytes: int) -> Iterator[bytes]:
    """Decompress the zlib stream in the open file in pieces of bounded size. Raises DamageError where it is invalid."""
    import zlib

    stream = zlib.decompressobj()
    try:
        while piece := os.read(fd, piece_bytes):
            rest = piece
            while rest and not stream.eof:
                yield stream.decompress(rest, _PIECE_BYTES)
                rest = stream.unconsumed_tail
            if stream.unused_data or (rest and stream.eof):
                raise damaged("bytes after the end of the compressed object", path)
        while not stream.eof and (out := stream.decompress(b"", _PIECE_BYTES)):
            yield out  # output that was held back at the end of the input
    except zlib.error as error:
        raise damaged(f"the compressed bytes are broken ({error})", path) from error
    if not stream.eof:
        raise damaged("cut off: the compressed object is incomplete", path)


def damaged(wrong: str, path: str, offset: int | None = None) -> DamageError:
    return DamageError(
        wrong,
        path=path,
        offset=offset,
        safe="Other objects are not affected.",
        mend="Put the same content again, or copy the file from another clone or a backup.",
    )
