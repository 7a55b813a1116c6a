"""Importer of Codex's rollout files: one record a line, ``{"timestamp", "type", "payload"}``.

Format: most events repeat the response items (a prompt, a message or a reasoning occurs twice, in either order);
token counts are sums and are repeated; the context is repeated with every turn; a forked session begins with a copy
of the other's records. Early versions wrote items without envelopes.
"""

from __future__ import annotations

__all__ = ["CodexImporter", "is_mine", "read"]

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from periplus.interop.conversion.claude_tools import tool_call
from periplus.interop.conversion.codex_tools import plan_tool
from periplus.interop.conversion.intake import ERROR_CHARS_MAX, PENDING_CALLS_MAX, Call, Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import (
    Moment,
    decode_loosely,
    integer_of,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Digest, Outcome, Status

_NO_BYTES: Final = msgspec.Raw(b"")
_LINES_REMEMBERED: Final = 200_000
_TWINS_MAX: Final = 1024
_HEX: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class _Record(msgspec.Struct):
    timestamp: Any = None
    type: Any = None
    payload: msgspec.Raw = _NO_BYTES
    id: Any = None
    instructions: Any = None
    git: Any = None


class _Item(msgspec.Struct):
    """Fields of item and event payloads that steps need."""

    type: Any = None
    role: Any = None
    name: Any = None
    namespace: Any = None
    call_id: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    function: Any = None
    output: Any = None
    result: Any = None
    tools: Any = None
    content: Any = None
    summary: Any = None
    message: Any = None
    text: Any = None
    status: Any = None
    phase: Any = None
    revised_prompt: Any = None
    ghost_commit: Any = None
    info: Any = None
    invocation: Any = None
    exit_code: Any = None
    success: Any = None


class _Meta(msgspec.Struct):
    """Payload of ``session_meta`` and of ``turn_context``."""

    id: Any = None
    cwd: Any = None
    cli_version: Any = None
    git: Any = None
    model: Any = None


_decode_record: Final = msgspec.json.Decoder(_Record).decode
_decode_item: Final = msgspec.json.Decoder(_Item).decode
_decode_meta: Final = msgspec.json.Decoder(_Meta).decode
_REFUSED: Final = (msgspec.MsgspecError, ValueError, RecursionError)

_ENVELOPES: Final = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"}
)
_REMARKS: Final = frozenset({"compacted", "inter_agent_communication_metadata", "token_usage_record", "world_state"})
_CALLS: Final = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "tool_call", "tool_search_call", "web_search_call",
    "image_generation_call",
})  # fmt: skip
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_result", "tool_search_output"})
_SELF_CONTAINED: Final = frozenset({"web_search_call", "image_generation_call"})
_SILENT_ITEMS: Final = frozenset({"agent_message", "compaction", "compaction_summary", "compaction_trigger", "other"})
_SILENT_EVENTS: Final = frozenset({
    "agent_message_delta", "agent_reasoning_raw_content", "agent_reasoning_section_break", "apply_patch_approval_request",
    "background_event", "collab_agent_interaction_begin", "collab_agent_interaction_end", "collab_agent_spawn_begin",
    "collab_agent_spawn_end", "collab_close_begin", "collab_close_end", "collab_resume_begin", "collab_resume_end",
    "collab_waiting_begin", "collab_waiting_end", "context_compacted", "deprecation_notice", "dynamic_tool_call_request",
    "dynamic_tool_call_response", "entered_review_mode", "error", "exec_approval_request", "exec_command_begin",
    "exited_review_mode", "guardian_assessment", "image_generation_begin", "image_generation_end", "item_completed",
    "item_started", "mcp_tool_call_begin", "model_reroute", "patch_apply_begin", "plan_delta", "plan_update",
    "request_user_input", "session_configured", "shutdown_complete", "stream_error", "sub_agent_activity",
    "task_complete", "task_started", "thread_goal_updated", "thread_name_updated", "thread_rolled_back",
    "thread_settings_applied", "turn_complete", "turn_diff", "turn_started", "undo_started",
    "view_image_tool_call", "warning", "web_search_begin", "web_search_end",
})  # fmt: skip

