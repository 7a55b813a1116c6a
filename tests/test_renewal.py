"""The index is built anew beside the one in use: others have one at every moment, and nothing taken out stays in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from periplus.journal.index.index_file import NEXT_SUFFIX, discard_index, put_in_place
from periplus.journal.index.rebuild import renewing
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, settle
from test_faults import mounted

SECRET = "hunter2-is-the-secret"


def put(number, text):
    return lambda t: t.put("decision", item(number), {"text": text}, summary=text)


def damage_a_segment(root):
    """Gives a copy that is sound."""
    copy = f"{root}-copy"
    shutil.copytree(root, copy)
    path = min(Path(root, "journal").glob("lin_*/*.jsonl"))
    data = path.read_bytes()
    at = data.find(b"\n") + 100
    path.write_bytes(data[:at] + bytes(200) + data[at + 200 :])
    return copy


@pytest.fixture
def root(tmp_path):
    root = make_store(tmp_path, SystemClock())
    with open_journal(root) as journal:
        for number in range(6):
            journal.mutate(put(number, f"text {number}"), WRITER)
        journal.roll()
        for text in (f"said once: {SECRET}", "said after"):
            journal.mutate(put(7, text), WRITER)
        journal.roll()
        journal.mutate(put(8, "the last"), WRITER)
    return root


def entities_in(path):
    """How many entities the index at ``path`` has, by a connection of its own."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute("SELECT COUNT(DISTINCT item_id) FROM heads").fetchone()[0]
    finally:
        db.close()


