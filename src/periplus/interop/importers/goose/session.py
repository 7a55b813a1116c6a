"""Importer of Goose's messages.

Format: results are parts of messages of the user; a tool's name begins with that of its extension; what compaction
took out of the context stays, and its summary is hidden from the person.
"""

from __future__ import annotations

__all__ = ["GooseImporter"]

from typing import Final

from periplus.interop.conversion.conversation import Chat, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    decode_value,
    milliseconds_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Outcome, Status

_SILENT: Final = frozenset({
    "actionRequired", "conversationCompacted", "image", "redactedThinking", "systemNotification", "toolConfirmationRequest",
})  # fmt: skip
_OWN: Final = "developer"  # the extension with the tools that other agents have themselves
_DENIED: Final = "declined to run this tool"


class GooseImporter:
    """Takes the facts of a session, then its messages."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._chat = Chat(intake)
        self._moment = Moment()

    def learn(self, card: dict[str, object]) -> None:
        """Learn facts from the row of a session, or from the first line of a file."""
        intake = self._intake
        intake.session_id = optional_text(card.get("id"))
        intake.cwd = optional_text(card.get("working_dir"))
        config = decode_table(text_of(card.get("model_config_json")).encode("utf-8", "replace")) or {}
        intake.model = optional_text(config.get("model_name"))
        for name in ("updated_at", "created_at"):
            at_ms = self._moment.read(card.get(name))
            if at_ms is not None:
                intake.note_time(at_ms)
        given = natural_of(card.get("accumulated_input_tokens")) or natural_of(card.get("input_tokens"))
        out = natural_of(card.get("accumulated_output_tokens")) or natural_of(card.get("output_tokens"))
        if given or out:
            self._chat.usage(None, given, 0, out)

    def feed(self, number: int, line: bytes) -> bool:
        """Take a line of a file: the first one tells of the session."""
        record = decode_table(line)
        if record is None:
            return False
        self._intake.source = number
        if number == 1 and "working_dir" in record and "role" not in record:
            self.learn(record)
        else:
            self._message(record.get("created"), record, record.get("content"), table_of(record.get("metadata")))
        return True

    def feed_row(self, number: int, row: dict[str, object]) -> None:
        self._intake.source = number
        content = decode_value(text_of(row.get("content_json")).encode("utf-8", "replace"))
        metadata = decode_table(text_of(row.get("metadata_json")).encode("utf-8", "replace")) or {}
        if isinstance(content, list):
            self._message(row.get("created_timestamp"), row, content, metadata)
        else:
            self._intake.skip("message that cannot be read")

    def finish(self) -> Status:
        return self._chat.finish()

    def _message(
        self, created: object, message: dict[str, object], content: object, metadata: dict[str, object]
    ) -> None:
        intake = self._intake
        intake.note_time(milliseconds_of(created, 1000))
        role = text_of(message.get("role"))
        is_hidden = metadata.get("userVisible") is False
        if role == "user":
            self._user(blocks_of(content), is_hidden=is_hidden)
        elif role == "assistant":
            for block in blocks_of(content):
                if is_hidden and block.get("type") == "text":
                    self._chat.think(text_of(block.get("text")), "summary of what was compacted")
                else:
                    self._block(block)
        else:
            intake.note_unknown(f"role: {role or 'none'}")

    def _user(self, blocks: list[dict[str, object]], *, is_hidden: bool) -> None:
        texts, has_image, has_result = [], False, False
        for block in blocks:
            kind = text_of(block.get("type"))
            if kind == "text":
                texts.append(text_of(block.get("text")))
            elif kind == "image":
                has_image = True
            else:
                has_result = has_result or kind == "toolResponse"
                self._block(block)
        if is_hidden:
            self._intake.skip("user: written by the program")
        elif texts or has_image or not has_result:
            self._chat.prompt("\n".join(filter(None, texts)), "with an image" if has_image else None)

    def _block(self, block: dict[str, object]) -> None:
        kind = text_of(block.get("type"))
        if kind == "text":
            self._chat.say(text_of(block.get("text")))
        elif kind == "thinking":
            self._chat.think(text_of(block.get("thinking")))
        elif kind in ("toolRequest", "frontendToolRequest"):
            self._call(text_of(block.get("id")), table_of(block.get("toolCall")))
        elif kind == "toolResponse":
            self._result(text_of(block.get("id")), table_of(block.get("toolResult")))
        elif kind in _SILENT:
            self._intake.skip(f"block: {kind}")
        else:
            self._intake.note_unknown(f"block: {kind or 'unnamed'}")

    def _call(self, call_id: str, request: dict[str, object]) -> None:
        value = table_of(request.get("value"))
        name, arguments = text_of(value.get("name")), value.get("arguments")
        extension, has_extension, tool = name.partition("__")
        server, name = ("", name) if not has_extension else ("" if extension == _OWN else extension, tool)
        if not server and name == "text_editor":
            table = table_of(arguments)
            name = "str_replace_editor"
            arguments = {**table, "command": "create"} if table.get("command") == "write" else table
        self._chat.call(call_id, name, arguments, server)

    def _result(self, call_id: str, result: dict[str, object]) -> None:
        value = result.get("value")
        is_list = isinstance(value, list)
        text = text_of_blocks(value if is_list else table_of(value).get("content")) or text_of(result.get("error"))
        is_error = result.get("status") == "error" or table_of(value).get("isError") is True
        outcome: Outcome = "failed" if is_error else "ok"
        if _DENIED in text[:200]:
            outcome = "denied"
        self._chat.result(call_id, outcome, text)