_TURN: Final = {"task_started": True, "turn_started": True, "task_complete": False, "turn_complete": False}
_NO_PROMPTS: Final = (
    ("<environment_context>", "environment"),
    ("<user_instructions>", "instructions"),
    ("# AGENTS.md instructions", "instructions"),
    ("<INSTRUCTIONS>", "instructions"),
    ("<permissions instructions>", "instructions"),
    ("<skill>", "instructions"),
    ("<skills_instructions>", "instructions"),
    ("<turn_aborted>", "interruption"),
    ("<user_shell_command>", "local command"),
    ("<subagent_notification>", "task notification"),
)
_IDE_PREAMBLE: Final = "# Context from my IDE setup:"
_IDE_REQUEST: Final = re.compile(r"^## My request for Codex:[ \t]*\n?", re.MULTILINE)
_EXIT_LINE: Final = re.compile(r"^(?:Exit code: |Process exited with code |exit code: )(-?\d{1,9})\b", re.MULTILINE)
_HEAD_CHARS: Final = 600
_REFUSALS: Final = ("patch rejected", "command blocked by pretooluse hook", "tool call blocked by pretooluse hook")


def is_mine(head: Head) -> bool:
    return any(map(_is_record, head.records)) or b'"type":"session_meta"' in head.start_of_large_record


def _is_record(record: dict[str, object]) -> bool:
    kind = record.get("type")
    if isinstance(kind, str) and kind in _ENVELOPES:
        return isinstance(record.get("payload"), dict)
    # Early versions: the first line was the session's own record, without a type.
    return kind is None and "instructions" in record and isinstance(record.get("id"), str) and "timestamp" in record


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = CodexImporter(intake)
    digest, status = source.read_lines(importer, intake)
    yield intake.finish(
        "codex",
        secret=source.secret(digest),
        source=digest,
        agent="codex",
        trail_id=intake.session_id or digest.hex()[:16],
        status=status,
        tool="codex",
        base=importer.base,
    )


