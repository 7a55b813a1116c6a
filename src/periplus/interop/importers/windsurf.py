"""Importer of Windsurf's transcripts: an event a line, with a ``type`` and a ``status``.

Format: the member with the name of the type has the facts of the event. An action is stored with its result when it has
ended. There are no times, tokens and ids of calls; only commands name their folder. The file has the name of the session.
"""

from __future__ import annotations

__all__ = ["WindsurfImporter", "is_mine", "read"]

import os
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.conversation import LineConversation
from periplus.interop.conversion.intake import Call, Planned
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import (
    integer_of,
    json_text,
    list_of,
    natural_of,
    path_of_url,
    table_of,
    text_of,
)
from periplus.trail.model import Outcome, Status

_NAME: Final = "windsurf"
_SILENT: Final = frozenset({
    "checkpoint", "conversation_history", "ephemeral_message", "file_change", "lint_diff", "memory", "suggested_responses",
    "system_message", "trajectory_choice", "user_settings_change",
})  # fmt: skip
_UNENDED: Final = frozenset({"generating", "pending", "queued", "running", "waiting"})
_FAILED: Final = frozenset({"error", "failed", "invalid"})
_CANCELLED: Final = frozenset({"canceled", "cancelled", "interrupted"})
_ENDED: Final = frozenset({"done", "completed", "success", *_FAILED, *_CANCELLED})
_REFUSED: Final = "ACKNOWLEDGEMENT_TYPE_REJECT"
# Names of the calls in the table that all agents share; then the members with the result, which are no arguments.
_SHARED: Final = {
    "codebase_search": "search_code", "create_file": "write", "find": "find_file", "grep_search": "grep", "list_directory": "ls",
    "propose_code": "edit", "read_url_content": "webfetch", "search_web": "web_search", "todo_list": "todo", "view_file": "read",
}  # fmt: skip
_RESULTS: Final = ("content", "output", "result", "results", "error", "diff", "summary", "text")
_FACTS: Final = frozenset({"acknowledgement_type", "exit_code", "total_results", "user_rejected"})


def is_mine(head: Head) -> bool:
    return any(map(_is_event, head.records[:8]))


def _is_event(record: dict[str, object]) -> bool:
    kind = text_of(record.get("type"))
    return (
        bool(kind) and isinstance(record.get("status"), str) and isinstance(record.get(kind), dict) and len(record) <= 8
    )


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    intake.session_id = os.path.splitext(os.path.basename(source.path))[0]
    importer = WindsurfImporter(intake)
    digest, status = source.read_lines(importer, intake)
    yield source.trail(intake, _NAME, digest, status)


class WindsurfImporter(LineConversation):
    _is_waiting = False

    def _record(self, record: dict[str, object]) -> None:
        intake, chat = self._intake, self._chat
        kind, status = text_of(record.get("type")), text_of(record.get("status")).lower()
        facts = table_of(record.get(kind)) if kind else {}
        if kind == "user_input":
            items = [text_of(table_of(item).get("text")) for item in list_of(facts.get("items"))]
            chat.prompt(text_of(facts.get("user_response")) or "\n".join(filter(None, items)))
        elif kind == "planner_response":
            if facts.get("thinking"):
                chat.think(text_of(facts["thinking"]))
            if facts.get("response") or not facts.get("thinking"):
                chat.say(text_of(facts.get("response")))
            chat.status = "cancelled" if status in _CANCELLED else "error" if status in _FAILED else "success"
        elif kind in _SILENT:
            intake.skip(kind)
        elif facts:
            self._action(kind, status, facts)
        else:
            intake.note_unknown(kind or "record without a type")

    def finish(self) -> Status:
        return self._intake.ending(self._chat.status, is_waiting=self._is_waiting)

    def _action(self, kind: str, status: str, facts: dict[str, object]) -> None:
        intake = self._intake
        call = intake.call(self._steps(kind, facts))
        self._chat.status = "success"
        self._is_waiting = status in _UNENDED
        if self._is_waiting:
            intake.release(call)
            return
        if status not in _ENDED:
            intake.note_unknown(f"status: {status or 'none'}")
        self._resolve(call, status, facts)

    def _resolve(self, call: Call, status: str, facts: dict[str, object]) -> None:
        exit_code = integer_of(facts.get("exit_code"))
        outcome: Outcome = "ok"
        if facts.get("user_rejected") is True or facts.get("acknowledgement_type") == _REFUSED:
            outcome, exit_code = "denied", None
        elif status in _CANCELLED:
            outcome = "cancelled"
        elif status in _FAILED or exit_code:
            outcome = "failed"
        self._intake.resolve(call, outcome, self._result(facts), exit_code=exit_code, is_exact=False)

    def _result(self, facts: dict[str, object]) -> str | None:
        """Return the result as far as the transcript has it."""
        value = next((facts[name] for name in _RESULTS if facts.get(name)), None)
        if value is not None:
            return text_of(value) or json_text(value, self._intake.mask)
        found = facts.get("total_results")
        return f"{natural_of(found)} results" if found is not None else None

    def _steps(self, kind: str, facts: dict[str, object]) -> list[Planned]:
        intake = self._intake
        if kind == "run_command":
            intake.cwd = intake.cwd or path_of_url(facts.get("cwd"))
        if kind == "code_action":
            steps = self._code_action(facts)
            if steps:
                return steps
        arguments = {name: value for name, value in facts.items() if name not in _FACTS and name not in _RESULTS}
        if kind.startswith("mcp") or "server_name" in facts:
            tool = text_of(facts.get("tool_name")) or text_of(table_of(facts.get("tool_call")).get("name")) or kind
            return plan_call(intake, tool, arguments, intake.cwd, text_of(facts.get("server_name")))
        shared = {**arguments, **_renamed(kind, facts)}  # paths for URLs
        steps = plan_call(intake, _SHARED.get(kind, kind), shared, intake.cwd)
        return steps if steps[0].op != "TOOL_CALL" else plan_call(intake, kind, arguments, intake.cwd)

    def _code_action(self, facts: dict[str, object]) -> list[Planned]:
        intake = self._intake
        path, new = path_of_url(facts.get("path")) or path_of_url(facts.get("uri")), facts.get("new_content")
        if not path or not isinstance(new, str):
            return []
        return [Planned("FILE_WRITE", [intake.mask(path), intake.keep(new)], "the file after the change")]


def _renamed(kind: str, facts: dict[str, object]) -> dict[str, object]:
    """Return arguments by the names that other agents use."""
    path = path_of_url(facts.get("path"))
    renamed: dict[str, object] = {"path": path} if path else {}
    if kind == "view_file":
        first, last = integer_of(facts.get("start_line")), integer_of(facts.get("end_line"))
        renamed.update(
            {name: at + 1 for name, at in (("start_line", first), ("end_line", last)) if at is not None}
        )  # from 0
    elif kind == "grep_search":
        renamed["path"] = path_of_url(facts.get("search_path"))
    elif kind == "find":
        renamed["path"] = path_of_url(facts.get("search_directory"))
    return renamed
