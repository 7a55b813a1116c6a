"""Lines of JSON from a file descriptor, bounded in length, and error answers to unreadable ones."""

from __future__ import annotations

__all__ = ["MESSAGE_BYTES_MAX", "Line", "LineReader", "error_line", "id_in", "write_all"]

import json
import os
import re
from typing import Final, NamedTuple

from periplus.base.encoding.json_strings import end_of_characters

MESSAGE_BYTES_MAX: Final = 4 << 20
_CHUNK: Final = 1 << 16
_TOKEN: Final = re.compile(rb'["{}\[\]]')
_SCALAR: Final = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,18})\s*[,}]')


class Line(NamedTuple):
    """``is_whole`` is False for a line over the limit, of which only the beginning was kept."""

    data: bytes
    is_whole: bool = True


class LineReader:
    """Reads lines of a descriptor. The part of a line beyond the limit is read and dropped."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._held = bytearray()
        self._is_over = False

    def read(self) -> Line | None:
        """The next line without its end; None when there is nothing more. Raises OSError."""
        held, searched, is_whole = self._held, 0, True
        while True:
            end = held.find(b"\n", searched)
            if end >= 0:
                line = (
                    Line(bytes(held[:end]), is_whole) if end <= MESSAGE_BYTES_MAX else Line(bytes(held[:_CHUNK]), False)
                )
                del held[: end + 1]
                return line
            if self._is_over:
                line = Line(bytes(held), is_whole)
                held.clear()
                return line if line.data else None
            if len(held) > MESSAGE_BYTES_MAX:
                is_whole = False
                del held[_CHUNK:]
            searched = len(held)
            chunk = os.read(self._source, _CHUNK)
            if chunk:
                held += chunk
            else:
                self._is_over = True


def write_all(sink: int, data: bytes) -> None:
    """Write all bytes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def id_in(data: bytes) -> int | str | None:
    """Return the id of a request that cannot be decoded, found without parsing its depth; None if there is none."""
    depth = at = 0
    while found := _TOKEN.search(data, at):
        token, at = found[0], found.end()
        if token in b"{[":
            depth += 1
            continue
        if token in b"}]":
            depth -= 1
            continue
        begin, at = at, end_of_characters(data, at) + 1
        if depth == 1 and data[begin:at] == b'id"':
            value = _SCALAR.match(data, at)
            if value is not None:
                try:
                    told = json.loads(value[1])
                except ValueError:
                    return None
                return told if isinstance(told, (int, str)) else None
    return None


def error_line(data: bytes, code: int, message: str) -> bytes:
    """Return the error answer to a line that is not a message, with its request id if it has one."""
    document = {"jsonrpc": "2.0", "id": id_in(data), "error": {"code": code, "message": message}}
    return json.dumps(document).encode() + b"\n"
