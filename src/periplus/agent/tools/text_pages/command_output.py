"""Outputs of commands: masked, stored on the disk, shown with head and tail, and read again by handle.

Output is untrusted and may hold secrets, so it is masked line by line before it is written anywhere. Of a long output the beginning and the
end are kept, and the gap is stated.
"""

from __future__ import annotations

__all__ = ["OUTPUT_BYTES_MAX", "Output", "Outputs", "shorten"]

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from periplus.agent.tools.text_pages.page_source import HANDLE_PREFIX, Page, PageMatch, search_pages
from periplus.base.errors import NotFoundError, environment_failure
from periplus.base.files import Files, read_plain, write_all
from periplus.base.text.secrets import mask_secrets

OUTPUT_BYTES_MAX: Final = 32 << 20
TAIL_BYTES_MAX: Final = 1 << 20
SHOWN_CHARS_MAX: Final = 16_000
_HEAD_SHARE: Final = 3
_LINE_BYTES_MAX: Final = 1 << 16
_CARRIED_BYTES: Final = (1 << 10, 1 << 12, 1 << 14)
_FOLDER: Final = f"{HANDLE_PREFIX}output/"
_KEY_BEGINS, _KEY_ENDS = b"-----BEGIN ", b"-----END "


class Output:
    """The output of one command. ``add`` takes new data; the methods may be called from any thread."""

    def __init__(self, handle: str, path: str, files: Files) -> None:
        self.handle = handle
        self._path, self._files = path, files
        self._lock = threading.Lock()
        self._open = b""  # the incomplete line
        self._size = 0  # bytes on the disk
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0
        self._came = 0  # characters, kept or not
        self._fd = -1
        self.masked = 0
        self._told = 0  # how many of them ``news`` returned
        try:
            self._fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise environment_failure(error, "keep output in", path) from error

    def add(self, data: bytes) -> None:
        with self._lock:
            held = self._open + data
            end = held.rfind(b"\n") + 1
            begins = held.rfind(_KEY_BEGINS)
            if begins >= 0 and held.find(_KEY_ENDS, begins) < 0:
                end = min(end, begins)  # a multi-line key is masked as one
            if len(held) - end > _LINE_BYTES_MAX:
                end = _parted(held, end)
            self._open = held[end:]
            self._keep(held[:end])

    def close(self) -> None:
        """End the output."""
        with self._lock:
            if self._fd < 0:
                return
            self._keep(self._open)
            self._open = b""
            self._write(self._gap().encode())
            self._write(b"".join(self._tail))
            self._tail.clear()
            self._files.close(self._fd)
            self._fd = -1

    def _keep(self, data: bytes) -> None:
        if not data or self._fd < 0:
            return
        text, count = mask_secrets(data.decode("utf-8", "replace").replace("\r\n", "\n"))
        self.masked += count
        self._came += len(text)
        out = text.encode("utf-8", "replace")
        room = max(0, OUTPUT_BYTES_MAX - self._size)
        self._write(out[:room])
        rest = out[room:]
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail_size > TAIL_BYTES_MAX and len(self._tail) > 1:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone
        too_much = self._tail_size - TAIL_BYTES_MAX
        if too_much > 0:  # one piece alone
            self._tail[0] = self._tail[0][too_much:]
            self._tail_size -= too_much
            self._dropped += too_much

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._files, self._fd, data)
            self._size += len(data)
        except OSError:
            self._dropped += len(data)  # a full disk must not stop the command; the gap is stated

    def _gap(self) -> str:
        """The mark for the part that was not kept."""
        return f"\n… {self._dropped:,} bytes were not kept\n" if self._dropped else ""

    def text(self) -> str:
        """Everything kept so far; an incomplete line is masked on its own."""
        with self._lock:
            return self._text()[0]

    def _text(self) -> tuple[str, int]:
        """The text, and how many characters came until its end."""
        held = read_plain(self._path, OUTPUT_BYTES_MAX + TAIL_BYTES_MAX * 2)
        text = held.decode("utf-8", "replace")
        if self._fd < 0:
            return text, self._came
        rest = b"".join(self._tail).decode("utf-8", "replace")
        waiting = mask_secrets(self._open.decode("utf-8", "replace"))[0]
        return text + self._gap() + rest + waiting, self._came + len(waiting)

    def news(self) -> str:
        """The kept part of what came since the last call."""
        with self._lock:
            text, end = self._text()
            begin, self._told = self._told, end
            gap = self._gap()
        at = text.rfind(gap) if gap else -1
        if at < 0 or begin < at:
            return text[begin:]
        tail = text[at + len(gap) :]
        new = end - begin
        return tail[-new:] if 0 < new <= len(tail) else gap + tail if new else ""


