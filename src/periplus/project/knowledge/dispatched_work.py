"""``Project.work.dispatched``: the assignments, dispatches and questions of several agents at once, as others see them."""

from __future__ import annotations

__all__ = ["DispatchedWork", "StepWork"]

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory.coordination.dispatch_overview import DispatchProgress, Spent
    from periplus.project.store import ProjectStore


class StepWork(NamedTuple):
    """The assignment of a step that is at work, else its newest; ``spent`` sums all assignments of the step."""

    assignment: Entity
    spent: Spent


class DispatchedWork:
    """``project.work.dispatched``."""

    def __init__(self, project: ProjectStore) -> None:
        self._project = project
        self._journal = project.journal

    def of_plans(self, plans: Iterable[str], *, with_trails: bool = False) -> dict[str, StepWork]:
        """Return the dispatched work of plans, as the journal was last read, by the id of the step. ``with_trails`` takes
        tokens and money from the trails of the runs, where they are held.
        """
        from periplus.memory.coordination.dispatch_overview import (
            Spent,
            assignments_by_step,
            newest_assignment,
            spent_of,
        )

        found = {}
        for step, assignments in assignments_by_step(self._journal, plans).items():
            newest = newest_assignment(assignments)
            assert newest is not None
            spent = Spent()
            for one in assignments:
                spent = spent.plus(self.spent(one) if with_trails else spent_of(one))
            found[step] = StepWork(newest, spent)
        return found

    def spent(self, assignment: Entity) -> Spent:
        """Return what an assignment cost: of each run with a trail the sums of that, of any other what it states."""
        from periplus.memory.coordination.dispatch_overview import Spent, spent_of

        held = assignment.value.get("runs")
        runs = [run for run in held if isinstance(run, dict)] if isinstance(held, list) else []
        stated = spent_of(assignment)
        if not any(run.get("trail") for run in runs):
            return stated
        whole = Spent(wall_ms=stated.wall_ms)
        for run in runs:
            whole = whole.plus(self._spent_by(run))
        return whole

    def _spent_by(self, run: Mapping[str, JSONValue]) -> Spent:
        from periplus.memory.coordination.dispatch_overview import Spent
        from periplus.project.trail_store.model_costs import trail_costs

        trail = run.get("trail")
        if isinstance(trail, str) and trail:
            try:
                return Spent(*trail_costs(self._project, trail))
            except PeriplusError:
                pass  # the trail lies elsewhere or is damaged, which doctor tells; what the run states is good enough here
        held = [run.get(name, 0) for name in ("tokens_in", "cached", "out", "cost")]
        return Spent(*(one if isinstance(one, int) else 0 for one in held))

    def at_work(self) -> list[Entity]:
        """Return the assignments at work in all clones, the oldest first."""
        from periplus.memory.coordination.dispatch_overview import assignments_at_work

        return assignments_at_work(self._journal)

    def progress(self) -> list[DispatchProgress]:
        """Return the open dispatches of all clones with their progress, the oldest first."""
        from periplus.memory.coordination.dispatch_overview import open_progress

        return open_progress(self._journal)

    def is_of_another_clone(self, entity: Entity) -> bool:
        """Return True where another clone carries an assignment or a dispatch."""
        from periplus.memory.coordination.dispatch_overview import is_of_another_clone

        return is_of_another_clone(self._journal, entity)

    def words(self, assignment: Entity) -> str:
        """Return who does a step and how far it is, as text."""
        from periplus.memory.coordination.dispatch_overview import assignment_words

        return assignment_words(self._journal, assignment)

    def paths(self, assignment: Entity) -> list[str]:
        """Return the scopes that an assignment has claimed."""
        from periplus.memory.coordination.dispatch_overview import paths_of

        return paths_of(self._journal, assignment)

    def questions(self) -> list[Entity]:
        """Return the questions that wait for a person's answer, the oldest first."""
        from periplus.memory.coordination.dispatches import open_questions

        return open_questions(self._journal)

    def answer(self, reference: str, text: str, *, key: str = "") -> Entity:
        """Answer a question. Raises NotFoundError, and RefusedError where it was answered otherwise or the writer asked it."""
        from periplus.memory.coordination.dispatches import answer_question

        return answer_question(self._journal, self._project.writer, reference, text, key=key)
