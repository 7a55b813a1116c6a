"""Rows of the graph as bytes. Pure.

Numbers of symbols (*locals*) count within one file from 1; 0 is the file itself. A name keeps its local as long as the file has it, so
edges of other files stay right when definitions are put in between.
"""

from __future__ import annotations

__all__ = [
    "FILE",
    "NAMED_FILE",
    "SYMBOLS_MAX",
    "Edge",
    "FileSymbols",
    "asked_keys",
    "decode_edges",
    "decode_links",
    "decode_symbols",
    "encode_asked",
    "encode_edges",
    "encode_links",
    "encode_symbols",
    "node",
]

import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

FILE: Final = 0
NAMED_FILE: Final = 0
_LOCAL_BITS: Final = 20
SYMBOLS_MAX: Final = (1 << _LOCAL_BITS) - 1
_STEP_MAX: Final = 0xFFFF


class Edge(NamedTuple):
    """The symbol ``owner`` names, at ``line``, the symbol ``local`` of the file with the number ``file``. ``role`` and ``grade`` are positions.

    Where only the name is known, ``file`` is NAMED_FILE and ``local`` the number of the name.
    """

    owner: int
    line: int
    role: int
    grade: int
    file: int
    local: int


class FileSymbols(msgspec.Struct, array_like=True, gc=False):
    """Names, locals and flags of the symbols of one file. ``next`` is the first local that was never given.

    Flags: 1 within a definition that is marked as a test, 2 within one that is a test by its name.
    """

    names: list[str]
    locals: list[int]
    flags: list[int]
    next: int


def node(file: int, local: int) -> int:
    """Return the number of a symbol in the whole index."""
    return file << _LOCAL_BITS | local


_ENCODER: Final = msgspec.msgpack.Encoder()
_SYMBOLS: Final = msgspec.msgpack.Decoder(FileSymbols)
_NUMBERS: Final = msgspec.msgpack.Decoder(list[int])


def encode_symbols(symbols: FileSymbols) -> bytes:
    """Return ``symbols`` as bytes."""
    return zlib.compress(_ENCODER.encode(symbols), 6)


def decode_symbols(data: bytes) -> FileSymbols:
    """Return the symbols in ``data``."""
    return _SYMBOLS.decode(zlib.decompress(data))


def encode_edges(edges: Iterable[Edge]) -> bytes:
    """Return ``edges`` as bytes, column by column."""
    owners, lines, kinds, files, locals_ = [], [], [], [], []
    last_owner = last_line = 0
    for owner, line, role, grade, file, local in sorted(edges):
        owners.append(owner - last_owner)
        lines.append(line - last_line)
        kinds.append(role << 2 | grade)
        files.append(file)
        locals_.append(local)
        last_owner, last_line = owner, line
    return zlib.compress(_ENCODER.encode([*owners, *lines, *kinds, *files, *locals_]), 6)


def decode_edges(data: bytes) -> list[Edge]:
    """Return the edges in ``data``."""
    numbers = _NUMBERS.decode(zlib.decompress(data))
    count = len(numbers) // 5
    kinds = numbers[2 * count : 3 * count]
    return [
        Edge(owner, line, kind >> 2, kind & 3, file, local)
        for owner, line, kind, file, local in zip(
            accumulate(numbers[:count]), accumulate(numbers[count : 2 * count]), kinds, numbers[3 * count : 4 * count],
            numbers[4 * count :], strict=True,
        )
    ]  # fmt: skip


def encode_links(edges: Iterable[Edge], own: int) -> bytes:
    """Return how often ``edges`` lead to each other file than ``own``, as bytes."""
    counts = Counter(edge.file for edge in edges if edge.file not in (own, NAMED_FILE))
    return _ENCODER.encode([number for pair in sorted(counts.items()) for number in pair])


def decode_links(data: bytes | None) -> list[tuple[int, int]]:
    """Return files and numbers of edges."""
    numbers = _NUMBERS.decode(data) if data else []
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def encode_asked(keys: Iterable[int]) -> bytes:
    """Return ``keys`` as differences of two bytes; a larger one is made of several, whose sums are keys that nobody asked for."""
    steps = array("H")
    last = 0
    for key in sorted(keys):
        step = key - last
        while step > _STEP_MAX:
            steps.append(_STEP_MAX)
            step -= _STEP_MAX
        steps.append(step)
        last = key
    return steps.tobytes()


def asked_keys(data: bytes) -> Sequence[int]:
    """Return the keys in ``data``."""
    steps = array("H")
    steps.frombytes(data)
    return list(accumulate(steps))