class Outputs:
    """The outputs of a session, in a folder; a source of the pages ``@periplus/output/…``."""

    def __init__(self, folder: str, files: Files) -> None:
        self._folder, self._files = folder, files
        self._lock = threading.Lock()
        self._open: dict[str, Output] = {}
        files.make_folder(folder, 0o700)
        self._next = 1 + max((int(name[:-4]) for name in os.listdir(folder) if name[:-4].isdigit()), default=0)

    def new(self) -> Output:
        with self._lock:
            number = self._next
            self._next += 1
        output = Output(f"{_FOLDER}{number}.txt", os.path.join(self._folder, f"{number}.txt"), self._files)
        with self._lock:
            self._open[output.handle] = output
        return output

    def keep(self, text: str) -> str:
        """Store a text that is not a command's output and return its handle."""
        output = self.new()
        output.add(text.encode("utf-8", "replace"))
        output.close()
        return output.handle

    def close(self) -> None:
        with self._lock:
            outputs, self._open = list(self._open.values()), {}
        for output in outputs:
            output.close()

    # A source of pages

    def list(self, prefix: str) -> Sequence[Page]:
        numbers = sorted(int(name[:-4]) for name in os.listdir(self._folder) if name[:-4].isdigit())
        pages = [
            Page(f"{_FOLDER}{n}.txt", "output", os.path.getsize(os.path.join(self._folder, f"{n}.txt")))
            for n in numbers
        ]
        return [page for page in pages if page.handle.startswith(prefix) or prefix == HANDLE_PREFIX[:-1]]

    def read(self, handle: str) -> str:
        with self._lock:
            output = self._open.get(handle)
        if output is not None:
            return output.text()
        name = handle.removeprefix(_FOLDER)
        if not name[:-4].isdigit() or name[-4:] != ".txt" or not name.isascii():
            raise NotFoundError(f"no page {handle}")
        try:
            return read_plain(os.path.join(self._folder, name), OUTPUT_BYTES_MAX + TAIL_BYTES_MAX * 2).decode(
                "utf-8", "replace"
            )
        except FileNotFoundError:
            raise NotFoundError(f"no page {handle}") from None

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return search_pages(self, pattern, prefix)


def _parted(held: bytes, end: int) -> int:
    """Position at which to split an endless line, after ``end``: not inside a secret, whose halves would look harmless. A possible
    beginning of one is carried on.
    """
    whole = _masked(held)
    for carried in _CARRIED_BYTES:
        at = len(held) - carried
        while held[at] & 0xC0 == 0x80:  # inside a character
            at -= 1
        if at > end and _masked(held[:at]) + _masked(held[at:]) == whole:
            return at
    return len(held)


def _masked(data: bytes) -> str:
    return mask_secrets(data.decode("utf-8", "replace"))[0]


def shorten(text: str, handle: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """The beginning and the end of a long text, with the length of the gap and the call that shows it."""
    if len(text) <= chars_max:
        return text
    head, tail = text[: chars_max // _HEAD_SHARE], text[-(chars_max - chars_max // _HEAD_SHARE) :]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    left = len(text) - len(head) - len(tail)
    lines = text.count("\n", len(head), len(text) - len(tail))
    start = head.count("\n") + 1
    where = f"start={start}" if head.endswith("\n") else f"offset={len(head)}"
    end = "" if head.endswith("\n") else "\n"
    return f"{head}{end}… {left:,} characters ({lines:,} lines) left out; read(path={handle!r}, {where})\n{tail}"
