"""Judgement of an entity file that differs from what the journal would write, from its bytes and without changing anything.

An entity file names its version, and a version id is a digest of the content and its parents. So the file shows what it is:

* its content matches the version it names: a version held here (an older commit was checked out, the lines were indented differently), or one
  to adopt (a fresh clone; a pull);
* its content does not match: it was edited. The edit is a child of the version that the file names. Its id follows from its bytes, so the
  same edit found twice, or in two clones, is one version;
* it cannot be read or must not be stored: left alone and reported, with the reason and what to do.

A version counts as held once its record is on disk; until then the file may be the only copy.

The rest of a write that a power cut interrupted is not an edit: the beginning of a file that we wrote, an empty file, or NUL bytes in place
of some bytes. NUL bytes alone prove nothing: text saved as UTF-16 is full of them.
"""

from __future__ import annotations

__all__ = [
    "EDIT_BYTES_MAX",
    "Document",
    "LeftAlone",
    "Verdict",
    "VerdictKind",
    "judge",
    "read_document",
    "unless_older",
]

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, FormatError, PeriplusError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import decode_line, version_id
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Change, change_of, entity_of_head, head_of
from periplus.journal.state.transaction import PARENTS_MAX

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal
    from periplus.journal.state.index_values import IndexedRecord

EDIT_BYTES_MAX: Final = 1 << 20
FORMAT: Final = 1
VerdictKind: TypeAlias = Literal["held", "torn", "adopt", "edit", "left"]
_BOM: Final = b"\xef\xbb\xbf"
_FIELDS: Final = frozenset({"format", "id", "type", "version", "parents", "heads", "entity"})
_CONFLICTS: Final = "conflicts"
_MARKERS: Final = (b"<<<<<<<", b"|||||||", b">>>>>>>")
_LFS: Final = b"version https://git-lfs.github.com/spec/"
_LOOK_AGAIN: Final = (
    "Correct the file, then run `periplus status`; or remove it, and it is written anew from the journal."
)


class LeftAlone(NamedTuple):
    """A file that was not touched, with the reason and what to do."""

    path: str
    what: str
    mend: str


class Document(NamedTuple):
    """The content of an entity file. ``payload`` is in canonical form."""

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    heads: tuple[str, ...]
    value: dict[str, JSONValue]
    payload: bytes
    has_conflicts: bool

    @property
    def is_view(self) -> bool:
        """True if it shows several merged heads, which need not be a version."""
        return self.heads != (self.version,)

    @property
    def content_version(self) -> str:
        """The id of the version with this content and these parents."""
        return version_id(self.item_type, self.item_id, deleted=False, payload=self.payload, parents=self.parents)


class Verdict(NamedTuple):
    """The judgement of a file. ``what`` and ``mend`` are for a file that is left alone, the fields after them for one to record."""

    kind: VerdictKind
    what: str = ""
    mend: str = ""
    version: str = ""
    parents: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    document: Document | None = None


def read_document(data: bytes, item_type: str, item_id: str) -> Document:
    """Parse ``data``, found in the place of the entity's file. Raises FormatError."""
    fields = _json(data)
    if not isinstance(fields, dict):
        raise FormatError("not an entity: not a JSON object")
    if isinstance(fields.get("format"), int) and fields["format"] > FORMAT:
        raise FormatError(f"an entity file of format {fields['format']}", mend="Update Periplus.")
    if fields.get("format") != FORMAT or _FIELDS - fields.keys():
        missing = ", ".join(sorted(_FIELDS - fields.keys())) or "format 1"
        raise FormatError(f"not an entity file: it lacks {missing}")
    unknown = sorted(fields.keys() - _FIELDS - {_CONFLICTS})
    if unknown:
        raise FormatError(f'it has fields that belong within "entity": {", ".join(unknown)[:200]}')
    if (fields["type"], fields["id"]) != (item_type, item_id):
        raise FormatError(
            f"it states {str(fields['type'])[:80]} {str(fields['id'])[:80]}, which does not match its path"
        )
    if not _is_version(fields["version"]) or not _are_versions(fields["parents"]) or not _are_versions(fields["heads"]):
        raise FormatError("its version, parents or heads are not version ids")
    value = fields["entity"]
    if not isinstance(value, dict):
        raise FormatError("its entity is not a JSON object")
    try:
        payload = canonical(value)
    except (UsageError, RecursionError) as error:
        raise FormatError(f"its entity cannot be stored: {error}") from error
    return Document(
        item_type, item_id, fields["version"], tuple(sorted(fields["parents"])), tuple(sorted(fields["heads"])), value,
        payload, _CONFLICTS in fields,
    )  # fmt: skip


