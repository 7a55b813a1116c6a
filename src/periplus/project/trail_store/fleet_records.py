"""Records of the fleet's steps in a live run: each writes its memory in the batch of the step itself.

A bottle is a message; trust, level, permission and room are facts about an agent, kept in its entity, whose versions
are their history; a spell is an observation of a skill. Only steps that took effect come here, and no imported ones.
"""

from __future__ import annotations

__all__ = ["fleet_observers"]

from collections.abc import Callable
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.ids import derived_id
from periplus.journal import Transaction
from periplus.memory.entities.types import TEXT_CHARACTERS_MAX
from periplus.trail.model import OperandValue, TextObject
from periplus.trail.opcodes import BY_NAME
from periplus.trail.recording.recorder import Observed, Observer

_TRUST_MAX: Final = 2**53 - 1
_CAPABILITIES_MAX: Final = 1_000


def fleet_observers() -> dict[int, Observer]:
    """Return the observers by the code of their step."""
    table: dict[str, Observer] = {
        "BOTTLE_DROP": _bottle,
        "SPELL_CAST": _spell,
        "ROOM_ENTER": _about_agent(_room),
        "TRUST_UPDATE": _about_agent(_trust),
        "CAP_ISSUE": _about_agent(_capability),
        "LEVEL_UP": _about_agent(_level),
    }
    return {BY_NAME[name].code: observer for name, observer in table.items()}


def _bottle(transaction: Transaction, seen: Observed) -> None:
    target, content = seen.step.operands[:2]
    text, digest = _text(content)
    payload: dict[str, JSONValue] = {
        "v": 1,
        "state": "sent",
        "sender": seen.run.facts.agent,
        "recipient": _text(target)[0],
        "text": text,
        "created": format_ms(seen.now_ms),
        **_where(seen),
    }
    if digest:
        payload["object"] = digest
    if seen.run.session:
        payload["session"] = seen.run.session
    item_id = derived_id("msg", seen.run.id, str(seen.place))
    transaction.put("message", item_id, payload, summary=f"message to {payload['recipient']}: {text}")


def _spell(transaction: Transaction, seen: Observed) -> None:
    spell = _text(seen.step.operands[0])[0]
    payload: dict[str, JSONValue] = {
        "v": 1,
        "event": "invoked",
        "skill": spell,
        "agent": seen.run.facts.agent,
        **_where(seen),
    }
    transaction.observe(payload, item_type="skill", item_id=derived_id("skl", spell), summary=f"skill invoked: {spell}")


def _about_agent(change: Callable[[dict[str, JSONValue], Observed], tuple[str, str]]) -> Observer:
    """Return an observer that changes the entity of an agent; ``change`` names the agent and describes the change."""

    def observe(transaction: Transaction, seen: Observed) -> None:
        changes: dict[str, JSONValue] = {}
        name, _ = change(changes, seen)  # the owner has to be known before the content
        item_id = derived_id("agt", name)
        held = transaction.get("agent", item_id)
        now = format_ms(seen.now_ms)
        fresh: dict[str, JSONValue] = {"v": 1, "state": "active", "name": name, "created": now}
        payload = dict(held.value) if held is not None and not held.deleted else fresh
        _, what = change(payload, seen)
        payload.update({"updated": now, **_where(seen)})
        transaction.put("agent", item_id, payload, summary=f"agent {name}: {what}")

    return observe


def _trust(payload: dict[str, JSONValue], seen: Observed) -> tuple[str, str]:
    target, delta = seen.step.operands[:2]
    held = payload.get("trust", 0)
    assert isinstance(delta, int), "the recorder checked the kinds of the operands"
    trust = (held if isinstance(held, int) else 0) + delta
    payload["trust"] = max(-_TRUST_MAX, min(_TRUST_MAX, trust))
    return _text(target)[0], f"trust {delta:+d}"


def _level(payload: dict[str, JSONValue], seen: Observed) -> tuple[str, str]:
    level = seen.step.operands[0]
    assert isinstance(level, int), "the recorder checked the kinds of the operands"
    payload["level"] = min(level, _TRUST_MAX)
    return seen.run.facts.agent, f"level {level}"


def _room(payload: dict[str, JSONValue], seen: Observed) -> tuple[str, str]:
    room = _text(seen.step.operands[0])[0]
    payload["room"] = room
    return seen.run.facts.agent, f"entered {room}"


def _capability(payload: dict[str, JSONValue], seen: Observed) -> tuple[str, str]:
    action, holder = (_text(value)[0] for value in seen.step.operands[:2])
    held = payload.get("capabilities", [])
    known: list[JSONValue] = [one for one in held if isinstance(one, str)] if isinstance(held, list) else []
    payload["capabilities"] = [*known, *([action] if action not in known else [])][-_CAPABILITIES_MAX:]
    return holder, f"may {action}"


def _where(seen: Observed) -> dict[str, JSONValue]:
    return {"run": seen.run.id, "step": seen.place}


def _text(value: OperandValue) -> tuple[str, str]:
    """Return the text that memory keeps of an operand, and the name of the object where it is longer."""
    if isinstance(value, TextObject):
        return f"[{value.length:,} bytes]", value.sha256.hex()
    assert isinstance(value, str), "the recorder checked the kinds of the operands"
    return value[:TEXT_CHARACTERS_MAX], ""
