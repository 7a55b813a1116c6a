"""Output of a job on the disk: the first bytes in one file, the last ones of a longer output in a ring.

The ring file has a header, the number of bytes that went into it as 19 digits and a line feed, and then ``RING_BYTES`` bytes
that are written round. The header is written after the bytes: a reader meanwhile may see a piece that is newer than it says.
A full disk drops output and never stops the job. Imports nothing that the keeper does not have.
"""

from __future__ import annotations

__all__ = ["RING_BYTES", "OutputWriter", "ring_count", "ring_tail"]

import os

from periplus.dispatch.processes.layout import OUTPUT, TAIL

RING_BYTES = 1 << 20
_HEADER_BYTES = 20
_FLAGS = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class OutputWriter:
    """Writes what comes; ``total`` counts all bytes that came, ``dropped`` those that could not be written."""

    def __init__(self, folder: str, bytes_max: int) -> None:
        """Create the file. Raises OSError."""
        self.total = 0
        self.dropped = 0
        self.failure = ""  # the first reason why something was dropped
        self._room = bytes_max
        self._ring_path = os.path.join(folder, TAIL)
        self._ring = -1
        self._ring_total = 0
        self._fd = os.open(os.path.join(folder, OUTPUT), os.O_WRONLY | os.O_APPEND | _FLAGS, 0o600)

    def write(self, data: bytes) -> None:
        self.total += len(data)
        view = memoryview(data)
        kept = view[: self._room]
        self._room -= len(kept)
        if kept:
            self._keep(kept)
        if len(kept) < len(view):
            self._turn(view[len(kept) :])

    def sync(self) -> None:
        """Flush to the disk what can be: it is evidence, and not worth a failure."""
        for fd in (self._fd, self._ring):
            try:
                if fd >= 0:
                    os.fsync(fd)
            except OSError as error:
                self._note(error, 0)

    def _keep(self, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except OSError as error:
                self._note(error, len(data))
                return

    def _turn(self, data: memoryview) -> None:
        try:
            if self._ring < 0:
                self._ring = os.open(self._ring_path, os.O_WRONLY | _FLAGS, 0o600)
            while data:
                at = self._ring_total % RING_BYTES
                done = os.pwrite(self._ring, data[: RING_BYTES - at], _HEADER_BYTES + at)
                self._ring_total += done
                data = data[done:]
            os.pwrite(self._ring, b"%019d\n" % self._ring_total, 0)
        except OSError as error:
            self._note(error, len(data))

    def _note(self, error: OSError, count: int) -> None:
        self.dropped += count
        self.failure = self.failure or os.strerror(error.errno or 0)


def ring_count(folder: str) -> int:
    """Return the number of bytes that went into the ring."""
    return _count_of(_read_ring(folder, _HEADER_BYTES))


def ring_tail(folder: str) -> bytes:
    """Return the bytes in the ring, oldest first."""
    found = _read_ring(folder, _HEADER_BYTES + RING_BYTES)
    count, ring = _count_of(found), found[_HEADER_BYTES:]
    if count <= RING_BYTES:
        return ring[:count]
    at = count % RING_BYTES
    return ring[at:] + ring[:at]


def _read_ring(folder: str, wanted: int) -> bytes:
    try:
        fd = os.open(os.path.join(folder, TAIL), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, wanted, 0)
    finally:
        os.close(fd)


def _count_of(found: bytes) -> int:
    header = found[: _HEADER_BYTES - 1]
    return int(header) if header.isdigit() else 0
