"""Importer of opencode's sessions: messages with parts, from files or from the database.

Format: a changed part is written again, so a call is stored with its result; a model call is a message in newer
versions and a ``step-finish`` part in all; texts of tools for the person, and texts marked ``synthetic``, were not
typed by a person.
"""

from __future__ import annotations

__all__ = ["Message", "OpencodeImporter"]

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import integer_of, list_of, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Digest, Outcome, Status

_SILENT: Final = frozenset({
    "agent", "compaction", "file", "patch", "retry", "snapshot", "step-finish", "step-start", "subtask",
})  # fmt: skip
_ENDED: Final = frozenset({"completed", "success", "error"})
_GOES_ON: Final = frozenset({"length", "tool-calls"})
_CLOCK_MS_MAX: Final = 253_402_300_799_999


class Message(NamedTuple):
    """A message and its parts, None for invalid JSON, and the bytes of all of them."""

    values: dict[str, object] | None
    parts: list[dict[str, object] | None]
    data: bytes


class OpencodeImporter:
    """Takes a session's card, then each message with its parts. ``child`` returns the trail of a subagent's session."""

    def __init__(self, intake: Intake, child: Callable[[str], Imported | None]) -> None:
        self.parent_id: str | None = None
        self._intake = intake
        self._child = child
        self._usages: deque[dict[str, object]] = deque()
        self._model = "unknown"
        self._is_waiting = False
        self._last: Status = "success"

    def learn(self, card: dict[str, object]) -> None:
        intake = self._intake
        intake.session_id = optional_text(card.get("id"))
        intake.cwd = optional_text(card.get("directory"))
        intake.version = optional_text(card.get("version"))
        self.parent_id = optional_text(card.get("parentID"))
        for name in ("created", "updated"):
            at_ms = _moment(table_of(card.get("time")).get(name))
            if at_ms is not None:
                intake.note_time(at_ms)

    def feed(self, number: int, message: dict[str, object], parts: list[dict[str, object]]) -> None:
        intake = self._intake
        intake.source = number
        at_ms = _moment(table_of(message.get("time")).get("created"))
        intake.note_time(at_ms)
        role = text_of(message.get("role"))
        if role == "user":
            self._user(parts)
        elif role == "assistant":
            self._assistant(message, parts)
        else:
            intake.note_unknown(f"role: {role or 'none'}")

    def finish(self) -> Status:
        return self._intake.ending(self._last, is_waiting=self._is_waiting)

    # Messages

    def _user(self, parts: list[dict[str, object]]) -> None:
        intake = self._intake
        texts, has_file = [], False
        for part in parts:
            kind = text_of(part.get("type"))
            if kind == "text" and (part.get("synthetic") is True or part.get("ignored") is True):
                intake.skip("user: written by the program")
            elif kind == "text":
                texts.append(text_of(part.get("text")))
            else:
                has_file = has_file or kind == "file"
                self._pass(kind)
        text = intake.typed("\n".join(filter(None, texts)))
        if not text.strip() and not has_file:
            intake.skip("user: nothing in it")
            return
        masked = intake.mask(text)
        intake.count("prompts")
        intake.step("PROMPT", masked, note="with a file" if has_file else None)
        intake.note_prompt(masked)
        self._last = "success"

    def _assistant(self, message: dict[str, object], parts: list[dict[str, object]]) -> None:
        intake = self._intake
        model = table_of(message.get("model"))
        found = optional_text(message.get("modelID")) or optional_text(model.get("modelID"))
        self._model = found or intake.model or "unknown"
        intake.model = found or intake.model
        path = message.get("path")
        folder = text_of(path) or text_of(table_of(path).get("cwd"))
        intake.cwd = intake.cwd or folder or None
        finished = [part for part in parts if part.get("type") == "step-finish"]
        usages = [table_of(part.get("tokens")) for part in finished] or [table_of(message.get("tokens"))]
        self._usages = deque(usage for usage in usages if usage)
        self._model_call()
        for part in parts:
            self._part(part)
        while self._usages:
            self._model_call()
        self._end(table_of(message.get("error")))
        if _reason_of(message, finished) in _GOES_ON:
            intake.note_unfinished("it ends in the middle of a turn")

    def _end(self, error: dict[str, object]) -> None:
        name = text_of(error.get("name"))
        if name:
            self._intake.skip(f"error: {name}")
            self._last = "cancelled" if name == "MessageAbortedError" else "error"
        else:
            self._last = "success"

    def _model_call(self) -> None:
        if not self._usages:
            return
        usage = self._usages.popleft()
        cache = table_of(usage.get("cache"))
        fresh = natural_of(usage.get("input")) + natural_of(cache.get("write"))
        out = natural_of(usage.get("output")) + natural_of(usage.get("reasoning"))
        call = self._intake.hold_model(self._model)
        self._intake.release_model(call, fresh, natural_of(cache.get("read")), out)

    def _part(self, part: dict[str, object]) -> None:
        intake = self._intake
        kind = text_of(part.get("type"))
        time = table_of(part.get("time"))
        at_ms = _moment(time.get("start"))
        if at_ms is not None:
            intake.note_time(at_ms)
        if kind == "text":
            self._say("SAY", "says", text_of(part.get("text")))
        elif kind == "reasoning":
            self._say("COMMENT", "comments", text_of(part.get("text")))
        elif kind == "tool":
            self._tool(part)
        else:
            self._pass(kind)
            if kind == "step-finish":
                self._model_call()

    def _pass(self, kind: str) -> None:
        if kind in _SILENT:
            self._intake.skip(f"part: {kind}")
        else:
            self._intake.note_unknown(f"part: {kind or 'unnamed'}")

    def _say(self, op: str, counted: str, text: str) -> None:
        if not text.strip():
            self._intake.skip("part: empty")
            return
        self._intake.count(counted)
        self._intake.step(op, self._intake.mask(text))

    def _tool(self, part: dict[str, object]) -> None:
        intake = self._intake
        state = table_of(part.get("state"))
        time = table_of(state.get("time"))
        begun_ms, ended_ms = _moment(time.get("start")), _moment(time.get("end"))
        if begun_ms is not None:
            intake.note_time(begun_ms)
        steps = plan_call(intake, text_of(part.get("tool")), state.get("input"), intake.cwd)
        metadata = table_of(state.get("metadata"))
        answers = [text_of(answer) for answers in list_of(metadata.get("answers")) for answer in list_of(answers)]
        child_id = text_of(metadata.get("sessionId")) or text_of(metadata.get("sessionID"))
        child = self._child(child_id) if child_id and steps[0].op == "AGENT_SPAWN" else None
        if child is not None:
            steps[0].operands[2] = Digest("sha256", child.trail_digest)
        elif steps[0].op == "ASK" and any(answers):
            steps[0].operands[1] = intake.mask("\n".join(filter(None, answers)))
        call = intake.call(steps)
        status = text_of(state.get("status"))
        if status not in _ENDED:
            self._is_waiting = True
            intake.skip(f"call without an end: {status or 'no status'}")
            intake.release(call)
            return
        exit_code = integer_of(metadata.get("exit"))
        text = text_of(state.get("output"))
        outcome: Outcome = "failed" if exit_code else "ok"
        if status == "error":
            text = text_of(state.get("error")) or text
            outcome = "failed"
            if "rejected permission" in text[:200] or "user dismissed" in text[:200]:
                outcome = "denied"
            elif text.startswith(("Tool execution aborted", "Aborted")):
                outcome = "cancelled"
        if ended_ms is not None:
            intake.note_time(ended_ms)
        intake.resolve(call, outcome, text, exit_code=exit_code)


def _reason_of(message: dict[str, object], finished: list[dict[str, object]]) -> str:
    """Return why the model ended the message, from the message or its last step."""
    return text_of(message.get("finish")) or (text_of(finished[-1].get("reason")) if finished else "")


def _moment(value: object) -> int | None:
    number = integer_of(value)
    if number is None and isinstance(value, float) and 0 <= value <= _CLOCK_MS_MAX:
        number = int(value)
    return number if number is not None and 0 <= number <= _CLOCK_MS_MAX else None
