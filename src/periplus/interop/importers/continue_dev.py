"""Importer of Continue's sessions: one document with a ``history`` of messages, each with the states of its calls.

Format: a call is stored with its result; there are no times; tokens are given for the whole session.
"""

from __future__ import annotations

__all__ = ["ContinueImporter", "is_mine", "read"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.conversation import Chat, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import (
    decode_table,
    decode_value,
    list_of,
    natural_of,
    optional_text,
    path_of_url,
    table_of,
    text_of,
)
from periplus.trail.model import Outcome, Status

_OUTCOMES: Final[dict[str, Outcome]] = {"done": "ok", "errored": "failed", "canceled": "cancelled"}


def is_mine(head: Head) -> bool:
    names = head.document.names
    return "sessionId" in names and "workspaceDirectory" in names and "history" in names


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = ContinueImporter(intake)
    digest, status = source.read_document(
        importer, intake, [("history",)], lambda member: importer.learn(member.name, decode_value(member.data))
    )
    yield source.trail(intake, "continue", digest, status)


class ContinueImporter:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._chat = Chat(intake)

    def learn(self, name: str, value: object) -> None:
        intake = self._intake
        if name == "sessionId":
            intake.session_id = optional_text(value)
        elif name == "workspaceDirectory":
            intake.cwd = path_of_url(value)
        elif name == "usage":
            self._usage(table_of(value))
        elif name == "chatModelTitle":
            intake.model = optional_text(value)
        else:
            intake.skip(f"member: {name}")

    def _usage(self, usage: dict[str, object]) -> None:
        details = table_of(usage.get("promptTokensDetails"))
        fresh = natural_of(usage.get("promptTokens")) + natural_of(details.get("cacheWriteTokens"))
        cached, out = natural_of(details.get("cachedTokens")), natural_of(usage.get("completionTokens"))
        if fresh or cached or out:
            self._chat.usage(None, fresh, cached, out)

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        intake, chat = self._intake, self._chat
        intake.source = number
        message = table_of(record.get("message"))
        role, content = text_of(message.get("role")), message.get("content")
        if role == "user":
            has_image = any(block.get("type") == "imageUrl" for block in blocks_of(content))
            chat.prompt(text_of_blocks(content), "with an image" if has_image else None)
        elif role in ("assistant", "thinking"):
            self._answer(record, message)
        elif role in ("system", "tool"):
            intake.skip(f"role: {role}")
        else:
            intake.note_unknown(f"role: {role or 'none'}")
        return True

    def finish(self) -> Status:
        return self._chat.finish()

    def _answer(self, record: dict[str, object], message: dict[str, object]) -> None:
        chat = self._chat
        text = text_of_blocks(message.get("content"))
        reasoning = text_of(table_of(record.get("reasoning")).get("text"))
        calls, states = list_of(message.get("toolCalls")), list_of(record.get("toolCallStates"))
        if reasoning:
            chat.think(reasoning)
        if message.get("role") == "thinking":
            chat.think(text)
        elif text or not (calls or states):
            chat.say(text)
        known = {text_of(table_of(state).get("toolCallId")) for state in states}
        for item in calls:
            if text_of(table_of(item).get("id")) not in known:
                self._call(table_of(item))
        for item in states:
            state = table_of(item)
            self._call({**table_of(state.get("toolCall")), "id": state.get("toolCallId")})
            outcome = _OUTCOMES.get(text_of(state.get("status")))
            if outcome is not None:
                texts = [text_of(table_of(output).get("content")) for output in list_of(state.get("output"))]
                chat.result(text_of(state.get("toolCallId")), outcome, "\n".join(filter(None, texts)))

    def _call(self, call: dict[str, object]) -> None:
        function = table_of(call.get("function"))
        self._chat.call(text_of(call.get("id")), text_of(function.get("name")), function.get("arguments"))
