"""Fields of an entity as text: a form for every type, known or not, bounded whatever a record holds."""

from __future__ import annotations

__all__ = ["Field", "fields_of", "label_of", "line_of", "text_of", "value_text"]

import json
from typing import TYPE_CHECKING, Final, Literal

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.memory.references import entity_address, record_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal.history.versions import Blamed

FIELD_CHARACTERS_MAX: Final = 20_000
FIELDS_MAX: Final = 200
ITEMS_MAX: Final = 100
ITEM_CHARACTERS_MAX: Final = 2_000
_LINE_CHARACTERS: Final = 160
_PLAIN_TEXTS: Final = 3
_ELSEWHERE: Final = frozenset(
    {"v", "text", "about", "evidence", "relations", "state", "tags", "updated"}
)  # shown in places of their own
_LABELS: Final = {
    "about": "About", "accepted_as": "Accepted as", "accepted_by": "Accepted by", "agent_id": "Id of the agent", "depends_on": "Depends on",
    "item_id": "Id there", "item_type": "Type", "session_id": "Id of the session", "source_lineage": "Lineage there",
    "source_store": "From the project",
}  # fmt: skip
_OTHERS: Final = frozenset({"lin", "who"})  # prefixes of ids that are no entities
_TIMES: Final = frozenset({"confirmed", "created", "ended", "expires", "seen", "started", "updated"})
_COMMANDS: Final = frozenset({"check", "tests"})


class Field(NamedTuple):
    """A field. ``items`` is set for a list of texts, ``address`` for an id; ``set_by``, ``set_at``, ``record`` and ``record_address``
    say where its present value comes from, as ``periplus blame`` does; ``cut`` counts the characters that are not shown.
    """

    name: str
    label: str
    kind: Literal["text", "items", "id", "time", "command", "json"]
    text: str
    items: tuple[str, ...] = ()
    address: str = ""
    set_by: str = ""
    set_at: str = ""
    record: int = 0
    record_address: str = ""
    is_certain: bool = True
    cut: int = 0


def fields_of(
    value: Mapping[str, JSONValue], blamed: Sequence[Blamed] = (), own_lineage: str = ""
) -> tuple[Field, ...]:
    """Return the fields that the page of an entity shows in its table, in the order of the payload."""
    origins = {one.name: one for one in blamed}
    found = []
    for name, held in list(value.items())[:FIELDS_MAX]:
        if name in _ELSEWHERE or held in ("", [], {}, None):
            continue
        found.append(_with_origin(_field(name, held), origins.get(name), own_lineage))
    return tuple(found)


def label_of(name: str) -> str:
    """Return the name of a field for people."""
    return _LABELS.get(name) or name.replace("_", " ").capitalize()


def text_of(value: Mapping[str, JSONValue], item_id: str = "") -> str:
    """Return the text that stands for an entity: its own, or its title or name."""
    for name in ("text", "title", "name", "description", "summary"):
        held = value.get(name)
        if isinstance(held, str) and held.strip():
            return held
    payload = value.get("payload")
    if isinstance(payload, dict) and isinstance(payload.get("text"), str):
        return str(payload["text"])
    return item_id


def line_of(text: str, most: int = _LINE_CHARACTERS) -> str:
    """Return a text in one line of at most ``most`` characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def value_text(held: JSONValue) -> str:
    """Return a value as text: a text itself, an object of few texts as these, anything else as JSON."""
    if (
        isinstance(held, dict)
        and 0 < len(held) <= _PLAIN_TEXTS
        and all(isinstance(one, str) and one for one in held.values())
    ):
        return " ".join(map(str, held.values()))
    return held if isinstance(held, str) else json.dumps(held, ensure_ascii=False, indent=1)


def _field(name: str, held: JSONValue) -> Field:
    from periplus.base.ids import is_id

    label = label_of(name)
    if isinstance(held, list) and all(isinstance(item, str) for item in held):
        items = tuple(line_of(str(item), ITEM_CHARACTERS_MAX) for item in held[:ITEMS_MAX])
        more = f"… {len(held) - ITEMS_MAX:,} more" if len(held) > ITEMS_MAX else ""
        return Field(name, label, "items", more, items)
    text = value_text(held)
    cut = max(0, len(text) - FIELD_CHARACTERS_MAX)
    text = text[:FIELD_CHARACTERS_MAX]
    if not isinstance(held, str):
        return Field(name, label, "text" if isinstance(held, int | float | bool) else "json", text, cut=cut)
    if is_id(held) and name != "item_id" and held.rpartition("_")[0] not in _OTHERS:  # that one is of another project
        return Field(name, label, "id", text, address=entity_address(held))
    kind: Literal["time", "command", "text"] = "time" if name in _TIMES else "command" if name in _COMMANDS else "text"
    return Field(name, label, kind, text, cut=cut)


def _with_origin(field: Field, blamed: Blamed | None, own_lineage: str) -> Field:
    if blamed is None or not blamed.origins:
        return field
    origin = blamed.origins[-1]
    record = origin.record
    lineage = "" if record.lineage == own_lineage else record.lineage
    return field._replace(
        set_by=record.writer, set_at=record.ts, record=record.seq, record_address=record_address(record.seq, lineage),
        is_certain=origin.is_certain and len(blamed.origins) == 1,
    )  # fmt: skip
