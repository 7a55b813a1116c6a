"""Recall: find the memory, sessions and commits that answer a question, with why, how fresh and where each is written
down.

Candidates come from ``memory.retrieval.search``. The score of a candidate is

    BM25 over its fields  ×  weight of its type and state  ×  freshness  ×  confidence  +  0.3 × the score of its session

with the words around it and its date as weaker fields, and half as much again where the question names the label of
the text (``Ann: …``). An entity that the question names by its id, or that is about a path that the question names,
comes before all others. Replaced and expired entities are not shown unless asked for: the replacement stands in their
place, and where both are shown the old one comes later. The fifth hit of one trail counts a little less than those
before it, the sixth less again, so that a long session does not fill the page, unless only kinds of steps are asked
for. The order is total: score, then newer, then id; the same store and question give the same answer.

Only shown hits are decoded and compared with the disk: the candidates lie in a heap by the most that each can score,
and what lowers a score is found when a candidate reaches the top.
"""

from __future__ import annotations

__all__ = ["SURROUNDINGS", "Hit", "Recall", "hit_of", "recall"]

import time
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace, nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from periplus.base.clock import format_ms
from periplus.base.errors import UsageError
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Entity, Journal
from periplus.memory.code_anchors.anchors import Ground, evidence_of
from periplus.memory.entities.check_results import last_check_text
from periplus.memory.entities.types import NOT_REMEMBERED, is_ended, row_of, rows_of
from periplus.memory.entities.validity import expired, expired_text, is_over, replacements, standing
from periplus.memory.fulltext.index_rows import EXPIRES, REWRITTEN
from periplus.memory.retrieval.search import TRAIL_KINDS, Candidate, Filters, joined_by, search, telling, without_parts
from periplus.memory.succession.successors import rivals_of
from periplus.memory.text.named_paths import about_named, named_paths

if TYPE_CHECKING:
    from periplus.memory.text.word_vectors import Meaning

_PATIENCE_S: Final = 2.0  # for another process that brings the index up to date
_PAUSE_S: Final = 10.0
SURROUNDINGS: Final = ("its context matches",)
SCORE_UNITS: Final = 1_000_000
_CANDIDATES: Final = 100
_SESSION_SHARE: Final = 0.3
_STEP_SHARE: Final = 0.6
_ENDED_FACTOR: Final = 0.3
_STALE_FACTOR: Final = 0.6
_AGAIN_FREE: Final = 3
_AGAIN_FACTOR: Final = 0.85
_LABEL_FACTOR: Final = 1.5
_LIFTED_FACTOR: Final = 1.5
_HALF_LIFE_MS: Final = 180 * 86_400_000
_KIND_WEIGHTS: Final = {"commit": 1.0, "prompt": 0.9, "answer": 0.8, "command": 0.6, "session": 0.3}
_STEP_KINDS: Final = tuple(kind for kind in TRAIL_KINDS if kind != "session")
_DIRECT_MAX: Final = 20
_QUESTION_WORDS_MAX: Final = 200
_SEEN_CHARACTERS_MAX: Final = 6_000
_SEEN: Final = (
    f"title, substr(body, 1, {_SEEN_CHARACTERS_MAX}), substr(path, 1, {_SEEN_CHARACTERS_MAX}), context, sense"
)
_READY_MAX: Final = 100
_CHAIN_MAX: Final = 50
_NAMED_FEW: Final = 5  # up to so many named paths a question is about the paths themselves
_WEIGHED_MAX: Final = 1_500  # terms of a pasted text, of which the rarest are searched
_ALL: Final = 1 << 40
_REPLACED_FEW: Final = 32
_STEM_CHARACTERS: Final = 4
_HIT_TOKENS: Final = 16
_SENSES_MAX: Final = 48


class Hit(NamedTuple):
    """An answer. ``score`` is in millionths; ``part`` is the index of the step in its trail, −1 for the whole entity."""

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
    conflicts: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()  # stale anchors as text, with the commit that changed each where it is known
    checked: str = ""  # for a constraint or trap with a check: outcome and time of its last run
    rivals: tuple[str, ...] = ()  # competing replacements that other clones wrote


