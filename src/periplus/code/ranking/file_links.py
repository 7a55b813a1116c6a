"""Links between the files of a view: from the graph or, where it is not up to date, from names that few files define."""

from __future__ import annotations

__all__ = ["FileLinks", "file_links"]

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from periplus.code.graph.encoding import decode_links
from periplus.code.index.database import joined_path
from periplus.code.queries.view import CodeView
from periplus.code.ranking.page_rank import Links

BACK: Final = 0.6  # of the weight from a file to what it uses, the part in the other direction
_DEFINERS_MAX: Final = 2
_MENTIONERS_MAX: Final = 200


class FileLinks(NamedTuple):
    """The parsed files in the order of their paths, and for each its neighbours; `page_rank` takes them."""

    paths: list[str]
    links: Links


def file_links(view: CodeView) -> FileLinks:
    """Return the links of the files of ``view``."""
    graph = view.graph
    if graph is not None:
        rows = graph.store.links()
        numbers = {number: at for at, (number, _, _) in enumerate(rows)}
        pairs = (
            (numbers[number], numbers[target], weight)
            for number, _, data in rows
            for target, weight in decode_links(data)
            if target in numbers
        )
        return FileLinks([path for _, path, _ in rows], _both_ways(len(rows), pairs))
    files = sorted(
        (joined_path(folder, name), blob)
        for folder, name, blob in view.database.execute(
            "SELECT f.path, e.name, e.blob FROM entry e JOIN folder f ON f.id = e.folder JOIN blob b ON b.id = e.blob"
            " WHERE e.view = ? AND b.facts IS NOT NULL",
            (view.id,),
        )
    )
    places: dict[int, list[int]] = defaultdict(list)
    for at, (_, blob) in enumerate(files):
        places[blob].append(at)
    rows_by_name = view.database.execute(
        "SELECT d.blob, m.blob FROM (SELECT name, blob FROM definition WHERE name IN (SELECT name FROM definition GROUP BY name"
        " HAVING count(DISTINCT blob) <= ?)) d JOIN mention m ON m.name = d.name WHERE d.name IN"
        " (SELECT name FROM mention GROUP BY name HAVING count(*) <= ?)",
        (_DEFINERS_MAX, _MENTIONERS_MAX),
    )
    shared = (
        (user, definer, 1)
        for defining, using in rows_by_name
        for definer in places.get(defining, ())
        for user in places.get(using, ())
    )
    return FileLinks([path for path, _ in files], _both_ways(len(files), shared))


def _both_ways(count: int, pairs: Iterable[tuple[int, int, int]]) -> Links:
    """Return links in both directions; a file that names another often is not tied to it in proportion."""
    total: dict[tuple[int, int], int] = defaultdict(int)
    for source, target, weight in pairs:
        if source != target:
            total[source, target] += weight
    weights: list[dict[int, float]] = [{} for _ in range(count)]
    for (source, target), times in total.items():
        part = math.log2(1 + times)
        weights[source][target] = weights[source].get(target, 0.0) + part
        weights[target][source] = weights[target].get(source, 0.0) + BACK * part
    found: list[list[tuple[int, float]]] = []
    for held in weights:
        whole = sum(held.values())
        found.append([(other, held_part / whole) for other, held_part in sorted(held.items())])
    return found
