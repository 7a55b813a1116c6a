"""Requests of a session of Copilot Chat as steps.

A request holds the person's words, the response as VS Code shows it, and, for Copilot's own modes, the rounds of the
model with its calls and their results. Rounds are read where there are some; the shown response is read otherwise.
"""

from __future__ import annotations

__all__ = ["ChatImporter"]

from typing import Final

from periplus.interop.conversion.conversation import Chat
from periplus.interop.conversion.intake import TITLE_CHARS_MAX, Call, Intake
from periplus.interop.importers.copilot_chat.invocations import (
    Invocation,
    file_edits,
    invocation_of,
    name_of_reference,
    result_text,
)
from periplus.interop.importers.copilot_chat.tools import plan_tool
from periplus.interop.readers.json_values import (
    decode_table,
    integer_of,
    list_of,
    milliseconds_of,
    natural_of,
    optional_text,
    path_of_url,
    table_of,
    text_of,
)
from periplus.trail.model import Outcome, Status

_MEMBERS: Final = frozenset({
    "agent", "codeCitations", "confirmation", "contentReferences", "editedFileEvents", "followups", "isCanceled", "isHidden",
    "message", "modeInfo", "modelId", "modelState", "requestId", "response", "responseId", "responseMarkdownInfo", "result",
    "shouldBeRemovedOnSend", "slashCommand", "timeSpentWaiting", "timestamp", "usage", "usedContext", "variableData",
    "vote", "voteDownReason", "workingSet", "attempt", "responseTimestamp", "locationData", "elapsedMs", "isSystemInitiated",
    "completionTokens", "promptTokens", "outputTokens", "promptTokenDetails", "responseErrorDetails", "providerRequestId",
})  # fmt: skip
_SILENT: Final = frozenset({
    "autoModeResolution", "clearToPreviousToolInvocation", "codeblockUri", "command", "confirmation", "disabledClaudeHooks",
    "elicitation", "elicitationSerialized", "extensions", "hook", "info", "mcpServersStarting", "move", "multiDiffData",
    "notebookEditGroup", "planReview", "prepareToolInvocation", "progressMessage", "progressTask", "progressTaskSerialized",
    "pullRequest", "questionCarousel", "references", "systemNotification", "treeData", "undoStop", "usage", "warning",
    "workspaceEdit", "agentDetection", "textEdit", "codeCitation",
})  # fmt: skip
_FENCES: Final = frozenset({"```", "````", "`````"})
_ENDS: Final[dict[int, Status]] = {2: "cancelled", 3: "error"}
_UNENDED: Final = (0, 4)
_VENDOR: Final = "copilot/"
_REFUSALS: Final[tuple[tuple[str, Outcome], ...]] = (
    ("The user cancelled the tool call.", "denied"), ("The user chose to skip the tool call", "denied"),
    ("ERROR while calling tool:", "failed"), ("ERROR: Your input to the tool was invalid", "failed"),
)  # fmt: skip
_EXIT_CODE: Final = "Command exited with code "


