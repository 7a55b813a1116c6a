"""Importer of Cursor's transcripts: a message a line, in ``agent-transcripts``; those of subagents in a folder beside
it.

Format: no times, no call ids, and mostly no results; the text that a person typed is in its own tag.
"""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "CursorImporter", "is_mine", "read"]

import os
from collections.abc import Iterator
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.interop.conversion.conversation import LineConversation, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.importers.claude_code.session import Children
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import table_of, text_of
from periplus.trail.model import Outcome, Status

CHILDREN_MAX: Final = 1000
_QUERY: Final = ("<user_query>", "</user_query>")
_STATUSES: Final[dict[str, Status]] = {"aborted": "cancelled", "cancelled": "cancelled", "error": "error"}


def is_mine(head: Head) -> bool:
    return any(map(_is_record, head.records[:4]))


def _is_record(record: dict[str, object]) -> bool:
    if text_of(record.get("role")) not in ("user", "assistant") or "type" in record or "sessionId" in record:
        return False
    content = table_of(record.get("message")).get("content")
    return isinstance(content, list) and "role" not in table_of(record["message"])


def read(source: Source) -> Iterator[Imported]:
    children = Children()
    imported = []
    lost = 0
    for path in _child_files(source.path):
        try:
            child, prompt = _read_one(source.beside(path), Children(), (), is_child=True)
        except PeriplusError:  # the session is complete without it; the count reports it
            lost += 1
            continue
        children.add(child, prompt)
        imported.append(child)
    session, _ = _read_one(source, children, tuple(imported), is_child=False, lost=lost)
    yield session


def _read_one(
    source: Source, children: Children, imported: tuple[Imported, ...], *, is_child: bool, lost: int = 0
) -> tuple[Imported, str | None]:
    intake = source.intake()
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    importer = CursorImporter(intake, children)
    digest, status = source.read_lines(importer, intake)
    intake.session_id = os.path.splitext(os.path.basename(source.path))[0]
    agent = "cursor/subagent" if is_child else "cursor"
    return source.trail(intake, "cursor", digest, status, agent=agent, children=imported), importer.first_prompt


def _child_files(path: str) -> list[str]:
    """Return the transcripts in ``subagents`` beside the session. No link is followed."""
    folder = os.path.join(os.path.dirname(os.path.abspath(path)), "subagents")
    try:
        entries = [] if os.path.islink(folder) else list(os.scandir(folder))
    except (OSError, ValueError):
        return []
    names = sorted(one.name for one in entries if one.name.endswith(".jsonl") and one.is_file(follow_symlinks=False))
    return [os.path.join(folder, name) for name in names[:CHILDREN_MAX]]


class CursorImporter(LineConversation):
    def __init__(self, intake: Intake, children: Children) -> None:
        super().__init__(intake)
        self._children = children

    @property
    def first_prompt(self) -> str | None:
        return self._chat.first_prompt

    def _record(self, record: dict[str, object]) -> None:
        intake = self._intake
        role = text_of(record.get("role"))
        content = table_of(record.get("message")).get("content")
        if role == "assistant":
            self._chat.calls.release(intake)
            self._answer(content)
        elif role == "user":
            self._user(content)
        elif record.get("type") == "turn_ended":
            intake.skip("turn_ended")
            self._chat.calls.release(intake)
            self._chat.status = _STATUSES.get(text_of(record.get("status")), "success")
            intake.note_turn_ended()
        else:
            intake.note_unknown(text_of(record.get("type")) or f"role: {role or 'none'}")

    def finish(self) -> Status:
        self._chat.calls.release(self._intake)
        return super().finish()

    def _user(self, content: object) -> None:
        texts, has_result, has_image = [], False, False
        for block in blocks_of(content):
            kind = text_of(block.get("type"))
            if kind == "tool_result":
                has_result = True
                outcome: Outcome = "failed" if block.get("is_error") is True else "ok"
                self._chat.result("", outcome, text_of_blocks(block.get("content")))
            elif kind == "text":
                texts.append(_typed(text_of(block.get("text"))))
            elif kind == "image":
                has_image = True
            else:
                self._intake.note_unknown(f"block: {kind or 'unnamed'}")
        if texts or has_image or not has_result:
            self._chat.calls.release(self._intake)
            self._chat.prompt("\n".join(filter(None, texts)), "with an image" if has_image else None)

    def _answer(self, content: object) -> None:
        chat, intake = self._chat, self._intake
        for block in blocks_of(content):
            kind = text_of(block.get("type"))
            if kind == "text":
                chat.say(text_of(block.get("text")))
            elif kind == "thinking":
                chat.think(text_of(block.get("thinking")))
            elif kind == "tool_use":
                steps = plan_call(intake, text_of(block.get("name")), block.get("input"), intake.cwd)
                if steps[0].op == "AGENT_SPAWN":
                    prompt = intake.mask(text_of(table_of(block.get("input")).get("prompt")))
                    steps[0].operands[2] = self._children.match(None, prompt, None) if prompt else None
                chat.calls.add("", intake.call(steps))
            else:
                intake.note_unknown(f"block: {kind or 'unnamed'}")


def _typed(text: str) -> str:
    """Return the text that a person typed, without additions of the editor."""
    _, found, rest = text.partition(_QUERY[0])
    inside, ended, _ = rest.partition(_QUERY[1])
    return inside.strip() if found and ended else text
