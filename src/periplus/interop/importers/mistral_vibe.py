"""Importer of Mistral Vibe's sessions: ``messages.jsonl`` with a message a line, and ``meta.json`` beside it.

Format: messages as they are sent to a model, without times; a result has what the tool returned beside its text; the
metadata has the sums of the tokens and names the sessions of subagents, which are in folders inside.
"""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "VibeImporter", "is_mine", "read"]

import os
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion import chat_messages
from periplus.interop.conversion.conversation import LineConversation, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import (
    decode_table,
    integer_of,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.interop.readers.line_reader import open_regular
from periplus.trail.model import Digest, Outcome

CHILDREN_MAX: Final = 1000
DEPTH_MAX: Final = 4
_FILE: Final = "messages.jsonl"
_META: Final = "meta.json"
_META_BYTES_MAX: Final = 8 << 20  # it holds the descriptions of all tools
_OWN: Final = frozenset({"injected", "manual_shell", "message_id", "reasoning_message_id", "tool_result"})
_FAILED: Final = "<tool_error>"
_CANCELLED: Final = "<user_cancellation>"


def is_mine(head: Head) -> bool:
    return any(
        text_of(record.get("role")) in ("assistant", "tool", "user")
        and "type" not in record
        and "uuid" not in record
        and not _OWN.isdisjoint(record)
        for record in head.records[:8]
    )


def read(source: Source) -> Iterator[Imported]:
    yield _read_one(source, "mistral-vibe", 0)


def _read_one(source: Source, agent: str, depth: int) -> Imported:
    """Import a session after those of its subagents."""
    meta = _metadata(source.path)
    children: dict[str, Imported] = {}  # by the calls that began them
    lost = 0
    for path, link in _subagents(source.path, meta):
        try:
            if depth >= DEPTH_MAX or len(children) >= CHILDREN_MAX or not is_mine(Head.of(path)):
                raise FormatError("not of the agent of the session", path=path)
            kind = f"mistral-vibe/{text_of(link.get('agent')) or 'subagent'}"
            children[text_of(link.get("tool_call_id"))] = _read_one(source.beside(path), kind, depth + 1)
        except PeriplusError:  # the session is complete without it; the count reports it
            lost += 1
    intake = source.intake()
    importer = VibeImporter(intake, children)
    importer.learn(meta)
    digest, status = source.read_lines(importer, intake)
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    return source.trail(intake, "mistral-vibe", digest, status, agent=agent, children=tuple(children.values()))


def _metadata(path: str) -> dict[str, object]:
    folder, name = os.path.split(path)
    meta = os.path.join(folder, _META)
    if name != _FILE or os.path.islink(meta):
        return {}
    try:
        with open_regular(meta) as fd:
            return decode_table(os.read(fd, _META_BYTES_MAX)) or {}
    except (PeriplusError, OSError):
        return {}  # the messages are complete without it


def _subagents(path: str, meta: dict[str, object]) -> list[tuple[str, dict[str, object]]]:
    """Return the files of the subagents that the metadata names, with their links; only those inside the folder, and
    each once.
    """
    folder = os.path.dirname(os.path.abspath(path))
    found: dict[str, dict[str, object]] = {}
    for link in map(table_of, list_of(meta.get("child_sessions"))):
        place, name, *deeper = [*text_of(link.get("relative_path")).split("/"), "", ""]
        child = os.path.join(folder, place, name, _FILE)
        is_inside = place == "agents" and name not in ("", ".", "..") and not any(deeper) and "\0" not in name
        # No link is followed: a session from an untrusted source must not import other sessions of this machine.
        if (
            is_inside
            and os.path.isfile(child)
            and not any(map(os.path.islink, (child, os.path.dirname(child), os.path.join(folder, place))))
        ):
            found.setdefault(child, link)
    return list(found.items())


class VibeImporter(LineConversation):
    """Takes the metadata, then the messages. ``children`` are the trails of subagents by the calls that began them."""

    def __init__(self, intake: Intake, children: Mapping[str, Imported]) -> None:
        super().__init__(intake)
        self._children = children

    def learn(self, meta: dict[str, object]) -> None:
        intake = self._intake
        intake.session_id = optional_text(meta.get("session_id"))
        intake.branch = optional_text(meta.get("git_branch"))
        intake.model = optional_text(table_of(meta.get("config")).get("active_model"))
        folder = optional_text(table_of(meta.get("environment")).get("working_directory"))
        intake.cwd = folder or optional_text(meta.get("origin_directory"))
        for name in ("start_time", "end_time"):
            at_ms = self._moment.read(meta.get(name))
            if at_ms is not None:
                intake.note_time(at_ms)
        intake.note_time(None)
        stats = table_of(meta.get("stats"))
        given = natural_of(stats.get("session_prompt_tokens"))
        cached = min(given, natural_of(stats.get("session_cached_tokens")))
        out = natural_of(stats.get("session_completion_tokens"))
        if given or out:
            self._chat.usage(None, given - cached, cached, out)

    def _record(self, record: dict[str, object]) -> None:
        role = text_of(record.get("role"))
        if role == "user":
            self._user(record)
        elif role == "assistant":
            for asked in chat_messages.answer(self._chat, record):
                child = self._children.get(asked.call_id)
                step = asked.call.steps[0]
                if child is not None and step.op == "AGENT_SPAWN" and not asked.call.is_ready:
                    step.operands[2] = Digest("sha256", child.trail_digest)
        elif role == "tool":
            self._result(record)
        elif role == "system":
            self._intake.skip("role: system")
        else:
            self._intake.note_unknown(f"role: {role or 'none'}")

    def _user(self, record: dict[str, object]) -> None:
        if record.get("context_boundary") == "compaction":
            self._chat.think(text_of_blocks(record.get("content")), "summary of what was compacted")
        elif record.get("injected") is True:
            self._intake.skip("user: written by the program")
        elif isinstance(record.get("manual_shell"), dict):
            self._intake.skip("local command")
        else:
            typed = text_of(record.get("input_text")) or text_of_blocks(record.get("content"))
            has_file = bool(list_of(record.get("images")) or list_of(record.get("resources")))
            self._chat.prompt(typed, "with a file" if has_file else None)

    def _result(self, record: dict[str, object]) -> None:
        text = text_of_blocks(record.get("content"))
        result = table_of(record.get("tool_result"))
        exit_code = integer_of(table_of(result.get("output")).get("exit_code"))
        outcome: Outcome = "failed" if text.startswith(_FAILED) else "ok"
        if result.get("cancelled") is True or text.startswith(_CANCELLED):
            outcome = "cancelled"
        self._chat.result(text_of(record.get("tool_call_id")), outcome, text, exit_code)
