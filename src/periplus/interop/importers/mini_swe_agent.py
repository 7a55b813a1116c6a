"""Importer of mini-swe-agent's trajectories: one document with the messages, alone or under ``messages``.

Format: the agent's only tool is a shell. Its command is a fenced block in the answer, or since version 2 a tool call;
the next message is the result, with the exit code in its own tag.
"""

from __future__ import annotations

__all__ = ["MiniImporter", "is_mine", "read"]

import os
import re
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.claude_tools import shell_steps
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_stream import Element
from periplus.interop.readers.json_values import (
    decode_table,
    decode_value,
    integer_of,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Status

_ROLES: Final = frozenset({"system", "user", "assistant", "tool", "exit"})
_FENCE: Final = "```"
_LANGUAGES: Final = frozenset({"bash", "mswea_bash_command", "sh"})
_RETURN_CODE: Final = re.compile(r"\s*<returncode>\s*(-?\d{1,9})\s*</returncode>")
_TIMED_OUT: Final = ("The last command <command>", "Command timed out", "An error occurred while executing")
_MARK: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_STATUSES: Final[dict[str, Status]] = {
    "Submitted": "success",
    "": "success",
    "LimitsExceeded": "partial",
    "KeyboardInterrupt": "cancelled",
    "UserInterruption": "cancelled",
}


def is_mine(head: Head) -> bool:
    document = head.document
    if text_of(document.members.get("trajectory_format")).startswith("mini-swe-agent"):
        return True
    info = table_of(document.members.get("info"))
    if "mini_version" in info and "messages" in document.names:
        return True
    messages = document.elements or list_of(document.members.get("messages"))
    return _is_conversation(messages)


def _is_conversation(messages: list[object]) -> bool:
    """Detect bare messages of this agent by its instruction to answer with a block."""
    tables = [table_of(message) for message in messages[:4]]
    if not tables or not all(text_of(table.get("role")) in _ROLES for table in tables):
        return False
    said = [text_of(table.get("content")) for table in tables]
    return any("mswea_bash_command" in text or _MARK in text for text in said)


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = MiniImporter(intake)

    def learn(element: Element) -> None:
        if element.path:
            importer.learn(element.name, element.data)
        elif element.name != "trajectory_format":
            intake.skip(f"member: {element.name}")

    digest, status = source.read_document(importer, intake, [("messages",), ("info",)], learn, _is_record)
    name = os.path.basename(source.path).split(".traj")[0].removesuffix(".json")
    intake.session_id = f"{name}-{importer.fingerprint}"
    yield source.trail(intake, "mini-swe-agent", digest, status)


def _is_record(element: Element) -> bool:
    """Detect a message: in ``messages``, or in a document that is a list."""
    return element.path == ("messages",) or not (element.path or element.name)


class MiniImporter:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._calls = OpenCalls()
        self._first: list[bytes] = []
        self._exit_status = ""
        self._last_said = False  # the message before was the model's

    @property
    def fingerprint(self) -> str:
        """Digest of the first messages, to distinguish runs of the same task."""
        import hashlib

        return hashlib.sha256(b"\0".join(self._first)).hexdigest()[:12]

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        if len(self._first) < 3:
            self._first.append(data)
        intake = self._intake
        intake.source = number
        extra = table_of(record.get("extra"))
        stamp = extra.get("timestamp", record.get("timestamp"))
        if isinstance(stamp, (int, float)) and not isinstance(stamp, bool) and 0 < stamp < 1e11:
            intake.note_time(round(stamp * 1000))
        role = text_of(record.get("role")) or text_of(record.get("type"))
        text = _content(record.get("content", record.get("output")))
        if role == "system":
            intake.skip("system prompt")
        elif role == "assistant":
            self._assistant(record, extra, text)
        elif role in ("user", "tool", "function_call_output"):
            self._answer(record, extra, text, is_user=role == "user")
        elif role == "exit":
            intake.skip("exit")
            self._exit_status = text_of(extra.get("exit_status")) or self._exit_status
        else:
            intake.note_unknown(f"role: {role or 'none'}")
        return True

    def learn(self, name: str, data: bytes) -> None:
        """Handle a member of ``info``."""
        intake = self._intake
        value = decode_value(data)
        if name == "exit_status":
            self._exit_status = text_of(value)
        elif name == "mini_version":
            intake.version = optional_text(value)
        elif name == "config":
            config = table_of(value)
            intake.model = optional_text(table_of(config.get("model")).get("model_name")) or intake.model
            intake.cwd = optional_text(table_of(config.get("environment")).get("cwd")) or intake.cwd
        else:
            intake.skip(f"info: {name}")

    def finish(self) -> Status:
        waits = self._calls.is_waiting
        if self._exit_status:
            return _STATUSES.get(self._exit_status, "error")
        return self._intake.ending("success", is_waiting=waits)

    # Messages

    def _assistant(self, record: dict[str, object], extra: dict[str, object], text: str) -> None:
        intake = self._intake
        self._usage(extra)
        calls = list_of(record.get("tool_calls"))
        commands, said = ([], text.strip()) if calls else _parted(text)
        reasoning = text_of(record.get("reasoning_content"))
        if reasoning.strip():
            intake.count("comments")
            intake.step("COMMENT", intake.mask(reasoning))
        if said:
            intake.count("says")
            intake.step("SAY", intake.mask(said))
        elif not commands and not calls:
            intake.skip("assistant: nothing in it")
        if len(commands) == 1:
            self._run(commands[0], "")
        elif commands:
            intake.skip("answer with several commands, of which none was run")
        for item in calls:
            call = table_of(item)
            function = table_of(call.get("function"))
            steps = plan_call(intake, text_of(function.get("name")), function.get("arguments"), intake.cwd)
            self._calls.add(text_of(call.get("id")), intake.call(steps))
        self._last_said = True

    def _run(self, command: str, call_id: str) -> None:
        intake = self._intake
        self._calls.add(call_id, intake.call(shell_steps(intake, command, intake.cwd)))

    def _usage(self, extra: dict[str, object]) -> None:
        intake = self._intake
        response = table_of(extra.get("response"))
        usage = response.get("usage")
        if not isinstance(usage, dict):
            return
        model = optional_text(response.get("model")) or intake.model or "unknown"
        intake.model = intake.model or model
        given = natural_of(usage.get("prompt_tokens"))
        cached = min(given, natural_of(table_of(usage.get("prompt_tokens_details")).get("cached_tokens")))
        call = intake.hold_model(model)
        intake.release_model(call, given - cached, cached, natural_of(usage.get("completion_tokens")))

    def _answer(self, record: dict[str, object], extra: dict[str, object], text: str, *, is_user: bool) -> None:
        intake = self._intake
        call = None
        if not is_user or self._last_said:
            call = self._calls.claim(text_of(record.get("tool_call_id")) or text_of(record.get("call_id")))
        if call is not None:
            match = _RETURN_CODE.match(text)
            exit_code = integer_of(extra.get("returncode"))
            exit_code = int(match.group(1)) if exit_code is None and match is not None else exit_code
            is_failed = exit_code not in (None, 0) or text.startswith(_TIMED_OUT) or bool(extra.get("exception_info"))
            intake.resolve(call, "failed" if is_failed else "ok", text, exit_code=exit_code)
        elif is_user and not self._last_said:
            masked = intake.mask(text)
            intake.count("prompts")
            intake.step("PROMPT", masked)
            intake.note_prompt(masked)
        else:
            intake.skip("message of the program" if is_user else "result without its call")
        self._last_said = self._last_said and not is_user


def _parted(text: str) -> tuple[list[str], str]:
    """Return the commands in a text, and the text without the command where there is exactly one."""
    parts = text.split(_FENCE)
    commands, places = [], []
    for place in range(1, len(parts) - 1, 2):
        language, found, command = parts[place].partition("\n")
        if found and language.strip() in _LANGUAGES:
            commands.append(command.removesuffix("\n"))
            places.append(place)
    if len(commands) != 1:
        return commands, text.strip()
    before, after = _FENCE.join(parts[: places[0]]), _FENCE.join(parts[places[0] + 1 :])
    return commands, "\n\n".join(filter(None, (before.strip(), after.strip())))


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text_of(table_of(item).get("text")) for item in list_of(content))))
