"""The page of one plan: a board of its steps by state, and the graph of what waits for what."""

from __future__ import annotations

__all__ = ["plan"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.work.dependency_graph import Graph, dependency_graph
from periplus.web.pages.work.entity_fields import one_line, text_of, texts_of
from periplus.web.pages.work.inbox_rows import HandoffRow, handoff_row
from periplus.web.pages.work.plan_rows import COLUMNS, PlanRow, StepCard, plan_row, step_cards

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

CARDS_SHOWN: Final = 100  # of one column
_LISTED: Final = 50


class Column(NamedTuple):
    """A column of the board; ``total`` is the number of all its steps, of which ``cards`` are shown."""

    name: str
    title: str
    cards: tuple[StepCard, ...]
    total: int


class Link(NamedTuple):
    """Work that steps depend on, or a dispatch of the plan."""

    id: str
    state: str
    text: str


class PlanPage(NamedTuple):
    """All values of the page. ``numbers`` has the number of each step by its id."""

    plan: PlanRow
    rationale: str
    tags: tuple[str, ...]
    depends_on: tuple[Link, ...]
    columns: tuple[Column, ...]
    cards: tuple[StepCard, ...]
    numbers: dict[str, int]
    graph: Graph | None
    has_dependencies: bool
    dispatches: tuple[Link, ...]
    handoffs: tuple[HandoffRow, ...]
    stuck: tuple[str, ...]
    idle: str
    show: str


def plan(asked: Asked) -> View:
    """Return the page of a plan. Query: ``show`` is a column, whose every step is shown. Raises NotFoundError."""
    project = asked.project
    entity, steps = project.work.plan(asked.path["id"])
    now_ms = project.journal.clock.now_ms()
    dispatched = project.work.dispatched.of_plans([entity.item_id], with_trails=True)
    cards = step_cards(project, steps, dispatched, now_ms)
    show = asked.query.choice("show", ("", *(name for name, _ in COLUMNS)))
    idle = project.work.idle(entity.item_id) if not any(card.is_ready for card in cards) else None
    held = PlanPage(
        plan_row(entity, steps, dispatched),
        text_of(entity.value, "rationale"),
        texts_of(entity.value, "tags"),
        tuple(_link(project, one) for one in texts_of(entity.value, "depends_on")[:_LISTED]),
        tuple(_column(name, title, cards, is_whole=show == name) for name, title in COLUMNS),
        cards,
        {card.id: card.number for card in cards},
        dependency_graph(cards, {one: _link(project, one).text for one in _outside(cards)}),
        any(card.after for card in cards),
        tuple(_dispatches(project, entity)),
        tuple(_handoffs(asked, entity)),
        tuple(one.words() for one in idle.stuck[:_LISTED]) if idle is not None else (),
        idle.words() if idle is not None else "",
        show,
    )
    return View(
        "work/plan.html", one_line(held.plan.text, 60) or held.plan.id, {"held": held}, f"periplus plan show {entity.item_id}"
    )  # fmt: skip


def _column(name: str, title: str, cards: Sequence[StepCard], *, is_whole: bool) -> Column:
    of_it = [card for card in cards if card.column == name]
    of_it.sort(key=lambda card: (not card.is_ready, -card.priority, card.number))
    return Column(name, title, tuple(of_it if is_whole else of_it[:CARDS_SHOWN]), len(of_it))


def _outside(cards: Sequence[StepCard]) -> list[str]:
    known = {card.id for card in cards}
    return [one for one in dict.fromkeys(one for card in cards for one in card.after) if one not in known][:_LISTED]


def _link(project: Project, item_id: str) -> Link:
    found = project.journal.as_read("plan" if item_id.startswith("pln_") else "step", item_id)
    if found is None:
        return Link(item_id, "deleted", "")
    return Link(item_id, text_of(found.value, "state"), one_line(text_of(found.value, "text")))


def _dispatches(project: Project, entity: Entity) -> list[Link]:
    from periplus.memory.fulltext.links import linked

    found = linked(project.journal, "dispatch", "plan", entity.item_id)
    found.sort(key=lambda one: text_of(one.value, "created"), reverse=True)
    return [
        Link(one.item_id, text_of(one.value, "state"), one_line(text_of(one.value, "text"))) for one in found[:_LISTED]
    ]


def _handoffs(asked: Asked, entity: Entity) -> list[HandoffRow]:
    from periplus.memory.fulltext.links import linked

    found = [
        one for one in linked(asked.project.journal, "handoff", "plan", entity.item_id) if one.value.get("state") != "closed"
    ]  # fmt: skip
    return [handoff_row(one, asked.context.writer.name) for one in found[:_LISTED]]
