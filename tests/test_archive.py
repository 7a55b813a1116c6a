"""The archive: segments that checkpoints made redundant are parked, and whoever needs them still finds them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from periplus.journal.archive import move_to_archive
from periplus.journal.checkpointing import WEIGHT_MIN, checkpoint_files, make_checkpoint, usable_checkpoints
from periplus.journal.doctor import examine
from periplus.journal.lineage import START
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal


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
    for name in os.listdir(root):
        if name.startswith("index.sqlite"):
            os.unlink(os.path.join(root, name))
    with open_journal(root) as journal:
        assert journal.index.has_floors
        assert sorted((entity.item_id, entity.version) for entity in journal.entities()) == expected
        assert not [problem for problem in examine(journal).problems if problem.severity == "error"]
