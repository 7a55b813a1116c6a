"""Recall: what of all that is known answers a question, with why, how fresh and where it is written down.

Candidates come from the full text: documents with all of the question's terms first, with any of them when those are
too few (a disjunction of common words is what makes full-text search slow). The score of a candidate is

    BM25 over its fields  ×  weight of its type and state  ×  freshness  +  0.3 × the score of its session

with the words around it and its date as weaker fields. A hit by id or by path comes before all others. The order is
total: score, then newer, then id; the same store and question give the same answer.
"""

from __future__ import annotations

__all__ = ["SURROUNDINGS", "Filters", "Hit", "Recall", "evidence_of", "file_digest", "hit_of", "recall", "stale_paths"]

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

from periplus.base.clock import parse_ms
from periplus.base.digests import sha256
from periplus.base.ids import is_id
from periplus.base.tokens import estimate_tokens
from periplus.journal import Entity, Journal
from periplus.memory.analysis import query_terms
from periplus.memory.types import MEMORY_TYPES

SURROUNDINGS: Final = ("its surroundings match",)
CANDIDATES_MAX: Final = 300
ENOUGH: Final = 10
_FIELD_WEIGHTS: Final = "1.0, 2.0, 1.5, 0.3, 0.5"  # body, title, path, context, day
_SESSION_SHARE: Final = 0.3
_ENDED_FACTOR: Final = 0.3
_STALE_FACTOR: Final = 0.6
_HALF_LIFE_MS: Final = 180 * 86_400_000
_KIND_WEIGHTS: Final = {"commit": 1.0, "prompt": 0.9, "answer": 0.8, "command": 0.5, "session": 0.7}
_FILE_BYTES_MAX: Final = 4 << 20


class Filters(NamedTuple):
    """Which documents may answer. ``since`` is an RFC 3339 time or a date."""

    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    tag: str = ""
    author: str = ""
    path: str = ""
    since: str = ""
    with_ended: bool = False


class Hit(NamedTuple):
    """An answer. ``score`` in millionths; ``part`` is the step's index in its trail, −1 for the whole entity."""

    item_type: str
    item_id: str
    kind: str
    part: int
    ts: str
    text: str
    score: int
    why: tuple[str, ...]
    stale: tuple[str, ...]
    evidence: tuple[str, ...]
    state: str
    more: str


class Recall(NamedTuple):
    """``hits`` best first; ``left_out`` fell to the limit or the budget; ``matched`` is how many were considered."""

    terms: tuple[str, ...]
    hits: tuple[Hit, ...]
    matched: int
    left_out: int


class _Candidate(NamedTuple):
    id: int
    item_type: str
    item_id: str
    kind: str
    part: int
    ts: str
    title: str
    preview: str
    bm25: float


def recall(
    journal: Journal,
    question: str,
    *,
    now_ms: int,
    root: str = "",
    limit: int = 10,
    offset: int = 0,
    budget_tokens: int | None = None,
    filters: Filters | None = None,
) -> Recall:
    """What the store knows about ``question``. ``root`` is the project's folder, to see whether files changed since."""
    journal.refresh()
    journal.project()
    filters = filters or Filters()
    words = query_terms(question)
    ranked = _direct(journal, question)
    seen = {(hit.item_type, hit.item_id, hit.part) for hit in ranked}
    candidates = _candidates(journal.index.db, words, filters) if words else []
    sessions = {c.item_id: c.bm25 for c in candidates if c.kind == "session"}
    entities: dict[tuple[str, str], Entity | None] = {}
    scored: list[Hit] = []
    for candidate in candidates:
        key = (candidate.item_type, candidate.item_id)
        if key not in entities:
            entities[key] = journal.get(*key)
        entity = entities[key]
        if entity is None or (*key, candidate.part) in seen or not _passes(entity, candidate, filters):
            continue
        scored.append(_scored(candidate, entity, words, sessions.get(candidate.item_id, 0.0), now_ms, root))
    scored.sort(key=lambda hit: (-hit.score, _newest_first(hit.ts), hit.item_id, hit.part))
    ranked += scored
    hits, left_out = _cut(ranked[offset:], limit, budget_tokens)
    return Recall(tuple(words), tuple(hits), len(ranked), left_out)


