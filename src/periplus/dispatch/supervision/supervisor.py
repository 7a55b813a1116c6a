"""The supervisor of one dispatch: offers steps, drives their assignments, and ends when there is nothing left to do.

It is an ordinary process without threads, and nobody depends on it: agents and checks run under keepers of their own
(``processes``), the state of everything is in the journal, in git and in run folders. A supervisor that was killed is replaced by
the next one, which calls the same methods on the same facts.

Each look goes over all assignments once. Between two looks it sleeps until a job ends or a second has passed.
"""

from __future__ import annotations

__all__ = ["Outcome", "Supervisor"]

import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import (
    ConflictError,
    EnvironmentFailure,
    LockTimeoutError,
    PeriplusError,
    environment_failure,
)
from periplus.base.process.process_marks import process_mark
from periplus.dispatch.places import worktree_name
from periplus.dispatch.repository import Repository
from periplus.dispatch.supervision.choosing import Candidate, agent_for, in_order, may_retry
from periplus.dispatch.supervision.claim_keeping import CLAIM_TTL_S, keep_claims
from periplus.dispatch.supervision.lane import Lane
from periplus.dispatch.supervision.old_runs import forget_runs
from periplus.dispatch.supervision.ownership import Ownership
from periplus.dispatch.supervision.reach import Reach
from periplus.dispatch.supervision.workplace import SupervisorOptions, Workplace, shape
from periplus.memory.coordination.assignments import Offer, is_at_work, offer_again, offer_step
from periplus.memory.coordination.dispatches import change_dispatch
from periplus.memory.coordination.plans import ready_steps, steps_of

if TYPE_CHECKING:
    from periplus.agent.sandbox import Sandbox
    from periplus.journal import Entity
    from periplus.project import Project

Outcome: TypeAlias = Literal["done", "stopped", "interrupted"]
LOOK_S: Final = 1.0
IDLE_S: Final = 3.0  # between two looks while nothing happens; the end of a job is seen at once
BUSY_S: Final = 0.05  # after a look at which something happened
PATIENCE_S: Final = 30.0  # with a machine that refuses
_ENDED: Final = frozenset({"done", "dropped"})
_OFFER_S: Final = 2.0
_CALM_S: Final = 10.0  # without anything new


