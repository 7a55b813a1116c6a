"""Importer of Crush's sessions, which are in a database of the project, ``.crush/crush.db``.

Format: a message is a row with a list of parts as JSON; results are messages of their own; a subagent's session names
its parent, and its id holds the call that started it. Times are seconds; the tokens of a session are those of its last
model call, so they are no sum and are left out.
"""

from __future__ import annotations

__all__ = ["CrushImporter", "is_mine", "read"]

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.interop.conversion.conversation import Chat
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.session_tree import Branch, Card, feed_rows, import_tree
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_value, milliseconds_of, optional_text, table_of, text_of
from periplus.interop.readers.sqlite_reader import SQLITE_MARK, SqliteReader, has_tables
from periplus.trail.model import Digest, Outcome, Status

_NEEDED: Final = {
    "sessions": {"id", "parent_session_id", "title", "created_at"},
    "messages": {"id", "session_id", "role", "parts", "created_at"},
}
_MESSAGE: Final = ("id", "role", "parts", "model", "created_at", "is_summary_message")
_SECONDS_MAX: Final = 100_000_000_000  # a larger number of a clock is one of milliseconds
_STOPS: Final[dict[str, Status]] = {"canceled": "cancelled", "error": "error", "content_filter": "error"}
_FILES: Final = frozenset({"binary", "image_url"})
_EXIT_CODE: Final = re.compile(r"(?:^|\n)Exit code (-?\d{1,9})\s*(?:$|\n)")
_DENIED: Final = "User denied permission"


def is_mine(head: Head) -> bool:
    return head.data.startswith(SQLITE_MARK) and has_tables(head.path, _NEEDED)


def read(source: Source) -> Iterator[Imported]:
    with _Database(source.path) as database:

        def import_one(branch: Branch) -> Imported:
            return _session_of(source, database, branch)

        yield from import_tree(source, database, "folder", import_one)


def _session_of(source: Source, database: _Database, branch: Branch) -> Imported:
    card, intake, children, is_child = branch
    session_id = text_of(card.values.get("id"))
    importer = CrushImporter(intake, children)
    importer.learn(card.values)
    digest = feed_rows(branch, database.messages(session_id), importer.feed)
    status = importer.finish()
    agent = "crush/subagent" if is_child else "crush"
    return source.trail(intake, "crush", digest, status, session_id, agent=agent, children=tuple(children.values()))


class _Database(SqliteReader):
    def __init__(self, path: str) -> None:
        super().__init__(path, "crush", _NEEDED)
        folder = os.path.dirname(os.path.abspath(path))
        self._folder = os.path.dirname(folder) if os.path.basename(folder) == ".crush" else None

    @property
    def count(self) -> int:
        ((number,),) = self.rows("SELECT count(*) FROM sessions WHERE parent_session_id IS NULL")
        return number if isinstance(number, int) else 0

    def roots(self) -> Iterator[Card]:
        yield from self._cards(
            "parent_session_id IS NULL OR parent_session_id = id OR parent_session_id NOT IN (SELECT id FROM sessions)"
        )

    def children(self, session_id: str) -> Iterator[Card]:
        # An older version asked for a title in a session of its own, which is none of an agent.
        where = "parent_session_id = ? AND id <> parent_session_id AND id <> 'title-' || parent_session_id"
        yield from self._cards(where, (session_id,))

    def _cards(self, where: str, values: tuple[str, ...] = ()) -> Iterator[Card]:
        for row in self.numbers(f"SELECT rowid FROM sessions WHERE {where} ORDER BY created_at, rowid", values):  # noqa: S608 - texts of this module
            card = self.record("sessions", ("id", "created_at"), row)
            if card is not None:
                yield Card({**card, "folder": self._folder}, repr(card).encode("utf-8", "replace"))

    def messages(self, session_id: str) -> Iterator[dict[str, object] | None]:
        query = "SELECT rowid FROM messages WHERE session_id = ? ORDER BY created_at, rowid"
        for row in self.numbers(query, (session_id,)):
            yield self.record("messages", _MESSAGE, row)


