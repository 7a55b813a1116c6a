"""Importer of Cline's sessions: tasks of the extension, which `cline_tasks` reads, and sessions of its newer clients.

Such a session has two documents: a card (``NAME.json``), and beside it the messages (``NAME.messages.json``).

Format: messages follow Anthropic's interface, with Cline's own usage and times. One call may read several files or
run several commands; its result is then a list, or a text that contains JSON. Only the card has the folder, the title
and the end of the session; a session without a card is imported as well. The messages are read beside the card only,
whatever path the card gives.
"""

from __future__ import annotations

__all__ = ["ClineImporter", "is_mine", "read"]

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion.claude_tools import plan_tool, shell_steps, tool_call
from periplus.interop.conversion.intake import PENDING_CALLS_MAX, Call, Intake, Planned
from periplus.interop.conversion.source import Head, status_of
from periplus.interop.importers.cline_tasks.files import is_conversation, read_task
from periplus.interop.readers.json_stream import JsonReader
from periplus.interop.readers.json_values import (
    Moment,
    decode_loosely,
    decode_table,
    integer_of,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.interop.readers.line_reader import open_regular

if TYPE_CHECKING:
    from periplus.interop.conversion.source import Source
    from periplus.interop.model import Imported
    from periplus.trail.model import Outcome, Status

_CARD_BYTES_MAX: Final = 1 << 20
_MESSAGES: Final = ".messages.json"
_PARTS_MAX: Final = 1000  # of one call: files, commands, queries
_MILLIONTHS: Final = 1_000_000
_ENDED: Final[dict[str, Status]] = {
    "failed": "error",
    "error": "error",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "aborted": "cancelled",
    "running": "partial",
}
_COMPLETED: Final = frozenset({"completed", "done", "success"})
_SILENT_BLOCKS: Final = frozenset({"image", "document", "redacted_thinking"})
_INPUT: Final = re.compile(r"<user_input(?: [^>]{0,100})?>(.*)</user_input>", re.DOTALL)  # around a prompt
_DETAILS: Final = ("<environment_details>", "</environment_details>")


def is_mine(head: Head) -> bool:
    if is_conversation(head):
        return True
    start = head.data[:65_536].lstrip()
    if not start.startswith(b"{"):
        return False
    packed = start.replace(b'": ', b'":')
    is_card = b'"session_id"' in packed and b'"messages_path"' in packed
    return is_card or (b'"messages"' in packed and b'"updated_at"' in packed and b'"agent"' in packed)


def read(source: Source) -> Iterator[Imported]:
    path = source.path
    if is_conversation(Head.of(path)):
        yield from read_task(source, "cline")
        return
    card_path = path.removesuffix(_MESSAGES) + ".json" if path.endswith(_MESSAGES) else path
    card, card_bytes = _read_card(card_path)
    if "messages_path" in card and not path.endswith(_MESSAGES):
        path = card_path.removesuffix(".json") + _MESSAGES
        if not os.path.isfile(path):
            raise FormatError(
                "the card of a session of Cline, without its messages",
                path=card_path,
                safe="Nothing was imported.",
                mend=f"Its messages belong beside it, in {os.path.basename(path)}.",
            )
    intake = source.intake()
    importer = ClineImporter(intake, card)
    reader = JsonReader(path, [("messages",)], source.progress)
    for element in reader:
        intake.source = element.place + 1
        if element.path == ("messages",):
            if not importer.feed(element.data):
                intake.note_unreadable(element.place + 1)
        elif not element.path:
            importer.learn(element.name, element.data)
    if reader.broken is not None:
        intake.skip("document cut off")
    status = status_of(intake, importer.finish(), is_torn=reader.broken is not None)
    session_id = intake.session_id or reader.digest.hex()[:16]
    yield intake.finish(
        "cline",
        secret=source.secret(hashlib.sha256(reader.digest + card_bytes).digest()),
        source=reader.digest,
        agent="cline",
        trail_id=session_id,
        status=status,
        tool="cline",
    )


def _read_card(path: str) -> tuple[dict[str, object], bytes]:
    """Return the card; empty where it is missing or unreadable, because the messages suffice."""
    import orjson

    try:
        with open_regular(path) as fd:
            data = os.read(fd, _CARD_BYTES_MAX)
        card = table_of(orjson.loads(data))
    except (PeriplusError, OSError, ValueError):
        return {}, b""
    return (card, data) if "session_id" in card else ({}, b"")


class _Message(msgspec.Struct, rename="camel"):
    role: object = None
    content: object = None
    ts: object = None
    model_info: object = None
    metrics: object = None


_decode: Final = msgspec.json.Decoder(_Message).decode
_REFUSED: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class ClineImporter:
    def __init__(self, intake: Intake, card: dict[str, object]) -> None:
        self._intake = intake
        self._open: dict[str, Call] = {}
        self._is_completed = text_of(card.get("status")) in _COMPLETED
        self._ended: Status = _ENDED.get(text_of(card.get("status")), "success")
        self._last: Status = "success"
        moment = Moment()
        intake.session_id = optional_text(card.get("session_id"))
        intake.cwd = optional_text(card.get("cwd")) or optional_text(card.get("workspace_root"))
        intake.model = optional_text(card.get("model"))
        intake.note_time(moment.read(card.get("started_at")))
        intake.note_time(moment.read(card.get("ended_at")))
        intake.at_ms = None
        if title := text_of(table_of(card.get("metadata")).get("title")):
            intake.note_prompt(intake.mask(title))

    def learn(self, name: str, data: bytes) -> None:
        """Handle a member of the document beside its messages."""
        if name in ("sessionId", "session_id"):
            try:
                self._intake.session_id = msgspec.json.decode(data, type=str) or self._intake.session_id
            except _REFUSED:
                self._intake.skip(f"document: {name}")
        elif name == "origin":
            self._intake.version = optional_text((decode_table(data) or {}).get("version")) or self._intake.version
        elif name not in ("version", "messages"):
            self._intake.skip(f"document: {name}")

    def feed(self, data: bytes) -> bool:
        """Read a message; return False where it is invalid."""
        try:
            message = _decode(data)
        except _REFUSED:
            try:
                message = _decode(decode_loosely(data, {}) or b"")
            except _REFUSED:
                return False
        intake = self._intake
        intake.note_time(_clock(message.ts))
        role = text_of(message.role)
        content = message.content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
        if role == "assistant":
            self._model_call(message)
            for item in blocks:
                self._said(table_of(item))
        elif role == "user":
            self._user([table_of(item) for item in blocks])
        elif role:
            intake.skip(f"message: {role}")
        else:
            intake.note_unknown("message without a role")
        return True

    def finish(self) -> Status:
        is_partial = any(not call.is_ready for call in self._open.values())
        if self._ended != "success":
            return self._intake.partial("it was still running") if self._ended == "partial" else self._ended
        if self._is_completed and not is_partial:
            return self._last
        return self._intake.ending(self._last, is_waiting=is_partial)

    def _model_call(self, message: _Message) -> None:
        metrics, info = table_of(message.metrics), table_of(message.model_info)
        model = text_of(info.get("id"))
        if not metrics or not model:
            return
        self._intake.model = model
        cached = natural_of(metrics.get("cacheReadTokens"))
        fresh = max(0, natural_of(metrics.get("inputTokens")) - cached)
        cost = metrics.get("cost")
        millionths = round(cost * _MILLIONTHS) if isinstance(cost, (int, float)) and 0 <= cost < 1e9 else None
        call = self._intake.hold_model(model)
        self._intake.release_model(call, fresh, cached, natural_of(metrics.get("outputTokens")), millionths)

    def _said(self, block: dict[str, object]) -> None:
        intake = self._intake
        kind = text_of(block.get("type"))
        if kind == "text":
            self._text("SAY", "says", text_of(block.get("text")))
        elif kind == "thinking":
            self._text("COMMENT", "comments", text_of(block.get("thinking")))
        elif kind == "tool_use":
            steps = _plan(intake, text_of(block.get("name")), block.get("input"), intake.cwd)
            call = intake.call(steps)
            if len(self._open) > 2 * PENDING_CALLS_MAX:
                self._open = {key: call for key, call in self._open.items() if not call.is_ready}
            self._open[text_of(block.get("id"))] = call
        elif kind in _SILENT_BLOCKS:
            intake.skip(f"block: {kind}")
        else:
            intake.note_unknown(f"block: {kind or 'unnamed'}")

    def _text(self, op: str, counted: str, text: str) -> None:
        if not text.strip():
            self._intake.skip("block: empty")
            return
        self._intake.count(counted)
        self._intake.step(op, self._intake.mask(text))
        self._last = "success"

    def _user(self, blocks: list[dict[str, object]]) -> None:
        intake = self._intake
        texts: list[str] = []
        files: list[str] = []
        has_image = False
        for block in blocks:
            kind = text_of(block.get("type"))
            if kind == "tool_result":
                self._result(block)
            elif kind == "text":
                texts.append(self._typed(text_of(block.get("text"))))
            elif kind == "file":
                files.append(text_of(block.get("path")))
            elif kind in _SILENT_BLOCKS:
                has_image = True
                intake.skip(f"block: {kind}")
            else:
                intake.note_unknown(f"block: {kind or 'unnamed'}")
        text = "\n".join(filter(None, texts))
        if text or has_image:
            masked = intake.mask(text)
            intake.count("prompts")
            intake.note_prompt(masked)
            intake.step("PROMPT", masked, note="with an image" if has_image else None)
            self._last = "success"
        for path in filter(None, files):
            step = Planned("FILE_READ", [intake.mask(path), None])
            intake.note_files(step.op, step.operands)
            intake.step(step.op, *step.operands, note="attached to the prompt")

    def _typed(self, text: str) -> str:
        """Return the text that a person typed, without Cline's additions."""
        start, end = text.find(_DETAILS[0]), text.find(_DETAILS[1])
        if 0 <= start < end:
            self._intake.skip("environment")
            text = text[:start] + text[end + len(_DETAILS[1]) :]
        text = self._intake.typed(text).strip()
        if text.startswith("<task>") and text.endswith("</task>"):
            text = text.removeprefix("<task>").removesuffix("</task>").strip()
        wrapped = _INPUT.fullmatch(text)
        return wrapped[1].strip() if wrapped is not None else text

    def _result(self, block: dict[str, object]) -> None:
        call = self._open.pop(text_of(block.get("tool_use_id")), None)
        if call is None:
            self._intake.skip("result without its call")
            return
        parts = _parts(block.get("content"))
        texts = [
            text_of(part.get("result")) or text_of(part.get("error")) or text_of(part.get("text")) for part in parts
        ]
        failed = next((at for at, part in enumerate(parts) if part.get("success") is False), None)
        outcome: Outcome = "failed" if failed is not None or block.get("is_error") is True else "ok"
        error = text_of(parts[failed].get("error")) or texts[failed] if failed is not None else None
        if error is not None and "denied by the user" in error.lower():
            outcome = "denied"
        masked_error = self._intake.mask(error) if error else None
        self._intake.resolve(call, outcome, "\n".join(texts), error=masked_error)


def _parts(content: object) -> list[dict[str, object]]:
    """Return a result as its parts: one or a list, as objects or as JSON in a text, or a text."""
    import orjson

    if isinstance(content, str):
        if content[:1] in ("{", "["):
            try:
                found: object = orjson.loads(content)
            except (ValueError, RecursionError):
                found = None
            tables = [table_of(item) for item in (found if isinstance(found, list) else [found])]
            if tables and all("result" in table or "error" in table for table in tables):
                return tables
        return [{"result": content}]
    return [table_of(item) if isinstance(item, dict) else {"result": str(item)} for item in list_of(content)]


def _clock(value: object) -> int | None:
    number = integer_of(value)
    return number if number is not None and 0 < number < 253_402_300_799_999 else None


# ---- tools


def _plan(intake: Intake, name: str, given: object, cwd: str | None) -> list[Planned]:
    arguments = table_of(given)
    planner = _PLANNERS.get(name)
    steps = planner(intake, arguments, cwd) if planner is not None and arguments else []
    if steps and len(steps) <= _PARTS_MAX:
        return steps
    server, mark, tool = name.partition("__")
    if server and mark and tool and server != "mcp":
        return [tool_call(intake, server, tool, given)]
    return plan_tool(intake, name, arguments, cwd) if arguments else [tool_call(intake, "", name, given)]


def _read_files(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    steps = []
    for item in _several(arguments, "files", "file_paths", "paths", "path"):
        table = table_of(item)
        path = text_of(item) or text_of(table.get("path"))
        first, last = integer_of(table.get("start_line")), integer_of(table.get("end_line"))
        if not path:
            return []
        lines = f"{first or 1}-{last if last is not None else ''}" if first is not None or last is not None else None
        steps.append(Planned("FILE_READ", [intake.mask(path), lines]))
    return steps


def _editor(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path = text_of(arguments.get("path"))
    old, new = arguments.get("old_text"), arguments.get("new_text")
    if not path or not isinstance(new, str):
        return []
    if isinstance(old, str) and old:
        return [Planned("FILE_EDIT", [intake.mask(path), intake.mask(old), intake.mask(new)])]
    line = integer_of(arguments.get("insert_line"))
    if line is not None:
        return [Planned("FILE_EDIT", [intake.mask(path), "", intake.mask(new)], f"inserted at line {line}")]
    return [Planned("FILE_WRITE", [intake.mask(path), intake.keep(new)])]


def _run_commands(intake: Intake, arguments: dict[str, object], cwd: str | None) -> list[Planned]:
    commands = [
        text_of(item) or text_of(table_of(item).get("command")) for item in _several(arguments, "commands", "command")
    ]
    return [step for command in commands for step in shell_steps(intake, command, cwd)] if all(commands) else []


def _search(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path = text_of(arguments.get("path"))
    queries = [
        text_of(item) or text_of(table_of(item).get("query")) for item in _several(arguments, "queries", "query")
    ]
    if not all(queries):
        return []
    return [Planned("SEARCH_CODE", [intake.mask(query), intake.mask(path) if path else None]) for query in queries]


def _fetch(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    urls = [
        text_of(item) or text_of(table_of(item).get("url")) for item in _several(arguments, "requests", "urls", "url")
    ]
    return [Planned("WEB_FETCH", [intake.mask(url)]) for url in urls] if all(urls) else []


def _ask(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    question = text_of(arguments.get("question"))
    return [Planned("ASK", [intake.mask(question), None])] if question else []


def _several(arguments: dict[str, object], *names: str) -> list[object]:
    """Return the first given argument as a list."""
    for name in names:
        value = arguments.get(name)
        if value:
            return value[: _PARTS_MAX + 1] if isinstance(value, list) else [value]
    return []


_PLANNERS: Final[dict[str, Callable[[Intake, dict[str, object], str | None], list[Planned]]]] = {
    "read_files": _read_files,
    "editor": _editor,
    "run_commands": _run_commands,
    "search_codebase": _search,
    "fetch_web_content": _fetch,
    "ask_question": _ask,
}
