"""Lists of memory: filtered, sorted, in pages, with counts, at a cost that hardly grows with the store.

The table ``listed`` of the index answers up to the index's watermark; entities of later records are computed one by one and merged in, so
that a page is never behind the journal as it was last read. Only the entities of a page are decoded. Staleness is a matter of files, so it
is computed for the rows of a page; a list of stale memory alone walks a bounded number of rows.
"""

from __future__ import annotations

__all__ = [
    "MEMORY_SORTS",
    "PAGE_ROWS_MAX",
    "MemoryFacets",
    "MemoryFilter",
    "MemoryPage",
    "MemoryRow",
    "MemorySort",
    "memory_page",
]

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from periplus.base.clock import format_ms, parse_past_ms
from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.list_counts import COUNTED_MAX, Facet, Total, facets_of, pages_of
from periplus.memory.entities.types import NOT_REMEMBERED, is_ended, rows_of, state_of
from periplus.memory.fulltext.list_rows import MARK, listed_row, tags_of

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity, Journal
    from periplus.journal.index.connection import Connection

MemorySort = Literal["newest", "oldest", "changed", "text"]
MEMORY_SORTS: Final[tuple[MemorySort, ...]] = get_args(MemorySort)
PAGE_ROWS_MAX: Final = 200
TEXT_CHARACTERS: Final = 300
STALE_WALKED_MAX: Final = 2_000
_GROUPS_MAX: Final = 20_000
_STEP: Final = 200
_CACHED_MAX: Final = 64
Told: TypeAlias = "Callable[[Entity], tuple[str, ...]]"
Key: TypeAlias = tuple[str, str]


class _Order(NamedTuple):
    """The column by which a list is sorted; equals are in the order of their ids."""

    column: str
    is_down: bool


_ORDERS: Final[dict[MemorySort, _Order]] = {
    "newest": _Order("created", True),
    "oldest": _Order("created", False),
    "changed": _Order("changed", True),
    "text": _Order("title", False),
}


class MemoryFilter(NamedTuple):
    """The entities that are listed. Of ``types``, ``states`` and ``authors`` any is meant (no types: those that people
    and agents remember), of ``tags`` all. ``path`` is a file or a folder. Times are RFC 3339 texts or ages as ``3d``.
    """

    types: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    path: str = ""
    authors: tuple[str, ...] = ()
    created_since: str = ""
    changed_since: str = ""
    stale: bool = False


class MemoryRow(NamedTuple):
    """An entity in a list. ``text`` is cut; ``stale`` says why it may be stale."""

    id: str
    type: str
    state: str
    text: str
    author: str
    created: str
    changed: str
    tags: tuple[str, ...]
    about: tuple[str, ...]
    is_ended: bool
    stale: tuple[str, ...]


class MemoryFacets(NamedTuple):
    """The counts by each value of a field, under the filters on the other fields; ``tags`` are counted in the types of
    the list, whatever else is filtered.
    """

    types: tuple[Facet, ...] = ()
    states: tuple[Facet, ...] = ()
    authors: tuple[Facet, ...] = ()
    tags: tuple[Facet, ...] = ()


class MemoryPage(NamedTuple):
    """A page of a list; ``number`` counts from 1."""

    rows: tuple[MemoryRow, ...]
    total: Total
    number: int
    pages: int
    facets: MemoryFacets


class _Listed(NamedTuple):
    """A row of the table ``listed``."""

    item_type: str
    item_id: str
    state: str
    author: str
    created: int
    changed: int
    anchored: int
    title: str
    tags: str
    paths: str


