"""Records of the journal as they come, filtered, a page at a time."""

from __future__ import annotations

__all__ = ["Choice", "RecordRow", "RecordsPage", "journal", "lineage_of", "record_address", "row_of"]

import re
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.log import newest_within
from periplus.journal.history.record_filter import RecordFilter
from periplus.journal.records.record import ACTIONS, ActionClass, action_class
from periplus.web.pages.journal.older_records import OlderRecords, older_records
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from periplus.journal import IndexedRecord
    from periplus.journal.history.log import Page
    from periplus.project import Project

ROWS: Final = 100
SUMMARY_CHARACTERS_MAX: Final = 300
_LINEAGES_MAX: Final = 100
_ALL: Final = "all"
_KINDS: Final[Mapping[str, frozenset[ActionClass]]] = {
    "": frozenset(),
    "changes": frozenset({"state", "tombstone", "meta"}),
    "observations": frozenset({"observation"}),
}
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?)?Z?")


class Choice(NamedTuple):
    """A choice of a filter; its value in the address, its name for people."""

    value: str
    name: str
    is_chosen: bool


class RecordRow(NamedTuple):
    """A record in a list. ``of`` names its lineage where that is not our own; ``kind`` is the class of its action."""

    seq: int
    of: str
    address: str
    ts: str
    writer: str
    session: str
    session_address: str
    action: str
    kind: ActionClass
    item_type: str
    item_id: str
    summary: str


class RecordsPage(NamedTuple):
    """Records, newest first, and the choices of the filters.

    ``looked_back_to`` is the seq down to which one lineage was searched, where a filter left fewer rows than a page has.
    """

    rows: tuple[RecordRow, ...]
    older: str
    looked_back_to: int
    kinds: tuple[Choice, ...]
    types: tuple[Choice, ...]
    lineages: tuple[Choice, ...]
    older_records: OlderRecords
    end: int
    damage: str
    mend: str
    is_filtered: bool
    is_first: bool


def journal(asked: Asked) -> View:
    """Show records, newest first."""
    project, query = asked.project, asked.query
    project.journal.refresh()
    named = query.text("lineage")
    lineages = lineage_of(project, named)
    before = _before(query.text("before"), lineages)
    wanted = _filter(asked)
    if wanted.until and not before:
        before = {lineage: _seq_at(project, lineage, wanted.until) for lineage in lineages}
    page = newest_within(project.journal, wanted, lineages=lineages, before=before, limit=ROWS)
    damage = project.journal.damage
    shown = RecordsPage(
        tuple(row_of(project, record) for record in page.records),
        asked.link(before=",".join(f"{name}:{seq}" for name, seq in page.before.items())) if page.before else "",
        _looked_back_to(page),
        tuple(Choice(value, value or "all", query.text("show") == value) for value in _KINDS),
        _types(project, query.text("type")),
        _lineage_choices(project, named),
        older_records(asked, lineages),
        sum(project.journal.end(one).next_seq - 1 for one in lineages),
        str(damage or ""),
        damage.mend if damage is not None else "",
        any(wanted),
        not query.text("before"),
    )
    return View("journal/records.html", "Journal", {"page": shown, "wanted": wanted}, _command(asked, wanted))


def row_of(project: Project, record: IndexedRecord) -> RecordRow:
    """Return a record as a row of a list."""
    is_own = record.lineage == project.journal.lineage
    lineage = "" if is_own else record.lineage
    session = f"/journal?{_encoded(session=record.session, lineage=lineage)}" if record.session else ""
    return RecordRow(
        record.seq, lineage, record_address(record.seq, lineage), record.ts, record.writer, record.session, session, record.action,
        action_class(record.action), record.item_type, record.item_id, record.summary[:SUMMARY_CHARACTERS_MAX],
    )  # fmt: skip


def record_address(seq: int, lineage: str = "") -> str:
    """Return the address of one record; of our own lineage where none is named."""
    return f"/journal/{seq}" + (f"?{_encoded(lineage=lineage)}" if lineage else "")


