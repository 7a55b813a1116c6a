"""Writes of the pages of work, with the same functions as the command line: steps, claims, handoffs, mail, questions, candidates."""

from __future__ import annotations

__all__ = [
    "accept_candidate",
    "accept_handoff",
    "answer_mail",
    "answer_question",
    "change_state",
    "close_handoff",
    "read_mail",
    "refuse_candidate",
    "release_claim",
    "send_mail",
    "take_step",
    "write_handoff",
]

from typing import TYPE_CHECKING, Final

from periplus.web.pages.model import Asked, Done, Form
from periplus.web.pages.work.entity_fields import one_line, text_of

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory.writing.lifecycle import Changed

_TTL_S: Final = 7_200
_STATES: Final = ("done", "blocked", "dropped", "review", "todo", "doing")
_NOTES_SHOWN: Final = 5


def take_step(asked: Asked, _: Form) -> Done:
    """Take a step, with a claim on its paths. Raises ClaimedError, RefusedError for one that cannot be started."""
    from periplus.base.errors import RefusedError

    taken = asked.project.work.take(step=asked.path["id"], ttl_s=_TTL_S)
    if taken is None:
        raise RefusedError("no step can be started now", safe="Nothing was written.")
    value = taken.step.value
    text = f"Taken: {one_line(text_of(value, 'text'))}. The claim lasts 2 hours without activity of yours."
    return Done(f"/work/plan/{text_of(value, 'plan')}#{taken.step.item_id}", text)


def change_state(asked: Asked, form: Form) -> Done:
    """Bring a step or a plan into the state of the field ``state``. Raises UsageError, RefusedError, ClaimedError."""
    from periplus.base.errors import NotFoundError

    found = asked.project.show(asked.path["id"])
    if found.item_type not in ("plan", "step"):
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a plan or step")
    state = form.choice("state", _STATES)
    done = asked.project.work.change_state(
        [found.item_id], state, reason=form.text("reason"), force=form.flag("force")
    )  # fmt: skip
    plan = found.item_id if found.item_type == "plan" else text_of(found.value, "plan")
    return Done(f"/work/plan/{plan}", _told(done, found.item_id))


def release_claim(asked: Asked, form: Form) -> Done:
    """Release a claim; that of somebody else only with the field ``force``. Raises RefusedError."""
    project = asked.project
    claim = project.show(asked.path["id"])
    done = project.work.release([claim.item_id], force=form.flag("force"), reason=form.text("reason"))
    step = project.journal.get("step", text_of(claim.value, "step"))
    where = f"/work/plan/{text_of(step.value, 'plan')}" if step is not None else "/work#claims"
    return Done(where, _told(done, claim.item_id))


def answer_question(asked: Asked, form: Form) -> Done:
    """Answer the question of an agent, which goes on with it. Raises RefusedError where it was answered otherwise."""
    text = form.text("text") or form.text("option")
    found = asked.project.work.dispatched.answer(asked.path["id"], text)
    asker = text_of(found.value, "asker") or "the merge queue"
    dispatch = text_of(found.value, "dispatch")
    where = f"/work/dispatch/{dispatch}" if dispatch else "/work#questions"
    return Done(where, f"Answered {found.item_id}; {asker} goes on with it.")


def read_mail(asked: Asked, _: Form) -> Done:
    """Note that a message was read."""
    done = asked.project.work.read_mail([asked.path["id"]])
    return Done("/work#mail", "Marked as read." if done.receipt is not None else "It was read before.")


def answer_mail(asked: Asked, form: Form) -> Done:
    """Answer a message, in its thread. Raises RefusedError for one that was sent to somebody else."""
    sent = asked.project.work.answer(asked.path["id"], form.text("text"))
    return Done("/work#mail", f"Answered {text_of(sent.value, 'recipient')}.")


def send_mail(asked: Asked, form: Form) -> Done:
    """Send a message to the name in the field ``to``."""
    work, to = asked.project.work, form.text("to")
    sent = work.send(to, form.text("text"), ref=form.text("ref"), needs_answer=form.flag("needs_answer"))
    return Done("/work#mail", f"Sent to {text_of(sent.value, 'recipient')}.{_meant(asked, to)}")


def write_handoff(asked: Asked, form: Form) -> Done:
    """Hand over the state of work; ``files`` and ``unfinished`` have one entry a line. Raises UsageError."""
    from periplus.memory.coordination.handoffs import NewHandoff

    work, to = asked.project.work, form.text("to")
    files = tuple(work.path(one, cwd=asked.project.folder) for one in _lines(form, "files"))
    new = NewHandoff(
        form.text("text"), to, files, form.text("tests"), tuple(_lines(form, "unfinished")), form.text("plan"), form.text("trail")
    )  # fmt: skip
    done = work.hand_off(new)
    return Done("/work#handoffs", f"Handed over as {done.item_id}.{_meant(asked, to)}")


def accept_handoff(asked: Asked, form: Form) -> Done:
    """Take over the work of a handoff; one for somebody else only with the field ``force``."""
    done = asked.project.work.accept_handoff(asked.path["id"], force=form.flag("force"))
    return Done("/work#handoffs", f"Taken over: {one_line(text_of(done.value, 'text'), 100)}")


def close_handoff(asked: Asked, _: Form) -> Done:
    """Close a handoff whose work is done."""
    from periplus.base.errors import NotFoundError

    found = asked.project.show(asked.path["id"])
    if found.item_type != "handoff":
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a handoff")
    done = asked.project.work.change_state([found.item_id], "closed")
    return Done("/work#handoffs", _told(done, found.item_id))


def accept_candidate(asked: Asked, _: Form) -> Done:
    """Accept a candidate into this memory. Raises ConflictError for one that was decided on."""
    done = asked.project.accept(asked.path["id"])
    item = f"{done.entity.item_type} {done.entity.item_id}"
    return Done("/work#candidates", f"Accepted as {item}" if done.is_new else f"Accepted: {item} already says the same")


def refuse_candidate(asked: Asked, _: Form) -> Done:
    """Refuse a candidate. Raises ConflictError for one that was accepted."""
    done = asked.project.refuse(asked.path["id"])
    return Done("/work#candidates", f"Refused {done.item_id}")


# -- inside ------------------------------------------------------------------------------------------------------------


def _lines(form: Form, name: str) -> list[str]:
    return [line.strip() for line in form.text(name).splitlines() if line.strip()]


def _meant(asked: Asked, name: str) -> str:
    """Return a warning where nobody is called ``name`` but somebody has a similar name."""
    meant = asked.project.work.meant_by(name) if name else ""
    return f" But nobody here is called {name}; {meant} does not get this." if meant else ""


def _told(done: Changed, item_id: str) -> str:
    if done.receipt is None:
        return "Nothing changed."
    named: list[Entity] = [one for one in done.entities if one.item_id == item_id] or list(done.entities[:1])
    words = [f"{one.item_type} {one.item_id} is {text_of(one.value, 'state')}" for one in named]
    others = len(done.entities) - len(named)
    also = [f"{others} more changed with it"] if others > 0 else []
    return ". ".join(["; ".join([*words, *also]), *done.notes[:_NOTES_SHOWN]]) + "."
