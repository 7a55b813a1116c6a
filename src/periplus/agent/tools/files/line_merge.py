"""Taking one change of a text back while what others wrote in it since stays: three ways, by lines.

``base`` is what the change left, ``now`` what stands there, ``before`` what was there in front of the change. What differs between base and
now is the others', what differs between base and before is taken back. Where the two touch the same lines, or lines side by side, nobody
but a person can say what is meant.
"""

from __future__ import annotations

__all__ = ["MERGED_LINES_MAX", "merged"]

from difflib import SequenceMatcher
from typing import Final, NamedTuple

MERGED_LINES_MAX: Final = 20_000


class _Piece(NamedTuple):
    """Lines ``begin`` to ``end`` of the base, and what stands in their place."""

    begin: int
    end: int
    lines: tuple[bytes, ...]


def merged(base: bytes | None, now: bytes | None, before: bytes | None) -> bytes | None:
    """``now`` without what led from ``before`` to ``base``; None where that cannot be told apart."""
    if base is None or now is None or before is None or any(b"\0" in one for one in (base, now, before)):
        return None
    rows = [one.splitlines(keepends=True) for one in (base, now, before)]
    if any(len(one) > MERGED_LINES_MAX for one in rows):
        return None
    pieces = sorted({*_pieces(rows[0], rows[1]), *_pieces(rows[0], rows[2])})
    out: list[bytes] = []
    place = 0
    for number, piece in enumerate(pieces):
        if number and piece.begin <= pieces[number - 1].end:
            return None
        out += [*rows[0][place : piece.begin], *piece.lines]
        place = piece.end
    return b"".join([*out, *rows[0][place:]])


def _pieces(base: list[bytes], other: list[bytes]) -> list[_Piece]:
    matcher = SequenceMatcher(None, base, other, autojunk=True)
    return [_Piece(a, b, tuple(other[c:d])) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]