class _Twins:
    """Texts that two kinds of records repeat, in either order: each pair counts once."""

    def __init__(self) -> None:
        self._balance: dict[int, int] = {}

    def is_new(self, text: str, *, is_event: bool) -> bool:
        key = hash("".join(text.split()))
        balance = self._balance.pop(key, 0)
        step = 1 if is_event else -1
        if balance * step < 0:
            if balance + step:
                self._balance[key] = balance + step
            return False
        self._balance[key] = balance + step
        if len(self._balance) > _TWINS_MAX:
            self._balance = dict(list(self._balance.items())[_TWINS_MAX // 2 :])
        return True


class _Hint(NamedTuple):
    """Facts of a call from an event before its output."""

    exit_code: int | None = None
    is_failed: bool = False


class CodexImporter:
    def __init__(self, intake: Intake) -> None:
        self.base: Digest | None = None
        self._intake = intake
        self._moment = Moment()
        self._seen: dict[int, None] = {}
        self._seen_before: dict[int, None] = {}
        self._prompts = _Twins()
        self._says = _Twins()
        self._thoughts = _Twins()
        self._open: dict[str, list[Call]] = {}
        self._anonymous: deque[Call] = deque()
        self._hints: dict[str, _Hint] = {}
        self._total: object = None
        self._has_meta = False
        self._is_in_turn = False
        self._last: Status = "success"

    def feed(self, number: int, line: bytes) -> bool:
        """Read the record on line ``number``; return False where it is invalid."""
        try:
            record = _decode_record(line)
        except _REFUSED:
            line = decode_loosely(line, {}) or b""
            try:
                record = _decode_record(line)
            except _REFUSED:
                return False
        intake = self._intake
        intake.source = number
        intake.note_time(self._moment.read(record.timestamp))
        if self._is_repeated(line):
            intake.count("duplicates")
            return True
        kind = record.type
        if len(record.payload) == 0:
            self._bare(record, line)
        elif kind == "response_item":
            self._item(record.payload)
        elif kind == "event_msg":
            self._event(record.payload)
        elif kind in ("session_meta", "turn_context"):
            self._learn(kind, record.payload)
        elif isinstance(kind, str) and kind in _REMARKS:
            intake.skip(kind)
        else:
            intake.note_unknown(text_of(kind) or "record without a type")
        return True

    def finish(self) -> Status:
        calls = [call for calls in self._open.values() for call in calls] + list(self._anonymous)
        if self._is_in_turn:
            self._intake.note_unfinished("it ends in the middle of a turn")
        return self._intake.ending(self._last, is_waiting=any(not call.is_ready for call in calls))

    # Records

    def _is_repeated(self, line: bytes) -> bool:
        """Detect a copy of a record: all of it is equal, its time included."""
        key = hash(line)
        if key in self._seen or key in self._seen_before:
            return True
        if len(self._seen) >= _LINES_REMEMBERED:
            self._seen_before, self._seen = self._seen, {}
        self._seen[key] = None
        return False

    def _bare(self, record: _Record, line: bytes) -> None:
        if isinstance(record.type, str):
            self._item(msgspec.Raw(line))
        elif isinstance(record.id, str) and not self._has_meta:
            self._has_meta = True
            self._intake.session_id = record.id
            self._learn_base(record.git)
        else:
            self._intake.skip("state")

    def _learn(self, kind: str, payload: msgspec.Raw) -> None:
        intake = self._intake
        intake.skip(kind)
        try:
            meta = _decode_meta(payload)
        except _REFUSED:
            return
        if kind == "turn_context":
            intake.model = optional_text(meta.model) or intake.model
            intake.cwd = intake.cwd or optional_text(meta.cwd)
        elif not self._has_meta:  # a further one belongs to the session that this one was forked from
            self._has_meta = True
            intake.session_id = optional_text(meta.id)
            intake.cwd = optional_text(meta.cwd)
            intake.version = optional_text(meta.cli_version)
            intake.branch = optional_text(table_of(meta.git).get("branch"))
            self._learn_base(meta.git)

    def _learn_base(self, git: object) -> None:
        commit = text_of(table_of(git).get("commit_hash"))
        if _HEX.fullmatch(commit) and commit.strip("0"):
            self.base = _git_digest(commit)

    # Actions of the agent

    def _item(self, payload: msgspec.Raw) -> None:
        intake = self._intake
        try:
            item = _decode_item(payload)
        except _REFUSED:
            intake.note_unknown("item without fields")
            return
        kind = text_of(item.type)
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            self._reasoning(item)
        elif kind in _CALLS:
            self._call(kind, item)
        elif kind in _OUTPUTS:
            self._output(item)
        elif kind == "ghost_snapshot":
            commit = text_of(table_of(item.ghost_commit).get("id"))
            if _HEX.fullmatch(commit):
                intake.step("CHECKPOINT", _git_digest(commit))
            else:
                intake.skip(kind)
        elif kind in _SILENT_ITEMS:
            intake.skip(f"item: {kind}")
        else:
            intake.note_unknown(f"item: {kind or 'unnamed'}")

    def _message(self, item: _Item) -> None:
        intake = self._intake
        role = text_of(item.role)
        if role == "user":
            self._user(_joined(item.content), has_image=_has_image(item.content), is_event=False)
        elif role == "assistant":
            self._say(_joined(item.content), is_event=False)
            if item.phase == "commentary":
                intake.note_unfinished("it ends in the middle of a turn")
        else:
            intake.skip(f"message: {role or 'nobody'}")

    def _user(self, text: str, *, has_image: bool, is_event: bool) -> None:
        intake = self._intake
        text = intake.typed(text)
        start = text.lstrip()
        for mark, kind in _NO_PROMPTS:
            if start.startswith(mark):
                intake.skip(kind)
                return
        if start.startswith(_IDE_PREAMBLE):
            request = _IDE_REQUEST.search(start)
            intake.skip("context of the editor")
            text = start[request.end() :].strip() if request is not None else ""
        if not text.strip() and not has_image:
            intake.skip("user: nothing in it")
            return
        if not self._prompts.is_new(text, is_event=is_event):
            intake.skip("prompt said twice")
            return
        masked = intake.mask(text)
        intake.count("prompts")
        intake.note_prompt(masked)
        intake.step("PROMPT", masked, note="with an image" if has_image else None)
        self._last = "success"

    def _say(self, text: str, *, is_event: bool) -> None:
        intake = self._intake
        if not text.strip():
            intake.skip("block: empty")
        elif self._says.is_new(text, is_event=is_event):
            intake.count("says")
            intake.step("SAY", intake.mask(text))
            self._last = "success"
        else:
            intake.skip("message said twice")

    def _reasoning(self, item: _Item) -> None:
        parts = [text_of(table_of(part).get("text")) for part in list_of(item.summary)]
        if not any(parts):
            parts = [text_of(table_of(part).get("text")) for part in list_of(item.content)]
        parts = [part for part in parts if part.strip()]
        if not parts:
            self._intake.skip("reasoning: sealed")
        for part in parts:
            self._think(part, is_event=False)

    def _think(self, text: str, *, is_event: bool) -> None:
        intake = self._intake
        if not text.strip():
            intake.skip("block: empty")
        elif self._thoughts.is_new(text, is_event=is_event):
            intake.count("comments")
            intake.step("COMMENT", intake.mask(text))
        else:
            intake.skip("reasoning said twice")

    def _call(self, kind: str, item: _Item) -> None:
        intake = self._intake
        arguments: object = item.action if kind in ("local_shell_call", "web_search_call") else item.arguments
        if kind == "custom_tool_call":
            arguments = item.input
        elif kind == "image_generation_call":
            arguments = {"prompt": item.revised_prompt}
        name = text_of(item.name) or text_of(table_of(item.function).get("name")) or kind.removesuffix("_call")
        namespace = text_of(item.namespace)
        call = intake.call(plan_tool(intake, name, arguments, namespace, intake.cwd))
        call_id = text_of(item.call_id)
        if kind in _SELF_CONTAINED:
            status = text_of(item.status)
            intake.resolve(call, "failed" if status == "failed" else "ok", None, duration_ms=0)
        elif call_id:
            calls = self._open.setdefault(call_id, [])
            calls.append(call)
            if len(calls) > PENDING_CALLS_MAX:  # a hostile file: one id for more calls than can wait
                del calls[0]
            if len(self._open) > 2 * PENDING_CALLS_MAX:
                waiting = {key: [one for one in calls if not one.is_ready] for key, calls in self._open.items()}
                self._open = {key: calls for key, calls in waiting.items() if calls}
        else:
            self._anonymous.append(call)
            if len(self._anonymous) > PENDING_CALLS_MAX:
                self._anonymous.popleft()

    # Results and events

    def _output(self, item: _Item) -> None:
        intake = self._intake
        call_id = text_of(item.call_id)
        calls = self._open.get(call_id) if call_id else None
        if calls:
            call = calls.pop(0)
            if not calls:
                del self._open[call_id]
        elif not call_id and self._anonymous:
            call = self._anonymous.popleft()
        else:
            intake.skip("result without its call")
            return
        hint = self._hints.pop(call_id, _Hint())
        answer = _answer(item, hint)
        intake.resolve(call, answer.outcome, answer.text, exit_code=answer.exit_code)

    def _event(self, payload: msgspec.Raw) -> None:
        intake = self._intake
        try:
            event = _decode_item(payload)
        except _REFUSED:
            intake.note_unknown("event without fields")
            return
        kind = text_of(event.type)
        if kind == "user_message":
            self._user(text_of(event.message), has_image=False, is_event=True)
        elif kind == "agent_message":
            self._say(text_of(event.message), is_event=True)
        elif kind == "agent_reasoning":
            self._think(text_of(event.text), is_event=True)
        elif kind == "token_count":
            self._token_count(table_of(event.info))
        elif kind in ("exec_command_end", "patch_apply_end", "mcp_tool_call_end"):
            self._hint(kind, event)
        elif kind == "undo_completed":
            self._undone(event)
        elif kind == "turn_aborted":
            intake.skip(f"event: {kind}")
            self._is_in_turn = False
            self._last = "cancelled"
            for calls in self._open.values():
                for call in calls:
                    if not call.is_ready:
                        call.outcome = "cancelled"
        elif kind in _SILENT_EVENTS:
            intake.skip(f"event: {kind}")
            if kind == "error":
                self._last = "error"
            elif kind in _TURN:
                self._is_in_turn = _TURN[kind]
        else:
            intake.note_unknown(f"event: {kind or 'unnamed'}")

    def _undone(self, event: _Item) -> None:
        """Record an undone turn: the files differ from the steps before, in a way that the record does not tell."""
        call = self._intake.hold([tool_call(self._intake, "", "undo", {})])
        call.outcome = "unknown" if event.success is None else "ok" if event.success is True else "failed"
        if call.outcome == "failed":
            call.error = self._intake.mask(text_of(event.message))[:ERROR_CHARS_MAX] or None
        self._intake.release(call)

    def _hint(self, kind: str, event: _Item) -> None:
        """Keep what an event tells of a call before its output."""
        intake = self._intake
        intake.skip(f"event: {kind}")
        calls = self._open.get(text_of(event.call_id))
        if not calls:
            return
        is_failed = event.success is False or "Err" in table_of(event.result)
        self._hints[text_of(event.call_id)] = _Hint(integer_of(event.exit_code), is_failed)
        if len(self._hints) > PENDING_CALLS_MAX:
            del self._hints[next(iter(self._hints))]
        step = calls[0].steps[0]
        invocation = table_of(event.invocation)
        server, tool = text_of(invocation.get("server")), text_of(invocation.get("tool"))
        if step.op == "TOOL_CALL" and not calls[0].is_ready and server and tool:
            step.operands[:2] = [intake.mask(server), intake.mask(tool)]

    def _token_count(self, info: dict[str, object]) -> None:
        """Add a model call for each change of the sum. The input includes cached tokens; a step does not."""
        intake = self._intake
        total = info.get("total_token_usage")
        last = table_of(info.get("last_token_usage"))
        if not isinstance(total, dict) or total == self._total:
            intake.skip("token count repeated" if isinstance(total, dict) else "token count without numbers")
            return
        self._total = total
        given = natural_of(last.get("input_tokens"))
        cached = min(given, natural_of(last.get("cached_input_tokens")))
        out = natural_of(last.get("output_tokens"))
        if not given and not out:
            intake.skip("token count of nothing")
            return
        call = intake.hold_model(intake.model or "unknown")
        intake.release_model(call, given - cached, cached, out)


class _Answer(NamedTuple):
    outcome: Outcome
    text: str
    exit_code: int | None


def _answer(item: _Item, hint: _Hint) -> _Answer:
    """Return the outcome of a call. Outputs are text, JSON in text, a list of parts or an object."""
    output: object = item.output if item.output is not None else item.result
    if output is None and item.tools is not None:
        names = [text_of(table_of(tool).get("name")) for tool in list_of(item.tools)]
        return _Answer("ok", "\n".join(filter(None, names)), None)
    exit_code = hint.exit_code
    is_failed = hint.is_failed
    if isinstance(output, str) and output.startswith('{"') and '"metadata"' in output:
        try:
            inner = msgspec.json.decode(output)
        except _REFUSED:
            inner = None
        if isinstance(inner, dict) and "output" in inner:
            output = inner
    if isinstance(output, dict):
        metadata = table_of(output.get("metadata"))
        found = (metadata.get("exit_code"), output.get("exit_code"), output.get("exitCode"))
        exit_code = next((code for code in map(integer_of, found) if code is not None), exit_code)
        is_failed = is_failed or output.get("success") is False or output.get("isError") is True
        parts = [output.get(key) for key in ("output", "content", "text", "stdout", "stderr")]
        text = "\n".join(_joined(part) for part in parts if part)
    else:
        text = _joined(output)
    if exit_code is None:
        match = _EXIT_LINE.search(text[:_HEAD_CHARS])
        exit_code = int(match.group(1)) if match is not None else None
    return _Answer(_outcome_of(text, exit_code, is_failed=is_failed), text, exit_code)


def _outcome_of(text: str, exit_code: int | None, *, is_failed: bool) -> Outcome:
    head = text[:200].lower()
    if head.startswith("aborted") or "aborted by user" in head:
        return "cancelled"
    if "rejected by user" in head or head.startswith(_REFUSALS):
        return "denied"
    return "failed" if is_failed or exit_code else "ok"


def _joined(content: object) -> str:
    """Join the texts of a content: a text, a part or a list of parts; other parts are named in brackets."""
    if isinstance(content, str):
        return content
    parts = []
    for item in [content] if isinstance(content, dict) else list_of(content):
        if isinstance(item, str):
            parts.append(item)
            continue
        part = table_of(item)
        text = part.get("text")
        if isinstance(text, str):
            parts.append(text)
        elif part.get("type") not in ("input_image", "image"):
            parts.append(f"[{text_of(part.get('type')) or 'part'}]")
    return "\n".join(parts)


def _has_image(content: object) -> bool:
    for item in list_of(content):
        part = table_of(item)
        if part.get("type") == "input_image" and part.get("image_url"):
            return True
    return False


def _git_digest(commit: str) -> Digest:
    value = bytes.fromhex(commit)
    return Digest("git-sha1" if len(value) == 20 else "git-sha256", value)
