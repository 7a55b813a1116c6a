"""Importer of GitHub Copilot CLI sessions: an event a line, each with a ``type`` and ``data``.

Format: a call occurs in the model's message and again when it begins; subagents are in the same file, under the call
that began them; only output tokens are given.
"""

from __future__ import annotations

__all__ = ["CopilotImporter", "is_mine", "is_of_editor", "read"]

import re
from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.conversation import LineConversation, read_conversation, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import list_of, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Digest, Outcome

_PREFIXES: Final = ("assistant.", "hook.", "session.", "skill.", "subagent.", "system.", "tool.", "user.")
_SILENT: Final = frozenset({
    "assistant.turn_start", "assistant.turn_end", "assistant.intent", "assistant.usage", "assistant.reasoning",
    "hook.start", "hook.end", "session.auto_mode_resolved", "session.compaction_complete", "session.compaction_start",
    "session.context_changed", "session.handoff", "session.idle", "session.import_legacy", "session.info",
    "session.mode_changed", "session.plan_changed", "session.resume", "session.shutdown", "session.snapshot_rewind",
    "session.task_complete", "session.title_changed", "session.truncation", "session.usage_checkpoint",
    "session.usage_info", "session.warning", "session.workspace_file_changed", "skill.invoked", "subagent.completed",
    "subagent.failed", "subagent.selected", "subagent.started", "system.message", "system.notification",
    "tool.execution_partial_result", "tool.execution_progress", "tool.user_requested",
})  # fmt: skip
_OUTCOMES: Final[dict[str, Outcome]] = {"success": "ok", "failure": "failed", "rejected": "denied", "denied": "denied"}
_EXIT_CODE: Final = re.compile(r"<(?:exited|shellId: [^<>]{1,80} completed) with exit code (-?\d{1,9})>\s*$")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_CALLS_REMEMBERED: Final = 4096


def is_mine(head: Head) -> bool:
    return any(map(_is_event, head.records)) and not any(map(is_of_editor, head.records))


def is_of_editor(record: dict[str, object]) -> bool:
    """Detect the beginning of a session of Copilot Chat in VS Code, which writes the same events."""
    return record.get("type") == "session.start" and "vscodeVersion" in table_of(record.get("data"))


def _is_event(record: dict[str, object]) -> bool:
    kind = text_of(record.get("type"))
    return kind.startswith(_PREFIXES) and isinstance(record.get("data"), dict) and "timestamp" in record


def read(source: Source) -> Iterator[Imported]:
    yield from read_conversation(source, CopilotImporter, "copilot-cli")


class CopilotImporter(LineConversation):
    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self._known_calls: dict[str, None] = {}
        self._has_usage_records = False
        self._lane = ""

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        kind, data = text_of(record.get("type")), table_of(record.get("data"))
        if kind == "user.message":
            self._enter("")
            self._chat.prompt(text_of(data.get("content")), "with a file" if data.get("attachments") else None)
        elif kind == "assistant.message":
            self._message(data)
        elif kind == "tool.execution_start":
            self._enter(data.get("parentToolCallId"))
            self._begin(data, data.get("toolName"))
        elif kind == "tool.execution_complete":
            self._end(data)
        elif kind == "session.usage_record":
            self._usage(table_of(data.get("usage")))
        elif kind == "session.start":
            self._learn(data)
        elif kind == "session.model_change":
            intake.skip(kind)
            intake.model = optional_text(data.get("newModel")) or intake.model
        elif kind == "abort":
            intake.skip(kind)
            self._chat.interrupt()
        elif kind == "session.error":
            intake.skip(kind)
            self._chat.status = "error"
        elif kind in _SILENT:
            intake.skip(kind)
        else:
            intake.note_unknown(kind or "record without a type")

    def _learn(self, data: dict[str, object]) -> None:
        intake = self._intake
        context = table_of(data.get("context"))
        intake.session_id = optional_text(data.get("sessionId")) or intake.session_id
        intake.version = optional_text(data.get("copilotVersion")) or intake.version
        intake.cwd = intake.cwd or optional_text(context.get("cwd"))
        intake.branch = intake.branch or optional_text(context.get("branch"))
        intake.model = optional_text(data.get("selectedModel")) or intake.model
        commit = text_of(context.get("headCommit"))
        if _COMMIT.fullmatch(commit) and commit.strip("0"):
            self.base = Digest("git-sha1", bytes.fromhex(commit))

    def _usage(self, usage: dict[str, object]) -> None:
        """Add the model call of a record of its own, which versions since 1.0 write: it has the input, too."""
        self._has_usage_records = True
        cached = natural_of(usage.get("cacheReadTokens"))
        fresh = max(0, natural_of(usage.get("inputTokens")) - cached)
        self._chat.usage(optional_text(usage.get("model")), fresh, cached, natural_of(usage.get("outputTokens")))

    def _enter(self, parent: object) -> None:
        """Enter the branch of a subagent, which is named by the call that began it."""
        lane = text_of(parent)
        if lane != self._lane:
            self._lane = lane
            self._chat.label(f"subagent of {lane}" if lane else "main")

    def _message(self, data: dict[str, object]) -> None:
        chat = self._chat
        self._enter(data.get("parentToolCallId"))
        out = natural_of(data.get("outputTokens"))
        if out and not self._has_usage_records:
            chat.usage(optional_text(data.get("model")), 0, 0, out)
        requests = list_of(data.get("toolRequests"))
        thought, text = text_of(data.get("reasoningText")), text_of(data.get("content"))
        if thought:
            chat.think(thought)
        if text or not (requests or thought):
            chat.say(text)
        for item in requests:
            request = table_of(item)
            self._begin(request, request.get("name"))

    def _begin(self, data: dict[str, object], name: object) -> None:
        """Add a call at its request, or at its beginning without one."""
        call_id = text_of(data.get("toolCallId"))
        if call_id and call_id in self._known_calls:
            self._intake.skip("call told again")
            return
        if len(self._known_calls) >= _CALLS_REMEMBERED:
            self._known_calls = dict.fromkeys(list(self._known_calls)[_CALLS_REMEMBERED // 2 :])
        self._known_calls[call_id] = None
        server, tool = text_of(data.get("mcpServerName")), text_of(data.get("mcpToolName"))
        self._chat.call(
            call_id, tool if server and tool else text_of(name), data.get("arguments"), server if tool else ""
        )

    def _end(self, data: dict[str, object]) -> None:
        result = table_of(data.get("result"))
        error = data.get("error")
        content = result.get("content", result.get("text_result_for_llm"))
        text = text_of_blocks(content) or text_of(table_of(error).get("message")) or text_of(error)
        outcome = _OUTCOMES.get(text_of(result.get("result_type")) or text_of(result.get("resultType")), "ok")
        if outcome == "ok" and (data.get("success") is False or error):
            outcome = "denied" if table_of(error).get("code") in ("rejected", "denied") else "failed"
        match = _EXIT_CODE.search(text[-200:])
        self._chat.result(text_of(data.get("toolCallId")), outcome, text, int(match.group(1)) if match else None)
