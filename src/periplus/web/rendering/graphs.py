"""Graphs as SVG pictures: nodes in layers from left to right, links as curves between them.

A picture is bounded: of many nodes the first are drawn and the caption counts the others. A node is a link where it has an address.
"""

from __future__ import annotations

__all__ = ["LINKS_MAX", "NODES_MAX", "Link", "Node", "layered_graph"]

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.web.rendering.layering import Placed, placed
from periplus.web.rendering.svg import attribute, css_class, fitting, local_address, number

if TYPE_CHECKING:
    from markupsafe import Markup

NODES_MAX: Final = 200
LINKS_MAX: Final = 800
_FONT, _NOTE_FONT = 12.0, 10.5
_WIDTH, _HEIGHT, _NOTE_HEIGHT = 188.0, 30.0, 44.0
_GAP_ACROSS, _GAP_ALONG, _MARGIN, _PADDING = 12.0, 56.0, 8.0, 10.0
_ARROW: Final = 6.0
_ROWS_MAX: Final = 24
_ROW_WITHOUT_LINKS: Final = 4


class Node(NamedTuple):
    """``text`` and, smaller below, ``note`` are shown as far as they fit; ``title`` (or both in full) when pointed at.

    ``kind`` gives the class ``node-KIND``: a plain word of ours, such as "done", "stale" or "current".
    """

    id: str
    text: str
    note: str = ""
    href: str = ""
    kind: str = "plain"
    title: str = ""


class Link(NamedTuple):
    """An arrow from ``source`` to ``target`` (ids of nodes); ``kind`` gives the class ``link-KIND``, ``text`` is shown when pointed at."""

    source: str
    target: str
    kind: str = "plain"
    text: str = ""


class _Box(NamedTuple):
    x: float
    y: float


class _Run(NamedTuple):
    """A straight part of a link, between or below nodes."""

    left: float
    right: float
    y: float


class _Column(NamedTuple):
    """A layer as it is drawn: ``columns`` of nodes between ``left`` and ``right``."""

    left: float
    right: float
    columns: int


def layered_graph(
    nodes: Iterable[Node],
    links: Iterable[Link],
    *,
    label: str,
    more: int = 0,
    nodes_max: int = NODES_MAX,
) -> Markup:
    """Return a ``<figure>`` with the graph. ``label`` says to those who do not see it what it shows; the table beside it is their picture.

    The first ``nodes_max`` nodes are drawn, so the important ones come first; ``more`` counts those that the caller left out already.
    Links to what is not drawn, second links of the same ends, and links of a node to itself are left out.
    """
    from markupsafe import Markup

    every = list({one.id: one for one in reversed(list(nodes))}.values())[::-1]
    shown = every[:nodes_max]
    arrows = _drawn_links(shown, links)
    boxes, routes, size, height = _layout(shown, arrows)
    has_links = any(local_address(one.href) for one in shown)
    pieces = [
        '<figure class="picture graph"><div class="scroll" tabindex="0" role="region" aria-label="',
        attribute(label),
        f'"><svg class="graph" width="{number(size.x)}" height="{number(size.y)}" viewBox="0 0 {number(size.x)} {number(size.y)}" ',
        # An image hides what is in it from a screen reader, so one with links is a group.
        f'role="{"group" if has_links else "img"}" aria-label="',
        attribute(label),
        '">',
    ]
    for link, (source, target), route in zip(arrows.values(), arrows, routes, strict=True):
        pieces += _arrow(link, boxes[source], boxes[target], route, height)
    for node, box in zip(shown, boxes, strict=True):
        pieces += _node(node, box, height)
    pieces.append("</svg></div>")
    left = len(every) - len(shown) + more
    if left:
        pieces.append(f"<figcaption>{left:,} more {'is' if left == 1 else 'are'} not drawn</figcaption>")
    pieces.append("</figure>")
    return Markup("".join(pieces))  # noqa: S704  (each piece is ours or escaped)


def _drawn_links(nodes: Sequence[Node], links: Iterable[Link]) -> dict[tuple[int, int], Link]:
    numbers = {one.id: place for place, one in enumerate(nodes)}
    found: dict[tuple[int, int], Link] = {}
    for link in links:
        source, target = numbers.get(link.source), numbers.get(link.target)
        if source is None or target is None or source == target:
            continue
        found.setdefault((source, target), link)
        if len(found) == LINKS_MAX:
            break
    return found


