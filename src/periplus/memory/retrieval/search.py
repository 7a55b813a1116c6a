"""Get candidates from the full text, at a cost that does not grow with the store.

A small table is scored as a whole. In a large one a disjunction of common words would score a good part of it, so it
is searched in two steps. First the rarer terms of the question bring documents in, some thousands at most, and those
with the greatest weight of terms stay. Only these are scored, by the commoner terms too: with R the rare and C the
common terms

    (R AND C) OR (R NOT C)

has branches that exclude each other, so that each document's BM25 is just what the plain disjunction would give it.
Where even the rarest term is common, documents with several of the terms are asked for instead, the newest of them.
"""

from __future__ import annotations

__all__ = ["Candidate", "Filters", "Holders", "holders", "joined_by", "search", "telling", "without_parts"]

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.journal.index.connection import Connection
from periplus.memory.fulltext.index_rows import REWRITTEN, kind_token
from periplus.memory.text.synonyms import SENSE_MARK

_ENOUGH: Final = 10
_PART_LETTERS_MAX: Final = 2
_TELLING_MAX: Final = 500
_RARE_MAX: Final = 100  # a word that more documents have says little about any of them


class Filters(NamedTuple):
    """The documents that may answer. ``since`` is an RFC 3339 time or a date."""

    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    tag: str = ""
    author: str = ""
    path: str = ""
    since: str = ""
    with_ended: bool = False
    with_rewritten: bool = True  # commits that no ref reaches any more


class Candidate(NamedTuple):
    """A document that matches. ``ms`` is its time; ``label`` the terms before a colon at its beginning; ``bm25``
    grows with the match.
    """

    id: int
    item_type: str
    item_id: str
    kind: str
    part: int
    ts: str
    state: str
    confidence: int
    anchored: bool
    label: str
    bm25: float

    @property
    def ms(self) -> int:
        return self.id >> 15


class Holders(NamedTuple):
    """Some documents with a form of a word; ``is_literal`` where one of them has the word itself."""

    rows: tuple[int, ...]
    is_literal: bool


class _Reach(NamedTuple):
    """The part of a large table that is searched."""

    gathered_max: int  # documents from the rarer terms, each counted once for each of its terms
    scored_max: int


class _Table(NamedTuple):
    """A table of words, the weights of its fields, and the sizes above which only a part of it is searched."""

    name: str
    weights: str  # of body, title, path, context, day, kind, sense
    small_max: int  # documents up to which the whole table is scored
    middle_max: int  # documents up to which the reach is wide
    wide: _Reach
    narrow: _Reach


STEPS: Final = _Table(
    "words", "1.0, 2.0, 1.5, 0.3, 0.5, 0.0, 0.3", 1_500, 30_000, _Reach(6_000, 300), _Reach(1_500, 150)
)
SESSIONS: Final = _Table(
    "session_words", "1.0, 2.0, 1.5, 0.3, 0.5, 0.0, 0.3", 400, 800, _Reach(1_000, 150), _Reach(600, 100)
)
_LARGE: Final = 100_000  # in a large table the weight of a term follows from its documents alone
_FTS5_WEIGHT_MIN: Final = 1e-6  # weight of a term that half of the documents or more have
TRAIL_KINDS: Final = ("answer", "command", "commit", "prompt", "session")
_COMMON_MAX: Final = 10_000
_HELD_MAX: Final = 50  # documents that suffice to compare words
_COLUMNS: Final = "d.id, d.item_type, d.item_id, d.kind, d.part, d.ts, d.state, d.confidence, d.anchored, d.label"


def without_parts(words: Sequence[str]) -> list[str]:
    """Return ``words`` without short ones that are part of another, as the 2 of argom2id; empty where none is left out."""
    parts = [part for part in words if len(part) <= _PART_LETTERS_MAX and any(part in word != part for word in words)]
    return [word for word in words if word not in parts] if parts else []


def search(db: Connection, words: Sequence[str], filters: Filters, most: int) -> list[Candidate]:
    """At most ``most`` candidates of each table, the best first. ``filters.since`` is as documents have it."""
    kinds = _kinds(filters)
    if not words or kinds == ():
        return []
    found: list[Candidate] = []
    steps = tuple(kind for kind in kinds or () if kind != "session")
    if kinds is None or steps:
        found += _Search(db, STEPS, steps, filters).run(words, most)
    if kinds is None or "session" in kinds:
        found += _Search(db, SESSIONS, (), filters).run(words, most)
    return found


