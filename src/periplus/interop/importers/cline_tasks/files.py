"""Folder of a task: the conversation, and beside it the display with times and tokens and facts about the task.

No link beside the conversation is followed.
"""

from __future__ import annotations

__all__ = ["CONVERSATION", "beside", "is_conversation", "read_task"]

import hashlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.interop.importers.cline_tasks.conversation import TaskImporter, facts_of, model_of, version_of
from periplus.interop.importers.cline_tasks.requests import Request, requests_in
from periplus.interop.readers.json_values import decode_table, list_of, table_of, text_of
from periplus.interop.readers.line_reader import open_regular

if TYPE_CHECKING:
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.model import Imported

CONVERSATION: Final = "api_conversation_history.json"
_DISPLAY: Final = "ui_messages.json"
_METADATA: Final = "task_metadata.json"
_ITEM: Final = "history_item.json"
_FACTS_BYTES_MAX: Final = 1 << 20
_TASK_ID: Final = re.compile(r"\d{13}|[0-9a-f]{8}-[0-9a-f-]{27}")
_MARKS: Final = ("<task>", "<user_message>", "<environment_details>", "[ERROR] You did not use a tool")
_PROBED: Final = 4


def beside(path: str) -> tuple[str, ...]:
    """Return the paths of the files that are read beside the conversation at ``path``."""
    folder = os.path.dirname(os.path.abspath(path))
    return tuple(os.path.join(folder, name) for name in (_DISPLAY, _METADATA, _ITEM))


def is_conversation(head: Head) -> bool:
    """Detect a conversation by its name and its messages, or by the marks that the editor puts in them."""
    if head.data.lstrip()[:1] != b"[":
        return False
    messages = [table_of(item) for item in head.document.elements[:_PROBED]]
    if any(text_of(message.get("role")) not in ("user", "assistant") for message in messages):
        return False
    if os.path.basename(head.path) == CONVERSATION:
        return bool(messages) or b'"role"' in head.data[:4096]
    return any(_is_marked(message) for message in messages if message.get("role") == "user")


def _is_marked(message: dict[str, object]) -> bool:
    texts = [text_of(table_of(block).get("text")) for block in list_of(message.get("content"))]
    return any(mark in text for text in texts for mark in _MARKS)


def read_task(source: Source, name: str) -> Iterator[Imported]:
    """Import the task with this conversation as a session of the format ``name``."""
    display, metadata_path, item_path = beside(source.path)
    requests, digest_of_display = _requests(display)
    metadata, metadata_bytes = _facts(metadata_path)
    item, item_bytes = _facts(item_path)
    intake = source.intake()
    folder = os.path.basename(os.path.dirname(os.path.abspath(source.path)))
    intake.session_id = folder if _TASK_ID.fullmatch(folder) else None
    intake.cwd, title = facts_of(item)
    intake.model, intake.version = model_of(metadata), version_of(metadata)
    if title:
        intake.note_prompt(intake.mask(title))
    importer = TaskImporter(intake, requests)
    digest, status = source.read_document(importer, intake, is_record=lambda element: not element.name)
    facts = hashlib.sha256(b"\0".join((digest_of_display, metadata_bytes, item_bytes))).digest()
    yield intake.finish(
        name,
        secret=source.secret(hashlib.sha256(digest + facts).digest()),
        source=digest,
        agent=name,
        trail_id=intake.session_id or digest.hex()[:16],
        status=status,
        tool=name,
    )


def _requests(path: str) -> tuple[list[Request], bytes]:
    return ([], b"") if os.path.islink(path) else requests_in(path)


def _facts(path: str) -> tuple[dict[str, object], bytes]:
    """Return a small document beside the conversation; empty where it is missing or unreadable."""
    try:
        if os.path.islink(path):
            return {}, b""
        with open_regular(path) as fd:
            data = os.read(fd, _FACTS_BYTES_MAX)
    except (PeriplusError, OSError):
        return {}, b""
    return decode_table(data) or {}, data