class Supervisor:
    """Carries the dispatch ``dispatch_id`` to its end. ``told`` is called with each assignment that changed."""

    def __init__(
        self, project: Project, dispatch_id: str, options: SupervisorOptions, told: Callable[[Entity], None] = lambda _: None, *,
        sandbox: Sandbox | None = None,
    ) -> None:  # fmt: skip
        if sandbox is None:
            from periplus.agent.sandbox import find_sandbox

            sandbox = find_sandbox(options.environment.get("PATH", ""))
        repository = Repository(project.folder, options.environment)
        self.workplace = Workplace(project, dispatch_id, options, repository, sandbox, told)
        self.lane = Lane(self.workplace)
        self._reach = Reach(project)
        self._ending: Literal["", "softly", "now"] = ""
        self._offered_s = float("-inf")
        self._busy_s = time.monotonic()
        self._troubles: dict[str, float] = {}  # since when an assignment cannot go on
        self._blocked: dict[str, str] = {}

    @property
    def blocked(self) -> dict[str, str]:
        """Steps that are ready and cannot be offered, with the reason."""
        return dict(self._blocked)

    def stop_softly(self) -> None:
        """Finish what runs, and offer nothing more."""
        self._ending = self._ending or "softly"

    def stop_now(self) -> None:
        """Stop the agents; their work stays in their worktrees."""
        self._ending = "now"

    def run(self) -> Outcome:
        """Work until every step has ended or nothing more can be done. Raises RefusedError where another process does it."""
        at = self.workplace
        at.places.make()
        with Ownership(at.places.lock(at.dispatch_id), at.dispatch_id):
            mark = process_mark_value(at)
            change_dispatch(at.journal, at.writer, at.dispatch_id, fields={"process": mark})
            at.repository.prune(at.places.worktree(""))
            self.lane.queue.begin()
            self.lane.checkout.begin()
            forget_runs(at)
            self.lane.queue.tidy()
            while True:
                is_busy = self.look()
                outcome = self._outcome()
                if outcome is not None:
                    return outcome
                self.sleep(is_busy=is_busy)

    def look(self) -> bool:
        """Do what can be done now; return True where something was."""
        at = self.workplace
        at.journal.refresh()
        is_open = at.entity.value.get("state") == "open"
        lost = self._keep_claims() if is_open else {}
        is_busy = False
        for assignment in at.assignments():
            try:
                if not is_at_work(assignment):
                    is_busy |= self.lane.wind_up(assignment)
                elif is_open and self._ending == "now":
                    self._interrupt(assignment)
                elif is_open:
                    is_busy |= self._keep(assignment, lost) and self.lane.advance(assignment)
                self._troubles.pop(assignment.item_id, None)
            except ConflictError:
                is_busy = True  # somebody changed it meanwhile: the next look sees that
            except PeriplusError as error:
                self._trouble(assignment, error)
            except OSError as error:
                self._trouble(assignment, environment_failure(error, "go on with", assignment.item_id))
        now_s = time.monotonic()
        if is_open and not self._ending and (is_busy or now_s - self._offered_s > _OFFER_S):
            self._offered_s = now_s
            is_busy |= self._offer()
        return is_busy

    def _keep_claims(self) -> dict[str, str]:
        """Move on the claims of assignments at work. Where that fails now, none of them is taken for lost."""
        try:
            return keep_claims(self.workplace)
        except PeriplusError as error:
            self.workplace.remark(f"the claims were not renewed: {error}")
            return {}

    # -- offering -------------------------------------------------------------------------------------------------------

    def _offer(self) -> bool:
        """Offer ready steps while lanes are free. Assignments that wait for a person take no lane."""
        at = self.workplace
        order, assignments = at.order, at.assignments()
        busy = [one for one in assignments if is_at_work(one) and one.value.get("state") != "waiting"]
        free = order.lanes - len(busy)
        if free <= 0 or self.lane.is_spent():
            return False
        held = {str(one.value.get("step")): one for one in assignments}
        steps = [
            step for step in ready_steps(at.journal, order.plan)
            if (one := held.get(step.item_id)) is None or may_retry(shape(one), order.limits)
        ]  # fmt: skip
        touched = [self._reach.of(str(one.value.get("step"))) for one in busy]
        chosen = in_order([Candidate(step, self._reach.of(step.item_id)) for step in steps], touched)
        self._blocked.clear()
        offered = False
        for candidate in chosen:
            if free <= 0:
                break
            try:
                assignment = self._offered(candidate.step, held.get(candidate.step.item_id), assignments)
                assignments.append(assignment)
                at.told(assignment)
                free -= 1
                offered = True
            except PeriplusError as error:  # the next look tries again
                self._blocked[candidate.step.item_id] = str(error)
        return offered

    def _offered(self, step: Entity, held: Entity | None, assignments: list[Entity]) -> Entity:
        at = self.workplace
        order, text = at.order, str(step.value.get("text", ""))
        earlier = [run.agent for run in shape(held).runs if run.purpose == "work"] if held is not None else []
        agent = agent_for(order.agents, assignments, earlier)
        branch = f"periplus/{step.item_id}"
        base = str(held.value.get("base", "")) if held is not None else self._base(branch)
        offer = Offer(
            at.entity, step.item_id, agent, at.holder(step.item_id, agent), order.role, branch,
            base or at.repository.tip(order.branch), worktree_name(text, step.item_id, at.project.root), CLAIM_TTL_S,
        )  # fmt: skip
        if held is None:
            return offer_step(at.journal, at.writer, offer)
        return offer_again(at.journal, at.writer, held, offer)

    def _base(self, branch: str) -> str:
        """Return where work on ``branch`` begins; empty for the tip. An earlier dispatch may have left the branch, with work on it."""
        at = self.workplace
        tip, target = at.repository.tip(branch), at.repository.tip(at.order.branch)
        return at.repository.merge_base(tip, target) if tip and target else ""

    # -- keeping --------------------------------------------------------------------------------------------------------

    def _keep(self, assignment: Entity, lost: dict[str, str]) -> bool:
        """Return True where an assignment still has its step: a person may have dropped it, or taken its claim away."""
        at = self.workplace
        step = at.journal.get("step", str(assignment.value.get("step")))
        is_ended = step is None or step.value.get("state") in _ENDED
        if not is_ended and assignment.item_id not in lost:
            return True
        value = shape(assignment)
        if value.state in ("verified", "reviewed") and value.merged and self.lane.queue.has_merged(value):
            self.lane.queue.settle(assignment)
        else:
            reason = "its step was ended by somebody" if is_ended else lost[assignment.item_id]
            at.change(assignment, state="cancelled", reason=reason)
        return False

    def _interrupt(self, assignment: Entity) -> None:
        """Stop the job of an assignment at work; the next supervisor goes on with it."""
        run = str(assignment.value.get("run", ""))
        if run:
            self.lane.stop(run, "stopped")

    def _trouble(self, assignment: Entity, error: PeriplusError) -> None:
        """End an assignment that cannot go on; where even that fails, the next look tries again. What the machine refuses (a full
        disk, a lock) is tried again for a while before.
        """
        now_s = time.monotonic()
        if isinstance(error, EnvironmentFailure | LockTimeoutError):
            self.workplace.remark(f"{assignment.item_id}: {error}")
            if now_s - self._troubles.setdefault(assignment.item_id, now_s) < PATIENCE_S:
                return
        try:
            self.lane.fail(assignment, f"{error}. {error.safe} {error.mend}".strip())
        except PeriplusError as second:
            self.workplace.remark(f"{assignment.item_id}: {second}")

    # -- the end --------------------------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome | None:
        at = self.workplace
        assignments = at.assignments()
        is_running = any(self._has_job(one) for one in assignments) or (
            any(_is_unwound(one) for one in assignments if not is_at_work(one))
        )
        if at.entity.value.get("state") != "open":
            return None if is_running else ("done" if at.entity.value.get("state") == "done" else "stopped")
        if self._ending:
            waits = self._ending == "softly" and any(
                is_at_work(one) and one.value.get("state") != "waiting" for one in assignments
            )
            return None if is_running or waits else "interrupted"
        if is_running or any(is_at_work(one) for one in assignments):
            return None
        steps = steps_of(at.journal, at.order.plan)
        left = [step for step in steps if step.value.get("state") not in _ENDED]
        plan = at.journal.get("plan", at.order.plan)
        if plan is None or plan.value.get("state") == "dropped":
            self._end("stopped", "its plan was dropped")
            return "stopped"
        if not left:
            self._end("done", "")
            return "done"
        held = {str(one.value.get("step")): shape(one) for one in assignments}
        limits = at.order.limits
        if not self.lane.is_spent():
            ready = ready_steps(at.journal, at.order.plan)
            if any(step.item_id not in held or may_retry(held[step.item_id], limits) for step in ready):
                return None  # claims of others are in the way
            if not ready and self._waits_for_others(left):
                return None
        self._end("stopped", self._reason(left))
        return "stopped"

    def _waits_for_others(self, left: list[Entity]) -> bool:
        """Return True where somebody outside of the dispatch works on a step of its plan."""
        from periplus.memory.claim_status import live_claims

        at = self.workplace
        steps = {step.item_id for step in left}
        return any(
            str(claim.value.get("step", "")) in steps for claim in live_claims(at.journal, at.journal.clock.now_ms())
        )

    def _reason(self, left: list[Entity]) -> str:
        many = "1 step is" if len(left) == 1 else f"{len(left)} steps are"
        if self.lane.is_spent():
            return f"the limit of tokens or money was reached; {many} left"
        return f"{many} left: {', '.join(step.item_id for step in left[:5])}"

    def _end(self, state: str, reason: str) -> None:
        at = self.workplace
        self.lane.queue.tidy()  # before: nobody would do it later
        fields = {"ended": format_ms(at.journal.clock.now_ms())}
        change_dispatch(at.journal, at.writer, at.dispatch_id, state=state, reason=reason, fields=fields)
        plan = at.journal.get("plan", at.order.plan)
        if state == "done" and plan is not None and plan.value.get("state") in ("todo", "doing"):
            at.project.work.change_state([plan.item_id], "done", reason=f"done by {at.dispatch_id}")

    def _has_job(self, assignment: Entity) -> bool:
        run = str(assignment.value.get("run", ""))
        return bool(run) and self.workplace.run_folder(run).standing() in ("running", "orphaned", "starting")

    def sleep(self, *, is_busy: bool = False) -> None:
        """Sleep until a job ends or it is time for the next look, which is later the longer nothing has happened."""
        now_s = time.monotonic()
        self._busy_s = now_s if is_busy else self._busy_s
        seconds = BUSY_S if is_busy else LOOK_S if now_s - self._busy_s < _CALM_S else IDLE_S
        poll = select.poll()
        fds: list[int] = []
        for assignment in self.workplace.assignments():
            run = str(assignment.value.get("run", ""))
            fd = self.workplace.run_folder(run).waitable_fd() if run and is_at_work(assignment) else None
            if fd is not None:
                fds.append(fd)
                poll.register(fd, select.POLLIN)
        try:
            poll.poll(seconds * 1_000)
        finally:
            for fd in fds:
                os.close(fd)


def _is_unwound(assignment: Entity) -> bool:
    """Return True where an assignment has a job whose end is not written."""
    value = shape(assignment)
    return bool(value.run and value.runs) and not value.runs[-1].ended


def process_mark_value(at: Workplace) -> dict[str, JSONValue]:
    """Return the mark of this process as records have it."""
    return dict(process_mark(os.getpid(), at.journal.files)._asdict())
