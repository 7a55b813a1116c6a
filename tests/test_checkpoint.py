"""Checkpoints: made, verified, announced, loaded; and what becomes of them when a disk, a bit or a process fails."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from errno import ENOSPC
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.errors import DamageError, EnvironmentFailure
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, usable_checkpoints
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.records.record import LINE_BYTES_MAX
from periplus.merkle import Frontier
from periplus.project import Project
from support import (
    WRITER,
    FailingFiles,
    Stop,
    StoppingFiles,
    item,
    make_store,
    open_journal,
    remove_index,
    segment_path,
)


def put(journal, number, value, **more):
    return journal.mutate(lambda t: t.put("decision", item(number), {"n": value}), WRITER, **more)


def filled(folder, count=12, entities=5):
    """A store with a few changes, a tombstone and an object; no checkpoint yet."""
    root = make_store(folder)
    with open_journal(root) as journal:
        for number in range(count):
            put(journal, number % entities, number, key=f"key{number}")
        journal.mutate(lambda t: t.delete("decision", item(0)), WRITER)
        journal.mutate(lambda t: t.put("note", item(9, "not"), {"text": "x" * 70_000}), WRITER)
    return root


def state(journal):
    return [(entity.item_type, entity.item_id, entity.version, entity.rev, entity.heads, entity.payload)
            for entity in journal.entities()]  # fmt: skip


def branched_stores(folder):
    """A store, and a copy of it with a change of its own; returns both roots and the lineage of the copy."""
    root = make_store(folder / "a")
    with open_journal(root) as journal:
        put(journal, 1, "first")
    clone = str(folder / "b" / ".periplus")
    shutil.copytree(root, clone)
    with open_journal(clone) as journal:
        put(journal, 1, "branched")
        return root, clone, journal.lineage


def hide_history(root, journal_lineage, before):
    """Damage every segment that lies before seq ``before`` beyond recognition."""
    folder = Path(root) / "journal" / journal_lineage
    for path in [*folder.glob("*.jsonl"), *folder.glob("archive/*.jsonl")]:
        if int(path.stem) < before:
            path.write_bytes(b"\0" * path.stat().st_size)


def test_loading_takes_the_checkpoint_and_reads_nothing_before_it(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        journal.roll()
        made = make_checkpoint(journal, WRITER)
        put(journal, 1, "after")
        expected, lineage = state(journal), journal.lineage
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.index.floors() == {lineage: made.seq + 1}
        assert state(journal) == expected
    remove_index(root)
    hide_history(root, lineage, made.seq + 1)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert state(journal) == expected
        assert journal.get("decision", item(1)).value == {"n": "after"}
        receipt = put(journal, 2, "more")
        assert journal.get("decision", item(2)).value == {"n": "more"}
        assert receipt.first_seq == made.seq + 3
        assert any(problem.severity == "error" for problem in examine(journal).problems), "doctor still tells"


class NotingFiles(Files):
    """Notes the calls that the order of a checkpoint is made of, with the path that each is of."""

    def __init__(self):
        self.calls = []
        self.paths = {}

    def open(self, path, flags, mode=0o644):
        fd = super().open(path, flags, mode)
        self.paths[fd] = path
        return fd

    def note(self, call, path):
        self.calls.append(
            (call, os.path.basename(path).rpartition(".jsonl")[0].strip(".")[:12] or os.path.basename(path))
        )

    def write(self, fd, data):
        self.note("write", self.paths[fd])
        return super().write(fd, data)

    def sync(self, fd):
        self.note("sync", self.paths[fd])
        super().sync(fd)

    def sync_folder(self, path):
        self.note("sync folder", path)
        super().sync_folder(path)

    def replace(self, source, target):
        self.note("name", target)
        super().replace(source, target)


def test_it_is_on_the_disk_before_it_has_its_name_and_its_name_before_it_is_announced(tmp_path):
    root = filled(tmp_path)
    files = NotingFiles()
    with open_journal(root, files) as journal:
        made = make_checkpoint(journal, WRITER)
        segment = segment_path(journal).stem
    name = f"{made.seq:012d}"
    calls = [one for one in files.calls if one[1] in (name, "checkpoints", segment)]
    assert calls == [
        ("write", name),
        ("sync", name),
        ("name", name),
        ("sync folder", "checkpoints"),
        ("write", segment),
    ]


def test_it_names_the_root_of_the_tree_and_the_objects_that_heads_lie_in(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(
            lambda t: t.put("note", item(9, "not"), {"text": "y" * 80_000}), WRITER
        )  # the one before is no head any more
        made = make_checkpoint(journal, WRITER)
        records = [entry for _, entry in journal.entries(journal.lineage)]
    tree = Frontier()
    tree.extend([entry.leaf for entry in records[: made.seq]])
    lines = list(map(json.loads, Path(made.path).read_bytes().splitlines()))
    announced = next(
        json.loads(bytes(entry.record.payload)) for entry in records if entry.record.action == "checkpoint"
    )
    assert lines[0]["root"] == announced["root"] == tree.root().hex()
    named = [one for line in lines if line["line"] == "objects" for one in line["objects"]]
    assert named == sorted(line["payload_ref"]["sha256"] for line in lines if "payload_ref" in line)
    assert named == [records[made.seq - 1].record.payload_ref.sha256]
    assert (lines[-1]["line"], lines[-1]["objects"], lines[-1]["heads"]) == ("end", 1, 6)


def test_a_key_from_before_the_checkpoint_is_known(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        before = put(journal, 3, "keyed", key="once")
        make_checkpoint(journal, WRITER)
    remove_index(root)
    with open_journal(root) as journal:
        assert put(journal, 3, "other", key="once") == before._replace(repeated=True)
        assert journal.index.has_floors, "the checkpoint knew it"


@pytest.mark.slow
def test_a_mutation_of_thousands_of_records_does_not_keep_checkpoints_from_being_made(tmp_path):
    root, count = filled(tmp_path), 4_500

    def write(transaction):
        for number in range(100, 100 + count):
            transaction.put("note", item(number, "not"), {"text": str(number)})

    with open_journal(root) as journal:
        done = journal.mutate(write, WRITER, key="very many")
        made = make_checkpoint(journal, WRITER)
    with open(made.path, "rb") as file:
        assert max(map(len, file)) < 2 * LINE_BYTES_MAX
    remove_index(root)
    with open_journal(root) as journal:
        assert made.seq + 1 in journal.index.floors().values(), "it is read"
        again = journal.mutate(write, WRITER, key="very many")
        assert again == done._replace(repeated=True)
        assert not [problem for problem in examine(journal).problems if problem.severity == "error"]


def test_making_one_tells_how_far_it_is(tmp_path):
    root, told = filled(tmp_path), list[tuple[int, int]]()
    with open_journal(root) as journal:
        made = make_checkpoint(journal, WRITER, lambda done, total: told.append((done, total)))
        assert told == sorted(told)
        assert told[-1] == (made.seq, made.seq)


def test_history_is_read_when_it_is_asked_for(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        make_checkpoint(journal, WRITER)
        everything = journal.index.records("1 ORDER BY lineage, seq", (), -1)
        expected = state(journal)
    remove_index(root)
    with open_journal(root) as journal:
        assert len(journal.index.records("1", (), -1)) < len(everything)
        journal.need_history()
        assert journal.index.records("1 ORDER BY lineage, seq", (), -1) == everything
        assert not journal.index.has_floors
        assert state(journal) == expected


def test_a_branch_from_before_the_checkpoint_brings_the_history_back(tmp_path):
    """Another lineage knows only an old version: where its change belongs, the checkpoint alone cannot tell."""
    root, clone, other = branched_stores(tmp_path)
    with open_journal(root) as journal:
        assert journal.lineage != other
        put(journal, 1, "second")
        make_checkpoint(journal, WRITER)
    remove_index(root)
    shutil.copytree(Path(clone) / "journal" / other, Path(root) / "journal" / other)
    with open_journal(root) as journal:
        assert not journal.index.has_floors
        entity = journal.get("decision", item(1))
        assert len(entity.heads) == 2
        loaded = state(journal)
        journal.renew_derived()
        assert state(journal) == loaded


@pytest.mark.slow
def test_every_changed_byte_of_a_checkpoint_is_harmless(tmp_path):
    root = filled(tmp_path, count=3, entities=2)
    with open_journal(root) as journal:
        made = make_checkpoint(journal, WRITER)
        data = Path(made.path).read_bytes()
        assert len(list(usable_checkpoints(journal))) == 1
        for at in range(len(data)):
            Path(made.path).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert not list(usable_checkpoints(journal)), at
        for length in range(0, len(data), 7):
            Path(made.path).write_bytes(data[:length])
            assert not list(usable_checkpoints(journal)), length


def test_a_damaged_checkpoint_is_skipped_for_the_one_before_it(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        first = make_checkpoint(journal, WRITER)
        put(journal, 1, "between")
        second = make_checkpoint(journal, WRITER)
        put(journal, 2, "after")
        expected = state(journal)
    Path(second.path).write_bytes(b"")
    remove_index(root)
    with open_journal(root) as journal:
        assert set(journal.index.floors().values()) == {first.seq + 1}
        assert state(journal) == expected
    Path(first.path).unlink()
    remove_index(root)
    with open_journal(root) as journal:
        assert not journal.index.floors()
        assert state(journal) == expected


def test_one_that_is_removed_when_it_was_just_chosen_gives_way_to_what_else_there_is(tmp_path):
    """As a redaction removes them all: the index was left empty, and one that is built beside another failed."""
    root = filled(tmp_path)
    with open_journal(root) as journal:
        made = make_checkpoint(journal, WRITER)
        expected = state(journal)
    remove_index(root)

    def chosen(frame, event, _argument):
        if event == "return" and frame.f_code.co_name == "_digest" and os.path.exists(made.path):
            os.unlink(made.path)

    sys.setprofile(chosen)
    try:
        journal = open_journal(root)
    finally:
        sys.setprofile(None)
    with journal:
        assert not os.path.exists(made.path)
        assert journal.index.watermarks() == {journal.lineage: journal.end()}
        assert state(journal) == expected


def test_one_that_was_never_announced_does_not_count(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        made = make_checkpoint(journal, WRITER)
        lineage = journal.lineage
    segment = Path(root) / "journal" / lineage / "000000000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    assert b'"action":"checkpoint"' in lines[-1]
    segment.write_bytes(b"".join(lines[:-1]))
    (Path(root) / "journal" / "durable").unlink()
    (Path(root) / "journal" / "flush").unlink(missing_ok=True)
    remove_index(root)
    with open_journal(root) as journal:
        assert checkpoint_files(journal) == [(made.seq, made.path)]
        assert not list(usable_checkpoints(journal))
        assert not journal.index.floors()
        assert journal.damage is None


@pytest.mark.slow
def test_a_stop_at_any_call_leaves_a_store_that_goes_on(tmp_path):
    base = tmp_path / "base"
    root = filled(base, count=4)
    with open_journal(root) as journal:
        expected = state(journal)
    at, was_stopped = 0, True
    while was_stopped:
        for share in (0.0, 0.5):
            folder = tmp_path / f"{at}-{share}"
            shutil.copytree(base, folder)
            copy = str(folder / ".periplus")
            files = StoppingFiles(10**9, share)
            with open_journal(copy) as journal:  # the copy's own lineage is not what is tested
                put(journal, 7, "own")
            journal = open_journal(copy, files)
            files.calls.clear()
            files.at = at
            was_stopped = False
            try:
                make_checkpoint(journal, WRITER)
            except Stop:
                was_stopped = True
            journal.close()
            remove_index(copy)
            with open_journal(copy) as journal:
                assert journal.damage is None
                assert [row for row in state(journal) if row[1] != item(7)] == expected
                put(journal, 8, at)
                again = make_checkpoint(journal, WRITER)
                assert next(usable_checkpoints(journal)).path == again.path
            shutil.rmtree(folder)
        at += 1
    assert at > 8


def test_a_full_disk_leaves_nothing_that_counts_and_no_write_notices(tmp_path):
    root = filled(tmp_path)
    with open_journal(root, FailingFiles("write", ENOSPC, after=0)) as journal, pytest.raises(EnvironmentFailure):
        make_checkpoint(journal, WRITER)
    with open_journal(root) as journal:
        assert not checkpoint_files(journal)
        assert os.listdir(journal.layout.checkpoints) == []
        put(journal, 1, "goes on")


class LyingFiles(Files):
    """A disk that keeps another byte than it was given, ``at`` so many bytes into a checkpoint."""

    def __init__(self, at):
        self.at, self.fd, self.written = at, -1, 0

    def open(self, path, flags, mode=0o644):
        fd = super().open(path, flags, mode)
        if os.path.basename(os.path.dirname(path)) == "checkpoints":
            self.fd, self.written = fd, 0
        return fd

    def write(self, fd, data):
        if fd == self.fd:
            data = bytearray(data)
            if 0 <= self.at - self.written < len(data):
                data[self.at - self.written] ^= 0x01
            self.written += len(data)
        return super().write(fd, data)


@pytest.mark.slow
def test_what_the_disk_kept_otherwise_is_found_before_it_counts(tmp_path):
    """It is read back whole before it has its name, and before a record speaks of it."""
    base = filled(tmp_path / "base", count=4)
    with open_journal(base) as journal:
        size = os.path.getsize(make_checkpoint(journal, WRITER).path)
    root = filled(tmp_path / "store", count=4)
    for at in (*range(0, size, 41), size - 1):
        with open_journal(root, LyingFiles(at)) as journal:
            with pytest.raises(DamageError):
                make_checkpoint(journal, WRITER)
            assert os.listdir(journal.layout.checkpoints) == [], at
            assert "checkpoint" not in {entry.record.action for _, entry in journal.entries(journal.lineage)}
    with open_journal(root) as journal:
        assert make_checkpoint(journal, WRITER) is not None


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from("ppppdc")), max_size=25))
def test_from_a_checkpoint_and_from_zero_is_one_state(tmp_path_factory, steps):
    root = make_store(tmp_path_factory.mktemp("any"))
    with open_journal(root) as journal:
        for number, value, what in steps:
            if what == "c":
                make_checkpoint(journal, WRITER) if journal.end().segment else None
            elif what == "d" and journal.get("decision", item(number)):
                journal.mutate(lambda t, number=number: t.delete("decision", item(number)), WRITER)
            else:
                put(journal, number, value)
        expected = state(journal)
    remove_index(root)
    with open_journal(root) as journal:
        assert state(journal) == expected
        journal.need_history()
        assert state(journal) == expected


def test_a_redacted_secret_is_in_no_checkpoint(tmp_path):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        put(journal, 1, "the-secret-word")
        make_checkpoint(journal, WRITER)
        put(journal, 1, "clean")
        make_checkpoint(journal, WRITER)
        redact(journal, WRITER, secret="the-secret-word", reason="it was one")
        expected = state(journal)
        (usable,) = usable_checkpoints(journal)
        assert checkpoint_files(journal) == [(usable.header.seq, usable.path)]
    for path in Path(root).rglob("*"):
        assert not path.is_file() or b"the-secret-word" not in path.read_bytes(), path
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.index.has_floors
        assert state(journal) == expected


def test_who_asks_for_one_waits_for_who_makes_one(tmp_path):
    """It was said that the store was being written, and not free within 0 s."""
    root = make_store(tmp_path)
    with Project(root, WRITER) as project:
        project.journal.mutate(lambda t: t.put("note", item(1, "not"), {"v": 1, "text": "one", "author": "me"}), WRITER)
        lock = Lock(project.journal.layout.checkpoint_lock)
        assert lock.try_take()
        other = threading.Timer(0.2, lock.release)
        other.start()
        assert project.compact() is not None
        other.join()
