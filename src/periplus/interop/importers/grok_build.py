"""Importer of Grok Build's sessions: ``chat_history.jsonl`` with a record a line, and ``summary.json`` beside it.

Format: records have no times, the summary has those of the session; a text of the program that is sent as the user's
has a reason; a tool of the server is one record without a result. Subagents have folders of their own beside that of
the session, which names them in ``subagents``.
"""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "GrokImporter", "is_mine", "read"]

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion.conversation import LineConversation, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, integer_of, optional_text, table_of, text_of
from periplus.interop.readers.line_reader import open_regular
from periplus.trail.model import Digest, Outcome

CHILDREN_MAX: Final = 1000
_FILE: Final = "chat_history.jsonl"
_SUMMARY: Final = "summary.json"
_DOCUMENT_BYTES_MAX: Final = 1 << 20
_NAME_BYTES_MAX: Final = 255
_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}")
_COMMANDS_MAX: Final = 4096
_CHAT_FORMAT: Final = 1
_EXIT_CODE: Final = re.compile(r"exit: ?(-?\d{1,9})(?:\n|$)")
_PREAMBLE: Final = "<user_info>"
_QUERY: Final = ("<user_query>", "</user_query>")


def is_mine(head: Head) -> bool:
    return any(
        (record.get("type") == "user" and ("prompt_index" in record or "synthetic_reason" in record))
        or (record.get("type") == "assistant" and "model_id" in record and isinstance(record.get("content"), str))
        for record in head.records
    )


class _Subagent(NamedTuple):
    path: str
    prompt: str


def read(source: Source) -> Iterator[Imported]:
    children: list[Imported] = []
    prompts: dict[str, bytes] = {}
    lost = 0
    for subagent in _subagents(source.path):
        try:
            if not is_mine(Head.of(subagent.path)):
                raise FormatError("not of the agent of the session", path=subagent.path)
            children.append(_read_one(source.beside(subagent.path), (), {}))
            prompts[subagent.prompt] = children[-1].trail_digest
        except PeriplusError:  # the session is complete without it; the count reports it
            lost += 1
    yield _read_one(source, tuple(children), prompts, lost)


def _subagents(path: str) -> list[_Subagent]:
    """Return the subagents that the folder of a session names, with the files of their sessions."""
    folder, name = os.path.split(os.path.abspath(path))
    listed = os.path.join(folder, "subagents")
    try:
        # No link is followed: a session from an untrusted source must not import other sessions of this machine.
        is_followed = name != _FILE or os.path.islink(listed)
        names = (
            [] if is_followed else sorted(one.name for one in os.scandir(listed) if one.is_dir(follow_symlinks=False))
        )
    except (OSError, ValueError):
        return []
    found = []
    for name in names[:CHILDREN_MAX]:
        meta = _document(os.path.join(listed, name, "meta.json"))
        session_id = text_of(meta.get("child_session_id")) or name
        for bucket in _buckets(os.path.dirname(folder), text_of(meta.get("child_cwd"))):
            session = os.path.join(bucket, session_id)
            file = os.path.join(session, _FILE)
            is_plain = not any(map(os.path.islink, (bucket, session, file))) and os.path.isfile(file)
            if _NAME.fullmatch(session_id) and session != folder and is_plain:
                found.append(_Subagent(file, text_of(meta.get("prompt"))))
                break
    return found


def _buckets(bucket: str, cwd: str) -> list[str]:
    """Return the folders with the sessions of a working folder: that of the session itself, and that of ``cwd``."""
    from urllib.parse import quote

    encoded = quote(cwd.encode("utf-8", "replace"), safe="")
    is_other = cwd and len(encoded) <= _NAME_BYTES_MAX
    return [bucket, *([os.path.join(os.path.dirname(bucket), encoded)] if is_other else [])]


def _read_one(source: Source, children: tuple[Imported, ...], prompts: Mapping[str, bytes], lost: int = 0) -> Imported:
    intake = source.intake()
    importer = GrokImporter(intake, prompts)
    importer.learn(_summary(source.path))
    digest, status = source.read_lines(importer, intake)
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    return source.trail(intake, "grok-build", digest, status, children=children)


def _summary(path: str) -> dict[str, object]:
    folder, name = os.path.split(path)
    return _document(os.path.join(folder, _SUMMARY)) if name == _FILE else {}


