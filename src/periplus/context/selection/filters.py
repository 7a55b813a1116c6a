"""Filters of atoms, shared by selections, streams and the queries of the wire.

Values only, one a call: nothing is kept between two calls, so the bounds of one client never affect the answer of
another. All filters that are set must match.
"""

from __future__ import annotations

__all__ = [
    "FILTER_TAGS_MAX",
    "FILTER_TEXT_CHARACTERS_MAX",
    "QUERY_LIMIT_MAX",
    "QUERY_TEXT_CHARACTERS_MAX",
    "Filters",
    "Matcher",
    "Query",
    "QueryResult",
    "Refusal",
    "check_filters",
    "check_query",
]

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from periplus.base.errors import UsageError
from periplus.context.model import RELEVANCE_MAX, Atom, Entry

QUERY_TEXT_CHARACTERS_MAX: Final = 20_000
QUERY_LIMIT_MAX: Final = 1_000
FILTER_TAGS_MAX: Final = 64
FILTER_TEXT_CHARACTERS_MAX: Final = 4_096
_TIME_MS_MAX: Final = (1 << 63) - 1
_SOURCE_ENDS: Final = "/#:@?"

Refusal: TypeAlias = Literal["type", "relevance", "age", "source", "tag"]


class Filters(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions on an atom; a filter at its default matches every atom.

    ``type`` is the print of a type with which the atom's type must unify; ``relevance_min`` is in millionths.
    ``since_ms`` is a time, ``age_ms_max`` an age at the time of the call; an atom of exactly that age matches.
    ``source`` is the whole source of the atom or its beginning up to one of ``/ # : @ ?``, so that ``src/auth.py``
    matches ``src/auth.py#L10-L20`` and not ``src/auth.pyc``. The atom must have all ``tags``.
    """

    type: str | None = None
    relevance_min: int = 0
    since_ms: int | None = None
    age_ms_max: int | None = None
    source: str = ""
    tags: tuple[str, ...] = ()


class Query(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A search in one context: with ``text`` the atoms that match it, best first; without it all that pass, in order.

    ``page`` counts from 0 in steps of ``limit`` atoms. ``at_ms`` is the time for ages, None for the time of the call;
    for a further page give that of the first page, so that no atom ages out between two pages.
    """

    text: str = ""
    filters: Filters = Filters()
    limit: int = 50
    page: int = 0
    at_ms: int | None = None


class QueryResult(NamedTuple):
    """One page. ``total`` is the number of atoms on all pages; ``next_page`` is None after the last.

    ``scores`` are in millionths, one for each entry: the rank value.
    """

    entries: tuple[Entry, ...]
    scores: tuple[int, ...]
    total: int
    next_page: int | None
    at_ms: int


def check_filters(filters: Filters, *, field: str = "filters") -> None:
    """Raise UsageError that names the invalid field."""
    if filters.type is not None:
        from periplus.context.types import parse

        try:
            parse(filters.type)
        except UsageError as error:
            raise UsageError(f"{field}.type: {error}") from error
    if not 0 <= filters.relevance_min <= RELEVANCE_MAX:
        raise UsageError(f"{field}.relevance_min: {filters.relevance_min} is not in 0 … {RELEVANCE_MAX} (millionths)")
    if filters.since_ms is not None and abs(filters.since_ms) > _TIME_MS_MAX:
        raise UsageError(f"{field}.since_ms: {filters.since_ms} is not a time in milliseconds")
    if filters.age_ms_max is not None and not 0 <= filters.age_ms_max <= _TIME_MS_MAX:
        raise UsageError(f"{field}.age_ms_max: {filters.age_ms_max} is not an age in milliseconds")
    if len(filters.source) > FILTER_TEXT_CHARACTERS_MAX:
        raise UsageError(f"{field}.source: longer than {FILTER_TEXT_CHARACTERS_MAX} characters")
    if len(filters.tags) > FILTER_TAGS_MAX:
        raise UsageError(f"{field}.tags: more than {FILTER_TAGS_MAX}")
    for place, tag in enumerate(filters.tags):
        if not 0 < len(tag) <= FILTER_TEXT_CHARACTERS_MAX:
            raise UsageError(f"{field}.tags[{place}]: not of 1 to {FILTER_TEXT_CHARACTERS_MAX} characters")


class Matcher:
    """Match atoms against ``filters`` at the time ``now_ms``. Raises UsageError that names an invalid field."""

    def __init__(self, filters: Filters, now_ms: int) -> None:
        check_filters(filters)
        self._relevance_min = filters.relevance_min
        since = [] if filters.since_ms is None else [filters.since_ms]
        if filters.age_ms_max is not None:
            since.append(now_ms - filters.age_ms_max)
        self._since_ms = max(since, default=None)
        self._source = filters.source
        self._tags = frozenset(filters.tags)
        self._type = filters.type
        self._unifies: dict[str, bool] = {}

    @property
    def relevance_min(self) -> int:
        return self._relevance_min

    def refusal(self, atom: Atom) -> Refusal | None:
        """Return the first filter that ``atom`` does not pass; None if it passes all."""
        if atom.relevance < self._relevance_min:
            return "relevance"
        if self._since_ms is not None and atom.time_ms < self._since_ms:
            return "age"
        if self._type is not None and not self._has_type(atom.type):
            return "type"
        if self._source and not _is_from(atom.source, self._source):
            return "source"
        if self._tags and not self._tags.issubset(atom.tags):
            return "tag"
        return None

    def _has_type(self, text: str) -> bool:
        unifies = self._unifies.get(text)
        if unifies is None:
            from periplus.context.types import unify_text

            assert self._type is not None
            unifies = self._unifies[text] = unify_text(self._type, text) is not None
        return unifies


def _is_from(source: str, wanted: str) -> bool:
    if not source.startswith(wanted):
        return False
    return len(source) == len(wanted) or wanted[-1] in _SOURCE_ENDS or source[len(wanted)] in _SOURCE_ENDS


def check_query(query: Query, *, field: str = "query") -> None:
    """Raise UsageError that names the invalid field."""
    if len(query.text) > QUERY_TEXT_CHARACTERS_MAX:
        raise UsageError(f"{field}.text: longer than {QUERY_TEXT_CHARACTERS_MAX} characters")
    if not 1 <= query.limit <= QUERY_LIMIT_MAX:
        raise UsageError(f"{field}.limit: {query.limit} is not in 1 … {QUERY_LIMIT_MAX}")
    if not 0 <= query.page <= _TIME_MS_MAX // QUERY_LIMIT_MAX:
        raise UsageError(f"{field}.page: {query.page} is not the number of a page; the first is 0")
    if query.at_ms is not None and abs(query.at_ms) > _TIME_MS_MAX:
        raise UsageError(f"{field}.at_ms: {query.at_ms} is not a time in milliseconds")
    check_filters(query.filters, field=f"{field}.filters")