def lineage_of(project: Project, named: str) -> list[str]:
    """Return the lineages that a person named: our own for an empty text, ``all``, or the one whose id begins with it.

    Raises NotFoundError, or UsageError for the beginning of several.
    """
    held = project.journal.lineages()
    if named == _ALL:
        return held[:_LINEAGES_MAX]
    if not named:
        mine = project.journal.lineage or project.journal.copied_from
        return [mine] if mine else held[:1]
    found = [one for one in held if one.startswith(named)]
    if not found:
        raise NotFoundError(
            f"there is no lineage {named[:60]!r} in the store",
            mend="See the lineages that the page of the journal lists.",
        )
    if len(found) > 1:
        raise UsageError(f"{named[:60]!r} is the beginning of several lineages", mend="Name the whole lineage.")
    return found


def _before(text: str, lineages: Sequence[str]) -> dict[str, int]:
    """Parse where a page begins: a seq, or ``LINEAGE:SEQ,…``. Raises UsageError."""
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        lineage, colon, seq = part.rpartition(":")
        is_sound = (
            seq.isascii() and seq.isdigit() and len(seq) <= 15 and (is_id(lineage) if colon else len(lineages) == 1)
        )
        if not is_sound:
            raise UsageError(f"before must be the number of a record, not {text[:60]!r}")
        found[lineage or lineages[0]] = int(seq)
    return found


def _filter(asked: Asked) -> RecordFilter:
    query = asked.query
    classes = _KINDS[query.choice("show", tuple(_KINDS))]
    actions = tuple(name for name, kind in ACTIONS.items() if kind in classes)
    return RecordFilter(
        _one(query.text("type")), query.text("id"), _one(query.text("by")), _one(query.text("session")), actions,
        _time(asked, "since"), _time(asked, "until"),
    )  # fmt: skip


def _one(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _time(asked: Asked, name: str) -> str:
    """Return a day or a time (UTC) as the beginning of RFC 3339; that of ``until`` includes what it names. Raises UsageError."""
    text = asked.query.text(name).replace(" ", "T", 1)
    if not text:
        return ""
    if not _TIME.fullmatch(text):
        raise UsageError(f"{name} must be a day or a time such as 2026-11-28T09:30, not {text[:40]!r}")
    return text.removesuffix("Z") + ("~" if name == "until" else "")


def _seq_at(project: Project, lineage: str, until: str) -> int:
    """Return the seq behind the last record that states a time before ``until``, as if times ascended, as they nearly always do."""
    journal = project.journal
    low, high = journal.index.floors().get(lineage, 1), journal.end(lineage).next_seq
    while low < high:
        middle = (low + high) // 2
        found = journal.index.records("lineage = ? AND seq = ?", (lineage, middle), 1)
        if found and found[0].ts >= until:
            high = middle
        else:
            low = middle + 1
    return low


def _looked_back_to(page: Page) -> int:
    """Return where a search of one lineage stopped before the page was full; 0 where it was full, or nothing is left."""
    if len(page.records) >= ROWS or len(page.before) != 1:
        return 0
    return next(iter(page.before.values()))


def _types(project: Project, chosen: str) -> tuple[Choice, ...]:
    names = sorted({*project.types, *_one(chosen)})
    return tuple(Choice(name, name, name == chosen) for name in names)


def _lineage_choices(project: Project, named: str) -> tuple[Choice, ...]:
    held = project.journal.lineages()
    if len(held) < 2:
        return ()
    own = project.journal.lineage or project.journal.copied_from
    found = [Choice("", "this clone" if own else held[0], not named), Choice(_ALL, "all clones", named == _ALL)]
    return (*found, *(Choice(one, one, one == named) for one in held[:_LINEAGES_MAX] if one != own))


def _command(asked: Asked, wanted: RecordFilter) -> str:
    given = [("type", *wanted.types), ("writer", *wanted.writers), ("session", *wanted.sessions)]
    given += [("id", wanted.item_id), ("since", wanted.since), ("until", asked.query.text("until"))]
    given += [("lineage", asked.query.text("lineage")), ("before", asked.query.text("before"))]
    parts = [f" --{name} {shlex.quote(value[0])}" for name, *value in given if value and value[0]]
    if asked.query.text("show"):
        parts += [f" --action {action}" for action in wanted.actions]
    return "periplus log" + "".join(parts)


def _encoded(**fields: str) -> str:
    return urllib.parse.urlencode({name: value for name, value in fields.items() if value})
