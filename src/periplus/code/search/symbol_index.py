"""Search index of symbols: their documents in a full-text table, and the search in it.

The table is FTS5 without contents, positions and columns. Everything but the postings comes from FTS5's own records:
the number of terms of each document, and the totals over all. A document that is no longer wanted either is deleted
with its terms or stays: the caller's ``standing`` leaves it out.

A search reads the rows of each asked word, field by field, and adds up the evidence. Words that very many symbols
hold only add to symbols that other words brought in: reading all of their rows costs more than they tell.
"""

from __future__ import annotations

__all__ = ["SCHEMA", "Standing", "add_documents", "delete_document", "search"]

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.code.search.documents import FIELDS
from periplus.code.search.ranking import (
    FIELD_WEIGHTS,
    OTHER_WORD,
    AskedWord,
    Evidence,
    Hit,
    asked_words,
    in_order,
    rank,
    rarity,
    rough_scores,
)

if TYPE_CHECKING:
    import sqlite3

_TOKENS: Final = "tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M*'\""
SCHEMA: Final = (
    f"CREATE VIRTUAL TABLE symbol_words USING fts5(terms, content='', detail=none, {_TOKENS})",
    "CREATE VIRTUAL TABLE symbol_vocabulary USING fts5vocab('symbol_words', 'row')",
)
_FETCHED_MAX: Final[Mapping[str, int]] = {"n": 5_000, "s": 5_000, "r": 2_000}  # rows of one word in one field
_LEADING_MAX: Final = 1_000  # symbols that a common word may add to
_RANKED_MAX: Final = 400
_SPELLED_MAX: Final = 20_000  # terms of the index that a misspelled word is compared with
_SPELLED_CHARACTERS_MIN: Final = 5
_ROWS: Final = "SELECT rowid FROM symbol_words WHERE symbol_words MATCH ? LIMIT ?"
_ROWS_AMONG: Final = (
    "SELECT rowid FROM symbol_words WHERE symbol_words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))"
)

Standing: TypeAlias = "Callable[[Sequence[int]], Mapping[int, float]]"


class _Rows(NamedTuple):
    """Rows to be read: of the asked word at that place, with the weight of the evidence."""

    word: int
    match: str
    weight: float
    most: int


def add_documents(db: sqlite3.Connection, documents: Iterable[tuple[int, str]]) -> None:
    """Add documents (``documents.document_of``) under the numbers of their symbols, which must not have one yet."""
    db.executemany("INSERT INTO symbol_words(rowid, terms) VALUES (?, ?)", documents)


def delete_document(db: sqlite3.Connection, row: int, document: str) -> None:
    """Delete a document, which must be the very one that was added."""
    db.execute("INSERT INTO symbol_words(symbol_words, rowid, terms) VALUES ('delete', ?, ?)", (row, document))


def search(db: sqlite3.Connection, question: str, most: int, standing: Standing | None = None) -> list[Hit]:
    """Return at most ``most`` symbols for ``question``, the best first.

    ``standing`` gives for numbers of symbols those that may be shown, each with a factor for its score. Documents are
    found from the commit of their transaction on: FTS5 writes its totals then.
    """
    documents, mean_length = _totals(db)
    words = asked_words(question)
    if not documents or not words:
        return []
    found = _evidence(db, _spelled(db, words), documents)
    rough = rough_scores(found)
    ranked: list[Hit] = []
    for some in _in_turn(rough):
        factors = dict.fromkeys(some, 1.0) if standing is None else standing(some)
        standing_rows = [row for row in some if factors.get(row)]
        scored = rank(found, _lengths(db, standing_rows), mean_length)
        ranked += [hit._replace(score=hit.score * factors[hit.row]) for hit in scored]
        if len(ranked) >= most:
            break
    return in_order(ranked)[:most]


def _in_turn(rough: Mapping[int, float]) -> Iterator[list[int]]:
    """Yield the symbols in groups, those with the highest rough scores first."""
    first = _leading(rough, _RANKED_MAX)
    yield first
    if len(rough) > len(first):  # seldom asked for: the first were not enough
        others = sorted(rough, key=lambda row: (-rough[row], row))
        for begin in range(_RANKED_MAX, len(others), _RANKED_MAX):
            yield others[begin : begin + _RANKED_MAX]


def _leading(rough: Mapping[int, float], most: int) -> list[int]:
    """Return the symbols with the highest rough scores, of equals those with the lowest numbers."""
    if len(rough) > most:
        least = sorted(rough.values(), reverse=True)[most - 1]
        rough = {row: score for row, score in rough.items() if score >= least}
    return sorted(rough, key=lambda row: (-rough[row], row))[:most]


