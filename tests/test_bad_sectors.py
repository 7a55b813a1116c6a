"""A disk that does not give back what it holds: one block, a whole segment, for good or for a moment."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from periplus.base.errors import PeriplusError
from periplus.journal.care.doctor import examine
from periplus.journal.care.repair import repair
from support import WRITER, item, make_store, open_journal, remove_index
from test_journal_damage import put

COUNT = 60


class BadDisk:
    """No read of a file that covers one of the bytes ``bad`` succeeds, as long as the file is the same."""

    def __init__(self, path, bad, patch):
        status = os.stat(path)
        self.place, self.bad = (status.st_dev, status.st_ino), bad
        self.pread = os.pread
        patch.setattr(os, "pread", self.read)

    def read(self, fd, size, offset):
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) == self.place and self.bad.start < offset + size and offset < self.bad.stop:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.pread(fd, size, offset)


@pytest.fixture(params=["index", "no index"])
def store(request, tmp_path):
    """Three segments of some 20 records each; with an index that has seen them, or none. Root, segments, a copy."""
    root = make_store(tmp_path / "store")
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 30000\n")
    with open_journal(root) as journal:
        for number in range(COUNT):
            journal.mutate(put(number, f"{number} " + "x" * 1000), WRITER)
    shutil.copytree(root, tmp_path / "copy")
    if request.param == "no index":
        remove_index(root)
    segments = sorted(Path(root, "journal").glob("lin_*/0*.jsonl"))
    assert len(segments) >= 2
    return root, segments, os.fspath(tmp_path / "copy")


def spoilt(path, bad):
    """The numbers of the records that lie in these bytes."""
    at, found = 0, set()
    for line in path.read_bytes().splitlines(keepends=True):
        if b'"item_id"' in line and at < bad.stop and bad.start < at + len(line):
            found.add(int(line.partition(b'"seq":')[2].partition(b",")[0]) - 1)
        at += len(line)
    return found


@pytest.mark.parametrize("which", [0, -1], ids=["closed", "newest"])
def test_a_block_that_cannot_be_read_takes_only_what_lies_in_it(store, which, monkeypatch):
    root, segments, _ = store
    path = segments[which]
    bad = range(8192, 12_288)
    gone = spoilt(path, bad)
    assert 2 <= len(gone) <= 6
    before = path.read_bytes()
    is_indexed = Path(root, "index.sqlite").exists()
    BadDisk(path, bad, monkeypatch)
    with open_journal(root) as journal:
        found = examine(journal)
        told = [problem for problem in found.problems if problem.path == os.fspath(path)]
        assert found.exit_code == 3
        assert "Input/output error" in told[0].what
        assert {problem.seq - 1 for problem in told} & gone, told
        if is_indexed:
            named = "".join(problem.what for problem in told)
            assert {number for number in range(COUNT) if item(number) in named} == gone, named
        held = {entity.item_id for entity in journal.entities()}
        assert {item(number) for number in range(COUNT) if number not in gone} <= held, "the rest is served"
        records = [entry.record.seq - 1 for _, entry in journal.entries(journal.lineage, salvage=True)]
        assert records == [number for number in range(COUNT) if number not in gone]
    assert path.read_bytes() == before


@pytest.mark.parametrize("which", [0, -1], ids=["closed", "newest"])
def test_nothing_is_written_behind_what_cannot_be_read_and_it_is_over_when_the_disk_is_well(store, which, monkeypatch):
    root, segments, _ = store
    path = segments[which]
    before = {one: one.read_bytes() for one in segments}
    with monkeypatch.context() as patch:
        BadDisk(path, range(path.stat().st_size), patch)
        with open_journal(root) as journal:
            kept = {item(number) for number in range(COUNT)} - {
                item(number) for number in spoilt(path, range(path.stat().st_size))
            }
            assert kept <= {entity.item_id for entity in journal.entities()}
            assert examine(journal).exit_code == 3
            if which == -1 or journal.damage is not None:
                with pytest.raises(PeriplusError) as caught:
                    journal.mutate(put(1, "refused"), WRITER)
                assert caught.value.exit_code == 3
                assert caught.value.safe
    assert {one: one.read_bytes() for one in segments} == before
    with open_journal(root) as journal:
        assert journal.damage is None
        assert len(list(journal.entities())) == COUNT
        assert journal.mutate(put(1, "goes on"), WRITER).first_seq == COUNT + 1
        assert examine(journal).exit_code == 0


def test_a_copy_brings_back_what_the_disk_keeps(store, monkeypatch):
    """The segment is written anew, and the bad one parked: its blocks are nobody's any more."""
    root, segments, copy = store
    path = segments[0]
    before = path.read_bytes()
    bad = BadDisk(path, range(8192, 12_288), monkeypatch)
    with open_journal(root) as journal:
        done = repair(journal, WRITER, sources=[copy])
        assert done
    assert path.read_bytes() == before
    (parked,) = Path(root, "parked").rglob(path.name)
    assert parked.stat().st_ino == bad.place[1], "the file itself: somebody may have the means to read it"
    with open_journal(root) as journal:
        assert journal.damage is None
        assert len(list(journal.entities())) == COUNT
        assert examine(journal).exit_code in (0, 1)
