"""Importer of Kimi Code's sessions: the log of the main agent, ``agents/main/wire.jsonl``, beside those of its
subagents.

Format: messages of a person and of the program are told apart by their origin; the model's step is a sequence of
events; a result is an event with the id of its call; usage has a record of its own and is repeated at the end of a
step. ``state.json`` of the session's folder names the session and its working folder.
"""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "KimiImporter", "is_mine", "read"]

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion.conversation import LineConversation, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Call, Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import (
    decode_table,
    integer_of,
    milliseconds_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.interop.readers.line_reader import open_regular
from periplus.trail.model import Digest, Outcome

CHILDREN_MAX: Final = 1000
_LOG: Final = "wire.jsonl"
_MAIN: Final = "main"
_STATE: Final = "state.json"
_STATE_BYTES_MAX: Final = 1 << 20
_SPAWNS_MAX: Final = 4096
_MARKS: Final = frozenset({"context.append_loop_event", "context.append_message", "profile.bind", "turn.prompt"})
_TYPED: Final = frozenset({"plugin_command", "skill_activation", "user"})
_MEDIA: Final = frozenset({"audio_url", "image_url", "video_url"})
# Families of records that repeat others, or tell of settings, tasks and the screen.
_SILENT: Final = frozenset({
    "agent", "compaction", "config", "cron", "event", "file_history", "full_compaction", "goal", "hook", "interaction",
    "interruptionReminder", "llm", "mcp", "micro_compaction", "permission", "plan", "plan_mode", "plugin", "plugin_command", "profile",
    "prompt", "runtime", "session", "shell", "skill", "subagent", "swarm_mode", "task", "token_counting", "tool", "tools",
    "tower", "tower_mode", "turn", "usage", "warning",
})  # fmt: skip
_EXIT_CODE: Final = re.compile(r"(?:^|\n)Command failed with exit code: (\d{1,9})\.")
_AGENT_ID: Final = re.compile(r"agent_id: ([A-Za-z0-9._-]{1,200})(?:\n|$)")


def is_mine(head: Head) -> bool:
    first = head.records[:16]
    if any(
        isinstance(record.get("payload") or table_of(record.get("message")).get("payload"), dict) for record in first
    ):
        return False  # the log of the older Kimi CLI, which begins with the same metadata
    if first and first[0].get("type") == "metadata" and isinstance(first[0].get("protocol_version"), str):
        return True
    return any(text_of(record.get("type")) in _MARKS and isinstance(record.get("time"), int) for record in first)


def read(source: Source) -> Iterator[Imported]:
    children: dict[str, Imported] = {}
    lost = 0
    for path in _log_files(source.path):
        try:
            if not is_mine(Head.of(path)):
                raise FormatError("not of the agent of the session", path=path)
            children[_agent_id(path)] = _read_one(source.beside(path), {})
        except PeriplusError:  # the session is complete without it; the count reports it
            lost += 1
    yield _read_one(source, children, lost)


def _log_files(path: str) -> list[str]:
    """Return the logs of the subagents beside the log of the main agent."""
    if _agent_id(path) != _MAIN:
        return []
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    try:
        # No link is followed: a session from an untrusted source must not import other sessions of this machine.
        names = sorted(one.name for one in os.scandir(folder) if one.is_dir(follow_symlinks=False))
    except (OSError, ValueError):
        return []
    logs = [os.path.join(folder, name, _LOG) for name in names if name != _MAIN]
    return [log for log in logs if os.path.isfile(log) and not os.path.islink(log)][:CHILDREN_MAX]


def _agent_id(path: str) -> str:
    """Return the id of the agent whose log this is, by its place; empty for a file elsewhere."""
    folder, name = os.path.split(os.path.abspath(path))
    is_placed = name == _LOG and os.path.basename(os.path.dirname(folder)) == "agents"
    return os.path.basename(folder) if is_placed else ""


def _read_one(source: Source, children: Mapping[str, Imported], lost: int = 0) -> Imported:
    intake = source.intake()
    importer = KimiImporter(intake, children)
    agent_id = _agent_id(source.path)
    if agent_id:
        _learn(intake, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(source.path)))))
    digest, status = source.read_lines(importer, intake)
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    is_child = agent_id not in ("", _MAIN)
    session_id = intake.session_id or importer.fallback_id or digest.hex()[:16]
    intake.session_id = session_id
    intake.agent_id = agent_id if is_child else None
    return source.trail(
        intake,
        "kimi-code",
        digest,
        status,
        f"{session_id}/{agent_id}" if is_child else session_id,
        agent=f"kimi-code/{importer.profile or 'subagent'}" if is_child else "kimi-code",
        children=tuple(children.values()),
    )


