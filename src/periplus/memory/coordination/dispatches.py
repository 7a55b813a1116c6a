"""Dispatches: orders to have a plan done by several agents, and the questions that come up meanwhile.

A dispatch is carried by one supervisor process; everything that it needs to go on after that process is in records. The
steps that agents do are assignments (``memory.coordination.assignments``).
"""

from __future__ import annotations

__all__ = [
    "NewDispatch",
    "NewQuestion",
    "answer_question",
    "ask_person",
    "change_dispatch",
    "find_dispatch",
    "find_question",
    "open_dispatches",
    "open_questions",
    "start_dispatch",
]

from collections.abc import Mapping
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Transaction, Writer
from periplus.memory.fulltext.links import linked
from periplus.memory.writing.lifecycle import bring
from periplus.memory.writing.write_keys import check_repeated, has_fields

LANES_MAX: Final = 64
QUESTION_S: Final = 7 * 24 * 3600


class NewDispatch(NamedTuple):
    """A dispatch to write; the fields are those of ``memory.entities.schemas.Dispatch``, ``limits`` of ``Limits``."""

    text: str
    plan: str
    agents: tuple[str, ...]
    target: str
    branch: str
    base: str
    reviewers: tuple[str, ...] = ()
    lanes: int = 2
    oracle: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    role: str = "implementer"
    model: str = ""
    limits: Mapping[str, int] = {}
    updates_checkout: bool = False
    answer: str = "result"
    artifact: str = ""
    read_only: bool = False
    loop: str = ""
    materials: tuple[tuple[str, str], ...] = ()  # of a step, the object


class NewQuestion(NamedTuple):
    text: str
    dispatch: str
    assignment: str = ""
    asker: str = ""
    options: tuple[str, ...] = ()


def start_dispatch(journal: Journal, writer: Writer, new: NewDispatch, *, item_id: str = "", key: str = "") -> Entity:
    """Write a dispatch. Raises UsageError for what cannot be one, RefusedError where another one does that plan."""
    if not new.agents:
        raise UsageError("no agent is named", safe="Nothing was written.", mend="Name one: --agent NAME.")
    if not 1 <= new.lanes <= LANES_MAX:
        raise UsageError(f"a dispatch has 1 to {LANES_MAX} lanes, not {new.lanes:,}", safe="Nothing was written.")
    journal.refresh()
    item_id = item_id or new_id("dsp")
    fields: dict[str, JSONValue] = {
        "plan": new.plan, "agents": list(new.agents), "reviewers": list(new.reviewers), "lanes": new.lanes, "target": new.target,
        "branch": new.branch, "base": new.base, "oracle": list(new.oracle), "setup": list(new.setup), "links": list(new.links),
        "copies": list(new.copies),
        "model": new.model, "limits": dict(new.limits), "updates_checkout": new.updates_checkout,
        "artifact": new.artifact, "read_only": new.read_only, "loop": new.loop,
        "materials": [{"step": step, "object": digest} for step, digest in new.materials],
    }  # fmt: skip
    told: dict[str, JSONValue] = {"state": "open", "role": new.role, "answer": new.answer}

    def write(transaction: Transaction) -> None:
        others = [one for one in linked(journal, "dispatch", "plan", new.plan) if one.value.get("state") == "open"]
        if others:
            raise RefusedError(
                f"{others[0].item_id} does the plan {new.plan} already", safe="Nothing was written.",
                mend=f"Go on with it: periplus dispatch start --resume {others[0].item_id}",
            )  # fmt: skip
        value = _common(journal, writer, new.text) | {name: held for name, held in fields.items() if held}
        transaction.put("dispatch", item_id, value | told, expect=ABSENT, summary=f"dispatch: {new.text}")

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(
        journal, receipt, lambda written: has_fields(written[0].value, {"plan": new.plan, "text": new.text.strip()})
    )
    if receipt.repeated:
        item_id = journal.written_by(receipt)[0][1]
    return _entity(journal, "dispatch", item_id)


def change_dispatch(
    journal: Journal, writer: Writer, item_id: str, *, state: str = "", reason: str = "", fields: Mapping[str, JSONValue] | None = None
) -> Entity:  # fmt: skip
    """Set ``fields`` and, with all consequences, the state of a dispatch. A field that is None is removed."""

    def write(transaction: Transaction) -> None:
        held = transaction.get("dispatch", item_id)
        if held is None or held.deleted:
            raise NotFoundError(f"there is no dispatch {item_id}", safe="Nothing was written.")
        if state and state != held.value.get("state"):
            bring(journal, transaction, [held], state, reason, fields)
            return
        value: dict[str, JSONValue] = {
            name: one for name, one in {**held.value, **(fields or {})}.items() if one is not None
        }
        if value != held.value:
            value["updated"] = format_ms(journal.clock.now_ms())
            transaction.put(
                "dispatch", item_id, value, action="update", expect=held.version, summary="dispatch updated"
            )

    journal.mutate(write, writer)
    return _entity(journal, "dispatch", item_id)


def open_dispatches(journal: Journal) -> list[Entity]:
    """Return the open dispatches, the oldest first."""
    journal.refresh()
    found = linked(journal, "dispatch", "state", "open")
    return sorted(found, key=lambda one: (str(one.value.get("created", "")), one.item_id))


