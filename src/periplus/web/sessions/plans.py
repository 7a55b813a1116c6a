"""Plans that agents write as JSON: a list of steps with a state, by the names that agents use."""

from __future__ import annotations

__all__ = ["DONE", "plan_steps", "pretty_json"]

import json
from collections.abc import Mapping
from typing import Final

from periplus.web.sessions.values import PlanStep

DONE: Final = frozenset({"completed", "complete", "done"})
STEPS_MAX: Final = 200
_TEXTS: Final = ("content", "step", "text", "title", "description", "task", "subject", "name")
_STATES: Final = ("status", "state")
_TEXT_CHARACTERS_MAX: Final = 500
_STATE_CHARACTERS_MAX: Final = 40
_CHARACTERS_MAX: Final = 200_000


def plan_steps(text: str) -> tuple[PlanStep, ...]:
    """Return the steps of a plan; nothing where the text has another form."""
    if len(text) > _CHARACTERS_MAX:
        return ()
    try:
        plan: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if isinstance(plan, dict):
        plan = next((value for value in plan.values() if isinstance(value, list)), None)
    if not isinstance(plan, list) or not 0 < len(plan) <= STEPS_MAX:
        return ()
    steps = [_step(one) for one in plan]
    known = [step for step in steps if step is not None]
    return tuple(known) if len(known) == len(steps) else ()


def _step(one: object) -> PlanStep | None:
    if not isinstance(one, dict):
        return None
    text, state = _first(one, _TEXTS), _first(one, _STATES)
    return PlanStep(text[:_TEXT_CHARACTERS_MAX], state[:_STATE_CHARACTERS_MAX]) if text else None


def _first(one: Mapping[object, object], names: tuple[str, ...]) -> str:
    found = (one.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")


def pretty_json(text: str) -> str:
    """Return JSON with one value a line; another text as it is."""
    if len(text) > _CHARACTERS_MAX:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
