"""Importer of Amp's threads: one document with ``messages`` of blocks, and metadata of the thread.

Format: results name their calls as ``toolUseID`` and contain the outcome; times are given with the user's messages
and with the usage of a model call; the folder is a URI that follows the messages.
"""

from __future__ import annotations

__all__ = ["AmpImporter", "is_mine", "read"]

import re
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.conversation import Chat, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_stream import Element, JsonReader
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    decode_value,
    integer_of,
    json_text,
    list_of,
    natural_of,
    optional_text,
    path_of_url,
    table_of,
    text_of,
)
from periplus.trail.model import Digest, Outcome, Status

_OUTCOMES: Final[dict[str, Outcome]] = {
    "error": "failed", "cancelled": "cancelled", "rejected-by-user": "denied", "blocked-on-user": "denied",
}  # fmt: skip
_STOPS: Final[dict[str, Status]] = {"cancelled": "cancelled", "error": "error"}
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_FACTS: Final = frozenset({"id", "created", "env"})
_CLOCK_MS_MAX: Final = 253_402_300_799_999


def is_mine(head: Head) -> bool:
    messages = [table_of(message) for message in list_of(head.document.members.get("messages"))[:3]]
    return any("messageId" in message and "role" in message for message in messages)


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = AmpImporter(intake)
    for element in JsonReader(source.path, [("messages",)]):  # folder and version follow the messages
        if not element.path and element.name in _FACTS:
            importer.learn(element.name, decode_value(element.data))

    def skip(element: Element) -> None:
        if element.name not in _FACTS:
            intake.skip(f"member: {element.name}")

    digest, status = source.read_document(importer, intake, [("messages",)], skip)
    yield source.trail(intake, "amp", digest, status, base=importer.base)


class AmpImporter:
    def __init__(self, intake: Intake) -> None:
        self.base: Digest | None = None
        self._intake = intake
        self._chat = Chat(intake)
        self._moment = Moment()

    def learn(self, name: str, value: object) -> None:
        intake = self._intake
        if name == "id":
            intake.session_id = optional_text(value)
        elif name == "created":
            self._note_ms(value)
        else:
            initial = table_of(table_of(value).get("initial"))
            intake.version = optional_text(table_of(initial.get("platform")).get("clientVersion")) or intake.version
            for item in list_of(initial.get("trees"))[:1]:
                tree = table_of(item)
                uri = text_of(tree.get("uri"))
                intake.cwd = path_of_url(uri) if uri.startswith("file://") else None
                commit = text_of(table_of(tree.get("repository")).get("sha"))
                if _COMMIT.fullmatch(commit):
                    self.base = Digest("git-sha1", bytes.fromhex(commit))

    def _note_ms(self, value: object) -> None:
        at_ms = integer_of(value)
        if at_ms is not None and 0 <= at_ms <= _CLOCK_MS_MAX:
            self._intake.note_time(at_ms)

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        intake = self._intake
        intake.source = number
        self._note_ms(table_of(record.get("meta")).get("sentAt"))
        role = text_of(record.get("role"))
        if role == "user":
            self._user(blocks_of(record.get("content")))
        elif role == "assistant":
            self._assistant(record)
        else:
            intake.note_unknown(f"role: {role or 'none'}")
        return True

    def finish(self) -> Status:
        return self._chat.finish()

    def _user(self, blocks: list[dict[str, object]]) -> None:
        texts, has_image, has_result = [], False, False
        for block in blocks:
            kind = text_of(block.get("type"))
            if kind == "tool_result":
                has_result = True
                self._result(block)
            elif kind == "text":
                texts.append(text_of(block.get("text")))
            elif kind == "image":
                has_image = True
            else:
                self._intake.note_unknown(f"block: {kind or 'unnamed'}")
        if texts or has_image or not has_result:
            self._chat.prompt("\n".join(filter(None, texts)), "with an image" if has_image else None)

    def _result(self, block: dict[str, object]) -> None:
        run = table_of(block.get("run"))
        result = run.get("result")
        table = table_of(result)
        found = [text_of(table.get(name)) for name in ("content", "output", "diff", "message")]
        found += [text_of(result), text_of(table_of(run.get("error")).get("message"))]
        text = "\n".join(list(filter(None, found))[:1]) or text_of_blocks(block.get("content"))
        if not text and result is not None:
            text = json_text(result, self._intake.mask)
        outcome = _OUTCOMES.get(text_of(run.get("status")), "ok")
        self._chat.result(text_of(block.get("toolUseID")), outcome, text, integer_of(table.get("exitCode")))

    def _assistant(self, record: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        usage = table_of(record.get("usage"))
        if usage:
            at_ms = self._moment.read(usage.get("timestamp"))
            if at_ms is not None:
                intake.note_time(at_ms)
            fresh = natural_of(usage.get("inputTokens")) + natural_of(usage.get("cacheCreationInputTokens"))
            cached, out = natural_of(usage.get("cacheReadInputTokens")), natural_of(usage.get("outputTokens"))
            chat.usage(optional_text(usage.get("model")), fresh, cached, out)
        for block in blocks_of(record.get("content")):
            kind = text_of(block.get("type"))
            if chat.block(block, "tool_use", "input"):
                continue
            if kind in ("redacted_thinking", "image"):
                intake.skip(f"block: {kind}")
            else:
                intake.note_unknown(f"block: {kind or 'unnamed'}")
        state = table_of(record.get("state"))
        stop = _STOPS.get(text_of(state.get("type")))
        if state.get("type") == "streaming" or state.get("stopReason") in ("tool_use", "max_tokens"):
            intake.note_unfinished("it ends in the middle of a turn")
        if stop == "cancelled":
            chat.interrupt()
        elif stop is not None:
            chat.status = stop
