"""Tokens and money of agents at work, read from their output while it grows: records have them once a run has ended."""

from __future__ import annotations

__all__ = ["LiveSpending"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

from periplus.dispatch.places import Places, is_run_name
from periplus.dispatch.processes import RunFolder
from periplus.dispatch.reports.stored import assignment_of
from periplus.dispatch.supervision.usage import Usage

if TYPE_CHECKING:
    from periplus.dispatch.adapters import Adapter
    from periplus.dispatch.reports.board import Board, Row
    from periplus.journal import Journal


class LiveSpending:
    """Adds to a board what runs have spent until now, as far as their agents print it. Output is read once."""

    def __init__(self, places: Places, adapters: Mapping[str, Adapter]) -> None:
        self._places, self._adapters = places, adapters
        self._usages: dict[str, Usage] = {}

    def added(self, journal: Journal, board: Board) -> Board:
        return board._replace(
            rows=tuple(self._row(journal, row) if row.is_going and row.assignment else row for row in board.rows)
        )

    def _row(self, journal: Journal, row: Row) -> Row:
        held = journal.get("assignment", row.assignment)
        one = assignment_of(held.value) if held is not None else None
        if one is None or not one.runs or one.runs[-1].ended or one.runs[-1].purpose not in ("work", "review"):
            return row
        run = one.runs[-1]
        if not is_run_name(run.id):
            return row
        usage = self._usages.get(run.id)
        if usage is None:
            before = [
                other for other in one.runs if other.id != run.id and other.session and other.session == run.session
            ]
            usage = self._usages[run.id] = Usage(self._adapters.get(run.agent), before)
        usage.read(RunFolder(self._places.run(run.id), journal.files))
        spent = usage.spent
        tokens = row.tokens + spent.tokens_in + spent.cached + spent.out
        return row._replace(tokens=tokens, cost=row.cost + spent.cost_millionths, act=usage.last_words[:200] or row.act)
