"""Importer of sessions of Pi, and of OpenClaw which is based on it: a record a line, the first one is the session's
card.

Format: records form a tree by ``parentId``; a result is a message of its own with the id of its call; compaction
leaves a summary.
"""

from __future__ import annotations

__all__ = ["PiImporter", "is_mine", "read"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.branches import BranchTracker
from periplus.interop.conversion.conversation import (
    LineConversation,
    blocks_of,
    enter_branch,
    read_conversation,
    text_of_blocks,
)
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import integer_of, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Outcome, Status

_SILENT: Final = frozenset({
    "custom", "custom_message", "label", "model_change", "session_info", "thinking_level_change", "active_tools_change",
})  # fmt: skip
_STOPS: Final[dict[str, Status]] = {"aborted": "cancelled", "error": "error"}


def is_mine(head: Head) -> bool:
    return any(
        record.get("type") == "session"
        and isinstance(record.get("id"), str)
        and "timestamp" in record
        and "cwd" in record
        for record in head.records[:4]
    )


def read(source: Source) -> Iterator[Imported]:
    yield from read_conversation(source, PiImporter, "pi-agent")


class PiImporter(LineConversation):
    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self._lanes = BranchTracker()

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        kind = text_of(record.get("type"))
        if kind == "message":
            self._message(record, table_of(record.get("message")))
        elif kind == "session":
            intake.session_id = intake.session_id or optional_text(record.get("id"))
            intake.cwd = intake.cwd or optional_text(record.get("cwd"))
        elif kind in ("compaction", "branch_summary"):
            self._chat.think(text_of(record.get("summary")), "summary of what was compacted")
            self._stand(record)
        elif kind in _SILENT:
            intake.skip(kind)
            if kind == "model_change":
                intake.model = optional_text(record.get("modelId")) or intake.model
            self._stand(record)
        else:
            intake.note_unknown(kind or "record without a type")

    def _stand(self, record: dict[str, object]) -> None:
        """Remember the place of a record that is no message, because others continue it."""
        uuid = text_of(record.get("id"))
        if uuid:
            self._lanes.inherit(uuid, record.get("parentId"))

    def _message(self, record: dict[str, object], message: dict[str, object]) -> None:
        role = text_of(message.get("role"))
        chat = self._chat
        if role == "toolResult":
            self._stand(record)
            outcome: Outcome = "failed" if message.get("isError") is True else "ok"
            exit_code = integer_of(table_of(message.get("details")).get("exitCode"))
            text = text_of_blocks(message.get("content"))
            chat.result(text_of(message.get("toolCallId")), outcome, text, exit_code)
            return
        if role not in ("user", "assistant"):
            self._stand(record)
            if role in ("bashExecution", "custom", "branchSummary", "compactionSummary", "system"):
                self._intake.skip("local command" if role == "bashExecution" else f"role: {role}")
            else:
                self._intake.note_unknown(f"role: {role or 'none'}")
            return
        enter_branch(self._chat, self._lanes, text_of(record.get("id")), record.get("parentId"))
        if role == "user":
            blocks = blocks_of(message.get("content"))
            has_image = any(block.get("type") == "image" for block in blocks)
            chat.prompt(text_of_blocks(message.get("content")), "with an image" if has_image else None)
        else:
            self._answer(message)

    def _answer(self, message: dict[str, object]) -> None:
        chat = self._chat
        usage = message.get("usage")
        model = optional_text(message.get("model"))
        self._intake.model = model or self._intake.model
        if isinstance(usage, dict):
            fresh = natural_of(usage.get("input")) + natural_of(usage.get("cacheWrite"))
            chat.usage(model, fresh, natural_of(usage.get("cacheRead")), natural_of(usage.get("output")))
        for block in blocks_of(message.get("content")):
            kind = text_of(block.get("type"))
            if chat.block(block, "toolCall", "arguments"):
                continue
            if kind == "image":
                self._intake.skip("block: image")
            else:
                self._intake.note_unknown(f"block: {kind or 'unnamed'}")
        stop = _STOPS.get(text_of(message.get("stopReason")))
        if stop == "cancelled":
            chat.interrupt()
        elif stop is not None:
            chat.status = stop
        elif message.get("stopReason") in ("toolUse", "length"):
            self._intake.note_unfinished("it ends in the middle of a turn")
