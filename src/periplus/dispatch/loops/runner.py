"""The runner of loops: opens one, and does its phases by dispatches.

A try at a phase goes so: a plan with a step for each agent apart, a dispatch for it, the supervisor until it ends, the commands that
artifacts ask for, the gate, one record with all of that. Each of these is found again by whoever goes on after a crash: the plan by
its key, the dispatch by its plan, jobs by their run folders. Until the last record is written the loop stands where it stood.

Where a gate stays shut, what is missing goes into the next try. Agents that handed in nothing are asked again; where all have handed
in, all are asked again, and their artifacts count no more. All phases work on one branch, ``periplus/<loop>``, which nobody else moves.
"""

from __future__ import annotations

__all__ = ["LoopOrder", "LoopRunner", "Outcome", "Turn", "open_loop", "shape_of"]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.handover.diff_excerpt import diff_excerpt
from periplus.dispatch.loops.artifacts import Reproduction, Verdict, named_command
from periplus.dispatch.loops.collection import HandedIn, evidence_of, handed_in_by
from periplus.dispatch.loops.command_runs import CommandRuns, Ran
from periplus.dispatch.loops.material import material_for
from periplus.dispatch.loops.phase_orders import (
    by_of,
    dispatch_order,
    kind_of,
    plan_text,
    slots,
    step_texts,
    waiting_slots,
)
from periplus.dispatch.loops.table import LOOPS, next_phase
from periplus.dispatch.repository import Repository
from periplus.dispatch.supervision import Supervisor, prepare_dispatch
from periplus.dispatch.supervision.texts import plain
from periplus.dispatch.supervision.workplace import shape
from periplus.memory.coordination import loops
from periplus.memory.coordination.assignments import assignments_of
from periplus.memory.entities.schemas import Artifact, Check, Loop
from periplus.memory.fulltext.links import linked

if TYPE_CHECKING:
    from periplus.agent.sandbox import Sandbox
    from periplus.dispatch.loops.evidence import Evidence
    from periplus.dispatch.supervision import SupervisorOptions
    from periplus.journal import Entity
    from periplus.project import Project

Outcome: TypeAlias = Literal["opened", "shut", "closed", "exhausted", "interrupted"]
DIFF_TOKENS_MAX: Final = 16_000
DIFF_BYTES_MAX: Final = 400_000
MISSING_CHARACTERS_MAX: Final = 500
_MISSING_MAX: Final = 20


class LoopOrder(NamedTuple):
    """Order of a person. ``branch`` is the work under discussion, empty for what is checked out; ``base`` the branch or commit from
    which its changes count, empty for the checked-out branch. Of a review the first agent is the author, who answers.
    ``command`` is the check that work has to pass; ``limits`` name fields of ``memory.entities.schemas.Limits``.
    """

    kind: str
    text: str
    agents: tuple[str, ...]
    command: tuple[str, ...] = ()
    branch: str = ""
    base: str = ""
    setup: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    model: str = ""
    limits: Mapping[str, int] = {}


class Turn(NamedTuple):
    """How a try at a phase ended: the gate opened, stayed shut, or the loop is closed; "exhausted": it goes round without end, and a
    person has to decide. "interrupted": a person wanted to stop, and the
    try goes on the next time. ``phase`` is the one that was tried.
    """

    loop: Entity
    phase: str
    outcome: Outcome
    missing: tuple[str, ...] = ()


def open_loop(project: Project, order: LoopOrder, options: SupervisorOptions) -> Entity:
    """Write the loop that was ordered. Raises UsageError, NotFoundError; then nothing was written."""
    kind = next((name for name in LOOPS if name == order.kind), None)
    if kind is None:
        raise UsageError(f"there is no loop {order.kind!r}", safe="Nothing was written.", mend=f"There are {', '.join(LOOPS)}.")  # fmt: skip
    for name in order.agents:
        if name not in options.adapters:
            raise UsageError(f"there is no agent {name!r}", safe="Nothing was written.",
                             mend=f"Known are: {', '.join(sorted(options.adapters))}. See periplus dispatch agents.")  # fmt: skip
    repository = Repository(project.folder, options.environment)
    head, base = (_commit(repository, name) for name in (order.branch or "HEAD", order.base or "HEAD"))
    base = repository.merge_base(base, head) or base
    if kind == "review" and not repository.changes(base, head).paths:
        raise UsageError("there is no change to review", safe="Nothing was written.",
                         mend="Name the work, --branch BRANCH, or where it begins, --base COMMIT.")  # fmt: skip
    new = loops.NewLoop(kind, order.text, LOOPS[kind][0].name, order.agents, base, head, order.command, order.setup, order.links, order.model,
                        order.limits)  # fmt: skip
    return loops.open_loop(project.journal, project.writer, new)


def _commit(repository: Repository, name: str) -> str:
    found = repository.commit(name)
    if not found:
        raise NotFoundError(f"there is no branch or commit {name!r}", safe="Nothing was written.")
    return found


