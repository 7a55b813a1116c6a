"""Loops: work of several agents in phases, each with a gate (``dispatch.loops`` has the table of them, and judges).

A try at a phase has a plan and a dispatch of its own. Their ids come from the loop and the number of the try, or are written down
before they are used, so that whoever goes on after a crash finds them. What a try brought is recorded in one batch with the
decision on it; a loop that somebody else changed meanwhile is not written.
"""

from __future__ import annotations

__all__ = ["Judged", "NewLoop", "change_loop", "close_loop", "find_loop", "loops", "open_loop", "record_try"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Transaction, Writer
from periplus.memory.fulltext.links import linked
from periplus.memory.writing.lifecycle import bring
from periplus.memory.writing.write_keys import check_repeated, has_fields

if TYPE_CHECKING:
    from periplus.memory.entities.schemas import Artifact, Check

TEXT_CHARACTERS_MAX: Final = 6_000  # a step's text holds it with the order of a phase
ARTIFACTS_MAX: Final = 500
CHECKS_MAX: Final = 200
_ENDED: Final = frozenset({"done", "dropped"})


class NewLoop(NamedTuple):
    """A loop to write; the fields are those of ``memory.entities.schemas.Loop``, ``limits`` of ``Limits``."""

    kind: str
    text: str
    phase: str
    agents: tuple[str, ...]
    base: str
    head: str
    command: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    model: str = ""
    limits: Mapping[str, int] = {}


class Judged(NamedTuple):
    """Result of a try and the decision on it. ``phase`` is the one that follows, empty where the loop is over; ``missing`` is what
    the present one still lacks.
    """

    artifacts: Sequence[Artifact]
    checks: Sequence[Check]
    phase: str
    began: str
    missing: tuple[str, ...] = ()
    reason: str = ""


def open_loop(journal: Journal, writer: Writer, new: NewLoop, *, key: str = "") -> Entity:
    """Write a loop. Raises UsageError for what cannot be one."""
    text = new.text.strip()
    if not new.agents:
        raise UsageError("no agent is named", safe="Nothing was written.", mend="Name one: --agent NAME.")
    if not text or len(text) > TEXT_CHARACTERS_MAX:
        what = (
            f"the text has {len(text):,} characters, at most {TEXT_CHARACTERS_MAX:,}" if text else "the text is empty"
        )
        raise UsageError(what, safe="Nothing was written.", mend="Say in words what the loop is about.")
    journal.refresh()
    item_id = new_id("lop")
    now = format_ms(journal.clock.now_ms())
    value: dict[str, JSONValue] = {
        "v": 1, "state": "open", "kind": new.kind, "text": text, "author": writer.name, "created": now, "updated": now,
        "provenance": {"kind": "person", "name": writer.name}, "phase": new.phase, "agents": list(new.agents),
        "branch": f"periplus/{item_id}", "base": new.base, "head": new.head, "began": new.head,
    }  # fmt: skip
    more: dict[str, JSONValue] = {
        "session": writer.session, "command": list(new.command), "setup": list(new.setup), "links": list(new.links),
        "model": new.model, "limits": dict(new.limits),
    }  # fmt: skip
    value |= {name: held for name, held in more.items() if held}

    def write(transaction: Transaction) -> None:
        transaction.put("loop", item_id, value, expect=ABSENT, summary=f"{new.kind}: {text}")

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, lambda written: has_fields(written[0].value, {"kind": new.kind, "text": text}))
    return _loop(journal, journal.written_by(receipt)[0][1] if receipt.repeated else item_id)


def change_loop(journal: Journal, writer: Writer, loop: Entity, fields: Mapping[str, JSONValue]) -> Entity:
    """Set fields of an open loop. Raises ConflictError where it changed since it was read, RefusedError where it is closed."""

    def write(transaction: Transaction) -> None:
        held = _held(transaction, loop)
        value = {**held.value, **fields, "updated": format_ms(journal.clock.now_ms())}
        transaction.put("loop", held.item_id, value, action="update", expect=held.version, summary="loop updated")

    journal.mutate(write, writer)
    return _loop(journal, loop.item_id)


