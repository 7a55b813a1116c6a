"""The writers' lock: twenty writers at once, and how soon the next one goes on when the holder is killed.

The twenty run as in ``bench.appends``. A round writes less than the 2,000 records that may wait for their files, and
all rounds less than a segment: who comes after that writes all the files or a checkpoint, half a second to seconds, which
is no wait for the lock. For the takeover a process holds the lock until it is killed, another waits for it; what counts is
the time from the kill to the moment at which the waiter has it. The bare side waits in the kernel.
"""

from __future__ import annotations

__all__ = ["measure"]

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from bench.appends import keep_lines, run_writers
from bench.measure import Bench, Row, figure, in_turn, pooled, row
from bench.processes import environment
from bench.samples import REPOSITORY
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import create_store

WRITERS: Final = 20

_HOLD: Final = """
import fcntl, os, sys, time
from periplus.base.process.locks import Lock
path, how = sys.argv[1:]
def say(text):
    print(text, flush=True)
if how == "bare":
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    say("waits")
    fcntl.flock(fd, fcntl.LOCK_EX)
    say(time.perf_counter())
    sys.stdin.read()
else:
    lock = Lock(path)
    say("waits")
    with lock.holding(60):
        say(time.perf_counter())
        sys.stdin.read()
"""


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds, takeovers = bench.size(90, 3), bench.size(4, 1), bench.size(40, 3)
    bench.say(f"{rounds} rounds of {WRITERS} writers with {count} appends each; {takeovers} takeovers")
    store, rows, lines = (
        _store(bench.folder),
        os.path.join(bench.folder, "twenty.sqlite"),
        os.path.join(bench.folder, "twenty"),
    )
    run_writers("journal", store, lines, count, 1)
    keep_lines(store, lines)
    found = in_turn(rounds, {
        "journal": lambda: run_writers("journal", store, lines, count, WRITERS),
        "sqlite": lambda: run_writers("sqlite", rows, lines, count, WRITERS),
    }, collect=False)  # fmt: skip
    rates = {kind: figure([one.rate for one in found[kind]]) for kind in found}
    name = f"SQLite, {WRITERS} processes"
    yield row("lock", f"{WRITERS} writers", "/s", rates["journal"], name, rates["sqlite"], better="higher")
    for share, words in ((0.5, "p50"), (0.95, "p95"), (1.0, "max")):
        mine, other = (
            pooled([one.waits_s for one in found[kind]], share).scaled(1e3) for kind in ("journal", "sqlite")
        )
        yield row("lock", f"{WRITERS} writers, {words}", "ms", mine, name, other)
    waits = in_turn(
        takeovers, {"ours": lambda: [_takeover(bench.folder, "ours")], "bare": lambda: [_takeover(bench.folder, "bare")]},
        collect=False,
    )  # fmt: skip
    for share, words in ((0.5, "p50"), (1.0, "max")):
        mine, other = (pooled(waits[how], share).scaled(1e3) for how in ("ours", "bare"))
        yield row("lock", f"holder killed, next goes on, {words}", "ms", mine, "flock, waiting in the kernel", other)


def _store(folder: str) -> str:
    os.mkdir(os.path.join(folder, "twenty-store"))
    return create_store(os.path.join(folder, "twenty-store", ".periplus"), Files(), SystemClock()).root


def _takeover(folder: str, how: str) -> float:
    path = os.path.join(folder, f"lock-{how}")
    holder = _start(path, how)
    if _line(holder) != "waits" or not _line(holder):
        raise RuntimeError("the holder did not get the lock")
    waiter = _start(path, how)
    if _line(waiter) != "waits":
        raise RuntimeError("the waiter did not start")
    time.sleep(0.05)  # the waiter has waited for a while
    begun_s = time.perf_counter()  # CLOCK_MONOTONIC: the same for all processes
    holder.kill()
    had_s = float(_line(waiter))
    for one in (holder, waiter):
        one.communicate()
    return had_s - begun_s


def _start(path: str, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _HOLD, path, how], cwd=REPOSITORY, env=environment(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
