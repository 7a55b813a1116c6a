"""The archive: segments that checkpoints made redundant are parked, and whoever needs them still finds them."""

from __future__ import annotations

import os
import threading
from errno import ENOSPC
from pathlib import Path

import pytest

from periplus.base.errors import PeriplusError
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, usable_checkpoints
from periplus.journal.checkpoints.creation import WEIGHT_MIN, WORK_BYTES_MAX, make_checkpoint, work_due
from periplus.journal.checkpoints.segment_archive import move_to_archive
from periplus.journal.storage.lineage import START
from periplus.project import Project
from support import WRITER, FailingFiles, Stop, StoppingFiles, item, make_store, open_journal, remove_index


def settings(root, text):
    path = Path(root) / "config.toml"
    path.write_text(path.read_text() + text)


def put(journal, number, value):
    return journal.mutate(lambda t: t.put("decision", item(number), {"n": value}), WRITER)


def a_store(folder, segments=6):
    """A store of several segments; only one of them has to stay live."""
    root = make_store(folder)
    settings(root, "live_segments = 1\n")
    with open_journal(root) as journal:
        for number in range(segments):
            put(journal, number, number)
            journal.roll()
    return root


def names(root, lineage, *folder):
    path = Path(root, "journal", lineage, *folder)
    return sorted(one.name for one in path.glob("*.jsonl"))


def lines(journal):
    return [entry.leaf for _, entry in journal.entries(journal.lineage)]


def test_segments_before_the_second_newest_checkpoint_move_and_none_goes(tmp_path):
    root = a_store(tmp_path)
    with open_journal(root) as journal:
        before, lineage = lines(journal), journal.lineage
        old = journal.index.records("1 ORDER BY seq", (), -1)
        assert make_checkpoint(journal, WRITER).archived == [], "the newest alone makes nothing redundant"
        journal.roll()
        put(journal, 1, "more")
        made = make_checkpoint(journal, WRITER)
        assert made.archived == [1, 2, 3, 4, 5, 6]
        assert names(root, lineage, "archive") == [f"{first:012d}.jsonl" for first in made.archived]
        assert lines(journal)[: len(before)] == before
        for record in old:
            assert journal.line_at(record), "what knew its old place finds it"
        assert not [problem for problem in examine(journal).problems if problem.severity == "error"]
        put(journal, 2, "goes on")


def test_live_segments_stay(tmp_path):
    root = a_store(tmp_path)
    settings(root, "")
    config = Path(root) / "config.toml"
    config.write_text(config.read_text().replace("live_segments = 1", "live_segments = 5"))
    with open_journal(root) as journal:
        make_checkpoint(journal, WRITER)
        journal.roll()
        put(journal, 1, "more")
        assert make_checkpoint(journal, WRITER).archived == [1, 2, 3]


def test_a_slow_reader_reads_on_through_the_move(tmp_path):
    root = a_store(tmp_path)
    with open_journal(root) as journal, open_journal(root) as reader:
        make_checkpoint(journal, WRITER)
        chunks = reader.reader(reader.lineage).read_from(START)
        first = next(chunks)
        position = first.end
        journal.roll()
        put(journal, 1, "more")
        assert make_checkpoint(journal, WRITER).archived
        rest = [entry.record.seq for chunk in chunks for entry in chunk.entries]
        assert rest == list(range(2, 8))
        again = [
            entry.record.seq for chunk in reader.reader(reader.lineage).read_from(position) for entry in chunk.entries
        ]
        assert again[: len(rest)] == rest, "a position in an archived segment goes on"
        reader.refresh()
        assert reader.damage is None


def test_both_places_at_once_are_left_alone(tmp_path):
    root = a_store(tmp_path)
    with open_journal(root) as journal:
        archive = Path(root, "journal", journal.lineage, "archive")
        archive.mkdir()
        (archive / "000000000001.jsonl").write_bytes(b"somebody's")
        make_checkpoint(journal, WRITER)
        journal.roll()
        put(journal, 1, "more")
        assert 1 not in make_checkpoint(journal, WRITER).archived
        assert (archive / "000000000001.jsonl").read_bytes() == b"somebody's"


@pytest.mark.slow
def test_a_stop_between_any_two_moves_is_all_right(tmp_path):
    at, was_stopped = 0, True
    while was_stopped:
        root = a_store(tmp_path / str(at), segments=3)
        with open_journal(root) as journal:
            make_checkpoint(journal, WRITER)
            journal.roll()
            put(journal, 1, "more")
            expected = lines(journal)
        config = Path(root) / "config.toml"
        config.write_text(config.read_text().replace("live_segments = 1", "live_segments = 99"))
        with open_journal(root) as journal:
            make_checkpoint(journal, WRITER)
        config.write_text(config.read_text().replace("live_segments = 99", "live_segments = 1"))
        files = StoppingFiles(at)
        journal = open_journal(root, files)
        files.calls.clear()
        was_stopped = False
        try:
            move_to_archive(journal, usable_checkpoints(journal))
        except Stop:
            was_stopped = True
        journal.close()
        with open_journal(root) as journal:
            assert lines(journal)[: len(expected)] == expected
            assert journal.damage is None
            put(journal, 2, "goes on")
            move_to_archive(journal, usable_checkpoints(journal))
            assert names(root, journal.lineage, "archive")[:3] == [f"{seq:012d}.jsonl" for seq in (1, 2, 3)]
        at += 1
    assert at > 5