class _Wanted(NamedTuple):
    """A filter with its values prepared. The fields that facets count are apart from the others."""

    types: frozenset[str]
    states: frozenset[str]
    authors: frozenset[str]
    tags: tuple[str, ...]
    path: str
    created_ms: int
    changed_ms: int

    def has(self, row: _Listed) -> bool:
        return (
            row.item_type in self.types
            and (not self.states or row.state in self.states)
            and (not self.authors or row.author in self.authors)
        )

    def has_rest(self, row: _Listed) -> bool:
        """Return True where a row passes the filters that facets do not count."""
        return (
            row.created >= self.created_ms
            and row.changed >= self.changed_ms
            and all(_marked(tag, MARK) in row.tags for tag in self.tags)
            and (not self.path or any(part in row.paths for part in self._places()))
        )

    def rest(self) -> tuple[str, list[object]]:
        """Return the condition for the filters that facets do not count, and its values."""
        parts = ["instr(tags, ?)"] * len(self.tags)
        values: list[object] = [_marked(tag, MARK) for tag in self.tags]
        if self.path:
            places = self._places()
            parts.append(f"({' OR '.join(['instr(paths, ?)'] * len(places))})")
            values += places
        for column, since in (("created", self.created_ms), ("changed", self.changed_ms)):
            if since:
                parts.append(f"{column} >= ?")
                values.append(since)
        return " AND ".join(parts), values

    def _places(self) -> tuple[str, ...]:
        """Return the texts of which one stands in the paths of an entity that is about ``path``: the file or a symbol of it, or a folder."""
        return tuple(_marked(self.path, end) for end in (MARK, "/", ":"))

    def whole(self) -> tuple[str, list[object]]:
        """Return the condition for all filters, and its values."""
        rest, values = self.rest()
        parts = [rest] if rest else []
        for column, chosen in (("item_type", self.types), ("state", self.states), ("author", self.authors)):
            if chosen or column == "item_type":
                parts.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608 - a constant
                values.append(json.dumps(sorted(chosen)))
        return " AND ".join(parts), values


def memory_page(
    journal: Journal, wanted: MemoryFilter, told: Told, *, sort: MemorySort, number: int, size: int, with_facets: bool
) -> MemoryPage:
    """Return page ``number`` of the entities that ``wanted`` describes; ``told`` says why one is stale. Raises
    UsageError for a wrong time or page.
    """
    if number < 1 or not 1 <= size <= PAGE_ROWS_MAX or sort not in _ORDERS:
        raise UsageError(f"there is no page {number} of {size} rows by {sort}", mend="Pages begin with 1.")
    found = _prepared(journal, wanted)
    newer = _newer(journal, found)
    groups = _groups(journal, found, newer) if with_facets else None
    listing = _Listing(journal, found, [row for row in newer if found.has(row)], sort)
    first = (number - 1) * size
    if wanted.stale:
        rows, total = _stale_rows(listing, told, first, size)
    else:
        total = _total(groups, found) or listing.total()
        keys = listing.part(first, size, total.number if total.is_exact else 0)
        rows = [_row(journal, entity, _stale(journal, entity, told)) for entity in _entities(journal, keys)]
    facets = MemoryFacets() if groups is None else _facets(journal, found, groups)
    return MemoryPage(tuple(rows), total, number, pages_of(total, size), facets)


def _prepared(journal: Journal, wanted: MemoryFilter) -> _Wanted:
    types = wanted.types or tuple(name for name in rows_of(journal.types) if name not in NOT_REMEMBERED)
    now_ms = journal.clock.now_ms()
    times = []
    for said in (wanted.created_since, wanted.changed_since):
        since = parse_past_ms(said, now_ms) if said else 0
        if since is None:
            raise UsageError(f"{said!r} is not a time", mend="Write 2026-03-01, 2026-03-01T12:00:00Z or an age as 3d.")
        times.append(since)
    path = wanted.path.removeprefix("./").rstrip("/")
    return _Wanted(frozenset(types), frozenset(wanted.states), frozenset(wanted.authors), wanted.tags, path, *times)


def _marked(text: str, end: str) -> str:
    return f"{MARK}{text.replace(MARK, ' ')}{end}"


def _newer(journal: Journal, wanted: _Wanted) -> list[_Listed]:
    """Return the entities of records behind the index's watermark that pass the filters which facets do not count."""
    keys = (key for key in journal.unindexed() if key[0] != "trail")
    entities = (entity for key in keys if (entity := journal.as_read(*key)) is not None)
    return [row for row in map(_listed, entities) if wanted.has_rest(row)]