class Recall(NamedTuple):
    """``hits`` best first; ``left_out`` counts hits beyond the limit or the budget; ``matched`` counts the
    candidates.
    """

    terms: tuple[str, ...]
    hits: tuple[Hit, ...]
    matched: int
    left_out: int
    near: tuple[
        tuple[str, tuple[str, ...]], ...
    ] = ()  # terms that nothing has, and the terms one edit away that found the hits


class _Ranked(NamedTuple):
    """A candidate in the order of the heap, the best first. ``lowered`` counts the reductions applied so far."""

    negative_score: int
    negative_id: int
    lowered: int
    candidate: Candidate
    why: tuple[str, ...]


def recall(
    journal: Journal,
    question: str,
    *,
    now_ms: int,
    root: str = "",
    ground: Ground | None = None,
    limit: int = 10,
    offset: int = 0,
    budget_tokens: int | None = None,
    filters: Filters | None = None,
    meaning: Meaning | None = None,
    with_near: bool = False,
    also: Mapping[tuple[str, str], str] | None = None,
) -> Recall:
    """Answer ``question``; where it is empty, list everything in force of the types of memory in ``filters``.

    ``root`` is the project's folder, to see whether files changed since; ``ground`` likewise, for callers that ask
    several times or know which commits changed them. With ``with_near``, words one edit away are searched where the
    words find nothing. ``also`` is memory about what the question names in other ways, by key. Raises UsageError for a limit, an offset or filters that make no sense.
    """
    from periplus.base.text.search_terms import QUERY_TERMS_MAX, add_spellings, terms

    if limit < 0 or offset < 0:
        raise UsageError("a limit and an offset are at least 0")
    bring_up_to_date(journal)
    filters = normalised(filters or Filters(), now_ms)
    named = _named_in(journal, question)
    # An id is searched whole (others may mention it), never by the words that its letters happen to spell.
    rest = " ".join(word for word in question.split() if _bare(word) not in named) if named else question
    ids = [terms(item_id)[0] for keys in named.values() for _, item_id in keys]
    asked = _telling(journal, rest, filters)
    told = list(dict.fromkeys([*asked, *ids]))
    words = add_spellings(told)
    ground = ground or Ground(root)
    view = _View(journal, words, filters, now_ms, ground)
    if not question.strip():
        return _all_asked_for(view, limit, offset, budget_tokens)
    paths = named_paths(question, ground.root)
    about = {**about_named(journal, paths), **(also or {})}
    # A pasted trace or diff names many files and means few: there memory about them does not come before
    # memory that matches the words, but counts for more.
    is_pasted = len(paths) > _NAMED_FEW or len(asked) >= QUERY_TERMS_MAX
    direct = view.direct([key for keys in named.values() for key in keys], {} if is_pasted else about)
    view.lifted = about if is_pasted else {}
    # The first pages have the same candidates, so that a page continues the one before.
    most = max(_CANDIDATES, -(-2 * (offset + limit) // _CANDIDATES) * _CANDIDATES)
    candidates = search(journal.index.db, [*words, *_senses(rest, filters)], filters, most)
    near: dict[str, tuple[str, ...]] = {}
    whole = with_near and without_parts(told)
    found = search(journal.index.db, whole, filters, most) if whole and candidates else candidates
    if with_near and not direct and not any(view.is_asked_for(one) for one in found):
        from periplus.memory.retrieval.spelling import near_words

        near = near_words(journal.index.db, told, filters)
    if near:
        meant = [form for word in told for form in near.get(word, (word,))]
        view = _View(journal, meant, filters, now_ms, ground)
        candidates = search(journal.index.db, meant, filters, most)
    if meaning is not None and words and not _is_for_work(filters):
        candidates = _by_meaning(view, candidates, rest, filters, meaning)
    ranking = view.ranking(candidates, view.support(most), direct)
    matched = len(direct) + len(ranking)
    wanted = direct[offset : offset + limit]
    skipped = max(0, offset - len(direct))
    view.have_ready(ranking, offset + limit - len(direct))
    wanted += islice(view.best_first(ranking), skipped, skipped + max(0, limit - len(wanted)))
    hits = wanted if budget_tokens is None else _fitting(wanted, budget_tokens)
    left_out = max(0, matched - offset - len(hits))
    return Recall(tuple(told), tuple(hits), matched, left_out, tuple(near.items()) if matched else ())


def _telling(journal: Journal, question: str, filters: Filters) -> list[str]:
    """Return the terms to search; of a long pasted text those at its ends, and the rare ones between."""
    from periplus.base.text.search_terms import QUERY_TERMS_MAX, query_terms

    asked = query_terms(question)
    if len(asked) < QUERY_TERMS_MAX:
        return asked
    third = QUERY_TERMS_MAX // 3
    ends = [*asked[:third], *asked[-third:]]
    return telling(
        journal.index.db, query_terms(question, _WEIGHED_MAX, _WEIGHED_MAX // 2), ends, filters, QUERY_TERMS_MAX
    )


def _all_asked_for(view: _View, limit: int, offset: int, budget_tokens: int | None) -> Recall:
    keys = view.listed()
    wanted = [hit for key in keys[offset : offset + limit] if (hit := view.listed_hit(key)) is not None]
    hits = wanted if budget_tokens is None else _fitting(wanted, budget_tokens)
    return Recall((), tuple(hits), len(keys), max(0, len(keys) - offset - len(hits)))


def _senses(question: str, filters: Filters) -> list[str]:
    """Return the synonym groups of the question's words; none where only sessions and commits are asked for, which
    have none.
    """
    if _is_for_work(filters):
        return []
    from periplus.base.text.search_terms import query_terms
    from periplus.memory.text.synonyms import synonym_groups

    return synonym_groups(query_terms(question))[:_SENSES_MAX]


def _is_for_work(filters: Filters) -> bool:
    """Return True where only sessions and commits are asked for."""
    return bool(filters.kinds and {*filters.kinds}.issubset(TRAIL_KINDS)) or filters.types == ("trail",)


def _by_meaning(
    view: _View, candidates: list[Candidate], question: str, filters: Filters, meaning: Meaning
) -> list[Candidate]:
    from periplus.base.text.search_terms import head_and_tail
    from periplus.memory.text.word_vectors import LIFT

    near = meaning.near(view.journal.index_path, view.db, head_and_tail(question, _SEEN_CHARACTERS_MAX))
    view.near = {*near}.difference(one.id for one in candidates)
    return joined_by(view.db, candidates, near, filters, LIFT)


def bring_up_to_date(journal: Journal) -> None:
    """Read what others wrote and index it, unless another process holds the index. A caller that waited in vain does
    not wait again at each part of a brief.
    """
    journal.refresh()
    if journal.unindexed():
        has_waited = time.monotonic() < journal.waited_s + _PAUSE_S
        if not journal.project(0.0 if has_waited else _PATIENCE_S) and not has_waited:
            journal.waited_s = time.monotonic()


def normalised(filters: Filters, now_ms: int) -> Filters:
    """Return ``filters`` with ``since`` in the form of the times of documents. Raises UsageError where it is no time."""
    if not filters.since:
        return filters
    from periplus.base.clock import parse_past_ms

    since = parse_past_ms(filters.since, now_ms)
    if since is None:
        raise UsageError(
            f"{filters.since!r} is no time", mend="Give a date, a time as 2026-01-31T09:30:00Z, or 2h, 3d, 1w ago."
        )
    return filters._replace(since=format_ms(since))


def hit_of(journal: Journal, entity: Entity, score: int, why: tuple[str, ...], ground: Ground, now_ms: int) -> Hit:
    """Return an entity as a hit."""
    value = entity.value
    text = value.get("text") or value.get("title") or _kept_whole(value)
    over = expired_text(journal.types, entity, now_ms)
    stale, standing = ground.stale(entity) + (("expires",) if over else ()), ground.told(entity) + over
    return Hit(entity.item_type, entity.item_id, entity.item_type, -1, entity.ts, str(text), score, why, stale,
               evidence_of(entity, value), str(value.get("state", "")), f"periplus show {entity.item_id}",
               entity.conflict_names, standing, last_check_text(journal, entity),
               tuple(rivals_of(journal, entity)))  # fmt: skip


def _kept_whole(value: Mapping[str, Any]) -> str:
    from periplus.memory.fulltext.documents import foreign_title

    return foreign_title(value)


def _is_about(entity: Entity, path: str) -> bool:
    about = entity.value.get("about")
    items = [item for item in about if isinstance(item, dict)] if isinstance(about, list) else []
    refs = [str(item.get("path") or item.get("ref")) for item in items]
    return any(f"/{ref}/".startswith(f"/{path}/") or f"/{ref}".endswith(f"/{path}") for ref in refs)


def _named_in(journal: Journal, question: str) -> dict[str, list[tuple[str, str]]]:
    """Return the words of ``question`` that are an id or the unique beginning of one, and their entities."""
    found: dict[str, list[tuple[str, str]]] = {}
    prefixes = {row.prefix for row in rows_of(journal.types).values()}
    for word in _words_at_ends(question):
        bare = _bare(word)
        if (
            any(mark in bare for mark in "#_-")
            and any(map(str.isdigit, bare))
            and (held := journal.index.ids_named(bare.lower()))
        ):
            found[bare] = held
            continue
        prefix, underscore, rest = bare.rpartition("_")
        if not underscore or len(rest) < 4 or prefix not in prefixes:
            continue
        keys = journal.index.ids_with_prefix(bare, 2)
        if keys and (len(keys) == 1 or is_id(bare)):
            found[bare] = keys
    return found


def _words_at_ends(question: str) -> list[str]:
    words = question.split()
    return (
        words
        if len(words) <= _QUESTION_WORDS_MAX
        else words[: _QUESTION_WORDS_MAX // 2] + words[-_QUESTION_WORDS_MAX // 2 :]
    )


def _bare(word: str) -> str:
    return word.strip(".,;:!?()[]'\"`")


def _weights_of(kinds: Sequence[str]) -> dict[str, float]:
    """Return the weights of kinds of steps. Where several kinds are asked for they weigh the same: the question has
    named them.
    """
    named = {kind: _KIND_WEIGHTS[kind] for kind in kinds if kind in _STEP_KINDS}
    return _KIND_WEIGHTS | dict.fromkeys(named, max(named.values(), default=1.0))


class _View:
    """One question to one store: each lookup is made once."""

    def __init__(self, journal: Journal, words: Sequence[str], filters: Filters, now_ms: int, ground: Ground) -> None:
        self.journal = journal
        self.db = journal.index.db
        self._words = words
        self._asked = frozenset(words)
        self._filters = filters
        self._now_ms = now_ms
        self._now = format_ms(now_ms)
        self._ground = ground
        self._entities: dict[tuple[str, str], Entity | None] = {}
        self._ends: dict[str, tuple[tuple[str, str], ...]] = {}
        self._kind_weights = _weights_of(filters.kinds)
        is_for_steps = bool(filters.kinds) and {*filters.kinds}.issubset(_STEP_KINDS)
        self._again_free = (
            _AGAIN_FREE if not is_for_steps else _CANDIDATES
        )  # a question for steps does not ask for sessions
        self._weights: dict[tuple[str, str], float] = {}  # of a type and kind
        self._said: dict[int, tuple[Any, ...]] = {}  # the texts of documents, by their rows
        self.near: set[int] = set()  # documents that only search by meaning found
        self.lifted: Mapping[tuple[str, str], str] = {}  # memory about one of many named paths

    # -- hits that need no score ---------------------------------------------------------------------------------------

    def direct(self, named: Sequence[tuple[str, str]], about: Mapping[tuple[str, str], str]) -> list[Hit]:
        """Return the entities that the question names: by id (``named``), in any state, where they are of a type that
        is asked for; then by a path (``about``).
        """
        keys: dict[tuple[str, str], str] = dict.fromkeys(named, "its id")
        for key, path in about.items():
            keys.setdefault(key, f"about {path}")
        hits = []
        for key, why in keys.items():
            entity = self.entity(key)
            if entity is None:
                continue
            if self._is_of_what_is_asked(entity.item_type) if why == "its id" else self._may_stand_first(entity):
                hits.append(self._entity_hit(entity, 1_000 * SCORE_UNITS, (why,)))
        return sorted(hits, key=lambda hit: hit.why != ("its id",))[:_DIRECT_MAX]

    def _is_of_what_is_asked(self, item_type: str) -> bool:
        types, kinds = self._filters.types, self._filters.kinds
        is_kind = item_type in kinds or (item_type == "trail" and any(kind in TRAIL_KINDS for kind in kinds))
        return (not types or item_type in types) and (not kinds or is_kind)

    def _may_stand_first(self, entity: Entity) -> bool:
        """Return True where a memory about a named path passes the filters and was not replaced."""
        filters = self._filters
        if entity.ts < filters.since or (filters.path and not _is_about(entity, filters.path.rstrip("/"))):
            return False
        return self._passes(entity) and (filters.with_ended or not self._replacements(entity.item_id))

    def listed(self) -> list[tuple[str, str]]:
        """Return everything in force of the asked types of memory: the most severe of each first, then the newest."""
        filters = self._filters
        types = [name for name in dict.fromkeys(filters.types) if name not in NOT_REMEMBERED]
        found = [
            (name, standing(self.journal, name, _ALL, self._now_ms, with_ended=filters.with_ended)) for name in types
        ]
        keys = [(name, item_id) for name, of_type in found for item_id in of_type.ids]
        if not (filters.tag or filters.author or filters.path or filters.since or filters.kinds):
            return keys
        return [key for key in keys if (entity := self.entity(key)) is not None and self._may_stand_first(entity)]

    def listed_hit(self, key: tuple[str, str]) -> Hit | None:
        entity = self.entity(key)
        if entity is None or not self._passes(entity):
            return None  # changed by a record that the index has not taken in
        return self._entity_hit(entity, 0, (f"a {key[0]}",))

    # -- ranking -------------------------------------------------------------------------------------------------------

    def support(self, most: int) -> list[Candidate]:
        """Return documents that support candidates and are not asked for themselves: the steps of sessions, the
        sessions of steps.
        """
        kinds = {*self._filters.kinds}
        has_steps, has_sessions = not kinds.isdisjoint(_STEP_KINDS), "session" in kinds
        if has_sessions and not kinds.issuperset(_STEP_KINDS):
            beside: tuple[str, ...] = _STEP_KINDS
        elif has_steps and not has_sessions:
            beside = ("session",)
        else:
            return []
        return search(self.db, self._words, Filters(kinds=beside, since=self._filters.since), most)

    def ranking(self, candidates: list[Candidate], support: list[Candidate], direct: list[Hit]) -> list[_Ranked]:
        """Return the candidates that may be shown, as a heap by the most that each can score. The session as a whole
        raises a step, and the best of its steps a session.
        """
        sessions, steps = dict[str, float](), dict[str, float]()
        for one in (*candidates, *support):
            if one.item_type != "trail":
                continue
            if one.kind == "session":
                sessions[one.item_id] = one.bm25
            else:
                steps[one.item_id] = max(steps.get(one.item_id, 0.0), one.bm25 * self._kind_weights[one.kind])
        known = {(hit.item_type, hit.item_id, hit.part) for hit in direct}
        ranked: dict[tuple[str, str, int], _Ranked] = {}
        replacing: dict[tuple[str, str], tuple[Candidate, int]] = {}
        over = self._replaced(candidates) | self._expired(candidates)
        has_own_conditions = bool(self._filters.tag or self._filters.author)
        ended: dict[tuple[str, str], bool] = {}
        for one in candidates:
            state = (one.item_type, one.state)
            if state not in ended:
                ended[state] = is_ended(*state, self.journal.types)
            has_ended = ended[state] or one.item_id in over
            beside = 0.0
            if one.item_type == "trail":
                beside = (
                    steps.get(one.item_id, 0.0) * _STEP_SHARE
                    if one.kind == "session"
                    else sessions.get(one.item_id, 0.0) * _SESSION_SHARE
                )
            score = self._score(one, beside, has_ended=has_ended)
            if has_ended:
                as_held = self._score(one, beside, has_ended=False)  # the weight that it would have if it were in force
                for key in self._replacements(one.item_id):
                    if as_held > replacing.get(key, (one, -1))[1]:
                        replacing[key] = (one, as_held)
                if not self._filters.with_ended:
                    continue
            key3 = (one.item_type, one.item_id, one.part)
            if key3 not in known and (not has_own_conditions or self._passes_by_entity(one)):
                ranked[key3] = _Ranked(-score, -one.id, 0, one, ())
        self._put_replacements(ranked, replacing, known)
        heap = list(ranked.values())
        heapify(heap)
        return heap

    def _score(self, one: Candidate, beside: float, *, has_ended: bool) -> int:
        factor = self._weights.get((one.item_type, one.kind))
        if factor is None:
            row = row_of(self.journal.types, one.item_type)
            factor = (row.weight / 100 if row is not None else 1.0) * self._kind_weights.get(one.kind, 1.0)
            self._weights[one.item_type, one.kind] = factor
        if one.label and not self._asked.isdisjoint(one.label.split()):
            factor *= _LABEL_FACTOR
        if (one.item_type, one.item_id) in self.lifted:
            factor *= _LIFTED_FACTOR
        factor *= 0.5 + one.confidence / 200
        age_ms = self._now_ms - one.ms
        factor *= 0.8 + 0.2 * 0.5 ** (age_ms / _HALF_LIFE_MS if age_ms > 0 else 0.0)
        score = int((one.bm25 * factor + beside) * SCORE_UNITS)
        if one.state == REWRITTEN:
            return score // SCORE_UNITS  # after everything in force
        return int(score * _ENDED_FACTOR) if has_ended and self._filters.with_ended else score

    def _replaced(self, candidates: list[Candidate]) -> set[str]:
        """Return the candidates that something in force has replaced, whatever their own state says."""
        ids = sorted({one.item_id for one in candidates if one.item_type != "trail"})
        few = self.db.execute(
            "SELECT DISTINCT target FROM replaced ORDER BY target LIMIT ?", (_REPLACED_FEW,)
        ).fetchall()
        if len(few) < _REPLACED_FEW:  # all of them: most stores have few
            known = frozenset(ids)
            return {target for (target,) in few if target in known and self._replacements(target)}
        rows = self.db.execute(
            "SELECT DISTINCT target FROM replaced WHERE target IN (SELECT value FROM json_each(?)) ORDER BY target",
            ("[" + ",".join(f'"{item_id}"' for item_id in ids) + "]",),
        ).fetchall()
        return {target for (target,) in rows if self._replacements(target)}

    def _replacements(self, item_id: str) -> tuple[tuple[str, str], ...]:
        """Return the present replacements of ``item_id``."""
        if item_id not in self._ends:
            self._ends[item_id] = replacements(self.journal, item_id, self.entity)
        return self._ends[item_id]

    def _expired(self, candidates: list[Candidate]) -> set[str]:
        """Return the candidates whose expiry is past."""
        ids = sorted({one.item_id for one in candidates if one.item_type != "trail"})
        rows = self.db.execute(
            "SELECT item_type, item_id FROM links WHERE field = ? AND value <= ? AND item_id IN (SELECT value FROM json_each(?))"
            " ORDER BY item_id",
            (EXPIRES, self._now, "[" + ",".join(f'"{item_id}"' for item_id in ids) + "]"),
        ).fetchall()
        return {key[1] for key in rows if (entity := self.entity(key)) is not None and self._has_expired(entity)}

    def _has_expired(self, entity: Entity) -> bool:
        return bool(expired(self.journal.types, entity, self._now_ms))

    def _put_replacements(
        self,
        ranked: dict[tuple[str, str, int], _Ranked],
        replacing: Mapping[tuple[str, str], tuple[Candidate, int]],
        known: set[tuple[str, str, int]],
    ) -> None:
        for key, (old, score) in replacing.items():
            entity = self.entity(key)
            now = ranked.get((*key, -1))
            if entity is None or (*key, -1) in known or (now is not None and -now.negative_score >= score):
                continue
            if self._filters.types and key[0] not in self._filters.types:
                continue
            row = self.db.execute(
                "SELECT id, item_type, item_id, kind, part, ts, state, confidence, anchored, label, ? FROM documents"
                " WHERE item_type = ? AND item_id = ? AND part = -1", (old.bm25, *key),
            ).fetchone()  # fmt: skip
            if row is not None and self._passes(entity):
                one = Candidate._make(row)
                ranked[*key, -1] = _Ranked(-score, -one.id, 0, one, (f"replaces {old.item_id}",))

    # -- what is shown -------------------------------------------------------------------------------------------------

    def have_ready(self, heap: list[_Ranked], count: int) -> None:
        """Look up at once what the first ``count`` hits will need, as far as it can be known before."""
        first = [one.candidate for one in nsmallest(min(count, _READY_MAX), heap)]
        self.journal.have_ready((one.item_type, one.item_id) for one in first)
        for table, ids in (
            ("words", [one.id for one in first if one.kind != "session"]),
            ("session_words", [one.id for one in first if one.kind == "session"]),
        ):
            if ids:
                rows = self.db.execute(
                    f"SELECT rowid, {_SEEN} FROM {table} WHERE rowid IN ({', '.join('?' * len(ids))})",  # noqa: S608 - constants
                    ids,
                ).fetchall()
                self._said.update((row[0], row[1:]) for row in rows)

    def best_first(self, heap: list[_Ranked]) -> Iterator[Hit]:
        """Yield the hits in their order, each made when it is asked for."""
        waiting: dict[str, int] = {}  # needed only where replaced entities are shown, too
        if self._filters.with_ended:
            waiting = {one.candidate.item_id: one.negative_score for one in heap if one.candidate.item_type != "trail"}
        taken: dict[str, int] = {}
        while heap:
            top = heap[0]
            lowered = self._lowered(top, taken, waiting)
            if lowered is not None:
                if top.candidate.item_type != "trail":
                    waiting[top.candidate.item_id] = lowered.negative_score
                heapreplace(heap, lowered)
                continue
            heappop(heap)
            one = top.candidate
            waiting.pop(one.item_id, None)
            entity = self.entity((one.item_type, one.item_id))
            if entity is None or not self._passes(entity):
                continue  # changed by a record that the index has not taken in
            taken[one.item_id] = taken.get(one.item_id, 0) + 1
            yield self._hit(top, entity)

    def _lowered(self, top: _Ranked, taken: Mapping[str, int], waiting: Mapping[str, int]) -> _Ranked | None:
        """Return ``top`` with its score reduced; None where nothing reduces it."""
        one = top.candidate
        if one.item_type == "trail":
            again = max(0, taken.get(one.item_id, 0) - self._again_free)
            if again > top.lowered:
                score = int(-top.negative_score * _AGAIN_FACTOR ** (again - top.lowered))
                return top._replace(negative_score=-score, lowered=again)
            return None
        if one.anchored and not top.lowered:
            entity = self.entity((one.item_type, one.item_id))
            if entity is not None and self._ground.stale(entity):
                return top._replace(negative_score=-int(-top.negative_score * _STALE_FACTOR), lowered=1)
        if top.lowered < _CHAIN_MAX and self._filters.with_ended:
            below = [waiting[newer] for newer in self._newer(one.item_id) if newer in waiting]
            if below:
                lowest = max(top.negative_score, *below) + 1
                return top._replace(negative_score=lowest, lowered=max(1, top.lowered) + 1)
        return None

    def _newer(self, item_id: str) -> set[str]:
        """Return all entities that came after ``item_id`` in its chains: those between need not match, and do not
        lower it.
        """
        rows = self.db.execute(
            "WITH RECURSIVE newer (id) AS (SELECT item_id FROM replaced WHERE target = ? UNION SELECT item_id FROM replaced, newer"
            " WHERE target = newer.id LIMIT ?) SELECT id FROM newer WHERE id <> ?",
            (item_id, _CHAIN_MAX, item_id),
        )
        return {str(row[0]) for row in rows}

    def _hit(self, top: _Ranked, entity: Entity) -> Hit:
        one = top.candidate
        hit = self._entity_hit(entity, -top.negative_score, top.why or self._why(one))
        if one.item_type != "trail":
            return hit
        text = self._row("SELECT text FROM passages WHERE id = ?", one.id)[0]
        more = f"periplus trail show {one.item_id}" + (f" --at {one.part}" if one.part >= 0 else "")
        if one.state == REWRITTEN:
            hit = hit._replace(
                state=REWRITTEN,
                stale=(*hit.stale, REWRITTEN),
                standing=(*hit.standing, "rewritten: no ref reaches it any more"),
            )
        return hit._replace(kind=one.kind, part=one.part, ts=one.ts, text=text, more=more)

    def _entity_hit(self, entity: Entity, score: int, why: tuple[str, ...]) -> Hit:
        """Return an entity as a hit, with its replacements where replaced entities are shown: not every type has a
        state for that.
        """
        hit = hit_of(self.journal, entity, score, why, self._ground, self._now_ms)
        if not self._filters.with_ended and why != ("its id",):
            return hit
        newer = ", ".join(item_id for _, item_id in self._replacements(entity.item_id))
        return (
            hit._replace(stale=(*hit.stale, "replaced"), standing=(*hit.standing, f"replaced by {newer}"))
            if newer
            else hit
        )

    def _row(self, statement: str, document: int) -> tuple[Any, ...]:
        found: tuple[Any, ...] | None = self.db.execute(statement, (document,)).fetchone()
        if found is None:
            raise self.journal.index.damaged(f"document {document} is in the full text and missing from the documents")
        return found

    def _why(self, one: Candidate) -> tuple[str, ...]:
        table = "session_words" if one.kind == "session" else "words"
        row = self._said.get(one.id) or self._row(f"SELECT {_SEEN} FROM {table} WHERE rowid = ?", one.id)  # noqa: S608 - constants
        title, body, path, context, sense = row
        said = {*title.split(), *body.split()}
        same = [word for word in self._words if word in said]
        on_path = set(path.split()) - said
        paths = [word for word in self._words if word in on_path]
        rest = [word for word in self._words if word not in said and word not in on_path]
        if rest:
            whole = f" {title} {body} {path}"
            rest = [word for word in rest if len(word) >= _STEM_CHARACTERS and f" {word[:_STEM_CHARACTERS]}" in whole]
        path_named = self.lifted.get((one.item_type, one.item_id))
        why = [f"about {path_named}"] if path_named else []
        if same:
            why.append(f"matched: {', '.join(same)}")
        if paths:
            why.append(f"matched in the path: {', '.join(paths)}")
        if rest:
            why.append(f"matched: {', '.join(rest)} (other word forms)")
        if sense:
            from periplus.memory.text.synonyms import synonym_groups

            held, told = {*sense.split()}, {*same, *paths, *rest, *context.split()}
            meant = [word for word in self._words if word not in told and not held.isdisjoint(synonym_groups([word]))]
            if meant:
                why.append(f"matched: {', '.join(meant)} (similar meaning)")
        if one.id in self.near:
            why.append("has a similar meaning")
        return tuple(why) or SURROUNDINGS

    # -- looked up once ------------------------------------------------------------------------------------------------

    def entity(self, key: tuple[str, str]) -> Entity | None:
        if key not in self._entities:
            self._entities[key] = self.journal.get(*key)
        return self._entities[key]

    def _passes_by_entity(self, one: Candidate) -> bool:
        if not self._filters.tag and not self._filters.author:
            return True
        entity = self.entity((one.item_type, one.item_id))
        return entity is not None and self._passes(entity)

    def is_asked_for(self, one: Candidate) -> bool:
        """Return True where a candidate passes the filters, whether in force or ended."""
        if not self._filters.tag and not self._filters.author:
            return True
        entity = self.entity((one.item_type, one.item_id))
        return entity is not None and self._may_answer(entity)

    def _passes(self, entity: Entity) -> bool:
        """Apply the filters that need the entity itself."""
        held = self._filters.with_ended or not is_over(self.journal.types, entity, self._now_ms)
        return self._may_answer(entity) and held

    def _may_answer(self, entity: Entity) -> bool:
        filters, value = self._filters, entity.value
        tags = value.get("tags")
        if filters.tag and not (isinstance(tags, list) and filters.tag in tags):
            return False
        if filters.author and filters.author not in (value.get("author"), entity.writer, value.get("agent")):
            return False
        if filters.types and entity.item_type not in filters.types:
            return False
        return not filters.kinds or entity.item_type == "trail" or entity.item_type in filters.kinds


def _fitting(hits: list[Hit], budget_tokens: int) -> list[Hit]:
    """Return the first hits that fit in a budget; the text of the very first is cut where it alone does not."""
    kept: list[Hit] = []
    left = budget_tokens
    for hit in hits:
        rest = estimate_tokens(" ".join(hit.why + hit.evidence)) + _HIT_TOKENS
        cost = estimate_tokens(hit.text) + rest
        if cost > left:
            if not kept and left > rest:
                text = cut_to_tokens(hit.text, left - rest)
                return [hit._replace(text=text)] if text else []
            break
        kept.append(hit)
        left -= cost
    return kept


def cut_to_tokens(text: str, most: int) -> str:
    """Return ``text``, or its beginning with an ellipsis, in at most ``most`` tokens; empty where nothing fits."""
    if estimate_tokens(text) <= most:
        return text
    low, high = 0, min(len(text), most * 8)  # the longest beginning that fits lies between
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle] + "…") <= most:
            low = middle
        else:
            high = middle - 1
    return text[:low] + "…" if low else ""
