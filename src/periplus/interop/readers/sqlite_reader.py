"""Reader of an agent's SQLite database, which is untrusted: the schema is checked, and no file is written beside it.

A database without a log beside it is read directly; with a log, through SQLite's locks. Rows are read one by one, so
that memory holds only the numbers of the rows of a session.
"""

from __future__ import annotations

__all__ = ["SQLITE_MARK", "SqliteReader", "has_tables"]

import os
import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Self, TypeAlias

from periplus.base.errors import FormatError
from periplus.interop.readers.line_reader import LINE_BYTES_MAX, open_regular

SQLITE_MARK: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_TABLES_MAX: Final = 1000
_UNSAFE_JSON: Final = "unsafe use of json_"

# Tables with the columns that they must have.
Needed: TypeAlias = Mapping[str, AbstractSet[str]]


def has_tables(path: str, needed: Needed) -> bool:
    """Test that the SQLite database at ``path`` has these tables."""
    try:
        with SqliteReader(path, "an agent's", needed):
            return True
    except FormatError:
        return False


class SqliteReader:
    """Context manager: ``with SqliteReader(path, "crush", needed) as database``. Raises FormatError for databases
    without the ``needed`` tables; a view in the place of a table is none.

    Texts are bytes in ``rows``, whatever SQLite takes them for, and decoded in ``record``.
    """

    def __init__(self, path: str, program: str, needed: Needed) -> None:
        self.path = path
        self._program = program
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
            self._trust_json()
            self._known = {table: self._columns(table) for table in self._tables()}
            self._check_tables(needed)
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
            f"not a readable {self._program} database: {error}",
            path=self.path,
            safe="Nothing was changed in it.",
            mend=f"If {self._program} is running, stop it and repeat the command.",
        )

    def _check_size(self, header: bytes, size: int) -> None:
        """Detect a truncated file: SQLite takes the missing end for zeros."""
        page_bytes = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
        whole = pages * (65536 if page_bytes == 1 else page_bytes)
        if size < whole:
            raise FormatError(
                "the database is cut off", path=self.path, offset=size, safe="Nothing was imported.",
                mend=f"Copy it again while {self._program} is not running.",
            )  # fmt: skip

    def _trust_json(self) -> None:
        """Allow an index over JSON functions: SQLite 3.40 counts its own among those that a schema may not call.

        No code of others can run by that: the connection has no functions of ours, extensions are off, and SQLite
        refuses functions with side effects in a schema all the same.
        """
        try:
            self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
        except sqlite3.DatabaseError as error:
            if _UNSAFE_JSON not in str(error):
                raise
            self._connection.execute("PRAGMA trusted_schema=ON")

    def _tables(self) -> list[str]:
        """Return the names of the tables, at most ``_TABLES_MAX``."""
        found = self._connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        return [
            bytes(name).decode("utf-8", "replace")
            for name, sql in found.fetchmany(_TABLES_MAX)
            if isinstance(sql, bytes) and sql.upper().startswith(b"CREATE TABLE")
        ]

    def _columns(self, table: str) -> frozenset[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return frozenset(bytes(name).decode("utf-8", "replace") for (name,) in rows)

    def _check_tables(self, needed: Needed) -> None:
        if not all(columns <= self.columns(table) for table, columns in needed.items()):
            raise FormatError("no sessions in it", path=self.path, safe="Nothing was imported.")

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; none where the database has no such table."""
        return self._known.get(table, frozenset())

    def rows(self, query: str, values: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise self._refused(error) from error

    def numbers(self, query: str, values: tuple[str, ...] = ()) -> array[int]:
        """Return the whole numbers in the first column, 8 bytes each: the rows of a session in their order."""
        try:
            found = (row[0] for row in self._connection.execute(query, values))
            return array("q", (number for number in found if isinstance(number, int)))
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise self._refused(error) from error

    def cell(self, table: str, column: str, row: object) -> bytes:
        """Return the text in a row as bytes; empty where it is too large, or no text."""
        found = self._row(table, (column,), row)
        return found[0] if found is not None and isinstance(found[0], bytes) else b""

    def record(self, table: str, columns: Sequence[str], row: object) -> dict[str, object] | None:
        """Return these columns of a row, as far as the table has them, with texts decoded; None for a row that is too
        large.
        """
        known = self.columns(table)
        names = [name for name in columns if name in known]
        found = self._row(table, names, row)
        if found is None:
            return None
        texts = (one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in found)
        return dict(zip(names, texts, strict=True))

    def _row(self, table: str, columns: Sequence[str], row: object) -> tuple[object, ...] | None:
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE rowid = ?"  # noqa: S608 - names of the caller's module
        try:
            found: tuple[object, ...] | None = self._connection.execute(query, (row,)).fetchone()
        except sqlite3.DataError:
            return None
        except sqlite3.Error as error:
            raise self._refused(error) from error
        return found


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(os.fsencode(path))
