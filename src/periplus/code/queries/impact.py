"""Everything that depends on symbols, directly or through others. Pure but for the questions that it asks of the view."""

from __future__ import annotations

__all__ = ["DEPENDENTS_MAX", "Dependent", "Impact", "impact_of"]

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from periplus.code.queries.references import Place, places_of
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.resolver import Grade

DEPENDENTS_MAX: Final = 2_000


class Dependent(NamedTuple):
    """A symbol (or file) that depends on one of the given ones through ``via``; ``depth`` is 1 for a direct one."""

    symbol: SymbolId
    depth: int
    grade: Grade
    via: SymbolId
    line: int
    is_test: bool


class Impact(NamedTuple):
    """``dependents`` in the order of depth, through proven and likely edges; ``named`` counts the places where only the name agrees.
    ``is_cut`` where there are more than DEPENDENTS_MAX, or deeper ones than asked for.
    """

    seeds: tuple[SymbolId, ...]
    dependents: tuple[Dependent, ...]
    named: int
    is_cut: bool


def impact_of(view: CodeView, seeds: Iterable[SymbolId], *, depth_max: int = 100) -> Impact:
    """Return what depends on ``seeds``. For a file its symbols count, and the files that import it."""
    given = tuple(dict.fromkeys(seeds))
    starts = tuple(dict.fromkeys(one for seed in given for one in _expanded(view, seed)))
    seen: set[SymbolId] = set(starts)
    waiting = deque((one, 0) for one in starts)
    found: list[Dependent] = []
    named = 0
    is_cut = False
    while waiting:
        symbol, depth = waiting.popleft()
        if depth >= depth_max:
            is_cut = True
            continue
        places = places_of(view, symbol)
        if depth == 0:
            named += sum(place.grade == "named" for place in places)
        for place in _best(places):
            owner = place.owner
            if owner in seen:
                continue
            if len(found) >= DEPENDENTS_MAX:
                return Impact(given, tuple(found), named, is_cut=True)
            seen.add(owner)
            found.append(Dependent(owner, depth + 1, place.grade, symbol, place.line, is_test(view, owner)))
            if owner.name:
                waiting.append((owner, depth + 1))
    return Impact(given, tuple(found), named, is_cut)


def _expanded(view: CodeView, seed: SymbolId) -> list[SymbolId]:
    """Return a file with its symbols, a class with its members: who edits the one edits the other."""
    file = view.file(seed.path)
    if file is None:
        return [seed]
    if not seed.name:
        return [seed, *(SymbolId(seed.path, name) for name in file.qualified)]
    return [seed, *(SymbolId(seed.path, name) for name in file.qualified if name.startswith(f"{seed.name}."))]


def _best(places: Iterable[Place]) -> list[Place]:
    """Return one place for each owner, of the best grade, without those of the name alone."""
    best: dict[SymbolId, Place] = {}
    for place in places:
        known = best.get(place.owner)
        if place.grade != "named" and (known is None or (known.grade, place.grade) == ("likely", "proven")):
            best[place.owner] = place
    return list(best.values())


def is_test(view: CodeView, symbol: SymbolId) -> bool:
    """Return True for a test: by its name or annotation, in a file of tests or within a definition that is one."""
    file = view.file(symbol.path)
    if file is None or not symbol.name:
        return False
    for number in file.qualified.get(symbol.name, ()):
        at = number
        while at >= 0:
            one = file.definitions[at]
            if one.is_test and (one.kind == "test" or is_test_path(symbol.path)):
                return True
            at = one.parent
    return False


def is_test_path(path: str) -> bool:
    """Return True for the path of a file that holds tests, by the conventions of common test runners."""
    lower = path.lower()
    folders, _, base = lower.rpartition("/")
    stem = base.partition(".")[0]
    return (
        any(part in _TEST_FOLDERS for part in folders.split("/"))
        or stem.startswith(("test_", "tests_")) or stem.endswith(("_test", "_tests", "_spec")) or stem in ("test", "tests", "conftest")
        or ".test." in base or ".spec." in base or path.rpartition("/")[2].partition(".")[0].endswith(("Test", "Tests", "Spec", "IT"))
        or base.endswith(".bats")
    )  # fmt: skip


_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "unittests", "e2e"})
