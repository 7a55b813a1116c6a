"""History of one entity as differences by field, the newest record first."""

from __future__ import annotations

__all__ = ["Change", "FieldChange", "History", "Part", "history_of"]

import difflib
import re
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.memory.fields import label_of, value_text
from periplus.web.pages.memory.references import entity_address, record_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity, IndexedRecord
    from periplus.journal.history.versions import Versions
    from periplus.project import Project

RECORDS_A_PAGE: Final = 20
VALUE_CHARACTERS_MAX: Final = 4_000
FIELDS_MAX: Final = 60  # of one record
ELEMENTS_MAX: Final = 40  # of one list
ELEMENT_CHARACTERS_MAX: Final = 500
_WORDS_COMPARED_MAX: Final = 800
_LIKE_ENOUGH: Final = 0.3  # of difflib's ratio: below it two texts are shown one after the other
_UNTOLD: Final = frozenset({"updated", "v"})  # fields that every write changes
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


class Part(NamedTuple):
    """A piece of a changed text."""

    kind: Literal["same", "removed", "added"]
    text: str


class FieldChange(NamedTuple):
    """The change of a field. Elements of lists are given as ``removed`` and ``added``, all else as ``parts``."""

    name: str
    label: str
    kind: Literal["added", "removed", "changed"]
    parts: tuple[Part, ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


class Change(NamedTuple):
    """A record of the entity, and its changes; ``note`` says why there are none to show, ``is_first`` that it created the entity.
    ``lineage`` is empty for a record of this store.
    """

    seq: int
    lineage: str
    address: str
    at_address: str
    ts: str
    writer: str
    session: str
    action: str
    summary: str
    fields: tuple[FieldChange, ...]
    note: str = ""
    is_first: bool = False


class History(NamedTuple):
    """A page of the history; ``is_cut`` where older records are not here."""

    changes: tuple[Change, ...]
    total: int
    page: int
    pages: int
    is_cut: bool


def history_of(project: Project, entity: Entity, records: Sequence[IndexedRecord], page: int) -> History:
    """Return page ``page`` (from 1) of the history of an entity; ``records`` are all its records, the newest first."""
    from periplus.journal.history.versions import Versions

    pages = max(1, -(-len(records) // RECORDS_A_PAGE))
    page = min(page, pages)
    shown = records[(page - 1) * RECORDS_A_PAGE : page * RECORDS_A_PAGE]
    versions = Versions(project.journal, entity.item_type, entity.item_id, is_rest_enough=True) if shown else None
    own = project.journal.lineage
    changes = tuple(_change(one, own, versions) for one in shown if versions is not None)
    return History(
        changes, len(records), page, pages, bool(versions and versions.is_cut) or project.journal.index.has_floors
    )


def _change(record: IndexedRecord, own: str, versions: Versions) -> Change:
    is_own = record.lineage == own
    lineage = "" if is_own else record.lineage
    found, note = _fields(record, versions) if record.version else ((), "")
    at = (
        entity_address(record.item_id, at=record.seq) if is_own and record.version and record.action != "delete" else ""
    )
    return Change(
        record.seq, lineage, record_address(record.seq, lineage), at, record.ts, record.writer, record.session, record.action,
        record.summary, found, note, bool(record.version) and not record.parents,
    )  # fmt: skip


def _fields(record: IndexedRecord, versions: Versions) -> tuple[tuple[FieldChange, ...], str]:
    try:
        after = versions.fields(record.version)
        if not after and not versions.is_known(record.version):
            return (), "its content was redacted or cannot be read"
        if not record.parents:
            return tuple(_compared({}, after)), ""
        known = [one for one in record.parents if versions.is_known(one)]
        if not known:
            return (), "what it changed is not here: the version before it is missing or was redacted"
        before = versions.fields(known[0])
    except PeriplusError as error:
        return (), str(error)  # a damaged line: the other records are shown all the same, and Health reports it
    joins = f"joins {len(record.parents)} versions; compared with the first of them" if len(record.parents) > 1 else ""
    found = tuple(_compared(before, after))
    return found, joins or ("" if found else "no field changed")


def _compared(before: dict[str, bytes], after: dict[str, bytes]) -> list[FieldChange]:
    found: list[FieldChange] = []
    for name in [*after, *(one for one in before if one not in after)]:
        old, new = before.get(name), after.get(name)
        if old == new or name in _UNTOLD:
            continue
        if len(found) == FIELDS_MAX:
            found.append(FieldChange("", "More fields", "changed", added=("they are not shown",)))
            break
        found.append(_field_change(name, _decoded(old), _decoded(new), is_new=old is None, is_gone=new is None))
    return found


def _decoded(raw: bytes | None) -> JSONValue:
    if raw is None:
        return None
    try:
        value: JSONValue = msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a number that is too long: shown as it is written
        return raw.decode("utf-8", "replace")
    return value


def _field_change(name: str, old: JSONValue, new: JSONValue, *, is_new: bool, is_gone: bool) -> FieldChange:
    kind: Literal["added", "removed", "changed"] = "added" if is_new else "removed" if is_gone else "changed"
    label = label_of(name)
    if isinstance(old, list | None) and isinstance(new, list | None):
        removed, added = _elements(old or [], new or []), _elements(new or [], old or [])
        if removed or added:
            return FieldChange(name, label, kind, removed=removed, added=added)
    first, second = "" if is_new else value_text(old), "" if is_gone else value_text(new)
    return FieldChange(name, label, kind, tuple(_text_parts(first, second)))


def _elements(held: list[JSONValue], others: list[JSONValue]) -> tuple[str, ...]:
    """Return the elements of a list that another has not, as text."""
    there = {msgspec.json.encode(one) for one in others}
    found = [one for one in held if msgspec.json.encode(one) not in there]
    more = (f"… and {len(found) - ELEMENTS_MAX:,} more",) if len(found) > ELEMENTS_MAX else ()
    return (*(_cut(_element(one), ELEMENT_CHARACTERS_MAX) for one in found[:ELEMENTS_MAX]), *more)


def _element(item: JSONValue) -> str:
    """Return an element of a list as text: of an anchor or a reference only what people need."""
    if isinstance(item, dict):
        for name in ("ref", "target"):
            if isinstance(item.get(name), str):
                kind = item.get("kind")
                return f"{kind} {item[name]}" if isinstance(kind, str) and kind != "path" else str(item[name])
    return value_text(item)


def _text_parts(old: str, new: str) -> list[Part]:
    """Return the differences of two texts by words; two texts that share little are given one after the other."""
    before, after = _cut(old), _cut(new)
    first, second = _WORDS.findall(before), _WORDS.findall(after)
    if before and after and len(first) <= _WORDS_COMPARED_MAX and len(second) <= _WORDS_COMPARED_MAX:
        matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
        if matcher.ratio() >= _LIKE_ENOUGH:
            return _merged(matcher, first, second)
    whole: tuple[tuple[Literal["removed", "added"], str], ...] = (("removed", before), ("added", after))
    return [Part(kind, text) for kind, text in whole if text]


def _merged(matcher: difflib.SequenceMatcher[str], first: list[str], second: list[str]) -> list[Part]:
    parts: list[Part] = []
    for tag, low, high, start, end in matcher.get_opcodes():
        if tag == "equal":
            parts.append(Part("same", "".join(first[low:high])))
            continue
        if high > low:
            parts.append(Part("removed", "".join(first[low:high])))
        if end > start:
            parts.append(Part("added", "".join(second[start:end])))
    return parts


def _cut(text: str, most: int = VALUE_CHARACTERS_MAX) -> str:
    return text if len(text) <= most else f"{text[:most]}… (cut)"