def _layout(
    nodes: Sequence[Node], links: dict[tuple[int, int], Link]
) -> tuple[list[_Box], list[list[_Run]], _Box, float]:
    """Return the upper left corner of each node, the straight parts of each link, the size of the picture and the height of a node.

    Nodes without links fill rows below the others.
    """
    height = _NOTE_HEIGHT if any(one.note for one in nodes) else _HEIGHT
    step = height + _GAP_ACROSS
    linked = sorted({end for pair in links for end in pair})
    numbers = {one: place for place, one in enumerate(linked)}
    pairs = [(numbers[source], numbers[target]) for source, target in links]
    found = placed(len(linked), pairs)
    layers = _columns(found)
    if all(one.columns == 1 for one in layers):
        inner = [_Box(layers[one.layer].left, _MARGIN + (one.position - 0.5) * step) for one in found.places]
        routes = [
            [_Run(*layers[bend.layer][:2], _MARGIN + (bend.position - 0.5) * step + height / 2) for bend in route]
            for route in found.routes
        ]
    else:
        inner = _folded(found, layers, step)
        routes = [
            _around(
                (inner[pair[0]], inner[pair[1]]),
                (layers[found.places[pair[0]].layer], layers[found.places[pair[1]].layer]),
                height,
            )
            for pair in pairs
        ]
    corners = dict(zip(linked, inner, strict=True))
    lowest = max((run.y + _GAP_ACROSS / 2 for route in routes for run in route), default=_MARGIN)
    bottom = max(lowest + _GAP_ACROSS / 2, *(box.y + step for box in inner), _MARGIN)
    alone = [one for one in range(len(nodes)) if one not in numbers]
    width = layers[-1].right if layers else _MARGIN
    across = max(_ROW_WITHOUT_LINKS, int((width - _MARGIN + _GAP_ACROSS) // (_WIDTH + _GAP_ACROSS)))
    for place, one in enumerate(alone):
        corners[one] = _Box(_MARGIN + place % across * (_WIDTH + _GAP_ACROSS), bottom + place // across * step)
    right = max((box.x + _WIDTH for box in corners.values()), default=_MARGIN)
    bottom = max(lowest, *(box.y + height for box in corners.values()), _MARGIN)
    return [corners[one] for one in range(len(nodes))], routes, _Box(right + _MARGIN, bottom + _MARGIN), height


def _columns(found: Placed) -> list[_Column]:
    """Return the layers from left to right. One with over _ROWS_MAX nodes is folded into columns."""
    counts = [0] * found.layers
    for place in found.places:
        counts[place.layer] += 1
    layers: list[_Column] = []
    x = _MARGIN
    for count in counts:
        columns = max(1, -(-count // _ROWS_MAX))
        right = x + columns * (_WIDTH + _GAP_ACROSS) - _GAP_ACROSS
        layers.append(_Column(x, right, columns))
        x = right + _GAP_ALONG
    return layers


def _folded(found: Placed, layers: Sequence[_Column], step: float) -> list[_Box]:
    """Return the corners of the nodes of a graph with folded layers: each layer from the top, in its order."""
    members: list[list[int]] = [[] for _ in layers]
    for one in sorted(range(len(found.places)), key=lambda one: found.places[one].position):
        members[found.places[one].layer].append(one)
    corners = [_Box(0, 0)] * len(found.places)
    for own, layer in zip(members, layers, strict=True):
        for place, one in enumerate(own):
            x = layer.left + place % layer.columns * (_WIDTH + _GAP_ACROSS)
            corners[one] = _Box(x, _MARGIN + place // layer.columns * step)
    return corners


def _around(ends: tuple[_Box, _Box], layers: tuple[_Column, _Column], height: float) -> list[_Run]:
    """Return the runs of a link below the other nodes of the layers of its source and its target."""
    is_back = ends[1].x < ends[0].x
    runs = []
    for box, layer, is_left in zip(ends, layers, (is_back, not is_back), strict=True):
        y = box.y + height + _GAP_ACROSS / 2
        if is_left and box.x > layer.left:
            runs.append(_Run(layer.left, box.x - _GAP_ACROSS, y))
        elif not is_left and box.x + _WIDTH < layer.right:
            runs.append(_Run(box.x + _WIDTH + _GAP_ACROSS, layer.right, y))
    return runs


def _arrow(link: Link, source: _Box, target: _Box, route: Sequence[_Run], height: float) -> Iterator[str]:
    """Yield a curve from the right side of the source, or from its left side where the target stands before it."""
    is_back = target.x < source.x
    start = _Box(source.x if is_back else source.x + _WIDTH, source.y + height / 2)
    end = _Box(target.x + _WIDTH + _ARROW if is_back else target.x - _ARROW, target.y + height / 2)
    path = [f"M{number(start.x)} {number(start.y)}"]
    at = start
    for run in route:
        near, far = (run.right, run.left) if is_back else (run.left, run.right)
        path += [_curve(at, _Box(near, run.y)), f"H{number(far)}"]
        at = _Box(far, run.y)
    path.append(_curve(at, end))
    yield f'<g class="link link-{css_class(link.kind)}">'
    if link.text:
        yield f"<title>{attribute(link.text)}</title>"
    yield f'<path class="line" d="{"".join(path)}"/>'
    tip = number(end.x - _ARROW if is_back else end.x + _ARROW)
    half = _ARROW / 2 + 0.5
    yield f'<path class="arrow" d="M{tip} {number(end.y)}L{number(end.x)} {number(end.y - half)}V{number(end.y + half)}Z"/></g>'


def _curve(start: _Box, end: _Box) -> str:
    middle = number((start.x + end.x) / 2)
    return f"C{middle} {number(start.y)} {middle} {number(end.y)} {number(end.x)} {number(end.y)}"


def _node(node: Node, box: _Box, height: float) -> Iterator[str]:
    address = local_address(node.href)
    yield f'<a href="{attribute(address)}"' if address else "<g"
    yield f' class="node node-{css_class(node.kind)}"><title>'
    yield attribute(node.title or " — ".join(one for one in (node.text, node.note) if one))
    yield f'</title><rect x="{number(box.x)}" y="{number(box.y)}" width="{number(_WIDTH)}" height="{number(height)}" rx="6"/>'
    room = _WIDTH - 2 * _PADDING
    x = number(box.x + _PADDING)
    y = box.y + (18.0 if node.note else height / 2 + 4.0)
    yield f'<text x="{x}" y="{number(y)}">{attribute(fitting(node.text, _FONT, room))}</text>'
    if node.note:
        yield f'<text class="note" x="{x}" y="{number(box.y + 34.0)}">{attribute(fitting(node.note, _NOTE_FONT, room))}</text>'
    yield "</a>" if address else "</g>"
