"""Trails, open runs and sealed runs as JSON documents."""

from __future__ import annotations

__all__ = ["run_out", "sealed_out", "trail_out"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import RunOut, TrailOut, TrailSealedOut
    from periplus.project import ImportedTrail
    from periplus.project.trail_store.recording import Sealed
    from periplus.trail.recording.recorder import Run


def trail_out(imported: ImportedTrail) -> TrailOut:
    from periplus.cli.trail.schemas import TrailOut

    children = [trail_out(child) for child in imported.children]
    entity, before = imported.entity, imported.before
    card, seq = (before.value, entity.seq) if before is not None else ({}, 0)
    return TrailOut(
        entity.item_id, imported.changed, entity.value, children, imported.withheld, imported.digest, card, seq,
        imported.left_out,
    )  # fmt: skip


def run_out(run: Run) -> RunOut:
    from periplus.base.clock import format_ms
    from periplus.cli.trail.schemas import RunOut

    process = run.process.pid if run.process is not None else 0
    return RunOut(run.id, run.state, run.facts.agent, run.facts.title, format_ms(run.started_ms), process, run.lineage)


def sealed_out(sealed: Sealed) -> TrailSealedOut:
    from periplus.cli.trail.schemas import TrailSealedOut

    counts = sealed.entity.value.get("counts")
    steps = counts.get("steps", 0) if isinstance(counts, dict) else 0
    return TrailSealedOut(
        sealed.run.id, sealed.entity.item_id, sealed.run.digest, sealed.run.status, int(str(steps)), sealed.changed
    )
