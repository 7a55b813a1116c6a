"""Repair a project's store: the journal, with the objects that the layers above it name."""

from __future__ import annotations

__all__ = ["repair"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

from periplus.journal.care import repair as of_journal
from periplus.journal.storage.parking import Repair
from periplus.journal.storage.progress import Progress
from periplus.project.exchange.named_objects import all_named_objects, named_objects

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore


def repair(
    project: ProjectStore, sources: Sequence[str], progress: Progress, *, archive_lost: bool = False
) -> list[Repair]:
    """Repair what can be repaired; see ``periplus.journal.care.repair``."""
    done = of_journal.repair(
        project.journal, project.writer, sources=sources, references=named_objects, all_references=all_named_objects,
        archive_lost=archive_lost, progress=progress,
    )  # fmt: skip
    if done:
        from periplus.project.checkup_report import forget_checkup

        forget_checkup(project)
    if project.journal.damage is None:
        from periplus.project.context_store.renewal import renew_refs

        done += [
            Repair(f"the ref {name} was moved to contexts without the redacted content", "")
            for name in renew_refs(project)
        ]
    return done
