"""A sample of an Inspect log as a trail: the task, the model's actions and answers, and the score.

Format: a sample holds its events, and the resulting conversation as ``messages``; old logs and those without
transcripts have the messages only. A frequent text is stored once per sample and referenced as
``attachment://DIGEST``, in old logs as ``tc://DIGEST``. A model event repeats the whole conversation before it.
"""

from __future__ import annotations

__all__ = ["SampleImporter"]

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.interop.conversion.claude_tools import plan_tool, shell_steps, tool_call
from periplus.interop.conversion.intake import Call, Intake, Planned
from periplus.interop.readers.json_values import (
    Moment,
    integer_of,
    json_text,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)

if TYPE_CHECKING:
    from periplus.trail.model import Outcome, Status

_ATTACHED: Final = ("attachment://", "tc://")
_SEEN_MAX: Final = 100_000
_SCORE_CHARS_MAX: Final = 400
_SILENT_EVENTS: Final = frozenset({
    "anchor", "approval", "branch", "checkpoint", "compaction", "input", "interrupt", "logger", "info", "sample_init", "sandbox",
    "score_edit", "span_begin", "span_end", "state", "step", "store", "subtask",
})  # fmt: skip
_SILENT_PARTS: Final = frozenset({"image", "audio", "video", "document", "data"})


