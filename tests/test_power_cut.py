"""The power goes while a store is written: any part of what no sync covered is there, in any order, torn anywhere.

Two ways: a file layer that knows what was synced writes down thousands of disks that might be left (always a sample,
``PERIPLUS_POWER_DISKS`` sets how many); and real file systems in loop devices, copied while writers run and mounted
again, where that is permitted.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faulty_files import PowerFiles
from periplus.base.errors import PeriplusError
from periplus.base.files import Files
from periplus.journal import Journal
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.projections.external_edits import take_in
from periplus.journal.proofs.tiles import LineageTree
from support import TYPES, WRITER, item, make_store, remove_index, settle

SEED = int(os.environ.get("PERIPLUS_POWER_SEED", "20260131"))
SECRET = "correct horse battery staple"


class AnotherBoot(Files):
    def boot_id(self):
        return "two"


def put(number, text, kind="decision"):
    return lambda t: t.put(kind, item(number, kind[:3]), {"text": text})


def act(chance, journal, number):
    """One mutation of some kind; gives the text that it wrote, by entity."""
    kind = chance.randrange(8)
    numbers = [chance.randrange(6) for _ in range(1 if kind else 3)]
    text = f"{number} " + "x" * (chance.choice([0, 200, 3_000]) if kind != 1 else 70_000)
    if kind == 2:
        make_checkpoint(journal, WRITER)
    elif kind == 3:
        journal.roll()
    elif kind == 4:
        LineageTree(journal)
    elif kind == 5 and number > 3:
        redact(journal, WRITER, secret=SECRET, reason="pasted")
        return {}
    written = {item(n): text for n in numbers} if kind != 6 else {item(n): f"{text}{SECRET}" for n in numbers}
    journal.mutate(lambda t: [t.put("decision", n, {"text": said}) for n, said in written.items()], WRITER,
                   project=chance.random() < 0.7)  # fmt: skip
    return written


class Run:
    """A history of a store whose power may go at any call: what was acknowledged so far, and the leaves of that."""

    def __init__(self, root, chance, files):
        self.root, self.chance, self.files = root, chance, files
        self.acknowledged = []
        with Journal(root, TYPES) as journal:
            self.lineage = journal.lineage

    def go(self, steps, cut):
        journal = Journal(self.root, TYPES, files=self.files)
        self.files.cut_at = lambda call: cut(self) if self.chance.random() < 0.12 else None
        try:
            for number in range(steps):
                act(self.chance, journal, number)
                self.acknowledged = [entry.leaf for _, entry in journal.entries(journal.lineage)]
                if self.chance.random() < 0.2:
                    journal.close()
                    journal = Journal(self.root, TYPES, files=self.files)
        finally:
            self.files.cut_at = lambda _call: None
            journal.close()


def check_disk(run, root):
    """What a disk holds after a power cut: every acknowledged record, and perhaps some of what was in flight."""
    settle(root)
    lineage = run.lineage
    with Journal(root, TYPES, files=AnotherBoot()) as journal:
        assert journal.damage is None, journal.damage
        held = [entry.leaf for _, entry in journal.entries(lineage)]
        assert held[: len(run.acknowledged)] == run.acknowledged, "an acknowledged record is lost"
        take_in(journal)
        journal.mutate(put(99, "goes on"), WRITER)
        records = [entry.record for _, entry in journal.entries(lineage)]
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert not {"external_edit", "import"} & {record.action for record in records}, "a torn file is no edit"
        found = examine(journal)
        assert found.exit_code in (0, 1), found.problems
        shown = {entity.item_id: entity.payload for entity in journal.entities()}
        files = {path: path.read_bytes() for path in Path(journal.layout.entities).rglob("*.json")}
    remove_index(root)
    with Journal(root, TYPES, files=AnotherBoot()) as journal:
        journal.project()
        assert {entity.item_id: entity.payload for entity in journal.entities()} == shown
        assert {path: path.read_bytes() for path in Path(journal.layout.entities).rglob("*.json")} == files


def storm(folder, seed, disks, files=PowerFiles):
    chance = random.Random(seed)
    checked = 0
    while checked < disks:
        begun = folder / f"run{checked}"
        root = make_store(begun)
        config = Path(root, "config.toml")
        config.write_text(config.read_text() + "segment_bytes = 4000\nlive_segments = 1\n")
        run = Run(root, chance, files(root))
        images = []

        def cut(run, begun=begun, images=images):
            target = os.fspath(begun / f"disk{len(images)}")
            run.files.cut(target, chance)
            images.append((target, list(run.acknowledged), run.files.calls))

        run.go(chance.randint(3, 12), cut)
        for target, acknowledged, call in images:
            run.acknowledged = acknowledged
            try:
                check_disk(run, target)
            except (AssertionError, PeriplusError, OSError) as error:
                raise AssertionError(f"seed {seed}, {target}, at call {call}") from error
            shutil.rmtree(target)
        checked += max(len(images), 1)
        shutil.rmtree(begun)
    return checked


@pytest.mark.slow
def test_some_disks_that_a_power_cut_may_leave(tmp_path):
    assert storm(tmp_path, SEED, 40) >= 40


@pytest.mark.slow
def test_many_disks_that_a_power_cut_may_leave(tmp_path):
    disks = int(os.environ.get("PERIPLUS_POWER_DISKS", "250"))
    assert storm(tmp_path, SEED + 1, disks) >= disks


class Liar(PowerFiles):
    """Says that it synced and did not."""

    def sync_data(self, fd):
        self._count()


class Forgetful(PowerFiles):
    """Syncs files and not the folders that they are in."""

    def sync_folder(self, path):
        self._count()


@pytest.mark.parametrize("files", [Liar, Forgetful])
def test_a_missing_sync_would_be_found(tmp_path, files):
    with pytest.raises(AssertionError, match="at call"):
        storm(tmp_path, SEED, 200, files)


WRITING = """
import os, sys
sys.path[:0] = {paths!r}
from support import WRITER, item, open_journal
number = 0
with open_journal({root!r}) as journal:
    while True:
        number += 1
        text = f"{{os.getpid()}} {{number}}"
        done = journal.mutate(
            lambda t: t.put("note", item(number % 40, "not"), {{"text": text}}), WRITER, project=not number % 8
        )
        os.write(1, f"{{done.first_seq}} {{text}}\\n".encode())
