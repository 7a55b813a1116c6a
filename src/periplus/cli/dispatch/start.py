"""``periplus dispatch start``: the supervisor, in the foreground or in a process of its own."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, number, visible
from periplus.cli.dispatch.limits import LIMITS, add_limits, limits_of

if TYPE_CHECKING:
    from periplus.cli.dispatch.surroundings import Surroundings
    from periplus.dispatch.supervision import Order
    from periplus.journal import Entity
    from periplus.project import Project

_LANES: Final = 2
_LANES_MAX: Final = 64
_ROLE: Final = "implementer"
_PLAN: Final = "pln_"
_ANY: Final = "open"
_OF_ORDER: Final = (
    "work", "agents", "reviewers", "lanes", "oracle", "no_oracle", "setup", "by_standing", "target", "update_checkout", "role", "model", "links", "copies",
    *(name for name, *_ in LIMITS),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("work", nargs="?", default=None, metavar="PLAN|TASK",
        help="the id of a plan, or a task in words, of which a plan with one step is made")  # fmt: skip
    add("--agent", action="append", dest="agents", default=[], metavar="NAME",
        help="an agent that does steps (repeatable); see `periplus dispatch agents`")  # fmt: skip
    add("--reviewer", action="append", dest="reviewers", default=[], metavar="NAME",
        help="an agent that reviews the work of others before it is merged (repeatable)")  # fmt: skip
    add("--lanes", type=number(1, _LANES_MAX), metavar="N", help=f"how many agents work at once (default: {_LANES})")
    oracle = parser.add_mutually_exclusive_group()
    oracle.add_argument("--oracle", metavar="COMMAND",
                        help="the command that must succeed before work is merged (default: the setting `oracle`)")  # fmt: skip
    oracle.add_argument("--no-oracle", action="store_true", help="merge work that no command has checked")
    add(
        "--setup",
        metavar="COMMAND",
        help="a command that prepares a new worktree, such as one that installs dependencies",
    )
    add(
        "--by-standing",
        action="store_true",
        help="let agents begin in the order of their standing, see `periplus dispatch standing`",
    )
    add("--target", metavar="BRANCH", help="the branch that the work is for (default: the one that is checked out)")
    add("--update-checkout", action="store_true",
        help="also move the target branch where it is checked out, if the checkout is clean")  # fmt: skip
    add("--role", metavar="NAME", help=f"the role of the agents (default: {_ROLE})")
    add("--model", metavar="NAME", help="the model that the agents use, by their own name for it")
    add("--link", action="append", dest="links", default=[], metavar="DIR",
        help="a folder of the checkout that worktrees get as a link, such as node_modules (repeatable)")  # fmt: skip
    add("--copy", action="append", dest="copies", default=[], metavar="DIR",
        help="a folder of the checkout that worktrees get as a copy of their own (repeatable)")  # fmt: skip
    add_limits(parser)
    add("--detach", action="store_true", help="run in the background, and print how to watch it")
    add("--resume", nargs="?", const=_ANY, metavar="ID", help="go on with a dispatch (default: the one that is open)")
    add("--otel", action="store_true", help="send spans without texts to the collector at OTEL_EXPORTER_OTLP_ENDPOINT")
    add("--dry-run", action="store_true", help="show what would be done, start and write nothing")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.changes import check_typed

    check_typed(arguments)
    _check(arguments)
    from periplus.cli.dispatch.foreground import carry, ends_of
    from periplus.cli.dispatch.surroundings import surroundings_of

    with face.open() as project:
        around = surroundings_of(face, project)
        seen = ends_of(project)
        if arguments.resume is not None:
            held = _resumed(project, "" if arguments.resume == _ANY else arguments.resume, is_trial=arguments.dry_run)
            if arguments.dry_run:
                return _show_trial(face, project, around, _again(held))
        else:
            order = _order(arguments, around)
            if arguments.by_standing:
                from periplus.dispatch.reports.standing import by_standing, standings

                agents = by_standing(standings(project.journal, project.folder), order.agents, order.role)
                order = order._replace(agents=tuple(agents))
                face.stderr.write(f"periplus: by standing: {', '.join(agents)}\n")
            if arguments.dry_run:
                return _show_trial(face, project, around, order)
            from periplus.dispatch.supervision import prepare_dispatch

            held = prepare_dispatch(project, order, around.options)
        if not arguments.detach:
            return carry(face, project, held, around.options, seen, with_spans=arguments.otel)
        root = project.root
    from periplus.cli.dispatch.detached import start_detached

    return start_detached(face, root, held.item_id, around.options, with_spans=arguments.otel)


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for arguments that do not go together, before anything is read."""
    from periplus.base.errors import UsageError

    if arguments.resume is None:
        return
    given = [name for name in _OF_ORDER if getattr(arguments, name) not in (None, False, [])]
    if given:
        names = {"work": "PLAN", "agents": "--agent", "reviewers": "--reviewer", "links": "--link", "copies": "--copy"}
        option = names.get(given[0], f"--{given[0].replace('_', '-')}")
        raise UsageError(f"--resume cannot be combined with {option}", safe="Nothing was started.",
                         mend="A dispatch goes on with what it was started with.")  # fmt: skip