class SampleImporter:
    """Reads one sample. Call ``feed`` once; ``finish`` returns the end of the run."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._moment = Moment()
        self._attachments: dict[str, object] = {}
        self._seen: set[object] = set()
        self._open: dict[str, Call] = {}
        self._last: Status = "success"

    def feed(self, sample: dict[str, object]) -> None:
        transcript = table_of(sample.get("transcript"))
        self._attachments = table_of(sample.get("attachments")) or table_of(transcript.get("content"))
        events = list_of(sample.get("events")) or list_of(transcript.get("events"))
        has_model = any(table_of(event).get("event") == "model" for event in events)
        self._input(sample.get("input"))
        if has_model:
            for number, event in enumerate(events, 1):
                self._intake.source = number
                self._event(table_of(event))
        else:
            for event in events:
                self._intake.note_time(self._moment.read(table_of(event).get("timestamp")))
            self._intake.at_ms = None
            for number, message in enumerate(list_of(sample.get("messages")), 1):
                self._intake.source = number
                self._message(table_of(message))
            self._scores(table_of(sample.get("scores")))
        if sample.get("error") is not None:
            self._last = "error"
        elif sample.get("limit") is not None:
            self._last = self._intake.partial("a limit was reached")

    def finish(self) -> Status:
        is_partial = any(not call.is_ready for call in self._open.values())
        if is_partial and self._last == "success":
            return self._intake.partial("it ends behind a call without its result")
        return self._last

    # Texts

    def _text(self, value: object) -> str:
        """Return a text, resolving a reference to another place of the sample."""
        if not isinstance(value, str):
            return ""
        for mark in _ATTACHED:
            if value.startswith(mark):
                return text_of(self._attachments.get(value[len(mark) :])) or value
        return value

    def _joined(self, content: object) -> str:
        if isinstance(content, str):
            return self._text(content)
        parts = []
        for item in list_of(content):
            part = table_of(item)
            kind = text_of(part.get("type"))
            if kind == "text":
                parts.append(self._text(part.get("text")))
            elif kind in _SILENT_PARTS:
                parts.append(f"[{kind}]")
        return "\n".join(parts)

    def _step(self, op: str, counted: str, text: str, note: str | None = None) -> None:
        if not text.strip():
            self._intake.skip("block: empty")
            return
        self._intake.count(counted)
        self._intake.step(op, self._intake.mask(text), note=note)

    # Messages

    def _input(self, given: object) -> None:
        self._intake.source = 1
        if isinstance(given, str):
            self._prompt(self._text(given), None)
        for item in list_of(given):
            message = table_of(item)
            if message.get("role") == "user":
                self._prompt(self._joined(message.get("content")), message.get("id"))

    def _prompt(self, text: str, message_id: object) -> None:
        """Add a prompt, unless it was seen: by its id or, without one, by its text."""
        keys = {key for key in (message_id, hash(text)) if isinstance(key, (str, int))}
        is_known = not self._seen.isdisjoint(keys)
        if len(self._seen) < _SEEN_MAX:
            self._seen |= keys
        if is_known or not text.strip():
            return
        masked = self._intake.mask(text)
        self._intake.count("prompts")
        self._intake.note_prompt(masked)
        self._intake.step("PROMPT", masked)

    def _said(self, message: dict[str, object]) -> None:
        for item in list_of(message.get("content")):
            part = table_of(item)
            if part.get("type") == "reasoning":
                text = "[redacted]" if part.get("redacted") is True else self._text(part.get("reasoning"))
                self._step("COMMENT", "comments", text)
        text = self._joined(message.get("content"))
        if text.strip():
            self._step("SAY", "says", text)

    def _message(self, message: dict[str, object]) -> None:
        role = text_of(message.get("role"))
        if role == "user":
            self._prompt(self._joined(message.get("content")), message.get("id"))
        elif role == "assistant":
            self._said(message)
            for item in list_of(message.get("tool_calls")):
                call = table_of(item)
                self._call(text_of(call.get("id")), call.get("function"), call.get("arguments"))
        elif role == "tool":
            found = self._open.pop(text_of(message.get("tool_call_id")), None)
            if found is None:
                self._intake.skip("result without its call")
            else:
                self._result(found, message.get("content"), message.get("error"), None)
        elif role == "system":
            self._intake.skip("message: system")
        else:
            self._intake.note_unknown(f"message: {role or 'nobody'}")

    # Events

    def _event(self, event: dict[str, object]) -> None:
        intake = self._intake
        intake.note_time(self._moment.read(event.get("timestamp")))
        kind = text_of(event.get("event"))
        if kind == "model":
            self._model(event)
        elif kind == "tool":
            call = self._call("", event.get("function"), event.get("arguments"))
            seconds = event.get("working_time")
            duration = int(seconds * 1000) if isinstance(seconds, (int, float)) and 0 <= seconds < 1e9 else None
            if event.get("pending") is True:
                self._open[text_of(event.get("id")) or str(len(self._open))] = call
            else:
                self._result(call, event.get("result"), event.get("error"), duration)
        elif kind == "score":
            if event.get("intermediate") is not True:
                self._score("", event.get("score"))
        elif kind == "error":
            self._last = "error"
            self._step("COMMENT", "comments", self._text(table_of(event.get("error")).get("message")), "an error")
        elif kind == "sample_limit":
            self._last = self._intake.partial("a limit was reached")
            self._step("COMMENT", "comments", self._text(event.get("message")), "a limit was reached")
        elif kind in _SILENT_EVENTS:
            intake.skip(f"event: {kind}")
        else:
            intake.note_unknown(f"event: {kind or 'unnamed'}")

    def _model(self, event: dict[str, object]) -> None:
        intake = self._intake
        for item in list_of(event.get("input")):
            message = table_of(item)
            if message.get("role") == "user":
                self._prompt(self._joined(message.get("content")), message.get("id"))
        output = table_of(event.get("output"))
        usage = table_of(output.get("usage"))
        model = text_of(event.get("model")) or text_of(output.get("model")) or "unknown"
        intake.model = model
        cached = natural_of(usage.get("input_tokens_cache_read"))
        fresh = natural_of(usage.get("input_tokens")) + natural_of(usage.get("input_tokens_cache_write"))
        call = intake.hold_model(model)
        intake.release_model(call, fresh, cached, natural_of(usage.get("output_tokens")))
        for item in list_of(output.get("choices"))[:1]:
            self._said(table_of(table_of(item).get("message")))

    def _call(self, call_id: str, function: object, arguments: object) -> Call:
        call = self._intake.call(_plan(self._intake, text_of(function), arguments))
        if call_id:
            self._open[call_id] = call
        return call

    def _result(self, call: Call, content: object, error: object, duration_ms: int | None) -> None:
        text = self._joined(content) if isinstance(content, (str, list)) else json_text(content, self._intake.mask)
        problem = table_of(error)
        outcome: Outcome = "ok"
        if problem:
            kind = text_of(problem.get("type"))
            outcome = {"permission": "denied", "approval": "denied", "cancelled": "cancelled"}.get(kind, "failed")  # type: ignore[assignment]  # all of them are outcomes
        message = self._intake.mask(self._text(problem.get("message"))) if problem else None
        self._intake.resolve(call, outcome, text or message or "", error=message, duration_ms=duration_ms)

    # Scores

    def _scores(self, scores: dict[str, object]) -> None:
        for name, score in list(scores.items())[:100]:
            self._score(name, score)

    def _score(self, name: str, score: object) -> None:
        table = table_of(score)
        value = table.get("value")
        text = value if isinstance(value, str) else json_text(value, self._intake.mask)
        answer = optional_text(table.get("answer"))
        said = f"score{f' of {name}' if name else ''}: {text}" + (f", for the answer {answer}" if answer else "")
        self._step("COMMENT", "comments", self._intake.mask(said)[:_SCORE_CHARS_MAX], "how it was scored")


# ---- tools


def _plan(intake: Intake, name: str, given: object) -> list[Planned]:
    arguments = table_of(given)
    if not arguments:
        return [tool_call(intake, "", name, given)]
    planner = _PLANNERS.get(name)
    steps = planner(intake, arguments) if planner is not None else []
    return steps or plan_tool(intake, name, arguments, None)


def _bash(intake: Intake, arguments: dict[str, object]) -> list[Planned]:
    command = text_of(arguments.get("cmd")) or text_of(arguments.get("command")) or text_of(arguments.get("input"))
    return shell_steps(intake, command, None) if command else []


def _text_editor(intake: Intake, arguments: dict[str, object]) -> list[Planned]:
    verb, path = text_of(arguments.get("command")), text_of(arguments.get("path"))
    if not path:
        return []
    if verb == "view":
        lines = [integer_of(item) for item in list_of(arguments.get("view_range"))]
        known = len(lines) == 2 and None not in lines
        return [Planned("FILE_READ", [intake.mask(path), f"{lines[0]}-{lines[1]}" if known else None])]
    new = arguments.get("file_text" if verb == "create" else "new_str")
    if not isinstance(new, str):
        new = arguments.get("insert_text")
    if not isinstance(new, str):
        return []
    if verb == "create":
        return [Planned("FILE_WRITE", [intake.mask(path), intake.keep(new)])]
    if verb == "str_replace":
        return [
            Planned("FILE_EDIT", [intake.mask(path), intake.mask(text_of(arguments.get("old_str"))), intake.mask(new)])
        ]
    if verb == "insert":
        note = f"inserted behind line {integer_of(arguments.get('insert_line')) or 0}"
        return [Planned("FILE_EDIT", [intake.mask(path), "", intake.mask(new)], note)]
    return []


_PLANNERS: Final[dict[str, Callable[[Intake, dict[str, object]], list[Planned]]]] = {
    "bash": _bash,
    "bash_session": _bash,
    "text_editor": _text_editor,
}
