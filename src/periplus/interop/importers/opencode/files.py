"""Storage of opencode's sessions: one database, or in older versions files under ``storage`` for sessions, messages
and parts.

Subagents of a session are sessions that name it as their parent: they become children of its trail.
"""

from __future__ import annotations

__all__ = ["is_mine", "read", "read_as"]

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Final, Protocol

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion.session_tree import Branch, Card, Sessions, import_tree
from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.opencode.session import Message, OpencodeImporter
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import decode_table, text_of
from periplus.interop.readers.line_reader import LINE_BYTES_MAX, open_regular
from periplus.interop.readers.sqlite_reader import SQLITE_MARK

_AGENT: Final = "opencode"
FILES_MAX: Final = 1_000_000
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


class _Sessions(Sessions, Protocol):
    def messages(self, session_id: str) -> Iterator[Message]: ...


def is_mine(head: Head) -> bool:
    if head.data.startswith(SQLITE_MARK):
        from periplus.interop.importers.opencode.database import agent_of

        return agent_of(head.path) == _AGENT
    members = head.document.members
    is_card = isinstance(members.get("projectID"), str) and isinstance(members.get("id"), str)
    return is_card and "directory" in members and "time" in members and "role" not in members


def read(source: Source) -> Iterator[Imported]:
    return read_as(source, _AGENT)


def read_as(source: Source, agent: str) -> Iterator[Imported]:
    """Yield the sessions as those of ``agent``, which is also the name of their format."""
    if Head.of(source.path).data.startswith(SQLITE_MARK):
        from periplus.interop.importers.opencode.database import Database

        with Database(source.path) as database:
            yield from _sessions_of(source, database, agent)
    else:
        yield from _sessions_of(source, _Folder(source.path), agent)


def _sessions_of(source: Source, sessions: _Sessions, agent: str) -> Iterator[Imported]:
    def import_one(branch: Branch) -> Imported:
        return _session_of(source, sessions, branch, agent)

    yield from import_tree(source, sessions, "directory", import_one)


def _session_of(source: Source, sessions: _Sessions, branch: Branch, agent: str) -> Imported:
    card, intake, children, is_child = branch
    session_id = text_of(card.values.get("id"))
    importer = OpencodeImporter(intake, children.get)
    importer.learn(card.values)
    sha256 = hashlib.sha256(card.data)
    count = 0
    for message in sessions.messages(session_id):
        count += 1
        sha256.update(message.data)
        if message.values is None:
            intake.note_unreadable(count)
            continue
        parts = [part for part in message.parts if part is not None]
        if len(parts) < len(message.parts):
            intake.skip("part that cannot be read", len(message.parts) - len(parts))
        importer.feed(count, message.values, parts)
    intake.count("lines", count)
    name = f"{agent}/subagent" if is_child else agent
    status = importer.finish()
    return source.trail(
        intake, agent, sha256.digest(), status, session_id, agent=name, children=tuple(children.values())
    )


class _Folder:
    """Files ``storage/session/PROJECT/ID.json`` with ``storage/message/ID/*.json`` and
    ``storage/part/MESSAGE/*.json``.

    No link is followed: a folder from an untrusted source must not import other files of this machine.
    """

    count = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self._project = os.path.dirname(os.path.abspath(path))
        self._storage = os.path.dirname(os.path.dirname(self._project))
        self._cards: list[Card] | None = None

    def roots(self) -> Iterator[Card]:
        card = _card(self._path)
        if card is None:
            raise FormatError("no card of a session", path=self._path, safe="Nothing was imported.")
        yield card

    def children(self, session_id: str) -> Iterator[Card]:
        if self._cards is None:
            paths = _files(self._project)
            self._cards = [card for card in map(_card, paths) if card is not None and card.values.get("parentID")]
        return iter([card for card in self._cards if session_id and card.values.get("parentID") == session_id])

    def messages(self, session_id: str) -> Iterator[Message]:
        for path in self._named("message", session_id):
            data = _bytes_of(path)
            values = decode_table(data)
            whole = [data]
            parts = []
            for part_path in self._named("part", text_of((values or {}).get("id"))):
                part = _bytes_of(part_path)
                whole.append(part)
                parts.append(decode_table(part))
            yield Message(values, parts, b"\n".join(whole))

    def _named(self, kind: str, name: str) -> list[str]:
        folder = os.path.join(self._storage, kind, name)
        if not _NAME.fullmatch(name) or os.path.islink(os.path.dirname(folder)):
            return []
        return _files(folder)


def _files(folder: str) -> list[str]:
    try:
        entries = [] if os.path.islink(folder) else list(os.scandir(folder))
    except (OSError, ValueError):
        return []
    names = sorted(one.name for one in entries if one.name.endswith(".json") and one.is_file(follow_symlinks=False))
    if len(names) > FILES_MAX:
        raise FormatError(f"over {FILES_MAX:,} files", path=folder, safe="Nothing was imported.")
    return [os.path.join(folder, name) for name in names]


def _card(path: str) -> Card | None:
    data = _bytes_of(path)
    values = decode_table(data)
    return Card(values, data) if values is not None else None


def _bytes_of(path: str) -> bytes:
    """Return the file's bytes; empty where it is unreadable or larger than any record of an agent."""
    try:
        with open_regular(path) as fd, open(fd, "rb", closefd=False) as file:
            data = file.read(LINE_BYTES_MAX + 1)
    except (PeriplusError, OSError):
        return b""
    return data if len(data) <= LINE_BYTES_MAX else b""
