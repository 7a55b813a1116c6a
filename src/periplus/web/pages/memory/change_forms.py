"""Forms by which an entity is changed, as the table of entity types allows it. The functions behind them decide; a form is an offer."""

from __future__ import annotations

__all__ = ["Choice", "Forms", "Input", "changed_fields", "forms_of"]

from typing import TYPE_CHECKING, Final, Literal

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.memory.fields import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity
    from periplus.memory.entities.types import MemoryType
    from periplus.project import Project
    from periplus.web.pages.model import Form

RELATIONS: Final = ("supersedes", "contradicts", "caused", "resolves", "depends_on", "part_of", "references")
ACCEPTED_TYPES: Final = ("constraint", "decision", "lesson", "note", "trap")
_NUMBERS: Final = frozenset({"priority", "confidence", "place"})
_LINES: Final = frozenset({"about", "alternatives", "depends_on", "evidence"})  # lists, an element a line
_LONG: Final = frozenset({"text", "rationale", "remedy"})
_ORDER: Final = (
    "text",
    "rationale",
    "remedy",
    "alternatives",
    "severity",
    "check",
    "tags",
    "about",
    "evidence",
    "confidence",
    "expires",
)
INPUT_CHARACTERS_MAX: Final = 40_000  # a longer value, which no command of ours writes, is not offered for editing
_SEVERITIES: Final = ("low", "medium", "high", "critical")
_CLAIMED: Final = frozenset({"plan", "step", "claim"})
_HINTS: Final = {
    "about": "one a line: a file, lines (FILE:10-20), a symbol (FILE:NAME) or an id",
    "alternatives": "one a line",
    "confidence": "0 to 100",
    "depends_on": "one id a line",
    "evidence": "one a line: record:SEQ, step:TRAIL#N or commit:ID",
    "expires": "a date, or a time as 2026-01-31T09:30:00Z",
    "tags": "words with commas",
}


class Choice(NamedTuple):
    value: str
    label: str


class Input(NamedTuple):
    """An input of a form; ``choices`` are set for a list to choose from."""

    name: str
    label: str
    kind: Literal["line", "lines", "text", "number", "choice"]
    value: str
    hint: str = ""
    choices: tuple[Choice, ...] = ()


class Forms(NamedTuple):
    """What is offered for an entity: ``states`` that may follow, ``inputs`` of the fields that can be set."""

    version: str = ""
    is_candidate: bool = False
    can_reword: bool = False
    candidate_text: str = ""
    candidate_types: tuple[Choice, ...] = ()
    can_confirm: bool = False
    may_expire: bool = False
    states: tuple[Choice, ...] = ()
    may_force: bool = False
    can_evolve: bool = False
    text: str = ""
    inputs: tuple[Input, ...] = ()
    relations: tuple[Choice, ...] = ()

    @property
    def is_any(self) -> bool:
        return (
            self.is_candidate
            or self.can_confirm
            or self.can_evolve
            or bool(self.states or self.inputs or self.relations)
        )


def forms_of(project: Project, entity: Entity) -> Forms:
    """Return the forms for an entity in its present state."""
    from periplus.memory.entities.types import CANDIDATE, DISPATCHED, NOT_REMEMBERED, row_of, state_of

    row = row_of(project.types, entity.item_type)
    if row is None:
        return Forms()
    value = entity.value
    state = state_of(row.name, value, row.default_state)
    if row.name == CANDIDATE:
        return _candidate_forms(entity, state)
    is_ended = state in row.ended_states
    can_confirm = "about" in row.touchable and bool(row.stale_when) and not is_ended
    states = (
        ()
        if row.name in DISPATCHED
        else tuple(Choice(one, one) for one in sorted(row.transitions.get(state, frozenset())))
    )
    held = value.get("text")
    text = held if isinstance(held, str) else ""
    inputs = tuple(_input(row, name, value.get(name)) for name in _in_order(row.touchable - {"relations"}))
    return Forms(
        entity.version, can_confirm=can_confirm, may_expire=can_confirm and "expires" in row.touchable, states=states,
        may_force=row.name in _CLAIMED, can_evolve=row.name not in NOT_REMEMBERED and not is_ended, text=text if len(text) <= INPUT_CHARACTERS_MAX else "",
        inputs=tuple(one for one in inputs if len(one.value) <= INPUT_CHARACTERS_MAX),
        relations=tuple(Choice(one, one.replace("_", " ")) for one in RELATIONS) if "relations" in row.fields and row.touchable else (),
    )  # fmt: skip


