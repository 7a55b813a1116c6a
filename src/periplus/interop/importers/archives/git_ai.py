"""Importer of git-ai's notes (authorship/3.0.0, ``refs/notes/ai``): the prompts of a commit.

Format: lines that attribute the lines of a file to keys; a line ``---``; a JSON object. Its ``prompts`` have, under a
key, the agent, the id of its session and counts. Until git-ai 1.3.4 they have the ``messages`` too, calls without
results. A prompt with messages becomes a trail, a copy of the agent's own record.

A note without messages says who wrote the lines that a commit has, which ``git-ai blame`` shows. It says nothing about
how they came about: no order, no time, no text before. A trail of it would have steps that nobody saw happen. So it is
refused, and the sentence names the sessions that the note is about.

The attributed lines of an imported prompt are counted, not turned into steps, for the same reason.
"""

from __future__ import annotations

__all__ = ["is_mine", "prompts_of", "read"]

import hashlib
import io
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError, environment_failure
from periplus.interop.conversion.conversation import Chat
from periplus.interop.conversion.original_records import original_of, own_file
from periplus.interop.conversion.source import status_of
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_stream import JsonWalker
from periplus.interop.readers.json_values import Moment, decode_table, decode_value, table_of, text_of
from periplus.interop.readers.line_reader import BLOCK_BYTES, LINE_BYTES_MAX, open_regular

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.interop.conversion.intake import Intake
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.model import Imported
    from periplus.trail.model import Status

_NAME: Final = "git-ai"
_DIVIDER: Final = re.compile(rb"(?:\A|\n)---\r?\n\s*\{")
_VERSION: Final = re.compile(rb'"authorship/\d')
_ATTESTED: Final = re.compile(rb"\S[^\n]*\n(?:  [0-9a-z_:]{7,60} \d[\d,-]*\r?\n)+")
_KEY: Final = re.compile(r"[0-9a-z_:]{7,60}")
_ID_CHARS_MAX: Final = 200
_NAMED_MAX: Final = 3
_SPAN_BYTES_MAX: Final = 19
_LINES_MAX: Final = 1_000_000_000  # of one key; a larger number is no count of lines
_SESSIONS_MAX: Final = 1000
_PROMPT_FACTS: Final = frozenset({
    "accepted_lines", "agent_id", "custom_attributes", "human_author", "messages", "messages_url", "overriden_lines",
    "total_additions", "total_deletions",
})  # fmt: skip


def is_mine(head: Head) -> bool:
    data = head.data
    if data[:1] in (b"{", b"[", b"#"):
        return False
    if _DIVIDER.search(data) is not None:
        return _VERSION.search(data) is not None
    return _ATTESTED.match(data) is not None  # the lines alone are longer than the head


def read(source: Source) -> Iterator[Imported]:
    note = _Note(source)
    count = 0
    for key, data in note.prompts():
        prompt = _Prompt(source, note, key, data)
        imported = prompt.read()
        if imported is not None:
            count += 1
            yield imported
    if not count:
        raise note.refusal()


def prompts_of(path: str) -> dict[str, int] | None:
    """Return the messages of each prompt in the note by the id of its session; None for a file that is no note. Raises
    FormatError, EnvironmentFailure.
    """
    from periplus.interop.conversion.source import Head, Source

    if not is_mine(Head.of(path)):
        return None
    note = _Note(Source(path, b"", lambda _: b""))
    found: dict[str, int] = {}
    for key, data in note.prompts():
        count, session_id = 0, ""
        for element in _messages_in(data, path):
            if element.path:
                count += 1
            elif element.name == "agent_id":
                session_id = text_of(table_of(decode_value(element.data)).get("id"))[:_ID_CHARS_MAX]
        if count:
            found[session_id or key] = max(count, found.get(session_id or key, 0))
    return found


def _messages_in(data: bytes, path: str) -> JsonWalker:
    return JsonWalker(io.BytesIO(data).read, path, (("messages",),))


