"""Entities as a lineage had them after one of its records, and the entities that it changed between two.

Of each entity the last record up to a seq counts, so a page is a walk over the records from that seq back, which leaves out every record
that a later one of the same entity follows. Its cost depends on the page, not on the length of the history: a walk ends after
``WALKED_MAX`` records, and the next page goes on from there.

What only other lineages wrote is not included: when their records arrived is not recorded. See ``versions.entity_at``.
"""

from __future__ import annotations

__all__ = [
    "WALKED_MAX",
    "LastRecords",
    "content_at",
    "content_before",
    "counted_states",
    "first_between",
    "last_records",
]

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.field_reversal import Content, decoded
from periplus.journal.history.versions import Versions
from periplus.journal.index.tables import payload_of

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.state.index_values import IndexedRecord

WALKED_MAX: Final = 20_000
_PAYLOADS_AT_ONCE: Final = 500
_OF_ENTITY: Final = "item_type = ? AND item_id = ? AND lineage = ? AND seq BETWEEN ? AND ? AND version <> ''"
_FOLLOWED: Final = (
    "EXISTS (SELECT 1 FROM records AS later WHERE later.item_type = records.item_type AND later.item_id = records.item_id"
    " AND later.lineage = records.lineage AND later.seq > records.seq AND later.seq <= ? AND later.version <> '')"
)


class LastRecords(NamedTuple):
    """Records, newest first. ``before`` is where the next page begins, 0 on the last page.

    ``floor`` is the first seq of the lineage that is indexed: 1, unless the index begins at a checkpoint.
    """

    records: list[IndexedRecord]
    before: int
    floor: int


class _State(msgspec.Struct):
    state: msgspec.Raw = msgspec.Raw(b"null")


def last_records(
    journal: Journal, lineage: str, first: int, last: int, *, types: Sequence[str] = (), before: int = 0, limit: int
) -> LastRecords:
    """Return, of each entity that ``lineage`` changed in the records ``first`` to ``last``, the last of these records.

    The page ends after ``limit`` records, or with fewer where the walk is long; ``before`` continues a page.
    """
    journal.refresh()
    journal.project()
    floor = journal.index.floors().get(lineage, 1)
    first, end = max(first, floor), min(before or last + 1, last + 1)
    walked = max(first, end - WALKED_MAX)
    condition = f" AND item_type IN ({','.join('?' * len(types))})" if types else ""
    rows = journal.index.records(
        f"lineage = ? AND seq >= ? AND seq < ? AND version <> ''{condition} AND NOT {_FOLLOWED} ORDER BY seq DESC",
        [lineage, walked, end, *types, last],
        limit + 1,
    )
    if len(rows) > limit:
        return LastRecords(rows[:limit], rows[limit - 1].seq, floor)
    return LastRecords(rows, walked if walked > first else 0, floor)


def first_between(journal: Journal, record: IndexedRecord, first: int) -> IndexedRecord:
    """Return the earliest record from ``first`` on of the entity and lineage of ``record``, which may be ``record`` itself."""
    key = [record.item_type, record.item_id, record.lineage, first, record.seq]
    return next(iter(journal.index.records(f"{_OF_ENTITY} ORDER BY seq", key, 1)), record)


def content_at(journal: Journal, record: IndexedRecord) -> Content:
    """Return the content that ``record`` gave its entity; None if it deleted it, or if its content was redacted."""
    return decoded(payload_of([record], journal.view))


def content_before(journal: Journal, record: IndexedRecord) -> Content:
    """Return the content that the entity had when ``record`` was written; None where it did not exist, or that is unknown."""
    if len(record.parents) <= 1:
        return decoded(
            b"".join(journal.index.payload(record.item_type, record.item_id, parent) for parent in record.parents)
        )
    versions = Versions(journal, record.item_type, record.item_id, is_rest_enough=True, is_index_enough=True)
    shown = versions.shown(record.parents)
    return shown.value if shown is not None and not shown.deleted else None


def counted_states(
    journal: Journal, lineage: str, seq: int, types: Sequence[str], progress: Callable[[int, int], None]
) -> Mapping[tuple[str, str], int]:
    """Count the entities that ``lineage`` had after ``seq``, by type and the state in their content, empty where that has none.

    Reads the payload of each of them: for a large store that takes seconds.
    """
    journal.refresh()
    journal.project()
    found: dict[tuple[str, str], int] = {}
    decode = msgspec.json.Decoder(_State).decode
    for number, (item_type, payload) in enumerate(_payloads(journal, lineage, seq, types)):
        if not number % _PAYLOADS_AT_ONCE:
            progress(number, 0)
        if payload:
            state = bytes(decode(payload).state)
            name = msgspec.json.decode(state) if state[:1] == b'"' else ""
            found[item_type, name] = found.get((item_type, name), 0) + 1
    return found


def _payloads(journal: Journal, lineage: str, seq: int, types: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield type and payload of each entity of ``types`` at ``seq``; an empty payload for a deleted one."""
    db = journal.index.db
    for item_type in types:
        after = ""
        while True:
            rows = db.execute(
                "SELECT item_id, MAX(seq) FROM records INDEXED BY records_by_item WHERE item_type = ? AND item_id > ?"
                " AND lineage = ? AND seq <= ? GROUP BY item_id ORDER BY item_id LIMIT ?",
                (item_type, after, lineage, seq, _PAYLOADS_AT_ONCE),
            ).fetchall()
            for item_id, last in rows:
                yield item_type, _payload(journal, lineage, item_type, item_id, last)
            if len(rows) < _PAYLOADS_AT_ONCE:
                break
            after = rows[-1][0]


def _payload(journal: Journal, lineage: str, item_type: str, item_id: str, last: int) -> bytes:
    """Return the payload at ``last``: from the heads where that is still one, otherwise from the journal."""
    for head in journal.index.heads(item_type, item_id):
        if (head.lineage, head.seq) == (lineage, last):
            return head.payload
    records = journal.index.records(f"{_OF_ENTITY} ORDER BY seq DESC", (item_type, item_id, lineage, 0, last), 1)
    return payload_of(records, journal.view)