def joined_by(
    db: Connection, candidates: Sequence[Candidate], near: Mapping[int, float], filters: Filters, share: float
) -> list[Candidate]:
    """Return ``candidates`` unchanged, joined by documents that words did not find and that are ``near`` in meaning
    (by row, from 0 to 1): a perfect match of meaning gets ``share`` of the best match of words among the memories.
    """
    if not near:
        return list(candidates)
    best = max((one.bm25 for one in candidates if one.item_type != "trail"), default=1.0)
    found = {one.id for one in candidates}
    where, arguments = _conditions(filters)
    rows = db.execute(
        f"SELECT {_COLUMNS}, 0.0 FROM documents d WHERE d.id IN (SELECT value FROM json_each(?)) {where} ORDER BY d.id DESC",  # noqa: S608 - constants
        (f"[{','.join(str(row_id) for row_id in near if row_id not in found)}]", *arguments),
    ).fetchall()
    added = [Candidate(*row) for row in rows]
    return [*candidates, *(one._replace(bm25=share * best * near[one.id]) for one in added)]


def telling(db: Connection, words: Sequence[str], ends: Sequence[str], filters: Filters, most: int) -> list[str]:
    """Choose at most ``most`` of the ``words`` of a pasted text, in their order: those in ``ends``, and of the others
    those that some document has together, rare words first: one line of a log may be what it is about.
    """
    search_in = _Search(db, STEPS, (), filters)
    weights: dict[int, float] = {}
    said: dict[int, list[str]] = {}
    for word in words:
        rows = () if word in ends or word.isdigit() else search_in.rows_of(f'"{word}"', _RARE_MAX)
        weight = log(1 + _LARGE / (len(rows) + 0.5)) if len(rows) < _RARE_MAX else 0.0
        for row_id in rows if weight else ():
            weights[row_id] = weights.get(row_id, 0.0) + weight
            said.setdefault(row_id, []).append(word)
    chosen = dict.fromkeys(ends)
    best = sorted(weights, key=lambda row_id: (-weights[row_id], -row_id))[:_TELLING_MAX]
    passing = search_in.passing(best)
    for row_id in best if len(chosen) < most else ():
        if row_id in passing:
            chosen.update(dict.fromkeys(said[row_id][: max(0, most - len(chosen))]))
    return [word for word in dict.fromkeys([*words, *ends]) if word in chosen]


def holders(db: Connection, words: Sequence[str], filters: Filters) -> dict[str, Holders]:
    """Return those of ``words`` of which some document that passes ``filters`` has a form: of many given words most
    are nowhere.
    """
    kinds = _kinds(filters)
    if kinds == ():
        return {}
    steps = tuple(kind for kind in kinds or () if kind != "session")
    searches = [_Search(db, STEPS, steps, filters)] if kinds is None or steps else []
    searches += [_Search(db, SESSIONS, (), filters)] if kinds is None or "session" in kinds else []
    found: dict[str, Holders] = {}
    for one in searches:
        for word in words:
            rows = one.rows_of(f'"{word}"', _HELD_MAX)
            if rows and word not in found and (passing := one.passing(rows)):
                found[word] = Holders(tuple(rows), one.has_literally(word, passing))
    return found


def _kinds(filters: Filters) -> tuple[str, ...] | None:
    """Return the kinds of documents that may answer; None for any."""
    if not filters.types:
        return filters.kinds or None
    allowed = [kind for name in filters.types for kind in (TRAIL_KINDS if name == "trail" else (name,))]
    return tuple(dict.fromkeys(kind for kind in allowed if not filters.kinds or kind in filters.kinds))


def _known_common(db: Connection) -> dict[tuple[str, str, str], int]:
    """Return the terms (by table and scope) known to be in many documents, as long as the index does not change."""
    state = (db.execute("PRAGMA data_version").fetchone()[0], db.total_changes)
    if db.common is None or db.common[0] != state or len(db.common[1]) > _COMMON_MAX:
        db.common = (state, {})
    return db.common[1]


