"""One record of the journal, decoded, with its line, its place and its neighbours."""

from __future__ import annotations

__all__ = ["RecordPage", "record"]

from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import DamageError, NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import decode_line
from periplus.web.pages.journal.records import RecordRow, lineage_of, record_address, row_of
from periplus.web.pages.model import Asked, View
from periplus.web.rendering.json_text import json_markup

if TYPE_CHECKING:
    from markupsafe import Markup

    from periplus.journal import IndexedRecord
    from periplus.project import Project

_PAYLOAD_FIELD: Final = "payload"
_BATCH_SHOWN_MAX: Final = 20


class Linked(NamedTuple):
    """Another record by what it is called here; without an address where it is not held."""

    text: str
    address: str


class RecordPage(NamedTuple):
    """A record. ``line`` is the line without its payload, ``payload`` what the entity became; ``cut`` counts what is not shown of it.

    ``is_stub``: its content was removed. ``payload_problem`` says why a payload cannot be shown.
    """

    row: RecordRow
    lineage: str
    is_own: bool
    leaf: str
    version: str
    rev: int
    key: str
    place: str
    length: int
    batch: tuple[Linked, ...]
    parents: tuple[Linked, ...]
    children: tuple[Linked, ...]
    older: str
    newer: str
    line: Markup
    payload: Markup | None
    payload_bytes: int
    payload_problem: str
    is_stub: bool
    is_provable: bool


def record(asked: Asked) -> View:
    """Show one record: its fields as they stand in the journal."""
    project = asked.project
    project.journal.refresh()
    project.journal.project()
    row = _row(asked)
    shown = _page(project, row)
    of = "" if shown.is_own else f" --lineage {row.lineage}"
    command = f"periplus log --before {row.seq + 1} --limit 1 --json{of}"
    return View("journal/record.html", f"Record {row.seq:,}", {"page": shown}, command)


def _row(asked: Asked) -> IndexedRecord:
    project, seq = asked.project, int(asked.path["seq"])
    lineage = next(iter(lineage_of(project, asked.query.text("lineage"))), "")
    found = project.journal.index.records("lineage = ? AND seq = ?", (lineage, min(seq, 2**53)), 1) if lineage else []
    if found:
        return found[0]
    end = project.journal.end(lineage).next_seq - 1
    if 1 <= seq < project.journal.index.floors().get(lineage, 1):
        raise NotFoundError(
            f"record {seq:,} lies before a checkpoint, and is not in the index yet", safe="It is in the journal.",
mend="The page of the journal reads older records where you ask for them.",
        )  # fmt: skip
    raise NotFoundError(
        f"there is no record {seq:,}: the newest of {lineage or 'this store'} is {end:,}", mend="See the journal."
    )


def _page(project: Project, row: IndexedRecord) -> RecordPage:
    journal = project.journal
    line = journal.line_at(row)
    decoded, _ = decode_line(line)
    fields: dict[str, JSONValue] = msgspec.json.decode(line)
    inline = fields.pop(_PAYLOAD_FIELD, None)
    payload: JSONValue = inline
    size, problem = len(bytes(decoded.payload)) if isinstance(decoded.payload, msgspec.Raw) else 0, ""
    if decoded.payload_ref is not None:
        size = decoded.payload_ref.bytes
        try:
            payload = msgspec.json.decode(journal.load_object(decoded.payload_ref.sha256))
        except DamageError as error:
            problem = f"{error}. {error.mend}".strip()
    is_own = row.lineage == journal.lineage
    of = "" if is_own else row.lineage
    end = journal.end(row.lineage).next_seq - 1
    index, count = decoded.txn or (0, 1)
    first = row.seq - index
    return RecordPage(
        row_of(project, row), row.lineage, is_own, row.leaf.hex(), row.version, row.rev, row.key,
        f"{row.segment:012}.jsonl, byte {row.offset:,}", row.length,
        tuple(Linked(f"{seq:,}", record_address(seq, of)) for seq in range(first, first + min(count, _BATCH_SHOWN_MAX))) if count > 1 else (),
        tuple(_version(project, row, parent) for parent in row.parents), _children(project, row),
        record_address(row.seq - 1, of) if row.seq > 1 else "", record_address(row.seq + 1, of) if row.seq < end else "",
        json_markup(fields), json_markup(payload) if payload is not None else None, size, problem, decoded.is_stub, is_own,
    )  # fmt: skip


def _version(project: Project, row: IndexedRecord, version: str) -> Linked:
    found = project.journal.index.versions(row.item_type, row.item_id, version)
    return _linked(project, found[0]) if found else Linked(f"version {version[:12]}, whose record is not here", "")


def _children(project: Project, row: IndexedRecord) -> tuple[Linked, ...]:
    if not row.version:
        return ()
    index = project.journal.index
    versions = index.child_versions(row.item_type, row.item_id, row.version)[:_BATCH_SHOWN_MAX]
    return tuple(
        _linked(project, found[0]) for one in versions if (found := index.versions(row.item_type, row.item_id, one))
    )


def _linked(project: Project, record: IndexedRecord) -> Linked:
    of = "" if record.lineage == project.journal.lineage else record.lineage
    return Linked(f"{record.seq:,}" + (f" of {of}" if of else ""), record_address(record.seq, of))
