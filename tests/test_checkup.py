"""Damage that nobody reads is found by the process that hooks leave behind, and told by what people and agents look at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time

import pytest

from cli_support import Shell, fill
from hook_support import hook
from periplus.base.clock import Clock
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.cli.hook_entry import settle
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.care.checkup import AGAIN_S, CHECKUP_S, check_up_if_due
from periplus.project.checkup_report import last_checkup, told_of_damage

WRITER = Writer("ada", "who_0000000000000000", "", 1)


class At(Clock):
    def __init__(self, now_ms):
        self.now = now_ms

    def now_ms(self):
        return self.now


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "pump", tmp_path)
    shell.folder.mkdir()
    fill(shell, *(f"The pump number {number} stops at four bar" for number in range(30)))
    return shell


def root_of(shell):
    return os.fspath(shell.folder / ".periplus")


def end(shell, *words):
    event = {"hook_event_name": "SessionEnd", "session_id": "s-1", "cwd": os.fspath(shell.folder), "reason": "exit"}
    done = hook("SessionEnd", event, cwd=shell.folder, words=words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def looked_at(shell, *, after):
    """What the next look found: the process is waited for that the hook left."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = last_checkup(root_of(shell))
        if found is not None and found.at_ms > after:
            return found
        time.sleep(0.05)
    raise AssertionError("nobody looked")


def spoil(shell, number):
    """One byte of a record that the index knows; the index serves on."""
    (path,) = (shell.folder / ".periplus/journal").glob("lin_*/*.jsonl")
    data = path.read_bytes()
    at = data.index(b"number %d " % number)
    path.write_bytes(data[:at] + b"N" + data[at + 1 :])


def started(shell):
    event = {
        "hook_event_name": "SessionStart",
        "session_id": f"s-{time.monotonic_ns()}",
        "cwd": os.fspath(shell.folder),
        "source": "startup",
    }
    return hook("SessionStart", event, cwd=shell.folder, words=()).stdout.decode()


@pytest.mark.slow
def test_damage_behind_the_index_is_found_and_told_until_it_is_mended(shell, tmp_path):
    end(shell)
    sound = looked_at(shell, after=0)
    assert (sound.errors, sound.told) == (0, ())
    assert "found damaged" not in started(shell)
    shutil.copytree(shell.folder / ".periplus", tmp_path / "copy")
    spoil(shell, 3)
    assert shell.json("status").found == ""  # nobody knows
    end(shell)  # the last look was just now, and found nothing
    os.utime(root_of(shell))
    assert last_checkup(root_of(shell)) == sound
    (shell.folder / ".periplus/cache/checkup.json").unlink()
    end(shell)
    found = looked_at(shell, after=sound.at_ms)
    assert found.errors == 1
    told = shell.json("status")
    assert (told.sound, "found damaged" in told.found, "000000000001.jsonl" in told.found) == (True, True, True)
    lines = shell("status").lines
    assert [line for line in lines if line.startswith("state    sound as far as it was read, but on ")]
    assert "         Next: periplus doctor" in lines
    said = started(shell)
    assert "found damaged" in said
    assert "periplus doctor" in said
    shell("doctor", code=3)
    shell("doctor", "--repair", "--from", tmp_path / "copy")
    assert shell.json("status").found == ""
    assert "found damaged" not in started(shell)
    end(shell)
    assert looked_at(shell, after=found.at_ms).errors == 0


def test_what_was_found_is_looked_at_again_in_an_hour(shell):
    spoil(shell, 3)
    clock = At(1_900_000_000_000)
    with Project.open(os.fspath(shell.folder), WRITER, clock=clock) as project:
        assert check_up_if_due(project).errors == 1
        (path,) = (shell.folder / ".periplus/journal").glob("lin_*/*.jsonl")
        path.write_bytes(path.read_bytes().replace(b"Number 3 ", b"number 3 "))
        clock.now += AGAIN_S * 1_000 - 1
        assert check_up_if_due(project) is None
        assert told_of_damage(root_of(shell))
        clock.now += 1
        assert check_up_if_due(project).errors == 0
        assert told_of_damage(root_of(shell)) == ""


def test_one_process_looks_at_a_time(shell):
    folder = shell.folder / ".periplus/cache"
    folder.mkdir(exist_ok=True)
    with Project.open(os.fspath(shell.folder), WRITER) as project:
        with Lock(os.fspath(folder / "checkup.lock")).holding(0.0):
            assert check_up_if_due(project) is None
        assert check_up_if_due(project) is not None


@pytest.mark.rig
def test_a_store_that_may_only_be_read_is_left_alone(shell, tmp_path, monkeypatch):
    """At each end of a session it would be noted anew that nothing can be kept there."""
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path / "state"))
    here = os.fspath(shell.folder)
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "--bind", here, here], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs root, and to be allowed to mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", here], check=True)
        settle(root_of(shell), has_time=True)
    finally:
        subprocess.run(["umount", here], check=True)
    assert last_checkup(root_of(shell)) is None
    assert not (tmp_path / "state").exists()


def test_who_is_waited_for_does_not_look(shell):
    end(shell, "--wait")
    assert last_checkup(root_of(shell)) is None


def test_it_is_due_once_a_week(shell):
    start = 1_900_000_000_000
    clock = At(start)
    with Project.open(os.fspath(shell.folder), WRITER, clock=clock) as project:
        assert check_up_if_due(project).at_ms == start
        for later_ms, is_due in ((1, False), (CHECKUP_S * 1_000 - 1, False), (CHECKUP_S * 1_000, True)):
            clock.now = start + later_ms
            assert (check_up_if_due(project) is not None) == is_due
        clock.now = start  # the clock was put back: nobody knows how long ago it was
        assert check_up_if_due(project) is not None


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"v":2}', b"\xff" * 100, b"x" * 100_000,
                                  json.dumps({"v": 9, "at_ms": 1, "at": "2026", "errors": 1, "told": ["x"]}).encode()])  # fmt: skip
def test_a_note_that_is_none_is_as_if_there_were_none(shell, text):
    path = shell.folder / ".periplus/cache/checkup.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    assert last_checkup(root_of(shell)) is None
    assert shell.json("status").found == ""
    settle(root_of(shell), has_time=True)
    assert last_checkup(root_of(shell)).errors == 0


def test_a_disk_without_room_is_noted_and_nothing_else_fails(shell, monkeypatch):
    def no_room(self, path, *_, **__):
        if "checkup" in path:
            raise OSError(28, "No space left on device", path)
        return make(self, path, *_, **__)

    make = Files.open
    monkeypatch.setattr(Files, "open", no_room)
    settle(root_of(shell), has_time=True)
    monkeypatch.undo()
    assert last_checkup(root_of(shell)) is None
    with Project.open(os.fspath(shell.folder), WRITER) as project:
        assert [note for note in project.hooks.notes() if "checkup" in note.what or "room" in note.what]