def judge(journal: IndexedJournal, item_type: str, item_id: str, data: bytes, *, is_forward: bool = False) -> Verdict:
    """Judge the bytes found in the place of an entity's file.

    ``is_forward``: git replaced our file by going forward in its history, so the bytes are newer.
    """
    if len(data) > EDIT_BYTES_MAX:
        return Verdict("left", f"larger than {EDIT_BYTES_MAX:,} bytes", _LOOK_AGAIN)
    if not data.strip(b"\0 \t\r\n") and _rows(journal, item_type, item_id):
        return Verdict("torn")
    is_marked = data.startswith(_BOM)
    try:
        document = read_document(data.removeprefix(_BOM), item_type, item_id)
    except FormatError as error:
        if _is_cut_off(journal, item_type, item_id, data):
            return Verdict("torn")
        if b"\0" in data:
            return Verdict("left", "it contains NUL bytes, as UTF-16 does", f"Save it as UTF-8. {_LOOK_AGAIN}")
        return Verdict("left", error.wrong, error.mend or _LOOK_AGAIN)
    verdict = _judge_document(journal, document, is_forward=is_forward)
    if is_marked and verdict.kind in ("adopt", "edit"):
        return Verdict(
            "left", "it begins with a byte order mark", "Save it as UTF-8 without one, then run `periplus status`."
        )
    return verdict


def unless_older(journal: IndexedJournal, verdict: Verdict) -> Verdict:
    """Return ``verdict``, or leave the file alone if the records before a checkpoint are missing and it may be older than they are.

    A child of a present head, and an entity that was never here, are certainly new. If the index still knows the other versions' places,
    the file's version would be merged using the missing records.
    """
    document = verdict.document
    if document is None:
        return verdict
    heads = journal.heads_of(document.item_type, document.item_id)
    if not heads or any(head.version in verdict.parents for head in heads):
        return verdict
    what = "it may be older than the journal's version: earlier records are not here"
    if not journal.index.has_floors:
        what = "it would be concurrent with the journal's version, and the records of their ancestors are not here"
    return Verdict(
        "left", what,
        "Put the archive back, then run `periplus status`; or check out the newest commit.")  # fmt: skip


def _judge_document(journal: IndexedJournal, document: Document, *, is_forward: bool) -> Verdict:
    kind: VerdictKind

    def holds(version: str) -> bool:
        return journal.holds(document.item_type, document.item_id, version, durably=True)

    if document.content_version == document.version:
        if holds(document.version):
            return Verdict("held")
        if document.is_view and document.parents == document.heads:
            if all(holds(head) for head in document.heads) and not _is_settled(journal, document):
                return Verdict("held")  # the merged view of these heads
            if document.has_conflicts:
                return Verdict("left", "it shows a conflict between versions that are not held here",
                               "Run `periplus sync` with the place it comes from.")  # fmt: skip
        kind = "edit" if _is_settled(journal, document) else "adopt"
        version, parents = document.version, document.parents
    else:
        parents = document.heads if document.is_view else (document.version,)
        of_one = {document.version, *parents} if len(parents) == 1 else {document.version}
        if any(_has_payload(journal, one, document) for one in of_one) or _is_shown(journal, document):
            return Verdict("held")  # only the fields about versions were changed
        version = document._replace(parents=parents).content_version
        kind = "edit"
    if holds(version):
        return Verdict("held")
    place = _place(journal, document, version, parents, is_forward=is_forward)
    if place in ("old", "unknown"):
        return Verdict("held") if place == "old" else Verdict(
            "left", "its version has no known relation to those held here: it may be older or newer",
            "Run `periplus sync` with the place it comes from; or check out the newest commit.")  # fmt: skip
    try:
        entity_type = journal.types[document.item_type]
        if kind == "adopt":  # lists merged in other clones may exceed the limits for edits
            entity_type.check(document.value)
        else:
            entity_type.admit(document.value, lambda: journal.get(document.item_type, document.item_id))
    except (PeriplusError, RecursionError) as error:
        return Verdict("left", str(error), _LOOK_AGAIN)
    if len(parents) > PARENTS_MAX:
        are_held = all(holds(parent) for parent in parents)
        mend = f"Set it with `periplus set {document.item_id} FIELD=VALUE`, then remove the file: it is written anew." if are_held \
            else "Run `periplus sync` with the place it comes from."  # fmt: skip
        return Verdict(
            "left",
            f"it merges {len(parents):,} concurrent versions; a file can settle {PARENTS_MAX:,}",
            mend,
        )
    heads = journal.heads_of(document.item_type, document.item_id) if place == "next" else ()
    return Verdict(
        kind, version=version, parents=parents, after=tuple(head.version for head in heads), document=document
    )