class ChatImporter:
    """Takes a session's requests in their order, and facts about it at any time."""

    def __init__(self, intake: Intake, cwd: str | None) -> None:
        self._intake = intake
        self._chat = Chat(intake)
        self._title = ""
        self._is_waiting = False
        self._lane = ""
        intake.cwd = cwd

    def learn(self, facts: dict[str, object]) -> None:
        intake = self._intake
        intake.session_id = optional_text(facts.get("sessionId")) or intake.session_id
        self._title = text_of(facts.get("customTitle")) or self._title
        self._note_ms(facts.get("creationDate"))
        selected = table_of(table_of(facts.get("inputState")).get("selectedModel"))
        intake.model = intake.model or _model(selected.get("identifier"))

    def feed(self, number: int, data: bytes) -> bool:
        request = decode_table(data)
        if request is None:
            return False
        self.request(number, request)
        return True

    def finish(self) -> Status:
        if self._title:
            self._intake.title = " ".join(self._intake.mask(self._title).split())[:TITLE_CHARS_MAX]
        return self._intake.ending(self._chat.status, is_waiting=self._is_waiting)

    def request(self, number: int, request: dict[str, object]) -> None:
        intake = self._intake
        intake.source = number
        self._is_waiting = False
        self._note_ms(request.get("timestamp"))
        for name in request.keys() - _MEMBERS:
            intake.note_unknown(f"member: {name}")
        agent, result = table_of(request.get("agent")), table_of(request.get("result"))
        intake.version = optional_text(agent.get("extensionVersion")) or intake.version
        self._prompt(request)
        intake.model = _model(request.get("modelId")) or intake.model
        metadata = table_of(result.get("metadata"))
        self._usage(table_of(request.get("usage")) or metadata)
        parts: list[dict[str, object]] = [
            {"value": item} if isinstance(item, str) else table_of(item) for item in list_of(request.get("response"))
        ]
        intake.cwd = intake.cwd or _folder(parts)
        invocations = [invocation_of(part) for part in parts if part.get("kind") == "toolInvocationSerialized"]
        rounds = [table_of(item) for item in list_of(metadata.get("toolCallRounds"))]
        if any(text_of(one.get("response")) or list_of(one.get("toolCalls")) for one in rounds):
            has_calls = any(list_of(one.get("toolCalls")) for one in rounds)
            self._rounds(rounds, table_of(metadata.get("toolCallResults")), invocations)
            self._shown([part for part in parts if not _is_in_rounds(part, has_calls=has_calls)])
        else:
            self._shown(parts)
        self._enter("")
        self._end(request, result)

    def _note_ms(self, value: object) -> None:
        at_ms = milliseconds_of(value)
        if at_ms is not None:
            self._intake.note_time(at_ms)

    def _prompt(self, request: dict[str, object]) -> None:
        message = request.get("message")
        text = text_of(message) or text_of(table_of(message).get("text"))
        note = None
        for item in list_of(table_of(request.get("variableData")).get("variables")):
            variable = table_of(item)
            kind = text_of(variable.get("kind"))
            if kind in ("image", "file", "directory") and not text_of(variable.get("id")).startswith("vscode.implicit"):
                note = "with an image" if kind == "image" else note or "with a file"
        self._chat.prompt(text, note)

    def _usage(self, usage: dict[str, object]) -> None:
        fresh = natural_of(usage.get("promptTokens"))
        out = natural_of(usage.get("completionTokens")) or natural_of(usage.get("outputTokens"))
        if fresh or out:
            self._chat.usage(None, fresh, 0, out)

    def _end(self, request: dict[str, object], result: dict[str, object]) -> None:
        chat = self._chat
        state = table_of(request.get("modelState"))
        value = integer_of(state.get("value"))
        self._note_ms(state.get("completedAt"))
        error = table_of(result.get("errorDetails"))
        stop = _ENDS.get(-1 if value is None else value)
        if request.get("isCanceled") is True or error.get("code") == "canceled":
            stop = "cancelled"
        elif error:
            self._intake.skip("error of a request")
            stop = stop or "error"
        if stop is not None:
            chat.status = stop
        elif value in _UNENDED:
            self._intake.note_unfinished("it ends in the middle of a turn")

    # The rounds of the model

    def _rounds(
        self, rounds: list[dict[str, object]], results: dict[str, object], invocations: list[Invocation]
    ) -> None:
        known = {inner.call_id: inner for inner in invocations if not inner.parent}
        below: dict[str, list[Invocation]] = {}
        for invocation in invocations:
            if invocation.parent:
                below.setdefault(invocation.parent, []).append(invocation)
        for one in rounds:
            self._note_ms(one.get("timestamp"))
            summary = text_of(one.get("summary"))
            if summary:
                self._chat.think(summary, "summary of what was compacted")
            self._think(table_of(one.get("thinking")).get("text"))
            text, calls = text_of(one.get("response")), list_of(one.get("toolCalls"))
            if text.strip():
                self._chat.say(text)
            for item in calls:
                call = table_of(item)
                call_id = text_of(call.get("id"))
                self._round_call(call, known.get(call_id), results.get(call_id) if call_id else None)
                self._subagent(call_id, below.pop(call_id, []))
        for parent, left in below.items():
            self._subagent(parent, left)

    def _round_call(self, call: dict[str, object], shown: Invocation | None, result: object) -> None:
        intake = self._intake
        server = shown.server if shown is not None else ""
        waiting = intake.call(plan_tool(intake, text_of(call.get("name")), call.get("arguments"), server))
        self._chat.status = "success"
        if result is None:
            self._is_waiting = True
            intake.release(waiting)
            return
        text, is_exact = result_text(result)
        outcome: Outcome = "ok"
        exit_code = shown.exit_code if shown is not None else None
        if shown is not None and shown.outcome in ("denied", "failed"):
            outcome = shown.outcome
        start = text.lstrip()[:200]
        outcome = next((found for mark, found in _REFUSALS if start.startswith(mark)), outcome)
        if exit_code is None:
            exit_code = _exit_code(text)
        if outcome == "ok" and exit_code:
            outcome = "failed"
        self._resolve(waiting, outcome, text, exit_code, shown.duration_ms if shown else None, is_exact=is_exact)

    def _resolve(
        self, call: Call, outcome: Outcome, text: str, exit_code: int | None, duration_ms: int | None, *, is_exact: bool
    ) -> None:
        intake = self._intake
        at_ms, intake.at_ms = intake.at_ms, None  # the end of a call is not in the file
        intake.resolve(call, outcome, text, exit_code=exit_code, duration_ms=duration_ms, is_exact=is_exact)
        intake.at_ms = at_ms

    def _subagent(self, parent: str, invocations: list[Invocation]) -> None:
        for one in invocations:
            self._enter(parent)
            self._shown_call(one)
        self._enter("")

    def _enter(self, lane: str) -> None:
        if lane != self._lane:
            self._lane = lane
            self._chat.label(f"subagent of {lane}" if lane else "main")

    # The response as it is shown

    def _shown(self, parts: list[dict[str, object]]) -> None:
        intake = self._intake
        texts: list[str] = []
        for part in parts:
            kind = text_of(part.get("kind"))
            if kind in ("", "markdownContent", "markdownVuln"):
                content = part.get("content", part)
                texts.append(text_of(table_of(content).get("value")))
            elif kind == "inlineReference":
                texts.append(name_of_reference(part))
            elif kind in _SILENT:
                intake.skip(f"part: {kind}")
            else:
                self._say(texts)
                self._other_part(kind, part)
        self._say(texts)

    def _other_part(self, kind: str, part: dict[str, object]) -> None:
        intake = self._intake
        if kind == "thinking":
            self._think(part.get("value"))
        elif kind == "toolInvocationSerialized":
            invocation = invocation_of(part)
            self._enter(invocation.parent)
            self._shown_call(invocation)
        elif kind == "textEditGroup":
            steps = file_edits(intake, part)
            if steps:
                self._resolve(intake.call(steps), "ok", "", None, None, is_exact=False)
            else:
                intake.skip(f"part: {kind}")
        else:
            intake.note_unknown(f"part: {kind}")

    def _shown_call(self, one: Invocation) -> None:
        intake = self._intake
        call = intake.call(plan_tool(intake, one.name, one.arguments, one.server))
        self._chat.status = "success"
        if one.outcome is None:
            self._is_waiting = True
            intake.release(call)
        else:
            self._resolve(call, one.outcome, one.text, one.exit_code, one.duration_ms, is_exact=False)

    def _say(self, texts: list[str]) -> None:
        text = "".join(texts)
        texts.clear()
        if text.strip() and text.strip() not in _FENCES:
            self._enter("")
            self._chat.say(text)

    def _think(self, value: object) -> None:
        text = text_of(value) or "".join(map(text_of, list_of(value)))
        if text.strip():
            self._chat.think(text)


def _is_in_rounds(part: dict[str, object], *, has_calls: bool) -> bool:
    """Detect a part that the rounds told already. Edits are calls of a round, if it has any."""
    kind = text_of(part.get("kind"))
    is_edit = kind == "textEditGroup" and has_calls
    return is_edit or kind in (
        "",
        "markdownContent",
        "markdownVuln",
        "inlineReference",
        "thinking",
        "toolInvocationSerialized",
    )


def _model(value: object) -> str | None:
    return text_of(value).removeprefix(_VENDOR) or None


def _folder(parts: list[dict[str, object]]) -> str | None:
    """Return the folder against which links in the response are resolved: that of the window."""
    for part in parts:
        path = path_of_url(table_of(part.get("baseUri")).get("path"))
        if path:
            return path.rstrip("/") or path
    return None


def _exit_code(text: str) -> int | None:
    """Return the exit code that the terminal's result ends with."""
    _, found, rest = text[-200:].rpartition(_EXIT_CODE)
    number = rest.strip().rstrip(".")
    return int(number) if found and number.lstrip("-").isdecimal() and number.isascii() and len(number) < 10 else None
