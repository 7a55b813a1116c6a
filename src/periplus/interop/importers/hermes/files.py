"""Storage of Hermes' sessions: its database ``state.db``, and the document of one session that older versions wrote.

The database has the sums of the tokens of a session by model. A subagent's session names its parent, as do sessions
that continue or branch off another one, which stay sessions of their own.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.session_tree import Branch, Card, feed_rows, import_tree
from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.hermes.session import HermesImporter
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import list_of, table_of, text_of
from periplus.interop.readers.sqlite_reader import SQLITE_MARK, SqliteReader, has_tables

_NEEDED: Final = {
    "sessions": {"id", "source", "parent_session_id", "model_config", "started_at"},
    "messages": {"id", "session_id", "role", "content", "tool_calls", "tool_call_id", "timestamp"},
}
_CARD: Final = (
    "id", "source", "model", "started_at", "ended_at", "end_reason", "cwd", "git_branch", "title", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens",
)  # fmt: skip
_MESSAGE: Final = (
    "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "finish_reason", "reasoning", "reasoning_content",
    "observed", "active", "compacted",
)  # fmt: skip
_USAGE: Final = ("model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_SESSIONS_OF_OTHERS: Final = (
    "source IS NOT 'subagent' OR parent_session_id IS NULL OR parent_session_id = id"
    " OR parent_session_id NOT IN (SELECT id FROM sessions)"
)


def is_mine(head: Head) -> bool:
    if head.data.startswith(SQLITE_MARK):
        return has_tables(head.path, _NEEDED)
    members = head.document.members
    is_card = isinstance(members.get("session_id"), str) and "session_start" in members and "message_count" in members
    return is_card and any("role" in table_of(message) for message in list_of(members.get("messages")))


def read(source: Source) -> Iterator[Imported]:
    if Head.of(source.path).data.startswith(SQLITE_MARK):
        yield from _read_database(source)
    else:
        intake = source.intake()
        importer = HermesImporter(intake)
        digest, status = source.read_document(importer, intake, [("messages",)], importer.learn_member)
        yield source.trail(intake, "hermes", digest, status)


def _read_database(source: Source) -> Iterator[Imported]:
    tasks: dict[str, bytes] = {}  # first prompt of a subagent → its trail

    with _Database(source.path) as database:

        def import_one(branch: Branch) -> Imported:
            card, intake, children, is_child = branch
            importer = HermesImporter(intake, tasks if children else {})
            session_id = text_of(card.values.get("id"))
            importer.learn(card.values, database.usages(session_id))
            digest = feed_rows(branch, database.messages(session_id), importer.feed_row)
            status = importer.finish()
            imported = source.trail(
                intake,
                "hermes",
                digest,
                status,
                agent="hermes/subagent" if is_child else "hermes",
                children=tuple(children.values()),
            )
            if not is_child:
                tasks.clear()
            elif importer.first_prompt:
                tasks[importer.first_prompt] = imported.trail_digest
            return imported

        yield from import_tree(source, database, "cwd", import_one)


class _Database(SqliteReader):
    def __init__(self, path: str) -> None:
        super().__init__(path, "hermes", _NEEDED)
        self._has_usages = {*_USAGE, "session_id"} <= self.columns("session_model_usage")

    @property
    def count(self) -> int:
        ((number,),) = self.rows("SELECT count(*) FROM sessions WHERE source IS NOT 'subagent'")
        return number if isinstance(number, int) else 0

    def roots(self) -> Iterator[Card]:
        yield from self._cards(_SESSIONS_OF_OTHERS)

    def children(self, session_id: str) -> Iterator[Card]:
        yield from self._cards(
            "source = 'subagent' AND parent_session_id = ? AND id <> parent_session_id", (session_id,)
        )

    def _cards(self, where: str, values: tuple[str, ...] = ()) -> Iterator[Card]:
        for row in self.numbers(f"SELECT rowid FROM sessions WHERE {where} ORDER BY started_at, rowid", values):  # noqa: S608 - texts of this module
            card = self.record("sessions", _CARD, row)
            if card is not None:
                yield Card(card, repr(card).encode("utf-8", "replace"))

    def messages(self, session_id: str) -> Iterator[dict[str, object] | None]:
        for row in self.numbers("SELECT rowid FROM messages WHERE session_id = ? ORDER BY id, rowid", (session_id,)):
            yield self.record("messages", _MESSAGE, row)

    def usages(self, session_id: str) -> list[dict[str, object]]:
        """Return the tokens of a session by model; none where the database has only their sums."""
        if not self._has_usages:
            return []
        columns = ", ".join((_USAGE[0], *(f"sum({name})" for name in _USAGE[1:])))
        query = (
            f"SELECT {columns} FROM session_model_usage WHERE session_id = ? GROUP BY model ORDER BY model LIMIT 100"  # noqa: S608 - names of this module
        )
        found = self.rows(query, (session_id,))
        texts = ([one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in row] for row in found)
        return [dict(zip(_USAGE, row, strict=True)) for row in texts]
