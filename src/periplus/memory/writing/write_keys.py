"""Recognise a repeated write by its key, and check that it asks for what was written the first time.

The records of the first write say what it was, whatever became of the entities since. A key under which something
else was written is refused, and nothing is written: a caller that is told of success would never learn that its write
was lost.
"""

from __future__ import annotations

__all__ = ["Written", "as_written", "check_repeated", "has_fields", "texts_of"]

from collections.abc import Callable, Mapping, Sequence

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Receipt
from periplus.journal.index.receipt import key_used, payload_of, records_of


class Written(NamedTuple):
    """The entity of a record of the first write, and its content; empty for a deletion."""

    item_type: str
    item_id: str
    value: Mapping[str, JSONValue]
    action: str = ""
    summary: str = ""


def check_repeated(journal: Journal, receipt: Receipt, is_same: Callable[[Sequence[Written]], bool]) -> None:
    """Raise ConflictError where ``receipt`` is of an earlier write and ``is_same`` returns False for its records. A
    redacted record counts as the same, for nobody can compare it.
    """
    if not receipt.repeated:
        return
    records = records_of(journal, receipt)
    if any(record.is_stub for record in records):
        return
    written = []
    for record in records:
        payload = payload_of(journal, record) if record.item_id else b""
        value = msgspec.json.decode(payload) if payload else {}
        if record.item_id:
            written.append(Written(record.item_type, record.item_id, value, record.action, record.summary))
    if not written or not is_same(written):
        raise key_used(receipt)


def as_written(journal: Journal, receipt: Receipt, item_type: str, item_id: str) -> Entity:
    """Return the entity as it is now, or where it was deleted since, as it was when ``receipt`` was written."""
    found = journal.get(item_type, item_id)
    if found is not None:
        return found
    from periplus.journal.history.versions import entity_at

    return entity_at(journal, item_type, item_id, receipt.last_seq, receipt.lineage)


def has_fields(value: Mapping[str, JSONValue], fields: Mapping[str, JSONValue]) -> bool:
    """Return True where ``value`` has what ``fields`` ask for; None asks that a field is absent. Anchors are compared
    by their target.
    """
    return all(
        name not in value if asked is None else name in value and _plain(name, value[name]) == _plain(name, asked)
        for name, asked in fields.items()
    )


def texts_of(written: Sequence[Written], item_type: str) -> list[JSONValue]:
    return [one.value.get("text") for one in written if one.item_type == item_type]


def _plain(name: str, value: JSONValue) -> bytes:
    if name == "about" and isinstance(value, list | tuple):
        value = [one.get("ref") if isinstance(one, dict) else one for one in value]
    return canonical(list(value) if isinstance(value, tuple) else value)
