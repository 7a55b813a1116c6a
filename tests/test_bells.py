"""Bells: who sleeps is woken by a ring, misses none between listening and sleeping, and never sleeps past his time."""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from periplus.base.process import futex_wakeup
from periplus.base.process.futex_wakeup import BELL_BYTES, WAKE_ALL, FutexBell

LONG_S = 600.0  # nobody sleeps that long: the test would not end


@pytest.fixture
def memory(tmp_path):
    path = tmp_path / "map"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as found:
        yield found


def sleeper(memory, offset):
    """A process that sleeps at the bell until somebody rings."""
    pid = os.fork()
    if pid == 0:
        bell = FutexBell(memory, offset)
        bell.sleep(bell.listen(), LONG_S)
        os._exit(0)
    return pid


def test_a_ring_wakes_another_process(memory):
    bell = FutexBell(memory, 64)
    children = [sleeper(memory, 64) for _ in range(3)]
    left = set(children)
    while left:  # a ring before they sleep is seen by who has listened; before that there is nobody to see it
        bell.ring(WAKE_ALL)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in left:
            assert status == 0
            left.discard(pid)
    bell.close()


def test_a_ring_between_listening_and_sleeping_is_not_missed(memory):
    bell, other = FutexBell(memory, 0), FutexBell(memory, 0)
    heard = bell.listen()
    other.ring()
    bell.sleep(heard, LONG_S)
    for one in (bell, other):
        one.close()


def test_nobody_rings_where_nobody_listens(memory):
    bell = FutexBell(memory, 0)
    before = bytes(memory)
    bell.ring()
    assert bytes(memory) == before
    bell.listen()
    assert bytes(memory) != before
    assert bytes(memory[BELL_BYTES:]) == before[BELL_BYTES:]
    bell.close()


def test_who_is_not_rung_for_wakes_by_himself(memory):
    bell = FutexBell(memory, 0)
    begun_s = time.monotonic()
    bell.sleep(bell.listen(), 0.02)
    assert time.monotonic() - begun_s >= 0.015
    bell.close()


@pytest.mark.parametrize("how", ["unknown machine", "refused"])
def test_where_the_system_cannot_do_it_time_is_slept(memory, monkeypatch, how):
    if how == "refused":
        monkeypatch.setattr(futex_wakeup, "_WAIT", 77)  # no operation of the system
    else:
        monkeypatch.setattr(futex_wakeup, "_NUMBERS", {})
    bell = FutexBell(memory, 0)
    for _ in range(2):
        begun_s = time.monotonic()
        bell.sleep(bell.listen(), 0.02)
        assert time.monotonic() - begun_s >= 0.015
        bell.ring()
    bell.close()


def test_a_bell_that_one_thread_closes_while_another_sleeps_ends_its_sleep_by_time(memory):
    bell, slept = FutexBell(memory, 0), threading.Event()

    def sleep():
        heard = bell.listen()
        slept.set()
        bell.sleep(heard, 0.05)

    with ThreadPoolExecutor() as pool:
        done = pool.submit(sleep)
        assert slept.wait(30)
        bell.close()
        done.result()


def test_an_interrupted_sleep_runs_what_the_signal_is_for(memory):
    bell, met = FutexBell(memory, 0), []

    def interrupt(*_):
        met.append(1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            bell.sleep(bell.listen(), LONG_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert met
    bell.close()
