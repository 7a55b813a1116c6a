"""Recent changes: entities that others wrote, and files that their sessions and commits touched.

The origin is a record of our own lineage, a time, or a session; by default the last session of the asking writer.
Records of other clones have numbers of their own: of those everything written since the time of the origin counts.
The asking session's own records are left out. Every entity is reported once, in its present state, with what happened
to it in between. The types of greatest weight come first, the newest entity of each type first; the same store and
question give the same answer.
"""

from __future__ import annotations

__all__ = ["ChangedFile", "ChangedItem", "ChangesSince", "Origin", "changed_since", "origin_of"]

from collections.abc import Container, Iterable, Iterator
from typing import Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.base.ids import PASTED, typed_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Entity, Journal, Writer
from periplus.memory.entities.types import CANDIDATE, is_ended, rows_of
from periplus.memory.retrieval.recall import bring_up_to_date

_UNTOLD: Final = frozenset(
    {"agent", "assignment", "claim", "loop", "message", "question", "run", "session"}
)  # reported elsewhere, or not at all
_ORDER: Final = ("conflict", "constraint", "trap", "decision", "lesson", "handoff", "plan", "step", "note", "candidate")
_TEXT_CHARACTERS: Final = 300
_FILES_MAX: Final = 200
_ITEM_TOKENS: Final = 16
_SEQ_MAX: Final = 2**53


class Origin(NamedTuple):
    """The start of the interval: after record ``seq`` of our own lineage, and in other lineages after the time
    ``ts``. ``what`` says so in words; ``session`` is the name of the session whose end it is, if any.
    """

    seq: int
    ts: str
    what: str
    session: str = ""


class ChangedItem(NamedTuple):
    """An entity and its change: ``created``, ``changed``, ``ended`` or ``deleted``. ``by`` names the writers. An
    entity that had ended before and was written to since is ``changed``.
    """

    item_type: str
    item_id: str
    what: str
    state: str
    text: str
    by: tuple[str, ...]
    ts: str
    records: int
    more: str


class ChangedFile(NamedTuple):
    """A file that sessions or commits touched; ``source`` is the last of them, ``times`` their number."""

    path: str
    source: str
    ts: str
    times: int


class ChangesSince(NamedTuple):
    """``items`` and ``files`` within the limit; ``left_out`` counts the items that were not returned."""

    origin: Origin
    items: tuple[ChangedItem, ...]
    files: tuple[ChangedFile, ...]
    matched: int
    left_out: int


def changed_since(
    journal: Journal,
    writer: Writer,
    since: str | int = "",
    *,
    limit: int = 50,
    budget_tokens: int | None = None,
) -> ChangesSince:
    """Return what others changed since ``since``: a seq, a time, the name or id of a session, or "" for the writer's
    last session.

    Raises UsageError for any other text, NotFoundError for an unknown session.
    """
    if limit < 0:
        raise UsageError("a limit is at least 0")
    bring_up_to_date(journal)
    origin = origin_of(journal, writer, since)
    behind = {*journal.unindexed()}
    found = _in_order(row for row in _rows(journal, writer, origin) if _is_told(journal, row, behind))
    items = [_item(row, journal.get(row.item_type, row.item_id)) for row in found[:limit]]
    shown = [item for item in items if item is not None]
    matched = len(found) - (len(items) - len(shown))
    if budget_tokens is not None:
        shown = _fitting(shown, budget_tokens)
    shown = [_with_its_end(journal, writer, origin, _by_who_wrote(journal, item)) for item in shown]
    return ChangesSince(origin, tuple(shown), _files(journal, writer, origin), matched, matched - len(shown))


