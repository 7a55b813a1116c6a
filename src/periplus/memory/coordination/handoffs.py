"""Handoffs: the state of work that one agent passes on to the next.

Only the state of a handoff is ever changed, so that its content stays what it was: a correction is a new handoff that
supersedes it.
"""

from __future__ import annotations

__all__ = ["NewHandoff", "accept_handoff", "handoffs", "write_handoff"]

from collections.abc import Mapping

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Transaction, Writer
from periplus.memory.fulltext.links import linked, open_entities
from periplus.memory.writing.lifecycle import supersede
from periplus.memory.writing.write_keys import Written, as_written, check_repeated, has_fields

_LIST_MAX = 200


class NewHandoff(NamedTuple):
    """``files`` are paths of the project, ``tests`` the known test results, ``unfinished`` what is left to do."""

    text: str
    recipient: str = ""
    files: tuple[str, ...] = ()
    tests: str = ""
    unfinished: tuple[str, ...] = ()
    plan: str = ""
    trail: str = ""


def write_handoff(
    journal: Journal, writer: Writer, new: NewHandoff, *, corrects: str = "", key: str = "", key_ms: int | None = None
) -> Entity:  # fmt: skip
    """Write a handoff; with ``corrects`` in place of another. Raises UsageError, NotFoundError."""
    journal.refresh()
    old = _handoff(journal, corrects) if corrects else None
    if len(new.files) > _LIST_MAX or len(new.unfinished) > _LIST_MAX:
        raise UsageError(f"more than {_LIST_MAX} files or unfinished items", safe="Nothing was written.")
    item_id = new_id("hof")
    now = format_ms(journal.clock.now_ms())
    value: dict[str, JSONValue] = {
        "v": 1, "text": new.text.strip(), "author": writer.name, "created": now, "updated": now, "state": "open",
        "provenance": {"kind": "person", "name": writer.name},
    }  # fmt: skip
    more: dict[str, JSONValue] = {
        "session": writer.session, "recipient": new.recipient, "files": list(new.files), "tests": new.tests,
        "unfinished": list(new.unfinished), "plan": _of_type(journal, new.plan, "plan"),
        "trail": _of_type(journal, new.trail, "trail"),
    }  # fmt: skip
    value |= {name: held for name, held in more.items() if held}
    if old is not None:
        value["relations"] = [{"kind": "supersedes", "target": old.item_id}]

    def write(transaction: Transaction) -> None:
        transaction.put("handoff", item_id, value, expect=ABSENT, summary=f"handoff: {new.text}")
        if old is not None:
            supersede(journal, transaction, old)

    receipt = journal.mutate(write, writer, key=key, key_ms=key_ms)
    check_repeated(journal, receipt, lambda written: _is_said(written[0], value))
    return as_written(journal, receipt, "handoff", journal.written_by(receipt)[0][1] if receipt.repeated else item_id)


def accept_handoff(journal: Journal, writer: Writer, reference: str, *, key: str = "", force: bool = False) -> Entity:
    """Take over the work of a handoff. Raises ConflictError where it was accepted or closed, RefusedError where it is
    for somebody else, unless with ``force``.
    """
    journal.refresh()
    item_id = _handoff(journal, reference).item_id

    def write(transaction: Transaction) -> None:
        held = transaction.get("handoff", item_id)
        rivals = _accepted_apart(held) if held is not None else frozenset()
        if held is None or held.deleted or (held.value.get("state") != "open" and writer.name not in rivals):
            by = "" if held is None else str(held.value.get("accepted_by", ""))
            state = "gone" if held is None or held.deleted else str(held.value.get("state"))
            if by == writer.name and state == "accepted":
                return
            raise ConflictError(f"{item_id} is {state}{f' by {by}' if by else ''}", safe="Nothing was written.",
                                mend="See `periplus handoff list`.")  # fmt: skip
        recipient = held.value.get("recipient", "")
        if recipient and recipient != writer.name and not force:
            raise RefusedError(f"{item_id} is for {recipient}, and you are {writer.name}", safe="Nothing was written.",
                               mend=f"To take it over all the same: periplus handoff accept {item_id} --force")  # fmt: skip
        value = {
            **held.value,
            "state": "accepted",
            "accepted_by": writer.name,
            "updated": format_ms(journal.clock.now_ms()),
        }
        transaction.put("handoff", item_id, value, action="transition", expect=held.version,
                        summary=f"handoff {held.value.get('state')} → accepted by {writer.name}")  # fmt: skip

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(
        journal, receipt, lambda written: written[0].item_id == item_id and "accepted_by" in written[0].value
    )
    return _handoff(journal, item_id)


def _accepted_apart(handoff: Entity) -> frozenset[str]:
    """Return the writers who accepted the handoff in separate clones: the first of them to accept it again has it."""
    if handoff.value.get("state") != "accepted":
        return frozenset()
    values = [
        one.value for conflict in handoff.conflicts if conflict.path == ("accepted_by",) for one in conflict.values
    ]
    return frozenset(str(msgspec.json.decode(value)) for value in values if value)


def handoffs(journal: Journal, *, with_closed: bool = False, recipient: str = "") -> list[Entity]:
    """Return the handoffs that are not closed, newest first; with ``recipient`` those for that agent and for anybody."""
    journal.refresh()
    states = ("open", "accepted", "closed")
    found = linked(journal, "handoff", "state", *states) if with_closed else open_entities(journal, "handoff")
    if recipient:
        found = [one for one in found if one.value.get("recipient", "") in ("", recipient)]
    return sorted(found, key=lambda one: (str(one.value.get("created")), one.item_id), reverse=True)


def _is_said(written: Written, value: Mapping[str, JSONValue]) -> bool:
    """Return True where an earlier record is of a handoff with the same content, or of the same session."""
    if written.item_type != "handoff":
        return False
    name = "trail" if value.get("trail") else "text"
    return has_fields(written.value, {name: value[name], "recipient": value.get("recipient")})


def _handoff(journal: Journal, reference: str) -> Entity:
    found = journal.find(reference)
    if found.item_type != "handoff":
        raise NotFoundError(
            f"{found.item_id} is a {found.item_type}, not a handoff", mend="See `periplus handoff list`."
        )
    return found


def _of_type(journal: Journal, reference: str, item_type: str) -> str:
    if not reference:
        return ""
    found = journal.find(reference)
    if found.item_type != item_type:
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a {item_type}")
    return found.item_id