class _Note:
    """A note: its attributed lines by key, and its sessions."""

    def __init__(self, source: Source) -> None:
        self.lines: dict[str, int] = {}
        self.sessions: list[tuple[str, str]] = []  # agent and id
        self.has_humans = False
        self.broken = ""
        self.version = ""
        self._source = source
        self._tail = b""

    def prompts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the key and the JSON text of each prompt; the last one once it is known that the note is whole."""
        path = self._source.path
        with open_regular(path) as fd:
            size, done = os.fstat(fd).st_size, 0

            def read(most: int) -> bytes:
                nonlocal done
                try:
                    block = os.read(fd, most)
                except OSError as error:
                    raise environment_failure(error, "read", path) from error
                done += len(block)
                if self._source.progress is not None and block:
                    self._source.progress(done, max(size, done))
                return block

            start = self._attestations(read)
            walker = JsonWalker(_prepended(start, read), path, (("prompts",), ("sessions",)))
            held: tuple[str, bytes] | None = None
            for element in walker:
                if element.path == ("prompts",):
                    if held is not None:
                        yield held
                    held = element.name[:_ID_CHARS_MAX], element.data
                elif element.path == ("sessions",):
                    self._session(decode_value(element.data))
                elif element.name == "humans":
                    self.has_humans = bool(table_of(decode_value(element.data)))
                elif element.name == "git_ai_version":
                    self.version = text_of(decode_value(element.data))[:_ID_CHARS_MAX]
            if walker.broken is not None:
                self.broken = walker.broken.reason
            if held is not None:
                yield held

    def note_session(self, agent: str, session_id: str) -> None:
        if len(self.sessions) < _SESSIONS_MAX and (agent, session_id) not in self.sessions:
            self.sessions.append((agent, session_id))

    def refusal(self) -> FormatError:
        """Return the error for a note without messages, which names the sessions that it is about."""
        path = self._source.path
        if self.broken and not self.sessions:
            return FormatError(f"a note of git-ai that cannot be read: {self.broken}", path=path,
                               safe="Nothing was imported.", mend="Export it again: git notes --ref=ai show COMMIT")  # fmt: skip
        if not self.sessions:
            whose = "lines that people typed" if self.has_humans else "no lines of an agent"
            return FormatError(
                f"a note of git-ai about {whose}: no session is behind it", path=path, safe="Nothing was imported.",
                mend="Give the note of another commit, or the session's own file.",
            )  # fmt: skip
        named = self.sessions[:_NAMED_MAX]
        more = f" and {len(self.sessions) - len(named)} more" if len(self.sessions) > len(named) else ""
        who = ", ".join(f"{agent or 'an agent'} in session {session or 'without an id'}" for agent, session in named)
        files = [file for agent, session in named if (file := own_file(agent, session))]
        return FormatError(
            f"a note of git-ai that holds no messages, only which lines {who}{more} wrote", path=path,
            safe="Nothing was imported.",
            mend=f"Give the session's own file: periplus trail import {' '.join(files)}" if files
            else "Give the session's own file, as the agent wrote it.",
        )  # fmt: skip

    def _session(self, value: object) -> None:
        agent = table_of(table_of(value).get("agent_id"))
        self.note_session(text_of(agent.get("tool"))[:_ID_CHARS_MAX], text_of(agent.get("id"))[:_ID_CHARS_MAX])

    def _attestations(self, read: Callable[[int], bytes]) -> bytes:
        """Count the attributed lines up to the divider; return what was read of the JSON text."""
        rest = b""
        while block := read(BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            for at, line in enumerate(lines):
                if line.rstrip(b"\r") == b"---":
                    return b"\n".join((*lines[at + 1 :], rest))
                self._attest(line)
            if len(rest) > LINE_BYTES_MAX:
                raise FormatError(f"a line of the note has over {LINE_BYTES_MAX >> 20} MiB", path=self._source.path,
                                  safe="Nothing was imported.", mend="Export it again: git notes --ref=ai show COMMIT")  # fmt: skip
        return b""

    def _attest(self, line: bytes) -> None:
        words = line.split() if line.startswith(b"  ") else []
        if len(words) != 2:
            return
        key = words[0].partition(b"::")[0].decode("ascii", "replace")
        if key in self.lines or (len(self.lines) < _SESSIONS_MAX and _KEY.fullmatch(key)):
            extent = sum(map(_extent, words[1].split(b",")))
            self.lines[key] = min(self.lines.get(key, 0) + extent, _LINES_MAX)


def _extent(span: bytes) -> int:
    first, _, last = span.partition(b"-")
    if len(span) > _SPAN_BYTES_MAX or not first.isdigit() or (last and not last.isdigit()):
        return 0
    return max(1, int(last) - int(first) + 1) if last else 1


def _prepended(start: bytes, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    buffer = io.BytesIO(start)
    return lambda most: buffer.read(most) or read(most)


class _Prompt:
    """One prompt of a note, with its messages."""

    def __init__(self, source: Source, note: _Note, key: str, data: bytes) -> None:
        self._source = source
        self._note = note
        self._key = key
        self._data = data

    def read(self) -> Imported | None:
        """Return the trail; None for a prompt without messages."""
        members: dict[str, object] = {}
        has_messages = False
        for element in self._walker():
            if element.path:
                has_messages = True
            elif element.name in _PROMPT_FACTS:
                members[element.name] = decode_value(element.data)
            else:
                members.setdefault("", element.name)
        agent = table_of(members.get("agent_id"))
        tool, session_id = text_of(agent.get("tool"))[:_ID_CHARS_MAX], text_of(agent.get("id"))[:_ID_CHARS_MAX]
        self._note.note_session(tool, session_id)
        if not has_messages:
            return None
        intake = self._source.intake()
        intake.session_id = session_id or self._key
        intake.model = text_of(agent.get("model")) or None
        if unknown := text_of(members.get("")):
            intake.note_unknown(f"prompt: {unknown}")
        if lines := self._note.lines.get(self._key, 0):
            intake.skip("line of the commit", lines)
        digest = hashlib.sha256(self._key.encode("utf-8", "replace") + b"\0" + self._data).digest()
        status = self._messages(intake)
        original = original_of(tool)
        who = original.agent if original is not None else tool or _NAME
        imported = self._source.trail(intake, _NAME, digest, status, agent=who)
        return imported._replace(original=original.format if original is not None and session_id else "")

    def _walker(self) -> JsonWalker:
        return _messages_in(self._data, self._source.path)

    def _messages(self, intake: Intake) -> Status:
        chat, moment = Chat(intake), Moment()
        count = 0
        walker = self._walker()
        for element in walker:
            if not element.path:
                continue
            count += 1
            intake.source = count
            message = decode_table(element.data)
            if message is None:
                intake.note_unreadable(count)
                continue
            intake.note_time(moment.read(message.get("timestamp")))
            _message(chat, message)
        intake.count("lines", count)
        broken = walker.broken.reason if walker.broken is not None else self._note.broken
        if broken:
            intake.skip(f"rest of the document: {broken}")
        return status_of(intake, chat.finish(), is_torn=bool(broken))


def _message(chat: Chat, message: dict[str, object]) -> None:
    kind, text = text_of(message.get("type")), text_of(message.get("text"))
    if kind == "user":
        chat.prompt(text)
    elif kind == "assistant":
        chat.say(text)
    elif kind == "thinking":
        chat.think(text)
    elif kind == "plan":
        chat.think(text, "plan")
    elif kind == "tool_use":
        intake = chat.intake
        steps = plan_call(intake, text_of(message.get("name")) or "tool", message.get("input"), intake.cwd)
        intake.release(intake.call(steps))  # a note has no results
    else:
        chat.intake.note_unknown(f"message: {kind or 'without a type'}")