"""


def run(*words, check=True):
    return subprocess.run([os.fspath(word) for word in words], capture_output=True, text=True, check=check)


@contextlib.contextmanager
def device(image, folder, *options):
    """The file system in ``image``, mounted; ends the test where that is not permitted."""
    folder.mkdir(exist_ok=True)
    done = run("mount", "-o", ",".join(["loop", *options]), image, folder, check=False)
    if done.returncode:
        pytest.skip(f"no loop device can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        run("umount", folder)


@pytest.mark.rig
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_the_power_goes_under_a_real_file_system(tmp_path, kind):
    """The image is copied while sixteen processes write, as the disk would be found; what they had acknowledged by then is
    in the copy."""
    if os.getuid() != 0 or shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"needs root and mkfs.{kind}")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate({"ext4": 48, "xfs": 320, "btrfs": 1024}[kind] << 20)
    # With blocks smaller than a page and little room, Python 3.11 holds the index to its end: see base.disks.
    run(f"mkfs.{kind}", "-q", *(["-b", "4096"] if kind == "ext4" else []), image)
    paths = [os.fspath(Path(__file__).parent), os.fspath(Path(__file__).parents[1] / "src")]
    with device(image, tmp_path / "disk") as disk:
        root = make_store(disk)
        with Journal(root, TYPES) as journal:
            lineage = journal.lineage
        code = WRITING.format(paths=paths, root=root)
        said = [(tmp_path / f"said{number}").open("w+b") for number in range(16)]
        writers = [subprocess.Popen([sys.executable, "-c", code], stdout=file) for file in said]
        cuts = []
        try:
            for number in range(4):
                acknowledged = wait_for([Path(file.name) for file in said], 640 * (number + 1))
                for writer in writers:
                    writer.send_signal(signal.SIGSTOP)
                copy = tmp_path / f"cut{number}"
                run("cp", "--sparse=always", image, copy)
                for writer in writers:
                    writer.send_signal(signal.SIGCONT)
                cuts.append((copy, acknowledged))
        finally:
            for writer, file in zip(writers, said, strict=True):
                writer.kill()
                writer.wait()
                file.close()
    for copy, acknowledged in cuts:
        with device(copy, tmp_path / "found", *(["nouuid"] if kind == "xfs" else [])) as found:
            store = os.fspath(found / ".periplus")
            with Journal(store, TYPES, files=AnotherBoot()) as journal:
                assert journal.damage is None, journal.damage
                texts = {
                    entry.record.seq: bytes(entry.record.payload).decode() for _, entry in journal.entries(lineage)
                }
                assert list(texts) == list(range(1, len(texts) + 1))
                for line in acknowledged:
                    seq, _, text = line.partition(" ")
                    assert f'"{text}"' in texts[int(seq)], "an acknowledged record is lost"
                journal.mutate(put(99, "goes on"), WRITER)
                assert examine(journal).exit_code in (0, 1)
        assert len(acknowledged) > 40


def wait_for(files, least):
    """The lines of ``files``, once there are ``least`` of them together."""
    until = time.monotonic() + 60
    while True:
        lines = [line for file in files for line in file.read_text().split("\n")[:-1]]
        if len(lines) >= least:
            return lines
        assert time.monotonic() < until, "the writers do not write"
        time.sleep(0.05)
