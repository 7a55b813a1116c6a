"""Importer of Antigravity's transcripts: a step a line, each with its ``type``, its time and its ``content``.

Format: the model's step holds its thought, its words and its calls, whose arguments are JSON within texts; the steps
after it hold the results, with a type for the kind of tool and no id. A result without a call is the only trace of an
action, and becomes a call of its own. Long texts are shortened by the agent.
"""

from __future__ import annotations

__all__ = ["AntigravityImporter", "is_mine", "read"]

import os
import re
from collections import deque
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.conversation import LineConversation
from periplus.interop.conversion.intake import PENDING_CALLS_MAX, Call, Intake, Planned
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_value, integer_of, list_of, table_of, text_of
from periplus.trail.model import Outcome, Status

_NAME: Final = "antigravity"
_SILENT: Final = frozenset({
    "CHECKPOINT", "CONVERSATION_HISTORY", "EPHEMERAL_MESSAGE", "KNOWLEDGE_ARTIFACTS", "SYSTEM_MESSAGE", "TASK_BOUNDARY",
})  # fmt: skip
# Types of results, and the tools that give them; GENERIC is that of every other tool.
_TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "CODE_ACTION": ("write_to_file", "replace_file_content", "multi_replace_file_content", "write_file", "edit_file", "create_file"),
    "FIND": ("find_by_name",), "GREP_SEARCH": ("grep_search",), "LIST_DIRECTORY": ("list_dir", "list_directory"),
    "READ_URL_CONTENT": ("read_url_content",), "RUN_COMMAND": ("run_command",), "SEARCH_WEB": ("search_web",),
    "VIEW_FILE": ("view_file", "read_file"), "COMMAND_STATUS": ("command_status",), "BROWSER_SUBAGENT": ("browser_subagent",),
    "VIEW_FILE_OUTLINE": ("view_file_outline",), "VIEW_CODE_ITEM": ("view_code_item",), "GENERATE_IMAGE": ("generate_image",),
    "NOTIFY_USER": ("notify_user",), "MCP_TOOL": (), "GENERIC": (),
}  # fmt: skip
_TYPE_OF: Final = {tool: kind for kind, tools in _TOOLS.items() for tool in tools}
_SHARED: Final = {
    "find_by_name": "find_file", "read_url_content": "webfetch", "write_to_file": "write", "write_file": "write",
    "replace_file_content": "edit", "browser_subagent": "task", "notify_user": "ask_user",
}  # fmt: skip
_ARGUMENTS: Final = {
    "AbsolutePath": "path", "TargetFile": "path", "File": "path", "SearchPath": "path", "SearchDirectory": "path",
    "StartLine": "start_line", "EndLine": "end_line", "CodeContent": "content", "TargetContent": "old_string",
    "ReplacementContent": "new_string", "Query": "query", "Pattern": "pattern", "Url": "url", "Task": "task", "Message": "message",
}  # fmt: skip
_STATUSES: Final[dict[str, Outcome]] = {
    "ERROR": "failed", "FAILED": "failed", "CANCELED": "cancelled", "CANCELLED": "cancelled", "INTERRUPTED": "cancelled",
    "REJECTED": "denied",
}  # fmt: skip
_ENDED: Final = frozenset({"DONE", *_STATUSES})
_UNENDED: Final = frozenset({"GENERATING", "PENDING", "QUEUED", "RUNNING", "WAITING"})
_REQUEST: Final = ("<USER_REQUEST>", "</USER_REQUEST>")
_ADDITIONS: Final = ("<ADDITIONAL_METADATA>", "<USER_SETTINGS_CHANGE>")
_MODEL: Final = re.compile(r"`Model Selection` from [^\n]{1,200}? to ([^\n]{1,200})")
_EXIT_CODE: Final = re.compile(r"exit code:? (-?\d{1,9})\b")
_EDITS_MAX: Final = 1000
_TRANSCRIPT: Final = "transcript"


def is_mine(head: Head) -> bool:
    return any(map(_is_step, head.records[:8]))


def _is_step(record: dict[str, object]) -> bool:
    return (
        integer_of(record.get("step_index")) is not None
        and isinstance(record.get("type"), str)
        and "created_at" in record
    )


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    intake.session_id = _conversation(source.path)
    importer = AntigravityImporter(intake)
    digest, status = source.read_lines(importer, intake)
    yield source.trail(intake, _NAME, digest, status)


def _conversation(path: str) -> str | None:
    """Return the name of the conversation: of its folder, three above the transcript."""
    parts = os.path.abspath(path).split(os.sep)
    if len(parts) > 4 and parts[-3:-1] == [".system_generated", "logs"]:
        return parts[-4]
    stem = os.path.splitext(parts[-1])[0]
    return None if stem.startswith(_TRANSCRIPT) else stem


