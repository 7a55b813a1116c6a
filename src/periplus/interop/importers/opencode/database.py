"""Reader of opencode's database, which is untrusted: the schema is checked, and no file is written beside it.

A database without a log beside it is read directly; with a log, through SQLite's locks. Memory holds only the order
of one session's messages and parts, as numbers.
"""

from __future__ import annotations

__all__ = ["Database", "is_opencode"]

import os
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from typing import Final, Self

from periplus.base.errors import FormatError
from periplus.interop.importers.opencode.session import Card, Message
from periplus.interop.readers.json_values import decode_table
from periplus.interop.readers.line_reader import LINE_BYTES_MAX, open_regular

_COLUMNS: Final = ("id", "parent_id", "directory", "version", "time_created", "time_updated")
_NEEDED: Final = {"message": {"id", "session_id", "data"}, "part": {"id", "message_id", "data"}}
_HEADER_BYTES: Final = 100
_MESSAGES: Final = (
    "SELECT m.rowid, p.rowid FROM message m LEFT JOIN part p ON p.message_id = m.id WHERE m.session_id = ?"
)
_MESSAGES_BY_TIME: Final = f"{_MESSAGES} ORDER BY m.time_created, m.id, p.id"
_MESSAGES_BY_ID: Final = f"{_MESSAGES} ORDER BY m.id, p.id"


def is_opencode(path: str) -> bool:
    """Test that the SQLite database at ``path`` has the tables of this agent."""
    try:
        with Database(path):
            return True
    except FormatError:
        return False


class Database:
    """Context manager: ``with Database(path) as database``. Raises FormatError for other databases."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open_regular(path) as fd:  # a pipe or a folder is refused before SQLite waits for it
            self._check_size(os.read(fd, _HEADER_BYTES), os.fstat(fd).st_size)
        # A log beside the file means a possible writer. Without one the file is opened as immutable, because
        # otherwise SQLite would make files beside it.
        mode = "mode=ro" if os.path.lexists(path + "-wal") else "mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(f"file:{_quoted(os.path.abspath(path))}?{mode}", uri=True)
        except (sqlite3.Error, ValueError) as error:
            raise self._refused(error) from error
        try:
            self._connection.text_factory = bytes
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LINE_BYTES_MAX)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "temp_store=MEMORY"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._check_tables()
        except BaseException as error:  # no caller can close it yet
            self._connection.close()
            if isinstance(error, sqlite3.Error | ValueError):
                raise self._refused(error) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _refused(self, error: Exception) -> FormatError:
        return FormatError(
            f"not a readable opencode database: {error}",
            path=self.path,
            safe="Nothing was changed in it.",
            mend="If opencode is running, stop it and repeat the command.",
        )

    def _check_size(self, header: bytes, size: int) -> None:
        """Detect a truncated file: SQLite takes the missing end for zeros."""
        page_bytes = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
        whole = pages * (65536 if page_bytes == 1 else page_bytes)
        if size < whole:
            raise FormatError(
                "the database is cut off", path=self.path, offset=size, safe="Nothing was imported.",
                mend="Copy it again while opencode is not running.",
            )  # fmt: skip

    def _check_tables(self) -> None:
        found = {
            bytes(name).decode("utf-8", "replace")
            for name, sql in self._connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
            if isinstance(sql, bytes) and sql.upper().startswith(b"CREATE TABLE")
        }
        for table, needed in _NEEDED.items():
            if table not in found or not needed <= self._columns(table):
                raise FormatError("no sessions in it", path=self.path, safe="Nothing was imported.")
        self._has_sessions = "session" in found and "id" in self._columns("session")
        self._card = [name for name in _COLUMNS if self._has_sessions and name in self._columns("session")]
        self._has_times = "time_created" in self._columns("message")

    def _columns(self, table: str) -> set[str]:
        rows = self._connection.execute(f"PRAGMA table_info({table})")  # a name of this module
        return {bytes(row[1]).decode("utf-8", "replace") for row in rows}

    @property
    def count(self) -> int:
        try:
            (number,) = self._connection.execute("SELECT count(DISTINCT session_id) FROM message").fetchone()
        except sqlite3.Error as error:
            raise self._refused(error) from error
        return int(number)

    def roots(self) -> Iterator[Card]:
        """Yield the sessions without a parent in the database."""
        if not self._has_sessions:
            rows = self._rows("SELECT DISTINCT session_id FROM message ORDER BY session_id")
            for (session_id,) in rows:
                yield _card({"id": session_id})
            return
        where = ""
        if "parent_id" in self._card:
            where = " WHERE parent_id IS NULL OR parent_id = id OR parent_id NOT IN (SELECT id FROM session)"
        yield from self._cards(where, ())

    def children(self, session_id: str) -> Iterator[Card]:
        if "parent_id" in self._card:
            yield from self._cards(" WHERE parent_id = ? AND id <> parent_id", (session_id,))

    def _cards(self, where: str, values: tuple[str, ...]) -> Iterator[Card]:
        for row in self._rows(f"SELECT {', '.join(self._card)} FROM session{where} ORDER BY id", values):  # noqa: S608 - names of this module
            yield _card(dict(zip(self._card, row, strict=True)))

    def messages(self, session_id: str) -> Iterator[Message]:
        order = self._rows(_MESSAGES_BY_TIME if self._has_times else _MESSAGES_BY_ID, (session_id,))
        for message_row, pairs in groupby(order, key=lambda pair: pair[0]):
            data = self._data("message", message_row)
            whole = [data]
            parts = []
            for _, part_row in pairs:
                if part_row is not None:
                    part = self._data("part", part_row)
                    whole.append(part)
                    parts.append(decode_table(part))
            yield Message(decode_table(data), parts, b"\n".join(whole))

    def _rows(self, query: str, values: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise self._refused(error) from error

    def _data(self, table: str, row: object) -> bytes:
        """Return the JSON text of a row; empty where it is too large, or no text."""
        try:
            query = f"SELECT data FROM {table} WHERE rowid = ?"  # noqa: S608 - a name of this module
            found = self._connection.execute(query, (row,)).fetchone()
        except sqlite3.DataError:
            return b""
        except sqlite3.Error as error:
            raise self._refused(error) from error
        return found[0] if found is not None and isinstance(found[0], bytes) else b""


def _card(row: dict[str, object]) -> Card:
    texts = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for name, value in row.items()
    }
    card: dict[str, object] = {
        "id": texts.get("id"),
        "parentID": texts.get("parent_id"),
        "directory": texts.get("directory"),
        "version": texts.get("version"),
        "time": {"created": texts.get("time_created"), "updated": texts.get("time_updated")},
    }
    return Card(card, repr([texts.get(name) for name in _COLUMNS[:4]]).encode())


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(os.fsencode(path))