def find_dispatch(journal: Journal, reference: str = "") -> Entity:
    """Return the dispatch whose id begins with ``reference``; without one the only open one, else the newest. Raises
    NotFoundError, UsageError where several are open.
    """
    journal.refresh()
    if reference:
        found = journal.find(reference)
        if found.item_type != "dispatch":
            raise NotFoundError(
                f"{found.item_id} is a {found.item_type}, not a dispatch", mend="See `periplus dispatch list`."
            )
        return found
    is_open = open_dispatches(journal)
    if len(is_open) > 1:
        raise UsageError(
            f"{len(is_open)} dispatches are open: {', '.join(one.item_id for one in is_open[:5])}",
            mend="Name one of them.",
        )
    held = is_open or sorted(
        journal.entities("dispatch"), key=lambda one: (str(one.value.get("created", "")), one.item_id)
    )
    if not held:
        raise NotFoundError("there is no dispatch", mend="Start one: periplus dispatch start PLAN --agent NAME")
    return held[-1]


# -- questions ----------------------------------------------------------------------------------------------------------


def ask_person(journal: Journal, writer: Writer, new: NewQuestion, *, key: str = "") -> Entity:
    """Write a question for a person. The same open question of an assignment is not asked twice."""
    journal.refresh()
    item_id = new_id("qst")
    made = [item_id]

    def write(transaction: Transaction) -> None:
        for held in linked(journal, "question", "assignment", new.assignment) if new.assignment else ():
            if held.value.get("state") == "open" and held.value.get("text") == new.text.strip():
                made[:] = [held.item_id]
                return
        transaction.put(
            "question",
            item_id,
            question_value(journal, writer, new),
            expect=ABSENT,
            summary=f"{new.asker or writer.name} asks",
        )

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, lambda written: written[0].item_type == "question")
    if receipt.repeated:
        made = [journal.written_by(receipt)[0][1]]
    return _entity(journal, "question", made[0])


def question_value(journal: Journal, writer: Writer, new: NewQuestion) -> dict[str, JSONValue]:
    """Return the payload of a question that is asked now."""
    expires = format_ms(journal.clock.now_ms() + 1000 * QUESTION_S)
    value = _common(journal, writer, new.text) | {"state": "open", "dispatch": new.dispatch, "expires": expires}
    more: dict[str, JSONValue] = {"assignment": new.assignment, "asker": new.asker, "options": list(new.options)}
    return value | {name: held for name, held in more.items() if held}


def answer_question(journal: Journal, writer: Writer, reference: str, text: str, *, key: str = "") -> Entity:
    """Answer a question; who asked goes on with it. Raises NotFoundError, RefusedError where it was answered otherwise, or
    the writer is the agent that asked.
    """
    found = find_question(journal, reference)
    if not text.strip():
        raise UsageError("the answer is empty", safe="Nothing was written.")

    def write(transaction: Transaction) -> None:
        held = transaction.get("question", found.item_id)
        if held is None or held.deleted:
            raise NotFoundError(f"there is no question {found.item_id}", safe="Nothing was written.")
        if writer.name in _askers(journal, held):
            raise RefusedError(f"{held.item_id} was asked by {writer.name}, who cannot answer it", safe="Nothing was written.",
                               mend="A person answers it, under another name.")  # fmt: skip
        if held.value.get("state") == "answered":
            if held.value.get("answer") == text.strip():
                return
            raise RefusedError(f"{held.item_id} was answered by {held.value.get('answered_by')}", safe="Nothing was written.",
                               mend=f"See `periplus show {held.item_id}`.")  # fmt: skip
        bring(journal, transaction, [held], "answered", fields={"answer": text.strip(), "answered_by": writer.name})

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, lambda written: has_fields(written[0].value, {"answer": text.strip()}))
    return _entity(journal, "question", found.item_id)


def _askers(journal: Journal, question: Entity) -> set[str]:
    """Return the names under which the agent works that asks: its own, and that of the holder of its claim."""
    assignment = journal.as_read("assignment", str(question.value.get("assignment", "")))
    claim = journal.as_read("claim", str(assignment.value.get("claim", ""))) if assignment is not None else None
    holder = str(claim.value.get("holder", "")) if claim is not None else ""
    return {str(question.value.get("asker", "")), holder} - {""}


def find_question(journal: Journal, reference: str) -> Entity:
    """Return the question whose id begins with ``reference``."""
    journal.refresh()
    found = journal.find(reference)
    if found.item_type != "question":
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a question", mend="See `periplus inbox`.")
    return found


def open_questions(journal: Journal, dispatch: str = "") -> list[Entity]:
    """Return the questions that wait for an answer now, the oldest first; of one dispatch, or of all."""
    journal.refresh()
    now = format_ms(journal.clock.now_ms())
    found = [
        one for one in linked(journal, "question", "state", "open")
        if str(one.value.get("expires", now)) >= now and dispatch in ("", one.value.get("dispatch"))
    ]  # fmt: skip
    return sorted(found, key=lambda one: (str(one.value.get("created", "")), one.item_id))


# -- inside -------------------------------------------------------------------------------------------------------------


def _common(journal: Journal, writer: Writer, text: str) -> dict[str, JSONValue]:
    now = format_ms(journal.clock.now_ms())
    value: dict[str, JSONValue] = {
        "v": 1, "text": text.strip(), "author": writer.name, "created": now, "updated": now,
        "provenance": {"kind": "person", "name": writer.name},
    }  # fmt: skip
    return value | ({"session": writer.session} if writer.session else {})


def _entity(journal: Journal, item_type: str, item_id: str) -> Entity:
    found = journal.get(item_type, item_id)
    if found is None:
        raise NotFoundError(f"there is no {item_type} {item_id}")
    return found
