"""Renew anchors: find the code that a memory is about where it is now, with its present digest."""

from __future__ import annotations

__all__ = ["renewed_anchors"]

from collections.abc import Sequence

from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import sha256
from periplus.code import lines_of, symbols_of
from periplus.code.regions import Region, line_sum
from periplus.memory.code_anchors.anchor_creation import about_lines, about_symbol
from periplus.memory.code_anchors.anchors import Ground, Standing, anchor_of


def renewed_anchors(item: JSONValue, ground: Ground) -> tuple[JSONValue, str]:
    """Return an item of ``about`` as it would be written now, or None where its code cannot be found, with the path
    of its file.
    """
    anchor = anchor_of(item)
    if anchor is None:
        return item, ""
    standing = ground.judge(anchor)
    data = ground.read(standing.path)
    if standing.state == "gone" or data is None:
        return None, standing.path
    path = standing.path
    if anchor.kind == "path":
        return {"kind": "path", "ref": path, "sha256": sha256(data).hex()}, path
    if anchor.kind == "symbol":
        symbols = symbols_of(path, data)
        if symbols.why_not or len(symbols.named(anchor.name)) == 1:
            return about_symbol(path, data, anchor.name).about, path
        if anchor.region is None or not standing.start:
            return None, path
        return _symbol_in_place(path, data, anchor.name, standing, anchor.region), path
    if anchor.region is None:
        return {"kind": "path", "ref": path, "sha256": sha256(data).hex()}, path
    if standing.start:
        return about_lines(path, data, standing.start, standing.start + anchor.region.length - 1), path
    place = _between(lines_of(data), anchor.region)
    if place is None:
        return None, path
    return about_lines(path, data, *place), path


def _symbol_in_place(path: str, data: bytes, name: str, standing: Standing, region: Region) -> JSONValue:
    """Return, of several symbols of that name, the one that stands unchanged where it was found."""
    about = about_lines(path, data, standing.start, standing.start + region.length - 1)
    lines = lines_of(data)[standing.start - 1 : standing.start - 1 + region.length]
    last = name.rpartition(".")[2].encode()
    mark = next((line for line in lines if last in line), b"")
    return {**about, "kind": "symbol", "ref": f"{path}:{name}", "name": name, "mark": line_sum(mark)}


def _between(lines: Sequence[bytes], region: Region) -> tuple[int, int] | None:
    """Return the lines that now stand where an edited range stood: between its former neighbours, or from its own
    first to its last line.
    """
    sums = [line_sum(line) if line else -1 for line in lines]
    start, end = 1, len(lines)
    if region.before:
        above = _nearest(sums, region.before[0], region.start - 1)
        first = _nearest(sums, region.edges[0], region.start)
        if not above and not first:
            return None
        start = above + 1 if above else first
    if region.after:
        expected = start + region.length
        below = _nearest(sums, region.after[0], expected, start)
        last = _nearest(sums, region.edges[1], expected - 1, start - 1)
        if not below and not last:
            return None
        end = below - 1 if below else last
    while start <= end and not lines[start - 1]:
        start += 1
    while start <= end and not lines[end - 1]:
        end -= 1
    return (start, end) if start <= end else None


def _nearest(sums: Sequence[int], wanted: int, place: int, behind: int = 0) -> int:
    """Return the line (from 1) with that checksum, after line ``behind``, that is nearest to ``place``; 0 where there
    is none.
    """
    found = [at + 1 for at, one in enumerate(sums) if one == wanted and at + 1 > behind]
    return min(found, key=lambda at: (abs(at - place), at), default=0)
