"""OpenHands events of version 0: an ``action`` with ``args``, or an ``observation`` with the ``cause`` that it
answers.
"""

from __future__ import annotations

__all__ = ["VersionZero"]

from typing import Final

from periplus.interop.conversion.claude_tools import tool_call
from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_values import integer_of, list_of, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Outcome, Status

_SILENT_ACTIONS: Final = frozenset({
    "system", "recall", "null", "change_agent_state", "condensation", "condensation_request", "pause", "resume", "stop",
    "start", "initialize", "loop_recovery", "push", "send_pr",
})  # fmt: skip
_SILENT_OBSERVATIONS: Final = frozenset({
    "recall", "think", "null", "agent_state_changed", "agent_condensation", "condensation", "condense", "server_ready",
    "user_cancelled", "download", "loop_detection",
})  # fmt: skip
_RESPONSES_REMEMBERED: Final = 64
_NO_ARGUMENTS: Final = frozenset({
    "thought", "blocking", "is_static", "hidden", "confirmation_state", "impl_source", "security_risk", "start", "end",
})  # fmt: skip


class VersionZero:
    def __init__(self, intake: Intake, calls: OpenCalls) -> None:
        self.status: Status | None = None
        self._intake = intake
        self._calls = calls
        self._responses: dict[str, None] = {}

    def take(self, record: dict[str, object]) -> None:
        if isinstance(record.get("observation"), str):
            self._observation(text_of(record["observation"]), record)
        else:
            self._action(text_of(record.get("action")), record)

    # Actions

    def _action(self, kind: str, record: dict[str, object]) -> None:
        intake = self._intake
        arguments = table_of(record.get("args"))
        self._usage(record)
        if kind == "message":
            self._message(text_of(arguments.get("content")), record)
        elif kind == "think":
            self._comment(text_of(arguments.get("thought")))
        elif kind in ("finish", "reject"):
            self._say(text_of(arguments.get("final_thought")) or text_of(arguments.get("thought")))
            done = arguments.get("task_completed")
            self.status = "partial" if done == "partial" else "error" if done in ("false", False) else "success"
        elif kind in _SILENT_ACTIONS:
            intake.skip(f"action: {kind}")
            if kind == "system":
                intake.version = optional_text(arguments.get("openhands_version")) or intake.version
        elif not kind:
            intake.note_unknown("action without a name")
        else:
            self._say(text_of(arguments.get("thought")))
            self._calls.add(str(integer_of(record.get("id"))), intake.call(self._plan(kind, arguments)))
            self.status = None

    def _message(self, text: str, record: dict[str, object]) -> None:
        intake = self._intake
        if record.get("source") != "user":
            self._say(text)
            return
        masked = intake.mask(text)
        intake.count("prompts")
        has_image = bool(table_of(record.get("args")).get("image_urls"))
        intake.step("PROMPT", masked, note="with an image" if has_image else None)
        intake.note_prompt(masked)

    def _say(self, text: str) -> None:
        if text.strip():
            self._intake.count("says")
            self._intake.step("SAY", self._intake.mask(text.strip()))

    def _comment(self, text: str) -> None:
        if text.strip():
            self._intake.count("comments")
            self._intake.step("COMMENT", self._intake.mask(text))

    def _usage(self, record: dict[str, object]) -> None:
        """Add one model call per response, which may have asked for several actions."""
        response = table_of(table_of(record.get("tool_call_metadata")).get("model_response"))
        usage = response.get("usage")
        name = text_of(response.get("id"))
        if not isinstance(usage, dict) or (name and name in self._responses):
            return
        if len(self._responses) >= _RESPONSES_REMEMBERED:
            del self._responses[next(iter(self._responses))]
        self._responses[name] = None
        intake = self._intake
        model = optional_text(response.get("model")) or intake.model or "unknown"
        intake.model = model
        given = natural_of(usage.get("prompt_tokens"))
        cached = min(given, natural_of(table_of(usage.get("prompt_tokens_details")).get("cached_tokens")))
        call = intake.hold_model(model)
        intake.release_model(call, given - cached, cached, natural_of(usage.get("completion_tokens")))

    def _plan(self, kind: str, arguments: dict[str, object]) -> list[Planned]:
        intake = self._intake
        cwd = optional_text(arguments.get("cwd")) or intake.cwd
        if kind == "run":
            return plan_call(intake, "bash", arguments, cwd)
        if kind == "read":
            first, last = integer_of(arguments.get("start")), integer_of(arguments.get("end"))
            lines = arguments.get("view_range")
            if lines is None and (first or last not in (None, -1)):
                lines = [(first or 0) + 1, last if last is not None else -1]
            return plan_call(intake, "read", {"path": arguments.get("path"), "view_range": lines}, cwd)
        if kind == "write":
            return plan_call(intake, "write", arguments, cwd)
        if kind == "edit" and arguments.get("command"):
            return plan_call(intake, "str_replace_editor", arguments, cwd)
        if kind == "browse":
            return plan_call(intake, "browse", arguments, cwd)
        if kind == "delegate":
            inputs = table_of(arguments.get("inputs"))
            task = text_of(inputs.get("task")) or text_of(arguments.get("thought"))
            if task:
                agent = text_of(arguments.get("agent")) or "agent"
                return [Planned("AGENT_SPAWN", [intake.mask(agent), intake.mask(task), None])]
        if kind == "task_tracking":
            return plan_call(intake, "task_tracker", arguments, cwd)
        if kind == "call_tool_mcp":
            return [tool_call(intake, "mcp", text_of(arguments.get("name")), arguments.get("arguments"))]
        rest = {key: value for key, value in arguments.items() if key not in _NO_ARGUMENTS}
        return [tool_call(intake, "", kind, rest)]

    # Observations

    def _observation(self, kind: str, record: dict[str, object]) -> None:
        intake = self._intake
        cause = integer_of(record.get("cause"))
        call = self._calls.claim(str(cause)) if cause is not None else None
        if call is None:
            known = kind in _SILENT_OBSERVATIONS
            intake.skip(f"observation: {kind}" if known else "result without its call")
            return
        extras = table_of(record.get("extras"))
        metadata = table_of(extras.get("metadata"))
        exit_code = integer_of(metadata.get("exit_code"))
        exit_code = integer_of(extras.get("exit_code")) if exit_code is None else exit_code
        folder = optional_text(metadata.get("working_dir"))
        intake.cwd = intake.cwd or folder
        outcome: Outcome = "ok"
        if kind == "user_rejected":
            outcome = "denied"
        elif kind == "user_cancelled":
            outcome = "cancelled"
        elif kind == "error" or exit_code or record.get("success") is False:
            outcome = "failed"
        texts = [text_of(part) for part in list_of(record.get("content"))]
        intake.resolve(
            call, outcome, text_of(record.get("content")) or "\n".join(filter(None, texts)), exit_code=exit_code
        )
