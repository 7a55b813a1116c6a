"""Entities, records and search results as the documents of ``schemas``."""

from __future__ import annotations

__all__ = ["entity_out", "hit_out", "records_out", "stuck_out"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

from periplus.cli.common.schemas import ConflictOut, EntityOut, HitOut, RecordOut, RivalOut, StuckOut
from periplus.journal import Conflict, Entity, IndexedRecord, Journal
from periplus.memory import Hit

if TYPE_CHECKING:
    from periplus.memory.coordination.stuck_work import Stuck


def entity_out(entity: Entity) -> EntityOut:
    return EntityOut(
        entity.item_type, entity.item_id, entity.version, list(entity.heads), entity.rev, entity.ts, entity.writer,
        entity.seq, entity.value, [_conflict_out(conflict) for conflict in entity.conflicts],
    )  # fmt: skip


def _conflict_out(conflict: Conflict) -> ConflictOut:
    import orjson

    values = [
        RivalOut(one.version, one.writer, one.ts, bool(one.value), orjson.loads(one.value) if one.value else None)
        for one in conflict.values
    ]
    return ConflictOut(list(conflict.path), values)


def stuck_out(stuck: Stuck) -> StuckOut:
    return StuckOut(stuck.entity.item_id, stuck.why, list(stuck.members), stuck.command, stuck.otherwise)


def records_out(journal: Journal, records: Sequence[IndexedRecord]) -> list[RecordOut]:
    from periplus.journal.history.log import beside_others

    beside = beside_others(journal, records)
    return [_record_out(record, is_beside=record.version in beside) for record in records]


def _record_out(record: IndexedRecord, *, is_beside: bool) -> RecordOut:
    return RecordOut(
        record.seq, record.ts, record.writer, record.session, record.action, record.item_type, record.item_id,
        record.version, record.rev, record.key, record.summary, record.leaf.hex(), record.lineage, is_beside,
    )  # fmt: skip


def hit_out(hit: Hit) -> HitOut:
    return HitOut(
        hit.item_type, hit.item_id, hit.kind, hit.part, hit.ts, hit.text, hit.score, list(hit.why), list(hit.stale),
        list(hit.evidence), hit.state, hit.more, list(hit.conflicts), list(hit.standing), hit.checked, list(hit.rivals),
    )  # fmt: skip
