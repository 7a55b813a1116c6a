"""Storage of Goose's sessions: its database ``sessions.db``, and the file of lines of one session in older versions.

Of tokens both have the sums of a session. No session names another one, not even that of a subagent.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

import os
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.session_tree import Branch, Card, feed_rows, import_tree
from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.goose.session import GooseImporter
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import text_of
from periplus.interop.readers.sqlite_reader import SQLITE_MARK, SqliteReader, has_tables

_NEEDED: Final = {
    "sessions": {"id", "working_dir", "created_at"},
    "messages": {"id", "session_id", "role", "content_json", "created_timestamp"},
}
_CARD: Final = (
    "id", "working_dir", "created_at", "updated_at", "session_type", "accumulated_input_tokens", "accumulated_output_tokens",
    "model_config_json",
)  # fmt: skip
_MESSAGE: Final = ("role", "content_json", "created_timestamp", "metadata_json")


def is_mine(head: Head) -> bool:
    if head.data.startswith(SQLITE_MARK):
        return has_tables(head.path, _NEEDED)
    return any(
        text_of(record.get("role")) in ("assistant", "user")
        and isinstance(record.get("created"), int)
        and isinstance(record.get("content"), list)
        for record in head.records[:8]
    )


def read(source: Source) -> Iterator[Imported]:
    if Head.of(source.path).data.startswith(SQLITE_MARK):
        yield from _read_database(source)
    else:
        intake = source.intake()
        importer = GooseImporter(intake)
        digest, status = source.read_lines(importer, intake)
        intake.session_id = os.path.splitext(os.path.basename(source.path))[0]  # it is named by nothing else
        yield source.trail(intake, "goose", digest, status)


def _read_database(source: Source) -> Iterator[Imported]:
    with _Database(source.path) as database:

        def import_one(branch: Branch) -> Imported:
            card, intake, *_ = branch
            importer = GooseImporter(intake)
            importer.learn(card.values)
            digest = feed_rows(branch, database.messages(text_of(card.values.get("id"))), importer.feed_row)
            status = importer.finish()
            kind = text_of(card.values.get("session_type")) or "user"
            agent = "goose" if kind in ("hidden", "scheduled", "terminal", "user") else f"goose/{kind}"
            return source.trail(intake, "goose", digest, status, agent=agent)

        yield from import_tree(source, database, "working_dir", import_one)


class _Database(SqliteReader):
    def __init__(self, path: str) -> None:
        super().__init__(path, "goose", _NEEDED)

    @property
    def count(self) -> int:
        ((number,),) = self.rows("SELECT count(*) FROM sessions")
        return number if isinstance(number, int) else 0

    def roots(self) -> Iterator[Card]:
        for row in self.numbers("SELECT rowid FROM sessions ORDER BY created_at, rowid"):
            card = self.record("sessions", _CARD, row)
            if card is not None:
                yield Card(card, repr(card).encode("utf-8", "replace"))

    def children(self, session_id: str) -> Iterator[Card]:  # noqa: ARG002 - any store of sessions is asked so
        """Return nothing: no session names another one."""
        yield from ()

    def messages(self, session_id: str) -> Iterator[dict[str, object] | None]:
        query = "SELECT rowid FROM messages WHERE session_id = ? ORDER BY id, rowid"
        for row in self.numbers(query, (session_id,)):
            yield self.record("messages", _MESSAGE, row)
