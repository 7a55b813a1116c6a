"""Importer of Grok Build's sessions: ``chat_history.jsonl`` with a record a line, and ``summary.json`` beside it.

Format: records have no times, the summary has those of the session; a text of the program that is sent as the user's
has a reason; a tool of the server is one record without a result. Subagents have folders of their own beside that of
the session, which names them in ``subagents``.
"""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "GrokImporter", "is_mine", "read"]

import os
import re
from collections.abc import Iterator
from typing import Final

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion import chat_messages
from periplus.interop.conversion.conversation import LineConversation, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, integer_of, optional_text, table_of, text_of
from periplus.interop.readers.line_reader import open_regular
from periplus.trail.model import Outcome

CHILDREN_MAX: Final = 1000
_FILE: Final = "chat_history.jsonl"
_SUMMARY: Final = "summary.json"
_SUMMARY_BYTES_MAX: Final = 1 << 20
_COMMANDS_MAX: Final = 4096
_CHAT_FORMAT: Final = 1
_EXIT_CODE: Final = re.compile(r"(?:^|\n)exit(?: code)?: ?(-?\d{1,9})\s*(?:$|\n)", re.IGNORECASE)


def is_mine(head: Head) -> bool:
    return any(
        (record.get("type") == "user" and ("prompt_index" in record or "synthetic_reason" in record))
        or (record.get("type") == "assistant" and "model_id" in record and isinstance(record.get("content"), str))
        for record in head.records
    )


def read(source: Source) -> Iterator[Imported]:
    children: list[Imported] = []
    lost = 0
    for path in _subagents(source.path):
        try:
            if not is_mine(Head.of(path)):
                raise FormatError("not of the agent of the session", path=path)
            children.append(_read_one(source.beside(path), ()))
        except PeriplusError:  # the session is complete without it; the count reports it
            lost += 1
    yield _read_one(source, tuple(children), lost)


def _subagents(path: str) -> list[str]:
    """Return the files of the subagents that the folder of a session names."""
    folder, name = os.path.split(os.path.abspath(path))
    listed = os.path.join(folder, "subagents")
    try:
        # No link is followed: a session from an untrusted source must not import other sessions of this machine.
        is_followed = name != _FILE or os.path.islink(listed)
        names = (
            [] if is_followed else sorted(one.name for one in os.scandir(listed) if one.is_dir(follow_symlinks=False))
        )
    except (OSError, ValueError):
        return []
    bucket = os.path.dirname(folder)
    folders = [os.path.join(bucket, name) for name in names if name != os.path.basename(folder)][:CHILDREN_MAX]
    files = [os.path.join(one, _FILE) for one in folders if not os.path.islink(one)]
    return [file for file in files if os.path.isfile(file) and not os.path.islink(file)]


def _read_one(source: Source, children: tuple[Imported, ...], lost: int = 0) -> Imported:
    intake = source.intake()
    importer = GrokImporter(intake)
    importer.learn(_summary(source.path))
    digest, status = source.read_lines(importer, intake)
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    return source.trail(intake, "grok-build", digest, status, children=children)


def _summary(path: str) -> dict[str, object]:
    folder, name = os.path.split(path)
    summary = os.path.join(folder, _SUMMARY)
    if name != _FILE or os.path.islink(summary):
        return {}
    try:
        with open_regular(summary) as fd:
            return decode_table(os.read(fd, _SUMMARY_BYTES_MAX)) or {}
    except (PeriplusError, OSError):
        return {}  # it only names the session


class GrokImporter(LineConversation):
    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self._commands: set[str] = set()  # calls whose results tell an exit code

    def learn(self, summary: dict[str, object]) -> None:
        intake = self._intake
        info = table_of(summary.get("info"))
        intake.session_id = optional_text(info.get("id"))
        intake.cwd = optional_text(info.get("cwd"))
        intake.branch = optional_text(summary.get("head_branch"))
        intake.model = optional_text(summary.get("current_model_id"))
        for name in ("created_at", "updated_at"):
            at_ms = self._moment.read(summary.get(name))
            if at_ms is not None:
                intake.note_time(at_ms)
        intake.note_time(None)
        version = summary.get("chat_format_version", _CHAT_FORMAT)
        if version != _CHAT_FORMAT:
            intake.note_unknown(f"chat format {integer_of(version)}")

    def _record(self, record: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        kind = text_of(record.get("type"))
        if kind == "user":
            self._user(record)
        elif kind == "assistant":
            self._assistant(record)
        elif kind == "reasoning":
            text = text_of_blocks(record.get("summary"))
            chat.think(text)  # what is sealed beside it nobody can read
        elif kind == "tool_result":
            self._result(record)
        elif kind == "backend_tool_call":
            self._backend_call(table_of(record.get("kind")))
        elif kind == "system":
            intake.skip("system")
        else:
            intake.note_unknown(kind or "record without a type")

    def _user(self, record: dict[str, object]) -> None:
        if "synthetic_reason" in record:
            self._intake.skip(f"user: {text_of(record.get('synthetic_reason')) or 'written by the program'}")
            return
        if record.get("prior_turn_interrupt"):
            self._chat.interrupt()
        chat_messages.prompt(self._chat, record.get("content"))

    def _assistant(self, record: dict[str, object]) -> None:
        chat = self._chat
        self._intake.model = optional_text(record.get("model_id")) or self._intake.model
        text = text_of_blocks(record.get("content"))
        if text:
            chat.say(text)
        for item in blocks_of(record.get("tool_calls")):
            call_id, name = text_of(item.get("id")), text_of(item.get("name"))
            chat.call(call_id, name, item.get("arguments"))
            if name.startswith("run_terminal") and len(self._commands) < _COMMANDS_MAX:
                self._commands.add(call_id)

    def _result(self, record: dict[str, object]) -> None:
        call_id, text = text_of(record.get("tool_call_id")), text_of_blocks(record.get("content"))
        code = _EXIT_CODE.search(text) if call_id in self._commands else None
        self._chat.result(call_id, "ok", text, int(code.group(1)) if code is not None else None)

    def _backend_call(self, tool: dict[str, object]) -> None:
        name, action = text_of(tool.get("tool_type")), tool.get("action")
        call = self._intake.call(plan_call(self._intake, name, action, self._intake.cwd))
        outcome: Outcome = "ok" if tool.get("status") == "completed" else "unknown"
        self._intake.resolve(call, outcome, None)
