"""Control of a dispatch from any process: retry, take up again, drop. A supervisor that runs sees the records, another one goes on by them."""

from __future__ import annotations

__all__ = ["ENDED", "Dropped", "Loss", "Retried", "drop", "loss", "reopen", "retry"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.reports.stored import assignment_of, dispatch_of
from periplus.memory.coordination.assignments import assignments_of, change_assignment, find_assignment, is_at_work
from periplus.memory.coordination.dispatches import change_dispatch, find_dispatch

if TYPE_CHECKING:
    from periplus.dispatch.repository import Repository
    from periplus.journal import Entity, Journal
    from periplus.project import Project

ENDED: Final = ("failed", "timed_out", "cancelled")
_SHOWN_MAX: Final = 20


class Retried(NamedTuple):
    """``reopened``: the dispatch was stopped, and is open again."""

    dispatch: Entity
    assignments: tuple[Entity, ...]
    reopened: bool


class Loss(NamedTuple):
    """Work that would be lost with a worktree and its branch: a number of commits, and uncommitted files."""

    commits: int
    uncommitted: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.commits or self.uncommitted)


class Dropped(NamedTuple):
    """``tip`` is the last commit of the branch that was removed: git keeps it for some time."""

    assignment: Entity
    worktree: str
    branch: str
    tip: str


def retry(project: Project, references: Sequence[str]) -> Retried:
    """Allow one more attempt for assignments that ended without result; a dispatch stands for all of its that did.

    Raises RefusedError for one that is at work or integrated, UsageError where they belong to several dispatches.
    """
    found = _ended(project.journal, references)
    orders = {str(one.value.get("dispatch", "")) for one in found}
    if len(orders) > 1:
        raise UsageError(
            "these belong to several dispatches", safe="Nothing was written.", mend="Name those of one at a time."
        )
    dispatch = find_dispatch(project.journal, orders.pop())
    if dispatch.value.get("state") == "done":
        raise RefusedError(f"the dispatch {dispatch.item_id} is done", safe="Nothing was written.",
                           mend=f"Start another for the rest of the plan: periplus dispatch start {dispatch.value.get('plan')} --agent NAME")  # fmt: skip
    is_stopped = dispatch.value.get("state") == "stopped"
    if is_stopped:
        dispatch = _opened(project, dispatch)
    return Retried(dispatch, tuple(_granted(project, one) for one in found), is_stopped)


def reopen(project: Project, dispatch: Entity) -> Retried:
    """Take up a stopped dispatch again: what was cancelled with it gets one more attempt. An open one is left alone.

    Raises RefusedError where it is done.
    """
    if dispatch.value.get("state") == "done":
        raise RefusedError(f"the dispatch {dispatch.item_id} is done", safe="Nothing was written.",
                           mend=f"See it: periplus dispatch show {dispatch.item_id}")  # fmt: skip
    if dispatch.value.get("state") == "open":
        return Retried(dispatch, (), reopened=False)
    cancelled = [
        one for one in assignments_of(project.journal, dispatch.item_id) if one.value.get("state") == "cancelled"
    ]
    dispatch = _opened(project, dispatch)
    return Retried(dispatch, tuple(_granted(project, one) for one in cancelled), reopened=True)


def loss(project: Project, repository: Repository, reference: str, worktrees: str) -> Loss:
    """Return what ``drop`` would lose. Raises as it does."""
    held = _droppable(project.journal, reference)
    one = assignment_of(held.value)
    order = project.journal.get("dispatch", one.dispatch)
    commits = 0
    tip = repository.tip(one.branch) if one.branch else ""
    onto = repository.tip(dispatch_of(order.value).branch) if order is not None else ""
    if tip and onto and one.state != "integrated":
        commits = repository.changes(repository.merge_base(onto, tip) or onto, tip).commits
    path = os.path.join(worktrees, one.worktree) if one.worktree else ""
    if not path or not os.path.lexists(path):
        return Loss(commits, ())
    left = repository.describe(path)
    return Loss(commits, (*left.unmerged, *left.changed, *left.untracked, *left.nested)[:_SHOWN_MAX])


def drop(project: Project, repository: Repository, reference: str, worktrees: str) -> Dropped:
    """Remove worktree and branch of an assignment that has ended, with all work in them; ``worktrees`` is their folder.

    Raises RefusedError for one that is at work, or that a supervisor is about to offer again.
    """
    held = _droppable(project.journal, reference)
    one = assignment_of(held.value)
    path = os.path.join(worktrees, one.worktree) if one.worktree else ""
    tip = repository.tip(one.branch) if one.branch else ""
    if path:
        repository.remove_worktree(path, keep_branch=False, force=True)
    if tip:
        repository.drop_branch(one.branch, force=True)
    return Dropped(held, path, one.branch, tip)


# -- inside ------------------------------------------------------------------------------------------------------------


def _opened(project: Project, dispatch: Entity) -> Entity:
    return change_dispatch(project.journal, project.writer, dispatch.item_id, state="open", fields={"ended": ""})


def _granted(project: Project, one: Entity) -> Entity:
    """Allow one attempt more than there were."""
    held = assignment_of(one.value)
    fields = {"granted": max(held.granted, held.attempt) + 1}
    return change_assignment(project.journal, project.writer, one, fields=fields)


def _ended(journal: Journal, references: Sequence[str]) -> list[Entity]:
    journal.refresh()
    found: dict[str, Entity] = {}
    for reference in references:
        held = journal.find(reference)
        if held.item_type == "dispatch":
            ended = [one for one in assignments_of(journal, held.item_id) if one.value.get("state") in ENDED]
            if not ended:
                raise NotFoundError(f"nothing of {held.item_id} ended without result", safe="Nothing was written.",
                                    mend=f"See `periplus dispatch show {held.item_id}`.")  # fmt: skip
            found.update((one.item_id, one) for one in ended)
            continue
        one = find_assignment(journal, reference)
        state = str(one.value.get("state", ""))
        if state not in ENDED:
            mend = f"If nobody carries it: periplus dispatch start --resume {one.value.get('dispatch')}"
            raise RefusedError(
                f"{one.item_id} is {state}: there is nothing to try again", safe="Nothing was written.",
                mend="" if state == "integrated" else mend,
            )  # fmt: skip
        found[one.item_id] = one
    return list(found.values())


def _droppable(journal: Journal, reference: str) -> Entity:
    from periplus.dispatch.reports.board import board_of
    from periplus.dispatch.supervision.choosing import may_retry

    held = find_assignment(journal, reference)
    if is_at_work(held):
        raise RefusedError(
            f"{held.item_id} is {held.value.get('state')}: an agent may be at work in its worktree", safe="Nothing was removed.",
            mend=f"Stop the dispatch first: periplus dispatch stop {held.value.get('dispatch')}",
        )  # fmt: skip
    one = assignment_of(held.value)
    order = journal.get("dispatch", one.dispatch)
    is_carried = order is not None and board_of(journal, order).heading.is_carried is not False
    if order is not None and is_carried and may_retry(one, dispatch_of(order.value).limits):
        raise RefusedError(f"{held.item_id} is about to be tried again", safe="Nothing was removed.",
                           mend=f"Stop the dispatch first: periplus dispatch stop {one.dispatch}")  # fmt: skip
    return held
