"""Problems of a store that can be told at once, whatever its size: by the newest records, names of files, and notes of others."""

from __future__ import annotations

__all__ = ["quick_problems"]

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, PeriplusError
from periplus.journal.care.problem import Problem

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

RECORDS_READ: Final = 100
_DOCTOR: Final = "Run `periplus doctor`."


def quick_problems(project: ProjectStore) -> list[Problem]:
    """Return what is wrong as far as it is seen by reading little: the newest records, and names of files. ``Project.examine`` finds the rest.

    Raises what reading the log raises where the store is gone or its index cannot be used.
    """
    damage = _met(project)
    found = [_damage(damage)] if damage is not None else []
    parts: list[Callable[[ProjectStore], Iterable[Problem]]] = [_last_checkup, _hooks, _files, _other_places]
    if damage is None:
        parts = [_journal, *parts]
    for part in parts:
        try:
            found += part(project)
        except PeriplusError as error:
            found.append(_damage(error))
    return found


def _met(project: ProjectStore) -> DamageError | None:
    """Return the damage of the journal that was met so far, or that reading its newest records meets."""
    from periplus.journal.history.log import newest_within
    from periplus.journal.history.record_filter import RecordFilter

    journal = project.journal
    if journal.damage is None:
        newest_within(journal, RecordFilter(), lineages=journal.lineages(), before={}, limit=RECORDS_READ)
    return journal.damage


def _damage(error: PeriplusError) -> Problem:
    path = getattr(error, "path", None) or ""
    offset, seq = getattr(error, "offset", None), getattr(error, "seq", None)
    mend = " ".join(filter(None, (error.safe, error.mend or _DOCTOR)))
    severity = "error" if isinstance(error, DamageError) else "warning"
    return Problem(severity, error.wrong, path, -1 if offset is None else offset, seq or 0, mend)  # type: ignore[arg-type]


def _journal(project: ProjectStore) -> Iterator[Problem]:
    from periplus.journal.care.unconfirmed_records import list_unconfirmed
    from periplus.journal.checkpoints.creation import WORK_BYTES_MAX, work_due
    from periplus.journal.checkpoints.offline_archive import absent

    journal = project.journal
    for gone in absent(journal):
        mend = "Put the archive back, or run `periplus doctor --repair --from COPY`."
        severity = "note" if gone.is_stood_for else "error"
        said = f"{gone}{'; a checkpoint stands for them' if gone.is_stood_for else ''}"
        yield Problem(severity, said, mend=mend)  # type: ignore[arg-type]
    unsure = len(list_unconfirmed(journal))
    if unsure:
        yield Problem(
            "warning", f"{unsure:,} records may not be on the disk yet, because a sync failed", mend="The next write tries again."
        )  # fmt: skip
    if journal.lineage and work_due(journal) > WORK_BYTES_MAX:
        yield Problem(
            "note",
            "a checkpoint is due, which makes rebuilding the index faster",
            mend="Run `periplus doctor --compact`.",
        )
    if journal.copied_from:
        yield Problem(
            "note", f"this store is a copy of lineage {journal.copied_from}; the next write starts a lineage of its own"
        )
    if journal.unindexed() and not journal.project():
        yield Problem(
            "note", "the index is behind the journal, and another process is at it", mend="It catches up by itself."
        )


def _last_checkup(project: ProjectStore) -> Iterator[Problem]:
    from periplus.project.checkup_report import told_of_damage

    told = told_of_damage(project.root)
    if told:
        yield Problem("error", told, mend=_DOCTOR)


def _hooks(project: ProjectStore) -> list[Problem]:
    from periplus.project.agent_hooks.hooks import ProjectHooks
    from periplus.project.agent_hooks.pending_events import waiting_events

    return waiting_events(ProjectHooks(project).spool)


def _files(project: ProjectStore) -> Iterator[Problem]:
    from periplus.base.filesystem.file_systems import file_system_of, is_room_for_maps
    from periplus.journal.care.doctor import NETWORK_SYSTEMS
    from periplus.journal.projections.git_state import sparse_checkout

    system = file_system_of(project.root)
    if system in NETWORK_SYSTEMS:
        yield Problem(
            "warning", f"the store lies on a network file system ({system}), whose locks may not hold", project.root,
            mend="Keep it on a disk of this machine, and exchange it with `periplus sync`.",
        )  # fmt: skip
    if not os.access(project.root, os.W_OK):
        yield Problem(
            "warning",
            "the store's folder cannot be written: it is read-only here",
            project.root,
            mend="Reading goes on.",
        )
    elif not is_room_for_maps(project.root):
        yield Problem("warning", "the disk is nearly full", project.root, mend="Free some space.")
    sparse = sparse_checkout(project.root)
    if sparse.state == "outside":
        yield Problem(
            "error", "git's sparse-checkout excludes .periplus; its next run deletes the store with the journal", project.root,
            mend=f"Include it: `{sparse.add}`",
        )  # fmt: skip


def _other_places(project: ProjectStore) -> Iterator[Problem]:
    from periplus.project.care.unjoined_lineages import stray_journal_problems, unjoined_lineage_problems
    from periplus.project.declared_types import declared_problems

    yield from declared_problems(project)
    yield from unjoined_lineage_problems(project)
    yield from stray_journal_problems(project)