def record_try(journal: Journal, writer: Writer, loop: Entity, judged: Judged) -> Entity:
    """Record a try with the decision on it: artifacts and checks, what is missing, the next phase, or the end of the loop. Its plan
    is done, or dropped with the steps that are left. Raises as ``change_loop``.
    """

    def write(transaction: Transaction) -> None:
        held = _held(transaction, loop)
        tries = held.value.get("tries", 0)
        fields: dict[str, JSONValue] = {
            "artifacts": msgspec.to_builtins(list(judged.artifacts)[-ARTIFACTS_MAX:]),
            "checks": msgspec.to_builtins(list(judged.checks)[-CHECKS_MAX:]),
            "missing": list(judged.missing), "tries": (tries if isinstance(tries, int) else 0) + 1, "plan": "", "dispatch": "",
            "began": judged.began,
        }  # fmt: skip
        _end_plan(journal, transaction, str(held.value.get("plan", "")))
        if not judged.phase:
            bring(journal, transaction, [held], "closed", judged.reason, fields)
            return
        value = {**held.value, **fields, "phase": judged.phase, "updated": format_ms(journal.clock.now_ms())}
        summary = f"{judged.phase}: {judged.missing[0]}" if judged.missing else f"goes on with {judged.phase}"
        transaction.put("loop", held.item_id, value, action="update", expect=held.version, summary=summary)

    journal.mutate(write, writer)
    return _loop(journal, loop.item_id)


def close_loop(journal: Journal, writer: Writer, loop: Entity, reason: str) -> Entity:
    """Close a loop before its end: a dispatch that is open is stopped, and what is left of its plan dropped. Raises ConflictError."""

    def write(transaction: Transaction) -> None:
        held = transaction.get("loop", loop.item_id)
        if held is None or held.deleted or held.version != loop.version:
            raise ConflictError(f"{loop.item_id} changed meanwhile", safe="Nothing was written.")
        if held.value.get("state") == "closed":
            return
        dispatch = transaction.get("dispatch", str(held.value.get("dispatch", "")))
        if dispatch is not None and dispatch.value.get("state") == "open":
            bring(journal, transaction, [dispatch], "stopped", f"{loop.item_id} was closed")
        _end_plan(journal, transaction, str(held.value.get("plan", "")))
        bring(journal, transaction, [held], "closed", reason)

    journal.mutate(write, writer)
    return _loop(journal, loop.item_id)


def loops(journal: Journal, *, with_closed: bool = False) -> list[Entity]:
    """Return the open loops, or all, the oldest first."""
    journal.refresh()
    found = list(journal.entities("loop")) if with_closed else linked(journal, "loop", "state", "open")
    return sorted(found, key=lambda one: (str(one.value.get("created", "")), one.item_id))


def find_loop(journal: Journal, reference: str = "") -> Entity:
    """Return the loop whose id begins with ``reference``; without one the only open one, else the newest. Raises NotFoundError,
    UsageError where several are open.
    """
    journal.refresh()
    if reference:
        found = journal.find(reference)
        if found.item_type != "loop":
            raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a loop", mend="See `periplus loop list`.")
        return found
    is_open = loops(journal)
    if len(is_open) > 1:
        raise UsageError(
            f"{len(is_open)} loops are open: {', '.join(one.item_id for one in is_open[:5])}", mend="Name one of them."
        )
    held = is_open or loops(journal, with_closed=True)
    if not held:
        raise NotFoundError("there is no loop", mend='Open one: periplus loop open KIND "TEXT" --agent NAME')
    return held[-1]


# -- inside -------------------------------------------------------------------------------------------------------------


def _held(transaction: Transaction, loop: Entity) -> Entity:
    held = transaction.get("loop", loop.item_id)
    if held is None or held.deleted or held.version != loop.version:
        raise ConflictError(f"{loop.item_id} changed meanwhile", safe="Nothing was written.")
    if held.value.get("state") == "closed":
        raise RefusedError(f"the loop {loop.item_id} is closed", safe="Nothing was written.")
    return held


def _end_plan(journal: Journal, transaction: Transaction, plan_id: str) -> None:
    plan = transaction.get("plan", plan_id) if plan_id else None
    if plan is not None and not plan.deleted and plan.value.get("state") not in _ENDED:
        is_left = any(step.value.get("state") not in _ENDED for step in linked(journal, "step", "plan", plan_id))
        bring(journal, transaction, [plan], "dropped" if is_left else "done", "the try at the phase is over")


def _loop(journal: Journal, item_id: str) -> Entity:
    found = journal.get("loop", item_id)
    if found is None:
        raise NotFoundError(f"there is no loop {item_id}")
    return found