def _is_shown(journal: IndexedJournal, document: Document) -> bool:
    """Return True if it has the content that we show for the heads it names."""
    shown = journal.get(document.item_type, document.item_id)
    return (
        shown is not None
        and (tuple(sorted(shown.heads)), shown.payload) == (document.heads, document.payload)
        and bool(shown.conflicts) == document.has_conflicts
    )


def _is_settled(journal: IndexedJournal, document: Document) -> bool:
    """Return True if the list of conflicts was removed from the file, which settles them with the content shown."""
    shown = journal.get(document.item_type, document.item_id)
    has_conflicts = shown is not None and shown.version == document.version and bool(shown.conflicts)
    return has_conflicts and not document.has_conflicts


def _place(
    journal: IndexedJournal, document: Document, version: str, parents: tuple[str, ...], *, is_forward: bool
) -> Literal["new", "next", "old", "unknown"]:
    """Return the place of a version that is not held among the versions that are: "new", "old", "unknown", or "next" after all heads.

    In a clone that knows an entity from files alone, the versions between are missing. A version from an old commit must not become a
    second head then, and one from a pull must not conflict with the version it replaces.
    """
    heads = journal.heads_of(document.item_type, document.item_id)
    if not heads:
        return "new"
    if journal.is_superseded(document.item_type, document.item_id, version):
        return "old"
    if any(head.version in parents for head in heads):
        return "new"
    rows = _rows(journal, document.item_type, document.item_id)
    held = {row.version for row in rows}
    if is_forward and parents and held.isdisjoint(parents):
        return "next"
    if all(parent in held for row in rows for parent in row.parents):
        return "new"  # all ancestors of our versions are held, and it is not among them
    return "unknown" if parents or journal.index.has_floors else "old"  # an entity is created only once


def _rows(journal: IndexedJournal, item_type: str, item_id: str) -> list[IndexedRecord]:
    """Return the records on disk that hold versions of an entity."""
    return journal.index.records("item_type = ? AND item_id = ? AND version <> ''", (item_type, item_id), -1)


def _change_at(journal: IndexedJournal, row: IndexedRecord) -> Change | None:
    try:
        record, leaf = decode_line(journal.line_at(row))
        return change_of(Entry(record, row.offset, row.length, leaf), row.lineage, row.segment, journal.load_object)
    except (DamageError, UsageError):
        return None


def _has_payload(journal: IndexedJournal, version: str, document: Document) -> bool:
    """Return True if that version of the same entity has this payload; a copy of the file under another id is another entity."""
    where = "version = ? AND version <> '' AND item_type = ? AND item_id = ?"
    rows = journal.index.records(where, (version, document.item_type, document.item_id), 1)
    change = _change_at(journal, rows[0]) if rows else None
    return change is not None and change.payload == document.payload


def _is_cut_off(journal: IndexedJournal, item_type: str, item_id: str, data: bytes) -> bool:
    """Return True if this is what an interrupted write leaves of a file that we wrote: its beginning, perhaps with NUL bytes."""
    from periplus.journal.projections.entity_file import render_entity

    shown = journal.get(item_type, item_id)
    whole = [render_entity(shown)] if shown is not None else []
    for row in _rows(journal, item_type, item_id):
        change = _change_at(journal, row)
        if change is not None and change.payload:
            whole.append(render_entity(entity_of_head(head_of(change, 0))))
    left = data.rstrip(b"\0")
    return any(
        len(left) <= len(text) and all(byte in (0, meant) for byte, meant in zip(left, text, strict=False))
        for text in whole
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def _json(data: bytes) -> Any:
    """Parse JSON edited by a person or a merge. Duplicate keys are refused rather than resolved."""
    import json

    if data.startswith(_LFS):
        raise FormatError("it is a Git LFS pointer", mend="Run `git lfs pull`, and keep entities/ out of LFS.")
    if any(line.startswith(_MARKERS) for line in data.splitlines()):
        raise FormatError(
            "it contains conflict markers of git", mend="Resolve the conflict in the file, then run `periplus status`."
        )
    try:
        return json.loads(data.decode(), object_pairs_hook=_object, parse_float=_no_float, parse_constant=_no_float)
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8: {error.reason} at byte {error.start:,}") from error
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise FormatError("not an entity: nested too deep") from error
    except ValueError as error:
        raise FormatError(f"not an entity: {error}") from error


def _object(pairs: list[tuple[str, JSONValue]]) -> dict[str, JSONValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FormatError("a field occurs twice")
    return found


def _no_float(text: str) -> JSONValue:
    raise FormatError(f"the number {text[:40]} is no integer", mend='Write a fraction as {"$dec": "1.5"}.')


def _is_version(value: object) -> bool:
    return isinstance(value, str) and is_digest_text(value)


def _are_versions(value: object) -> bool:
    return isinstance(value, list) and all(_is_version(one) for one in value)
