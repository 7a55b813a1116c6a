"""Index of turns: the turns of a store's sessions, searched by words and read again. The file may be lost at any time.

``turns.sqlite`` in the store's folder holds the page of every finished turn, with full-text search. It follows the journal by seq: an
update costs what came since the last one, and a missing, damaged or outdated file is rebuilt from the journal. It contains nothing that the
journal does not. SQLite keeps no checksums, so each row has its own.
"""

from __future__ import annotations

__all__ = ["StoredTurns", "TurnIndex"]

import os
import sqlite3
from binascii import crc32
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from periplus.agent.episodes import Episode
from periplus.agent.persistence.episode_codec import decode_episode
from periplus.agent.tape.history.turn_pages import is_over, title_of, turn_text
from periplus.agent.tape.history.turn_source import FoundTurn
from periplus.base.errors import FormatError, PeriplusError, UsageError
from periplus.base.filesystem.file_systems import MappingSpace
from periplus.base.process.fork_safety import close_in_children, is_open_in_parent
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.journal.index.connection import abandon
from periplus.journal.records.record import record_of
from periplus.journal.state.index_values import IndexedRecord

if TYPE_CHECKING:
    from periplus.project import Project

T = TypeVar("T")

TURN_INDEX_VERSION: Final = 2
_BUSY_S: Final = 5.0
_ROWS_AT_ONCE: Final = 2_000
_WORDS_ASKED_MAX: Final = 24
_SCORED_MAX: Final = 1_500
_SCHEMA: Final = (
    "CREATE TABLE seen (lineage TEXT PRIMARY KEY, seq INTEGER NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE turns (id INTEGER PRIMARY KEY, item_id TEXT NOT NULL, turn INTEGER NOT NULL, lineage TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, over INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    place_sum INTEGER NOT NULL, title_sum INTEGER NOT NULL, text_sum INTEGER NOT NULL, UNIQUE (item_id, lineage, turn))""",
    "CREATE VIRTUAL TABLE words USING fts5(text, session, tokenize='porter unicode61 remove_diacritics 2')",
    f"PRAGMA user_version = {TURN_INDEX_VERSION}",
)


class _Connection(sqlite3.Connection):
    """A connection with weak references, which ``base.forks`` needs and SQLite's own type lacks."""


