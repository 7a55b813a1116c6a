"""Guard dispatched work when records are undone: what belongs together stays possible together.

The rules are those under which the records were written: an assignment is at work only for an open dispatch, on an open step,
under a claim that is held, and no other one is at work on that step; one dispatch does a plan; an open question has somebody who waits. Two
things cannot be taken back by a record: what a living supervisor does meanwhile, and a merge into a branch.
"""

from __future__ import annotations

__all__ = ["dispatched_in_the_way"]

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from periplus.base.encoding.canonical import JSONValue
from periplus.journal import Entity, Journal
from periplus.memory.coordination.assignments import OPEN_STATES
from periplus.memory.coordination.dispatch_overview import supervisor_of
from periplus.memory.entities.types import is_ended, state_of
from periplus.memory.fulltext.links import linked

_Key: TypeAlias = tuple[str, str]
_Content: TypeAlias = Mapping[str, JSONValue] | None
_JUDGED: Final = frozenset({"assignment", "claim", "dispatch", "question", "step"})
_CARRIED: Final = frozenset({"assignment", "dispatch"})  # changed by the supervisor alone


def dispatched_in_the_way(journal: Journal, would: Mapping[_Key, _Content]) -> dict[_Key, str]:
    """Return the entities of dispatched work, by type and id, that may not become what they would, and the reasons. ``would``
    has all entities as they would become.
    """
    if all(key[0] not in _JUDGED for key in would):
        return {}
    rules = _Rules(journal, would)
    found = {}
    for key, content in sorted(would.items(), key=lambda item: item[0]):
        why = next(rules.against(key, content), "") if key[0] in _JUDGED else ""
        if why:
            found[key] = why
    return found


