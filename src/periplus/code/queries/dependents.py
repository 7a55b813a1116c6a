"""Symbols that depend directly on one symbol, counted: how much a change of its signature reaches."""

from __future__ import annotations

__all__ = [
    "MENTIONS_MAX",
    "Dependents",
    "changed_heads",
    "dependents_of",
    "dependents_text",
    "in_order",
    "most_dependents",
]

import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from periplus.code.index.glance import HEADED
from periplus.code.model import KINDS
from periplus.code.queries.edited_text import changed_lines, heads_changed
from periplus.code.queries.impact import is_test, is_test_path
from periplus.code.queries.references import places_of
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.sources import KnownFile

MENTIONS_MAX: Final = 300  # files that mention the name; of a commoner one the answer takes too long
_SYMBOLS_MAX: Final = 200
_KINDS: Final = frozenset(KINDS[number] for number in HEADED)


class Dependents(NamedTuple):
    """The symbols (or files) that name ``symbol``, proven or likely: ``elsewhere`` of them in other packages, and ``tests``.
    ``calls`` is True where all of them call it.
    """

    symbol: SymbolId
    total: int
    elsewhere: int
    tests: int
    calls: bool


def dependents_of(view: CodeView, symbol: SymbolId) -> Dependents | None:
    """Return the direct dependents of ``symbol``; None where it is not there, or more than MENTIONS_MAX files mention its name."""
    known = view.definition(symbol)
    name = symbol.name.rpartition(".")[2]
    if known is None or len(view.sources.mentioning(name)) > MENTIONS_MAX:
        return None
    home = _package(known[0])
    owners: dict[SymbolId, bool] = {}
    for place in places_of(view, symbol):
        owner = place.owner
        is_inside = owner.path == symbol.path and f"{owner.name}.".startswith(f"{symbol.name}.")
        if place.grade != "named" and place.role != "import" and not is_inside:
            owners[owner] = owners.get(owner, False) or place.role == "call"
    tests = {owner for owner in owners if is_test_path(owner.path) or is_test(view, owner)}
    files = {owner: view.file(owner.path) for owner in owners.keys() - tests}
    elsewhere = sum(file is not None and _package(file) != home for file in files.values())
    return Dependents(symbol, len(owners), elsewhere, len(tests), bool(owners) and all(owners.values()))


def most_dependents(view: CodeView, path: str, count: int, until: float) -> list[Dependents]:
    """Return for the exported symbols of a file with the most dependents what depends on them, looking until the monotonic time ``until``.
    None for a file of tests.
    """
    file = view.file(path)
    if file is None or is_test_path(path):
        return []
    symbols = [
        SymbolId(path, one.qualified)
        for one in file.definitions
        if one.is_exported and not one.is_test and one.kind in _KINDS and one.ordinal == 0
    ]
    return in_order(view, symbols[:_SYMBOLS_MAX], until)[:count]


def in_order(view: CodeView, symbols: Iterable[SymbolId], until: float) -> list[Dependents]:
    """Return the dependents of ``symbols`` that have any, those with the most first; as far as ``until`` suffices."""
    found: list[Dependents] = []
    for symbol in symbols:
        if time.monotonic() > until:
            break
        one = dependents_of(view, symbol)
        if one is not None and one.total:
            found.append(one)
    return sorted(found, key=lambda one: (-one.total, one.symbol))


def changed_heads(view: CodeView, path: str, before: str, after: str) -> list[SymbolId]:
    """Return the symbols of the file ``path``, whose text is ``before``, whose signatures are others in ``after``, or gone."""
    file = view.file(path)
    data = before.encode()
    if file is None or view.text(path) != data:
        return []
    lines = changed_lines(before.split("\n"), after.split("\n"))
    if lines is None:
        return []
    symbols: list[SymbolId] = []
    heads: list[str] = []
    for one in file.definitions:
        if one.kind not in _KINDS or one.is_test or one.end_line < lines[0] or one.start_line > lines[1]:
            continue
        head = data[one.head_byte : one.body_byte]
        if one.body_byte >= one.end_byte:
            head = head.partition(b"\n")[0]
        if one.start_line + head.count(b"\n") + data.count(b"\n", one.start_byte, one.head_byte) < lines[0]:
            continue  # only its body changes
        symbols.append(SymbolId(path, one.qualified, one.ordinal))
        heads.append((head + _opening(data, one.body_byte)).decode("utf-8", "replace"))
    return [
        symbol for symbol, is_changed in zip(symbols, heads_changed(heads, before, after), strict=True) if is_changed
    ]


def dependents_text(one: Dependents) -> str:
    """Return ``called by 14, 3 of them in other packages and 5 in tests``."""
    parts = [f"{one.elsewhere:,} of them in other packages"] if one.elsewhere else []
    parts += [f"{one.tests:,} {'in' if parts else 'of them in'} tests"] if one.tests else []
    return f"{'called' if one.calls else 'used'} by {one.total:,}{', ' if parts else ''}{' and '.join(parts)}"


def _opening(data: bytes, at: int) -> bytes:
    """Return the bracket or sign that ends a signature in languages that have one: behind it a type that is added is a change."""
    return data[at : at + 1] if data[at : at + 1] in (b"{", b"=") else b""


def _package(file: KnownFile) -> str:
    return file.facts.package or file.path.rpartition("/")[0]
