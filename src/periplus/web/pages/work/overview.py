"""The page of work: open plans, claims over the files, who is here, and all that waits for the person."""

from __future__ import annotations

__all__ = ["work"]

from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.work.claim_tree import (
    CLAIMS_SHOWN,
    ClaimRow,
    ClashRow,
    TreeRow,
    claim_row,
    clash_rows,
    tree_rows,
)
from periplus.web.pages.work.entity_fields import number_of, one_line, text_of
from periplus.web.pages.work.inbox_rows import (
    CANDIDATES_SHOWN,
    Candidates,
    HandoffRow,
    MailRow,
    QuestionRow,
    candidates,
    handoff_row,
    mail_row,
    question_row,
)
from periplus.web.pages.work.plan_rows import PlanRow, plan_row

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

PLANS_SHOWN: Final = 20
_LISTED: Final = 100
_ENDED: Final = (
    "SELECT item_id FROM links WHERE item_type = 'plan' AND field = 'state' AND value IN ('done', 'dropped')"
    " ORDER BY item_id DESC LIMIT ? OFFSET ?"
)
_ENDED_COUNT: Final = (
    "SELECT count(*) FROM links WHERE item_type = 'plan' AND field = 'state' AND value IN ('done', 'dropped')"
)


class PresentRow(NamedTuple):
    """Somebody who works here. ``session`` is the name of the session, ``trail`` that of its record once it has one."""

    name: str
    session: str
    model: str
    tool: str
    title: str
    trail: str
    seen: str
    claims: tuple[ClaimRow, ...]


class AgentRow(NamedTuple):
    """An agent at work on a step of a dispatch."""

    assignment: str
    dispatch: str
    step: str
    text: str
    agent: str
    state: str
    attempt: int
    since: str
    paths: tuple[str, ...]
    theirs: bool


class DispatchRow(NamedTuple):
    """An open dispatch. ``supervisor`` is ``alive``, ``gone`` or ``elsewhere``."""

    id: str
    text: str
    plan: str
    done: int
    steps: int
    supervisor: str


class Plans(NamedTuple):
    """A page of plans: the open ones, or those that have ended."""

    rows: tuple[PlanRow, ...]
    total: int
    open_count: int
    ended_count: int
    page: int
    pages: int
    is_ended: bool


class Work(NamedTuple):
    """All values of the page."""

    person: str
    plans: Plans
    tree: tuple[TreeRow, ...]
    claims: int
    waiting: tuple[ClaimRow, ...]
    clashes: tuple[ClashRow, ...]
    present: tuple[PresentRow, ...]
    agents: tuple[AgentRow, ...]
    dispatches: tuple[DispatchRow, ...]
    questions: tuple[QuestionRow, ...]
    mail: tuple[MailRow, ...]
    handoffs: tuple[HandoffRow, ...]
    candidates: Candidates
    candidates_page: int
    candidates_pages: int


def work(asked: Asked) -> View:
    """Return the page. Query: ``ended`` shows ended plans, ``page`` of plans, ``candidates`` the page of candidates."""
    project, query = asked.project, asked.query
    project.look_to_answer()
    project.journal.refresh()
    now_ms = project.journal.clock.now_ms()
    candidates_page = query.number("candidates", 1, least=1, most=1_000)
    found = candidates(project, candidates_page)
    claims = [claim_row(project, one, now_ms) for one in project.work.claims()[:CLAIMS_SHOWN]]
    held = Work(
        asked.context.writer.name,
        _plans(project, is_ended=query.flag("ended"), page=query.number("page", 1, least=1, most=100_000)),
        tree_rows(claims),
        len(claims),
        tuple(claim_row(project, one, now_ms) for one in project.work.waiting()[:_LISTED]),
        clash_rows(project, now_ms),
        tuple(_present(project, now_ms)),
        tuple(_agent(project, one) for one in project.work.dispatched.at_work()[:_LISTED]),
        tuple(_dispatches(project)),
        tuple(question_row(one) for one in project.work.dispatched.questions()[:_LISTED]),
        tuple(mail_row(one) for one in project.work.mail()[:_LISTED]),
        tuple(handoff_row(one, asked.context.writer.name) for one in project.work.handoffs()[:_LISTED]),
        found,
        candidates_page,
        max(1, -(-found.total // CANDIDATES_SHOWN)),
    )
    return View("work/overview.html", "Work", {"work": held}, "periplus status")


def _plans(project: Project, *, is_ended: bool, page: int) -> Plans:
    from periplus.memory.coordination.plans import open_plans, steps_of

    journal = project.journal
    first = (page - 1) * PLANS_SHOWN
    is_open = open_plans(journal)
    ended_count = int(journal.index.db.execute(_ENDED_COUNT).fetchone()[0])
    held: list[Entity] = is_open[first : first + PLANS_SHOWN]
    if is_ended:
        rows = journal.index.db.execute(_ENDED, (PLANS_SHOWN, first))
        held = [entity for row in rows if (entity := journal.as_read("plan", str(row[0]))) is not None]
    count = ended_count if is_ended else len(is_open)
    shown = tuple(
        plan_row(plan, steps_of(journal, plan.item_id), project.work.dispatched.of_plans([plan.item_id])) for plan in held
    )  # fmt: skip
    return Plans(shown, count, len(is_open), ended_count, page, max(1, -(-count // PLANS_SHOWN)), is_ended)


def _present(project: Project, now_ms: int) -> list[PresentRow]:
    found = []
    for one in project.work.who()[:_LISTED]:
        value = one.session.value if one.session is not None else {}
        claims = tuple(claim_row(project, claim, now_ms) for claim in one.claims[:_LISTED])
        found.append(
            PresentRow(
                one.name, text_of(value, "name"), text_of(value, "model"), text_of(value, "tool"), text_of(value, "title"),
                text_of(value, "trail"), text_of(value, "seen"), claims,
            )
        )  # fmt: skip
    return found


def _agent(project: Project, assignment: Entity) -> AgentRow:
    from periplus.memory.coordination.dispatch_overview import since

    value, dispatched = assignment.value, project.work.dispatched
    return AgentRow(
        assignment.item_id, text_of(value, "dispatch"), text_of(value, "step"), one_line(text_of(value, "text")), text_of(value, "agent"),
        text_of(value, "state"), number_of(value, "attempt", 1), since(assignment), tuple(dispatched.paths(assignment)[:_LISTED]),
        dispatched.is_of_another_clone(assignment),
    )  # fmt: skip


def _dispatches(project: Project) -> list[DispatchRow]:
    found = []
    for one in project.work.dispatched.progress()[:_LISTED]:
        value = one.dispatch.value
        found.append(
            DispatchRow(
                one.dispatch.item_id, one_line(text_of(value, "text")), text_of(value, "plan"), one.done, one.steps, one.supervisor
            )
        )  # fmt: skip
    return found
