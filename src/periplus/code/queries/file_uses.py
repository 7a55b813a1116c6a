"""Files that use what a file defines, and files that define what it uses, each with a weight: what few files use counts most."""

from __future__ import annotations

__all__ = ["FileUses", "uses_of_file"]

import time
from typing import Final, NamedTuple

from periplus.code.graph.encoding import FILE, NAMED_FILE, node
from periplus.code.graph.reading import GraphReading, Node
from periplus.code.queries.dependents import MENTIONS_MAX
from periplus.code.queries.impact import is_test, is_test_path
from periplus.code.queries.references import places_of
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.sources import KnownFile

_SYMBOLS_MAX: Final = 300


class FileUses(NamedTuple):
    """``users`` name what the file defines, ``used`` define what it names: paths with weights. ``tests`` name what it defines.
    ``is_cut`` where the time did not suffice for all of its symbols.
    """

    users: dict[str, float]
    used: dict[str, float]
    tests: tuple[SymbolId, ...]
    is_cut: bool = False


def uses_of_file(view: CodeView, path: str, until: float) -> FileUses:
    """Return the proven and likely uses of the file ``path`` by others and of others by it, looking until the monotonic time ``until``."""
    file = view.file(path)
    if file is None:
        return FileUses({}, {}, ())
    if view.graph is not None:
        found = _of_graph(view.graph, path)
        if found is not None:
            return found
    used = _used(view, file, until)
    users: dict[str, float] = {}
    tests: dict[SymbolId, None] = {}
    is_cut = False
    for name in list(file.qualified)[:_SYMBOLS_MAX]:
        if time.monotonic() > until:
            is_cut = True
            break
        if len(view.sources.mentioning(name.rpartition(".")[2])) > MENTIONS_MAX:
            continue  # a name that everybody uses tells little, and takes long
        places = [
            place for place in places_of(view, SymbolId(path, name)) if place.grade != "named" and place.path != path
        ]
        others = {place.path for place in places}
        for other in others:
            users[other] = users.get(other, 0.0) + 1 / len(others)
        tests.update(
            dict.fromkeys(place.owner for place in places if is_test_path(place.path) and is_test(view, place.owner))
        )
    return FileUses(users, used, tuple(tests), is_cut)


def _of_graph(graph: GraphReading, path: str) -> FileUses | None:
    """Return the uses from the graph; None where it does not have the file."""
    number = graph.store.file_id(path)
    if number is None:
        return None
    users: dict[str, float] = {}
    tests: dict[SymbolId, None] = {}
    for local in (FILE, *graph.symbols_in(number).values()):
        sources = [one for one in graph.store.users(node(number, local)) if one != number]
        for source in sources:
            other = graph.store.path(source)
            users[other] = users.get(other, 0.0) + 1 / len(sources)
            if len(sources) <= MENTIONS_MAX and is_test_path(other):
                tests.update(dict.fromkeys(_tests_in(graph, source, other, (number, local))))
    used: dict[str, float] = {}
    targets = {(edge.file, edge.local) for edge in graph.edges_from(number) if edge.file not in (NAMED_FILE, number)}
    for target, _ in targets:
        other = graph.store.path(target)
        used[other] = used.get(other, 0.0) + 1
    return FileUses(users, used, tuple(tests))


def _tests_in(graph: GraphReading, source: int, path: str, target: tuple[int, int]) -> list[SymbolId]:
    """Return the tests of the file ``source`` that name ``target``."""
    owners = {edge.owner for edge in graph.file(source).by_target.get(target, ())}
    named = [graph.name(Node(source, owner))[1] for owner in sorted(owners) if graph.flags(Node(source, owner))]
    return [SymbolId(path, name) for name in named if name]


def _used(view: CodeView, file: KnownFile, until: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for target in file.facts.targets:
        if time.monotonic() > until:
            break
        resolution = view.resolver.resolve(file.path, target)
        others = {one.path for one in resolution.found} - {file.path}
        if resolution.grade not in ("proven", "likely"):
            continue
        for other in others:
            found[other] = found.get(other, 0.0) + 1 / len(others)
    return found