def changed_fields(project: Project, entity: Entity, form: Form) -> dict[str, JSONValue]:
    """Return the fields that a posted form changes, as ``set`` takes them; None removes a field. Raises UsageError for a number that is
    none.
    """
    from periplus.memory.entities.types import row_of

    row = row_of(project.types, entity.item_type)
    touchable = row.touchable if row is not None else frozenset[str]()
    found: dict[str, JSONValue] = {}
    posted = dict(form.pairs)
    for name in _in_order(touchable - {"relations"}):
        said = posted.get(f"field.{name}")
        if said is None or said.strip() == _shown(name, entity.value.get(name)).strip():
            continue
        found[name] = _value(project, entity, name, said)
    return found


def _candidate_forms(entity: Entity, state: str) -> Forms:
    if state != "pending":
        return Forms()
    value = entity.value
    payload = value.get("payload")
    held = payload.get("text") if isinstance(payload, dict) else ""
    text, kind = held if isinstance(held, str) else "", str(value.get("item_type", ""))
    kinds = (kind, *(one for one in ACCEPTED_TYPES if one != kind))
    can_reword = kind in ACCEPTED_TYPES and len(text) <= INPUT_CHARACTERS_MAX  # a message is accepted unchanged
    return Forms(
        entity.version, is_candidate=True, can_reword=can_reword, candidate_text=text if can_reword else "",
        candidate_types=tuple(Choice(one, one) for one in kinds),
    )  # fmt: skip


def _input(row: MemoryType, name: str, held: JSONValue) -> Input:
    value, hint = _shown(name, held), _HINTS.get(name, "")
    if name == "severity":
        return Input(
            name, label_of(name), "choice", value or "medium", choices=tuple(Choice(one, one) for one in _SEVERITIES)
        )
    if name in row.own:
        return Input(
            name, label_of(name), "line" if held is None or isinstance(held, str | int | float) else "text", value, hint
        )
    kind: Literal["number", "lines", "text", "line"] = (
        "number" if name in _NUMBERS else "lines" if name in _LINES else "text" if name in _LONG else "line"
    )
    return Input(name, label_of(name), kind, value, hint)


def _in_order(names: frozenset[str]) -> list[str]:
    return [name for name in _ORDER if name in names] + sorted(names.difference(_ORDER))


def _shown(name: str, held: JSONValue) -> str:
    """Return a field as its input shows it."""
    if held is None:
        return "100" if name == "confidence" else ""
    if isinstance(held, list) and (name in _LINES or name == "tags"):
        items = [_element(name, one) for one in held]
        return ", ".join(items) if name == "tags" else "\n".join(items)
    if isinstance(held, str):
        return held.replace("\r\n", "\n").replace("\r", "\n")  # as a browser sends it back
    from periplus.web.pages.memory.fields import value_text

    return value_text(held)


def _element(name: str, item: JSONValue) -> str:
    if not isinstance(item, dict):
        return str(item)
    ref = str(item.get("ref", ""))
    return f"{item.get('kind', '')}:{ref}" if name == "evidence" else ref


def _value(project: Project, entity: Entity, name: str, said: str) -> JSONValue:
    text = said.strip()
    if not text and name != "text":  # an empty text is refused by the rule of its type
        return None
    if name in _NUMBERS:
        if not text.removeprefix("-").isdecimal() or len(text) > 9:
            raise UsageError(f"{name} is a whole number, not {text[:60]!r}", safe="Nothing was written.")
        return int(text)
    if name == "tags":
        return [word.strip() for word in text.split(",") if word.strip()]
    if name == "expires":
        return _time(name, text)
    if name not in _LINES:
        return text
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if name == "evidence":
        return [_evidence(entity.value, line) for line in lines]
    if name == "about" and entity.item_type == "step":
        return [project.work.scope(line) for line in lines]
    return [*lines]


def _evidence(value: Mapping[str, JSONValue], line: str) -> JSONValue:
    """Return an element of the evidence: with its quote where it stood there before."""
    held = value.get("evidence")
    for one in held if isinstance(held, list) else ():
        if isinstance(one, dict) and _element("evidence", one) == line:
            return one
    kind, found, ref = line.partition(":")
    if not found or kind not in ("record", "step", "commit") or not ref:
        raise UsageError(
            f"{line[:80]!r} is not evidence",
            safe="Nothing was written.",
            mend="Write record:SEQ, step:TRAIL#N or commit:ID.",
        )
    return {"kind": kind, "ref": ref}


def _time(name: str, text: str) -> str:
    from periplus.base.clock import format_ms, parse_ms

    found = parse_ms(text)
    if found is None:
        raise UsageError(f"{name} {text[:60]!r} is not a time", safe="Nothing was written.",
                         mend="Write a date like 2026-01-31, or a time like 2026-01-31T09:30:00Z.")  # fmt: skip
    return format_ms(found)
