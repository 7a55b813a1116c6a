"""Values of the layers below as the documents of ``cli.schemas``."""

from __future__ import annotations

__all__ = ["candidate_out", "entity_out", "hit_out", "records_out", "run_out", "sealed_out", "stuck_out", "trail_out"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

from periplus.cli.schemas import ConflictOut, EntityOut, HitOut, RecordOut, RivalOut, StuckOut
from periplus.journal import Conflict, Entity, IndexedRecord, Journal
from periplus.memory import Hit
from periplus.memory.types import state_of
from periplus.project import ImportedTrail

if TYPE_CHECKING:
    from periplus.cli.inbox_schemas import CandidateOut
    from periplus.cli.trail_schemas import RunOut, TrailOut, TrailSealedOut
    from periplus.memory.stuck import Stuck
    from periplus.project.recording import Sealed
    from periplus.trail.recorder import Run


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


def candidate_out(entity: Entity) -> CandidateOut:
    from periplus.cli.inbox_schemas import CandidateOut, SeenOut

    value = entity.value
    held, provenance = value.get("payload"), value.get("provenance")
    payload = held if isinstance(held, dict) else {}
    source = provenance if isinstance(provenance, dict) else {}
    confidence, about, evidence = payload.get("confidence"), payload.get("about"), payload.get("evidence")
    is_ours = source.get("kind") == "reflection"
    return CandidateOut(
        entity.item_id, state_of("candidate", value), str(value.get("source_store", "")),
        str(value.get("source_lineage", "")), str(value.get("item_type", "")), str(value.get("item_id", "")),
        str(value.get("version", "")), str(payload.get("text", "")), str(value.get("accepted_as", "")),
        str(source.get("kind", "other_project")), confidence if isinstance(confidence, int) else 100,
        str(source.get("name", "")) if is_ours else "", str(value.get("why", "")), str(payload.get("remedy", "")),
        str(value.get("reason", "")),
        [str(one.get("ref", "")) for one in about if isinstance(one, dict)] if isinstance(about, list) else [],
        [SeenOut(str(one.get("ref", "")), str(one.get("quote", ""))) for one in evidence if isinstance(one, dict)]
        if isinstance(evidence, list) else [],
        str(value.get("created", "")), str(payload.get("sender", "")), str(payload.get("recipient", "")),
    )  # fmt: skip


def records_out(journal: Journal, records: Sequence[IndexedRecord]) -> list[RecordOut]:
    from periplus.journal.history import beside_others

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


def trail_out(imported: ImportedTrail) -> TrailOut:
    from periplus.cli.trail_schemas import TrailOut

    children = [trail_out(child) for child in imported.children]
    entity, before = imported.entity, imported.before
    card, seq = (before.value, entity.seq) if before is not None else ({}, 0)
    return TrailOut(
        entity.item_id, imported.changed, entity.value, children, imported.withheld, imported.digest, card, seq,
        imported.left_out,
    )  # fmt: skip


def run_out(run: Run) -> RunOut:
    from periplus.base.clock import format_ms
    from periplus.cli.trail_schemas import RunOut

    process = run.process.pid if run.process is not None else 0
    return RunOut(run.id, run.state, run.facts.agent, run.facts.title, format_ms(run.started_ms), process, run.lineage)


def sealed_out(sealed: Sealed) -> TrailSealedOut:
    from periplus.cli.trail_schemas import TrailSealedOut

    counts = sealed.entity.value.get("counts")
    steps = counts.get("steps", 0) if isinstance(counts, dict) else 0
    return TrailSealedOut(
        sealed.run.id, sealed.entity.item_id, sealed.run.digest, sealed.run.status, int(str(steps)), sealed.changed
    )
