"""Sessions in opencode's database, in the form of its files."""

from __future__ import annotations

__all__ = ["Database", "agent_of"]

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from periplus.base.errors import FormatError
from periplus.interop.conversion.session_tree import Card
from periplus.interop.importers.opencode.session import Message
from periplus.interop.readers.json_values import decode_table
from periplus.interop.readers.sqlite_reader import SqliteReader

_COLUMNS: Final = ("id", "parent_id", "directory", "version", "time_created", "time_updated")
_NEEDED: Final = {"message": {"id", "session_id", "data"}, "part": {"id", "message_id", "data"}}
_KILO: Final = "kilo_board"  # a table that opencode has not
_MESSAGES: Final = (
    "SELECT m.rowid, p.rowid FROM message m LEFT JOIN part p ON p.message_id = m.id WHERE m.session_id = ?"
)
_MESSAGES_BY_TIME: Final = f"{_MESSAGES} ORDER BY m.time_created, m.id, p.id"
_MESSAGES_BY_ID: Final = f"{_MESSAGES} ORDER BY m.id, p.id"


def agent_of(path: str) -> str:
    """Return the agent whose tables the SQLite database at ``path`` has: opencode, kilo-code, or none."""
    try:
        with Database(path) as database:
            return database.agent
    except FormatError:
        return ""


class Database(SqliteReader):
    """Context manager: ``with Database(path) as database``. Raises FormatError for other databases. ``agent`` is
    opencode, or Kilo Code, which is based on it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "opencode", _NEEDED)
        self.agent = "kilo-code" if self.columns(_KILO) else "opencode"
        known = self.columns("session")
        self._has_sessions = "id" in known
        self._card = [name for name in _COLUMNS if self._has_sessions and name in known]
        self._has_times = "time_created" in self.columns("message")

    @property
    def count(self) -> int:
        ((number,),) = self.rows("SELECT count(DISTINCT session_id) FROM message")
        return number if isinstance(number, int) else 0

    def roots(self) -> Iterator[Card]:
        """Yield the sessions without a parent in the database."""
        if not self._has_sessions:
            rows = self.rows("SELECT DISTINCT session_id FROM message ORDER BY session_id")
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
        for row in self.rows(f"SELECT {', '.join(self._card)} FROM session{where} ORDER BY id", values):  # noqa: S608 - names of this module
            yield _card(dict(zip(self._card, row, strict=True)))

    def messages(self, session_id: str) -> Iterator[Message]:
        order = self.rows(_MESSAGES_BY_TIME if self._has_times else _MESSAGES_BY_ID, (session_id,))
        for message_row, pairs in groupby(order, key=lambda pair: pair[0]):
            data = self.cell("message", "data", message_row)
            whole = [data]
            parts = []
            for _, part_row in pairs:
                if part_row is not None:
                    part = self.cell("part", "data", part_row)
                    whole.append(part)
                    parts.append(decode_table(part))
            yield Message(decode_table(data), parts, b"\n".join(whole))


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
