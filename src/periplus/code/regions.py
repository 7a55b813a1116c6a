"""Regions of lines, separated from their surroundings and found again where they moved. Pure.

A region is compared by its *plain text*: without white space at the ends of lines, without blank lines at its
beginning and end, without the indentation that all its lines share. So code that moves into another block, file or
line ending stays the same, and a change of the indentation within it, which in some languages is a change of meaning,
does not.

A region is searched by the checksums of its first and last line, and confirmed by the SHA-256 of its plain text.
Nothing is parsed for it. Where a file holds the same text several times, the neighbouring lines tell which of them is
meant.
"""

from __future__ import annotations

__all__ = ["Region", "find_region", "line_sum", "lines_of", "plain_digest", "region_of"]

from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from periplus.base.encoding.digests import sha256

NEIGHBOURS: Final = 2
COMPARED_LINES_MAX: Final = 400_000


class Region(NamedTuple):
    """Lines ``start`` (from 1) to ``start + length - 1`` of a file.

    ``sha256`` is that of the plain text, ``edges`` the checksums of its first and last line, ``before`` and ``after`` those of the
    nearest lines around that are not blank, ``copies`` how many times the file held the same text.
    """

    start: int
    length: int
    sha256: str
    edges: tuple[int, int]
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    copies: int = 1


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a file, without white space at their ends."""
    return [line.rstrip() for line in data.split(b"\n")]


def line_sum(line: bytes) -> int:
    """Return the checksum by which a line is searched; indentation does not count."""
    return crc32(line.strip())


def plain_digest(lines: Sequence[bytes]) -> str:
    """Return the SHA-256 of the plain text of lines that neither begin nor end with a blank one."""
    indents = {line[: len(line) - len(line.lstrip())] for line in lines if line}
    low, high = min(indents), max(indents)  # what the shortest and longest share, all share
    shared = next((at for at, byte in enumerate(low) if high[at : at + 1] != bytes((byte,))), len(low))
    return sha256(b"\n".join(line[shared:] for line in lines)).hex()


def region_of(lines: Sequence[bytes], start: int, end: int) -> Region | None:
    """Return the region of lines ``start`` to ``end`` (from 1, both included); None where all are blank."""
    first, last = max(1, start), min(len(lines), end)
    while first <= last and not lines[first - 1]:
        first += 1
    while first <= last and not lines[last - 1]:
        last -= 1
    if first > last:
        return None
    inside = lines[first - 1 : last]
    found = Region(
        first,
        len(inside),
        plain_digest(inside),
        (line_sum(inside[0]), line_sum(inside[-1])),
        _near(lines, range(first - 2, -1, -1)),
        _near(lines, range(last, len(lines))),
    )
    return found._replace(copies=max(1, len(_places(lines, found))))


def find_region(lines: Sequence[bytes], wanted: Region, sums: Sequence[int] | None = None) -> int:
    """Return the line (from 1) where ``wanted`` stands unchanged; 0 where it does not. ``sums`` are the checksums of
    the lines, where they are known.

    Where its text stood several times, and one of them was changed, the others do not count as it.
    """
    places = _places(lines, wanted, sums)
    if not places:
        return 0
    if wanted.copies > 1:
        beside = [place for place in places if _is_beside(lines, place, wanted)]
        if not beside and len(places) < wanted.copies:
            return 0
        places = beside or places
    return min(places, key=lambda place: (abs(place - wanted.start), place))


def _places(lines: Sequence[bytes], wanted: Region, sums: Sequence[int] | None = None) -> list[int]:
    """Return all lines (from 1) at which the text of ``wanted`` begins, within COMPARED_LINES_MAX comparisons; its
    own first.
    """
    first, last = wanted.edges
    span = wanted.length - 1
    ends = len(lines) - span
    sums = [crc32(line.strip()) for line in lines] if sums is None else sums
    starts = [at for at in range(max(0, ends)) if sums[at] == first and sums[at + span] == last and lines[at]]
    most = max(1, COMPARED_LINES_MAX // wanted.length)
    if len(starts) > most:
        starts = sorted(starts, key=lambda at: (abs(at + 1 - wanted.start), at))[:most]
    return [at + 1 for at in starts if plain_digest(lines[at : at + wanted.length]) == wanted.sha256]


def _near(lines: Sequence[bytes], order: range) -> tuple[int, ...]:
    found: list[int] = []
    for at in order:
        if lines[at]:
            found.append(line_sum(lines[at]))
            if len(found) == NEIGHBOURS:
                break
    return tuple(found)


def _is_beside(lines: Sequence[bytes], place: int, wanted: Region) -> bool:
    """Return True where the line before or after it is the same as then."""
    end = place - 1 + wanted.length
    before = _near(lines, range(place - 2, -1, -1))
    after = _near(lines, range(end, len(lines)))
    return before == wanted.before or after == wanted.after
