"""Importer of gptme's conversations: a message a line, with the calls of tools in the text.

Format: a call is a code block whose language is the name of a tool, or a line ``@tool(id): {…}`` with its arguments;
its result is the system message that follows. A block that no result follows was not run and stays text. Times have
no zone and are taken as UTC.
"""

from __future__ import annotations

__all__ = ["GptmeImporter", "is_mine", "read"]

import os
import re
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.interop.conversion.conversation import LineConversation
from periplus.interop.conversion.intake import Call, Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, list_of, natural_of, optional_text, table_of, text_of
from periplus.trail.model import Outcome, Status

_FILE: Final = "conversation.jsonl"
_OTHERS: Final = frozenset({"id", "message", "parts", "sessionId", "type", "uuid"})
_TOOLS: Final = frozenset({
    "append", "choice", "clarify", "complete", "elicit", "form", "gh", "hashline_edit", "ipython", "mcp", "memory", "morph",
    "patch", "patch_many", "progress", "py", "read", "restart", "save", "shell", "subagent", "tmux", "todo", "watch",
})  # fmt: skip
_PIECES_MAX: Final = 1000
_CALL_LINE: Final = re.compile(r"@([^\s()]{1,200})\(([\w:.-]{1,200})\): ?(?=\{)")
_FENCE: Final = re.compile(r"(`{3,20})([^`]*)")
_THOUGHTS: Final = (("<thinking>", "</thinking>"), ("<think>", "</think>"))
_PATCH: Final = ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED")
_FOLDER: Final = re.compile(r"\*\*Working Directory:\*\* ([^\n]{1,4096})")
_RETURN_CODE: Final = re.compile(r"(?:^|\n)Return code: (-?\d{1,9})\b")
_DENIED: Final = ("Aborted, user", "Operation aborted", "Execution denied", "Declined")


def is_mine(head: Head) -> bool:
    found = [record for record in head.records[:8] if _OTHERS.isdisjoint(record)]
    return bool(found) and all(
        text_of(record.get("role")) in ("assistant", "system", "user")
        and isinstance(record.get("content"), str)
        and isinstance(record.get("timestamp"), str)
        for record in found
    )


def read(source: Source) -> Iterator[Imported]:
    intake = source.intake()
    importer = GptmeImporter(intake)
    digest, status = source.read_lines(importer, intake)
    folder, name = os.path.split(os.path.abspath(source.path))
    intake.session_id = os.path.basename(folder) if name == _FILE else importer.fallback_id
    yield source.trail(intake, "gptme", digest, status)


class _Piece(NamedTuple):
    """A part of an answer: ``say``, ``think`` or ``call``; of a call ``text`` is all of its block."""

    kind: str
    text: str
    name: str = ""
    call_id: str = ""
    arguments: object = None


class _Answer(NamedTuple):
    """An answer of the model that waits for the record behind it."""

    pieces: list[_Piece]
    number: int
    at_ms: int | None