def _direct(journal: Journal, question: str) -> list[Hit]:
    """Hits by the id that the question is, or names."""
    found = []
    for word in question.split()[:50]:
        if is_id(word):
            for item_type in MEMORY_TYPES:
                entity = journal.get(item_type, word)
                if entity is not None:
                    found.append(hit_of(entity, 1_000_000_000, ("its id",)))
    return found


def hit_of(entity: Entity, score: int, why: tuple[str, ...], stale: tuple[str, ...] = ()) -> Hit:
    """An entity as a hit."""
    value = entity.value
    text = value.get("text") or value.get("title") or ""
    return Hit(entity.item_type, entity.item_id, entity.item_type, -1, entity.ts, str(text), score, why, stale,
               evidence_of(entity), str(value.get("state", "")), f"periplus show {entity.item_id}")  # fmt: skip


def _candidates(db: sqlite3.Connection, words: Sequence[str], filters: Filters) -> list[_Candidate]:
    found: dict[int, _Candidate] = {}
    where, arguments = _where(filters)
    for operator in (" AND ", " OR "):
        rows = db.execute(  # constants and question marks only; words are quoted and hold no quote
            "SELECT d.id, d.item_type, d.item_id, d.kind, d.part, d.ts, d.title, d.preview, "  # noqa: S608
            f"bm25(words, {_FIELD_WEIGHTS}) AS b "
            f"FROM words JOIN documents d ON d.id = words.rowid WHERE words MATCH ? {where} ORDER BY b LIMIT ?",
            (operator.join(f'"{word}"' for word in words), *arguments, CANDIDATES_MAX),
        )
        for row in rows:
            found.setdefault(row[0], _Candidate._make((*row[:8], -row[8])))
        if len(found) >= ENOUGH or len(words) == 1:
            break
    return list(found.values())


def _where(filters: Filters) -> tuple[str, list[str]]:
    where, arguments = "", list[str]()
    for column, values in (("item_type", filters.types), ("kind", filters.kinds)):
        if values:
            where += f" AND d.{column} IN ({', '.join('?' * len(values))})"
            arguments += values
    if filters.since:
        where += " AND d.ts >= ?"
        arguments.append(filters.since)
    if filters.path:
        where += (" AND EXISTS (SELECT 1 FROM touched t WHERE t.item_type = d.item_type AND t.item_id = d.item_id"
                  " AND (t.path = ? OR t.path LIKE ? ESCAPE '\\'))")  # fmt: skip
        arguments += [filters.path, "%" + _escaped(filters.path.rstrip("/")) + "%"]
    return where, arguments


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _passes(entity: Entity, candidate: _Candidate, filters: Filters) -> bool:
    value = entity.value
    if filters.tag and filters.tag not in (value.get("tags") or ()):  # type: ignore[operator]  # checked at write
        return False
    if filters.author and filters.author not in (value.get("author"), entity.writer, value.get("agent")):
        return False
    row = MEMORY_TYPES.get(candidate.item_type)
    is_ended = row is not None and value.get("state") in row.ended_states
    return filters.with_ended or not is_ended or bool(filters.types)