class LoopRunner:
    """Does the phases of the loop ``loop_id``. ``told`` is called with each assignment that changed."""

    def __init__(
        self, project: Project, loop_id: str, options: SupervisorOptions, told: Callable[[Entity], None] = lambda _: None, *,
        sandbox: Sandbox | None = None,
    ) -> None:  # fmt: skip
        self._project, self._loop_id, self._options, self._told, self._sandbox = (
            project,
            loop_id,
            options,
            told,
            sandbox,
        )
        self._journal, self._writer = project.journal, project.writer
        self._repository = Repository(project.folder, options.environment)
        self._supervisor: Supervisor | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Stop the agents of the present try; it goes on with the next call of ``turn``, also in another process."""
        self._is_stopping = True
        if self._supervisor is not None:
            self._supervisor.stop_now()

    def phase(self) -> Turn:
        """Try the present phase until its gate opens, at most as often as the limits allow rounds."""
        turn = self.turn()
        for _ in range(shape_of(turn.loop).limits.rounds - 1):
            if turn.outcome != "shut":
                break
            turn = self.turn()
        return turn

    def turn(self) -> Turn:
        """Try the present phase once. Raises RefusedError where the loop is closed, or another process does it; ConflictError."""
        entity = self._entity()
        loop = shape_of(entity)
        if loop.state == "closed":
            raise RefusedError(f"the loop {self._loop_id} is closed: {loop.reason}", safe="Nothing was started.")
        if self._is_stopping:
            return Turn(entity, loop.phase, "interrupted")
        self._make_branch(loop)
        dispatch = self._dispatch(entity)
        self._supervisor = Supervisor(self._project, dispatch, self._options, self._told, sandbox=self._sandbox)
        if self._supervisor.run() == "interrupted":
            return Turn(self._entity(), loop.phase, "interrupted")
        return self._judge(self._entity(), dispatch, self._supervisor)

    # -- the try --------------------------------------------------------------------------------------------------------

    def _make_branch(self, loop: Loop) -> None:
        """Make the branch of the loop where it has none yet. Raises NotFoundError where somebody deleted it."""
        if checkouts := self._repository.checkouts(loop.branch):
            raise RefusedError(f"{loop.branch} is checked out in {checkouts[0]}", safe="Nothing was started.",
                               mend="Check out another branch there: agents work on this one.")  # fmt: skip
        if self._repository.tip(loop.branch):
            return
        if loop.began != loop.head:
            raise NotFoundError(f"there is no branch {loop.branch} any more", safe="Nothing was started.",
                                mend=f"Make it again: git branch {loop.branch} {loop.began}")  # fmt: skip
        self._repository.move(f"refs/heads/{loop.branch}", loop.head, "")

    def _dispatch(self, entity: Entity) -> str:
        """Return the dispatch of the present try; what of it was not written yet is."""
        loop = shape_of(entity)
        if loop.dispatch:
            return loop.dispatch
        if not loop.plan:
            made = self._project.work.make_plan(plan_text(loop), step_texts(loop), key=f"{self._loop_id}/{loop.tries}")
            entity = loops.change_loop(self._journal, self._writer, entity, {"plan": made.plan.item_id})
            loop = shape_of(entity)
        held = linked(self._journal, "dispatch", "plan", loop.plan)
        dispatch = held[-1] if held else self._prepared(loop)
        loops.change_loop(self._journal, self._writer, entity, {"dispatch": dispatch.item_id})
        return dispatch.item_id

    def _prepared(self, loop: Loop) -> Entity:
        _, steps = self._project.work.plan(loop.plan)
        evidence = evidence_of(self._repository, self._journal.load_object, loop, loop.artifacts, loop.checks)
        materials = []
        with self._journal.objects.keeping():
            for step, slot in zip(steps, waiting_slots(loop), strict=True):
                text = self._material(loop, evidence, by_of(loop, slot))
                if text:
                    materials.append((step.item_id, self._journal.objects.put(text.encode()).hex()))
            order = dispatch_order(loop, self._loop_id, loop.plan, materials)
            return prepare_dispatch(self._project, order, self._options)

    def _material(self, loop: Loop, evidence: Evidence, by: str) -> str:
        """Return what an agent is given: what its last try lacked, the change under discussion, and artifacts of earlier phases."""
        pieces = []
        if loop.missing:
            rows = "\n".join(f"- {one}" for one in loop.missing)
            pieces.append(f"What was handed in at the last try is not enough:\n{rows}")
        pieces.append(material_for(kind_of(loop), loop.phase, evidence, by))
        if loop.base != evidence.tip and loop.kind in ("review", "debug"):
            diff = self._repository.diff(loop.base, evidence.tip, DIFF_BYTES_MAX)
            shown = diff_excerpt(diff, DIFF_TOKENS_MAX)
            pieces.append(f"The change under discussion, `git diff {loop.base} {evidence.tip}`:\n{shown}")
        return "\n\n".join(one for one in pieces if one)

    # -- the judgement --------------------------------------------------------------------------------------------------

    def _judge(self, entity: Entity, dispatch: str, supervisor: Supervisor) -> Turn:
        loop = shape_of(entity)
        handed = self._handed_in(loop, dispatch)
        new = [one.artifact for one in handed if one.artifact is not None]
        renewed = {one.assignment for one in new}
        artifacts = [*(one for one in loop.artifacts if one.assignment not in renewed), *new]
        ran = self._checked(loop, supervisor, artifacts)
        if ran is None:
            return Turn(entity, loop.phase, "interrupted")
        with self._journal.objects.keeping():
            checks = [*loop.checks, *map(self._kept, ran)]
            evidence = evidence_of(self._repository, self._journal.load_object, loop, artifacts, checks)
            gate = next_phase(kind_of(loop), loop.phase, evidence)
            problems = [one.problem for one in handed if one.problem]
            if not gate.satisfied:
                missing = tuple(_shortened((*problems, *gate.missing)))
                if not problems:
                    artifacts = [_refused(loop, one, renewed) for one in artifacts]
                judged = loops.Judged(artifacts, checks, loop.phase, loop.began, missing)
                return Turn(self._record(entity, judged), loop.phase, "shut", missing)
            missing = self._exhausted(loop, gate.phase, evidence)
            judged = loops.Judged(artifacts, checks, gate.phase, evidence.tip, missing, "its last gate is open")
        outcome: Outcome = "exhausted" if missing else "opened" if gate.phase else "closed"
        return Turn(self._record(entity, judged), loop.phase, outcome, missing)

    def _record(self, entity: Entity, judged: loops.Judged) -> Entity:
        return loops.record_try(self._journal, self._writer, entity, judged)

    def _handed_in(self, loop: Loop, dispatch: str) -> list[HandedIn]:
        of_step = {str(one.value.get("step")): one for one in assignments_of(self._journal, dispatch)}
        _, steps = self._project.work.plan(loop.plan)
        found = []
        for step, slot in zip(steps, waiting_slots(loop), strict=True):
            held = of_step.get(step.item_id)
            value = shape(held) if held is not None else None
            item_id = held.item_id if held is not None else ""
            found.append(handed_in_by(self._journal.load_object, loop, slot, item_id, value))
        return found

    def _checked(self, loop: Loop, supervisor: Supervisor, artifacts: Sequence[Artifact]) -> list[Ran] | None:
        """Run the commands that the gate of the present phase needs; None where a person wants to stop."""
        found: list[Ran] = []
        tip = self._repository.tip(loop.branch)
        runs = CommandRuns(
            supervisor.workplace, supervisor.lane.jobs, self._loop_id, loop.tries, lambda: self._is_stopping
        )
        for argv in self._wanted(loop, artifacts):
            ran = runs.run(loop.phase, argv, tip)
            if ran is None:
                return None
            found.append(ran)
        runs.tidy()
        return found

    def _kept(self, ran: Ran) -> Check:
        """Keep the output of a command as an object."""
        digest = self._journal.objects.put(ran.output).hex() if ran.output else ""
        return msgspec.structs.replace(ran.check, output=digest)

    def _wanted(self, loop: Loop, artifacts: Sequence[Artifact]) -> list[tuple[str, ...]]:
        """Return the commands that the gate needs: the reproduction, after the repair once more, and the check of the loop."""
        evidence = evidence_of(self._repository, self._journal.load_object, loop, artifacts, ())
        wanted: list[tuple[str, ...]] = []
        if loop.phase in ("reproduce", "fix"):
            reproductions = [one.artifact for one in evidence.artifacts if isinstance(one.artifact, Reproduction)]
            wanted += [named_command(one) for one in reproductions[-1:]]
        if loop.phase in ("answer", "fix") and loop.command:
            wanted.append(loop.command)
        return list(dict.fromkeys(wanted))

    def _exhausted(self, loop: Loop, phase: str, evidence: Evidence) -> tuple[str, ...]:
        """Return what a person has to know where a review goes round more often than its limits allow."""
        if loop.kind != "review" or phase != "answer":
            return ()
        refused = [one for one in evidence.artifacts if one.phase == "verdict" and isinstance(one.artifact, Verdict) and one.artifact.verdict == "changes"]  # fmt: skip
        rounds = loop.limits.rounds
        if not rounds or len(refused) < rounds:
            return ()
        return (f"no approval after {len(refused)} rounds: a person decides",)

    def _entity(self) -> Entity:
        self._journal.refresh()
        held = self._journal.get("loop", self._loop_id)
        if held is None:
            raise NotFoundError(f"there is no loop {self._loop_id}")
        return held


def shape_of(loop: Entity) -> Loop:
    """Return the payload of a loop as its shape."""
    return msgspec.convert(loop.value, Loop)


def _refused(loop: Loop, one: Artifact, renewed: set[str]) -> Artifact:
    """Let an artifact of this try count no more, nor one that another agent apart handed in at an earlier try."""
    is_meant = one.assignment in renewed or (slots(loop) > 1 and one.phase == loop.phase)
    return msgspec.structs.replace(one, refused=True) if is_meant else one


def _shortened(missing: Sequence[str]) -> list[str]:
    return [plain(one, MISSING_CHARACTERS_MAX) for one in dict.fromkeys(missing)][:_MISSING_MAX]
