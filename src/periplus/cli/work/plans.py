"""``plan``: plans with steps, who works on each, and which can be started."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from periplus.cli.common.changes import add_insist, changed, check_typed
from periplus.cli.common.face import Face, number, visible
from periplus.cli.work.text import claim_line, claim_out, spent_words

if TYPE_CHECKING:
    from periplus.cli.common.schemas import StuckOut
    from periplus.cli.work.schemas import PlanOut, StepOut
    from periplus.journal import Entity
    from periplus.memory.coordination.plans import Made, NewStep
    from periplus.memory.coordination.stuck_work import Idle
    from periplus.project import Project
    from periplus.project.knowledge.dispatched_work import StepWork

_KEY = "repeat a write with an unknown outcome under its key; it is written at most once"
_STATES = {"done": "done", "block": "blocked", "drop": "dropped"}
_STEP = re.compile(r"\A(?:(\d{1,4}(?:,\d{1,4})*)\s*<\s*)?(.*)\Z", re.DOTALL)


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "plan"
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    steps = "a step (repeatable); `1,2< TEXT` waits for steps 1 and 2"
    make = action("make", "make a plan with steps")
    make.add_argument("text", metavar="TEXT", help="what is to be done")
    make.add_argument("--step", action="append", default=[], metavar="TEXT", help=steps)
    make.add_argument("--rationale", default="", metavar="TEXT", help="why")
    make.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="ID",
        help="a plan or step that has to be done first (repeatable)",
    )
    make.add_argument(
        "--priority", type=number(0, 100), default=50, metavar="0-100", help="higher comes first (default: 50)"
    )
    make.add_argument("--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable)")
    make.add_argument("--key", default="", metavar="KEY", help=_KEY)
    add_insist(make)
    add = action("add", "add a step to a plan")
    add.add_argument("plan", metavar="PLAN", help="the id of the plan, or a unique prefix of it")
    add.add_argument("text", metavar="TEXT", help="what is to be done")
    add.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="ID",
        help="a step or plan that has to be done first (repeatable)",
    )
    add.add_argument(
        "--scope",
        action="append",
        default=[],
        metavar="SCOPE",
        help="paths that are claimed together with the step (repeatable)",
    )
    add.add_argument(
        "--priority", type=number(0, 100), default=50, metavar="0-100", help="higher comes first (default: 50)"
    )
    add.add_argument("--key", default="", metavar="KEY", help=_KEY)
    add_insist(add)
    action("list", "list open plans and their progress")
    show = action("show", "show a plan, its steps, and what each waits for")
    show.add_argument("plan", metavar="PLAN", help="the id of the plan, or a unique prefix of it")
    ready = action("ready", "list steps that can be started now, by priority")
    ready.add_argument("plan", nargs="?", default="", metavar="PLAN", help="only of this plan (default: of all)")
    take = action("next", "take the next ready step, and claim its paths")
    take.add_argument("--plan", default="", metavar="PLAN", help="only of this plan (default: of all)")
    take.add_argument("--step", default="", metavar="STEP", help="take this step")
    take.add_argument("--ttl", type=number(10, 604_800), default=7200, metavar="SECONDS",
                      help="how long the claim lasts without activity of yours (default: 7200)")  # fmt: skip
    take.add_argument("--key", default="", metavar="KEY", help=_KEY)
    for name, what in (
        ("done", "mark steps or plans as done, and release their claims"),
        ("block", "mark steps or plans as blocked"),
        ("drop", "give up steps or plans; a plan includes its open steps"),
    ):
        sub = action(name, what)
        sub.add_argument("ids", nargs="+", metavar="ID", help="the ids of steps or plans")
        sub.add_argument("--reason", default="", metavar="TEXT", help="why")
        sub.add_argument(
            "--force", action="store_true", help="also if somebody else works on it; the record says that you did"
        )
        add_insist(sub)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    if arguments.action in _STATES:
        return _state(face, arguments)
    return {"make": _make, "add": _add, "list": _list, "show": _show, "ready": _ready, "next": _next}[arguments.action](
        face, arguments
    )


def _make(face: Face, arguments: argparse.Namespace) -> int:
    with face.open(allow_secrets=arguments.insist) as project:
        done = project.work.make_plan(
            arguments.text, [_new_step(word) for word in arguments.step], rationale=arguments.rationale,
            priority=arguments.priority, after=arguments.after, tags=arguments.tag, key=arguments.key,
        )  # fmt: skip
        return _made(face, project, done)


def _add(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.memory.coordination.plans import NewStep

    with face.open(allow_secrets=arguments.insist) as project:
        scopes = tuple(project.work.scope(word, cwd=face.cwd) for word in arguments.scope)
        step = NewStep(arguments.text, tuple(arguments.after), arguments.priority, scopes)
        done = project.work.add_steps(arguments.plan, [step], key=arguments.key)
        return _made(face, project, done)


def _new_step(word: str) -> NewStep:
    from periplus.memory.coordination.plans import NewStep

    found = _STEP.match(word)
    assert found is not None
    return NewStep(found[2], tuple(map(int, found[1].split(","))) if found[1] else ())


def _made(face: Face, project: Project, done: Made) -> int:
    from periplus.cli.work.schemas import PlanMadeOut

    result = PlanMadeOut(_plan_out(done.plan), _step_outs(project, list(done.steps)), done.receipt.key)

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"plan {paint.name}{result.plan.id}{paint.end}: {visible(result.plan.text)}"
        yield from _step_lines(face, result.steps)

    face.emit(result, lines)
    return 0


def _list(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.schemas import PlanListOut

    del arguments
    with face.open() as project:
        result = PlanListOut(
            [
                _plan_out(plan, steps, project.work.dispatched.of_plans([plan.item_id]))
                for plan, steps in project.work.plans()
            ]
        )

    def lines() -> Iterator[str]:
        for plan in result.plans:
            done, whole = plan.counts.get("done", 0), sum(plan.counts.values())
            spent = f", {said}" if (said := _spent_words(plan)) else ""
            yield f"{face.palette.name}{plan.id}{face.palette.end} {visible(plan.state)}, {done} of {whole} done{spent}: {visible(plan.text)}"
        if not result.plans:
            yield "There are no open plans."

    face.emit(result, lines)
    return 0 if result.plans else 1


def _show(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.schemas import PlanShowOut

    with face.open() as project:
        plan, steps = project.work.plan(arguments.plan)
        dispatched = project.work.dispatched.of_plans([plan.item_id], with_trails=True)
        result = PlanShowOut(_plan_out(plan, steps, dispatched), _step_outs(project, steps, dispatched))
        words = {step: project.work.dispatched.words(work.assignment) for step, work in dispatched.items()}

    def lines() -> Iterator[str]:
        yield f"{result.plan.id} {visible(result.plan.state)}: {visible(result.plan.text)}"
        yield from _step_lines(face, result.steps, words)
        if said := _spent_words(result.plan):
            yield f"  cost: {said}"

    face.emit(result, lines)
    return 0


def _ready(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.schemas import PlanReadyOut

    with face.open() as project:
        steps = project.work.ready(arguments.plan)
        idle = project.work.idle(arguments.plan) if not steps else None
        result = PlanReadyOut(_step_outs(project, steps), *_idle_out(idle))

    def lines() -> Iterator[str]:
        yield from _step_lines(face, result.steps)
        if idle is not None:
            yield from _idle_lines(face, idle)

    face.emit(result, lines)
    return 0 if result.steps else 1


def _next(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.schemas import PlanNextOut

    with face.open() as project:
        taken = project.work.take(plan=arguments.plan, step=arguments.step, ttl_s=arguments.ttl, key=arguments.key)
        now_ms = project.journal.clock.now_ms()
        idle = project.work.idle(arguments.plan) if taken is None else None
        result = PlanNextOut(None, None, "", *_idle_out(idle))
        if taken is not None:
            (step,) = _step_outs(project, [taken.step])
            result = PlanNextOut(step, claim_out(project, taken.claim), taken.receipt.key)

    def lines() -> Iterator[str]:
        if idle is not None:
            yield from _idle_lines(face, idle)
        if result.step is None or result.claim is None:
            return
        yield from _step_lines(face, [result.step])
        yield claim_line(face, result.claim, now_ms)
        yield f"Next: periplus plan done {result.step.id}"

    face.emit(result, lines)
    return 0 if taken is not None else 1


def _state(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import NotFoundError

    with face.open(allow_secrets=arguments.insist) as project:
        project.look_if_due()
        project.journal.refresh()
        for one in arguments.ids:
            found = project.journal.find(one)
            if found.item_type not in ("plan", "step"):
                raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a plan or step",
                                    mend=f"Try `periplus state {found.item_id} STATE`.")  # fmt: skip
        done = project.work.change_state(
            arguments.ids, _STATES[arguments.action], reason=arguments.reason, force=arguments.force
        )
        if done.receipt is None:
            done = done._replace(notes=tuple(note for one in done.entities for note in _already(project, one)))
    return changed(face, done)


def _already(project: Project, work: Entity) -> Iterator[str]:
    """Tell who brought ``work`` into its state: perhaps another clone, while it was being done here."""
    from periplus.journal.history.versions import said_by

    said = [one.record for one in said_by(project.journal, work, "state")]
    if said:
        who = " and ".join(dict.fromkeys(f"by {one.writer}, {one.ts[:16]}Z" for one in said))
        yield f"{work.item_id} was {work.value.get('state')} already: {who}"


def _idle_out(idle: Idle | None) -> tuple[dict[str, int], list[StuckOut]]:
    from periplus.cli.common.conversion import stuck_out

    return (idle.counts, [stuck_out(one) for one in idle.stuck]) if idle is not None else ({}, [])


def _idle_lines(face: Face, idle: Idle) -> Iterator[str]:
    said = idle.words()
    yield f"No step can be started now{': ' if said else ''}{said}."
    for stuck in idle.stuck:
        yield f"  {face.palette.warn}stuck{face.palette.end}: {visible(stuck.words())}: periplus review"


def _plan_out(plan: Entity, steps: list[Entity] | None = None, dispatched: Mapping[str, StepWork] = {}) -> PlanOut:
    from periplus.cli.work.dispatch_text import spent_out
    from periplus.cli.work.schemas import PlanOut
    from periplus.memory.coordination.dispatch_overview import Spent

    counts: dict[str, int] = {}
    for step in steps or []:
        state = str(step.value.get("state", ""))
        counts[state] = counts.get(state, 0) + 1
    value = plan.value
    priority = value.get("priority", 50)
    spent = Spent()
    for work in dispatched.values():
        spent = spent.plus(work.spent)
    return PlanOut(plan.item_id, str(value.get("state", "")), str(value.get("text", "")),
                   priority if isinstance(priority, int) else 50, str(value.get("rationale", "")), counts,
                   spent_out(spent) if dispatched else None)  # fmt: skip


def _spent_words(plan: PlanOut) -> str:
    """Return what the work of agents on a plan cost, as text; empty where nothing is known of it."""
    return spent_words(plan.spent) if plan.spent is not None else ""


def _step_outs(project: Project, steps: list[Entity], dispatched: Mapping[str, StepWork] = {}) -> list[StepOut]:
    from periplus.cli.work.dispatch_text import step_assignment
    from periplus.cli.work.schemas import StepOut

    found = []
    for step in steps:
        value = step.value
        numbers = {name: held if isinstance(held := value.get(name, 0), int) else 0 for name in ("priority", "place")}
        text = {name: str(value.get(name, "")) for name in ("plan", "state", "text", "assignee", "reason")}
        is_open = text["state"] not in ("done", "dropped")
        found.append(StepOut(
            step.item_id, text["plan"], numbers["place"], text["state"], text["text"], numbers["priority"], text["assignee"],
            text["reason"], project.work.waits_for(step) if is_open else [],
            step_assignment(project, dispatched[step.item_id]) if step.item_id in dispatched else None,
        ))  # fmt: skip
    return found


def _step_lines(face: Face, steps: list[StepOut], words: Mapping[str, str] = {}) -> Iterator[str]:
    """Yield a line for each step; ``words`` are about its assignment."""
    paint = face.palette
    for step in steps:
        by = f" by {visible(step.assignee)}" if step.assignee and step.state == "doing" else ""
        waits = f" (waits for {', '.join(step.waits_for)})" if step.waits_for else ""
        why = f" ({visible(step.reason)})" if step.reason and step.state in ("blocked", "dropped") else ""
        text = visible(" ".join(step.text.split()))
        yield f"  {step.place:>3}. {paint.name}{step.id}{paint.end} {visible(step.state)}{by}: {text}{waits}{why}"
        if step.assignment is not None and step.id in words:
            spent = spent_words(step.assignment.spent)
            yield f"       {visible(words[step.id])}{f': {spent}' if spent else ''} [{step.assignment.id}]"
