"""A temporary file that somebody is at is no leftover: it gets its name yet, whoever tidies up meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from periplus.base.files import Files, leftover, write_atomic, write_new
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from periplus.journal.care.repair import repair
from support import WRITER, item, make_store, open_journal

LEFT = "a temporary file of an interrupted write"


class RepairingMeanwhile(Files):
    """Somebody repairs the store when a file is whole, and before it gets its name."""

    def __init__(self, root):
        super().__init__()
        self.root = root
        self.told = None

    def replace(self, source, target):
        if self.told is None:
            with open_journal(self.root) as other:
                self.told = [one.what for one in examine(other).problems], [one.what for one in repair(other, WRITER)]
        super().replace(source, target)


@pytest.fixture
def root(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "one"}), WRITER)
    return root


def test_a_repair_leaves_what_somebody_is_at(root):
    """It was parked under his hands: what he wrote was refused as a file that is not there."""
    files = RepairingMeanwhile(root)
    with open_journal(root, files) as journal:
        digest = journal.objects.put(b"an object that a trail will name")
        assert files.told == ([], [])
        assert journal.objects.get(digest)


def test_what_is_taken_before_it_is_held_is_made_anew(tmp_path):
    """Between the making of a file and its lock somebody may take it for a leftover."""
    taken = []

    class TakenAtOnce(Files):
        def open(self, path, flags, mode=0o644):
            fd = super().open(path, flags, mode)
            if not taken:
                with leftover(path) as is_left:
                    assert is_left
                    taken.append(Path(path).rename(tmp_path.parent / "parked"))
            return fd

    write_atomic(TakenAtOnce(), os.fspath(tmp_path / "file"), b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert taken[0].read_bytes() == b""


@pytest.mark.parametrize("write", [write_atomic, write_new])
def test_it_is_held_until_it_has_its_name_and_no_longer(tmp_path, write):
    path, seen = tmp_path / "file", []

    class Looking(Files):
        def sync(self, fd):
            (temporary,) = tmp_path.iterdir()
            with leftover(os.fspath(temporary)) as is_left:
                seen.append(is_left)
            super().sync(fd)

    write(Looking(), os.fspath(path), b"whole")
    assert seen == [False]
    with leftover(os.fspath(path)) as is_left:
        assert is_left
    with leftover(os.fspath(tmp_path / "none")) as is_left:
        assert is_left


def test_a_checkpoint_that_is_being_made_is_left_alone(root):
    folder = Path(root, "journal", "checkpoints")
    folder.mkdir(exist_ok=True)
    path = folder / ".000000000001.jsonl.1.01234567.tmp"
    path.write_bytes(b"half")
    with open_journal(root) as journal:
        lock = Lock(journal.layout.checkpoint_lock)
        with lock.holding():
            assert repair(journal, WRITER) == []
        lock.close()
        assert [one.what for one in repair(journal, WRITER)] == [f"{LEFT} is parked"]
    assert not path.exists()