def _learn(intake: Intake, folder: str) -> None:
    """Learn the names of the session and of its folder from the state beside the logs."""
    path = os.path.join(folder, _STATE)
    state: dict[str, object] = {}
    try:
        if not os.path.islink(path):
            with open_regular(path) as fd:
                state = decode_table(os.read(fd, _STATE_BYTES_MAX)) or {}
    except (PeriplusError, OSError):
        pass  # the folder has the name of the session as well
    name = os.path.basename(folder)
    intake.session_id = optional_text(state.get("id")) or (name if name.startswith("session_") else None)
    custom = table_of(state.get("custom"))
    found = (state.get("cwd"), state.get("workDir"), custom.get("cwd"))
    intake.cwd = next(filter(None, map(optional_text, found)), None)


class KimiImporter(LineConversation):
    """Takes the records of one agent's log. ``children`` are the trails of subagents by their ids."""

    def __init__(self, intake: Intake, children: Mapping[str, Imported]) -> None:
        super().__init__(intake)
        self.fallback_id = ""
        self.profile: str | None = None
        self._children = children
        self._spawns: dict[str, Call] = {}  # calls of subagents without a trail so far
        self._denied: set[str] = set()

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        kind = text_of(record.get("type"))
        at_ms = milliseconds_of(record.get("created_at" if kind == "metadata" else "time"))
        if at_ms is not None:
            intake.note_time(at_ms)
        if kind == "context.append_message":
            self._message(table_of(record.get("message")))
        elif kind == "context.append_loop_event":
            self._event(table_of(record.get("event")))
        elif kind == "usage.record":
            self._usage(record)
        elif kind == "metadata":
            self._metadata(record, at_ms)
        elif kind.startswith("context.") or kind == "forked":
            self._context(kind, record)
        elif kind.partition(".")[0] in _SILENT:
            intake.skip(kind)
            self._note(kind, record)
        else:
            intake.note_unknown(kind or "record without a type")

    def _metadata(self, record: dict[str, object], at_ms: int | None) -> None:
        self.fallback_id = self.fallback_id or (f"kimi-{at_ms}" if at_ms is not None else "")
        version = text_of(record.get("protocol_version"))
        if not version.startswith("1."):
            self._intake.note_unknown(f"protocol {version or 'without a version'}")

    def _note(self, kind: str, record: dict[str, object]) -> None:
        """Learn facts from a record that is no step."""
        intake = self._intake
        if kind in ("config.update", "profile.bind"):
            disclosed = table_of(record.get("environmentDisclosure"))
            intake.cwd = intake.cwd or optional_text(disclosed.get("cwd")) or optional_text(record.get("cwd"))
            intake.model = optional_text(record.get("modelAlias")) or intake.model
            self.profile = optional_text(record.get("profileName")) or self.profile
        elif kind == "llm.request":
            intake.model = optional_text(record.get("model")) or intake.model
        elif kind == "permission.record_approval_result":
            call_id = text_of(record.get("toolCallId"))
            decision = table_of(record.get("result")).get("decision")
            if call_id and text_of(decision) not in ("approved", "allow") and len(self._denied) < _SPAWNS_MAX:
                self._denied.add(call_id)
        elif kind == "subagent.spawned":
            self._link(text_of(record.get("parentToolCallId")), text_of(record.get("subagentId")))
        elif kind == "turn.cancel":
            self._chat.interrupt()
        elif kind == "turn.ended" and text_of(record.get("reason")) in ("failed", "blocked"):
            self._chat.status = "error"

    def _context(self, kind: str, record: dict[str, object]) -> None:
        chat = self._chat
        if kind == "context.apply_compaction":
            summary = record.get("summary")
            text = text_of(summary) or text_of(record.get("contextSummary"))
            text = text or text_of_blocks(table_of(summary).get("content"))
            chat.think(text, "summary of what was compacted")
        elif kind == "context.undo":
            chat.label(f"{natural_of(record.get('count'))} prompts were undone")
        elif kind == "context.clear":
            chat.label("the context was cleared")
        elif kind == "forked":
            chat.label("forked from another session")
        else:
            self._intake.note_unknown(kind)

    def _usage(self, record: dict[str, object]) -> None:
        usage = table_of(record.get("usage"))
        fresh = natural_of(usage.get("inputOther")) + natural_of(usage.get("inputCacheCreation"))
        cached, out = natural_of(usage.get("inputCacheRead")), natural_of(usage.get("output"))
        self._chat.usage(self._intake.model or optional_text(record.get("model")), fresh, cached, out)

    # Messages that are whole: a person's, the program's, and all of a session of the older Kimi CLI

    def _message(self, message: dict[str, object]) -> None:
        role = text_of(message.get("role"))
        if role == "user":
            self._user(message)
        elif role == "assistant":
            for part in blocks_of(message.get("content")):
                self._part(part)
            for item in blocks_of(message.get("toolCalls")):
                call = table_of(item.get("function")) or item
                self._call(text_of(item.get("id")), text_of(call.get("name")), call.get("arguments"))
        elif role == "tool":
            self._result(text_of(message.get("toolCallId")), message, message.get("content"))
        else:
            self._intake.note_unknown(f"role: {role or 'none'}")

    def _user(self, message: dict[str, object]) -> None:
        origin = table_of(message.get("origin"))
        kind = text_of(origin.get("kind")) or "user"
        is_task = kind == "system_trigger" and origin.get("name") == "subagent"
        if not is_task and (kind not in _TYPED or origin.get("trigger", "user-slash") != "user-slash"):
            self._intake.skip(f"user: {kind}")
            return
        blocks = blocks_of(message.get("content"))
        has_media = any(text_of(block.get("type")) in _MEDIA for block in blocks)
        self._chat.prompt(text_of_blocks(message.get("content")), "with a file" if has_media else None)

    # Events of the model's steps

    def _event(self, event: dict[str, object]) -> None:
        kind = text_of(event.get("type"))
        if kind == "content.part":
            self._part(table_of(event.get("part")))
        elif kind == "tool.call":
            self._call(text_of(event.get("toolCallId")), text_of(event.get("name")), event.get("args"))
        elif kind == "tool.result":
            result = table_of(event.get("result"))
            self._result(text_of(event.get("toolCallId")), result, result.get("output"))
        elif kind in ("step.begin", "step.end"):
            if text_of(event.get("finishReason")) in ("max_tokens", "truncated"):
                self._intake.note_unfinished("it ends in the middle of a turn")
        else:
            self._intake.note_unknown(f"event: {kind or 'unnamed'}")

    def _part(self, part: dict[str, object]) -> None:
        kind = text_of(part.get("type"))
        if kind == "text":
            self._chat.say(text_of(part.get("text")))
        elif kind == "think":
            self._chat.think(text_of(part.get("think")))
        elif kind in _MEDIA:
            self._intake.skip(f"block: {kind}")
        else:
            self._intake.note_unknown(f"block: {kind or 'unnamed'}")

    def _call(self, call_id: str, name: str, arguments: object) -> None:
        call = self._chat.call(call_id, name, arguments)
        if call.steps[0].op == "AGENT_SPAWN" and call_id and len(self._spawns) < _SPAWNS_MAX:
            self._spawns[call_id] = call

    def _link(self, call_id: str, agent_id: str) -> None:
        """Write the trail of a subagent into the call that started it."""
        call, child = self._spawns.get(call_id), self._children.get(agent_id)
        if call is not None and child is not None and not call.is_ready:
            call.steps[0].operands[2] = Digest("sha256", child.trail_digest)
            del self._spawns[call_id]

    def _result(self, call_id: str, result: dict[str, object], output: object) -> None:
        text = text_of_blocks(output)
        named = _AGENT_ID.match(text)
        if named is not None:
            self._link(call_id, named.group(1))
        outcome: Outcome = "failed" if result.get("isError") is True else "ok"
        if call_id in self._denied:
            outcome = "denied"
        code = _EXIT_CODE.search(text) if outcome == "failed" else None
        self._chat.result(call_id, outcome, text, integer_of(int(code.group(1))) if code is not None else None)
