"""Steps of a plan in its version 1 file: separate entities here, elements of a list there. Pure.

An element is an object with a text, or a text; it is identified by its id, or by its place. An element that fits no
step of ours stays as it is among the plan's other fields.
"""

from __future__ import annotations

__all__ = ["STEPS", "StepRead", "plan_waits_for", "read_steps", "write_steps"]

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import PeriplusError
from periplus.base.ids import derived_id, is_id
from periplus.interop.version1.fields import ID_KEYS, Frame, Read, changed, named, read_fields, state_stated, waits_for
from periplus.journal import EntityType
from periplus.memory import memory_types
from periplus.memory.coordination.plans import STEPS_MAX

STEPS: Final = "steps"
_PREFIX: Final = "stp"
_IMPLIED: Final = frozenset({"v", "plan", "place", "provenance"})


class StepRead(NamedTuple):
    """The element at ``at`` and its step."""

    at: int
    item_id: str
    document: dict[str, Any]
    read: Read
    frame: Frame
    payload: dict[str, JSONValue]


def read_steps(document: dict[str, Any], plan: Frame, plan_id: str) -> list[StepRead]:
    """Return the elements that are steps of the plan ``plan_id``, by place."""
    raw = document.get(STEPS)
    if not isinstance(raw, list) or len(raw) > STEPS_MAX:
        return []
    elements = [(index, *_named(element, index)) for index, element in enumerate(raw)]
    ids = {old_id: _own_id(plan.old_id, old_id) for _, old_id, _ in reversed(elements) if old_id}
    names = {**plan.names, **{str(index + 1): ids[old_id] for index, old_id, _ in elements if old_id}, **ids}
    found: list[StepRead] = []
    taken: set[str] = set()
    for index, old_id, element in elements:
        item_id = ids.get(old_id, "")
        if element is None or not item_id or item_id in taken:
            continue
        step = _read(element, index, item_id, old_id, plan, plan_id, names)
        if step is not None:
            taken.add(item_id)
            found.append(step)
            plan.used.update({label: one for label, one in step.frame.used.items() if label in plan.names})
    return found


def plan_waits_for(document: dict[str, Any]) -> list[str]:
    """Return the dependencies of a plan and its steps, as the file names them."""
    raw = document.get(STEPS)
    elements = [one for one in raw if isinstance(one, dict)] if isinstance(raw, list) else []
    return [name for one in (document, *elements[:STEPS_MAX]) for name in waits_for(one)]


def write_steps(
    document: dict[str, Any], result: dict[str, Any], plan: Frame, plan_id: str,
    held: Mapping[str, Mapping[str, JSONValue] | None],
) -> dict[str, Any]:  # fmt: skip
    """Return ``result`` with the differences between the steps of ``document`` and the ``held`` ones, None for a
    deleted one.
    """
    raw = document.get(STEPS, [])
    if not isinstance(raw, list):
        return result
    steps = {step.at: step for step in read_steps(document, plan, plan_id)}
    written: list[Any] = []
    for index, element in enumerate(raw):
        step = steps.get(index)
        if step is None or step.item_id not in held:
            written.append(element)
            continue
        payload = held[step.item_id]
        if payload is None:
            continue
        now = changed(step.document, step.read, payload, step.frame)
        written.append(element if now == step.document else now)
    known = {step.item_id for step in steps.values()}
    made = [
        (_place(payload), item_id, payload) for item_id, payload in held.items() if payload and item_id not in known
    ]
    written += [
        _new_element(document, item_id, payload, plan)
        for _, item_id, payload in sorted(made, key=lambda one: (one[0], one[1]))
    ]
    return result if written == raw else {**result, STEPS: written}


def _named(element: Any, index: int) -> tuple[str, dict[str, Any] | None]:
    """Return old id and object of an element; None for other values than objects and texts."""
    if isinstance(element, str):
        return f"#{index + 1}", {"text": element}
    if not isinstance(element, dict):
        return "", None
    return named(element, ID_KEYS) or f"#{index + 1}", element


def _own_id(plan: str, old_id: str) -> str:
    if is_id(old_id) and old_id.startswith(f"{_PREFIX}_"):
        return old_id
    return derived_id(_PREFIX, "v1", "step", plan, old_id)


def _read(
    element: dict[str, Any], index: int, item_id: str, old_id: str, plan: Frame, plan_id: str, names: Mapping[str, str]
) -> StepRead | None:
    absent = plan.absent - names.keys()
    frame = Frame("step", "step", plan.path, old_id, plan.reading, names, absent=absent)
    read = read_fields(element, frame)
    if "state" not in read.keys and state_stated(element, frame):
        return None
    values = {"place": index + 1, **read.values, "plan": plan_id}
    payload: dict[str, JSONValue] = {"v": 1, **values, "v1": {"id": old_id, "type": "step", "path": plan.path}}
    if read.fields:
        payload["fields"] = read.fields
    try:
        _types()["step"].admit(payload)
        canonical(payload)
    except PeriplusError:
        return None
    return StepRead(index, item_id, element, Read(values, read.keys, read.fields), frame, payload)


@cache
def _types() -> dict[str, EntityType]:
    return memory_types(allow_secrets=True)  # the plan's own text contains them and is checked for secrets


def _place(payload: Mapping[str, JSONValue]) -> int:
    place = payload.get("place")
    return place if isinstance(place, int) else 0


def _new_element(
    document: dict[str, Any], item_id: str, payload: Mapping[str, JSONValue], plan: Frame
) -> dict[str, Any]:
    """Return a step that was added here, in the spelling of the plan's file."""
    frame = Frame("step", "step", plan.path, item_id, plan.reading, plan.names)
    values = {name: value for name, value in payload.items() if name not in _IMPLIED}
    base: dict[str, Any] = {"id": item_id, "text": values.get("text", "")}
    read = Read({"text": base["text"]}, {"text": "text"}, {})
    if "created_at" in document and "created" in values:
        base["created_at"] = values["created"]
        read.values["created"], read.keys["created"] = values["created"], "created_at"
    return changed(base, read, values, frame)
