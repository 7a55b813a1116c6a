"""Pausing, crashing and going on: the same as one straight run, whatever the moment."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import git
from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, DamageError, NewerFormatError, RefusedError
from periplus.base.files import Files
from periplus.trail import Digest
from periplus.trail.replay import LogHeader, Replay, ReplayLog
from periplus.trail.replay.command_runner import Runner
from periplus.trail.replay.log import LogHeader as Header
from periplus.trail.replay.log import _line
from replay_support import START_MS, Taped, close_worlds, files_in, folder_world, memory, open_log, options, replay
from support import Stop, StoppingFiles

IS_OPEN = bool(Runner("/", "/", os.environ["PATH"]).why_not())  # the network cannot be kept from commands here


@pytest.fixture(autouse=True)
def _closed():
    yield
    close_worlds()


ONE = Digest("sha256", hashlib.sha256(b"one one\n").digest())


def a_run():
    return (
        Taped()
        .write("a/b", "one\n")
        .step("FILE_EDIT", "a/b", "one", "one one", note="result: the file afterwards", result=ONE, result_size=8)
        .step("FILE_EDIT", "a/b", "one one", "two", outcome="failed")
        .step("FILE_READ", "a/b")
        .write("a/b", "two\n")
        .step("FILE_EDIT", "a/b", "", "x", outcome="failed")
        .step("SAY", "on with it")
        .step("FILE_MOVE", "a/b", "c/d")
        .step("FILE_MOVE", "c", "e")
        .write("gone", "x")
        .step("FILE_DELETE", "gone")
        .write("../escape", "x")
        .step("FILE_WRITE", "link", Digest("git-sha1", b"1" * 20), note="symbolic link")
        .step("FILE_MOVE", "link", "moved")
        .step("GIT_COMMIT", "r", "all of it")
    )


def run_once(taped, place, files=None, *, is_resumed=False, **more):
    """One process's part of a replay: opens world and log, and goes on as far as it gets."""
    world = folder_world(taped, place, files)
    log = open_log(place, taped, files, is_resumed=is_resumed)
    try:
        return replay(taped, world, log, **more)
    finally:
        log.close()
        world.close()


def facts(one, report):
    """Everything about a replay but its times."""
    rows = [(done.number, done.index, done.next, done.register, done.state, done.outcome, done.exit_code, done.error,
             done.result, done.size, done.differs) for done in one.outcomes]  # fmt: skip
    return rows, report


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    place = tmp_path_factory.mktemp("straight") / "r"
    found = facts(*run_once(a_run(), place))
    return found, files_in(place / "files"), committed(place)


def test_the_straight_run(straight):
    (rows, report), files, commits = straight
    assert files == {"e/d": b"two\n"}
    assert len(rows) == 15
    assert len(commits) == 2
    assert [one.at for one in report.differences] == [2, 11]


@pytest.mark.slow
@given(st.lists(st.integers(0, 4), max_size=5))
@settings(max_examples=12, deadline=None)
def test_pauses_change_nothing(straight, tmp_path_factory, pauses):
    place = tmp_path_factory.mktemp("paused") / "r"
    taped = a_run()
    is_resumed = False
    for pause in pauses:
        _, report = run_once(taped, place, is_resumed=is_resumed, pause_after=pause)
        is_resumed = True
        if report.verdict != "paused":
            break
    found = facts(*run_once(taped, place, is_resumed=is_resumed))
    assert (found, files_in(place / "files"), committed(place)) == straight


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_stop_at_every_call_and_going_on_is_the_straight_run(straight, tmp_path, share):
    taped = a_run()
    template = tmp_path / "template"
    folder_world(taped, template).close()
    place = tmp_path / "r"
    at = stops = 0
    while True:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(template, place)
        stopping = StoppingFiles(at, share)
        try:
            run_once(taped, place, stopping)
            break
        except Stop:
            stops += 1
        found = facts(*run_once(taped, place, is_resumed=(place / "replay.log").exists()))
        assert (found, files_in(place / "files"), committed(place)) == straight, stopping.calls[-1]
        at += 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 8
    assert stops > 10


def committed(place):
    """The trees of all commits: what was left behind by a write that was stopped would be in them."""
    return git(place / "files", "log", "--format=%T %s").splitlines()


class KillingFiles(Files):
    """Kills this process, as ``kill -9`` does, just before call number ``at``."""

    def __init__(self, at):
        self.left = at

    def _tick(self):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def write(self, fd, data):
        self._tick()
        return super().write(fd, data)

    def replace_at(self, *words):
        self._tick()
        super().replace_at(*words)

    def sync_data(self, fd):
        self._tick()
        super().sync_data(fd)

    def unlink_at(self, folder, name):
        self._tick()
        super().unlink_at(folder, name)