class _Rules:
    def __init__(self, journal: Journal, would: Mapping[_Key, _Content]) -> None:
        self._journal = journal
        self._would = would

    def against(self, key: _Key, content: _Content) -> Iterator[str]:
        """Yield the reasons against the content of an entity."""
        now = self._journal.as_read(*key)
        if key[0] in _CARRIED:
            yield from self._carried(key, now)
        if key[0] == "dispatch":
            yield from self._dispatch(key[1], content)
        elif key[0] == "assignment":
            yield from self._assignment(key[1], content, now)
        elif key[0] == "question":
            yield from self._question(key[1], content, now)
        elif key[0] == "step":
            yield from self._step(key[1])
        elif content is not None or now is not None:
            yield from self._claim(key[1], content, now)

    def _then(self, item_type: str, item_id: str) -> _Content:
        """Return an entity as it would become; None where it would not be there."""
        if (item_type, item_id) in self._would:
            return self._would[item_type, item_id]
        held = self._journal.as_read(item_type, item_id) if item_id else None
        return held.value if held is not None else None

    def _state(self, item_type: str, item_id: str) -> str:
        """Return the state that an entity would have; empty where it would not be there."""
        content = self._then(item_type, item_id)
        return state_of(item_type, content) if content is not None else ""

    def _others(self, item_type: str, field: str, value: str) -> set[str]:
        """Return the ids of the entities whose ``field`` is ``value`` now or would be."""
        found = {one.item_id for one in linked(self._journal, item_type, field, value)}
        found |= {key[1] for key, one in self._would.items() if key[0] == item_type and one and one.get(field) == value}
        return {one for one in found if (self._then(item_type, one) or {}).get(field) == value}

    def _carried(self, key: _Key, now: Entity | None) -> Iterator[str]:
        dispatch_id = key[1] if key[0] == "dispatch" else str(now.value.get("dispatch", "")) if now is not None else ""
        dispatch = self._journal.as_read("dispatch", dispatch_id) if dispatch_id else None
        if dispatch is None or dispatch.value.get("state") != "open":
            return
        supervisor = supervisor_of(self._journal, dispatch)
        if supervisor != "gone":
            where = "" if supervisor == "alive" else " elsewhere"
            yield f"{dispatch_id} is carried{where} by its supervisor; first: periplus dispatch stop {dispatch_id}"

    def _dispatch(self, item_id: str, content: _Content) -> Iterator[str]:
        state = state_of("dispatch", content) if content is not None else ""
        for one in sorted(self._others("assignment", "dispatch", item_id)):
            if content is None:
                yield f"{one} belongs to it, and stays"
            elif state != "open" and self._state("assignment", one) in OPEN_STATES:
                yield f"{one} would be at work for a dispatch that is {state}"
        if state == "open" and content is not None:
            for one in sorted(self._others("dispatch", "plan", str(content.get("plan", ""))) - {item_id}):
                if self._state("dispatch", one) == "open":
                    yield f"{one} does the plan already"

    def _assignment(self, item_id: str, content: _Content, now: Entity | None) -> Iterator[str]:
        value = content if content is not None else now.value if now is not None else {}
        step, claim = str(value.get("step", "")), str(value.get("claim", ""))
        state = state_of("assignment", content) if content is not None else ""
        if now is not None and now.value.get("state") == "integrated" and state != "integrated":
            yield f"its work is merged as {str(now.value.get('merged', ''))[:12]}, which stays in the branch: revert it there"
        if state in OPEN_STATES:
            yield from self._at_work(item_id, value, step, claim)
        elif claim and self._state("claim", claim) == "held":
            yield f"its claim {claim} would stay held"
        for one in sorted(self._others("question", "assignment", item_id)) if state != "waiting" else ():
            if self._state("question", one) == "open":
                yield f"its question {one} would stay open"

    def _at_work(self, item_id: str, value: Mapping[str, JSONValue], step: str, claim: str) -> Iterator[str]:
        dispatch = str(value.get("dispatch", ""))
        if self._state("dispatch", dispatch) != "open":
            yield f"it would be at work, and its dispatch {dispatch} is {self._state('dispatch', dispatch) or 'gone'}"
        if self._state("claim", claim) != "held":
            yield f"it would be at work, and its claim {claim} is {self._state('claim', claim) or 'gone'}"
        if self._is_idle(step):
            yield f"it would be at work, and its step {step} is {self._state('step', step) or 'gone'}"
        for one in sorted(self._others("assignment", "step", step) - {item_id}):
            if self._state("assignment", one) in OPEN_STATES:
                yield f"{one} is at work on the step"

    def _is_idle(self, step: str) -> bool:
        """Return True for a step that nobody can be at work on: one that is gone, has ended, or is to do."""
        state = self._state("step", step)
        return state in ("", "todo") or is_ended("step", state)

    def _step(self, item_id: str) -> Iterator[str]:
        if self._is_idle(item_id):
            for one in sorted(self._others("assignment", "step", item_id)):
                if self._state("assignment", one) in OPEN_STATES:
                    yield f"{one} is at work on it"

    def _claim(self, item_id: str, content: _Content, now: Entity | None) -> Iterator[str]:
        value = content if content is not None else now.value if now is not None else {}
        step = str(value.get("step", ""))
        is_held = content is not None and state_of("claim", content) == "held"
        for one in sorted(self._others("assignment", "step", step)) if step else ():
            then = self._then("assignment", one) or {}
            if then.get("claim") == item_id and is_held != (then.get("state") in OPEN_STATES):
                yield f"it is the claim of {one}, which is {then.get('state')}"

    def _question(self, item_id: str, content: _Content, now: Entity | None) -> Iterator[str]:
        value = content if content is not None else now.value if now is not None else {}
        assignment = str(value.get("assignment", ""))
        state = self._state("assignment", assignment) if assignment else ""
        if content is None:
            others = self._others("question", "assignment", assignment) - {item_id} if assignment else set()
            if state == "waiting" and not any(self._state("question", one) == "open" for one in others):
                yield f"{assignment} would wait for no answer"
        elif state_of("question", content) == "open" and assignment and state != "waiting":
            yield f"{assignment} went on and does not wait for it"
