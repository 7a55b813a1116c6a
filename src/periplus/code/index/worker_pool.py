"""Files parsed by several processes at once, each of which may die of a file."""

from __future__ import annotations

__all__ = ["parse_files"]

import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from periplus.code.index.parsing import Job, Row
from periplus.code.index.worker import write_message

WORKERS_MAX: Final = 8
SILENCE_S_MAX: Final = 30.0
_BATCH: Final = 48
_READ_BYTES: Final = 1 << 20
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, Row])


class _Worker:
    """One process with the batch that it works on."""

    def __init__(self, root: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "periplus.code.index.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, bufsize=0, cwd="/",
        )  # fmt: skip
        self.batch: Sequence[Job] = ()
        self.done = 0
        self.buffer = bytearray()
        self.heard = time.monotonic()
        self.send(root.encode("utf-8", "surrogateescape"))

    def send(self, body: bytes) -> None:
        assert self.process.stdin is not None
        try:
            write_message(self.process.stdin, body)  # type: ignore[arg-type] # a raw stream
        except BrokenPipeError:
            pass  # it died; reading its output says so

    def start(self, batch: Sequence[Job]) -> None:
        self.batch, self.done = batch, 0
        self.heard = time.monotonic()
        jobs = [job._replace(path=os.fsencode(job.path).decode("latin-1")) for job in batch]
        self.send(msgspec.msgpack.encode(jobs))

    def rows(self, data: bytes) -> Iterator[tuple[Job, Row]]:
        """Take in what the process wrote; iterate over the rows that are whole."""
        self.heard = time.monotonic()
        buffer = self.buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big")
            if len(buffer) - at - 4 < size:
                break
            number, row = _DECODER.decode(bytes(buffer[at + 4 : at + 4 + size]))
            at += 4 + size
            self.done = number + 1
            yield self.batch[number], row
        del buffer[:at]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def parse_files(
    root: str, jobs: Sequence[Job], *, workers: int = 0, deadline: float | None = None
) -> Iterator[tuple[Job, Row]]:
    """Iterate over the rows of ``jobs`` as they come, in no order, until ``deadline`` (monotonic). A file that ends its parser, or keeps it
    silent for SILENCE_S_MAX, has the state ``failed``.
    """
    waiting = deque(jobs[at : at + _BATCH] for at in range(0, len(jobs), _BATCH))
    count = min(workers or os.cpu_count() or 1, WORKERS_MAX, len(waiting))
    selector = selectors.DefaultSelector()
    running: list[_Worker] = []
    try:
        for _ in range(count):
            _begin(root, waiting.popleft(), running, selector)
        while running:
            if deadline is not None and time.monotonic() > deadline:
                return
            for key, _ in selector.select(1.0):
                worker: _Worker = key.data
                data = os.read(key.fd, _READ_BYTES)
                if data:
                    yield from worker.rows(data)
                    if worker.done == len(worker.batch):
                        if waiting:
                            worker.start(waiting.popleft())
                        else:
                            _end(worker, running, selector)
                else:
                    yield from _bury(root, worker, "its parser ended", running, selector, waiting)
            for worker in [one for one in running if time.monotonic() - one.heard > SILENCE_S_MAX]:
                yield from _bury(
                    root, worker, f"its parser said nothing for {SILENCE_S_MAX:g} s", running, selector, waiting
                )
    finally:
        for worker in running:
            worker.stop()
        selector.close()


def _begin(root: str, batch: Sequence[Job], running: list[_Worker], selector: selectors.DefaultSelector) -> None:
    worker = _Worker(root)
    running.append(worker)
    assert worker.process.stdout is not None
    selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
    worker.start(batch)


def _end(worker: _Worker, running: list[_Worker], selector: selectors.DefaultSelector) -> None:
    assert worker.process.stdout is not None
    selector.unregister(worker.process.stdout)
    running.remove(worker)
    worker.stop()


def _bury(
    root: str,
    worker: _Worker,
    why: str,
    running: list[_Worker],
    selector: selectors.DefaultSelector,
    waiting: deque[Sequence[Job]],
) -> Iterator[tuple[Job, Row]]:
    """Give up the file that ``worker`` had before it, and have the rest of its batch parsed by another process."""
    _end(worker, running, selector)
    if worker.done < len(worker.batch):
        job = worker.batch[worker.done]
        yield job, Row(b"", "", "", "failed", why=why)
        if rest := worker.batch[worker.done + 1 :]:
            waiting.append(rest)
    if waiting:
        _begin(root, waiting.popleft(), running, selector)
