"""Symbols by a name as people type it, and by what they do."""

from __future__ import annotations

__all__ = ["SearchHit", "find_symbols", "make_searchable", "search_symbols", "unsearchable_count"]

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from periplus.code.index.database import joined_path
from periplus.code.model import decode_facts
from periplus.code.queries.impact import is_test_path
from periplus.code.queries.symbol_text import Symbol, doc_of, symbol_of
from periplus.code.queries.view import CodeView, utf8_text
from periplus.code.resolution.sources import KnownFile
from periplus.code.search import name_index
from periplus.code.search.name_match import name_query, scope_distance

NAMES_MAX: Final = 300
SYMBOLS_MAX: Final = 2_000
_ROW_SHIFT: Final = 17  # a file has at most 50,000 symbols
_BLOBS_PER_WRITE: Final = 100
_MENTIONS_COUNTED: Final = 400
_TEST_FACTOR: Final = 0.7


class SearchHit(NamedTuple):
    """A symbol that a question found; ``score`` counts only beside others of the same question."""

    symbol: Symbol
    score: float


class _Candidate(NamedTuple):
    rank: tuple[object, ...]
    file: KnownFile
    number: int


def find_symbols(
    view: CodeView, typed: str, only: tuple[str, str, str], page: tuple[int, int]
) -> tuple[tuple[Symbol, ...], int]:
    """Return a page of the symbols that ``typed`` may mean, the best first, and how many there are (at most SYMBOLS_MAX).
    ``only`` names kind, path and language, each empty for any.
    """
    query = name_query(utf8_text(typed))
    database = view.database
    if database.execute("SELECT 1 FROM name WHERE is_defined = 1 LIMIT 1").fetchone() is not None:
        with database.write():
            name_index.read_names(database.connection)
    found: list[_Candidate] = []
    for match in name_index.find_names(database.connection, query.name, NAMES_MAX):
        mentions = _mentions(view, match.name)
        for path, number in view.sources.defining(match.name):
            file = view.file(path)
            if file is None or not _is_wanted(file, number, only):
                continue
            one = file.definitions[number]
            distance = scope_distance(
                query, f"{file.facts.package}.{one.qualified}" if file.facts.package else one.qualified, path
            )
            if distance is None:
                continue
            is_test = one.is_test or is_test_path(path)
            rank = (
                match.match.grade,
                distance,
                is_test,
                not one.is_exported,
                match.match.left,
                -mentions,
                path,
                number,
            )
            found.append(_Candidate(rank, file, number))
        if len(found) >= SYMBOLS_MAX:
            break
    found.sort(key=lambda one: one.rank)
    offset, limit = page
    return tuple(symbol_of(view, one.file, one.number) for one in found[offset : offset + limit]), len(found)


def _is_wanted(file: KnownFile, number: int, only: tuple[str, str, str]) -> bool:
    kind, path, language = only
    return (
        kind in ("", file.definitions[number].kind)
        and language in ("", file.facts.language)
        and (not path or file.path == path or file.path.startswith(f"{path}/"))
    )


def _mentions(view: CodeView, name: str) -> int:
    """Return the number of contents that mention ``name``, up to a limit."""
    found: int = view.database.execute(
        "SELECT count(*) FROM (SELECT 1 FROM mention WHERE name = (SELECT id FROM name WHERE text = ?) LIMIT ?)",
        (name, _MENTIONS_COUNTED),
    ).fetchone()[0]
    return found


# -- by meaning ----------------------------------------------------------------------------------------------------------


def unsearchable_count(view: CodeView) -> int:
    """Return the number of files whose symbols are not in the search table."""
    found: int = view.database.execute(
        "SELECT count(DISTINCT e.blob) FROM entry e JOIN blob b ON b.id = e.blob WHERE e.view = ? AND b.symbols > 0"
        " AND e.blob NOT IN (SELECT blob FROM searchable)",
        (view.id,),
    ).fetchone()[0]
    return found


