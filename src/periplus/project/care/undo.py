"""Undo records, with the conditions of the layers above the journal: claims, dispatched work, and refs of contexts."""

from __future__ import annotations

__all__ = ["undo_in_project"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import PeriplusError
from periplus.journal.history.field_reversal import Content
from periplus.journal.history.undo import Undoing, plan_undo, undo
from periplus.journal.storage.progress import Progress, no_progress
from periplus.memory.coordination.claim_undo import claims_in_the_way
from periplus.memory.coordination.dispatch_undo import dispatched_in_the_way
from periplus.memory.entities.types import CONTEXT_REF

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

_Key = tuple[str, str]


def undo_in_project(
    project: ProjectStore, *, seqs: Sequence[int], session: str, lineage: str, key: str, dry_run: bool, progress: Progress | None
) -> Undoing:  # fmt: skip
    """See ``journal.history.undo``. With ``dry_run`` nothing is written."""

    def judge(would: Mapping[_Key, Content]) -> dict[_Key, str]:
        refused = claims_in_the_way(project.journal, would) | dispatched_in_the_way(project.journal, would)
        return refused | _refs_to_nothing(project, would)

    told = progress or no_progress
    if dry_run:
        return plan_undo(project.journal, seqs=seqs, session=session, lineage=lineage, judge=judge, progress=told)
    return undo(
        project.journal, project.writer, seqs=seqs, session=session, lineage=lineage, key=key, judge=judge, progress=told
    )  # fmt: skip


def _refs_to_nothing(project: ProjectStore, would: Mapping[_Key, Content]) -> dict[_Key, str]:
    """Return the refs that would point to a context that is incomplete or damaged here, and why."""
    from periplus.project.context_store.contexts import contexts_of

    found: dict[_Key, str] = {}
    for key, content in would.items():
        target = content.get("target") if key[0] == CONTEXT_REF and content is not None else None
        if not isinstance(target, str) or not is_digest_text(target):
            continue
        try:
            contexts_of(project).library.admit(bytes.fromhex(target))
        except PeriplusError as error:
            found[key] = f"the context {target[:12]} that it pointed to cannot be read: {error}"
    if any(key[0] == CONTEXT_REF for key in would):
        contexts_of(project).library.source.settle()  # before a record moves the ref there
    return found
