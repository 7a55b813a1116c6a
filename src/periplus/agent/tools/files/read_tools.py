"""The tool ``read``: a window of a file or page with line numbers, a picture, or bytes as hex.

A file of any size is read in pieces: only what is shown is held. Whatever is left out is stated, with the call that shows it.
"""

from __future__ import annotations

__all__ = ["read_tool", "window_of"]

import codecs
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from periplus.agent.contracts import Access, Image, ToolResult
from periplus.agent.tools.files.text_encoding import SNIFF_BYTES, BinaryFileError, decode, is_binary
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.text_pages.page_source import is_handle
from periplus.agent.tools.tool_table import Arguments, Parameter, Tool
from periplus.base.errors import UsageError
from periplus.base.filesystem.confined_folder import FILE_BYTES_MAX

LINES_DEFAULT: Final = 400
LINES_MAX: Final = 4_000
SHOWN_CHARS_MAX: Final = 40_000
LINE_CHARS_MAX: Final = 2_000
WHOLE_BYTES_MAX: Final = 8 << 20
IMAGE_BYTES_MAX: Final = 5 << 20
_HEX_ROW: Final = 16
_HEX_ROWS: Final = 32
_HEX_ROWS_MAX: Final = 512
_PIECE_BYTES: Final = 1 << 18
_PARAMETERS: Final = (
    Parameter("path", "text", "file, or handle @periplus/…", required=True),
    Parameter("start", "integer", "first line, from 1; negative counts from the end"),
    Parameter("count", "integer", f"lines, default {LINES_DEFAULT}", least=1, most=LINES_MAX),
    Parameter("offset", "integer", "first byte (of a page: character), in place of start", least=0),
    Parameter("hex", "flag", "show the bytes"),
)


class Row(NamedTuple):
    """A line as shown: its text, cut if long, and where its rest begins (-1: no rest)."""

    text: str
    rest_at: int = -1


class Window(NamedTuple):
    """Lines from ``first`` on; ``total`` is -1 if not counted."""

    rows: list[Row]
    first: int
    total: int


def read_tool(work: Workspace) -> Tool:
    def accesses(args: Arguments) -> list[Access]:
        return [Access(resource=work.resource(args.text("path")), mode="read")]

    return Tool(
        "read", "Read a window of a file with line numbers; pictures are shown, binary files as hex.", _PARAMETERS,
        lambda args: _read(work, args), accesses,
    )  # fmt: skip


def _read(work: Workspace, args: Arguments) -> ToolResult:
    path = args.text("path")
    if is_handle(path):
        return _page(path, work.pages.read(path), args)
    name = work.path(path)
    entry = work.folder.stat(name)
    if entry is not None and entry.kind == "folder":
        raise UsageError(f"{name} is a folder", mend=f"list(path={name!r}) shows what lies in it.")
    with work.folder.opened(name) as fd:
        size = os.fstat(fd).st_size
        head = os.pread(fd, SNIFF_BYTES, 0)
        kind = _picture(head)
        if kind and not args.flag("hex") and size <= IMAGE_BYTES_MAX:
            return _picture_result(work, name, kind, os.pread(fd, size, 0))
        if args.flag("hex") or is_binary(head):
            return _hex(name, fd, size, args)
        if args.integer("offset"):  # some models send every argument; offset 0 still shows lines
            return _bytes_from(name, fd, size, args)
        if size <= WHOLE_BYTES_MAX:
            return _whole(work, name, b"".join(_pieces(fd)), args)
        return _streamed(work, name, fd, size, args)


def _page(handle: str, text: str, args: Arguments) -> ToolResult:
    if not args.integer("offset"):
        return _shown(handle, window_of(text, args), "", args)
    offset = args.integer("offset")
    shown = text[offset : offset + SHOWN_CHARS_MAX]
    left = len(text) - offset - len(shown)
    more = f"\n… {left:,} characters left out; read(path={handle!r}, offset={offset + len(shown)})" if left > 0 else ""
    return ToolResult(outcome="ok", output=f"{handle}, from character {offset:,} of {len(text):,}\n{shown}{more}")


def _whole(work: Workspace, name: str, data: bytes, args: Arguments) -> ToolResult:
    try:
        text = decode(data)
    except BinaryFileError:
        return _hex_of(name, data, len(data), args)
    work.note_seen(name, hashlib.sha256(data).hexdigest())

    def offset_of(place: int) -> int:
        before = text.lines.text.split("\n")[:place]
        raw = "".join(row + end for row, end in zip(before, text.lines.ends, strict=False))
        return len(text.mark) + len(raw.encode(text.encoding))

    window = window_of(text.lines.text, args, offset_of, lambda shown: len(shown.encode(text.encoding)))
    return _shown(name, window, text.about, args)


