"""Importer of OpenClaw's database: the records of Pi's sessions, a row each, of all sessions of one of its agents.

Format: the first record of a session is its card; the keys of sessions tell which one began a subagent. A record that
OpenClaw has compressed is counted and not read.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

import hashlib
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.session_tree import Branch, Card, import_tree
from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.pi.session import PiImporter
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, text_of
from periplus.interop.readers.sqlite_reader import SQLITE_MARK, SqliteReader, has_tables

_NEEDED: Final = {"transcript_events": {"session_id", "seq", "event_json"}}
_NODES: Final = {"session_key", "spawned_by"}
_WINDOWS: Final = {"session_id", "session_key"}
_EVENTS: Final = "SELECT rowid FROM transcript_events WHERE session_id = ? ORDER BY seq, rowid"
_SESSIONS: Final = "SELECT DISTINCT session_id FROM transcript_events"
# Sessions with the keys of those that began them.
_SPAWNED: Final = (
    "FROM session_windows AS child JOIN session_nodes AS node ON node.session_key = child.session_key"
    " JOIN session_windows AS parent ON parent.session_key = node.spawned_by AND parent.session_id <> child.session_id"
)


def is_mine(head: Head) -> bool:
    return head.data.startswith(SQLITE_MARK) and has_tables(head.path, _NEEDED)


def read(source: Source) -> Iterator[Imported]:
    with _Database(source.path) as database:

        def import_one(branch: Branch) -> Imported:
            return _session_of(source, database, branch)

        yield from import_tree(source, database, "cwd", import_one)


def _session_of(source: Source, database: _Database, branch: Branch) -> Imported:
    card, intake, children, is_child = branch
    session_id = text_of(card.values.get("id"))
    importer = PiImporter(intake)
    intake.session_id = session_id
    sha256 = hashlib.sha256(card.data)
    count = 0
    for event in database.events(session_id):
        count += 1
        sha256.update(b"%d:%b" % (len(event), event))
        if not importer.feed(count, event):
            intake.note_unreadable(count)
    intake.count("lines", count)
    status = importer.finish()
    agent = "openclaw/subagent" if is_child else "openclaw"
    return source.trail(
        intake, "openclaw", sha256.digest(), status, session_id, agent=agent, children=tuple(children.values())
    )


class _Database(SqliteReader):
    def __init__(self, path: str) -> None:
        super().__init__(path, "openclaw", _NEEDED)
        self._has_keys = self.columns("session_nodes") >= _NODES and self.columns("session_windows") >= _WINDOWS

    @property
    def count(self) -> int:
        ((number,),) = self.rows("SELECT count(DISTINCT session_id) FROM transcript_events")
        return number if isinstance(number, int) else 0

    def roots(self) -> Iterator[Card]:
        where = ""
        if self._has_keys:
            where = f" WHERE session_id NOT IN (SELECT child.session_id {_SPAWNED} WHERE child.session_id IS NOT NULL)"
        yield from self._cards(f"{_SESSIONS}{where} ORDER BY session_id")

    def children(self, session_id: str) -> Iterator[Card]:
        if self._has_keys:
            spawned = f"SELECT child.session_id {_SPAWNED} WHERE parent.session_id = ?"
            yield from self._cards(f"{_SESSIONS} WHERE session_id IN ({spawned}) ORDER BY session_id", (session_id,))

    def _cards(self, query: str, values: tuple[str, ...] = ()) -> Iterator[Card]:
        for (found,) in self.rows(query, values):
            if isinstance(found, bytes):
                session_id = found.decode("utf-8", "replace")
                first = next(self.events(session_id), b"")
                yield Card({"id": session_id, "cwd": (decode_table(first) or {}).get("cwd")}, found)

    def events(self, session_id: str) -> Iterator[bytes]:
        """Yield the records of a session; empty where one is compressed or too large."""
        for row in self.numbers(_EVENTS, (session_id,)):
            yield self.cell("transcript_events", "event_json", row)
