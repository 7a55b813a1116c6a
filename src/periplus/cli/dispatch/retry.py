"""``periplus dispatch retry``: one more attempt for steps that ended without result."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

_ENDED: Final = ("failed", "timed_out", "cancelled")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID",
                        help="assignments or steps, or a dispatch for all of its that ended without result")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.changes import check_typed
    from periplus.cli.dispatch.schemas import RetriedOut, RetryOut
    from periplus.dispatch.reports.board import board_of
    from periplus.dispatch.reports.stored import numbered
    from periplus.memory.coordination.assignments import change_assignment
    from periplus.memory.coordination.dispatches import change_dispatch, find_dispatch

    check_typed(arguments)
    with face.open() as project:
        found = _ended(project, arguments.ids)
        dispatch = find_dispatch(project.journal, str(found[0].value.get("dispatch", "")))
        is_stopped = dispatch.value.get("state") != "open"
        if is_stopped:
            dispatch = change_dispatch(
                project.journal, project.writer, dispatch.item_id, state="open", reason="", fields={"ended": ""}
            )
        retried = []
        for one in found:
            granted = numbered(one.value, "granted") + 1
            change_assignment(project.journal, project.writer, one, fields={"granted": granted})
            retried.append(RetriedOut(one.item_id, str(one.value.get("step", "")), granted))
        board = board_of(project.journal, dispatch)
    result = RetryOut(dispatch.item_id, retried, is_stopped, board.heading.is_carried)

    def lines() -> Iterator[str]:
        for one in retried:
            yield f"{one.assignment} gets one more attempt (step {one.step})."
        if result.carried is False:
            yield f"Nobody carries {result.id} now. To go on: periplus dispatch start --resume {result.id}"
        else:
            yield "Its supervisor offers the work again."

    return face.emit(result, lines)


def _ended(project: Project, references: list[str]) -> list[Entity]:
    """Return the assignments that may be tried again, all of one dispatch. Raises RefusedError for others."""
    from periplus.base.errors import NotFoundError, RefusedError, UsageError
    from periplus.memory.coordination.assignments import assignments_of, find_assignment

    project.journal.refresh()
    found: dict[str, Entity] = {}
    for reference in references:
        held = project.journal.find(reference)
        if held.item_type == "dispatch":
            ended = [one for one in assignments_of(project.journal, held.item_id) if one.value.get("state") in _ENDED]
            if not ended:
                raise NotFoundError(f"nothing of {held.item_id} ended without result", safe="Nothing was written.",
                                    mend=f"See `periplus dispatch show {held.item_id}`.")  # fmt: skip
            found.update((one.item_id, one) for one in ended)
            continue
        one = find_assignment(project.journal, reference)
        state = str(one.value.get("state", ""))
        if state not in _ENDED:
            mend = (
                ""
                if state == "integrated"
                else f"If nobody carries it: periplus dispatch start --resume {one.value.get('dispatch')}"
            )
            raise RefusedError(
                f"{one.item_id} is {state}: there is nothing to try again", safe="Nothing was written.", mend=mend
            )
        found[one.item_id] = one
    if len({str(one.value.get("dispatch")) for one in found.values()}) > 1:
        raise UsageError(
            "these belong to several dispatches", safe="Nothing was written.", mend="Name those of one at a time."
        )
    for one in found.values():
        order = project.journal.get("dispatch", str(one.value.get("dispatch", "")))
        if order is None or order.value.get("state") == "done":
            raise RefusedError(f"the dispatch of {one.item_id} is done", safe="Nothing was written.",
                               mend=f"Start another for the rest of the plan: periplus dispatch start {one.value.get('plan')} --agent NAME")  # fmt: skip
    return list(found.values())
