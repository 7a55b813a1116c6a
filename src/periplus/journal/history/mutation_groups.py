"""Groups of records of one mutation that are undone together.

A mutation writes one batch, in which each line states its place and their number. Two records belong together if their entities name each
other by id, before or after the change: an entity and the one that supersedes it, a claim and its step, a step and its plan. Records that
were only written at once (a hundred notes of one import) do not.
"""

from __future__ import annotations

__all__ = ["families_of"]

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.journal.index.receipt import payload_of
from periplus.journal.records.record import decode_line

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.state.index_values import IndexedRecord

_NAMED: Final = re.compile(rb'"([0-9a-z_]{1,32}_[0-9a-z]{16})"')


def families_of(journal: Journal, records: Iterable[IndexedRecord]) -> list[list[IndexedRecord]]:
    """Return the complete groups of ``records`` (of one lineage, by seq), in the order of their first records.

    Raises DamageError if a record of their mutations cannot be read.
    """
    wanted = {record.seq: record for record in records}
    found: list[list[IndexedRecord]] = []
    done = 0  # the last seq of the mutations examined so far
    for seq, record in wanted.items():
        if seq <= done:
            continue
        line, _ = decode_line(journal.line_at(record))
        place, count = line.txn or (1, 1)
        done = seq - place + count
        batch = [record]
        if count > 1:
            where = "lineage = ? AND seq BETWEEN ? AND ? AND version <> '' ORDER BY seq"
            batch = journal.index.records(where, (record.lineage, done - count + 1, done), -1)
        found += [family for family in _families(journal, batch) if any(one.seq in wanted for one in family)]
    return found


def _families(journal: Journal, batch: Sequence[IndexedRecord]) -> list[list[IndexedRecord]]:
    if len(batch) == 1:
        return [list(batch)]
    ids = {record.item_id for record in batch}
    family = {item_id: {item_id} for item_id in ids}
    for record in batch:
        for other in ids & _named(journal, record):
            joined, more = family[record.item_id], family[other]
            if joined is more:
                continue
            if len(joined) < len(more):  # move the smaller set, or long chains would take quadratic time
                joined, more = more, joined
            joined |= more
            for item_id in more:
                family[item_id] = joined
    together: dict[int, list[IndexedRecord]] = {}
    for record in batch:
        together.setdefault(id(family[record.item_id]), []).append(record)
    return list(together.values())


def _named(journal: Journal, record: IndexedRecord) -> set[str]:
    """Return the ids in the record's payload and in its entity's payload before."""
    before = [
        next(iter(journal.index.versions(record.item_type, record.item_id, version)), None)
        for version in record.parents
    ]
    said = [payload_of(journal, decode_line(journal.line_at(one))[0]) for one in (record, *before) if one is not None]
    return {name.decode() for payload in said for name in _NAMED.findall(payload)}