def _scored(candidate: _Candidate, entity: Entity, words: Sequence[str], session: float, now_ms: int, root: str) -> Hit:
    row = MEMORY_TYPES.get(candidate.item_type)
    value = entity.value
    factor = (row.weight / 100 if row is not None else 1.0) * _KIND_WEIGHTS.get(candidate.kind, 1.0)
    state = str(value.get("state", ""))
    if row is not None and state in row.ended_states:
        factor *= _ENDED_FACTOR
    stale = stale_paths(entity, root)
    if stale:
        factor *= _STALE_FACTOR
    age_ms = max(0, now_ms - (parse_ms(candidate.ts) or now_ms))
    factor *= 0.7 + 0.3 * 0.5 ** (age_ms / _HALF_LIFE_MS)
    confidence = value.get("confidence", 100)
    factor *= 0.5 + (confidence if isinstance(confidence, int) else 100) / 200
    own = candidate.bm25 if candidate.kind != "session" else candidate.bm25 * 0.5
    score = own * factor + _SESSION_SHARE * (session if candidate.kind != "session" else 0.0)
    hit = hit_of(entity, int(score * 1_000_000), _why(candidate, words), stale)
    if candidate.part < 0 and candidate.kind != "session":
        return hit
    more = f"periplus trail show {candidate.item_id}" + (f" --at {candidate.part}" if candidate.part >= 0 else "")
    return hit._replace(
        kind=candidate.kind, part=candidate.part, ts=candidate.ts, text=candidate.title or candidate.preview, more=more
    )


def _why(candidate: _Candidate, words: Sequence[str]) -> tuple[str, ...]:
    from periplus.memory.analysis import terms

    there = set(terms(f"{candidate.title} {candidate.preview}"))
    same = [word for word in words if word in there]
    rest = [word for word in words if word not in there and any(_related(word, other) for other in there)]
    why = tuple([f"says {', '.join(same)}"] if same else []) + tuple([f"near {', '.join(rest)}"] if rest else [])
    return why or SURROUNDINGS


def _related(word: str, other: str) -> bool:
    length = min(len(word), len(other))
    return length >= 4 and word[: max(4, length - 3)] == other[: max(4, length - 3)]


def evidence_of(entity: Entity) -> tuple[str, ...]:
    """The evidence of an entity as people read it."""
    evidence = entity.value.get("evidence")
    if not isinstance(evidence, list):
        return (f"record {entity.seq}",)
    found = [f"{item.get('kind')} {item.get('ref')}" for item in evidence if isinstance(item, dict)]
    return (*found, f"record {entity.seq}")


def stale_paths(entity: Entity, root: str) -> tuple[str, ...]:
    """The files that the entity is about and that are no longer what they were when it was written."""
    about = entity.value.get("about")
    if not root or not isinstance(about, list):
        return ()
    stale = []
    for item in about:
        if isinstance(item, dict) and item.get("kind") == "path" and item.get("sha256"):
            ref = str(item.get("ref"))
            if file_digest(root, ref) != item.get("sha256"):
                stale.append(ref)
    return tuple(stale)


def file_digest(root: str, path: str) -> str:
    """SHA-256 of a file of the project, in hexadecimal; empty where there is none that may be read."""
    import os

    whole = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath([os.path.realpath(root), whole]) != os.path.realpath(root):
        return ""  # a path of a memory never leads out of the project
    try:
        if not os.path.isfile(whole) or os.path.getsize(whole) > _FILE_BYTES_MAX:
            return ""
        with open(whole, "rb") as file:
            return sha256(file.read(_FILE_BYTES_MAX)).hex()
    except OSError:
        return ""


def _newest_first(ts: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in ts)


def _cut(ranked: list[Hit], limit: int, budget_tokens: int | None) -> tuple[list[Hit], int]:
    """The hits that fit: by number, and by tokens where a budget is given (what does not fit is passed over)."""
    if budget_tokens is None:
        return ranked[:limit], max(0, len(ranked) - limit)
    kept: list[Hit] = []
    spent = 0
    for hit in ranked:
        cost = estimate_tokens(hit.text) + estimate_tokens(" ".join(hit.why + hit.evidence)) + 16
        if len(kept) < limit and spent + cost <= budget_tokens:
            kept.append(hit)
            spent += cost
    return kept, len(ranked) - len(kept)
