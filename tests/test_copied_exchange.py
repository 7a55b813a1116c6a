"""A copy of a store that has not written yet takes part in exchanges: what its original wrote, and took out, reaches it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal.care.redaction import redact
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.journal.storage.lineage import read_durable
from support import WRITER, item, make_store, open_journal, settle
from test_exchange import Medium, files_of, put, records, state, stopped_at_every_call, tree
from test_rebase import clone, is_sound, lineage_of

SECRET = "correct horse battery staple"


def exchange(root, other, files=None, **how):
    with open_journal(root) as journal:
        report = sync(journal, open_folder(other, files or Files()), **how)
        assert report.refusals == []
        return report


def copy(root, folder):
    shutil.copytree(root, folder / ".periplus")
    return os.fspath(folder / ".periplus")


def has_written(root):
    with open_journal(root) as journal:
        return bool(journal.lineage)


def indexed(root):
    """What the index has, which searches ask, and no reader's overlay."""
    with open_journal(root) as journal:
        journal.project()
        return sorted((row.lineage, row.seq) for row in journal.index.records("1", (), 1000))


@pytest.fixture
def ada(tmp_path):
    root = make_store(tmp_path / "ada", SystemClock())
    with open_journal(root) as journal:
        for number in range(4):
            journal.mutate(put(number, f"common {number}"), WRITER)
        journal.mutate(put(7, f"the password is {SECRET}"), WRITER)
        journal.mutate(lambda t: t.put("note", item(7, "not"), {"text": SECRET + "n" * 70_000}), WRITER)
        assert make_checkpoint(journal, WRITER)
        journal.project()
    return root


@pytest.fixture
def copied(ada, tmp_path):
    return copy(ada, tmp_path / "copied")


@pytest.fixture
def carol(ada, tmp_path):
    root = clone(ada, tmp_path / "carol")
    with open_journal(root) as journal:
        journal.mutate(put(20, "carol's"), WRITER)
    exchange(root, ada)
    return root


def go_on(ada, *, redacts=False):
    with open_journal(ada) as journal:
        journal.mutate(put(0, "changed since"), WRITER)
        journal.mutate(lambda t: [t.put("decision", item(n), {"text": f"new {n}"}) for n in (8, 9)], WRITER)
        if redacts:
            redact(journal, WRITER, secret=SECRET, reason="pasted by mistake")


