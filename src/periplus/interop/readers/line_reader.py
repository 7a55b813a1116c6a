"""Lines of a file of any length in bounded memory, with the digest of the file.

A file is read once, in blocks. Other input is refused with one error that names the file: a folder, an empty file,
binary data, a line over the limit.
"""

from __future__ import annotations

__all__ = ["BLOCK_BYTES", "HEAD_BYTES", "LINE_BYTES_MAX", "LineReader", "open_regular", "read_head"]

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

from periplus.base.errors import FormatError, environment_failure

BLOCK_BYTES: Final = 1 << 20
HEAD_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 32 << 20
_BOM: Final = b"\xef\xbb\xbf"


class LineReader:
    """Iterates over ``(number, line)``, from 1, without line ends and without blank lines.

    After the last line ``digest`` is the SHA-256 of all bytes. ``unterminated`` is the number of a last line without
    a line end: its writer may have been stopped. ``progress`` gets bytes done and bytes in all.
    """

    def __init__(self, path: str, progress: Callable[[int, int], None] | None = None) -> None:
        self.path = path
        self.digest = b""
        self.unterminated = 0
        self.line_count = 0
        self._progress = progress

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        sha256 = hashlib.sha256()
        number = 0
        done = 0
        parts: list[bytes] = []  # pieces of a line longer than a block
        parts_bytes = 0
        with open_regular(self.path) as fd:
            size = os.fstat(fd).st_size
            while True:
                block = _read(fd, BLOCK_BYTES, self.path)
                if not block:
                    break
                if not done and block.startswith(_BOM):
                    sha256.update(_BOM)
                    done = len(_BOM)
                    block = block[done:]
                sha256.update(block)
                done += len(block)
                lines = block.split(b"\n")
                parts.append(lines[0])
                parts_bytes += len(lines[0])
                if parts_bytes > LINE_BYTES_MAX:
                    raise _line_too_long(self.path, number + 1)
                if len(lines) > 1:
                    lines[0] = b"".join(parts)
                    tail = lines.pop()
                    parts, parts_bytes = [tail], len(tail)
                    for line in lines:
                        number += 1
                        if line and not line.isspace():
                            yield number, line
                if self._progress is not None:
                    self._progress(done, max(size, done))
        last = b"".join(parts)
        if last and not last.isspace():
            number += 1
            self.unterminated = number
            yield number, last
        self.line_count = number
        self.digest = sha256.digest()


def read_head(path: str) -> bytes:
    """Return the first bytes of the file. Raises FormatError where it is empty or blank."""
    with open_regular(path) as fd:
        head = _read(fd, HEAD_BYTES, path)
        if not head:
            raise FormatError("the file is empty", path=path)
    head = head.removeprefix(_BOM)
    if not head.strip():
        raise FormatError("nothing but blank lines", path=path)
    return head


class open_regular:  # noqa: N801 - used as a function
    """Context manager for the descriptor of a regular file; other kinds of files are refused."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> int:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            mode = os.fstat(self._fd).st_mode
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        except ValueError as error:
            raise FormatError(f"not the name of a file: {error}", path=repr(self._path)) from error
        if not stat.S_ISREG(mode):
            os.close(self._fd)
            raise FormatError("a folder" if stat.S_ISDIR(mode) else "not a regular file", path=self._path)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _read(fd: int, size: int, path: str) -> bytes:
    try:
        return os.read(fd, size)
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _line_too_long(path: str, number: int) -> FormatError:
    return FormatError(
        f"the line has over {LINE_BYTES_MAX >> 20} MiB",
        path=path,
        line=number,
        safe="Nothing was imported.",
        mend="No agent writes such a record; is it the right file?",
    )