def killed(work):
    """Whether ``work``, in a process of its own, was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("at", [0, 3, 4, 7, 11, 16, 22, 29])
def test_a_process_that_is_killed(straight, tmp_path, at):
    taped = a_run()
    place = tmp_path / "r"
    folder_world(taped, place).close()
    assert killed(lambda: run_once(taped, place, KillingFiles(at)))
    found = facts(*run_once(taped, place, is_resumed=(place / "replay.log").exists()))
    assert (found, files_in(place / "files"), committed(place)) == straight


# Commands and commits


def with_command():
    return Taped().write("a", "1").step("COMMAND_RUN", "echo ran >> count", exit_code=0).write("b", "2")


def commanded(taped, place, files=None, *, is_resumed=False, **more):
    world = folder_world(taped, place, allow_commands=True, allow_network=True)
    log = open_log(place, taped, files, is_resumed=is_resumed)
    try:
        return replay(taped, world, log, **more)
    finally:
        log.close()
        world.close()


class StopAtOutcome(Files):
    """Stops when the outcome of step ``index`` is to be written."""

    def __init__(self, index):
        self.mark = f'"kind":"outcome","number":{index},'.encode()

    def write(self, fd, data):
        if self.mark in bytes(data):
            raise Stop
        return super().write(fd, data)


def test_a_command_whose_outcome_is_not_known_is_not_run_again_without_consent(tmp_path):
    taped = with_command()
    with pytest.raises(Stop):
        commanded(taped, tmp_path / "r", StopAtOutcome(1))
    count = tmp_path / "r" / "files" / "count"
    assert count.read_text() == "ran\n"
    shutil.copytree(tmp_path / "r", tmp_path / "s")
    one, report = commanded(taped, tmp_path / "r", is_resumed=True)
    assert count.read_text() == "ran\n"
    assert (one.outcomes[1].outcome, report.verdict, report.first[:4]) == (
        "unknown",
        "diverged",
        (1, "COMMAND_RUN", "outcome", "ok"),
    )
    assert "it is unknown" in report.first.found
    assert (tmp_path / "r" / "files" / "b").exists()
    _, report = commanded(taped, tmp_path / "s", is_resumed=True, is_rerun=True)
    assert report.verdict == "same"
    assert (tmp_path / "s" / "files" / "count").read_text() == "ran\nran\n"


def test_a_command_that_has_an_outcome_is_never_run_again(tmp_path):
    taped = with_command()
    with pytest.raises(Stop):
        commanded(taped, tmp_path / "r", StopAtOutcome(2))
    _, report = commanded(taped, tmp_path / "r", is_resumed=True, is_rerun=True)
    assert report.verdict == "same"
    assert (tmp_path / "r" / "files" / "count").read_text() == "ran\n"


def test_a_commit_is_made_once(tmp_path):
    commit = Digest("git-sha1", bytes(20))
    taped = (
        Taped().write("a", "1").step("GIT_COMMIT", "r", "one", commit).write("b", "2").step("GIT_COMMIT", "r", "two")
    )
    with pytest.raises(Stop):
        run_once(taped, tmp_path / "r", StopAtOutcome(1))
    assert run_once(taped, tmp_path / "r", is_resumed=True)[1].verdict == "same"
    assert git(tmp_path / "r" / "files", "log", "--format=%s").split() == ["two", "one", "base"]


def test_a_file_that_somebody_else_changed_meanwhile_is_not_touched(tmp_path):
    taped = Taped().write("a", "1").step("FILE_EDIT", "a", "1", "2").write("b", "")
    with pytest.raises(Stop):
        run_once(taped, tmp_path / "r", StopAtOutcome(1))
    (tmp_path / "r" / "files" / "a").write_text("mine")
    _, report = run_once(taped, tmp_path / "r", is_resumed=True)
    assert report.first[:3] == (1, "FILE_EDIT", "outcome")
    assert (tmp_path / "r" / "files" / "a").read_text() == "mine"


def test_an_interruption_ends_a_command_and_its_fate_stays_unknown(tmp_path):
    """Ctrl-C reaches the replay while a command runs."""
    taped = Taped().step("COMMAND_RUN", "echo begun > begun; sleep 1000").write("b", "2")
    place = tmp_path / "r"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            commanded(taped, place)
        except KeyboardInterrupt:
            os.write(writer, b"interrupted")
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"interrupted"
    os.close(reader)
    one, _ = commanded(taped, place, is_resumed=True)
    assert [done.outcome for done in one.outcomes] == ["unknown", "ok"]


@pytest.mark.skipif(IS_OPEN, reason="no namespaces here")
def test_a_command_ends_with_a_replay_that_is_killed(tmp_path):
    """The command holds the end of a pipe, which closes when the command, and all it began, is gone."""
    os.mkfifo(tmp_path / "pipe")
    taped = Taped().step("COMMAND_RUN", f"exec 5> {tmp_path}/pipe; echo begun >&5; (setsid sleep 1000 &) ; sleep 1000")
    child = os.fork()
    if child == 0:
        try:
            commanded(taped, tmp_path / "r")
        finally:
            os._exit(0)
    with (tmp_path / "pipe").open() as pipe:
        assert pipe.readline() == "begun\n"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert pipe.read() == ""


# The log as a file


def test_a_log_of_another_trail_or_of_other_settings_is_refused(tmp_path):
    taped = a_run()
    open_log(tmp_path, taped).close()
    path = os.fspath(tmp_path / "replay.log")
    before = (tmp_path / "replay.log").read_bytes()
    for header, wrong in (
        (LogHeader(1, "ff" * 32, {"world": "test"}), "not of ffff"),
        (LogHeader(1, taped.reader.digest.hex(), {"world": "other"}), "begun with world 'test', not 'other'"),
        (LogHeader(1, taped.reader.digest.hex(), {}), "begun with world"),
    ):
        with pytest.raises(ConflictError, match=wrong):
            ReplayLog(path, header, Files(), is_resumed=True)
    assert (tmp_path / "replay.log").read_bytes() == before
    with pytest.raises(RefusedError, match="no replay to continue"):
        ReplayLog(os.fspath(tmp_path / "none.log"), LogHeader(1, "", {}), Files(), is_resumed=True)
    (tmp_path / "replay.log").write_bytes(_line(Header(2, taped.reader.digest.hex(), {"world": "test"})))
    with pytest.raises(NewerFormatError):
        open_log(tmp_path, taped, is_resumed=True)


def test_a_log_that_was_cut_or_changed(tmp_path):
    """Cut: the good beginning, and the replay ends as ever. Changed: damage with its offset, or just as it was."""
    taped = a_run()
    whole = memory(taped)
    log = open_log(tmp_path, taped)
    expected = facts(*replay(taped, whole, log))
    log.close()
    path = tmp_path / "replay.log"
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for end in range(first, len(data), 37):
        path.write_bytes(data[:end])
        log = open_log(tmp_path, taped, is_resumed=True)
        whole_lines = data[:end].rpartition(b"\n")[0]
        assert len(log.outcomes) == whole_lines.count(b'"kind":"outcome"')
        log.close()
        assert path.read_bytes() == whole_lines + b"\n"
    found = []
    for at in range(0, len(data), 53):
        changed = bytearray(data)
        changed[at] ^= 4
        path.write_bytes(changed)
        with pytest.raises(DamageError) as caught:
            open_log(tmp_path, taped, is_resumed=True).close()
        found.append(caught.value.offset)
        assert caught.value.offset <= at
    assert found == sorted(found)
    path.write_bytes(data)
    log = open_log(tmp_path, taped, is_resumed=True)
    assert facts(*replay(taped, whole, log)) == expected
    log.close()


@given(st.lists(st.sampled_from([b"", b"{}", b"null", b'{"kind":"intent"}', b'{"kind":"outcome","number":0}', b"[" * 500, b"\xff"]), max_size=4))  # fmt: skip
@settings(max_examples=40)
def test_a_hostile_log_is_damage(tmp_path_factory, lines):
    import zlib

    place = tmp_path_factory.mktemp("hostile")
    taped = a_run()
    open_log(place, taped).close()
    path = place / "replay.log"
    bad = b"".join(f"{zlib.crc32(line):08x} ".encode() + line + b"\n" for line in lines)
    path.write_bytes(path.read_bytes() + bad)
    if lines:
        with pytest.raises(DamageError):
            open_log(place, taped, is_resumed=True)
    else:
        open_log(place, taped, is_resumed=True).close()


def test_a_replay_in_memory_can_be_gone_on_with_too(tmp_path):
    taped = a_run()
    log = open_log(tmp_path, taped)
    world = memory(taped)
    one = Replay(
        [taped.reader],
        world,
        options(pause_after=3),
        clock=FixedClock(START_MS),
        read_content=taped.objects.get,
        log=log,
    )
    assert one.run().verdict == "paused"
    two = Replay([taped.reader], world, options(), clock=FixedClock(START_MS), read_content=taped.objects.get, log=log)
    assert two.run().steps == 15
    log.close()
    assert world.files == {"e/d": b"two\n"}