def window_of(
    text: str, args: Arguments, offset_of: Callable[[int], int] | None = None, size_of: Callable[[str], int] = len
) -> Window:
    """The requested lines, as far as SHOWN_CHARS_MAX reaches.

    Offsets are in units of ``size_of``, characters by default. ``offset_of`` returns where a line begins.
    """
    rows = text.split("\n")
    if not rows[-1]:
        rows.pop()
    start = args.integer("start", 1)
    first = max(0, len(rows) + start) if start < 0 else max(0, start - 1)
    shown = []
    room = SHOWN_CHARS_MAX
    for place, row in enumerate(rows[first : first + args.integer("count", LINES_DEFAULT)], first):
        rest_at = -1
        if len(row) > LINE_CHARS_MAX:
            begin = offset_of(place) if offset_of else sum(len(one) + 1 for one in rows[:place])
            rest_at = begin + size_of(row[:LINE_CHARS_MAX])
        shown.append(Row(row[:LINE_CHARS_MAX], rest_at))
        room -= len(shown[-1].text)
        if room < 0:
            break
    return Window(shown, first + 1, len(rows))


def _shown(name: str, window: Window, about: str, args: Arguments) -> ToolResult:
    if not window.rows:
        has = f"it has {window.total:,} lines" if window.total >= 0 else "it ends before"
        return ToolResult(outcome="ok", output=f"{name}: no lines from {window.first:,} on; {has}")
    out: list[str] = []
    room = SHOWN_CHARS_MAX
    for number, row in enumerate(window.rows, window.first):
        room -= len(row.text) + 8
        if room < 0 and out:
            break
        rest = (
            f" … the rest of this line is left out; read(path={name!r}, offset={row.rest_at})"
            if row.rest_at >= 0
            else ""
        )
        out.append(f"{number}\t{row.text}{rest}")
    last = window.first + len(out) - 1
    total = f" of {window.total:,}" if window.total >= 0 else ""
    title = f"{name}, lines {window.first:,}-{last:,}{total}{f' ({about})' if about else ''}"
    if last < window.total or (window.total < 0 and not (window.first < 0 and last == -1)):
        left = f"{window.total - last:,} lines" if window.total >= 0 else "what follows is"
        count = f", count={args.integer('count')}" if args.has("count") else ""
        out.append(f"… {left} left out; read(path={name!r}, start={last + 1}{count})")
    return ToolResult(outcome="ok", output="\n".join([title, *out]))


# Large files


def _pieces(fd: int, start: int = 0) -> Iterator[bytes]:
    at = start
    while piece := os.pread(fd, _PIECE_BYTES, at):
        yield piece
        at += len(piece)


class _Scan:
    """Takes a file in pieces and keeps ``count`` lines from ``start``, each up to the shown length."""

    def __init__(self, start: int, count: int) -> None:
        self._start, self._count = max(1, start), count
        self._number, self._at = 1, 0  # the current line, and the offset
        self._open = b""
        self._open_at = 0
        self._kept = 0
        self.rows: list[Row] = []

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= self._count or self._kept > SHOWN_CHARS_MAX

    def take(self, piece: bytes) -> None:
        ends = piece.count(b"\n")
        if self.is_full or self._number + ends < self._start:
            self._number += ends
            self._at += len(piece)
            return
        for place, row in enumerate(piece.split(b"\n")):
            if place:
                self._close()
                self._at += 1
                self._open_at = self._at
            if self._number >= self._start and len(self._open) <= LINE_CHARS_MAX:
                self._open += row[: LINE_CHARS_MAX + 1 - len(self._open)]
            self._at += len(row)

    def _close(self) -> None:
        if self._number >= self._start and not self.is_full:
            is_long = len(self._open) > LINE_CHARS_MAX
            shown = self._open[:LINE_CHARS_MAX]
            if is_long:
                shown = _whole_characters(shown)
            self.rows.append(
                Row(shown.decode("utf-8", "replace").rstrip("\r"), self._open_at + len(shown) if is_long else -1)
            )
            self._kept += len(shown) + 8
        self._open = b""
        self._number += 1

    def finish(self, *, is_closed: bool) -> int:
        """The number of lines. ``is_closed``: the file's last line has a line end."""
        if not is_closed:
            self._close()
        return self._number - 1