def files_with_secret(root):
    return [path for path in Path(root).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


class Watching(Files):
    """At each rename, and while the new index is filled, another process asks the one that is there, and writes where the lock is free."""

    def __init__(self, root):
        super().__init__()
        self.root = root
        self.is_armed = False
        self.asked = []
        self.written = 0

    def replace(self, source, target):
        self.look(target)
        super().replace(source, target)

    def boot_id(self):
        self.look("")
        return super().boot_id()

    def look(self, target):
        index = os.path.join(self.root, "index.sqlite")
        if self.is_armed and target != index:
            self.is_armed = False
            self.asked.append(entities_in(index))
            lock = Lock(os.path.join(self.root, "journal/lock"))
            is_free = lock.try_take()
            if is_free:
                lock.release()
                with open_journal(self.root) as other:
                    assert other.index.watermarks(), "it has to read the whole journal"
                    if other.damage is None:
                        other.mutate(put(100 + self.written, "written meanwhile"), WRITER)
                        self.written += 1
            lock.close()
            self.is_armed = True


@pytest.mark.parametrize("is_repair", [False, True])
def test_others_have_an_index_all_the_while_and_what_they_write_is_there(root, is_repair):
    """It was removed first: every other process then read the whole journal, or waited for who built the new one."""
    copy = damage_a_segment(root) if is_repair else ""
    files = Watching(root)
    with open_journal(root, files) as journal:
        before = len(list(journal.entities()))
        files.is_armed = True
        if is_repair:
            assert repair(journal, WRITER, sources=[copy])
        else:
            assert redact(journal, WRITER, secret=SECRET, reason="a secret").remaining == []
        files.is_armed = False
        assert min(files.asked, default=0) >= 8
        assert len(list(journal.entities())) == before + files.written
        journal.project()
        assert [one for one in examine(journal).problems if one.severity != "note"] == []
    assert is_repair or files.written
    assert not os.path.exists(f"{root}/index.sqlite{NEXT_SUFFIX}")


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_who_is_stopped_anywhere_leaves_an_index_that_the_next_writer_builds_anew(root, tmp_path, step):
    """What was taken out of the records is not served from the index by whoever goes on behind a stop."""
    at = is_marked = 0
    while True:
        here = os.fspath(tmp_path / f"{at}/.periplus")
        shutil.copytree(root, here)
        settle(here)
        files = StoppingFiles(at)
        try:
            with open_journal(here, files) as journal:
                redact(journal, WRITER, secret=SECRET, reason="a secret")
        except Stop:
            pass
        is_done = at >= len(files.calls)
        in_records = any(path.suffix == ".jsonl" for path in files_with_secret(here))
        with open_journal(here) as journal:
            is_marked += journal.index.is_past
            journal.mutate(put(9, "life goes on"), WRITER)
            assert not journal.index.is_past
        if not in_records:
            assert files_with_secret(here) == [], at
        with open_journal(here) as journal:
            redact(journal, WRITER, secret=SECRET, reason="a secret")
            assert [one for one in examine(journal).problems if one.severity != "note"] == [], at
        assert files_with_secret(here) == [], at
        shutil.rmtree(tmp_path / str(at))
        if is_done:
            break
        at += step
    assert at > 15
    assert is_marked > 1


def test_a_marked_index_is_left_alone_while_whoever_marked_it_is_at_it(root):
    with open_journal(root) as journal:
        with renewing(journal), open_journal(root) as other:
            assert other.index.is_past
            other.mutate(put(9, "meanwhile"), WRITER)
            assert other.index.is_past
            assert len(list(other.entities())) == 9
        assert not journal.index.is_past
        assert len(list(journal.entities())) == 9


def test_what_a_stop_left_of_the_new_index_is_told_and_goes(root):
    left = Path(f"{root}/index.sqlite{NEXT_SUFFIX}")
    left.write_bytes(SECRET.encode() * 100)
    with open_journal(root) as journal:
        told = [one for one in examine(journal).problems if one.path == os.fspath(left)]
        assert [one.severity for one in told] == ["note"]
        repair(journal, WRITER)
        assert not left.exists()
        assert examine(journal).problems == []
    assert not list(Path(root, "parked").rglob("*.next"))


class Discarding(Files):
    """Another process finds nobody giving the lock back, and throws both away, just before the new one gets its name."""

    def unlink(self, path):
        if path.endswith("index.sqlite"):
            discard_index(path + NEXT_SUFFIX)
        super().unlink(path)


@pytest.mark.slow
def test_a_new_index_that_was_thrown_away_takes_no_place(root):
    with open_journal(root, Discarding()) as journal:
        journal.renew_derived(is_beside=True)
        assert len(list(journal.entities())) == 8
        assert examine(journal).problems == []


@pytest.mark.parametrize("deed", ["look", "write"])
def test_who_had_the_index_open_before_it_was_marked_serves_nothing_of_it_behind_a_stop(root, tmp_path, deed):
    """The mark was looked for where the index was opened, and never again: what was redacted was served for as long as the process lived."""
    seen = 0
    for at in range(0, 200, 2):
        here = os.fspath(tmp_path / f"{at}/.periplus")
        shutil.copytree(root, here)
        settle(here)
        files = StoppingFiles(at)
        with open_journal(here) as other:
            other.project()
            try:
                with open_journal(here, files) as journal:
                    redact(journal, WRITER, secret=SECRET, reason="a secret")
            except Stop:
                pass
            is_done = at >= len(files.calls)
            if not any(path.suffix == ".jsonl" for path in files_with_secret(here)):
                other.refresh()
                if deed == "write":
                    other.mutate(put(9, "life goes on"), WRITER)
                else:
                    other.project()
                said = [row.summary for row in other.index.records("1", (), -1)]
                assert not any(SECRET in one for one in said), at
                assert files_with_secret(here) == [], at
                seen += not is_done
        shutil.rmtree(tmp_path / str(at))
        if is_done:
            break
    assert is_done
    assert seen > 1


class Filling(Files):
    """Somebody fills the disk once the new index has its rows."""

    def __init__(self, disk):
        super().__init__()
        self.disk = disk
        self.is_armed = False

    def boot_id(self):
        if self.is_armed:
            self.is_armed = False
            fill(self.disk)
        return super().boot_id()


def fill(disk, leave=0):
    with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        at = os.statvfs(disk)
        file.write(bytes(max(at.f_bavail * at.f_frsize - leave, 0)))
        while not leave:
            file.write(bytes(512))


@pytest.mark.slow
@pytest.mark.rig
@pytest.mark.parametrize("is_known", [True, False], ids=["known before", "met on the way"])
def test_where_the_disk_has_no_room_for_two_a_repair_leaves_the_one_in_use_and_says_so(tmp_path, is_known):
    """It was thrown away first, and the new one took all the room that the journal had."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=48m", "tmpfs") as disk:
        root = make_store(disk, SystemClock())
        with open_journal(root) as journal:
            for of in range(5):
                journal.mutate(lambda t, of=of: [put(of * 400 + n, f"{n} " * 100)(t) for n in range(400)], WRITER)
        shutil.move(damage_a_segment(root), copy := os.fspath(tmp_path / "copy"))
        index = Path(root, "index.sqlite")
        before = os.stat(index).st_ino
        files = Filling(disk)
        if is_known:
            fill(disk, leave=5 << 20)
        with open_journal(root, files) as journal:
            files.is_armed = not is_known
            told = [one.what for one in repair(journal, WRITER, sources=[copy]) if one.path == os.fspath(index)]
            assert len(told) == 1
            assert "no room for a second one" in told[0]
            assert not journal.index.is_memory
            assert len(list(journal.entities())) == 2000
        assert os.stat(index).st_ino == before
        assert not os.path.exists(f"{index}{NEXT_SUFFIX}")
        with open_journal(root) as other:
            assert not other.index.is_memory
            assert len(list(other.entities())) == 2000
            assert [one for one in examine(other).problems if one.severity == "error"] == []
        (disk / "ballast").unlink()
        with open_journal(root) as journal:
            assert not [one for one in repair(journal, WRITER) if one.path == os.fspath(index)]
            assert [one for one in examine(journal).problems if one.severity != "note"] == []
        assert os.stat(index).st_ino != before


@pytest.mark.slow
@pytest.mark.rig
def test_where_the_disk_has_no_room_for_two_nothing_redacted_stays_in_the_index(tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=48m", "tmpfs") as disk:
        root = make_store(disk, SystemClock())
        with open_journal(root) as journal:
            for of in range(5):
                journal.mutate(lambda t, of=of: [put(of * 400 + n, f"{n} " * 100)(t) for n in range(400)], WRITER)
            for text in (SECRET, "after"):
                journal.mutate(put(7, text), WRITER)
        fill(disk, leave=4 << 20)
        with open_journal(root) as journal:
            assert redact(journal, WRITER, secret=SECRET, reason="a secret").remaining == []
            assert len(list(journal.entities())) == 2000
        assert files_with_secret(root) == []


_MARKING: Final = """
import os, sys
sys.path[:0] = sys.argv[2:]
from periplus.journal.index.rebuild import renewing
from support import open_journal

with open_journal(sys.argv[1]) as journal:
    try:
        with renewing(journal):
            os.mkdir(sys.argv[1] + "/marked")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.rig
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_mark_is_on_the_disk_before_the_first_file_changes(root, tmp_path):
    """A log of SQLite's is synced when it is taken into the file: a power cut took the mark back, and the index said what was redacted."""
    log = tmp_path / "log"
    command = ["strace", "-f", "-qq", "-y", "-o", os.fspath(log), "-etrace=fdatasync,fsync,mkdir,pwrite64"]
    done = subprocess.run([*command, sys.executable, "-c", _MARKING, root, *sys.path], capture_output=True, timeout=120)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr.decode()
    calls = log.read_text(errors="replace").partition("/marked")[0].splitlines()
    of_log = [line.split("(")[0].split()[-1] for line in calls if f"{root}/index.sqlite-wal>" in line]
    assert "pwrite64" in of_log
    assert of_log[-1] in ("fdatasync", "fsync")


def test_what_sqlite_removes_itself_meanwhile_is_no_failure(tmp_path):
    """A repair ended with an error of the system: the last process that had the index open closed it just then."""

    class ClosedMeanwhile(Files):
        def unlink(self, path):
            os.unlink(path)
            super().unlink(path)

    index, new = (os.fspath(tmp_path / name) for name in ("index.sqlite", "index.sqlite.next"))
    for path in (index, index + "-wal", index + "-shm", new):
        Path(path).write_bytes(path.encode())
    assert put_in_place(new, index, ClosedMeanwhile())
    assert Path(index).read_bytes() == new.encode()
    assert os.listdir(tmp_path) == ["index.sqlite"]
    discard_index(index)
    discard_index(index)
    assert os.listdir(tmp_path) == []
