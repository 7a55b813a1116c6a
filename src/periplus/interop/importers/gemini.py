"""Importer of Gemini CLI's sessions: one document with ``messages``, or since 0.40 a record a line.

Format: a message holds its thoughts, its text and its calls with results. In files of lines a message is written
again under the same id when it grows; ``$set`` changes the session's card and ``$rewindTo`` removes messages. Input
tokens include cached ones.
"""

from __future__ import annotations

__all__ = ["GeminiImporter", "is_mine", "read"]

import re
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.intake import Call, Intake
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    decode_value,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Outcome, Status

_TYPES: Final = frozenset({"user", "gemini", "model", "info", "error", "warning"})
_REMARKS: Final = frozenset({"info", "warning"})
_OUTCOMES: Final[dict[str, Outcome]] = {"success": "ok", "error": "failed", "cancelled": "cancelled"}
_REFUSAL: Final = "Tool execution blocked: "  # by a hook
_MESSAGES_REMEMBERED: Final = 4096
_CALLS_REMEMBERED: Final = 4096
# In the answer of the shell tool. In some versions a line ends in two characters, a backslash and an n.
_EXIT_CODE: Final = re.compile(r"(?:^|\n|\\n)Exit Code: (-?\d{1,9})\b")


def is_mine(head: Head) -> bool:
    if any(map(_is_line, head.records)):
        return True
    document = head.document
    if "projectHash" in document.names and "messages" in document.names:
        return True
    return "sessionId" in document.names and "projectHash" in document.names


def _is_line(record: dict[str, object]) -> bool:
    if "projectHash" in record and "sessionId" in record:
        return True
    is_message = text_of(record.get("type")) in _TYPES and isinstance(record.get("id"), str) and "timestamp" in record
    return is_message and "content" in record and "message" not in record


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = GeminiImporter(intake)
    head = Head.of(source.path)
    if "messages" in head.document.names:
        digest, status = source.read_document(
            importer, intake, [("messages",)], lambda member: importer.learn({member.name: decode_value(member.data)})
        )
    else:
        digest, status = source.read_lines(importer, intake)
    kind = importer.kind
    yield source.trail(
        intake, "gemini-cli", digest, status, agent=f"gemini-cli/{kind}" if kind == "subagent" else "gemini-cli"
    )


class _Message:
    """State of a message that may be written again."""

    __slots__ = ("is_said", "model_call", "thoughts", "usage")

    def __init__(self) -> None:
        self.is_said = False
        self.thoughts = 0
        self.model_call: Call | None = None
        self.usage: dict[str, object] = {}


