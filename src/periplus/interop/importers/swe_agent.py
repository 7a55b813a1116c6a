"""Importer of SWE-agent's trajectories: one document, with the steps under ``trajectory`` and the model's messages
under ``history``.

Format: both describe the same run. The steps have every command with the folder and the open file, the messages have
the task, so the file is read twice. Demonstrations have messages only. No version stores how a command ended: the
outcome is unknown where the editor's output is all there is.
"""

from __future__ import annotations

__all__ = ["SweImporter", "is_mine", "read"]

import os
import re
import shlex
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.claude_tools import shell_steps, tool_call
from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_stream import JsonReader
from periplus.interop.readers.json_values import (
    decode_table,
    decode_value,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Digest, Status

_OPENED: Final = (("trajectory",), ("history",), ("info",), ("replay_config",))
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_OPEN_FILE: Final = re.compile(r"^\(Open file: ([^\n]{1,4096})\)", re.MULTILINE)
_FOLDER: Final = re.compile(r"^\(Current directory: ([^\n]{1,4096})\)", re.MULTILINE)
_NO_FILE: Final = ("n/a", "")
_PROMPTS_MAX: Final = 16
_TAIL_CHARS: Final = 8300
_WORDS_MAX: Final = 64 << 10
# Commands of its own editor; all others are the shell's.
_OWN: Final = frozenset({
    "open", "goto", "create", "edit", "insert", "scroll_up", "scroll_down", "find_file", "search_file", "search_dir",
    "submit", "str_replace_editor", "exit_cost", "exit_context", "exit_format", "exit_error", "exit_forfeit", "filemap",
})  # fmt: skip
_STATUSES: Final[dict[str, Status]] = {"": "success", "submitted": "success", "early_exit": "partial"}


def is_mine(head: Head) -> bool:
    document = head.document
    if "trajectory" in document.names:
        return "history" in document.names or "environment" in document.names or "info" in document.names
    messages = [table_of(message) for message in list_of(document.members.get("history"))[:3]]
    return "history" in document.names and any("message_type" in message and "role" in message for message in messages)


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = SweImporter(intake)
    overview = JsonReader(source.path, _OPENED)
    for element in overview:
        importer.look(element.path, element.name, element.data)
    importer.begin()
    digest, status = source.read_document(importer, intake, [(importer.told_by,)])
    name = os.path.basename(source.path).removesuffix(".json").removesuffix(".traj")
    intake.session_id = f"{name}-{importer.fingerprint}"
    yield source.trail(intake, "swe-agent-traj", digest, status, base=importer.base)


class SweImporter:
    def __init__(self, intake: Intake) -> None:
        self.base: Digest | None = None
        self.told_by = "history"
        self._intake = intake
        self._calls = OpenCalls()
        self._prompts: list[tuple[int, str]] = []  # the messages before the model's first, with their places
        self._messages = 0
        self._has_answered = False
        self._first: list[bytes] = []
        self._open_file = ""
        self._exit_status: str | None = None
        self._stats: dict[str, object] = {}

    @property
    def fingerprint(self) -> str:
        """Digest of the first messages, to distinguish runs of the same task."""
        import hashlib

        return hashlib.sha256(b"\0".join(self._first)).hexdigest()[:12]

    # First reading: facts of the whole run

    def look(self, path: tuple[str | int, ...], name: str, data: bytes) -> None:
        intake = self._intake
        if path == ("trajectory",):
            self.told_by = "trajectory"
            if not self._first:
                self._first.append(data)
        elif path == ("history",):
            self._look_at_message(data)
        elif path == ("info",):
            self._look_at_info(name, data)
        elif path == ("replay_config",):
            if name == "env":
                repo = table_of(table_of(decode_value(data)).get("repo"))
                commit = text_of(repo.get("base_commit"))
                if _COMMIT.fullmatch(commit):
                    self.base = Digest("git-sha1", bytes.fromhex(commit))
            elif name == "agent":
                model = table_of(table_of(decode_value(data)).get("model"))
                intake.model = optional_text(model.get("name")) or intake.model
        elif not path and name not in ("environment", "trajectory", "history", "info", "replay_config"):
            intake.skip(f"member: {name}")

    def _look_at_message(self, data: bytes) -> None:
        self._messages += 1
        if self._has_answered:
            return
        record = decode_table(data) or {}
        if len(self._first) < 3:
            self._first.append(data)
        role = text_of(record.get("role"))
        if role == "assistant" and not _is_demo(record):
            self._has_answered = True
        elif role == "user" and not _is_demo(record) and len(self._prompts) < _PROMPTS_MAX:
            self._prompts.append((self._messages, _content(record)))

    def _look_at_info(self, name: str, data: bytes) -> None:
        value = decode_value(data)
        if name == "exit_status":
            self._exit_status = text_of(value)
        elif name == "model_stats":
            self._stats = table_of(value)
        elif name == "swe_agent_version":
            self._intake.version = optional_text(value)
        else:
            self._intake.skip(f"info: {name}")

    def begin(self) -> None:
        """Add the prompts before the first step of a run that is imported from its steps."""
        if self.told_by == "trajectory":
            for place, text in self._prompts:
                self._intake.source = place
                self._prompt(text)

    # Second reading: the steps

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        self._intake.source = number
        if self.told_by == "trajectory":
            self._step(record)
        else:
            self._message(record)
        return True

    def finish(self) -> Status:
        intake = self._intake
        sent, received = natural_of(self._stats.get("tokens_sent")), natural_of(self._stats.get("tokens_received"))
        if sent or received:
            intake.source = intake.source or 1  # the sum of the run, also where it has no step
            intake.release_model(intake.hold_model(intake.model or "unknown"), sent, 0, received)
        status = self._exit_status
        if status is None:
            if self.told_by == "trajectory":
                return intake.partial("it does not say how it ended")
            return intake.ending("success", is_waiting=self._calls.is_waiting)
        if status in _STATUSES:
            return _STATUSES[status]
        return "partial" if status.startswith("submitted") else "error"

    def _step(self, record: dict[str, object]) -> None:
        intake = self._intake
        action = text_of(record.get("action"))
        self._think(text_of(record.get("thought")) or ("" if action.strip() else text_of(record.get("response"))))
        state = _state(record.get("state"))
        folder = text_of(state.get("working_dir"))
        if folder and intake.cwd is None:
            intake.cwd = folder
        if action.strip():
            call = intake.call(self._plan(action, folder))
            seconds = record.get("execution_time")
            is_time = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 <= seconds < 1e9
            observation = record.get("observation")
            if isinstance(observation, str):
                duration_ms = round(seconds * 1000) if is_time else None  # type: ignore[operator]  # is_time says so
                intake.resolve(call, "unknown", observation, error="", duration_ms=duration_ms)
            else:
                intake.release(call)
        else:
            intake.skip("step without a command")
        self._open_file = text_of(state.get("open_file"))

    def _message(self, record: dict[str, object]) -> None:
        intake = self._intake
        role = text_of(record.get("role"))
        if _is_demo(record):
            intake.skip("demonstration")
        elif role == "system":
            intake.skip("system prompt")
        elif role == "assistant":
            self._answer(record)
        elif role in ("user", "tool"):
            self._observation(record, is_tool=role == "tool")
        else:
            intake.note_unknown(f"role: {role or 'none'}")

    def _answer(self, record: dict[str, object]) -> None:
        intake = self._intake
        calls = list_of(record.get("tool_calls"))
        action = text_of(record.get("action"))
        self._think(text_of(record.get("thought")) or _content(record))
        for item in calls:
            call = table_of(item)
            function = table_of(call.get("function"))
            steps = self._plan_tool(text_of(function.get("name")), function.get("arguments"))
            self._calls.add(text_of(call.get("id")), intake.call(steps))
        if not calls and action.strip():
            self._calls.add("", intake.call(self._plan(action, intake.cwd)))

    def _observation(self, record: dict[str, object], *, is_tool: bool) -> None:
        intake = self._intake
        text = _content(record)
        names = [text_of(name) for name in list_of(record.get("tool_call_ids"))] or [
            text_of(record.get("tool_call_id"))
        ]
        found = [call for call in map(self._calls.claim, names) if call is not None]
        for call in found:
            intake.resolve(call, "unknown", text, error="")
        if found:
            tail = text[-_TAIL_CHARS:]
            opened, folder = _OPEN_FILE.search(tail), _FOLDER.search(tail)
            self._open_file = opened.group(1) if opened is not None else self._open_file
            if folder is not None and intake.cwd is None:
                intake.cwd = folder.group(1)
        elif is_tool:
            intake.skip("result without its call")
        else:
            self._prompt(text)

    def _prompt(self, text: str) -> None:
        intake = self._intake
        masked = intake.mask(text)
        intake.count("prompts")
        intake.step("PROMPT", masked)
        intake.note_prompt(masked)

    def _think(self, text: str) -> None:
        if text.strip():
            self._intake.count("says")
            self._intake.step("SAY", self._intake.mask(text.strip()))

    # Commands

    def _plan_tool(self, name: str, arguments: object) -> list[Planned]:
        intake = self._intake
        table = (
            arguments if isinstance(arguments, dict) else decode_table(text_of(arguments).encode("utf-8", "replace"))
        )
        if table is None:
            return [tool_call(intake, "", name, arguments)]
        if name == "edit" and self._open_file not in _NO_FILE:
            table = {"path": self._open_file, **table}
            if "search" not in table:
                intake.note_files("FILE_EDIT", [intake.mask(self._open_file)])
        if name == "open":
            return _read(intake, text_of(table.get("path")), table.get("line_number")) or [
                tool_call(intake, "", name, table)
            ]
        if name == "create" and text_of(table.get("filename")):
            intake.note_files("FILE_WRITE", [intake.mask(text_of(table["filename"]))])
        return plan_call(intake, name, table, intake.cwd)

    def _plan(self, action: str, folder: str | None) -> list[Planned]:
        """Return the steps of a typed command: one of the editor, or of the shell."""
        intake = self._intake
        line, _, rest = action.strip().partition("\n")
        name = line.split(None, 1)[0]
        if name not in _OWN:
            return shell_steps(intake, action.strip(), folder)
        words = _words(line)[1:]
        first, second = words[0] if words else "", words[1] if len(words) > 1 else ""
        if name == "open" and first:
            return _read(intake, first, second)
        if name == "find_file" and first:
            return plan_call(intake, name, {"pattern": first, "dir": second}, folder)
        if name in ("search_dir", "search_file") and first:
            where = second or (folder if name == "search_dir" else self._open_file)
            return plan_call(intake, name, {"pattern": first, "path": where or ""}, folder)
        if name == "str_replace_editor" and len(words) > 1:
            return plan_call(intake, name, _editor_arguments(_words(action.strip())[1:]), folder)
        arguments: dict[str, object] = {"arguments": line[len(name) :].strip()}
        if name == "create" and first:
            intake.note_files("FILE_WRITE", [intake.mask(first)])
        elif name in ("edit", "insert"):
            if self._open_file not in _NO_FILE:
                arguments["path"] = self._open_file
                intake.note_files("FILE_EDIT", [intake.mask(self._open_file)])
            if name == "edit" and len(words) == 2 and self._open_file not in _NO_FILE and not rest:
                return plan_call(intake, name, {"path": self._open_file, "search": first, "replace": second}, folder)
        if rest:
            arguments["text"] = rest
        return [tool_call(intake, "", name, arguments)]


def _read(intake: Intake, path: str, line: object) -> list[Planned]:
    number = str(line) if line else ""
    lines = f"{number}-" if number.isascii() and number.isdigit() and len(number) < 10 else None
    return [Planned("FILE_READ", [intake.mask(path), lines])] if path else []


def _words(text: str) -> list[str]:
    if len(text) > _WORDS_MAX:
        return text[:_WORDS_MAX].split()
    try:
        return shlex.split(text)
    except ValueError:  # a quotation that does not end
        return text.split()


def _editor_arguments(words: list[str]) -> dict[str, object]:
    """Parse ``create /a.py --file_text '…'`` as the editor's arguments."""
    arguments: dict[str, object] = {"command": words[0], "path": words[1]}
    name = ""
    for word in words[2:]:
        if word.startswith("--"):
            name = word[2:]
            arguments[name] = ""
        elif name == "view_range":
            found = arguments[name]
            numbers = found if isinstance(found, list) else []
            arguments[name] = [*numbers, int(word)] if word.lstrip("-").isdecimal() and len(word) < 10 else word
        elif name:
            arguments[name] = word
    return arguments


def _state(value: object) -> dict[str, object]:
    """Return the folder and the open file after a step: an object, in older versions a text."""
    if isinstance(value, str):
        return decode_table(value.encode("utf-8", "replace")) or {}
    return table_of(value)


def _is_demo(record: dict[str, object]) -> bool:
    return record.get("is_demo") is True or record.get("message_type") == "demonstration"


def _content(record: dict[str, object]) -> str:
    content = record.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text_of(table_of(item).get("text")) for item in list_of(content))))