class AntigravityImporter(LineConversation):
    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self._open: deque[tuple[str, Call]] = deque(maxlen=PENDING_CALLS_MAX)
        self._is_waiting = False

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        at_ms = self._moment.read(record.get("created_at"))
        if at_ms is not None:
            intake.note_time(at_ms)
        kind, content = text_of(record.get("type")), text_of(record.get("content"))
        is_short = "content" in list_of(record.get("truncated_fields"))
        if is_short:
            intake.skip("text that the agent shortened")
        if kind == "USER_INPUT":
            self._user(content)
        elif kind == "PLANNER_RESPONSE":
            self._answer(record, content)
        elif kind == "CHECKPOINT" and content:
            self._chat.think(content, "summary of what was compacted")
        elif kind in _SILENT:
            intake.skip(kind)
        elif kind in _TOOLS or record.get("source") == "MODEL":
            if kind not in _TOOLS:
                intake.note_unknown(kind or "step without a type")
            self._result(kind, text_of(record.get("status")), content, is_exact=not is_short)
        else:
            intake.note_unknown(kind or "step without a type")

    def finish(self) -> Status:
        is_waiting = self._is_waiting or any(not call.is_ready for _, call in self._open)
        return self._intake.ending(self._chat.status, is_waiting=is_waiting)

    def _user(self, content: str) -> None:
        match = _MODEL.search(content)
        if match is not None:
            self._intake.model = match.group(1).strip().removesuffix(".") or self._intake.model
        _, found, rest = content.partition(_REQUEST[0])
        text, closed, _ = rest.partition(_REQUEST[1])
        if not found or not closed:
            text = content
            for mark in _ADDITIONS:
                text = text.partition(mark)[0]
        self._chat.prompt(text.strip())

    def _answer(self, record: dict[str, object], content: str) -> None:
        intake, chat = self._intake, self._chat
        self._is_waiting = False
        while self._open:  # their results come before the next answer
            intake.release(self._open.popleft()[1])
        thought, calls = text_of(record.get("thinking")), list_of(record.get("tool_calls"))
        if thought:
            chat.think(thought)
        if content or not (thought or calls):
            chat.say(content)
        for item in calls:
            call = table_of(item)
            name = text_of(call.get("name"))
            arguments = {key: _decoded(value) for key, value in table_of(call.get("args")).items()}
            self._open.append((name, intake.call(self._steps(name, arguments))))
            chat.status = "success"
        stop = _STATUSES.get(text_of(record.get("status")))
        if stop is not None:
            chat.status = "cancelled" if stop == "cancelled" else "error"

    def _result(self, kind: str, status: str, content: str, *, is_exact: bool) -> None:
        intake = self._intake
        at_ms = intake.at_ms
        call = self._claim(kind)
        if call is None:
            call = intake.call(plan_call(intake, kind.lower(), {}, None))
            intake.at_ms = None  # when the action began is not known
        self._chat.status = "success"
        if status in _UNENDED:
            self._is_waiting = True
            intake.release(call)
            intake.at_ms = at_ms
            return
        if status not in _ENDED and status.isupper():
            intake.note_unknown(f"status: {status}")
        outcome = _STATUSES.get(status, "ok")
        match = _EXIT_CODE.search(content[:400]) if kind == "RUN_COMMAND" else None
        exit_code = int(match.group(1)) if match is not None else None
        if outcome == "ok" and exit_code:
            outcome = "failed"
        intake.resolve(call, outcome, content, exit_code=exit_code, is_exact=is_exact)
        intake.at_ms = at_ms

    def _claim(self, kind: str) -> Call | None:
        """Return the first open call of a tool that gives results of this type."""
        for at, (name, call) in enumerate(self._open):
            if _TYPE_OF.get(name, "GENERIC") == kind or (name not in _TYPE_OF and kind not in _TOOLS):
                del self._open[at]
                return call
        return None

    def _steps(self, name: str, arguments: dict[str, object]) -> list[Planned]:
        intake = self._intake
        if name == "run_command":
            intake.cwd = intake.cwd or text_of(arguments.get("Cwd")) or None
        if name == "multi_replace_file_content":
            steps = _edits(intake, arguments)
            if steps:
                return steps
        shared = {_ARGUMENTS.get(key, key): value for key, value in arguments.items()}
        steps = plan_call(intake, _SHARED.get(name, name), shared, intake.cwd)
        return steps if steps[0].op != "TOOL_CALL" else plan_call(intake, name, arguments, intake.cwd)


def _decoded(value: object) -> object:
    """Return the value of an argument, which is JSON within a text; other texts are as they are."""
    if not isinstance(value, str):
        return value
    decoded = decode_value(value.encode("utf-8", "replace"))
    return value if decoded is None else decoded


def _edits(intake: Intake, arguments: dict[str, object]) -> list[Planned]:
    path = intake.mask(text_of(arguments.get("TargetFile")))
    chunks = [table_of(item) for item in list_of(arguments.get("ReplacementChunks"))[: _EDITS_MAX + 1]]
    if not path or len(chunks) > _EDITS_MAX:
        return []
    texts = [(text_of(one.get("TargetContent")), text_of(one.get("ReplacementContent"))) for one in chunks]
    return [Planned("FILE_EDIT", [path, intake.mask(old), intake.mask(new)]) for old, new in texts]
