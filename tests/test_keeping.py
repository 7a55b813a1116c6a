"""Who waits until no object is kept any more that was thought to be wanted waits for every process and every thread, once."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from periplus.base.errors import LockTimeoutError
from periplus.base.files import Files
from periplus.base.process.locks import holder_of
from periplus.objects.redaction_barrier import Keeping, door_of
from periplus.objects.store import ObjectStore


class Fellow(threading.Thread):
    """In a block from ``start`` on until ``leave``."""

    def __init__(self, keeping):
        super().__init__()
        self.keeping = keeping
        self.is_in, self.is_to_leave = threading.Event(), threading.Event()

    def run(self):
        with self.keeping.block(), self.keeping.block():
            self.is_in.set()
            self.is_to_leave.wait(60)

    def start(self):
        super().start()
        assert self.is_in.wait(60)
        return self

    def leave(self):
        self.is_to_leave.set()
        self.join(60)


@pytest.mark.parametrize("is_shared", [True, False])
def test_each_is_waited_for(tmp_path, is_shared):
    """Threads with one store between them, and those with one each as processes have it."""
    root = os.fspath(tmp_path / "objects")
    first = Keeping(root, Files())
    one = Fellow(first).start()
    other = Fellow(first if is_shared else Keeping(root, Files())).start()
    one.leave()
    with pytest.raises(LockTimeoutError, match="made no progress"):
        Keeping(root, Files()).wait(0.0)
    with first.block():
        pass  # whoever comes and goes meanwhile is no matter
    other.leave()
    Keeping(root, Files()).wait(0.0)
    first.wait(0.0)


def test_where_nobody_ever_kept_anything_there_is_nobody_to_wait_for(tmp_path):
    Keeping(os.fspath(tmp_path / "absent"), Files()).wait(0.0)
    assert os.listdir(tmp_path) == []


WAITING = """
import sys
from periplus.base.files import Files
from periplus.objects.redaction_barrier import Keeping
Keeping(sys.argv[1], Files()).wait()
"""


def is_named(root, pid):
    holder = holder_of(door_of(root))
    return holder is not None and holder.text.startswith(f"{pid} ")


def test_nobody_stands_before_the_door_for_ever(tmp_path):
    """A redaction that was stopped while it waited (Ctrl-Z) held the door: every import stood there without a word, for good."""
    root = os.fspath(tmp_path / "objects")
    keeping = Keeping(root, Files())
    with keeping.block():
        pass
    fellow = Fellow(Keeping(root, Files())).start()
    redacting = subprocess.Popen([sys.executable, "-c", WAITING, root])
    while not is_named(root, redacting.pid):
        pass
    redacting.send_signal(signal.SIGSTOP)
    fellow.leave()
    keeping.patience_s = 0.0
    with (
        pytest.raises(LockTimeoutError, match=rf"redacted by {redacting.pid} .* made no progress within 0 s"),
        keeping.block(),
    ):
        raise AssertionError
    redacting.send_signal(signal.SIGCONT)
    assert redacting.wait(60) == 0
    with keeping.block():
        pass


def test_time_in_which_the_waiter_was_stopped_does_not_count(tmp_path, monkeypatch):
    """A container that was paused, a lid that was shut: an import gave up though nobody had kept it waiting."""
    root = os.fspath(tmp_path / "objects")
    os.makedirs(root)
    door = os.open(door_of(root), os.O_RDWR | os.O_CREAT)
    fcntl.flock(door, fcntl.LOCK_EX)
    now, looks = time.monotonic, []

    def later():
        looks.append(1)
        if len(looks) == 4:
            fcntl.flock(door, fcntl.LOCK_UN)
        return now() + (1000.0 if len(looks) > 1 else 0.0)

    monkeypatch.setattr(time, "monotonic", later)
    with Keeping(root, Files()).block():
        assert len(looks) >= 4
    os.close(door)


class Watched:
    """A clock that only sleeping moves. Somebody else is at the door for six seconds, then in the room for good."""

    def __init__(self, monkeypatch, root, how):
        os.makedirs(root)
        self.now_s, self.how = 0.0, how
        self.door, self.room = (
            os.open(os.path.join(root, name), os.O_RDWR | os.O_CREAT) for name in ("door.lock", "room.lock")
        )
        fcntl.flock(self.door, how)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, _seconds):
        self.now_s += 0.5
        if self.now_s == 6.0:
            fcntl.flock(self.room, self.how)
            fcntl.flock(self.door, fcntl.LOCK_UN)

    def close(self):
        os.close(self.door)
        os.close(self.room)


def test_door_and_room_share_one_patience(tmp_path, monkeypatch):
    root = os.fspath(tmp_path / "objects")
    clock = Watched(monkeypatch, root, fcntl.LOCK_EX)
    keeping = Keeping(root, Files())
    keeping.patience_s = 10.0
    with pytest.raises(LockTimeoutError, match="within 10 s"), keeping.block():
        raise AssertionError
    assert clock.now_s == 10.0
    clock.close()


def test_who_waits_has_one_patience_for_door_and_room(tmp_path, monkeypatch):
    root = os.fspath(tmp_path / "objects")
    clock = Watched(monkeypatch, root, fcntl.LOCK_SH)
    with pytest.raises(LockTimeoutError, match="within 10 s"):
        Keeping(root, Files()).wait(10.0)
    assert clock.now_s == 10.0
    clock.close()


def test_who_was_in_haste_is_patient_again(tmp_path, monkeypatch):
    """What an import does behind what hooks left waits as long as ever."""
    store = ObjectStore(os.fspath(tmp_path / "objects"), Files())
    door = os.path.join(store.root, "door.lock")
    with store.keeping():
        pass
    fd = os.open(door, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with store.in_haste(0.0), pytest.raises(LockTimeoutError, match="within 0 s"), store.keeping():
        raise AssertionError
    now = time.monotonic

    def looked():  # only who waits looks at the clock
        fcntl.flock(fd, fcntl.LOCK_UN)
        return now()

    monkeypatch.setattr(time, "monotonic", looked)
    with store.keeping():
        pass
    os.close(fd)
