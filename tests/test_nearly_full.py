"""A disk that writes elsewhere what is changed (Btrfs), nearly full and full: who maps a file from it would be ended by the system."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.filesystem import file_systems
from periplus.base.filesystem.file_systems import MappingSpace, file_system_of, is_room_for_maps
from periplus.journal.care.doctor import examine
from support import WRITER, item, make_store, open_journal

MEBIBYTE = 1 << 20
WRITING = """
import os, sys
sys.path[:0] = {paths!r}
from periplus.base.errors import EnvironmentFailure
from support import WRITER, item, open_journal
number = 0
with open_journal({root!r}) as journal:
    try:
        while True:
            number += 1
            text = f"{{os.getpid()}} {{number}}"
            done = journal.mutate(lambda t: t.put("note", item(number % 9, "not"), {{"text": text}}), WRITER, project=not number % 4)
            os.write(1, f"{{done.first_seq}} {{text}}\\n".encode())
    except EnvironmentFailure as error:
        assert "No space left" in str(error)
        sys.exit(3)
"""


def put(number, text):
    return lambda transaction: transaction.put("decision", item(number), {"text": text})


def told(journal):
    return {entity.item_id: entity.value["text"] for entity in journal.entities()}


def fill(disk, leave=0):
    """Until about ``leave`` bytes are free by what the disk says, or no byte is written any more."""
    for size in (MEBIBYTE,) if leave else (MEBIBYTE, 4096, 4096, 4096):
        path = disk / f"ballast{len(list(disk.glob('ballast*')))}"
        with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while not leave or room(disk) > leave + 2 * MEBIBYTE:
                if leave:
                    os.posix_fallocate(file.fileno(), path.stat().st_size, MEBIBYTE)
                else:
                    file.write(bytes(size))
        os.sync()


def room(disk):
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


@contextlib.contextmanager
def mounted(tmp_path, size_mib, *make):
    """A small disk of its own that ``make`` makes, where that is permitted."""
    if os.getuid() != 0 or shutil.which(make[0]) is None:
        pytest.skip(f"needs root and {make[0]}")
    image, folder = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(size_mib * MEBIBYTE)
    subprocess.run([*make, os.fspath(image)], check=True, capture_output=True)
    folder.mkdir()
    done = subprocess.run(["mount", "-o", "loop", os.fspath(image), os.fspath(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no loop device can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", os.fspath(folder)], check=True)


@pytest.fixture
def disk(tmp_path, request):
    """A Btrfs; in MiB, how large."""
    with mounted(tmp_path, getattr(request, "param", 640), "mkfs.btrfs", "-q") as folder:
        yield folder


@pytest.mark.rig
def test_every_command_answers_on_a_full_disk_whose_blocks_are_smaller_than_a_page(tmp_path):
    (tmp_path / "home").mkdir()
    with mounted(tmp_path, 12, "mkfs.ext4", "-q", "-b", "1024") as folder:
        shell = Shell(folder, tmp_path / "home")
        shell("init")
        for number in range(3):
            shell("remember", f"Before the flood {number}")
        fill(folder)
        for words in (["log"], ["recall", "flood"], ["status"], ["doctor"]):
            done = shell(*words)
            assert "flood" in done.out or words[0] in ("status", "doctor")
        assert "is nearly full" in done.out
        shell.fails("remember", "x" * 7_000, code=3, wrong="Free some space")
        for path in folder.glob("ballast*"):
            path.unlink()
        shell("remember", "After the flood")
        shell("doctor")


@pytest.mark.slow
@pytest.mark.rig
@pytest.mark.parametrize("disk", [128], indirect=True)
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_every_command_answers_on_a_full_disk_that_writes_elsewhere(disk, tmp_path, is_killed):
    (tmp_path / "home").mkdir()
    shell = Shell(disk, tmp_path / "home")
    shell("init")
    for number in range(3):
        shell("remember", f"Before the flood {number}")
    if is_killed:  # SQLite's log stays beside the index
        code = "import os; from periplus.journal import Writer; from periplus.memory import Memory; from periplus.project import Project\n"
        code += f"project = Project.open({os.fspath(disk)!r}, Writer('ada', 'who_0000000000000000', '', 1)); project.remember(Memory('note', 'x'))"
        subprocess.run([sys.executable, "-c", code + "; os.kill(os.getpid(), 9)"], check=False)
        assert (disk / ".periplus" / "index.sqlite-wal").exists()
    fill(disk)
    assert room(disk) < MEBIBYTE
    for words in (["log"], ["recall", "flood"], ["status"], ["doctor"], ["recall", "flood", "--json"]):
        done = shell(*words)
        assert "flood" in done.out or words[0] in ("status", "doctor")
    assert "is nearly full" in done.err + shell("doctor").out
    refused = shell.fails("remember", "x" * 7_000, code=3, wrong="No space left on device")
    assert "No acknowledged write is lost" in refused.err
    for path in disk.glob("ballast*"):
        path.unlink()
    os.sync()
    shell("remember", "After the flood")
    assert "is nearly full" not in shell("doctor").out
    assert "After the flood" in shell("log").out


@pytest.mark.slow
@pytest.mark.rig
def test_writers_that_fill_such_a_disk_end_with_an_error_and_keep_what_they_acknowledged(disk, tmp_path):
    root = make_store(disk)
    paths = [os.fspath(Path(__file__).parent), os.fspath(Path(__file__).parents[1] / "src")]
    code = WRITING.format(paths=paths, root=root)
    fill(disk, leave=60 * MEBIBYTE)
    said = [tmp_path / f"said{number}" for number in range(4)]
    with contextlib.ExitStack() as stack:
        writers = []
        for path in said:
            command = [sys.executable, "-c", code]
            writers.append(stack.enter_context(subprocess.Popen(command, stdout=stack.enter_context(path.open("wb")))))
            stack.callback(writers[-1].kill)
        while not all(path.stat().st_size > 200 for path in said):  # each is at it
            assert {writer.poll() for writer in writers} <= {None, 3}
            time.sleep(0.05)  # between two looks at what they said
        fill(disk, leave=20 * MEBIBYTE)  # they go on without any map, until they have filled it themselves
        time.sleep(1)  # for as long as that they write on a full disk
        assert {writer.poll() for writer in writers} <= {None, 3}
        while any(writer.poll() is None for writer in writers):
            fill(disk)
            time.sleep(0.1)  # between two looks at the processes
    assert [writer.returncode for writer in writers] == [3] * 4, "none was ended by the system"
    acknowledged = []
    for path in said:
        acknowledged += path.read_text().splitlines()
    assert len(acknowledged) > 40
    for path in disk.glob("ballast*"):
        path.unlink()
    os.sync()
    with open_journal(root) as journal:
        texts = {
            entry.record.seq: bytes(entry.record.payload).decode() for _, entry in journal.entries(journal.lineage)
        }
        for line in acknowledged:
            seq, _, text = line.partition(" ")
            assert f'"{text}"' in texts[int(seq)], "an acknowledged record is lost"
        journal.mutate(put(99, "goes on"), WRITER)
        assert examine(journal).exit_code in (0, 1)


HOLDING = """
import sys, time
sys.path[:0] = {paths!r}
from support import WRITER, item, open_journal
with open_journal({root!r}) as journal:
    print(len(list(journal.entities())), flush=True)
    sys.stdin.readline()
    journal.mutate(lambda t: t.put("decision", item(2), {{"text": "by who had it open"}}), WRITER)
    print(len(list(journal.entities())), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.rig
@pytest.mark.parametrize("left", [20, 0])
def test_nearly_full_is_no_reason_not_to_write_and_full_is_none_to_be_ended(disk, left):
    root = make_store(disk)
    with open_journal(root) as journal:
        journal.mutate(put(1, "before"), WRITER)
    code = HOLDING.format(paths=[os.fspath(Path(__file__).parent)], root=root)
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    holder = subprocess.Popen([sys.executable, "-c", code], text=True, bufsize=1, **pipes)
    assert holder.stdout.readline() == "1\n"
    fill(disk, leave=20 * MEBIBYTE)
    assert not is_room_for_maps(root)
    time.sleep(0.05)
    print("go on", file=holder.stdin)
    assert holder.stdout.readline() == "2\n"
    if not left:
        fill(disk)
    print("end", file=holder.stdin)
    assert holder.wait(30) == 0, "it closes what it has open"
    holder.stdin.close()
    holder.stdout.close()
    with open_journal(root) as journal:
        if left:
            journal.mutate(put(3, "by who came later"), WRITER)
        state = told(journal)
        assert set(state) == {item(number) for number in ((1, 2, 3) if left else (1, 2))}
        assert examine(journal).exit_code in (0, 1)
    for path in disk.glob("ballast*"):
        path.unlink()
    os.sync()
    with open_journal(root) as journal:
        assert is_room_for_maps(root)
        journal.project()
        assert told(journal) == state
        assert {entry.record.action for _, entry in journal.entries(journal.lineage)} == {"create"}
        assert len(list(Path(root, "entities").rglob("*.json"))) == len(state), "the files are brought up"
        assert not [problem for problem in examine(journal).problems if problem.level != "note"]


class Full:
    """What ``os.statvfs`` says of a disk of 4 GiB with 400 KiB left."""

    f_blocks, f_frsize, f_bavail, f_bsize = 1 << 20, 4096, 100, 1 << 16

    def __init__(self, path, asked=os.statvfs):
        self.f_fsid = asked(path).f_fsid


@pytest.mark.parametrize("kind", ["btrfs", "overlay", "", "ext4", "xfs"])
def test_what_is_written_in_its_place_may_stay_mapped(tmp_path, monkeypatch, kind):
    asked = []
    monkeypatch.setattr(file_systems, "file_system_of", lambda path: asked.append(path) or kind)
    assert is_room_for_maps(os.fspath(tmp_path))
    assert asked == [], "who has room need not know where"
    monkeypatch.setattr(os, "statvfs", Full)
    assert is_room_for_maps(os.fspath(tmp_path)) is (kind in ("ext4", "xfs"))


def test_a_disk_that_fills_is_noticed_by_who_holds_a_map(tmp_path, monkeypatch):
    found = MappingSpace(os.fspath(tmp_path))
    assert found.is_enough()
    monkeypatch.setattr(file_systems, "file_system_of", lambda _path: "btrfs")
    monkeypatch.setattr(os, "statvfs", Full)
    time.sleep(0.03)
    assert not found.is_enough()


def test_the_kind_of_this_file_system_is_known():
    kind = file_system_of(os.fspath(Path(__file__).parent))
    assert kind or not Path("/proc/self/mountinfo").exists()


def test_without_a_map_everybody_syncs_for_himself(tmp_path, monkeypatch):
    """As on a nearly full disk of that kind: the records are durable when they are acknowledged, and nothing is mapped."""
    root = make_store(tmp_path)
    monkeypatch.setattr(file_systems, "file_system_of", lambda _path: "btrfs")
    with open_journal(root) as journal:
        journal.mutate(put(1, "with"), WRITER)
        monkeypatch.setattr(os, "statvfs", Full)
        time.sleep(0.03)
        for number in range(5):
            receipt = journal.mutate(put(2, f"{number}"), WRITER)
            assert journal.durable_seq >= receipt.last_seq
        assert journal.index.is_memory or not journal.index.is_writable
    with open_journal(root) as journal:
        assert told(journal) == {item(1): "with", item(2): "4"}
