"""Importer of Droid's sessions: a record a line, either its stored form (``session_start``, then messages of blocks)
or its output (``--output-format stream-json``: messages, calls and results as separate records).
"""

from __future__ import annotations

__all__ = ["DroidImporter", "is_mine", "read"]

import re
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.conversation import LineConversation, blocks_of, read_conversation, text_of_blocks
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import integer_of, optional_text, table_of, text_of

_FAILED: Final = re.compile(r"Error: Command failed \(exit code: (-?\d{1,9})\)")
_SILENT: Final = frozenset({"todo_state", "session_end", "compaction_state", "system", "result"})
_PRINTED: Final = frozenset({"message", "tool_call", "tool_result", "completion", "system"})


def is_mine(head: Head) -> bool:
    return any(map(_is_record, head.records))


def _is_record(record: dict[str, object]) -> bool:
    kind = text_of(record.get("type"))
    if kind == "session_start":
        return isinstance(record.get("id"), str) and ("owner" in record or "sessionTitle" in record)
    if kind not in _PRINTED or not isinstance(record.get("session_id"), str) or "message" in record:
        return False
    return {"role", "text"} <= record.keys() or "toolCallId" in record or "finalText" in record


def read(source: Source) -> Iterator[Imported]:
    yield from read_conversation(source, DroidImporter, "droid")


class DroidImporter(LineConversation):
    def _record(self, record: dict[str, object]) -> None:
        intake, chat = self._intake, self._chat
        intake.session_id = intake.session_id or optional_text(record.get("session_id"))
        kind = text_of(record.get("type"))
        if kind == "message":
            self._message(record)
        elif kind == "tool_call":
            chat.call(text_of(record.get("toolCallId")), text_of(record.get("toolName")), record.get("parameters"))
        elif kind == "tool_result":
            self._printed_result(record)
        elif kind == "completion":
            chat.say(text_of(record.get("finalText")))
        elif kind == "session_start":
            intake.session_id = optional_text(record.get("id")) or intake.session_id
            intake.cwd = optional_text(record.get("cwd")) or intake.cwd
            intake.version = optional_text(record.get("version")) or intake.version
        elif kind in _SILENT:
            intake.skip(kind)
            if kind == "system":
                intake.cwd = intake.cwd or optional_text(record.get("cwd"))
                intake.model = optional_text(record.get("model")) or intake.model
        else:
            intake.note_unknown(kind or "record without a type")

    def _printed_result(self, record: dict[str, object]) -> None:
        value = record.get("value")
        table = table_of(value)
        parts = [text_of(table.get(name)) for name in ("stdout", "stderr", "output", "content")]
        is_error = record.get("isError") is True or table.get("isError") is True
        text = "\n".join(filter(None, parts)) or text_of_blocks(value)
        exit_code = integer_of(table.get("exitCode"))
        self._chat.result(text_of(record.get("toolCallId")), "failed" if is_error else "ok", text, exit_code)

    def _message(self, record: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        message = record.get("message")
        inner = message if isinstance(message, dict) else {"role": record.get("role"), "content": record.get("text")}
        role = text_of(inner.get("role"))
        if role not in ("user", "assistant"):
            intake.note_unknown(f"role: {role or 'none'}")
            return
        texts, has_image = [], False
        blocks = blocks_of(inner.get("content"))
        for block in blocks:
            kind = text_of(block.get("type"))
            if kind == "tool_result":
                text = text_of_blocks(block.get("content"))
                match = _FAILED.match(text)
                is_failed = block.get("is_error") is True or match is not None
                exit_code = int(match.group(1)) if match is not None else None
                chat.result(text_of(block.get("tool_use_id")), "failed" if is_failed else "ok", text, exit_code)
            elif kind == "tool_use":
                chat.call(text_of(block.get("id")), text_of(block.get("name")), block.get("input"))
            elif kind == "thinking":
                chat.think(text_of(block.get("thinking")))
            elif kind == "text" and role == "assistant":
                chat.say(text_of(block.get("text")))
            elif kind == "text":
                texts.append(text_of(block.get("text")))
            elif kind in ("image", "document", "redacted_thinking"):
                has_image = has_image or role == "user"
                intake.skip(f"block: {kind}")
            else:
                intake.note_unknown(f"block: {kind or 'unnamed'}")
        typed = [text for text in texts if not text.lstrip().startswith("<system-reminder>")]
        if len(typed) < len(texts):
            intake.skip("system reminder", len(texts) - len(typed))
        if typed or has_image or not blocks:
            chat.prompt("\n".join(typed), "with an image" if has_image else None)
