"""References of an entity as addresses of this page: evidence in trails, records and commits, and the code that it is about.

Texts come from anybody's records: they become part of an address only quoted, and nothing else than these addresses is linked.
"""

from __future__ import annotations

__all__ = [
    "OwnPage",
    "Reference",
    "about_of",
    "entity_address",
    "evidence_of",
    "own_page",
    "record_address",
    "symbol_address",
]

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from periplus.base.encoding.canonical import JSONValue
    from periplus.memory.code_anchors.anchors import Standing

REFERENCES_MAX: Final = 100
QUOTE_CHARACTERS_MAX: Final = 4_000
_TEXT_CHARACTERS_MAX: Final = 1_000  # a longer path or id is cut, and not linked
_CUT: Final = "… (cut)"
_COMMIT_DIGITS: Final = frozenset("0123456789abcdef")


class Reference(NamedTuple):
    """A reference of an entity. ``address`` is empty where no page shows it, ``note`` says how an anchor stands; ``command`` shows what
    no page does.
    """

    kind: str
    text: str
    address: str = ""
    quote: str = ""
    note: str = ""
    is_stale: bool = False
    command: str = ""


class OwnPage(NamedTuple):
    """The page that shows a type of entity better than the general one."""

    label: str
    address: str


def entity_address(item_id: str, **query: object) -> str:
    """Return the address of an entity of any type."""
    kept = {name: str(value) for name, value in query.items() if value}
    return f"/memory/{quote(item_id, safe='')}" + (f"?{urlencode(kept)}" if kept else "")


def record_address(seq: int, lineage: str = "") -> str:
    """Return the address of a record: of our own lineage, or of ``lineage``."""
    return f"/journal/{seq}" + (f"?{urlencode({'lineage': lineage})}" if lineage else "")


def symbol_address(path: str, name: str = "") -> str:
    """Return the address of a file of the project, or of a symbol in it."""
    return "/code/symbol?" + urlencode({"path": path, **({"name": name} if name else {})})


def own_page(item_type: str, item_id: str, value: dict[str, JSONValue]) -> OwnPage | None:
    """Return the page of its own that an entity has, if it has one."""
    of = {
        name: held
        for name in ("plan", "dispatch", "trail", "name")
        if isinstance(held := value.get(name), str) and held
    }
    trail, dispatch, plan = of.get("trail", ""), of.get("dispatch", ""), of.get("plan", "")
    if item_type == "plan":
        return OwnPage("Board of the plan", f"/work/plan/{quote(item_id, safe='')}")
    if item_type == "step" and is_id(plan):
        return OwnPage("Board of its plan", f"/work/plan/{quote(plan, safe='')}")
    if item_type == "dispatch":
        return OwnPage("Lanes of the dispatch", f"/work/dispatch/{quote(item_id, safe='')}")
    if item_type in ("assignment", "question") and is_id(dispatch):
        return OwnPage("Lanes of its dispatch", f"/work/dispatch/{quote(dispatch, safe='')}")
    if item_type == "trail":
        return OwnPage("The session, step by step", f"/sessions/{quote(item_id, safe='')}")
    if item_type in ("run", "session", "handoff") and is_id(trail):
        return OwnPage("Its session, step by step", f"/sessions/{quote(trail, safe='')}")
    if item_type == "context_ref" and of.get("name"):
        return OwnPage("Its graph of commits", f"/contexts/graph?{urlencode({'ref': of['name']})}")
    if item_type in ("claim", "handoff", "message", "question", "session", "agent"):
        return OwnPage("Work", "/work")
    return None


def evidence_of(value: Mapping[str, JSONValue]) -> tuple[Reference, ...]:
    """Return the evidence in a payload, each with the page that shows it."""
    found = []
    for item in _objects(value.get("evidence")):
        kind, ref, said = _text(item, "kind"), _text(item, "ref"), str(item.get("quote", ""))[:QUOTE_CHARACTERS_MAX]
        found.append(_linked(Reference(kind, ref, quote=said)))
    return tuple(found)


def about_of(value: Mapping[str, JSONValue], standings: Sequence[Standing] = ()) -> tuple[Reference, ...]:
    """Return what a payload is about; ``standings`` are its anchors in the working tree."""
    notes: dict[str, tuple[str, bool]] = {}
    for one in standings:
        if one.is_stale:
            notes[one.anchor.ref] = (one.state, True)
        elif one.state == "moved":
            notes[one.anchor.ref] = (f"moved to {one.path}{f':{one.start}' if one.start else ''}", False)
        else:
            notes[one.anchor.ref] = ("unchanged", False)
    found = []
    for item in _objects(value.get("about")):
        kind, ref = _text(item, "kind"), _text(item, "ref")
        note, is_stale = notes.get(ref, ("", False))
        address = ""
        if kind == "entity" and is_id(ref):
            address = entity_address(ref)
        elif kind in ("path", "range", "symbol") and ref and not ref.endswith(_CUT):
            path = _text(item, "path") or (ref if kind == "path" else ref.rpartition(":")[0] or ref)
            address = symbol_address(path, _text(item, "name"))
        found.append(Reference(kind, ref, address, note=note, is_stale=is_stale))
    return tuple(found)


def _linked(one: Reference) -> Reference:
    if one.text.endswith(_CUT):
        return one
    if one.kind == "step":
        trail, _, step = one.text.rpartition("#")
        if trail and step.isascii() and step.isdigit():
            return one._replace(address=f"/sessions/{quote(trail, safe='')}?{urlencode({'from': step})}")
    if one.kind == "record":
        lineage, _, seq = one.text.rpartition(":")
        if seq.isascii() and seq.isdigit():
            return one._replace(address=record_address(int(seq), lineage))
    if one.kind == "commit" and one.text and _COMMIT_DIGITS.issuperset(one.text):
        return one._replace(command=f"git show {one.text}")
    return one


def _text(item: dict[str, JSONValue], name: str) -> str:
    text = str(item.get(name) or "")
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[:_TEXT_CHARACTERS_MAX]}{_CUT}"


def _objects(value: JSONValue) -> list[dict[str, JSONValue]]:
    items = value if isinstance(value, list) else []
    return [item for item in items[:REFERENCES_MAX] if isinstance(item, dict)]
