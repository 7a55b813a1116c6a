"""Files of Copilot Chat: a session as one document, as the log of its changes, or as the stream of its events.

Newer versions of VS Code write the log, older ones the document, in the folder of a window, whose ``workspace.json``
names the project. The stream is written by the extension, with the events of Copilot CLI.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

import os
from collections.abc import Iterator
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.interop.conversion.conversation import read_conversation
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.copilot import CopilotImporter, is_of_editor
from periplus.interop.importers.copilot_chat.operation_log import OperationLog, kind_of
from periplus.interop.importers.copilot_chat.session import ChatImporter
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, decode_value, integer_of, path_of_url
from periplus.interop.readers.line_reader import open_regular
from periplus.trail.model import Status

_NAME: Final = "copilot-chat"
_LOG_START: Final = b'{"kind":0,"v":{'
_SILENT: Final = frozenset({
    "hasPendingEdits", "initialLocation", "isImported", "isNew", "lastMessageDate", "pendingRequests", "repoData",
    "requesterAvatarIconUri", "requesterUsername", "responderAvatarIconUri", "responderUsername", "version",
})  # fmt: skip
_FACTS: Final = frozenset({"creationDate", "customTitle", "inputState", "sessionId"})
_WINDOW_BYTES_MAX: Final = 1 << 20


def is_mine(head: Head) -> bool:
    return _is_log(head) or _is_document(head) or any(map(is_of_editor, head.records))


def _is_log(head: Head) -> bool:
    """Detect the log by its first line, which may be longer than the head."""
    start = head.start_of_large_record.lstrip().replace(b": ", b":").replace(b", ", b",")
    if start.startswith(_LOG_START):
        return b'"creationDate":' in start or b'"requests":' in start
    first = head.records[0] if head.records else {}
    document = first.get("v")
    return first.get("kind") == 0 and isinstance(document, dict) and "requests" in document


def _is_document(head: Head) -> bool:
    names = head.document.names
    if "requests" not in names:
        return False
    return "responderUsername" in names or ("sessionId" in names and "inputState" in names)


def read(source: Source) -> Iterator[Imported]:
    head = Head.of(source.path)
    if any(map(is_of_editor, head.records)):
        yield from read_conversation(source, CopilotImporter, _NAME)
        return
    intake = source.intake()
    importer = ChatImporter(intake, _window_folder(source.path))
    if _is_log(head):
        log = _LogReader(importer, intake)
        digest, status = source.read_lines(log, intake)
        for why, number in log.lost.items():
            intake.skip(why, number)
    else:
        facts: dict[str, object] = {}

        def learn(name: str, data: bytes) -> None:
            if name in _FACTS:
                facts[name] = decode_value(data)
            elif name in _SILENT:
                intake.skip(f"member: {name}")
            else:
                intake.note_unknown(f"member: {name}")
            importer.learn(facts)

        digest, status = source.read_document(
            importer, intake, [("requests",)], lambda element: learn(element.name, element.data)
        )
    yield source.trail(intake, _NAME, digest, status)


class _LogReader:
    """Passes the requests that a log ends with to the importer."""

    def __init__(self, importer: ChatImporter, intake: Intake) -> None:
        self._importer = importer
        self._intake = intake
        self._log = OperationLog()

    @property
    def lost(self) -> dict[str, int]:
        return self._log.lost

    def feed(self, number: int, line: bytes) -> bool:
        entry = decode_table(line)
        if entry is None:
            return False
        if kind_of(entry) is None:
            self._intake.note_unknown(f"entry: {integer_of(entry.get('kind'))}")
        for at, request in self._log.feed(number, entry, len(line)):
            self._importer.request(at, request)
        self._importer.learn(self._log.facts)
        return True

    def finish(self) -> Status:
        for at, request in self._log.finish():
            self._importer.request(at, request)
        return self._importer.finish()


def _window_folder(path: str) -> str | None:
    """Return the folder of the window whose session this is."""
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(path))), "workspace.json")
    try:
        with open_regular(beside) as fd:
            window = decode_table(os.read(fd, _WINDOW_BYTES_MAX))
    except (PeriplusError, OSError):
        return None
    return path_of_url((window or {}).get("folder"))