class GptmeImporter(LineConversation):
    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self.fallback_id: str | None = None
        self._answer: _Answer | None = None
        self._waiting: deque[Call] = deque()  # calls without an id

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        role, content = text_of(record.get("role")), text_of(record.get("content"))
        at_ms, number = intake.at_ms, intake.source
        if self.fallback_id is None and at_ms is not None:
            self.fallback_id = f"gptme-{at_ms}"
        is_result = role == "system" and not (record.get("hide") is True or record.get("pinned") is True)
        if is_result or role in ("assistant", "user"):
            self._tell(has_results=is_result)
            intake.source = number
            intake.note_time(at_ms)
        if role == "assistant":
            self._give_up()
            metadata = table_of(record.get("metadata"))
            self._usage(metadata)
            ran = table_of(table_of(metadata.get("timings")).get("tool_ms_by_name"))
            self._answer = _Answer(_pieces(content, _TOOLS.union(ran)), number, at_ms)
        elif role == "user":
            self._give_up()
            if content.startswith("<system>"):
                intake.skip("user: written by the program")
            else:
                has_file = bool(list_of(record.get("files")))
                self._chat.prompt(content, "with a file" if has_file else None)
        elif is_result:
            self._result(text_of(record.get("call_id")), content)
        elif role == "system":
            intake.skip("role: system")
            found = _FOLDER.search(content[:65_536])
            intake.cwd = intake.cwd or (found.group(1).strip() if found is not None else None)
        else:
            intake.note_unknown(f"role: {role or 'none'}")

    def finish(self) -> Status:
        self._tell(has_results=False)
        is_waiting = bool(self._waiting)
        self._give_up()
        return self._intake.ending(self._chat.status, is_waiting=is_waiting or self._chat.calls.is_waiting)

    def _usage(self, metadata: dict[str, object]) -> None:
        usage = table_of(metadata.get("usage")) or metadata
        if "input_tokens" in usage or "output_tokens" in usage:
            fresh = natural_of(usage.get("input_tokens")) + natural_of(usage.get("cache_creation_tokens"))
            cached, out = natural_of(usage.get("cache_read_tokens")), natural_of(usage.get("output_tokens"))
            self._chat.usage(optional_text(metadata.get("model")), fresh, cached, out)

    # Answers and results

    def _tell(self, *, has_results: bool) -> None:
        """Add the answer that waits; its blocks are calls if results follow."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        self._intake.source = answer.number
        self._intake.note_time(answer.at_ms)
        text: list[str] = []
        for piece in answer.pieces:
            if piece.kind == "call" and (has_results or piece.call_id):
                self._say(text)
                self._call(piece)
            elif piece.kind == "think":
                self._say(text)
                self._chat.think(piece.text)
            else:
                text.append(piece.text)
        self._say(text)

    def _say(self, lines: list[str]) -> None:
        text = "\n".join(lines).strip()
        lines.clear()
        if text:
            self._chat.say(text)

    def _call(self, piece: _Piece) -> None:
        if piece.call_id:
            self._chat.call(piece.call_id, *_known(piece.name, table_of(piece.arguments)))
        else:
            name, arguments = _known(piece.name, table_of(piece.arguments))
            self._chat.status = "success"
            self._waiting.append(self._intake.call(plan_call(self._intake, name, arguments, self._intake.cwd)))

    def _result(self, call_id: str, text: str) -> None:
        code = _RETURN_CODE.search(text)
        exit_code = int(code.group(1)) if code is not None else None
        outcome: Outcome = "failed" if exit_code or text.startswith("Error") else "ok"
        if text.startswith(_DENIED):
            outcome = "denied"
        if call_id:
            self._chat.result(call_id, outcome, text, exit_code)
        elif self._waiting:
            self._intake.resolve(self._waiting.popleft(), outcome, text, exit_code=exit_code)
        else:
            self._intake.skip("role: system")

    def _give_up(self) -> None:
        while self._waiting:
            self._intake.release(self._waiting.popleft())


def _known(name: str, arguments: dict[str, object]) -> tuple[str, dict[str, object]]:
    """Return a call with the name and the arguments that most agents use."""
    if name == "save":
        return "write", arguments
    if name == "patch":
        edits = _edits(text_of(arguments.get("patch")))
        if edits:
            return "edit", {"path": arguments.get("path"), "edits": edits}
    return name, arguments


def _edits(patch: str) -> list[dict[str, object]]:
    """Return the replacements of a patch with conflict markers."""
    edits: list[dict[str, object]] = []
    opening, middle, closing = _PATCH
    for part in patch.split(f"{opening}\n")[1 : _PIECES_MAX + 1]:
        old, is_divided, rest = f"\n{part}".partition(f"\n{middle}\n")
        new, is_closed, _ = f"\n{rest}".partition(f"\n{closing}")
        if not is_divided or not is_closed:
            return []
        edits.append({"old_string": old[1:], "new_string": new[1:]})
    return edits


def _pieces(content: str, tools: frozenset[str]) -> list[_Piece]:
    """Divide an answer into thoughts, calls and text; ``tools`` are the languages of blocks that are calls."""
    pieces: list[_Piece] = []
    rest = content
    for opening, closing in _THOUGHTS:
        before, is_open, behind = rest.partition(opening)
        thought, is_closed, behind = behind.partition(closing)
        if is_open and is_closed and not before.strip():
            pieces.append(_Piece("think", thought.strip()))
            rest = behind
    lines = rest.split("\n")
    at = begin = 0
    while at < len(lines) and len(pieces) < _PIECES_MAX:
        line = lines[at]
        named = _CALL_LINE.match(line)
        table = decode_table(line[named.end() :].encode("utf-8", "replace")) if named is not None else None
        fence = _FENCE.fullmatch(line.rstrip()) if line.startswith("```") else None
        end = _end_of_block(lines, at, fence.group(1)) if fence is not None else at
        if end < 0:
            break
        piece = _block(fence.group(2).split(), lines[at : end + 1], tools) if fence is not None else None
        if named is not None and table is not None:
            piece = _Piece("call", line, named.group(1), named.group(2), table)
        if piece is not None:
            pieces += [_Piece("say", "\n".join(lines[begin:at])), piece]
            begin = end + 1
        at = end + 1
    return [*pieces, _Piece("say", "\n".join(lines[begin:]))]


def _end_of_block(lines: list[str], begin: int, fence: str) -> int:
    """Return the line that closes the block, −1 where none does. Blocks in a block have a language."""
    depth = 0
    for at in range(begin, len(lines)):
        line = lines[at].rstrip()
        if line == fence:
            depth -= 1
            if depth <= 0:
                return at if at > begin else -1
        elif line.startswith(fence) and len(line) > len(fence):
            depth += 1
    return -1


def _block(words: list[str], lines: list[str], tools: frozenset[str]) -> _Piece | None:
    """Return the call in a block; None for a block of another language."""
    name, *arguments = words or [""]
    if name not in tools:
        return None
    text, body, place = "\n".join(lines), "\n".join(lines[1:-1]), " ".join(arguments)
    table: dict[str, object] = {"args": place, "content": body}
    if name == "shell":
        table = {"command": body}
    elif name in ("save", "append"):
        table = {"path": place, "content": f"{body}\n"}
    elif name == "patch":
        table = {"path": place, "patch": body}
    elif name == "read":
        table = {"path": place or body.strip()}
    elif name in ("ipython", "py"):
        table = {"code": body}
    return _Piece("call", text, name, "", table)
