"""Control of a dispatch from its page: stop, and try again. Starting and dropping stay with the command line, which asks what is lost."""

from __future__ import annotations

__all__ = ["retry", "stop"]

from periplus.web.pages.model import Asked, Done, Form
from periplus.web.pages.work.entity_fields import text_of


def stop(asked: Asked, form: Form) -> Done:
    """Stop a dispatch: its assignments at work are cancelled; what their agents did stays in their worktrees."""
    from periplus.dispatch.reports.board import board_of
    from periplus.memory.coordination.dispatches import change_dispatch, find_dispatch

    project = asked.project
    found = find_dispatch(project.journal, asked.path["id"])
    where = f"/work/dispatch/{found.item_id}"
    before = board_of(project.journal, found)
    if before.heading.state != "open":
        return Done(where, f"{found.item_id} is {before.heading.state} already.")
    reason = form.text("reason").strip() or "stopped by a person"
    found = change_dispatch(project.journal, project.writer, found.item_id, state="stopped", reason=reason)
    after = board_of(project.journal, found)
    earlier = {row.assignment for row in before.rows if row.state == "cancelled"}
    count = sum(row.state == "cancelled" and row.assignment not in earlier for row in after.rows)
    ends = " Its supervisor ends the agents that still run." if before.heading.is_carried is not False else ""
    return Done(
        where,
        f"Stopped {found.item_id}; {count:,} assignment{'s' if count != 1 else ''} cancelled. What their agents did stays in their worktrees.{ends}"
        f" To go on later: periplus dispatch start --resume {found.item_id}",
    )


def retry(asked: Asked, form: Form) -> Done:
    """Allow one more attempt for what ended without result: one assignment (field ``assignment``), or all of the dispatch."""
    from periplus.dispatch import control
    from periplus.dispatch.reports.board import board_of

    project = asked.project
    done = control.retry(project, [form.text("assignment") or asked.path["id"]])
    carried = board_of(project.journal, done.dispatch).heading.is_carried
    said = f"{len(done.assignments)} assignments get one more attempt."
    if len(done.assignments) == 1:
        said = (
            f"{text_of(done.assignments[0].value, 'text')[:80] or done.assignments[0].item_id} gets one more attempt."
        )
    goes_on = (
        f"Nobody carries {done.dispatch.item_id} now. To go on: periplus dispatch start --resume {done.dispatch.item_id}"
        if carried is False
        else "Its supervisor offers the work again."
    )
    return Done(f"/work/dispatch/{done.dispatch.item_id}", f"{said} {goes_on}")
