"""Entities of dispatches as typed values.

A record that another version wrote, or a merge of clones that left two values in one field, may not fit the schema. Reports show such
an entity too, with the fields that fit.
"""

from __future__ import annotations

__all__ = ["assignment_of", "dispatch_of", "mark_of", "numbered", "question_of", "total_tokens"]

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.process.process_marks import ProcessMark
from periplus.memory.entities.schemas import Assignment, Attempt, Dispatch, Process, Question

_REQUIRED: Final = ("dispatch",)  # of an assignment
_Kind = TypeVar("_Kind", Dispatch, Assignment, Question)


def dispatch_of(value: Mapping[str, JSONValue]) -> Dispatch:
    return _read(value, Dispatch)


def assignment_of(value: Mapping[str, JSONValue]) -> Assignment:
    return _read({"dispatch": "", **value}, Assignment)


def question_of(value: Mapping[str, JSONValue]) -> Question:
    return _read(value, Question)


def mark_of(process: Process | None) -> ProcessMark | None:
    """Return the mark of a process as `base.process.process_marks` compares it."""
    if process is None:
        return None
    return ProcessMark(process.pid, process.started, process.boot, process.host, process.space)


def total_tokens(one: Assignment | Attempt) -> int:
    """Return the tokens sent and received; those read from a cache were sent too."""
    return one.tokens_in + one.cached + one.out


def numbered(value: Mapping[str, JSONValue], name: str) -> int:
    """Return a whole number of a payload, 0 where it is none."""
    found = value.get(name, 0)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _read(value: Mapping[str, JSONValue], kind: type[_Kind]) -> _Kind:
    given: dict[str, Any] = {"text": "", **value}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        pass
    fitting: dict[str, Any] = {"text": str(given["text"])} | {
        name: "" for name in _REQUIRED if name in kind.__struct_fields__
    }
    found = msgspec.convert(fitting, kind)
    for name in set(given) & set(kind.__struct_fields__):
        try:
            found = msgspec.convert({**fitting, name: given[name]}, kind)
        except msgspec.ValidationError:
            continue
        fitting[name] = given[name]
    return found
