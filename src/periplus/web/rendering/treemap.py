"""Tree maps as SVG pictures: areas that show sizes, with a colour class for a second measure.

Squarified after Bruls, Huizing and van Wijk (2000), two levels deep. Positions are shares of the picture, so it takes the width that
there is; labels have the size of other text and are cut by their tile.
"""

from __future__ import annotations

__all__ = ["LEVELS", "TILES_MAX", "Tile", "treemap"]

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.web.rendering.svg import attribute, css_class, local_address, number, plain_line, text_width

if TYPE_CHECKING:
    from markupsafe import Markup

TILES_MAX: Final = 400
LEVELS: Final = 7
_OUTER_MAX: Final = 300
_LEAST: Final = 36.0
"""Least area of a tile in square pixels of a wide picture: what is smaller is counted with others."""
_WIDE, _NARROW, _HEIGHT = 1_200.0, 340.0, 560.0
_FONT: Final = 12.0
_HEADING: Final = 20.0
_PADDING: Final = 5.0
_REST: Final = -1
_NAME_CHARACTERS_MAX: Final = 80
_LABEL_WIDTH: Final = 44.0  # a label that is cut at less says nothing


class Tile(NamedTuple):
    """``level`` (0 to 6) gives the class ``level-N``; ``title`` is shown when pointed at. The size of a tile with ``tiles`` is their sum."""

    name: str
    size: int
    level: int = 0
    href: str = ""
    title: str = ""
    tiles: tuple[Tile, ...] = ()


class _Area(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def treemap(tiles: Sequence[Tile], *, label: str, kind: str = "plain") -> Markup:
    """Return a ``<figure>`` of ``tiles`` and their tiles, at most TILES_MAX; smaller ones of a group are counted in one. ``kind`` gives the
    class ``treemap-KIND`` for the colours. ``label`` says what is shown to those who do not see it.
    """
    from markupsafe import Markup

    pieces = [
        (
            f'<figure class="picture treemap treemap-{css_class(kind)}">'
            f'<svg class="treemap" width="100%" height="{number(_HEIGHT)}" role="group" aria-label="{attribute(label)}">'
        )
    ]
    whole = _Area(0, 0, _WIDE, _HEIGHT)
    is_flat = not any(tile.tiles for tile in tiles)
    tiny = sum(map(_size, tiles)) * _LEAST / (_WIDE * _HEIGHT)
    shown = _with_rest(tiles, tiny, "", TILES_MAX - 1 if is_flat else _OUTER_MAX)
    total = max(1, sum(size for tile, size in shown if tile.tiles))
    room = TILES_MAX - len(shown) - sum(bool(tile.tiles) for tile, _ in shown)
    for tile, area in _squarified(shown, whole):
        # A group gets its share of the tiles that are left, so that none is without any.
        pieces += _group(tile, area, tiny, int(room * _size(tile) / total)) if tile.tiles else _leaf(tile, area)
    pieces.append("</svg></figure>")
    return Markup("".join(pieces))  # noqa: S704  (each piece is ours or escaped)


def _size(tile: Tile) -> int:
    return sum(map(_size, tile.tiles)) if tile.tiles else max(0, tile.size)


def _with_rest(tiles: Sequence[Tile], least: float, href: str, count_max: int) -> list[tuple[Tile, int]]:
    """Return the tiles with their sizes, the largest first; small ones are counted in one without a colour."""
    sized = sorted(
        ((tile, size) for tile in tiles if (size := _size(tile)) > 0), key=lambda one: (-one[1], one[0].name)
    )
    kept = [one for one in sized[:count_max] if one[1] >= least]
    rest = sized[len(kept) :]
    if len(rest) == 1:
        return sized
    if rest:
        name = f"{len(rest):,} smaller"
        kept.append((Tile(name, 0, _REST, href, f"{name} ones"), sum(size for _, size in rest)))
        kept.sort(key=lambda one: -one[1])
    return kept


def _squarified(tiles: Sequence[tuple[Tile, int]], area: _Area) -> Iterator[tuple[Tile, _Area]]:
    """Yield tiles, the largest first, with areas in proportion to their sizes and as square as rows of them allow."""
    total = sum(size for _, size in tiles)
    if not total or area.width <= 0 or area.height <= 0:
        return
    scale = area.width * area.height / total
    at = 0
    while at < len(tiles):
        side = min(area.width, area.height)
        end, row, worst = at, 0.0, 0.0
        while end < len(tiles):
            more = row + tiles[end][1] * scale
            ratio = _worst(tiles[at][1] * scale, tiles[end][1] * scale, more, side)
            if end > at and ratio > worst:
                break
            end, row, worst = end + 1, more, ratio
        depth = row / side
        along = 0.0
        for tile, size in tiles[at:end]:
            length = size * scale / depth
            if area.width >= area.height:
                yield tile, _Area(area.x, area.y + along, depth, length)
            else:
                yield tile, _Area(area.x + along, area.y, length, depth)
            along += length
        if area.width >= area.height:
            area = _Area(area.x + depth, area.y, area.width - depth, area.height)
        else:
            area = _Area(area.x, area.y + depth, area.width, area.height - depth)
        at = end


def _worst(largest: float, smallest: float, row: float, side: float) -> float:
    """Return the worst ratio of sides in a row of tiles along ``side``."""
    square = (row / side) ** 2
    return max(largest / square, square / smallest)


def _group(tile: Tile, area: _Area, least: float, count_max: int) -> Iterator[str]:
    """Yield a tile with a heading and its tiles below; without the heading where it has no room."""
    has_heading = area.height > 2.5 * _HEADING and area.width > 3 * _HEADING
    inner = _Area(area.x, area.y + _HEADING, area.width, area.height - _HEADING) if has_heading else area
    if has_heading:
        heading = _Area(area.x, area.y, area.width, _HEADING)
        yield from _shape(tile, heading, "group", 14.0)
    for own, place in _squarified(_with_rest(tile.tiles, least, tile.href, count_max), inner):
        yield from _leaf(own, place)


def _leaf(tile: Tile, area: _Area) -> Iterator[str]:
    level = "rest" if tile.level == _REST else f"level-{min(max(tile.level, 0), LEVELS - 1)}"
    return _shape(tile, area, f"tile {level}", 16.0)


def _shape(tile: Tile, area: _Area, classes: str, baseline: float) -> Iterator[str]:
    address = local_address(tile.href)
    place = (
        f'x="{_share(area.x, _WIDE)}" y="{_share(area.y, _HEIGHT)}" '
        f'width="{_share(area.width, _WIDE)}" height="{_share(area.height, _HEIGHT)}"'
    )
    yield f'<a href="{attribute(address)}"' if address else "<g"
    yield f' class="{classes}"><title>{attribute(tile.title or tile.name)}</title><rect {place}/>'
    name = plain_line(tile.name)[:_NAME_CHARACTERS_MAX]
    if text_width(name, _FONT) + 2 * _PADDING > area.width:
        name = name.rstrip("/").rpartition("/")[2] or name
    room = text_width(name, _FONT) + 2 * _PADDING
    if area.height >= baseline + 3 and min(room, _LABEL_WIDTH) <= area.width:
        fit = "any" if min(room, _LABEL_WIDTH) <= area.width * _NARROW / _WIDE else "wide"
        yield f'<svg {place}><text class="{fit}" x="{number(_PADDING)}" y="{number(baseline)}">{attribute(name)}</text></svg>'
    yield "</a>" if address else "</g>"


def _share(value: float, whole: float) -> str:
    return f"{100 * value / whole:.3f}".rstrip("0").rstrip(".") + "%"
