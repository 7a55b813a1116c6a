"""The contents of a store and its apparent soundness, at a glance."""

from __future__ import annotations

__all__ = ["Dispatched", "Status", "status_of"]

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.projections.external_edits import TakenIn
    from periplus.memory.coordination.dispatch_overview import DispatchProgress
    from periplus.project.store import ProjectStore


class Dispatched(NamedTuple):
    """Open dispatches, assignments that agents do here now and in other clones, and questions that wait for a person."""

    dispatches: tuple[DispatchProgress, ...] = ()
    at_work: int = 0
    elsewhere: int = 0
    questions: int = 0


class Status(NamedTuple):
    """The contents of the store and its apparent soundness; ``doctor`` checks more."""

    root: str
    store_id: str
    lineage: str
    records: int
    last_ts: str
    counts: dict[str, int]
    segment_bytes: int
    damage: str
    is_index_current: bool
    files: TakenIn
    copied_from: str = ""
    previous: str = ""
    conflicts: tuple[str, ...] = ()
    others: tuple[tuple[str, int], ...] = ()  # other lineages, each with how many of its records are held
    is_checkpoint_due: bool = False  # and too much work to be done within a mutation
    unsealed: tuple[str, ...] = ()  # ids of the runs that are recorded now, or were left
    apart: tuple[str, ...] = ()  # entities that separate clones replaced by different ones
    stuck: tuple[str, ...] = ()  # plans and steps that nobody can continue
    mend: str = ""  # the command for the damage, where it is not `periplus doctor`
    away: tuple[str, ...] = ()  # archived segments that lie elsewhere
    takes_writes: bool = True
    sparse: str = ""  # whether git's sparse-checkout includes the store's folder, as in ``sparse_checkout``
    sparse_mend: str = ""  # the command that includes it
    is_from_files: bool = False  # all records came from entity files, as in a fresh clone
    pull_blocked: tuple[str, ...] = ()  # entity files that `git pull` does not overwrite
    mail: int = 0  # unread messages to the writer, or messages that wait for an answer
    handoffs: int = 0  # open ones, for the writer or for anybody
    candidates: int = 0  # open candidates
    claims: int = 0  # claims that hold now; ``counts`` also has released and expired ones
    unsure: int = 0  # records whose fsync failed: readers do not get them until they are known to be on the disk
    found: str = ""  # what the last checkup found wrong, where nothing that was read now is
    dispatched: Dispatched = Dispatched()


def status_of(project: ProjectStore) -> Status:
    from periplus.journal.care.unconfirmed_records import list_unconfirmed
    from periplus.journal.checkpoints.creation import WORK_BYTES_MAX, work_due
    from periplus.journal.checkpoints.offline_archive import absent
    from periplus.journal.projections.external_edits import ADOPTED
    from periplus.journal.projections.git_state import sparse_checkout
    from periplus.memory.coordination.stuck_work import stuck_work
    from periplus.memory.succession.successors import rivalries
    from periplus.project.care.pull_obstacles import files_blocking_pull
    from periplus.project.checkup_report import told_of_damage
    from periplus.project.knowledge.work import ProjectWork

    journal = project.journal
    files = project.look(everywhere=True)
    end = journal.end()
    is_current = not journal.unindexed() or journal.project()
    last = journal.index.records("lineage = ? ORDER BY seq DESC", (journal.lineage,), 1)
    said = journal.index.records("lineage = ? AND writer <> ?", (journal.lineage, ADOPTED.name), 1)
    others = tuple((name, journal.end(name).next_seq - 1) for name in journal.lineages() if name != journal.lineage)
    counts: dict[str, int] = journal.index.counts()
    newest = journal.reader(journal.lineage).path_of(end.segment) if end.segment else ""
    size = os.path.getsize(newest) if os.path.exists(newest) else 0  # a missing file is reported as damage
    gone = absent(journal) if journal.damage is None else []
    incomplete = _incomplete(journal) if journal.damage is None else ""
    damage = str(journal.damage) if journal.damage is not None else incomplete
    lost = "" if damage else next((str(one) for one in gone if not one.is_stood_for), "")
    mend = "`periplus doctor --repair --from COPY` completes it." if incomplete or lost else ""
    if journal.damage is not None and "doctor" not in journal.damage.mend:
        mend = journal.damage.mend
    return Status(
        project.root,
        journal.store_id,
        journal.lineage,
        end.next_seq - 1,
        last[0].ts if last else "",
        counts,
        size,
        damage or lost,
        is_current,
        files,
        journal.copied_from,
        journal.own.previous if journal.own is not None else "",
        tuple(entity.item_id for entity in journal.contested() if entity.is_in_conflict),
        others,
        bool(journal.lineage) and work_due(journal) > WORK_BYTES_MAX,
        tuple(run.item_id for run in journal.entities("run") if run.value.get("state") != "sealed"),
        tuple(one.old for one in rivalries(journal)),
        tuple(one.entity.item_id for one in stuck_work(journal)),
        mend,
        tuple(str(one) for one in gone if one.is_stood_for),
        not damage,
        *sparse_checkout(project.root),
        not others and not said,
        tuple(files_blocking_pull(project.root)),
        *_waiting(journal, project.writer.name, counts),
        len(ProjectWork(project).claims()) if "claim" in counts else 0,
        len(list_unconfirmed(journal)),
        told_of_damage(project.root),
        _dispatched(project, counts),
    )


def _dispatched(project: ProjectStore, held: Collection[str]) -> Dispatched:
    from periplus.project.knowledge.dispatched_work import DispatchedWork

    if "dispatch" not in held and "question" not in held:
        return Dispatched()
    work = DispatchedWork(project)
    at_work = work.at_work()
    theirs = sum(map(work.is_of_another_clone, at_work))
    return Dispatched(tuple(work.progress()), len(at_work) - theirs, theirs, len(work.questions()))


def _waiting(journal: Journal, name: str, held: Collection[str]) -> tuple[int, int, int]:
    """Count the messages, handoffs and candidates that wait for ``name``; ``held`` are the types that the store has
    entities of.
    """
    messages = passed_on = proposed = 0
    if "message" in held:
        from periplus.memory.coordination.mail import mail

        messages = len(mail(journal, name))
    if "handoff" in held:
        from periplus.memory.coordination.handoffs import handoffs

        passed_on = sum(one.value.get("state") == "open" for one in handoffs(journal, recipient=name))
    if "candidate" in held:
        from periplus.memory.reflection.candidates import inbox

        proposed = len(inbox(journal))
    return messages, passed_on, proposed


def _incomplete(journal: Journal) -> str:
    """Return what a store that was made from the remains of another still lacks though its present state is whole."""
    from periplus.journal.recovery.missing_records import missing_ranges
    from periplus.journal.storage.truncation_check import incomplete_lineages

    told = [
        f"{one}: {', '.join(ranges)}"
        for one in incomplete_lineages(journal)
        if (ranges := missing_ranges(journal, one))
    ]
    return f"made from the remains of another store, records are missing of {'; of '.join(told)}" if told else ""