def _order(arguments: argparse.Namespace, around: Surroundings) -> Order:
    from periplus.base.errors import UsageError
    from periplus.cli.dispatch.surroundings import oracle_of, words_of
    from periplus.dispatch.supervision import Order
    from periplus.dispatch.supervision.orders import changes_nothing

    work = (arguments.work or "").strip()
    if not work:
        raise UsageError("a plan or a task is missing", safe="Nothing was started.",
                         mend='For example: periplus dispatch start "fix the failing test" --agent codex')  # fmt: skip
    is_plan = work.startswith(_PLAN)
    if not is_plan and len(work.split()) == 1:
        raise UsageError(f"{work[:80]!r} is neither the id of a plan nor a task in words", safe="Nothing was started.",
                         mend=f"Ids begin with {_PLAN}: see `periplus plan list`.")  # fmt: skip
    if not arguments.agents:
        raise UsageError("no agent is named", safe="Nothing was started.",
                         mend="Name one: --agent NAME. See `periplus dispatch agents`.")  # fmt: skip
    role = around.options.roles.get(arguments.role or _ROLE)
    is_without = arguments.no_oracle or (arguments.oracle is None and changes_nothing(role))
    setup = arguments.setup if arguments.setup is not None else around.settings.text("setup")
    return Order(
        tuple(dict.fromkeys(arguments.agents)), work if is_plan else "", "" if is_plan else work,
        tuple(dict.fromkeys(arguments.reviewers)), arguments.lanes or _LANES,
        oracle_of(around.settings, arguments.oracle, is_without=is_without), words_of(setup, "--setup"),
        tuple(one.rstrip("/") for one in arguments.links), tuple(one.rstrip("/") for one in arguments.copies), arguments.target or "", arguments.role or _ROLE, arguments.model or "", limits_of(arguments),
        arguments.update_checkout,
    )  # fmt: skip


def _resumed(project: Project, reference: str, *, is_trial: bool) -> Entity:
    """Return the dispatch to go on with, open again where it was stopped. Raises RefusedError where it is done."""
    from periplus.dispatch.control import reopen
    from periplus.memory.coordination.dispatches import find_dispatch

    held = find_dispatch(project.journal, reference)
    return held if is_trial else reopen(project, held).dispatch


def _again(held: Entity) -> Order:
    """Return the order of a dispatch as it was given."""
    from periplus.dispatch.reports.stored import dispatch_of
    from periplus.dispatch.supervision import Order

    one = dispatch_of(held.value)
    return Order(
        one.agents, one.plan, "", one.reviewers, one.lanes, one.oracle, one.setup, one.links, one.copies, one.target, one.role, one.model, {},
        one.updates_checkout,
    )  # fmt: skip


def _show_trial(face: Face, project: Project, around: Surroundings, order: Order) -> int:
    from periplus.cli.dispatch.schemas import ReadyOut, TrialAgentOut, TrialOut
    from periplus.cli.dispatch.surroundings import found_program
    from periplus.dispatch.places import Places
    from periplus.dispatch.repository import Repository

    repository = Repository(project.folder, around.options.environment)
    target = order.target or repository.branch()
    agents = []
    for name in dict.fromkeys((*order.agents, *order.reviewers)):
        adapter = around.options.adapters.get(name)
        path = found_program(face, adapter) if adapter is not None else ""
        wrong = (
            ""
            if path
            else "there is no such agent"
            if adapter is None
            else f"no {' or '.join(adapter.programs)} on the PATH"
        )
        agents.append(TrialAgentOut(name, name in order.reviewers, path, wrong))
    text, ready, waiting = order.task, [], 0
    if order.plan:
        plan, steps = project.work.plan(order.plan)
        text = str(plan.value.get("text", ""))
        found = {one.item_id for one in project.work.ready(plan.item_id)}
        ready = [ReadyOut(one.item_id, str(one.value.get("text", ""))) for one in steps if one.item_id in found]
        waiting = sum(one.value.get("state") not in ("done", "dropped") for one in steps) - len(ready)
    elif order.task:
        ready = [ReadyOut("", order.task)]
    base = repository.tip(target) if target else ""
    worktrees = Places.of(around.options.state, project.root).worktree("")
    result = TrialOut(text, ready, waiting, agents, order.lanes, list(order.oracle), list(order.setup), target, base, worktrees.rstrip(os.sep),
                      repository.remarks())  # fmt: skip
    is_well = bool(ready and base) and not any(one.wrong for one in agents)
    return face.emit(result, lambda: _trial_lines(face, result), 0 if is_well else 1)


def _trial_lines(face: Face, result: object) -> Iterator[str]:
    from periplus.cli.dispatch.schemas import TrialOut

    assert isinstance(result, TrialOut)
    paint = face.palette
    yield f"Would do: {visible(' '.join(result.text.split()))}"
    for step in result.ready:
        yield f"  ready  {paint.name}{step.step or '(new)'}{paint.end} {visible(' '.join(step.text.split()))}"
    if result.waiting:
        yield f"  and {result.waiting} more that wait"
    if not result.ready:
        yield f"  {paint.bad}no step can be started now{paint.end}: see `periplus plan ready`"
    for agent in result.agents:
        kind = "reviewer" if agent.reviews else "agent"
        shown = f"{paint.bad}{visible(agent.wrong)}{paint.end}" if agent.wrong else visible(agent.program)
        yield f"  {kind:9} {visible(agent.name)}: {shown}"
    import shlex

    yield f"  lanes     {result.lanes}"
    yield f"  oracle    {visible(shlex.join(result.oracle)) or 'none: work is merged unchecked'}"
    if result.setup:
        yield f"  setup     {visible(shlex.join(result.setup))}"
    shown = (
        f"{visible(result.target)} at {result.base[:12]}"
        if result.base
        else f"{paint.bad}there is no branch {visible(result.target)!r}{paint.end}"
    )
    yield f"  target    {shown}"
    yield f"  worktrees {visible(result.worktrees)}"
    for remark in result.remarks:
        yield f"  note: {visible(remark)}"
