"""A repair beside others: what it works out takes nobody's lock, and what they write meanwhile stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.process.locks import Lock
from periplus.journal import Journal
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from support import TYPES, WRITER, item, make_store, open_journal


def put(number, text):
    return lambda t: t.put("decision", item(number), {"text": text}, summary=text)


class Between(dict):
    """The types of a store; while a repair works out what a record may have said it asks them, and another does its ``deed`` then."""

    def __init__(self, root, deed, times):
        super().__init__(TYPES)
        self.root = root
        self.deed = deed
        self.times = times
        self.done = self.met_lock = 0

    def __contains__(self, name):
        if self.times:
            self.times -= 1
            lock = Lock(os.path.join(self.root, "journal/lock"))
            is_free = lock.try_take()
            if is_free:
                lock.release()
            lock.close()
            self.met_lock += not is_free
            if is_free:
                self.done += 1
                self.deed(self.done)
        return super().__contains__(name)


@pytest.fixture
def root(tmp_path):
    """The third record's content is lost in the newest segment; the index has its place."""
    root = make_store(tmp_path, SystemClock())
    with open_journal(root) as journal:
        for number in range(6):
            journal.mutate(put(number, f"text {number} " + "long enough for a stub " * 10), WRITER)
    path = next(Path(root, "journal").glob("lin_*/*.jsonl"))
    data = path.read_bytes()
    at = data.find(b'"seq":3,')
    path.write_bytes(data[: at + 20] + b"?" * 150 + data[at + 170 :])
    return root


def said(root):
    with open_journal(root) as journal:
        journal.project()
        assert [one for one in examine(journal).problems if one.severity != "note"] == []
        return {entity.item_id: entity.value["text"].split(" long")[0] for entity in journal.entities()}


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2, 100])
def test_what_others_write_while_a_segment_is_prepared_is_not_lost(root, times):
    """The lock was held for as long as all records of a store and of its copies take to read; nobody could write meanwhile."""

    def write(number):
        with open_journal(root) as other:
            other.mutate(put(20 + number, f"meanwhile {number}"), WRITER)

    types = Between(root, write, times)
    with Journal(root, types, clock=SystemClock()) as journal:
        assert repair(journal, WRITER)
    assert types.done >= 1
    assert (types.met_lock > 0) == (times == 100), "it is prepared under the lock in the end, and not before"
    wanted = {item(number): f"text {number}" for number in range(6)}
    assert said(root) == wanted | {item(20 + n): f"meanwhile {n}" for n in range(1, types.done + 1)}


@pytest.mark.slow
def test_a_repair_beside_a_repair_finds_nothing_left_to_do(root, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)

    def mend(_number):
        with open_journal(root) as other:
            assert repair(other, WRITER)

    types = Between(root, mend, 1)
    with Journal(root, types, clock=SystemClock()) as journal:
        repair(journal, WRITER)
    assert types.done == 1
    assert said(root) == {item(number): f"text {number}" for number in range(6)}
    with open_journal(root) as journal:
        stubs = [entry.record.seq for _, entry in journal.entries(journal.lineage) if entry.record.is_stub]
        assert stubs == [3], "it is given up once"
        versions = [entry for _, entry in journal.entries(journal.lineage) if entry.record.item_id == item(2)]
        assert len(versions) == 2, "what it said is written again once"


@pytest.fixture
def emptied(tmp_path):
    """A store and its copy, the record and the object with what the note said first."""
    root = make_store(tmp_path / "of objects", SystemClock())
    with open_journal(root) as journal:
        first = journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "secret " * 20_000}), WRITER)
        journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "harmless"}), WRITER)
        (digest,) = journal.objects.digests()
    copy = os.fspath(tmp_path / "copy")
    shutil.copytree(root, copy)
    return root, copy, first.first_seq, digest


@pytest.mark.parametrize("at", range(2))
def test_an_object_that_is_redacted_beside_a_repair_is_not_put_back(emptied, at):
    """What was redacted was asked once, before the objects: one that went while they were looked at came back from a copy, for good."""
    root, copy, seq, digest = emptied
    calls = []

    def redact_now(*_):
        calls.append(None)
        if len(calls) == at + 1:
            with open_journal(root) as other:
                redact(other, WRITER, seqs=[seq], reason="a secret")

    with open_journal(root) as journal:
        repair(journal, WRITER, sources=[copy], progress=redact_now)
        assert len(calls) > at
        assert not journal.objects.has(digest)
        assert [one for one in examine(journal).problems if one.severity != "note"] == []