class GeminiImporter:
    def __init__(self, intake: Intake) -> None:
        self.kind = ""
        self._intake = intake
        self._moment = Moment()
        self._messages: dict[str, _Message] = {}
        self._current: _Message | None = None
        self._calls = OpenCalls()
        self._known_calls: dict[str, None] = {}
        self._last: Status = "success"

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        intake = self._intake
        intake.source = number
        kind = record.get("type")
        if isinstance(kind, str):
            intake.note_time(self._moment.read(record.get("timestamp")))
            self._message(kind, record)
        elif "$set" in record:
            intake.skip("change of the session's card")
            self.learn(table_of(record["$set"]))
        elif "$rewindTo" in record:
            intake.count("labels")
            intake.step("LABEL", intake.mask(f"rewound to {text_of(record['$rewindTo']) or 'an earlier message'}"))
        elif "sessionId" in record:
            self.learn(record)
        else:
            intake.note_unknown("record without a type")
        return True

    def learn(self, card: dict[str, object]) -> None:
        intake = self._intake
        intake.session_id = optional_text(card.get("sessionId")) or intake.session_id
        self.kind = text_of(card.get("kind")) or self.kind
        for name in ("startTime", "lastUpdated"):
            at_ms = self._moment.read(card.get(name)) if name in card else None
            if at_ms is not None:
                intake.note_time(at_ms)

    def finish(self) -> Status:
        self._close_model()
        return self._intake.ending(self._last, is_waiting=self._calls.is_waiting)

    # Messages

    def _message(self, kind: str, record: dict[str, object]) -> None:
        intake = self._intake
        if kind in ("gemini", "model"):
            self._answer(record)
        elif kind == "user":
            self._user(record)
        elif kind in _REMARKS:
            intake.skip(kind)
            if text_of(record.get("content")).startswith("Request cancelled"):
                self._last = "cancelled"
                self._calls.cancel()
        elif kind == "error":
            intake.skip(kind)
            self._last = "error"
        else:
            intake.note_unknown(kind)

    def _known(self, record: dict[str, object]) -> tuple[_Message, bool]:
        message_id = text_of(record.get("id"))
        known = self._messages.get(message_id) if message_id else None
        if known is not None:
            return known, True
        message = _Message()
        if message_id:
            if len(self._messages) >= _MESSAGES_REMEMBERED:
                self._messages = dict(list(self._messages.items())[_MESSAGES_REMEMBERED // 2 :])
            self._messages[message_id] = message
        return message, False

    def _user(self, record: dict[str, object]) -> None:
        intake = self._intake
        message, is_known = self._known(record)
        if is_known and message.is_said:
            intake.count("duplicates")
            return
        parts = _parts(record)
        has_image = any(not text_of(table_of(part).get("text")) and not _is_answer(part) for part in parts)
        text = "\n".join(filter(None, (intake.typed(text_of(table_of(part).get("text"))) for part in parts)))
        if not text.strip() and not has_image:
            intake.skip("user: nothing in it")
            return
        self._close_model()
        message.is_said = True
        masked = intake.mask(text)
        intake.count("prompts")
        intake.step("PROMPT", masked, note="with an image" if has_image else None)
        intake.note_prompt(masked)
        self._last = "success"

    def _answer(self, record: dict[str, object]) -> None:
        intake = self._intake
        message, is_known = self._known(record)
        if is_known:
            intake.count("duplicates")
        if message is not self._current:
            self._close_model()
            self._current = message
        self._usage(message, record)
        thoughts = list_of(record.get("thoughts"))
        for thought in thoughts[message.thoughts :]:
            self._think(table_of(thought))
        message.thoughts = max(message.thoughts, len(thoughts))
        self._last = "success"
        said = False
        for item in _parts(record):
            part = table_of(item)
            text = text_of(part.get("text"))
            if part.get("thought") is True:
                if not message.is_said:
                    self._comment(text)
            elif text.strip():
                said = True
                if not message.is_said:
                    intake.count("says")
                    intake.step("SAY", intake.mask(text))
            elif "functionCall" in part:
                call = table_of(part["functionCall"])
                self._call({"id": call.get("id"), "name": call.get("name"), "args": call.get("args")})
            elif not text and "functionResponse" not in part:
                intake.skip("part without text")
        message.is_said = message.is_said or said
        for item in list_of(record.get("toolCalls")):
            self._call(table_of(item))

    def _usage(self, message: _Message, record: dict[str, object]) -> None:
        intake = self._intake
        model = optional_text(record.get("model"))
        intake.model = model or intake.model
        usage = record.get("tokens")
        if not isinstance(usage, dict):
            return
        if message.model_call is None:
            message.model_call = intake.hold_model(model or intake.model or "unknown")
        elif message.model_call.is_ready:
            intake.skip("usage too late")
            return
        message.usage = usage

    def _close_model(self) -> None:
        message, self._current = self._current, None
        if message is None or message.model_call is None or message.model_call.is_ready:
            return
        usage = message.usage
        given, cached = natural_of(usage.get("input")), natural_of(usage.get("cached"))
        cached = min(given, cached)
        out = natural_of(usage.get("output")) + natural_of(usage.get("thoughts"))
        self._intake.release_model(message.model_call, given - cached, cached, out)

    def _think(self, thought: dict[str, object]) -> None:
        parts = (text_of(thought.get(name)) for name in ("subject", "description"))
        self._comment("\n".join(filter(None, parts)))

    def _comment(self, text: str) -> None:
        if not text.strip():
            self._intake.skip("thought: empty")
            return
        self._intake.count("comments")
        self._intake.step("COMMENT", self._intake.mask(text))

    # Calls

    def _call(self, record: dict[str, object]) -> None:
        intake = self._intake
        call_id = text_of(record.get("id"))
        if not call_id or call_id not in self._known_calls:
            if len(self._known_calls) >= _CALLS_REMEMBERED:
                self._known_calls = dict.fromkeys(list(self._known_calls)[_CALLS_REMEMBERED // 2 :])
            self._known_calls[call_id] = None
            at_ms = intake.at_ms
            begun_ms = self._moment.read(record.get("startTime")) if "startTime" in record else None
            intake.at_ms = begun_ms if begun_ms is not None else at_ms
            call = intake.call(plan_call(intake, text_of(record.get("name")), record.get("args"), intake.cwd))
            intake.at_ms = at_ms
            self._calls.add(call_id, call)
        status = text_of(record.get("status"))
        results = record.get("result")
        if status not in _OUTCOMES and not results:
            return
        call_or_none = self._calls.claim(call_id)
        if call_or_none is None:
            return
        text = _result_text(results) or text_of(record.get("resultDisplay"))
        match = _EXIT_CODE.search(text)
        exit_code = int(match.group(1)) if match is not None else None
        outcome = _OUTCOMES.get(status, "ok")
        if outcome == "ok" and exit_code:
            outcome = "failed"
        elif outcome == "failed" and text.startswith(_REFUSAL):
            outcome = "denied"
        ended_ms = self._moment.read(record.get("timestamp"))
        at_ms = intake.at_ms
        intake.at_ms = ended_ms if ended_ms is not None else at_ms
        intake.resolve(call_or_none, outcome, text, exit_code=exit_code)
        intake.at_ms = at_ms


def _parts(record: dict[str, object]) -> list[object]:
    """Return the content of a message as a list: a text, a part or a list of them; earlier versions call it
    ``parts``.
    """
    content = record.get("content")
    if not content:
        content = record.get("parts")
    items = content if isinstance(content, list) else [content] if content else []
    return [{"text": item} if isinstance(item, str) else item for item in items]


def _is_answer(part: object) -> bool:
    return "functionResponse" in table_of(part)


def _result_text(results: object) -> str:
    if isinstance(results, str):
        return results
    texts = []
    for item in results if isinstance(results, list) else [results]:
        part = table_of(item)
        response = table_of(table_of(part.get("functionResponse")).get("response"))
        found = [response.get(name) for name in ("output", "error", "content", "result")]
        texts += [text for text in (*found, part.get("text")) if isinstance(text, str) and text]
    return "\n".join(texts)