WAYS = {
    "the original gives": lambda ada, carol, copied: exchange(ada, copied),
    "another clone gives": lambda ada, carol, copied: (exchange(carol, ada), exchange(carol, copied)),
    "the copy takes": lambda ada, carol, copied: exchange(copied, ada),
    "the copy takes from another clone": lambda ada, carol, copied: (exchange(carol, ada), exchange(copied, carol)),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("redacts", [False, True])
def test_what_the_original_wrote_since_reaches_a_copy_that_has_not_written(ada, carol, copied, way, redacts):
    old = lineage_of(ada)
    named = Path(copied, "journal/lineage.json").read_bytes()
    go_on(ada, redacts=redacts)
    before = records(ada)[old]
    WAYS[way](ada, carol, copied)
    assert records(copied)[old] == records(ada)[old] == before
    assert not has_written(copied)
    assert Path(copied, "journal/lineage.json").read_bytes() == named
    assert [seq for lineage, seq in indexed(copied) if lineage == old] == list(range(1, len(before) + 1))
    if redacts:
        for path in Path(copied).rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert is_sound(copied) == []
    # It writes a lineage of its own, and all come to the same.
    with open_journal(copied) as journal:
        receipt = journal.mutate(put(30, "the copy's own"), WRITER)
        assert (receipt.first_seq, receipt.lineage == old) == (1, False)
    with open_journal(ada) as journal:
        assert journal.mutate(put(31, "the original's"), WRITER).first_seq == len(before) + 1
    for root, other in ((copied, carol), (ada, carol), (copied, carol), (carol, ada)):
        exchange(root, other)
    assert records(ada) == records(copied) == records(carol)
    assert state(ada) == state(copied) == state(carol)
    assert files_of(ada) == files_of(copied) == files_of(carol)
    assert is_sound(ada) == is_sound(copied) == is_sound(carol) == []


@pytest.mark.parametrize("kind", ["exchange", "git"])
def test_what_comes_by_a_medium_is_found_in_a_copy_that_has_not_written(ada, copied, tmp_path, kind):
    medium = Medium(kind, tmp_path, ada)
    old = lineage_of(ada)
    go_on(ada, redacts=True)
    medium.exchange(ada)
    medium.exchange(copied)
    assert not has_written(copied)
    assert indexed(copied) == [(old, seq) for seq in range(1, len(records(ada)[old]) + 1)]
    for path in Path(copied).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("kind", ["exchange", "git"])
def test_a_copy_gives_what_its_original_acknowledged_before_it_writes(ada, tmp_path, kind):
    """The machine was moved, or is gone: nobody else may be there who signs it, and this is the first command."""
    moved = copy(ada, tmp_path / "moved")
    old, whole = lineage_of(ada), records(ada)
    shutil.rmtree(Path(ada).parent)
    medium = Medium(kind, tmp_path, moved)
    before = tree(Path(moved, "journal"))
    said = medium.exchange(moved, dry_run=True)
    assert tree(Path(moved, "journal")) == before
    done = medium.exchange(moved)
    assert [[(one.lineage, one.direction, one.records) for one in report.transfers] for report in (said, done)] == [
        [(old, "out", 7)]
    ] * 2
    assert not has_written(moved)
    assert (said.unsigned, done.unsigned) == ((), ())
    bob = clone(moved, tmp_path / "bob")
    medium.exchange(bob)
    assert records(bob) == whole
    with open_journal(moved) as journal:
        journal.mutate(put(30, "the copy's own"), WRITER)
    medium.exchange(moved)
    medium.exchange(bob)
    assert records(bob) == records(moved)
    assert state(bob) == state(moved)


def test_a_dry_run_says_what_would_go_to_a_copy_and_changes_nothing(ada, copied):
    go_on(ada, redacts=True)
    before = tree(copied)
    said = exchange(ada, copied, dry_run=True)
    assert tree(copied) == before
    done = exchange(ada, copied)
    moved = [[(one.lineage, one.direction, one.first_seq, one.last_seq) for one in report.transfers if one.records]
             for report in (said, done)]  # fmt: skip
    assert moved[0] == moved[1] == [(lineage_of(ada), "out", 8, 14)]
    assert exchange(ada, copied).transfers[0].records == 0


def test_others_have_of_a_copy_what_it_received(ada, carol, copied, tmp_path):
    """Nobody writes that lineage there: its mark is its original's, of when it was copied, and holds nothing back."""
    go_on(ada)
    exchange(carol, ada)
    exchange(carol, copied)
    assert read_durable(os.path.join(copied, "journal/durable")).seq == 7
    dan = clone(ada, tmp_path / "dan")
    exchange(dan, copied)
    assert records(dan)[lineage_of(ada)] == records(ada)[lineage_of(ada)]


def test_what_may_be_another_machines_store_gives_what_its_mark_says(ada, carol):
    """From here it counts as a copy, as a folder does that another machine lends: there somebody may be about to sync a write."""
    old, mark = lineage_of(ada), Path(ada, "journal/durable").read_bytes()
    go_on(ada)
    path = Path(ada, "journal/lineage.json")

    def is_said_to_be_of(host):
        named = {"host": host, "generation": 0, "inode": 1}
        path.write_text(json.dumps(json.loads(path.read_text()) | named))
        Path(ada, "journal/durable").write_bytes(mark)

    is_said_to_be_of("elsewhere")
    exchange(carol, ada)
    assert len(records(carol)[old]) == 7
    is_said_to_be_of(os.uname().nodename)
    exchange(carol, ada)
    assert len(records(carol)[old]) == 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exchange", "git"])
def test_a_copy_from_another_machine_gives_on_what_its_owner_signed(ada, carol, copied, tmp_path, kind):
    medium = Medium(kind, tmp_path, ada)
    path = Path(copied, "journal/lineage.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "elsewhere"}))
    go_on(ada, redacts=True)
    medium.exchange(ada)
    medium.exchange(copied)
    assert not has_written(copied)
    exchange(carol, copied)
    assert records(carol)[lineage_of(ada)] == records(ada)[lineage_of(ada)]


def test_nobody_adds_to_the_lineage_of_an_original(ada, carol, tmp_path):
    """It was put back where it lies: its owner, not who syncs with it, leaves that lineage."""
    backup = copy(ada, tmp_path / "backup")
    go_on(ada)
    exchange(carol, ada)
    shutil.rmtree(ada)
    shutil.copytree(backup, ada)
    settle(ada)
    old, before = lineage_of(ada), tree(Path(ada, "journal"))
    report = exchange(carol, ada)
    assert [one for one in report.transfers if one.lineage == old and one.direction == "out"] == []
    after = tree(Path(ada, "journal"))
    assert {name: after[name] for name in before} == before
    # It takes back what it lost, and finds it at once.
    report = exchange(ada, carol)
    assert report.left == old
    assert [seq for lineage, seq in indexed(ada) if lineage == old] == list(range(1, 11))


def test_a_copy_with_half_a_write_at_its_end_gets_the_whole(ada, carol, tmp_path):
    """Who copied while it was written has bytes that count for nothing: the original may void them and go on."""
    torn = copy(ada, tmp_path / "torn")
    old = lineage_of(ada)
    for root in (ada, torn):
        path = max(Path(root, "journal", old).glob("*.jsonl"))
        path.write_bytes(path.read_bytes() + b'{"v":2,"seq":8,"ts":"20')
    go_on(ada)
    exchange(carol, ada)
    exchange(carol, torn)
    assert records(torn)[old] == records(ada)[old]
    assert is_sound(torn) == is_sound(ada) == []


def test_who_has_a_copy_open_sees_what_comes_before_and_after_its_first_write(ada, copied):
    old = lineage_of(ada)
    with open_journal(copied) as journal:
        go_on(ada, redacts=True)
        exchange(ada, copied)
        journal.refresh()
        assert journal.get("decision", item(7)).value["text"] == "the password is [redacted]"
        assert journal.mutate(put(40, "the copy's own"), WRITER).first_seq == 1
        with open_journal(ada) as other:
            last = other.mutate(put(41, "the original's"), WRITER).last_seq
        exchange(ada, copied)
        journal.refresh()
        journal.project()
        assert [row.seq for row in journal.index.records("lineage = ?", (old,), 100)][-1] == last
        assert journal.mutate(put(42, "the copy's own"), WRITER).first_seq == 2
    for path in Path(copied).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert is_sound(copied) == []


@pytest.mark.slow
def test_a_stop_at_every_call_of_giving_to_a_copy(ada, carol, tmp_path):
    source = copy(ada, tmp_path / "source")
    old = lineage_of(ada)
    common = records(ada)[old]
    go_on(ada, redacts=True)
    exchange(carol, ada)
    whole = records(carol)

    def make(at):
        return copy(source, tmp_path / f"copy{at}")

    def check(root):
        held = records(root)[old]
        assert len(held) >= len(common)
        assert held == whole[old][: len(held)]
        assert not has_written(root)
        exchange(carol, root)
        assert records(root) == whole
        assert state(root) == state(carol)
        for path in Path(root).rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        with open_journal(root) as journal:
            assert journal.mutate(put(50, "a writer goes on"), WRITER).first_seq == 1
        assert is_sound(root) == []

    assert stopped_at_every_call(make, lambda root, files: exchange(carol, root, files), check) > 15