class _Listing:
    """The rows that a filter finds, in one order: those of the index, and newer ones merged in."""

    def __init__(self, journal: Journal, wanted: _Wanted, newer: list[_Listed], sort: MemorySort) -> None:
        self.journal = journal
        self._newer = newer
        self._sort: MemorySort = sort
        self._where, self._values = _without(journal, *wanted.whole())

    def part(self, first: int, size: int, count: int = 0) -> list[Key]:
        """Return type and id of ``size`` entities from place ``first`` on; ``count`` is their number, if it is known."""
        order = _ORDERS[self._sort]
        if not self._newer and first > count // 2 > 0:  # what lies before a place is sorted, too: count from the end
            size = max(0, min(size, count - first))
            found = self._rows(count - first - size, size, is_down=not order.is_down)[::-1]
            return [(item_type, item_id) for _, item_id, item_type in found]
        start = max(0, first - len(self._newer))  # each newer entity moves those of the index back by one at most
        held = self._rows(start, size + first - start, is_down=order.is_down)
        if self._newer:
            held += [(getattr(row, order.column), row.item_id, row.item_type) for row in self._newer]
            held.sort(reverse=order.is_down)
        return [(item_type, item_id) for _, item_id, item_type in held[first - start : first - start + size]]

    def _rows(self, start: int, size: int, *, is_down: bool) -> list[tuple[int | str, str, str]]:
        """Return rows of the index as sort key, id and type, and nothing else: all before the last one are sorted."""
        column, down = _ORDERS[self._sort].column, " DESC" if is_down else ""
        rows = self.journal.index.db.execute(
            f"SELECT {column}, item_id, item_type FROM listed WHERE {self._where} ORDER BY {column}{down}, item_id{down} LIMIT ? OFFSET ?",  # noqa: S608 - constants
            (*self._values, size, start),
        )
        return [(row[0], str(row[1]), str(row[2])) for row in rows]

    def anchored(self, limit: int) -> list[Key]:
        """Return the first entities that have anchors in code."""
        self._where = f"anchored AND {self._where}"
        self._newer = [row for row in self._newer if row.anchored]
        return self.part(0, limit)

    def total(self) -> Total:
        """Count the rows as far as it costs little."""
        query = f"SELECT COUNT(*) FROM (SELECT 1 FROM listed WHERE {self._where} LIMIT ?)"  # noqa: S608 - constants
        held = self.journal.index.db.execute(query, (*self._values, COUNTED_MAX + 1)).fetchone()[0]
        count = int(held) + len(self._newer)
        return Total(min(count, COUNTED_MAX), count <= COUNTED_MAX)


def _without(journal: Journal, where: str, values: list[object]) -> tuple[str, list[object]]:
    """Return a condition that leaves out the entities of records behind the index's watermark."""
    newer = [item_id for item_type, item_id in journal.unindexed() if item_type != "trail"]
    if not newer:
        return where, values
    left = "item_id NOT IN (SELECT value FROM json_each(?))"
    return f"{where} AND {left}" if where else left, [*values, json.dumps(newer)]


# -- counts ------------------------------------------------------------------------------------------------------------

_Groups: TypeAlias = "dict[tuple[str, str, str], int]"


def _groups(journal: Journal, wanted: _Wanted, newer: Sequence[_Listed]) -> _Groups | None:
    """Count what passes the filters that facets do not count by type, state and author; None where it is too various."""
    where, values = _without(journal, *wanted.rest())
    by = (
        "+item_type, +state, +author" if where else "item_type, state, author"
    )  # in order of the table, or of its index
    rest = f" WHERE {where}" if where else ""
    query = f"SELECT COUNT(*), item_type, state, author FROM listed{rest} GROUP BY {by} LIMIT ?"  # noqa: S608 - constants
    found: Counter[tuple[str, str, str]] | None = _counted(journal.index.db, query, values)
    if found is not None:
        found.update((row.item_type, row.state, row.author) for row in newer)
    return found


def _counted(db: Connection, query: str, values: Sequence[object]) -> Counter[Any] | None:
    """Return the counts that ``query`` gives by group, from a cache while the index does not change."""
    state = (db.execute("PRAGMA data_version").fetchone()[0], db.total_changes)
    if db.counts is None or db.counts[0] != state or len(db.counts[1]) >= _CACHED_MAX:
        db.counts = (state, {})
    cache, key = db.counts[1], (query, *values)
    if key not in cache:
        rows = db.execute(query, (*values, _GROUPS_MAX + 1)).fetchall()
        cache[key] = {tuple(group): count for count, *group in rows} if len(rows) <= _GROUPS_MAX else None
    held = cache[key]
    return None if held is None else Counter(held)