def about_to_roll(folder, count):
    """A store whose next mutation rolls; ``count`` MiB were written."""
    root = make_store(folder)
    settings(root, "segment_bytes = 500000\n")
    with open_journal(root) as journal, Lock(journal.layout.checkpoint_lock).holding(0.0):  # none is made by now
        for number in range(count):
            journal.mutate(lambda t, n=number: fill(t, n), WRITER, project=False)
    return root


def fill(transaction, number):
    for part in range(18):
        transaction.put("note", item(part, "not"), {"n": number, "text": f"{part % 10}" * 60_000})


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_mutation_that_makes_one_fails_nothing_that_was_written(tmp_path):
    """At whichever write it fills up: what was acknowledged is there, what was refused is not, and it goes on."""
    outcomes = set()
    for after in range(1, 6):
        root = about_to_roll(tmp_path / str(after), 2)
        journal = open_journal(root, FailingFiles("write", ENOSPC, after=after))
        try:
            journal.mutate(lambda t: t.put("note", item(99, "not"), {"n": 1}), WRITER, key="rolling")
            is_acknowledged = True
        except PeriplusError:
            is_acknowledged = False
        outcomes.add((is_acknowledged, bool(checkpoint_files(journal))))
        journal.close()
        with open_journal(root) as journal:
            assert journal.damage is None
            assert (journal.get("note", item(99, "not")) is not None) == is_acknowledged
            assert (
                journal.mutate(lambda t: t.put("note", item(99, "not"), {"n": 1}), WRITER, key="rolling").repeated
                == is_acknowledged
            )
            made = make_checkpoint(journal, WRITER)
            assert made is None or next(usable_checkpoints(journal)).path == made.path
            assert not [problem for problem in examine(journal).problems if problem.severity == "error"]
    assert (True, False) in outcomes, "the checkpoint alone did not fit"


@pytest.mark.slow
def test_a_checkpoint_that_is_much_work_is_left_to_the_command(tmp_path):
    root = about_to_roll(tmp_path, 34)
    with Project(root, WRITER) as project:
        assert work_due(project.journal) > WORK_BYTES_MAX
        project.journal.mutate(
            lambda t: t.put("note", item(99, "not"), {"v": 1, "text": "rolls", "author": "me"}), WRITER
        )
        assert project.journal.end().segment > 1
        assert not checkpoint_files(project.journal)
        assert project.status().is_checkpoint_due
        assert project.compact() is not None
        assert not project.status().is_checkpoint_due


def test_none_is_due_before_as_much_was_written_as_the_last_one_weighs(tmp_path):
    """So what all of them cost together grows with what is written, and not with its square."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:

        def grow(count):
            for _ in range(count):
                journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": os.urandom(30_000).hex()}), WRITER)

        for number in range(40):
            journal.mutate(lambda t, n=number: t.put("decision", item(n), {"text": f"{n:060000d}"}), WRITER)
        journal.roll()
        assert work_due(journal), "nothing was made yet, and more than the least was written"
        made = make_checkpoint(journal, WRITER)
        assert made.size_bytes > 2 * WEIGHT_MIN
        journal.roll()
        grow(made.size_bytes // 60_000 // 2)
        journal.roll()
        since = sum(path.stat().st_size for path in Path(root).rglob("lin_*/*.jsonl") if int(path.stem) > made.seq)
        assert WEIGHT_MIN < since < made.size_bytes
        assert not work_due(journal)
        grow(made.size_bytes // 60_000 // 2 + 2)
        assert work_due(journal)


@pytest.mark.slow
@pytest.mark.parametrize("segment_bytes", [300_000])
def test_a_roll_makes_one_where_it_is_due_while_others_write(tmp_path, segment_bytes):
    root = make_store(tmp_path)
    settings(root, f"segment_bytes = {segment_bytes}\nlive_segments = 1\n")
    failures = []

    def work(worker):
        try:
            with open_journal(root) as journal:
                for number in range(15):
                    value = {"n": number, "text": f"{worker}" * 20_000}
                    journal.mutate(lambda t, v=value: t.put("decision", item(worker), v), WRITER, patience_s=60.0)
        except Exception as error:  # noqa: BLE001 - told below, in the thread that judges
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with open_journal(root) as journal:
        assert checkpoint_files(journal), f"over {WEIGHT_MIN:,} bytes were written"
        assert len(list(usable_checkpoints(journal))) == len(checkpoint_files(journal))
        held = {entity.item_id: entity.value["n"] for entity in journal.entities()}
        assert held == {item(worker): 14 for worker in range(1, 9)}
        expected = sorted((entity.item_id, entity.version) for entity in journal.entities())
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.index.has_floors
        assert sorted((entity.item_id, entity.version) for entity in journal.entities()) == expected
        assert not [problem for problem in examine(journal).problems if problem.severity == "error"]