def origin_of(journal: Journal, writer: Writer, since: str | int) -> Origin:
    """Return the origin that ``since`` names; see ``changed_since``. For a writer who never worked here it is the
    beginning.
    """
    from periplus.base.clock import format_ms, parse_past_ms

    text = str(since).strip().strip(PASTED)
    if text.isascii() and text.isdigit():
        seq = int(text)
        if seq >= _SEQ_MAX:
            raise UsageError(f"there is no record {seq}", mend="See `periplus log`.")
        return Origin(seq, _ts_of(journal, seq), f"record {seq}")
    if not text:
        return _last_session(journal, writer)
    at_ms = parse_past_ms(text, journal.clock.now_ms())
    if at_ms is not None:
        ts = format_ms(at_ms)
        return Origin(_seq_before(journal, ts), ts, ts[:16].replace("T", " ") + "Z")
    return _session_named(journal, text)


def _last_session(journal: Journal, writer: Writer) -> Origin:
    """Return the end of the last session in which the writer wrote anything, the present one left out."""
    from periplus.memory.claim_status import session_id
    from periplus.memory.fulltext.links import linked

    own = {writer.session, session_id(writer.session)} - {""}
    sessions = [
        one for one in linked(journal, "session", "agent", writer.name)
        if one.item_id not in own and one.value.get("name") not in own
    ]  # fmt: skip
    ends = {str(one.value.get("ended") or one.value.get("seen", "")): one for one in sessions}
    if not ends:
        return Origin(0, "", "the beginning: no earlier session of yours is known")
    ended = max(ends)
    name = str(ends[ended].value.get("name", ""))
    return _end_of(journal, name, ended, f"your last session, {name}")


def _session_named(journal: Journal, text: str) -> Origin:
    from periplus.memory.claim_status import session_id

    entity = None
    if typed_id(text).startswith("ses_"):
        keys = journal.ids_with_prefix(typed_id(text))
        entity = journal.get(*keys[0]) if len(keys) == 1 and keys[0][0] == "session" else None
    else:
        entity = journal.get("session", session_id(text))
    if entity is not None:
        name = str(entity.value.get("name", ""))
        ended = str(entity.value.get("ended") or entity.value.get("seen", ""))
        return _end_of(journal, name, ended, f"the session {name}")
    known = _first(journal, "SELECT 1 FROM records WHERE session = ? LIMIT 1", text)
    if known is None:
        raise NotFoundError(f"{text[:80]!r} is neither a record, a time nor a known session",
                            mend="Give a number from `periplus log`, a time like 2026-01-31T09:30:00Z, or a session of `periplus who`.")  # fmt: skip
    return _end_of(journal, text, "", f"the session {text}")


def _end_of(journal: Journal, name: str, ended: str, what: str) -> Origin:
    """Return the origin after the last record of a session, or after its end where none of its records is left."""
    where = "SELECT seq, ts FROM records WHERE lineage = ? AND session = ? ORDER BY seq DESC LIMIT 1"
    row = _first(journal, where, journal.lineage, name)
    if row is None:
        return Origin(_seq_before(journal, ended), ended, what, name)
    return Origin(int(row[0]), max(str(row[1]), ended), what, name)


def _ts_of(journal: Journal, seq: int) -> str:
    if not seq:
        return ""
    where = "SELECT ts FROM records WHERE lineage = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
    row = _first(journal, where, journal.lineage, seq)
    return str(row[0]) if row is not None else ""


def _seq_before(journal: Journal, ts: str) -> int:
    """Return our last record whose time is before ``ts``."""
    where = "SELECT seq FROM records WHERE lineage = ? AND ts < ? ORDER BY seq DESC LIMIT 1"
    row = _first(journal, where, journal.lineage, ts)
    return int(row[0]) if row is not None else 0


def _first(journal: Journal, sql: str, *values: str | int) -> tuple[str | int, ...] | None:
    """Return the first row. Where none lies behind the checkpoint that the index begins at, older records are
    searched, too. Raises DamageError.
    """
    row: tuple[str | int, ...] | None = journal.index.db.execute(sql, values).fetchone()
    if row is None and journal.index.has_floors:
        journal.need_history()
        row = journal.index.db.execute(sql, values).fetchone()
    return row