def _total(groups: _Groups | None, wanted: _Wanted) -> Total | None:
    if groups is None:
        return None
    return Total(
        sum(
            count
            for (item_type, state, author), count in groups.items()
            if item_type in wanted.types
            and (not wanted.states or state in wanted.states)
            and (not wanted.authors or author in wanted.authors)
        )
    )


def _facets(journal: Journal, wanted: _Wanted, groups: _Groups) -> MemoryFacets:
    types: Counter[str] = Counter()
    states: Counter[str] = Counter()
    authors: Counter[str] = Counter()
    for (item_type, state, author), count in groups.items():
        is_type = item_type in wanted.types
        is_state = not wanted.states or state in wanted.states
        is_author = not wanted.authors or author in wanted.authors
        if is_state and is_author:
            types[item_type] += count
        if is_type and is_author:
            states[state] += count
        if is_type and is_state:
            authors[author] += count
    return MemoryFacets(facets_of(types), facets_of(states), facets_of(authors), _tags(journal, wanted.types))


def _tags(journal: Journal, types: frozenset[str]) -> tuple[Facet, ...]:
    """Return the most frequent tags, as far as the index knows."""
    query = "SELECT COUNT(*), tags FROM listed WHERE item_type IN (SELECT value FROM json_each(?)) AND tags <> '' GROUP BY tags LIMIT ?"
    found: Counter[str] = Counter()
    for (tags,), count in (_counted(journal.index.db, query, [json.dumps(sorted(types))]) or {}).items():
        for tag in tags.strip(MARK).split(MARK):
            found[tag] += count
    return facets_of(found)


# -- rows --------------------------------------------------------------------------------------------------------------


def _entities(journal: Journal, keys: Sequence[Key]) -> list[Entity]:
    journal.have_ready(keys)
    return [entity for key in keys if (entity := journal.as_read(*key)) is not None]


def _stale(journal: Journal, entity: Entity, told: Told) -> tuple[str, ...]:
    return () if is_ended(entity.item_type, state_of(entity.item_type, entity.value), journal.types) else told(entity)


def _row(journal: Journal, entity: Entity, stale: tuple[str, ...]) -> MemoryRow:
    row, value = _listed(entity), entity.value
    texts = (said for name in ("text", "title", "name") if isinstance(said := value.get(name), str) and said)
    ended = is_ended(row.item_type, row.state, journal.types)
    return MemoryRow(
        row.item_id, row.item_type, row.state, next(texts, "")[:TEXT_CHARACTERS], row.author, format_ms(row.created),
        format_ms(row.changed), tags_of(value), _refs(value), ended, stale,
    )  # fmt: skip


def _listed(entity: Entity) -> _Listed:
    return _Listed(*listed_row(entity))  # type: ignore[arg-type]  # as the columns hold it


def _stale_rows(listing: _Listing, told: Told, first: int, size: int) -> tuple[list[MemoryRow], Total]:
    """Return a page of the stale entities, and how many there are; a lower bound where not all could be looked at."""
    journal = listing.journal
    walked = listing.anchored(STALE_WALKED_MAX + 1)
    found: list[tuple[Entity, tuple[str, ...]]] = []
    for start in range(0, min(len(walked), STALE_WALKED_MAX), _STEP):
        part = _entities(journal, walked[start : min(start + _STEP, STALE_WALKED_MAX)])
        found += [(entity, why) for entity in part if (why := _stale(journal, entity, told))]
    rows = [_row(journal, entity, why) for entity, why in found[first : first + size]]
    return rows, Total(len(found), len(walked) <= STALE_WALKED_MAX)


def _refs(value: Mapping[str, JSONValue]) -> tuple[str, ...]:
    """Return what an entity is about, as it refers to it."""
    about = value.get("about")
    items = [one for one in about if isinstance(one, dict)] if isinstance(about, list) else []
    return tuple(dict.fromkeys(said for one in items if isinstance(said := one.get("ref"), str)))