def make_searchable(view: CodeView, deadline: float, progress: Callable[[int, int], None] | None = None) -> int:
    """Bring the search table up to date until ``deadline`` (monotonic); return the number of files that are left."""
    from periplus.code.search.symbol_index import add_documents

    waiting = view.database.execute(
        "SELECT e.blob, min(f.path), e.name FROM entry e JOIN blob b ON b.id = e.blob JOIN folder f ON f.id = e.folder"
        " WHERE e.view = ? AND b.symbols > 0 AND e.blob NOT IN (SELECT blob FROM searchable) GROUP BY e.blob",
        (view.id,),
    ).fetchall()
    total = len(waiting)
    done = 0
    while done < total:
        rows = waiting[done : done + _BLOBS_PER_WRITE]
        documents = [document for row in rows for document in _documents(view, *row)]
        with view.database.write():
            known = {row[0] for row in rows if _is_searchable(view, row[0])}  # another process may search, too
            add_documents(view.database.connection, (one for one in documents if one[0] >> _ROW_SHIFT not in known))
            view.database.executemany("INSERT OR IGNORE INTO searchable VALUES (?)", [(row[0],) for row in rows])
        done += len(rows)
        if progress is not None:
            progress(done, total)
        if time.monotonic() > deadline:
            break
    return max(0, total - done)


def _is_searchable(view: CodeView, blob: int) -> bool:
    return view.database.execute("SELECT 1 FROM searchable WHERE blob = ?", (blob,)).fetchone() is not None


def _documents(view: CodeView, blob: int, folder: str | bytes, name: str | bytes) -> list[tuple[int, str]]:
    from periplus.code.search.documents import SymbolText, document_of

    path = joined_path(folder, name)
    (facts,) = view.database.execute("SELECT facts FROM blob WHERE id = ?", (blob,)).fetchone()
    file = KnownFile(path, decode_facts(facts))
    data = view.text(path)
    found = []
    for number, one in enumerate(file.definitions):
        source = data[one.start_byte : one.end_byte].decode("utf-8", "replace")
        head = data[one.head_byte : one.body_byte].decode("utf-8", "replace")
        text = SymbolText(one.name, one.qualified, one.kind, "", head, doc_of(data, one), source)
        found.append((blob << _ROW_SHIFT | number, document_of(text)))
    return found


def search_symbols(view: CodeView, question: str, only: tuple[str, str, str], page: tuple[int, int]) -> list[SearchHit]:
    """Return a page of the symbols that ``question`` describes, the best first; tests count less."""
    from periplus.code.search.symbol_index import search

    kind, path, language = only
    places: dict[int, str] = {}

    def standing(rows: Sequence[int]) -> dict[int, float]:
        found: dict[int, float] = {}
        for row in rows:
            place = _place(view, row >> _ROW_SHIFT, places)
            if place and (not path or place == path or place.startswith(f"{path}/")):
                file = view.file(place)
                if file is not None and _is_wanted(file, row & (1 << _ROW_SHIFT) - 1, (kind, path, language)):
                    found[row] = _TEST_FACTOR if is_test_path(place) else 1.0
        return found

    offset, limit = page
    hits = search(view.database.connection, utf8_text(question), offset + limit, standing)
    found = []
    for hit in hits[offset:]:
        file = view.file(places[hit.row >> _ROW_SHIFT])
        if file is not None:
            found.append(SearchHit(symbol_of(view, file, hit.row & (1 << _ROW_SHIFT) - 1), hit.score))
    return found


def _place(view: CodeView, blob: int, known: dict[int, str]) -> str:
    """Return the first path of the view with this content; empty where none has it."""
    if blob not in known:
        rows = view.database.execute(
            "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder WHERE e.blob = ? AND e.view = ?",
            (blob, view.id),
        )
        known[blob] = min((joined_path(folder, name) for folder, name in rows), default="")
    return known[blob]
