"""OpenHands events of version 1: a ``kind``, with an action or observation that has a kind of its own."""

from __future__ import annotations

__all__ = ["VersionOne"]

from typing import Final

from periplus.interop.conversion.claude_tools import tool_call
from periplus.interop.conversion.intake import PENDING_CALLS_MAX, Intake, Planned
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_values import integer_of, list_of, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Outcome, Status

_SILENT: Final = frozenset({
    "SystemPromptEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent", "LLMCompletionLogEvent",
    "TokenEvent", "StreamingDeltaEvent", "HookExecutionEvent", "ResumeEvent", "GoalEvent",
})  # fmt: skip
_OWN_FIELDS: Final = frozenset({"kind", "security_risk", "summary"})
_USAGES_MAX: Final = 64
_STATUSES: Final[dict[str, Status]] = {
    "finished": "success", "error": "error", "stuck": "error", "paused": "cancelled",
}  # fmt: skip


class VersionOne:
    def __init__(self, intake: Intake, calls: OpenCalls) -> None:
        self.status: Status | None = None
        self._intake = intake
        self._calls = calls
        self._sums: dict[str, tuple[int, int, int]] = {}  # by usage: tokens of input, of cached input, of output
        self._by_tool_call: dict[str, str] = {}  # tool call id → action id

    def take(self, kind: str, record: dict[str, object]) -> None:
        intake = self._intake
        if kind == "MessageEvent":
            self._message(record)
        elif kind == "ActionEvent":
            self._action(record)
        elif kind in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent"):
            self._observation(kind, record)
        elif kind == "ConversationStateUpdateEvent":
            self._state(text_of(record.get("key")), record.get("value"))
        elif kind in ("PauseEvent", "InterruptEvent"):
            intake.skip(kind)
            self.status = "cancelled"
            self._calls.cancel()
        elif kind == "ConversationErrorEvent":
            intake.skip(kind)
            self.status = "error"
        elif kind in _SILENT:
            intake.skip(kind)
        else:
            intake.note_unknown(kind or "event without a kind")

    # Actions

    def _message(self, record: dict[str, object]) -> None:
        intake = self._intake
        message = table_of(record.get("llm_message"))
        text = _joined(message.get("content"))
        if record.get("source") == "user":
            text = intake.typed(text)
            has_image = any(table_of(part).get("type") == "image" for part in list_of(message.get("content")))
            if not text.strip() and not has_image:
                intake.skip("user: nothing in it")
                return
            masked = intake.mask(text)
            intake.count("prompts")
            intake.step("PROMPT", masked, note="with an image" if has_image else None)
            intake.note_prompt(masked)
        elif record.get("source") == "environment":
            intake.skip("message of the program")
        else:
            self._think(message)
            self._say(text)
        self.status = None

    def _think(self, record: dict[str, object]) -> str:
        """Add the reasoning of a message or an action as a comment."""
        text = text_of(record.get("reasoning_content"))
        if not text.strip():
            blocks = (text_of(table_of(block).get("thinking")) for block in list_of(record.get("thinking_blocks")))
            text = "\n".join(filter(None, blocks))
        if text.strip():
            self._intake.count("comments")
            self._intake.step("COMMENT", self._intake.mask(text))
        return text

    def _say(self, text: str) -> None:
        if text.startswith("<think>"):  # some models repeat their reasoning in the text
            text = text.partition("</think>")[2]
        if text.strip():
            self._intake.count("says")
            self._intake.step("SAY", self._intake.mask(text.strip()))

    def _action(self, record: dict[str, object]) -> None:
        intake = self._intake
        self.status = None
        action = table_of(record.get("action"))
        kind = text_of(action.get("kind"))
        self._think(record)
        self._say(_joined(record.get("thought")))
        if kind == "FinishAction":
            self._say(text_of(action.get("message")))
            self.status = "success"
            return
        if kind == "ThinkAction":
            self._intake.count("comments")
            self._intake.step("COMMENT", intake.mask(text_of(action.get("thought"))))
            return
        call = intake.call(
            self._plan(kind, text_of(record.get("tool_name")), action, table_of(record.get("tool_call")))
        )
        event_id, call_id = text_of(record.get("id")), text_of(record.get("tool_call_id"))
        self._calls.add(event_id, call)
        if call_id and event_id:
            self._by_tool_call[call_id] = event_id
            if len(self._by_tool_call) > 2 * PENDING_CALLS_MAX:
                del self._by_tool_call[next(iter(self._by_tool_call))]

    def _plan(self, kind: str, name: str, action: dict[str, object], call: dict[str, object]) -> list[Planned]:
        intake = self._intake
        if not action:  # the request was no valid action: keep its text
            return plan_call(intake, name or text_of(call.get("name")), call.get("arguments"), intake.cwd)
        if kind == "MCPToolAction":
            return [tool_call(intake, "mcp", name, action.get("data"))]
        arguments = {key: value for key, value in action.items() if key not in _OWN_FIELDS}
        return plan_call(intake, name or kind, arguments, intake.cwd)

    # Observations

    def _observation(self, kind: str, record: dict[str, object]) -> None:
        intake = self._intake
        action_id, call_id = text_of(record.get("action_id")), text_of(record.get("tool_call_id"))
        if not self._calls.has(action_id):
            action_id = self._by_tool_call.get(call_id, action_id)
        observation = table_of(record.get("observation"))
        inner = text_of(observation.get("kind"))
        call = self._calls.claim(action_id) if action_id else None
        if call is None:
            silent = inner in ("ThinkObservation", "FinishObservation")
            intake.skip(inner if silent else "result without its call")
            return
        if kind == "UserRejectObservation":
            intake.resolve(call, "denied", text_of(record.get("rejection_reason")))
            return
        if kind == "AgentErrorEvent":
            intake.resolve(call, "failed", text_of(record.get("error")))
            return
        metadata = table_of(observation.get("metadata"))
        exit_code = integer_of(observation.get("exit_code"))
        exit_code = integer_of(metadata.get("exit_code")) if exit_code is None else exit_code
        intake.cwd = intake.cwd or optional_text(metadata.get("working_dir"))
        is_failed = observation.get("is_error") is True or bool(exit_code) or bool(observation.get("error"))
        outcome: Outcome = "failed" if is_failed else "ok"
        text = (
            _joined(observation.get("content"))
            or text_of(observation.get("output"))
            or text_of(observation.get("error"))
        )
        intake.resolve(call, outcome, text, exit_code=exit_code)

    def _state(self, key: str, value: object) -> None:
        intake = self._intake
        intake.skip(f"state: {key}" if key else "state")
        if key == "full_state":
            state = table_of(value)
            self._stats(table_of(state.get("stats")))
            self._status(state.get("execution_status"))
            intake.session_id = optional_text(state.get("id")) or intake.session_id
        elif key == "stats":
            self._stats(table_of(value))
        elif key == "execution_status":
            self._status(value)

    def _status(self, value: object) -> None:
        if isinstance(value, str):
            self.status = _STATUSES.get(value)

    def _stats(self, stats: dict[str, object]) -> None:
        """Add a model call for each change of the sums. The input includes cached tokens; a step does not."""
        intake = self._intake
        for name, item in list(table_of(stats.get("usage_to_metrics")).items())[:_USAGES_MAX]:
            metrics = table_of(item)
            usage = table_of(metrics.get("accumulated_token_usage"))
            given, out = natural_of(usage.get("prompt_tokens")), natural_of(usage.get("completion_tokens"))
            sums = (given, min(given, natural_of(usage.get("cache_read_tokens"))), out)
            before = self._sums.get(name, (0, 0, 0))
            if sums == before or len(self._sums) >= _USAGES_MAX:
                continue
            self._sums[name] = sums
            new = [max(0, now - then) for now, then in zip(sums, before, strict=True)]
            model = optional_text(metrics.get("model_name")) or intake.model or "unknown"
            if name != "condenser":
                intake.model = model
            if new[0] or new[2]:
                cached = min(new[0], new[1])
                intake.release_model(intake.hold_model(model), new[0] - cached, cached, new[2])


def _joined(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text_of(table_of(part).get("text")) for part in list_of(content))))