def _document(path: str) -> dict[str, object]:
    """Return a small document beside the session; empty where it cannot be read: the session is complete without it."""
    try:
        if os.path.islink(path):
            return {}
        with open_regular(path) as fd:
            return decode_table(os.read(fd, _DOCUMENT_BYTES_MAX)) or {}
    except (PeriplusError, OSError):
        return {}


class GrokImporter(LineConversation):
    """Takes the summary, then the records. ``prompts`` are the trails of subagents by their prompts."""

    def __init__(self, intake: Intake, prompts: Mapping[str, bytes]) -> None:
        super().__init__(intake)
        self._prompts = prompts
        self._commands: set[str] = set()  # calls whose results tell an exit code

    def learn(self, summary: dict[str, object]) -> None:
        intake = self._intake
        info = table_of(summary.get("info"))
        intake.session_id = optional_text(info.get("id"))
        intake.cwd = optional_text(info.get("cwd"))
        intake.branch = optional_text(summary.get("head_branch"))
        intake.model = optional_text(summary.get("current_model_id"))
        for name in ("created_at", "updated_at"):
            at_ms = self._moment.read(summary.get(name))
            if at_ms is not None:
                intake.note_time(at_ms)
        intake.note_time(None)
        version = summary.get("chat_format_version", _CHAT_FORMAT)
        if version != _CHAT_FORMAT:
            intake.note_unknown(f"chat format {integer_of(version)}")

    def _record(self, record: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        kind = text_of(record.get("type"))
        if kind == "user":
            self._user(record)
        elif kind == "assistant":
            self._assistant(record)
        elif kind == "reasoning":
            text = text_of_blocks(record.get("summary"))
            chat.think(text)  # the sealed reasoning beside it cannot be read
        elif kind == "tool_result":
            self._result(record)
        elif kind == "backend_tool_call":
            self._backend_call(table_of(record.get("kind")))
        elif kind == "system":
            intake.skip("system")
        else:
            intake.note_unknown(kind or "record without a type")

    def _user(self, record: dict[str, object]) -> None:
        reason = record.get("synthetic_reason")
        text = text_of_blocks(record.get("content"))
        if reason is not None and reason != "interjection":
            self._intake.skip(f"user: {text_of(reason) or 'written by the program'}")
            return
        if text.startswith(_PREAMBLE) and "prompt_index" not in record:
            self._intake.skip("user: environment")
            return
        if record.get("prior_turn_interrupt"):
            self._chat.interrupt()
        opening, closing = _QUERY
        if text.startswith(opening) and text.rstrip().endswith(closing):
            text = text.removeprefix(opening).rstrip().removesuffix(closing).strip()
        kinds = [text_of(block.get("type")) for block in blocks_of(record.get("content"))]
        for kind in kinds:
            if kind not in ("image", "text"):
                self._intake.note_unknown(f"block: {kind or 'unnamed'}")
        self._chat.prompt(text, "with an image" if "image" in kinds else None)

    def _assistant(self, record: dict[str, object]) -> None:
        chat = self._chat
        self._intake.model = optional_text(record.get("model_id")) or self._intake.model
        text = text_of_blocks(record.get("content"))
        if text:
            chat.say(text)
        for item in blocks_of(record.get("tool_calls")):
            call_id, name, arguments = text_of(item.get("id")), text_of(item.get("name")), item.get("arguments")
            call = chat.call(call_id, name, arguments)
            if name.startswith("run_terminal") and len(self._commands) < _COMMANDS_MAX:
                self._commands.add(call_id)
            elif call.steps[0].op == "AGENT_SPAWN" and self._prompts and not call.is_ready:
                table = decode_table(text_of(arguments).encode("utf-8", "replace")) or {}
                trail = self._prompts.get(text_of(table.get("prompt")))
                call.steps[0].operands[2] = Digest("sha256", trail) if trail is not None else None

    def _result(self, record: dict[str, object]) -> None:
        call_id, text = text_of(record.get("tool_call_id")), text_of_blocks(record.get("content"))
        code = _EXIT_CODE.match(text) if call_id in self._commands else None
        self._chat.result(call_id, "ok", text, int(code.group(1)) if code is not None else None)

    def _backend_call(self, tool: dict[str, object]) -> None:
        name = text_of(tool.get("tool_type"))
        action = tool.get("action") or tool.get("input") or {"code": tool.get("code")}
        call = self._intake.call(plan_call(self._intake, name, action, self._intake.cwd))
        outcome: Outcome = "ok" if tool.get("status") == "completed" else "unknown"
        self._intake.resolve(call, outcome, None)
