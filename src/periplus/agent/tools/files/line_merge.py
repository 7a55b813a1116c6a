"""Three-way merge by lines: undo one change of a text and keep the later changes of others.

``base`` is the text after the change, ``now`` the present text, ``before`` the text before the change. The difference from base to now
belongs to others and stays; the difference from before to base is undone. If the two touch the same or adjacent lines, only a person can
decide.
"""

from __future__ import annotations

__all__ = ["MERGED_LINES_MAX", "merged"]

from difflib import SequenceMatcher
from typing import Final, NamedTuple

MERGED_LINES_MAX: Final = 20_000


class _Piece(NamedTuple):
    """Lines ``begin`` to ``end`` of the base, and their replacement."""

    begin: int
    end: int
    lines: tuple[bytes, ...]


def merged(base: bytes | None, now: bytes | None, before: bytes | None) -> bytes | None:
    """``now`` without the change from ``before`` to ``base``; None if that cannot be told apart."""
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