def _whole_characters(data: bytes) -> bytes:
    """Drop an incomplete UTF-8 character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if size > back else data
    return data


def _streamed(work: Workspace, name: str, fd: int, size: int, args: Arguments) -> ToolResult:
    """Lines of a file that is not held whole. Its digest is computed if the file could be edited."""
    start, count = args.integer("start", 1), args.integer("count", LINES_DEFAULT)
    if start < 0:
        return _shown(name, _tail(fd, size, -start, count), f"{size:,} bytes, counted from the end", args)
    digest = hashlib.sha256() if size <= FILE_BYTES_MAX else None
    scan = _Scan(start, count)
    is_counted = True
    for piece in _pieces(fd):
        if digest is not None:
            digest.update(piece)
        scan.take(piece)
        if scan.is_full and digest is None:
            is_counted = False
            break
    total = scan.finish(is_closed=os.pread(fd, 1, size - 1) == b"\n") if is_counted else -1
    if digest is not None:
        work.note_seen(name, digest.hexdigest())
    return _shown(name, Window(scan.rows, max(1, start), total), f"{size:,} bytes", args)


def _tail(fd: int, size: int, back: int, count: int) -> Window:
    """The last lines, read from the end: the number of earlier lines is not known, and -1 is the last."""
    data = b""
    at = size
    while at > 0 and data.count(b"\n") <= back and len(data) < WHOLE_BYTES_MAX:
        step = min(_PIECE_BYTES, at)
        at -= step
        data = os.pread(fd, step, at) + data
    rows = data.removesuffix(b"\n").split(b"\n")[-back:]
    begin = size - (1 if data.endswith(b"\n") else 0) - sum(len(row) + 1 for row in rows) + 1
    shown = []
    for row in rows[:count]:
        cut = _whole_characters(row[:LINE_CHARS_MAX])
        shown.append(
            Row(cut.decode("utf-8", "replace").rstrip("\r"), begin + len(cut) if len(row) > LINE_CHARS_MAX else -1)
        )
        begin += len(row) + 1
    return Window(shown, -len(rows), -1)


def _bytes_from(name: str, fd: int, size: int, args: Arguments) -> ToolResult:
    offset = args.integer("offset")
    data = os.pread(fd, SHOWN_CHARS_MAX, offset)
    decoder = codecs.getincrementaldecoder(_encoding(fd, size))("replace")
    text = decoder.decode(data, final=offset + len(data) >= size)
    end = offset + len(data) - len(decoder.getstate()[0])  # a cut character is left for the next call
    left = f"\n… {size - end:,} bytes left out; read(path={name!r}, offset={end})" if end < size else ""
    return ToolResult(
        outcome="ok", output=f"{name}, bytes {offset:,}-{max(offset, end - 1):,} of {size:,}\n{text}{left}"
    )


def _encoding(fd: int, size: int) -> str:
    """The encoding of the file, from all of it; UTF-8 for a file too large for that."""
    try:
        return decode(b"".join(_pieces(fd))).encoding if size <= WHOLE_BYTES_MAX else "utf-8"
    except BinaryFileError:
        return "utf-8"


# Bytes and pictures


def _hex(name: str, fd: int, size: int, args: Arguments) -> ToolResult:
    offset, wanted = _hex_span(args)
    return _hex_rows(name, os.pread(fd, wanted, offset), size, offset, args)


def _hex_of(name: str, data: bytes, size: int, args: Arguments) -> ToolResult:
    offset, wanted = _hex_span(args)
    return _hex_rows(name, data[offset : offset + wanted], size, offset, args)


def _hex_span(args: Arguments) -> tuple[int, int]:
    return args.integer("offset"), min(args.integer("count", _HEX_ROWS), _HEX_ROWS_MAX) * _HEX_ROW


def _hex_rows(name: str, data: bytes, size: int, offset: int, args: Arguments) -> ToolResult:
    out = [
        f"{name}, bytes {offset:,}-{offset + max(0, len(data) - 1):,} of {size:,} as hex{'' if args.flag('hex') else ' (binary)'}"
    ]
    for at in range(0, len(data), _HEX_ROW):
        row = data[at : at + _HEX_ROW]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        out.append(f"{offset + at:08x}  {row.hex(' '):<47}  {plain}")
    end = offset + len(data)
    if end < size:
        out.append(f"… {size - end:,} bytes left out; read(path={name!r}, hex=true, offset={end})")
    return ToolResult(outcome="ok", output="\n".join(out))


def _picture(head: bytes) -> str:
    """The media type, by content."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def _picture_result(work: Workspace, name: str, kind: str, data: bytes) -> ToolResult:
    work.note_seen(name, hashlib.sha256(data).hexdigest())
    return ToolResult(
        outcome="ok", output=f"{name}: {kind}, {len(data):,} bytes", images=(Image(media_type=kind, data=data),)
    )
