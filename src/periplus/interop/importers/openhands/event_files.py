"""Importer of OpenHands' events, from the files of the program and its evaluations: a line each, one document with a
list, an evaluation record with a ``history``, or a file each in a folder ``events`` beside ``base_state.json``.

Format: events of version 0 have an ``action`` or an ``observation`` and refer to each other by number; those of
version 1 have a ``kind`` and refer by id. Version 0 gives the usage of a model call with each of its actions, version
1 gives sums from time to time.
"""

from __future__ import annotations

__all__ = ["OpenHandsImporter", "is_mine", "read"]

import hashlib
import io
import os
import re
from collections.abc import Iterator
from typing import Final

from periplus.base.errors import FormatError
from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.source import Head, Source, status_of
from periplus.interop.importers.openhands.version0 import VersionZero
from periplus.interop.importers.openhands.version1 import VersionOne
from periplus.interop.model import Imported
from periplus.interop.readers.json_stream import JsonWalker
from periplus.interop.readers.json_values import Moment, decode_table, decode_value, optional_text, table_of, text_of
from periplus.interop.readers.line_reader import LINE_BYTES_MAX, LineReader, open_regular
from periplus.trail.model import Digest, Status

EVENTS_MAX: Final = 1_000_000
_EVENT_FILE: Final = re.compile(r"event-\d{1,9}-[0-9A-Za-z-]{1,80}\.json")
_SOURCES: Final = frozenset({"agent", "user", "environment", "hook"})
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def is_mine(head: Head) -> bool:
    if any(_is_event(record) or _is_evaluation(record) for record in head.records):
        return True
    document = head.document
    if _is_event(table_of(document.elements[0] if document.elements else None)):
        return True
    if _is_evaluation(dict.fromkeys(document.names)):
        return True
    return "persistence_dir" in document.names and "execution_status" in document.names


def _is_event(record: dict[str, object]) -> bool:
    if text_of(record.get("source")) not in _SOURCES or "timestamp" not in record:
        return False
    if isinstance(record.get("kind"), str) and isinstance(record.get("id"), str):
        return True
    has_act = isinstance(record.get("action"), str) or isinstance(record.get("observation"), str)
    return has_act and isinstance(record.get("id"), int) and ("args" in record or "content" in record)


def _is_evaluation(record: dict[str, object]) -> bool:
    return "instance_id" in record and "history" in record and ("test_result" in record or "instruction" in record)


def read(source: Source) -> Iterator[Imported]:
    head = Head.of(source.path)
    names = head.document.names
    if "persistence_dir" in names and "execution_status" in names:
        yield _read_folder(source)
    elif _is_evaluation(dict.fromkeys(names)):
        yield from _read_evaluations(source)
    elif head.data.lstrip()[:1] == b"[":
        yield _read_list(source)
    else:
        intake = source.intake()
        importer = OpenHandsImporter(intake)
        digest, status = source.read_lines(importer, intake)
        yield source.trail(intake, "openhands", digest, status, importer.name(source.path))


def _read_list(source: Source) -> Imported:
    intake = source.intake()
    importer = OpenHandsImporter(intake)
    digest, status = source.read_document(importer, intake, is_record=lambda _: True)
    return source.trail(intake, "openhands", digest, status, importer.name(source.path))


def _read_evaluations(source: Source) -> Iterator[Imported]:
    """Read a run per line, or one document over several lines."""
    whole = Head.of(source.path)
    if not any(map(_is_evaluation, whole.records)) and whole.data.count(b"\n") > 1:
        yield _read_evaluation(source, _bytes_of(source.path), [])
        return
    waiting: bytes | None = None
    unreadable: list[int] = []  # invalid lines, reported with the run before them
    for number, line in LineReader(source.path, source.progress):
        if line.lstrip()[:1] != b"{":
            unreadable.append(number)
            continue
        if waiting is not None:
            yield _read_evaluation(source, waiting, unreadable)
            unreadable = []
        waiting = line
    if waiting is not None:
        yield _read_evaluation(source, waiting, unreadable)


