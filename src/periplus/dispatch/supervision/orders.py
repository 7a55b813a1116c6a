"""Starting a dispatch: what is asked for is checked against the plan, git and the agents before anything is written."""

from __future__ import annotations

__all__ = ["Order", "changes_nothing", "prepare_dispatch"]

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.adapters import Start
from periplus.dispatch.handover.result_file import AnswerKind
from periplus.dispatch.places import Places
from periplus.dispatch.repository import Repository
from periplus.memory.coordination.dispatches import NewDispatch, start_dispatch
from periplus.memory.coordination.plans import NewStep

if TYPE_CHECKING:
    from periplus.dispatch.roles.role_files import Role
    from periplus.dispatch.supervision.workplace import SupervisorOptions
    from periplus.journal import Entity
    from periplus.project import Project


class Order(NamedTuple):
    """Order of a person: ``plan`` (an id, or the beginning of one) or ``task``, of which a plan with one step is made.

    ``oracle`` and ``setup`` are commands, as words; ``target`` is empty for the branch that is checked out; ``limits`` name
    fields of ``memory.entities.schemas.Limits``. The role says what agents hand in and whether they change anything, where ``answer`` and
    ``read_only`` do not; a loop may do without a role. ``artifact``, ``loop`` and ``materials`` are those of a loop's phase.
    """

    agents: tuple[str, ...]
    plan: str = ""
    task: str = ""
    reviewers: tuple[str, ...] = ()
    lanes: int = 2
    oracle: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    target: str = ""
    role: str = "implementer"
    model: str = ""
    limits: Mapping[str, int] = {}
    updates_checkout: bool = False
    answer: AnswerKind | Literal[""] = ""
    artifact: str = ""
    read_only: bool = False
    loop: str = ""
    materials: tuple[tuple[str, str], ...] = ()


def prepare_dispatch(project: Project, order: Order, options: SupervisorOptions) -> Entity:
    """Write the dispatch that was ordered. Raises UsageError, NotFoundError, RefusedError; then nothing was written."""
    repository = Repository(project.folder, options.environment)
    for name in (*order.agents, *order.reviewers):
        if name not in options.adapters:
            raise UsageError(f"there is no agent {name!r}", safe="Nothing was started.",
                             mend=f"Known are: {', '.join(sorted(options.adapters))}. See periplus dispatch agents.")  # fmt: skip
    target = order.target or repository.branch()
    base = repository.tip(target) if target else ""
    if not base:
        what = f"there is no branch {target!r}" if target else "no branch is checked out"
        raise NotFoundError(
            what, safe="Nothing was started.", mend="Name the branch that the work is for: --target BRANCH"
        )
    if order.role not in options.roles and (order.role or not order.loop):
        raise UsageError(
            f"there is no role {order.role!r}",
            safe="Nothing was started.",
            mend=f"Known are: {', '.join(sorted(options.roles))}.",
        )
    for name in (*order.links, *order.copies):
        if os.path.isabs(name) or ".." in name.split("/") or not os.path.lexists(os.path.join(project.folder, name)):
            raise UsageError(f"{name!r} is not a folder of the checkout", safe="Nothing was started.")
    held_plan = _held_plan(project, order)
    for name in (*order.agents, *order.reviewers):
        options.adapters[name].program(Start("", "", "", "", "", options.environment, command=options.command))
    plan = held_plan or project.work.make_plan(order.task, [NewStep(order.task)]).plan
    Places.of(options.state, project.root).make()
    dispatch_id = new_id("dsp")
    branch = _branch(repository, target, dispatch_id, updates_checkout=order.updates_checkout)
    role = options.roles.get(order.role)
    new = NewDispatch(
        str(plan.value.get("text", "")), plan.item_id, order.agents, target, branch, base, order.reviewers, order.lanes, order.oracle,
        order.setup, order.links, order.copies, order.role, order.model, order.limits, order.updates_checkout,
        order.answer or (role.answer if role is not None else "result"), order.artifact, order.read_only or changes_nothing(role), order.loop,
        order.materials,
    )  # fmt: skip
    held = start_dispatch(project.journal, project.writer, new, item_id=dispatch_id)
    if branch != target and not repository.move(f"refs/heads/{branch}", base, ""):
        raise RefusedError(f"the branch {branch} exists already", safe="The dispatch was written, nothing was started.",
                           mend=f"Stop it: periplus dispatch stop {dispatch_id}")  # fmt: skip
    return held


def changes_nothing(role: Role | None) -> bool:
    """Return True for a role without a check whose agents have no tool to edit: nothing that they change is taken."""
    return role is not None and role.oracle == "none" and "edit" not in role.tools


def _branch(repository: Repository, target: str, dispatch_id: str, *, updates_checkout: bool) -> str:
    """Return the branch that work is integrated on: one of its own where the target is checked out and shall not be touched."""
    return target if updates_checkout or not repository.checkouts(target) else f"periplus/{dispatch_id}"


def _held_plan(project: Project, order: Order) -> Entity | None:
    """Return the plan that an order names; None for a task, of which one is to be made."""
    if bool(order.plan) == bool(order.task.strip()):
        raise UsageError(
            "name a plan or a task",
            safe="Nothing was started.",
            mend='periplus dispatch start "fix the failing test" --agent NAME',
        )
    if order.task.strip():
        return None
    plan, steps = project.work.plan(order.plan)
    if plan.value.get("state") in ("done", "dropped"):
        raise RefusedError(f"the plan {plan.item_id} is {plan.value.get('state')}", safe="Nothing was started.")
    if not any(step.value.get("state") not in ("done", "dropped") for step in steps):
        raise RefusedError(f"no step of the plan {plan.item_id} is left", safe="Nothing was started.",
                           mend=f"Add one: periplus plan add {plan.item_id} TEXT")  # fmt: skip
    return plan
