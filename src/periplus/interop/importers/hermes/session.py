"""Importer of Hermes' messages, which are those that it sends to a model.

Format: results of tools are JSON with an exit code. Compaction marks the messages that it takes out of the context,
and writes those again that stay.
"""

from __future__ import annotations

__all__ = ["HermesImporter"]

from collections.abc import Mapping
from typing import Final

from periplus.interop.conversion import chat_messages
from periplus.interop.conversion.conversation import Chat, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.readers.json_stream import Element
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    decode_value,
    integer_of,
    milliseconds_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Digest, Outcome, Status

_CODED: Final = "\0json:"  # before a content that is no text
_COMPACTED_MAX: Final = 200_000


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
        """Take a message of the database, which stores a content that is no text as JSON."""
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