def _bytes_of(path: str) -> bytes:
    with open_regular(path) as fd, open(fd, "rb", closefd=False) as file:
        data = file.read(LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise FormatError(f"the record has over {LINE_BYTES_MAX >> 20} MiB", path=path, offset=LINE_BYTES_MAX)
    return data


def _read_evaluation(source: Source, line: bytes, unreadable: list[int]) -> Imported:
    intake = source.intake()
    for number in unreadable:
        intake.note_unreadable(number)
    importer = OpenHandsImporter(intake)
    walker = JsonWalker(io.BytesIO(line).read, source.path, [("history",)])
    count = 0
    base = None
    instance = ""
    for element in walker:
        if element.path == ("history",):
            count += 1
            if not importer.feed(element.place + 1, element.data):
                intake.note_unreadable(element.place + 1)
            continue
        value = decode_value(element.data)
        if element.name == "instance_id":
            instance = text_of(value)
        elif element.name == "instance":
            commit = text_of(table_of(value).get("base_commit"))
            base = Digest("git-sha1", bytes.fromhex(commit)) if _COMMIT.fullmatch(commit) else None
        elif element.name == "metadata":
            config = table_of(table_of(value).get("llm_config"))
            intake.model = intake.model or optional_text(config.get("model"))
        elif element.name == "error":
            importer.note_error(value)
        else:
            intake.skip(f"member: {element.name}")
    intake.count("lines", count)
    if walker.broken is not None:
        intake.skip(f"rest of the record: {walker.broken.reason}")
    intake.session_id = f"{instance or 'run'}-{importer.fingerprint}"
    status = status_of(intake, importer.finish(), is_torn=walker.broken is not None)
    return source.trail(intake, "openhands", hashlib.sha256(line).digest(), status, base=base)


def _read_folder(source: Source) -> Imported:
    """Read a conversation: its card, and a file for each event."""
    intake = source.intake()
    importer = OpenHandsImporter(intake)
    sha256 = hashlib.sha256()
    card = _bytes_of(source.path)
    sha256.update(card)
    values = decode_table(card)
    if values is None:
        intake.skip("card of the conversation, cut off")
    importer.learn(values or {})
    paths = _event_files(os.path.join(os.path.dirname(source.path), "events"))
    for number, path in enumerate(paths, 1):
        data = _bytes_of(path)
        sha256.update(data)
        if not importer.feed(number, data):
            intake.note_unreadable(number)
        if source.progress is not None:
            source.progress(number, len(paths))
    intake.count("lines", len(paths))
    if not paths:
        intake.skip("state without events beside it")
    status = status_of(intake, importer.finish(), is_torn=values is None)
    return source.trail(intake, "openhands", sha256.digest(), status)


def _event_files(folder: str) -> list[str]:
    """Return the event files in order. No link is followed: a folder from an untrusted source must not import other
    files of this machine.
    """
    try:
        entries = [] if os.path.islink(folder) else list(os.scandir(folder))
    except (OSError, ValueError):
        return []
    names = [
        entry.name for entry in entries if _EVENT_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
    ]
    if len(names) > EVENTS_MAX:
        raise FormatError(f"over {EVENTS_MAX:,} events", path=folder, safe="Nothing was imported.")
    return [os.path.join(folder, name) for name in sorted(names, key=lambda name: (int(name.split("-")[1]), name))]


class OpenHandsImporter:
    """Takes events of both versions."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._moment = Moment()
        self._calls = OpenCalls()
        self._zero = VersionZero(intake, self._calls)
        self._one = VersionOne(intake, self._calls)
        self._first: list[bytes] = []
        self._is_error = False

    @property
    def fingerprint(self) -> str:
        """Digest of the first events, to distinguish runs of the same task."""
        return hashlib.sha256(b"\0".join(self._first)).hexdigest()[:12]

    def name(self, path: str) -> str:
        """Return the id of the run, or one made from the file name and the fingerprint."""
        intake = self._intake
        if intake.session_id is None:
            intake.session_id = f"{os.path.splitext(os.path.basename(path))[0]}-{self.fingerprint}"
        return intake.session_id

    def learn(self, card: dict[str, object]) -> None:
        """Handle the card of a conversation of version 1."""
        intake = self._intake
        intake.session_id = optional_text(card.get("id")) or intake.session_id
        intake.cwd = optional_text(table_of(card.get("workspace")).get("working_dir")) or intake.cwd
        intake.model = optional_text(table_of(table_of(card.get("agent")).get("llm")).get("model")) or intake.model

    def note_error(self, error: object) -> None:
        """Note the error that an evaluation reports, if any."""
        self._is_error = bool(error)

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        if len(self._first) < 2:
            self._first.append(data)
        intake = self._intake
        intake.source = number
        intake.note_time(self._moment.read(record.get("timestamp")))
        kind = record.get("kind")
        if isinstance(kind, str):
            self._one.take(kind, record)
        elif "action" in record or "observation" in record:
            self._zero.take(record)
        else:
            intake.note_unknown("event without a kind")
        return True

    def finish(self) -> Status:
        stated = self._one.status or self._zero.status
        if self._is_error:
            return "error"
        if stated is not None and not (stated == "success" and self._calls.is_waiting):
            return stated
        return self._intake.ending("success", is_waiting=self._calls.is_waiting)
