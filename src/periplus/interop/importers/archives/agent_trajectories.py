"""Importer of agent-trajectories (``.trajectories/``): one document for each task that agents worked on.

Format: ``chapters`` hold ``events`` with a time in milliseconds, a type and a text for people; ``retrospective`` is what
the agent said at the end. A document is written for people, so calls are named and rarely have arguments; files and
commits are only listed. The Markdown beside a document and the index are made from it.

The document is read twice: its facts may follow the chapters, and the task is the first step.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.interop.conversion.conversation import Chat
from periplus.interop.conversion.source import status_of
from periplus.interop.readers.json_stream import Element, JsonReader
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    decode_value,
    integer_of,
    json_text,
    list_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.model import Digest, Status

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Intake
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.model import Imported

_NAME: Final = "agent-trajectories"
_CHAPTERS: Final = "chapters"
_EVENTS: Final = "events"
_OPENED: Final = ((_CHAPTERS,), (_CHAPTERS, "*"), (_CHAPTERS, "*", _EVENTS))
_ID: Final = re.compile(r"traj_[A-Za-z0-9_-]{1,80}", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LISTED_MAX: Final = 10_000
_NAME_CHARS_MAX: Final = 200
_CLOCK_MS_MAX: Final = 253_402_300_799_999
_REMARKS: Final = {
    "decision": "decision", "error": "error", "finding": "finding", "message_received": "message received",
    "note": "note", "thinking": None,
}  # fmt: skip
_LOOKING_BACK: Final = ("approach", "decisions", "challenges", "learnings", "suggestions")
_FACTS: Final = frozenset({
    "agents", "commits", "completedAt", "filesChanged", "id", "projectId", "retrospective", "startedAt", "status", "task",
    "_trace",
})  # fmt: skip
_SKIPPED: Final = frozenset({"tags", "version"})
_CHAPTER_FACTS: Final = frozenset({"agentName", "endedAt", "id", "startedAt", "title"})


def is_mine(head: Head) -> bool:
    if b'"traj_' not in head.data:
        return False
    members = head.document.members
    is_named = _ID.fullmatch(text_of(members.get("id"))) is not None
    return is_named and isinstance(members.get("task"), dict) and "startedAt" in members


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    facts = _Facts(intake)
    for element in JsonReader(source.path, _OPENED[:1]):
        if not element.path:
            facts.learn(element)
    importer = _TrajectoryImporter(intake, facts.members)
    reader = JsonReader(source.path, _OPENED, source.progress)
    for element in reader:
        if element.path[:1] == (_CHAPTERS,):
            importer.take(element)
    if reader.broken is not None:
        intake.skip(f"rest of the document: {reader.broken.reason}")
    status = status_of(intake, importer.finish(), is_torn=reader.broken is not None)
    lead = next((text_of(table_of(one).get("name")) for one in list_of(facts.members.get("agents"))), "")
    base = _base(table_of(facts.members.get("_trace")))
    yield source.trail(intake, _NAME, reader.digest, status, agent=lead[:_NAME_CHARS_MAX] or _NAME, base=base)


def _base(trace: dict[str, object]) -> Digest | None:
    commit = text_of(trace.get("startRef"))
    return _git(commit) if _COMMIT.fullmatch(commit) else None


def _git(commit: str) -> Digest:
    return Digest("git-sha1" if len(commit) == 40 else "git-sha256", bytes.fromhex(commit))


class _Facts:
    """Facts of the document outside of its chapters."""

    def __init__(self, intake: Intake) -> None:
        self.members: dict[str, object] = {}
        self._intake = intake

    def learn(self, element: Element) -> None:
        name, intake = element.name, self._intake
        if name in _FACTS:
            value = self.members[name] = decode_value(element.data)
            if name == "id":
                intake.session_id = text_of(value)[:_NAME_CHARS_MAX] or None
            elif name == "projectId" and text_of(value).startswith("/"):
                intake.cwd = text_of(value)
        elif name in _SKIPPED:
            intake.skip(f"member: {name}")
        elif name != _CHAPTERS:
            intake.note_unknown(f"member: {name}")


class _TrajectoryImporter:
    """Takes the chapters' members and events in the order of the document."""

    def __init__(self, intake: Intake, members: dict[str, object]) -> None:
        self._intake = intake
        self._members = members
        self._chat = Chat(intake)
        self._moment = Moment()
        self._chapter: int | str = -1
        self._heading: dict[str, object] = {}  # facts of the chapter until its label is written
        self._is_labelled = True
        self._records = 0
        task = table_of(members.get("task"))
        intake.source = 1
        intake.note_time(self._moment.read(members.get("startedAt")))
        self._chat.prompt("\n\n".join(filter(None, (text_of(task.get("title")), text_of(task.get("description"))))))

    def take(self, element: Element) -> None:
        path = element.path
        if len(path) == 1:  # no object
            self._intake.note_unreadable(element.place + 1)
            return
        if path[1] != self._chapter:
            self._label()
            self._chapter, self._heading, self._is_labelled = path[1], {}, False
        if len(path) == 2:
            if element.name in _CHAPTER_FACTS:
                self._heading[element.name] = decode_value(element.data)
            elif element.name != _EVENTS:
                self._intake.note_unknown(f"chapter: {element.name}")
            return
        self._label()
        self._records += 1
        self._intake.source = self._records + 1
        event = decode_table(element.data)
        if event is None:
            self._intake.note_unreadable(self._records)
        else:
            self._event(event)

    def finish(self) -> Status:
        self._label()
        intake, members = self._intake, self._members
        intake.count("lines", self._records)
        intake.source = self._records + 2
        intake.note_time(self._moment.read(members.get("completedAt")))
        self._commits()
        paths = [text_of(path) for path in list_of(members.get("filesChanged"))[:_LISTED_MAX]]
        for path in filter(None, paths):
            intake.note_files("FILE_WRITE", [intake.mask(path)])
        told = members.get("status")
        self._look_back(table_of(members.get("retrospective")))
        if told == "completed":
            intake.note_turn_ended()
        elif told == "abandoned":
            return "cancelled"
        elif told == "active":
            return intake.partial("the trajectory was still active")
        return self._chat.finish()

    def _label(self) -> None:
        heading, self._heading = self._heading, {}
        if not self._is_labelled:
            self._is_labelled = True
            at_ms = self._moment.read(heading.get("startedAt"))
            if at_ms is not None:
                self._intake.note_time(at_ms)
            title, agent = text_of(heading.get("title")), text_of(heading.get("agentName"))
            self._chat.label(f"{title} ({agent})" if title and agent else title or agent or "chapter")
        ended_ms = self._moment.read(heading.get("endedAt"))
        if ended_ms is not None:
            self._intake.ended_ms = max(ended_ms, self._intake.ended_ms or ended_ms)

    def _event(self, event: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        at_ms = integer_of(event.get("ts"))
        if at_ms is not None and 0 <= at_ms <= _CLOCK_MS_MAX:
            intake.note_time(at_ms)
        kind, text = text_of(event.get("type")), text_of(event.get("content"))
        raw = table_of(event.get("raw"))
        if kind == "prompt":
            chat.prompt(text)
        elif kind in _REMARKS:
            self._remark(text, _REMARKS[kind], raw)
        elif kind == "message_sent":
            chat.say(text)
        elif kind == "tool_call":
            name = text_of(raw.get("name")) or text_of(raw.get("tool"))
            arguments = raw.get("input") or raw.get("arguments") or raw.get("args")
            chat.call("", name or "tool", arguments if name and arguments else {"content": text})
        elif kind == "tool_result":
            is_failed = raw.get("is_error") is True or raw.get("isError") is True
            chat.result("", "failed" if is_failed else "unknown", text)
        else:
            intake.note_unknown(f"event: {kind or 'without a type'}")

    def _remark(self, text: str, note: str | None, raw: dict[str, object]) -> None:
        reason = text_of(raw.get("reasoning"))
        self._chat.think(f"{text}\n\n{reason}" if reason and reason not in text else text, note)

    def _commits(self) -> None:
        for commit in list_of(self._members.get("commits"))[:_LISTED_MAX]:
            name = text_of(commit)
            if _COMMIT.fullmatch(name):
                self._intake.step("GIT_COMMIT", "", "", _git(name), note="listed by the trajectory")
            else:
                self._intake.skip("commit without its whole id")

    def _look_back(self, said: dict[str, object]) -> None:
        chat, intake = self._chat, self._intake
        for name in _LOOKING_BACK:
            value = said.get(name)
            for one in list_of(value) if isinstance(value, list) else [value]:
                if isinstance(one, str) and one.strip():
                    chat.think(one, name)
                elif isinstance(one, dict) and one:
                    chat.think(json_text(one, intake.mask), name)
        summary = optional_text(said.get("summary"))
        if summary is not None:
            chat.say(summary)
