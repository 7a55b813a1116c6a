"""Importer of Qwen Code's sessions: a record a line, with the parts of Gemini's interface in the envelopes of Claude
Code.

Format: a message comes in several records with its id; a result is a record of its own; typed text is kept apart from
additions of hooks; several records may stand on one line without a separator.
"""

from __future__ import annotations

__all__ = ["QwenImporter", "is_mine", "read"]

import re
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.branches import BranchTracker
from periplus.interop.conversion.conversation import LineConversation, blocks_of, enter_branch, read_conversation
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Outcome

_OUTCOMES: Final[dict[str, Outcome]] = {"error": "failed", "cancelled": "cancelled"}
_GLUED_MAX: Final = 1000
_INSERTED: Final = "<qwen:"
_EXIT_CODE: Final = re.compile(r"(?:^|\n)Exit Code: (-?\d{1,9})\b")


def is_mine(head: Head) -> bool:
    records = head.records or _glued(head.data.split(b"\n", 1)[0])
    return any("sessionId" in record and "parts" in table_of(record.get("message")) for record in records)


def read(source: Source) -> Iterator[Imported]:
    yield from read_conversation(source, QwenImporter, "qwen-code")


def _glued(line: bytes) -> list[dict[str, object]]:
    """Return the records on a line that has several; none where other text stands between them."""
    import json

    decoder = json.JSONDecoder()
    records: list[dict[str, object]] = []
    try:
        text = line.decode().strip()
        at = 0
        while at < len(text) and len(records) < _GLUED_MAX:
            record, at = decoder.raw_decode(text, at)
            if not isinstance(record, dict):
                return []
            mended = decode_table(json.dumps(record).encode())
            records.append(mended if mended is not None else {})
    except (ValueError, RecursionError):
        return []
    return records


class QwenImporter(LineConversation):
    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self._lanes = BranchTracker()

    def _records(self, line: bytes) -> list[dict[str, object]]:
        return super()._records(line) or _glued(line)

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        intake.session_id = intake.session_id or optional_text(record.get("sessionId"))
        intake.cwd = intake.cwd or optional_text(record.get("cwd"))
        intake.branch = intake.branch or optional_text(record.get("gitBranch"))
        intake.version = optional_text(record.get("version")) or intake.version
        kind, subtype = text_of(record.get("type")), text_of(record.get("subtype"))
        if kind == "user" and subtype != "notification":
            enter_branch(self._chat, self._lanes, text_of(record.get("uuid")), record.get("parentUuid"))
            self._user(record)
        elif kind == "assistant":
            enter_branch(self._chat, self._lanes, text_of(record.get("uuid")), record.get("parentUuid"))
            self._assistant(record)
        elif kind == "tool_result":
            self._stand(record)
            self._result(record)
        elif kind in ("user", "system"):
            self._stand(record)
            if subtype == "rewind":
                target = text_of(table_of(record.get("systemPayload")).get("targetUuid"))
                self._chat.label(f"rewound to {target or 'an earlier message'}")
            else:
                intake.skip(f"{kind}: {subtype}" if subtype else kind)
        else:
            intake.note_unknown(kind or "record without a type")

    def _stand(self, record: dict[str, object]) -> None:
        uuid = text_of(record.get("uuid"))
        if uuid:
            self._lanes.inherit(uuid, record.get("parentUuid"))

    def _user(self, record: dict[str, object]) -> None:
        typed = text_of(table_of(record.get("systemPayload")).get("displayText"))
        parts = blocks_of(table_of(record.get("message")).get("parts"))
        texts = [text_of(part.get("text")) for part in parts]
        inserted = sum(text.startswith(_INSERTED) for text in texts)
        if inserted:
            self._intake.skip("part written by a hook", inserted)
        has_image = any("inlineData" in part or "fileData" in part for part in parts)
        text = typed or "\n".join(text for text in texts if text and not text.startswith(_INSERTED))
        self._chat.prompt(text, "with an image" if has_image else None)

    def _assistant(self, record: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        model = optional_text(record.get("model"))
        intake.model = model or intake.model
        usage = record.get("usageMetadata")
        if isinstance(usage, dict):
            given = natural_of(usage.get("promptTokenCount"))
            cached = min(given, natural_of(usage.get("cachedContentTokenCount")))
            out = natural_of(usage.get("candidatesTokenCount")) + natural_of(usage.get("thoughtsTokenCount"))
            chat.usage(model, given - cached, cached, out)
        for part in blocks_of(table_of(record.get("message")).get("parts")):
            if "functionCall" in part:
                call = table_of(part["functionCall"])
                chat.call(text_of(call.get("id")), text_of(call.get("name")), call.get("args"))
            elif part.get("thought") is True:
                chat.think(text_of(part.get("text")))
            elif isinstance(part.get("text"), str):
                chat.say(text_of(part["text"]))
            else:
                intake.skip("part without text")

    def _result(self, record: dict[str, object]) -> None:
        summary = table_of(record.get("toolCallResult"))
        found = [part for part in blocks_of(table_of(record.get("message")).get("parts")) if "functionResponse" in part]
        for part in found:
            answer = table_of(part["functionResponse"])
            response = table_of(answer.get("response"))
            error = text_of(response.get("error"))
            text = text_of(response.get("output")) or error or text_of(summary.get("resultDisplay"))
            outcome = _OUTCOMES.get(text_of(summary.get("status")), "failed" if error else "ok")
            match = _EXIT_CODE.search(text)
            call_id = text_of(answer.get("id")) or text_of(summary.get("callId"))
            self._chat.result(call_id, outcome, text, int(match.group(1)) if match is not None else None)
        if not found:
            self._intake.skip("result without parts")