def _have_all_since(journal: Journal, origin: Origin) -> None:
    """Make the index reach back to ``origin``: it may begin at a checkpoint. Raises DamageError."""
    if any(_lacks_some(journal, origin, *one) for one in journal.index.floors().items()):
        journal.need_history()


def _lacks_some(journal: Journal, origin: Origin, lineage: str, floor: int) -> bool:
    if lineage == journal.lineage:
        return origin.seq + 1 < floor
    where = "SELECT ts FROM records WHERE lineage = ? ORDER BY seq LIMIT 1"  # other lineages are asked by their times
    row = journal.index.db.execute(where, (lineage,)).fetchone()
    if row is not None and str(row[0]) <= origin.ts:
        return False
    from periplus.journal.checkpoints.history_fallback import has_written_since

    return has_written_since(journal, lineage, origin.ts)


class _Row(NamedTuple):
    """A summary of the records of an entity since the origin. ``maker`` wrote the first without parents, ``last`` the
    newest.
    """

    item_type: str
    item_id: str
    records: int
    ts: str
    is_created: bool
    maker: str
    last: str


def _rows(journal: Journal, writer: Writer, origin: Origin) -> Iterator[_Row]:
    _have_all_since(journal, origin)
    told = [name for name in (*rows_of(journal.types), "conflict") if name not in _UNTOLD]
    marks = ", ".join("?" * len(told))
    others = [name for name in journal.lineages() if name != journal.lineage]
    rows = journal.index.db.execute(
        "SELECT item_type, item_id, COUNT(*), MAX(ts), SUM(parents = ''), MAX(ts || char(31) || writer),"  # noqa: S608 - question marks
        " MIN(CASE WHEN parents = '' THEN ts || char(31) || writer END) FROM ("
        " SELECT * FROM records WHERE lineage = ? AND seq > ?"
        f" UNION ALL SELECT * FROM records WHERE lineage IN ({', '.join('?' * len(others))}) AND ts > ?)"
        f" WHERE item_type IN ({marks}) AND version <> '' AND (session <> ? OR session = '')"
        " GROUP BY item_type, item_id",
        (journal.lineage, origin.seq, *others, origin.ts, *told, writer.session),
    ).fetchall()
    for item_type, item_id, count, ts, created, last, first in rows:
        maker = str(first).partition("\x1f")[2] if created else ""
        yield _Row(item_type, item_id, count, ts, bool(created), maker, str(last).partition("\x1f")[2])


def _is_told(journal: Journal, row: _Row, behind: Container[tuple[str, str]]) -> bool:
    """Return False for entities that were created and deleted since. Entities are looked up only where they are
    shown: a store may have a hundred thousand.
    """
    key = (row.item_type, row.item_id)
    if not row.is_created:
        return True
    return journal.get(*key) is not None if key in behind else journal.index.has_live_head(*key)


def _in_order(rows: Iterable[_Row]) -> list[_Row]:
    found = sorted(rows, key=lambda row: row.item_id)
    found.sort(key=lambda row: row.ts, reverse=True)
    found.sort(key=lambda row: _ORDER.index(row.item_type) if row.item_type in _ORDER else len(_ORDER))
    return found


def _item(row: _Row, entity: Entity | None) -> ChangedItem | None:
    """Return the change of ``entity``, without looking at whether it ended since. None for what was created and
    deleted since.
    """
    if entity is None:
        if row.is_created:
            return None
        more = f"periplus log --id {row.item_id}"
        return ChangedItem(row.item_type, row.item_id, "deleted", "", "", (row.last,), row.ts, row.records, more)
    value = entity.value
    state = str(value.get("state", ""))
    proposed = value.get("payload")
    told = proposed if entity.item_type == CANDIDATE and isinstance(proposed, dict) else value
    text = " ".join(str(told.get("text") or told.get("title") or told.get("name") or "").split())
    what, by = ("created", row.maker) if row.maker else ("changed", row.last)
    more = f"periplus trail show {entity.item_id}" if entity.item_type == "trail" else f"periplus show {entity.item_id}"
    return ChangedItem(
        entity.item_type, entity.item_id, what, state, text[:_TEXT_CHARACTERS], (by,) if by else (), row.ts, row.records, more
    )  # fmt: skip