class TurnIndex:
    """The turn index of the store of ``project``. Close it to close the connection to its file."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._path = project.journal.layout.turns
        self._room = MappingSpace(os.path.dirname(self._path))
        self._is_file = False
        self._is_short = False  # part of the journal is elsewhere: use memory, then
        self._db = self._connect()

    def close(self) -> None:
        if self._is_file and not self._room.is_enough():
            abandon(self._db)
        else:
            self._db.close()

    def refresh(self) -> None:
        """Add the turns written since."""
        journal = self._project.journal
        journal.refresh()
        journal.project()
        is_short = not fill_history_if_present(journal) and (self._is_short or self._lacks_some())
        if is_short is not self._is_short:
            self._db.close()
            self._is_short = is_short
            self._db = self._connect()
        self._safely(self._follow)

    def _lacks_some(self) -> bool:
        """Return whether records that the file does not have yet are elsewhere; marking it complete would lose them later."""
        try:
            seen = dict(_checked(self._db.execute("SELECT sum, lineage, seq FROM seen").fetchall()))
        except sqlite3.DatabaseError:
            seen = {}
        return any(floor > seen.get(lineage, 1) for lineage, floor in self._project.journal.index.floors().items())

    def search(self, question: str, limit: int, *, session: str = "", but: str = "") -> list[FoundTurn]:
        """The best matching turns, of one session or of all but one (ids of entities), the best first."""
        from periplus.base.text.search_terms import query_terms

        terms = query_terms(question)[:_WORDS_ASKED_MAX]
        self.refresh()
        if not terms or limit <= 0:
            return []
        return self._safely(lambda: self._best(terms, limit, _scope(session, but)))

    def _best(self, terms: Sequence[str], limit: int, scope: str) -> list[FoundTurn]:
        """Score by the rarer terms alone if the common ones occur in very many turns: they tell little, and scoring all takes long."""
        counted = []
        for term in terms:
            sql = "SELECT COUNT(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
            count = self._db.execute(sql, (f'text : "{term}"', _SCORED_MAX)).fetchone()[0]
            if count:
                counted.append((count, term))
        counted.sort()
        chosen: list[str] = []
        room = _SCORED_MAX
        for count, term in counted:
            if chosen and count > room:
                break
            chosen.append(f'"{term}"')
            room -= count
        if not chosen:
            return []
        scored = self._db.execute(
            "SELECT rowid, -bm25(words, 1.0, 0.0) AS score FROM words WHERE words MATCH ? ORDER BY score DESC, rowid DESC LIMIT ?",
            (f"text : ({' OR '.join(chosen)}){scope}", limit),
        ).fetchall()
        sql = "SELECT text_sum, item_id, turn, text FROM turns WHERE id = ?"
        found = []
        for row_id, score in scored:
            rows = _checked(self._db.execute(sql, (row_id,)).fetchall())
            if not rows:
                raise sqlite3.DatabaseError("words of a turn that is not there")
            item_id, turn, text = rows[0]
            found.append(FoundTurn(item_id, turn, text, score))
        return found

    # -- of one session ------------------------------------------------------------------------------------------------

    def titles(self, item_id: str) -> list[tuple[int, str]]:
        self.refresh()
        sql = "SELECT title_sum, item_id, turn, title FROM turns WHERE item_id = ? ORDER BY turn"
        rows = self._safely(lambda: _checked(self._db.execute(sql, (item_id,)).fetchall()))
        return [(turn, title) for _, turn, title in rows]

    def texts(self, item_id: str) -> Iterator[tuple[int, str]]:
        self.refresh()
        sql = "SELECT text_sum, item_id, turn, text FROM turns WHERE item_id = ? AND turn > ? ORDER BY turn LIMIT 200"
        after = 0
        while rows := self._safely(lambda after=after: _checked(self._db.execute(sql, (item_id, after)).fetchall())):  # type: ignore[misc]
            yield from [(turn, text) for _, turn, text in rows]
            after = rows[-1][1]

    def episodes(self, item_id: str, turn: int) -> list[Episode]:
        """The episodes of a turn; empty if it does not exist. Raises DamageError."""
        self.refresh()
        sql = "SELECT place_sum, item_id, turn, lineage, first, last FROM turns WHERE item_id = ? AND turn = ? ORDER BY lineage"
        found: list[Episode] = []
        rows = self._safely(lambda: _checked(self._db.execute(sql, (item_id, turn)).fetchall()))
        for _, _, lineage, first, last in rows:
            found += self._read(item_id, lineage, turn, first, last)
        return found

    # -- following the journal -----------------------------------------------------------------------------------------

    def _follow(self) -> None:
        journal = self._project.journal
        seen = dict(_checked(self._db.execute("SELECT sum, lineage, seq FROM seen").fetchall()))
        behind = {
            lineage: position.next_seq
            for lineage, position in journal.index.watermarks().items()
            if position.next_seq > seen.get(lineage, 0)
        }
        if not behind:
            return
        if any(self._is_redacted(lineage, seen[lineage], end) for lineage, end in behind.items() if lineage in seen):
            raise sqlite3.DatabaseError("a record was redacted")  # the redacted text is in this file too: rebuild it
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for lineage, end in behind.items():
                self._take_in(lineage, seen.get(lineage, 0), end)
                self._db.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", (lineage, end, _sum(lineage, end)))
            self._db.execute("COMMIT")
        except BaseException:  # for any exception: roll back, then raise
            self._db.execute("ROLLBACK")
            raise

    def _is_redacted(self, lineage: str, begin: int, end: int) -> bool:
        where = "lineage = ? AND seq >= ? AND seq < ? AND +action = 'redact'"
        return bool(self._project.journal.index.records(where, (lineage, begin, end), 1))

    def _take_in(self, lineage: str, begin: int, end: int) -> None:
        where = "lineage = ? AND seq >= ? AND seq < ? AND +item_type = 'session' AND +action = 'observe' ORDER BY seq"
        changed: dict[tuple[str, int], tuple[int, int]] = {}
        at = begin
        while rows := self._project.journal.index.records(where, (lineage, at, end), _ROWS_AT_ONCE):
            for row in rows:
                turn = _turn_of(row)
                if turn > 0:
                    first, _ = changed.get((row.item_id, turn), (row.seq, row.seq))
                    changed[row.item_id, turn] = (first, row.seq)
            at = rows[-1].seq + 1
        for (item_id, turn), (first, last) in changed.items():
            self._put(item_id, lineage, turn, first, last)

    def _put(self, item_id: str, lineage: str, turn: int, first: int, last: int) -> None:
        key = (item_id, lineage, turn)
        held = self._db.execute(
            "SELECT id, place_sum, item_id, turn, lineage, first, last FROM turns WHERE item_id = ? AND lineage = ? AND turn = ?",
            key,
        ).fetchone()
        if held is not None:
            first = _checked([held[1:]])[0][3]
        try:
            episodes = self._read(item_id, lineage, turn, first, last)
            title, text, over = title_of(episodes), turn_text(episodes), is_over(episodes)
        except PeriplusError as error:  # an unreadable turn is found by its number, and says why
            title, text, over = "", f"# Turn {turn}: it cannot be read: {error}\n", True
        if held is not None:
            self._db.execute("DELETE FROM words WHERE rowid = ?", (held[0],))
            self._db.execute("DELETE FROM turns WHERE id = ?", (held[0],))
        made = self._db.execute(
            "INSERT INTO turns (item_id, lineage, turn, first, last, over, title, text, place_sum, title_sum, text_sum)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, first, last, int(over), title, text, _sum(item_id, turn, lineage, first, last),
             _sum(item_id, turn, title), _sum(item_id, turn, text)),
        )  # fmt: skip
        if over:
            from periplus.base.text.search_terms import expand

            row = (made.lastrowid, expand(text), _token(item_id))
            self._db.execute("INSERT INTO words (rowid, text, session) VALUES (?, ?, ?)", row)

    def _read(self, item_id: str, lineage: str, turn: int, first: int, last: int) -> list[Episode]:
        import msgspec
        import orjson

        journal = self._project.journal
        where = "lineage = ? AND seq >= ? AND seq <= ? AND +item_type = 'session' AND +item_id = ? AND +action = 'observe' ORDER BY seq"
        found: list[Episode] = []
        at = first
        while rows := journal.index.records(where, (lineage, at, last, item_id), _ROWS_AT_ONCE):
            for row in rows:
                if _turn_of(row) != turn:
                    continue
                record = record_of(journal.line_at(row))
                if record.is_stub or (isinstance(record.payload, msgspec.UnsetType) and record.payload_ref is None):
                    raise FormatError(f"record {row.seq} was redacted")
                data = (
                    journal.load_object(record.payload_ref.sha256)
                    if record.payload_ref is not None
                    else bytes(record.payload)  # type: ignore[arg-type]  # looked at above
                )
                found.append(decode_episode(orjson.loads(data)))
            at = rows[-1].seq + 1
        return found

    # -- the file ------------------------------------------------------------------------------------------------------

    def _safely(self, ask: Callable[[], T]) -> T:
        """Query, and once more on a rebuilt file if this one turns out to be damaged."""
        if self._is_file and not self._room.is_enough():  # use memory while the disk is full
            abandon(self._db)
            self._db = self._connect()
            self._follow()
        try:
            return ask()
        except sqlite3.DatabaseError as error:
            is_busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
            if is_busy or isinstance(error, UsageError):  # another thread, or a forked child: the file is sound
                raise
            self._db.close()
            self._remove()
            self._db = self._connect()
            self._follow()
            return ask()

    def _remove(self) -> None:
        for ending in ("", "-wal", "-shm"):
            try:
                self._project.journal.files.unlink(self._path + ending)
            except FileNotFoundError:
                pass  # not all three files always exist

    def _connect(self) -> sqlite3.Connection:
        if self._is_short or not self._room.is_enough() or is_open_in_parent(self._path):
            return self._opened(":memory:")
        try:
            return self._opened(self._path)
        except sqlite3.DatabaseError:
            self._remove()
            try:
                return self._opened(self._path)
            except sqlite3.Error:
                return self._opened(":memory:")  # a read-only store can still be searched

    def _opened(self, path: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, factory=_Connection)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=OFF")  # derived data: rebuilt if a crash damages it
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version != TURN_INDEX_VERSION:
                if version or db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise sqlite3.DatabaseError("of another version")
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute("COMMIT")
        except sqlite3.Error:
            db.close()
            raise
        self._is_file = path == self._path
        if self._is_file:
            close_in_children(db, path)
        return db


def _sum(*values: object) -> int:
    return crc32("\0".join(map(str, values)).encode("utf-8", "surrogatepass"))


def _checked(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows without their checksum column. Raises sqlite3.DatabaseError if a checksum is wrong: see ``_safely``."""
    for held, *values in rows:
        if held != _sum(*values):
            raise sqlite3.DatabaseError("a row differs from what was written")
    return [row[1:] for row in rows]


def _token(item_id: str) -> str:
    """The single word for a session's id in the index."""
    return item_id.replace("_", "").lower()


def _scope(session: str, but: str) -> str:
    if session:
        return f' AND session : "{_token(session)}"'
    return f' NOT session : "{_token(but)}"' if but else ""


def _turn_of(row: IndexedRecord) -> int:
    """The turn in the summary of an episode's record, as ``persistence.run_log`` writes it; 0 without one."""
    words = row.summary.split(" ", 2)
    return int(words[1]) if len(words) == 3 and words[0] == "turn" and words[1].isdigit() else 0


class StoredTurns:
    """The turns of one session; satisfies ``tape.history.turn_source.Turns``. ``item_id`` is the id of the session's entity."""

    def __init__(self, index: TurnIndex, item_id: str) -> None:
        self._index = index
        self._item_id = item_id

    def episodes(self, turn: int) -> Sequence[Episode]:
        return self._index.episodes(self._item_id, turn)

    def titles(self) -> Sequence[tuple[int, str]]:
        return self._index.titles(self._item_id)

    def texts(self) -> Iterator[tuple[int, str]]:
        return self._index.texts(self._item_id)