class _Search:
    """A search in one table."""

    def __init__(self, db: Connection, table: _Table, kinds: tuple[str, ...], filters: Filters) -> None:
        self._db = db
        self._table = table
        self._kinds = kinds
        self._scope = " OR ".join(f'kind : "{kind_token(kind)}"' for kind in kinds)
        self._where, self._arguments = _conditions(filters)

    def run(self, words: Sequence[str], most: int) -> list[Candidate]:
        terms = [f'"{word}"' for word in words]
        table = self._table
        size = self._size()
        if not size:
            return []
        if size <= table.small_max:
            return self._all(terms, size, most)
        if size > table.middle_max:  # synonym groups are common there: counting them costs more than the words do
            terms = [term for term in terms if not term.startswith(f'"{SENSE_MARK}')] or terms
        return self._gathered(terms, table.wide if size <= table.middle_max else table.narrow, most)

    def _all(self, terms: list[str], size: int, most: int) -> list[Candidate]:
        """Return every document with any of the terms, in a small table.

        FTS5 gives no weight to a term that stands in half of the documents, which in a small store are the very words
        that it is about. So each term is asked for alone, and weighted by ln(1 + (N - n + 0.5) / (n + 0.5)).
        """
        name, scores = self._table.name, dict[int, float]()
        for term in terms:
            rows = self._db.execute(
                f"SELECT rowid, -bm25({name}, {self._table.weights}) FROM {name} WHERE {name} MATCH ?",  # noqa: S608 - constants
                (term,),
            ).fetchall()
            odds = (size - len(rows) + 0.5) / (len(rows) + 0.5)
            weight = log(1 + odds) / (log(odds) if odds > 1 else _FTS5_WEIGHT_MIN)
            for row_id, score in rows:
                scores[row_id] = scores.get(row_id, 0.0) + score * weight
        scoped = f" AND d.kind IN ({', '.join('?' * len(self._kinds))})" if self._kinds else ""
        found = self._db.execute(
            f"SELECT {_COLUMNS}, 0.0 FROM documents d WHERE d.id IN (SELECT value FROM json_each(?)) {scoped} {self._where}",  # noqa: S608 - constants
            (f"[{','.join(map(str, scores))}]", *self._kinds, *self._arguments),
        ).fetchall()
        ranked = [Candidate._make((*row[:-1], scores[row[0]])) for row in found]
        return sorted(ranked, key=lambda one: (-one.bm25, -one.id))[:most]

    def _gathered(self, terms: list[str], reach: _Reach, most: int) -> list[Candidate]:
        """Return the best of the documents that the rarer terms bring in, in a large table."""
        table = self._table
        common_known = _known_common(self._db)
        held = {term: self._documents_of(term, reach.gathered_max, common_known) for term in terms}
        counted = sorted((len(rows), at, term) for at, (term, rows) in enumerate(held.items()))
        rare: list[str] = []
        left = reach.gathered_max
        for count, _, term in counted:
            if count < left:
                left -= count
                rare.append(term)
        common = [term for count, _, term in counted if count < reach.gathered_max and term not in rare]
        if rare:
            gathered = self._most_terms([held[term] for term in rare], reach)
        else:
            rare = [self._several([term for _, _, term in counted], reach)]
            gathered = self._newest(rare[0], reach)
        some, others = " OR ".join(rare), " OR ".join(common)
        match = f"(({some}) AND ({others})) OR (({some}) NOT ({others}))" if common else some
        scored = self._db.execute(  # constants and question marks only; terms are quoted and hold no quote
            f"SELECT -bm25({table.name}, {table.weights}), rowid FROM {table.name}"  # noqa: S608
            f" WHERE {table.name} MATCH ? AND +rowid IN (SELECT value FROM json_each(?))",
            (match, f"[{','.join(map(str, gathered))}]"),
        ).fetchall()
        scored.sort(reverse=True)
        best = scored[:most]
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM documents d WHERE d.id IN ({', '.join('?' * len(best))})",  # noqa: S608 - question marks
            [row_id for _, row_id in best],
        ).fetchall()
        documents = {row[0]: row for row in rows}
        return [Candidate(*(*documents[row_id], bm25)) for bm25, row_id in best if row_id in documents]

    def rows_of(self, match: str, most: int) -> list[int]:
        """Return at most ``most`` documents that match."""
        name = self._table.name
        found = self._db.execute(
            f"SELECT rowid FROM {name} WHERE {name} MATCH ? LIMIT ?",  # noqa: S608 - a constant
            (self._scoped(match), most),
        ).fetchall()
        return [row_id for (row_id,) in found]

    def passing(self, row_ids: Sequence[int]) -> set[int]:
        """Return those of some documents that pass the filters."""
        found = self._db.execute(
            f"SELECT d.id FROM documents d WHERE d.id IN (SELECT value FROM json_each(?)) {self._where}",  # noqa: S608 - constants
            (f"[{','.join(map(str, row_ids))}]", *self._arguments),
        ).fetchall()
        return {row_id for (row_id,) in found}

    def has_literally(self, word: str, row_ids: Iterable[int]) -> bool:
        """Return True where one of some documents has ``word`` itself among its words."""
        name = self._table.name
        row = self._db.execute(
            "SELECT 1 FROM " + name + " WHERE rowid IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
            " AND instr(' ' || body || ' ' || title || ' ' || path || ' ' || context || ' ', ?) LIMIT 1",
            (f"[{','.join(map(str, row_ids))}]", f" {word} "),
        ).fetchone()
        return row is not None

    def _documents_of(self, term: str, most: int, common: dict[tuple[str, str, str], int]) -> Sequence[int]:
        """Return the documents that match, or an unusable number of them where there are more than ``most``."""
        key = (self._table.name, self._scope, term)
        if most <= common.get(key, 0):
            return range(most)
        found = self.rows_of(term, most)
        if len(found) < most:
            return found
        common[key] = most
        return range(most)

    def _most_terms(self, held: list[Sequence[int]], reach: _Reach) -> list[int]:
        """Return the documents with the greatest weight of terms, the newest of equals; ``held`` are those of each
        term.
        """
        weights: dict[int, float] = {}
        for rows in held:
            weight = log(1 + _LARGE / (len(rows) + 0.5))
            if weights:
                weights.update([(row_id, weights.get(row_id, 0.0) + weight) for row_id in rows])
            else:
                weights = dict.fromkeys(rows, weight)
        if self._where:
            passing = self.passing([*weights])
            weights = {row_id: weight for row_id, weight in weights.items() if row_id in passing}
        ranked = sorted(weights, reverse=True)
        ranked.sort(key=weights.__getitem__, reverse=True)
        return ranked[: reach.scored_max]

    def _newest(self, match: str, reach: _Reach) -> list[int]:
        """Return the newest of the documents that match, filtered one by one: they are many."""
        name = self._table.name
        passing = ""
        if self._where:
            passing = f"AND EXISTS (SELECT 1 FROM documents d WHERE d.id = {name}.rowid {self._where})"  # noqa: S608 - constants
        rows = self._db.execute(
            f"SELECT rowid FROM {name} WHERE {name} MATCH ? {passing} ORDER BY rowid DESC LIMIT ?",  # noqa: S608 - constants
            (self._scoped(match), *self._arguments, reach.scored_max),
        ).fetchall()
        return [row_id for (row_id,) in rows]

    def _scoped(self, match: str) -> str:
        return f"({self._scope}) AND ({match})" if self._scope else match

    def _count(self, match: str, most: int) -> int:
        """Count the documents that match, up to ``most``."""
        name = self._table.name
        row = self._db.execute(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {name} WHERE {name} MATCH ? LIMIT ?)",  # noqa: S608 - a constant
            (self._scoped(match), most),
        ).fetchone()
        return int(row[0])

    def _size(self) -> int:
        """Return the number of documents in the table: the first number of the record in which FTS5 keeps its
        averages.
        """
        row = self._db.execute(f"SELECT block FROM {self._table.name}_data WHERE id = 1").fetchone()  # noqa: S608 - a constant
        size = 0
        for byte in bytes(row[0]) if row else b"":
            size = size << 7 | byte & 0x7F
            if byte < 0x80:
                break
        return size

    def _several(self, terms: list[str], reach: _Reach) -> str:
        """Return an expression for so many of the terms at once, the rarest first, that few documents have them all."""
        chosen = terms[0]
        for term in terms[1:]:
            narrower = f"{chosen} AND {term}"
            count = self._count(narrower, reach.gathered_max)
            if count < _ENOUGH:
                break
            chosen = narrower
            if count < reach.gathered_max:
                break
        return f"({chosen})"


def _conditions(filters: Filters) -> tuple[str, list[str]]:
    where, arguments = "", list[str]()
    for column, values in (("item_type", filters.types), ("kind", filters.kinds)):
        if values:
            where += f" AND d.{column} IN ({', '.join('?' * len(values))})"
            arguments += values
    if not filters.with_rewritten:
        where += f" AND d.state <> '{REWRITTEN}'"
    if filters.since:
        where += " AND d.ts >= ?"
        arguments.append(filters.since)
    if filters.path:
        path = filters.path.rstrip("/") or filters.path
        where += (" AND EXISTS (SELECT 1 FROM touched t WHERE t.item_type = d.item_type AND t.item_id = d.item_id"
                  " AND (t.part = d.part OR d.kind NOT IN ('commit', 'session') AND t.part < 0)"
                  " AND (t.path = ? OR t.path LIKE ? ESCAPE '\\' OR t.path LIKE ? ESCAPE '\\'))")  # fmt: skip
        arguments += [path, f"{_escaped(path)}/%", f"%/{_escaped(path)}"]
    return where, arguments


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
