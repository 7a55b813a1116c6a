"""Importer of Hermes' sessions: its database ``state.db``, and the document of one session that older versions wrote.

Format: messages as they are sent to a model; results of tools are JSON with an exit code. The database has the sums of
the tokens of a session by model. Compaction marks messages and writes those again that stay; a subagent's session
names its parent, as do sessions that continue or branch off another one, which stay sessions of their own.
"""

from __future__ import annotations

__all__ = ["HermesImporter", "is_mine", "read"]

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.interop.conversion import chat_messages
from periplus.interop.conversion.conversation import Chat, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.session_tree import Branch, Card, import_tree
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_stream import Element
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    decode_value,
    integer_of,
    list_of,
    milliseconds_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.interop.readers.sqlite_reader import SQLITE_MARK, SqliteReader, has_tables
from periplus.trail.model import Digest, Outcome, Status

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
_CODED: Final = "\0json:"  # before a content that is no text
_COMPACTED_MAX: Final = 200_000
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
            importer.learn(card.values, database.usages(text_of(card.values.get("id"))))
            sha256 = hashlib.sha256(card.data)
            count = 0
            for row in database.messages(text_of(card.values.get("id"))):
                count += 1
                sha256.update(repr(row).encode("utf-8", "replace"))
                if row is None:
                    intake.note_unreadable(count)
                else:
                    importer.feed_row(count, row)
            intake.count("lines", count)
            status = importer.finish()
            imported = source.trail(
                intake,
                "hermes",
                sha256.digest(),
                status,
                agent="hermes/subagent" if is_child else "hermes",
                children=tuple(children.values()),
            )
            if is_child and importer.first_prompt:
                tasks[importer.first_prompt] = imported.trail_digest
            else:
                tasks.clear()
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
        for (row,) in self.rows(f"SELECT rowid FROM sessions WHERE {where} ORDER BY started_at, rowid", values):  # noqa: S608 - texts of this module
            card = self.record("sessions", _CARD, row)
            if card is not None:
                yield Card(card, repr(card).encode("utf-8", "replace"))

    def messages(self, session_id: str) -> Iterator[dict[str, object] | None]:
        for (row,) in self.rows("SELECT rowid FROM messages WHERE session_id = ? ORDER BY id, rowid", (session_id,)):
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


class HermesImporter:
    """Takes the facts of a session, then its messages. ``tasks`` are the trails of subagents by their tasks."""

    def __init__(self, intake: Intake, tasks: Mapping[str, bytes] | None = None) -> None:
        self._intake = intake
        self._chat = Chat(intake)
        self._moment = Moment()
        self._tasks = tasks or {}
        self._compacted: dict[int, int] = {}  # hashes of messages that compaction took out of the context

    @property
    def first_prompt(self) -> str | None:
        return self._chat.first_prompt

    # Facts

    def learn(self, card: dict[str, object], usages: list[dict[str, object]]) -> None:
        intake = self._intake
        intake.session_id = optional_text(card.get("id"))
        intake.cwd = optional_text(card.get("cwd"))
        intake.branch = optional_text(card.get("git_branch"))
        intake.model = optional_text(card.get("model"))
        for name in ("ended_at", "started_at"):
            at_ms = milliseconds_of(card.get(name), 1000)
            if at_ms is not None:
                intake.note_time(at_ms)
        for usage in usages or [card]:
            fresh = natural_of(usage.get("input_tokens")) + natural_of(usage.get("cache_write_tokens"))
            cached, out = natural_of(usage.get("cache_read_tokens")), natural_of(usage.get("output_tokens"))
            if fresh or cached or out:
                self._chat.usage(optional_text(usage.get("model")), fresh, cached, out)

    def learn_member(self, element: Element) -> None:
        intake = self._intake
        value = decode_value(element.data)
        if element.name == "session_id":
            intake.session_id = optional_text(value)
        elif element.name == "model":
            intake.model = optional_text(value)
        elif element.name == "cwd":
            intake.cwd = optional_text(value)
        elif element.name == "model_config":
            intake.cwd = intake.cwd or optional_text(table_of(value).get("cwd"))
        elif element.name in ("session_start", "last_updated"):
            at_ms = self._moment.read(value)
            if at_ms is not None:
                intake.note_time(at_ms)
                intake.at_ms = None  # the messages have no times
        elif not element.path:
            intake.skip(f"member: {element.name}")

    # Messages

    def feed(self, number: int, data: bytes) -> bool:
        """Take a message of a document."""
        message = decode_table(data)
        if message is not None:
            self._intake.source = number
            self._message(message)
        return message is not None

    def feed_row(self, number: int, row: dict[str, object]) -> None:
        """Take a message of the database, where what is no text is JSON."""
        self._intake.source = number
        self._intake.note_time(milliseconds_of(row.get("timestamp"), 1000))
        if row.get("observed") == 1:
            self._intake.skip("message of others, not to the agent")
        elif self._is_copy(row):
            self._intake.count("duplicates")
        else:
            content = text_of(row.get("content"))
            if content.startswith(_CODED):
                row["content"] = decode_value(content.removeprefix(_CODED).encode("utf-8", "replace"))
            row["tool_calls"] = decode_value(text_of(row.get("tool_calls")).encode("utf-8", "replace"))
            self._message(row)

    def _is_copy(self, row: dict[str, object]) -> bool:
        """Test that compaction wrote this message again; each message that it took out was written again once."""
        key = hash(tuple(text_of(row.get(name)) for name in ("role", "content", "tool_call_id", "tool_calls")))
        if row.get("compacted") == 1:
            if len(self._compacted) < _COMPACTED_MAX:
                self._compacted[key] = self._compacted.get(key, 0) + 1
            return False
        left = self._compacted.get(key, 0)
        if left:
            self._compacted[key] = left - 1
        return left > 0

    def finish(self) -> Status:
        return self._chat.finish()

    def _message(self, message: dict[str, object]) -> None:
        role = text_of(message.get("role"))
        if role == "user":
            chat_messages.prompt(self._chat, message.get("content"))
        elif role == "assistant":
            for asked in chat_messages.answer(self._chat, message):
                task = self._chat.intake.mask(text_of(table_of(_arguments(asked.arguments)).get("goal")))
                trail = self._tasks.get(task) if asked.call.steps[0].op == "AGENT_SPAWN" else None
                if trail is not None and not asked.call.is_ready:
                    asked.call.steps[0].operands[2] = Digest("sha256", trail)
            if message.get("finish_reason") == "length":
                self._intake.note_unfinished("it ends in the middle of a turn")
        elif role == "tool":
            self._result(message)
        elif role in ("session_meta", "system"):
            self._intake.skip(f"role: {role}")
        else:
            self._intake.note_unknown(f"role: {role or 'none'}")

    def _result(self, message: dict[str, object]) -> None:
        text = text_of_blocks(message.get("content"))
        table = table_of(_arguments(text))
        exit_code = integer_of(table.get("exit_code"))
        outcome: Outcome = "failed" if text_of(table.get("error")) or table.get("success") is False else "ok"
        if table.get("status") == "blocked":
            outcome, exit_code = "denied", None
        call_id = text_of(message.get("tool_call_id"))
        output = table.get("output")
        if isinstance(output, str) and exit_code is not None:
            self._chat.result(call_id, outcome, output or text_of(table.get("error")), exit_code, is_exact=False)
        else:
            self._chat.result(call_id, outcome, text, exit_code)


def _arguments(value: object) -> object:
    """Return an object that is written as a text."""
    text = text_of(value)
    return decode_table(text.encode("utf-8", "replace")) if text.startswith("{") else None
