"""Messages of a task as steps.

Messages follow Anthropic's interface. In newer versions a call is a block with an id, and a result is a block that
names its call. In older ones a call is XML within a text, and a result is a text that names its tool. The tokens come
from the display (`requests`): matched by time where messages have times, else one request for each answer.
"""

from __future__ import annotations

__all__ = ["TaskImporter", "facts_of", "model_of", "version_of"]

from collections import deque
from typing import Final

from periplus.interop.conversion.conversation import Chat, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import PENDING_CALLS_MAX, Call, Intake
from periplus.interop.importers.cline_tasks.requests import Request
from periplus.interop.importers.cline_tasks.tools import plan_tool
from periplus.interop.importers.cline_tasks.user_texts import (
    exit_code_of,
    feedback_in,
    folder_in,
    outcome_of,
    result_header,
    typed_texts,
    without_details,
)
from periplus.interop.importers.cline_tasks.xml_calls import parts_of
from periplus.interop.readers.json_values import (
    decode_table,
    list_of,
    milliseconds_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Outcome, Status

_SILENT: Final = frozenset({"document", "image", "image_url", "redacted_thinking"})
_TALK: Final = frozenset({"act_mode_respond", "plan_mode_respond"})  # calls that only say something to the person
_LAST: Final = "attempt_completion"
_INTERRUPTED: Final = "[Response interrupted by"


class TaskImporter:
    """Takes the messages of a task in their order. ``requests`` are those of its display."""

    def __init__(self, intake: Intake, requests: list[Request]) -> None:
        self._intake = intake
        self._chat = Chat(intake)
        self._requests = deque(requests)
        self._open: deque[tuple[str, Call]] = deque(maxlen=PENDING_CALLS_MAX)  # calls that were written as text
        self._last: dict[str, Call] = {}  # completions, which nobody answers at the end
        self._is_timed = False  # the message has a time of its own
        self._counted = any(request.is_counted for request in requests)

    def feed(self, number: int, data: bytes) -> bool:
        message = decode_table(data)
        if message is None:
            return False
        intake = self._intake
        intake.source = number
        role = text_of(message.get("role"))
        at_ms = milliseconds_of(message.get("ts"))
        if message.get("isTruncationMarker") is True:
            intake.skip("mark of a truncation")
        elif message.get("isSummary") is True:
            intake.note_time(at_ms)
            self._chat.think(text_of_blocks(message.get("content")), "summary of what was compacted")
        elif role == "user":
            self._is_timed = at_ms is not None
            intake.note_time(at_ms if self._is_timed else self._started_ms())
            self._user(blocks_of(message.get("content")))
        elif role == "assistant" or message.get("type") == "reasoning":
            self._assistant(message, at_ms)
        else:
            intake.note_unknown(f"role: {role or 'none'}")
        return True

    def finish(self) -> Status:
        for call in self._last.values():
            if not call.is_ready:
                call.outcome = "ok"
                self._intake.release(call)
        while self._requests:
            self._count(self._requests.popleft())
        is_waiting = any(not call.is_ready for _, call in self._open)
        if is_waiting:
            self._chat.status = self._intake.ending(self._chat.status, is_waiting=True)
        return self._chat.finish()

    # Requests of the display

    def _started_ms(self) -> int | None:
        return self._requests[0].started_ms if self._requests else None

    def _answered(self, at_ms: int | None) -> int | None:
        """Count the requests up to an answer at ``at_ms``, one if it is unknown; return the time of the answer."""
        if at_ms is None and self._requests:
            request = self._requests.popleft()
            self._count(request)
            return request.ended_ms or request.started_ms
        while at_ms is not None and self._requests and (self._requests[0].started_ms or 0) <= at_ms:
            self._count(self._requests.popleft())
        return at_ms

    def _count(self, request: Request) -> None:
        if request.is_counted:
            intake = self._intake
            intake.source = intake.source or 1
            intake.note_time(request.started_ms)
            call = intake.hold_model(intake.model or "unknown")
            intake.release_model(call, request.fresh, request.cached, request.out, request.cost_millionths)

    # Answers of the model

    def _assistant(self, message: dict[str, object], at_ms: int | None) -> None:
        intake, chat = self._intake, self._chat
        self._give_up()
        intake.model = optional_text(table_of(message.get("modelInfo")).get("modelId")) or intake.model
        if message.get("type") == "reasoning":
            intake.note_time(at_ms)
            chat.think(text_of(message.get("text")) or text_of_blocks(message.get("summary")))
            return
        intake.note_time(self._answered(at_ms))
        if not self._counted:
            self._usage(table_of(table_of(message.get("metrics")).get("tokens")))
        if isinstance(message.get("reasoning_content"), str):
            chat.think(text_of(message["reasoning_content"]))
        for block in blocks_of(message.get("content")):
            kind = text_of(block.get("type"))
            if kind == "text":
                self._text(text_of(block.get("text")))
            elif kind in ("thinking", "reasoning"):
                chat.think(text_of(block.get("thinking")) or text_of(block.get("text")))
            elif kind == "tool_use":
                self._call(text_of(block.get("id")), text_of(block.get("name")), block.get("input"))
            elif kind in _SILENT:
                intake.skip(f"block: {kind}")
            else:
                intake.note_unknown(f"block: {kind or 'unnamed'}")

    def _usage(self, tokens: dict[str, object]) -> None:
        cached, out = natural_of(tokens.get("cached")), natural_of(tokens.get("completion"))
        fresh = max(0, natural_of(tokens.get("prompt")) - cached)
        if fresh or cached or out:
            self._chat.usage(None, fresh, cached, out)

    def _text(self, text: str) -> None:
        for part in parts_of(text):
            if part.name == "thinking":
                self._chat.think(part.text)
            elif part.name:
                self._call("", part.name, part.arguments)
            elif part.text.strip().startswith(_INTERRUPTED):
                self._chat.interrupt()
            elif part.text.strip():
                self._chat.say(part.text.strip())

    def _call(self, call_id: str, name: str, given: object) -> None:
        intake, chat = self._intake, self._chat
        chat.status = "success"
        if name in _TALK:
            said = text_of(table_of(given).get("response"))
            if said.strip():
                chat.say(said)
            return
        call = intake.call(plan_tool(intake, name, given))
        if name == _LAST:
            self._last = {"": call}
        if call_id:
            chat.calls.add(call_id, call)
        else:
            self._open.append((name, call))

    def _give_up(self) -> None:
        """Release the calls of the last answer that have no result, because none can follow now."""
        while self._open:
            self._intake.release(self._open.popleft()[1])

    # Messages to the model

    def _user(self, blocks: list[dict[str, object]]) -> None:
        intake = self._intake
        typed: list[str] = []
        result: tuple[str, list[str]] | None = None
        has_image = False
        for block in blocks:
            kind = text_of(block.get("type"))
            if kind == "text":
                result = self._user_text(text_of(block.get("text")), result, typed)
            elif kind == "tool_result":
                typed += self._native_result(block)
            elif kind in _SILENT:
                has_image = has_image or (kind.startswith("image") and result is None)
                intake.skip(f"block: {kind}")
            else:
                intake.note_unknown(f"block: {kind or 'unnamed'}")
        if result is not None:
            typed += self._result(*result)
        texts = [text for text in typed if text.strip()]
        if texts or has_image:
            self._chat.prompt("\n".join(texts), "with an image" if has_image else None)

    def _user_text(
        self, text: str, result: tuple[str, list[str]] | None, typed: list[str]
    ) -> tuple[str, list[str]] | None:
        """Read a text, and return the result that the next texts continue."""
        intake = self._intake
        text, details = without_details(text)
        for detail in details:
            intake.skip("environment")
            intake.cwd = intake.cwd or folder_in(detail)
        if not text.strip():
            return result
        header = result_header(text)
        if header is not None:
            if result is not None:
                typed += self._result(*result)
            return header.name, [header.text] if header.text.strip() else []
        is_typed = text.startswith(("The user provided", "<feedback>", "<user_message>", "<task>"))
        if result is not None and not is_typed:
            result[1].append(text)
            return result
        found = typed_texts(text)
        if found is None:
            intake.skip("user: written by the program")
        else:
            typed += [intake.typed(one) for one in found]
        return result

    def _result(self, name: str, texts: list[str]) -> list[str]:
        """Give a result to the first open call of the tool, and return what the person said in it."""
        text = "\n".join(texts)
        if name in _TALK:
            return typed_texts(text, is_result=True) or ([] if text.startswith(("[", "(")) else [text])
        at = next((at for at, (one, _) in enumerate(self._open) if one == name), None)
        if at is None:
            self._intake.skip("result without its call")
            return []
        call = self._open[at][1]
        del self._open[at]
        return self._resolve(call, name, text, *outcome_of(text))

    def _native_result(self, block: dict[str, object]) -> list[str]:
        text = text_of_blocks(block.get("content"))
        text, details = without_details(text)
        if details:
            self._intake.skip("environment", len(details))
        header = result_header(text)
        told = header.text if header is not None else text
        if header is not None and header.name in _TALK:
            return typed_texts(told, is_result=True) or []
        call = self._chat.calls.claim(text_of(block.get("tool_use_id")))
        if call is None:
            self._intake.skip("result without its call")
            return typed_texts(told, is_result=True) or [] if told.startswith("<user_message>") else []
        outcome, exit_code = outcome_of(told)
        if outcome == "ok" and block.get("is_error") is True:
            outcome = "failed"
        return self._resolve(call, header.name if header is not None else "", told, outcome, exit_code)

    def _resolve(self, call: Call, name: str, text: str, outcome: Outcome, exit_code: int | None) -> list[str]:
        intake = self._intake
        step = call.steps[0]
        if step.op == "ASK":
            answers = typed_texts(text) or []
            step.operands[1] = intake.mask("\n".join(answers)) if answers else None
        elif outcome == "ok" and (name == "execute_command" or step.op in ("COMMAND_RUN", "TEST_RUN")):
            exit_code = exit_code_of(text)
            outcome = "failed" if exit_code else outcome
        at_ms = intake.at_ms
        if not self._is_timed:  # the next request is later than the end of the call
            intake.at_ms = None
        intake.resolve(call, outcome, text, exit_code=exit_code)
        intake.at_ms = at_ms
        return [intake.typed(said) for said in feedback_in(text)] if step.op != "ASK" else []


def facts_of(history: dict[str, object]) -> tuple[str | None, str | None]:
    """Return the folder and the title of a task from the item that lists it."""
    folder = optional_text(history.get("workspace")) or optional_text(history.get("cwdOnTaskInitialization"))
    return folder, optional_text(history.get("task"))


def model_of(metadata: dict[str, object]) -> str | None:
    """Return the model that a task used last."""
    used = [table_of(item) for item in list_of(metadata.get("model_usage"))]
    return next((optional_text(one.get("model_id")) for one in reversed(used) if one.get("model_id")), None)


def version_of(metadata: dict[str, object]) -> str | None:
    """Return the last version of Cline that worked on a task."""
    known = [table_of(item) for item in list_of(metadata.get("environment_history"))]
    return next((optional_text(one.get("cline_version")) for one in reversed(known) if one.get("cline_version")), None)