class CrushImporter:
    """Takes a session's card, then each row of its messages. ``children`` are trails by the ids of their sessions."""

    def __init__(self, intake: Intake, children: Mapping[str, Imported]) -> None:
        self._intake = intake
        self._chat = Chat(intake)
        self._children = children

    def learn(self, card: dict[str, object]) -> None:
        self._intake.session_id = optional_text(card.get("id"))
        self._intake.cwd = optional_text(card.get("folder"))
        self._intake.note_time(_time_of(card.get("created_at")))

    def feed(self, number: int, row: dict[str, object]) -> None:
        intake = self._intake
        intake.source = number
        intake.note_time(_time_of(row.get("created_at")))
        parts = decode_value(text_of(row.get("parts")).encode("utf-8", "replace"))
        if not isinstance(parts, list):
            intake.skip("parts that cannot be read")
            return
        role = text_of(row.get("role"))
        if role == "user":
            self._user(parts)
        elif role in ("assistant", "tool"):
            intake.model = optional_text(row.get("model")) or intake.model
            for part in map(table_of, parts):
                self._part(text_of(part.get("type")), table_of(part.get("data")), row)
        elif role == "system":
            intake.skip("role: system")
        else:
            intake.note_unknown(f"role: {role or 'none'}")

    def finish(self) -> Status:
        return self._chat.finish()

    def _user(self, parts: list[object]) -> None:
        texts, has_file, is_local = [], False, False
        for part in map(table_of, parts):
            kind = text_of(part.get("type"))
            if kind == "text":
                texts.append(text_of(table_of(part.get("data")).get("text")))
            elif kind == "shell_command":
                is_local = True
                self._intake.skip("local command")
            elif kind in _FILES:
                has_file = True
            elif kind != "finish":
                self._intake.note_unknown(f"part: {kind or 'unnamed'}")
        if any(texts) or has_file or not is_local:
            self._chat.prompt("\n".join(filter(None, texts)), "with a file" if has_file else None)

    def _part(self, kind: str, data: dict[str, object], row: dict[str, object]) -> None:
        chat = self._chat
        if kind == "text" and row.get("is_summary_message") == 1:
            chat.think(text_of(data.get("text")), "summary of what was compacted")
        elif kind == "text":
            chat.say(text_of(data.get("text")))
        elif kind == "reasoning":
            chat.think(text_of(data.get("thinking")))
        elif kind == "tool_call":
            self._call(text_of(row.get("id")), data)
        elif kind == "tool_result":
            self._result(data)
        elif kind == "finish":
            self._end(data)
        elif kind in _FILES:
            self._intake.skip(f"part: {kind}")
        else:
            self._intake.note_unknown(f"part: {kind or 'unnamed'}")

    def _call(self, message_id: str, data: dict[str, object]) -> None:
        call_id = text_of(data.get("id"))
        call = self._chat.call(call_id, text_of(data.get("name")), data.get("input"))
        child = self._children.get(f"{message_id}$${call_id}")
        if child is not None and call.steps[0].op == "AGENT_SPAWN" and not call.is_ready:
            call.steps[0].operands[2] = Digest("sha256", child.trail_digest)

    def _result(self, data: dict[str, object]) -> None:
        text = text_of(data.get("content"))
        is_error = data.get("is_error") is True
        outcome: Outcome = "failed" if is_error else "ok"
        if is_error and text.startswith(_DENIED):
            outcome = "denied"
        code = _EXIT_CODE.search(text) if data.get("name") == "bash" else None
        self._chat.result(text_of(data.get("tool_call_id")), outcome, text, int(code.group(1)) if code else None)

    def _end(self, data: dict[str, object]) -> None:
        at_ms = _time_of(data.get("time"))
        if at_ms:
            self._intake.note_time(at_ms)
        reason = text_of(data.get("reason"))
        stop = _STOPS.get(reason)
        if stop == "cancelled":
            self._chat.interrupt()
        elif stop is not None:
            self._chat.status = stop
        elif reason in ("max_tokens", "tool_use"):
            self._intake.note_unfinished("it ends in the middle of a turn")


def _time_of(value: object) -> int | None:
    """Return milliseconds for a time of Crush: seconds, and in its oldest version milliseconds."""
    is_seconds = isinstance(value, int | float) and value < _SECONDS_MAX
    return milliseconds_of(value, 1000 if is_seconds else 1)