def _by_who_wrote(journal: Journal, item: ChangedItem) -> ChangedItem:
    """Return ``item`` with the last author of a change that was read from a file, where a record of the author is
    here.
    """
    from periplus.journal.projections.external_edits import ADOPTED

    if item.by != (ADOPTED.name,):
        return item
    rows = journal.index.db.execute(
        "SELECT version, writer, ts FROM records WHERE item_type = ? AND item_id = ? AND version <> '' ORDER BY ts DESC, lineage, seq",
        (item.item_type, item.item_id),
    ).fetchall()
    own = {version: writer for version, writer, _ in rows if writer != ADOPTED.name}
    last = next((version for version, _, ts in rows if ts == item.ts), "")
    return item._replace(by=(own[last],)) if last in own else item


def _with_its_end(journal: Journal, writer: Writer, origin: Origin, item: ChangedItem) -> ChangedItem:
    """Return ``item`` as ended, with the writer who ended it, who need not be the last one; unchanged where it goes
    on or had ended before.
    """
    if item.what == "deleted" or not is_ended(item.item_type, item.state, journal.types):
        return item
    from periplus.journal.history.versions import said_by

    entity = journal.get(item.item_type, item.item_id)
    origins = said_by(journal, entity, "state") if entity is not None else ()
    if journal.index.has_floors and not all(one.is_certain for one in origins):
        return item  # the records that say whether it had ended before are elsewhere
    said = [one.record for one in origins]
    if not said:
        return item._replace(what="ended")
    since = [
        one for one in said
        if (one.seq > origin.seq if one.lineage == journal.lineage else one.ts > origin.ts)
        and (one.session != writer.session or not one.session)
    ]  # fmt: skip
    if not since:
        return item
    return item._replace(what="ended", by=tuple(dict.fromkeys(one.writer for one in since)))


def _files(journal: Journal, writer: Writer, origin: Origin) -> tuple[ChangedFile, ...]:
    """Return the files that sessions and commits touched since, the last first. The asking session's own trail is
    left out by its name.
    """
    rows = journal.index.db.execute(
        "SELECT path, item_id, part, ts FROM touched WHERE item_type = 'trail' AND ts > ?"
        " ORDER BY ts DESC, item_id, part, path LIMIT ?", (origin.ts, 10 * _FILES_MAX),
    ).fetchall()  # fmt: skip
    own = {item_id for item_id in {row[1] for row in rows} if writer.session and _is_of(journal, item_id, writer)}
    found: dict[str, ChangedFile] = {}
    for path, item_id, part, ts in rows:
        if item_id in own:
            continue
        known = found.get(path)
        if known is not None:
            found[path] = known._replace(times=known.times + 1)
        elif len(found) < _FILES_MAX:
            found[path] = ChangedFile(path, item_id if part < 0 else f"{item_id}#{part}", ts, 1)
    return tuple(found.values())


def _is_of(journal: Journal, trail_id: str, writer: Writer) -> bool:
    trail = journal.get("trail", trail_id)
    return trail is not None and trail.value.get("session_id") == writer.session


def _fitting(items: list[ChangedItem], budget_tokens: int) -> list[ChangedItem]:
    kept: list[ChangedItem] = []
    for item in items:
        budget_tokens -= estimate_tokens(item.text) + _ITEM_TOKENS
        if budget_tokens < 0:
            break
        kept.append(item)
    return kept