def _evidence(db: sqlite3.Connection, words: Sequence[AskedWord], documents: int) -> list[Evidence]:
    """Return the evidence for each word; common words are read last, and only for the symbols that lead by then."""
    held: list[dict[int, float]] = [{} for _ in words]
    holders = [0] * len(words)
    late: list[_Rows] = []
    for at, word in enumerate(words):
        for field in FIELDS:
            for match, weight in _matches(word, field):
                rows = _Rows(at, match, weight * FIELD_WEIGHTS[field], _FETCHED_MAX[field])
                read = _fetch(db, rows.match, rows.most + 1)
                if len(read) <= rows.most:
                    _add(held[at], read, rows.weight)
                elif weight == 1 or field != "r":  # other words in the rest tell too little for their number
                    late.append(rows)
                if weight == 1:
                    holders[at] += len(read) if len(read) <= rows.most else _count(db, rows.match)
    weights = [word.weight * rarity(count, documents) for word, count in zip(words, holders, strict=True)]
    found = [Evidence(weight, rows) for weight, rows in zip(weights, held, strict=True)]
    if late:
        _add_late(db, late, held, found)
    return found


def _add_late(
    db: sqlite3.Connection, late: Sequence[_Rows], held: Sequence[dict[int, float]], found: Sequence[Evidence]
) -> None:
    rough = rough_scores(found)
    if not rough:  # nothing but common words: the first of the symbols that hold them in the strongest field
        for one in sorted(late, key=lambda one: -one.weight)[:1]:
            rough = dict.fromkeys(_fetch(db, one.match, one.most), 0.0)
    listed = _listed(_leading(rough, _LEADING_MAX))
    for one in late:
        rows = db.execute(_ROWS_AMONG, (one.match, listed)).fetchall()
        _add(held[one.word], [row for (row,) in rows], one.weight)


def _matches(word: AskedWord, field: str) -> list[tuple[str, float]]:
    """Return the expressions for the word itself and for other words where it is not, with their weights."""
    own = f'"{field}{word.root}"'
    if not word.others:
        return [(own, 1.0)]
    others = " OR ".join(f'"{field}{other}"' for other in word.others)
    return [(own, 1.0), (f"({others}) NOT {own}", OTHER_WORD)]


def _add(held: dict[int, float], rows: Iterable[int], weight: float) -> None:
    for row in rows:
        held[row] = held.get(row, 0.0) + weight


def _fetch(db: sqlite3.Connection, match: str, most: int) -> list[int]:
    return [row for (row,) in db.execute(_ROWS, (match, most)).fetchall()]


def _count(db: sqlite3.Connection, match: str) -> int:
    return int(db.execute("SELECT COUNT(*) FROM symbol_words WHERE symbol_words MATCH ?", (match,)).fetchone()[0])


def _listed(rows: Iterable[int]) -> str:
    return f"[{','.join(map(str, rows))}]"


def _spelled(db: sqlite3.Connection, words: Sequence[AskedWord]) -> list[AskedWord]:
    """Return the words, those that no document holds under any name replaced by the nearest that one holds."""
    found: list[AskedWord] = []
    for word in words:
        near = ""
        if len(word.root) >= _SPELLED_CHARACTERS_MIN and not any(
            _fetch(db, match, 1) for field in FIELDS for match, _ in _matches(word, field)
        ):
            near = _nearest(db, word.root)
        found.append(next(iter(asked_words(near)), word) if near else word)
    return found


def _nearest(db: sqlite3.Connection, root: str) -> str:
    """Return the term of a name or summary, with the same first letter, that is one or two edits away; the one that
    most documents hold of those with the fewest edits.
    """
    from periplus.code.search.name_match import edits_allowed, edits_between

    allowed = edits_allowed(root)
    near: list[tuple[int, int, str]] = []
    for field in ("n", "s"):
        begin = f"{field}{root[0]}"
        terms = db.execute(
            "SELECT term, doc FROM symbol_vocabulary WHERE term >= ? AND term < ? LIMIT ?",
            (begin, begin + "\U0010ffff", _SPELLED_MAX),
        )
        for term, count in terms:
            if abs(len(term) - 1 - len(root)) <= allowed:
                edits = edits_between(root, term[1:], allowed)
                if edits <= allowed:
                    near.append((edits, -count, term[1:]))
    return min(near)[2] if near else ""


def _lengths(db: sqlite3.Connection, rows: Iterable[int]) -> dict[int, int]:
    """Return the number of terms of each document."""
    found = db.execute(
        "SELECT id, sz FROM symbol_words_docsize WHERE id IN (SELECT value FROM json_each(?))", (_listed(rows),)
    ).fetchall()
    return {row: next(iter(_numbers(size)), 0) for row, size in found}


def _totals(db: sqlite3.Connection) -> tuple[int, float]:
    """Return the number of documents and their mean length: the first record of FTS5 holds both totals."""
    record = db.execute("SELECT block FROM symbol_words_data WHERE id = 1").fetchone()
    numbers = _numbers(record[0]) if record is not None else []
    if len(numbers) < 2 or not numbers[0]:
        return 0, 0.0
    return numbers[0], numbers[1] / numbers[0]


def _numbers(data: bytes) -> list[int]:
    """Return numbers in the form of SQLite: seven bits a byte, the highest first, the last byte below 128."""
    found, number = list[int](), 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            found.append(number)
            number = 0
    return found
