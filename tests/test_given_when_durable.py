"""What a store gives to other clones, cursors and index is all that is durable there and no more: also where the mark that says how far that is was torn, lags, or never was."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.errors import OutcomeUnknownError
from periplus.base.files import Files
from periplus.base.filesystem.file_systems import MappingSpace
from periplus.journal import Journal
from periplus.journal.care.unconfirmed_records import list_unconfirmed
from periplus.journal.carriers import FolderCarrier, open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.history.cursors import Reader
from periplus.journal.history.log import RecordFilter, newest
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import read_settings
from support import TYPES, WRITER, FailingFiles, Stop, item, make_store, open_journal


def write(root, *numbers):
    with open_journal(root) as journal:
        for number in numbers:
            journal.mutate(lambda t, number=number: t.put("decision", item(number), {"text": f"n{number}"}), WRITER)
        return journal.lineage


@pytest.fixture
def ada(tmp_path):
    root = make_store(tmp_path / "ada", SystemClock())
    write(root, 1, 2, 3)
    return Path(root)


@pytest.fixture
def bob(tmp_path, ada):
    root = tmp_path / "bob" / ".periplus"
    root.mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        (root / name).write_bytes((ada / name).read_bytes())
    return root


def taken(bob, ada):
    """The seqs of Ada's records that Bob has, after he took them from her folder."""
    with open_journal(bob) as journal:
        report = sync(journal, open_folder(str(ada), Files()))
        assert report.refusals == []
        return [entry.record.seq for name in journal.lineages() for _, entry in journal.entries(name)]


def tear(mark):
    """As a writer leaves it that was killed within it."""
    data = mark.read_bytes()
    mark.write_bytes(data[:100] + b" " * (len(data) - 100))


@pytest.mark.parametrize("how", [tear, Path.unlink])
def test_a_mark_that_was_torn_keeps_nothing_at_home(ada, bob, how):
    """Nothing at all was taken, and both sides were said to be alike, until the other clone wrote again."""
    how(ada / "journal" / "durable")
    assert taken(bob, ada) == [1, 2, 3]


@pytest.mark.parametrize("rolls", [False, True])
def test_without_mark_and_map_the_records_say_how_far_they_are_durable(ada, bob, rolls):
    with open_journal(ada) as journal:
        if rolls:
            journal.roll()
    tear(ada / "journal" / "durable")
    (ada / "journal" / "flush").unlink()
    assert taken(bob, ada) == [1, 2, 3][: 3 if rolls else 2]  # nothing says it of the last one, but a segment behind it
    write(ada, 4)
    assert taken(bob, ada) == [1, 2, 3, 4]


def test_a_mark_that_lags_behind_the_map_keeps_nothing_at_home(ada, bob):
    """Who led a sync marks no more than his own: what others wrote before it was acknowledged, and not given."""
    mark = ada / "journal" / "durable"
    before = mark.read_bytes()
    write(ada, 4)
    mark.write_bytes(before)
    assert taken(bob, ada) == [1, 2, 3, 4]


def test_a_map_that_says_more_than_there_is_states_no_damage(ada, bob):
    segment, mark = next((ada / "journal").glob("lin_*/*.jsonl")), ada / "journal" / "durable"
    before = segment.read_bytes(), mark.read_bytes()
    write(ada, 4)
    segment.write_bytes(before[0])
    mark.write_bytes(before[1])
    assert taken(bob, ada) == [1, 2, 3]


def test_what_is_damaged_where_no_mark_is_left_is_still_refused(ada, bob):
    tear(ada / "journal" / "durable")
    segment = next((ada / "journal").glob("lin_*/*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'"segment"', b'"sEgment"', 1))
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(str(ada), Files())).refusals


def writing(root, number, acknowledged):
    """A process that writes until it is killed; each text is written to ``acknowledged`` once it is."""
    pid = os.fork()
    if pid:
        return pid
    try:
        with open_journal(root) as journal:
            for count in range(10_000):
                text = f"{number}.{count}"
                journal.mutate(
                    lambda t, text=text, count=count: t.put("decision", item(1000 * number + count), {"text": text}),
                    WRITER,
                )
                os.write(acknowledged, f"{text}\n".encode())
    finally:
        os._exit(1)


@pytest.mark.parametrize("seed", range(6))
def test_what_writers_that_are_killed_were_told_is_taken_by_another_clone(ada, bob, seed):
    """Killed at any moment, and nobody writes behind them: who takes from the folder has all that was acknowledged, at once."""
    chance = random.Random(seed)
    reader, acknowledged = os.pipe()
    writers = [writing(ada, number, acknowledged) for number in range(1, 4)]
    os.close(acknowledged)
    with open(reader, encoding="ascii") as lines:
        told = [next(lines).strip() for _ in range(chance.randrange(3, 60))]
        chance.shuffle(writers)
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        told += [line.strip() for line in lines]
    taken(bob, ada)
    with open_journal(bob) as journal:
        texts = {entity.value["text"] for entity in journal.entities("decision")}
    assert set(told) <= texts


def looked_at(root):
    """The seqs that a reader is handed, and those in the index."""
    with open_journal(root) as journal:
        journal.project()
        handed = [record.seq for record in Reader(journal, "me").look().records]
        return handed, [entry.next_seq - 1 for entry in journal.index.watermarks().values()]


def the_power_goes(root, kept):
    """What no sync covered is gone from the segment; the index was on the disk already."""
    segment = next((root / "journal").glob("lin_*/*.jsonl"))
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[: 1 + kept]))
    (root / "journal" / "flush").unlink()  # of an earlier boot


def unsynced(journal):
    journal.mutate(lambda t: t.observe({"saw": "1"}), WRITER, durable=False)


def failed(journal):
    with pytest.raises(OutcomeUnknownError):
        journal.mutate(lambda t: t.put("decision", item(1), {"text": "who knows"}), WRITER, key="k")


@pytest.mark.parametrize("write_it", [unsynced, failed])
def test_before_the_first_sync_nothing_is_handed_out_or_indexed(tmp_path, write_it):
    """There is no mark yet. The index had the record all the same: after a power cut the store, then empty, was taken for one put back."""
    root = Path(make_store(tmp_path, SystemClock()))
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal:
        write_it(journal)
    assert looked_at(root) == ([], [])
    assert not (root / "journal" / "durable").exists()
    assert list((root / "entities").glob("*/*")) == []
    the_power_goes(root, 0)
    write(root, 2)
    assert looked_at(root) == ([1], [1])


class Replacing(Files):
    """Stops before a file whose name ends with ``name`` is put in its place."""

    name = ""

    def replace(self, source, target):
        if self.name and target.endswith(self.name):
            raise Stop
        super().replace(source, target)


@pytest.mark.parametrize("name", [".parked", ".jsonl", ".poisoned"])
def test_a_writer_who_is_killed_while_he_leaves_a_segment_makes_nothing_of_it_durable(tmp_path, name):
    """The map says nothing then. It was taken for none: what had not been synced went into index and cursors, and after a power cut the store
    was taken for one put back.
    """
    root = Path(make_store(tmp_path, SystemClock()))
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal:
        failed(journal)
    files = Replacing()
    with open_journal(root, files) as journal:
        files.name = name
        with pytest.raises(Stop):
            journal.mutate(lambda t: t.put("decision", item(2), {"text": "n2"}), WRITER)
        files.name = ""
    assert looked_at(root) == ([], [])
    the_power_goes(root, 0)
    write(root, 3)
    assert looked_at(root) == ([1], [1])


def test_where_mark_and_map_say_nothing_what_lies_before_the_newest_segment_is_durable(ada):
    with open_journal(ada) as journal:
        journal.roll()
    with open_journal(ada, FailingFiles("sync_data", errno.EIO)) as journal:
        failed(journal)
    files = Replacing()
    with open_journal(ada, files) as journal:
        files.name = ".parked"
        with pytest.raises(Stop):
            journal.mutate(lambda t: t.put("decision", item(5), {"text": "n5"}), WRITER)
        files.name = ""
    for name in ("journal/durable", "index.sqlite"):
        (ada / name).unlink()
    assert looked_at(ada) == ([1, 2, 3], [3])


@pytest.mark.parametrize("how", [tear, Path.unlink])
def test_where_the_mark_is_lost_no_more_is_handed_out_than_the_map_says(ada, how):
    with open_journal(ada) as journal:
        unsynced(journal)
    how(ada / "journal" / "durable")
    (ada / "index.sqlite").unlink()  # it knows what was durable already
    assert looked_at(ada) == ([1, 2, 3], [3])
    the_power_goes(ada, 3)
    write(ada, 4)
    assert looked_at(ada) == ([1, 2, 3, 4], [4])


def test_what_was_synced_by_another_is_in_log_cursors_and_files_at_once(ada):
    """The mark is that of who led the sync, which covered more. What was acknowledged was not to be seen in `log` until somebody wrote again."""
    mark = ada / "journal" / "durable"
    before = mark.read_bytes()
    with open_journal(ada) as journal:
        journal.mutate(lambda t: t.put("decision", item(4), {"text": "n4"}), WRITER, project=False)
    mark.write_bytes(before)
    with open_journal(ada) as journal:
        page = newest(journal, RecordFilter(), lineages=journal.lineages(), before={}, limit=10)
        assert [record.seq for record in page.records] == [4, 3, 2, 1]
    assert looked_at(ada) == ([1, 2, 3, 4], [4])
    assert (ada / "entities" / "decision" / f"{item(4)}.json").exists()


class LaterBoot(Files):
    """The machine was started since; ``boot`` is what the system says of that."""

    def __init__(self, boot):
        self.boot = boot

    def boot_id(self):
        return self.boot


@pytest.mark.parametrize(
    ("boot", "given"), [("another", [1, 2, 3, 4]), ("unknown 1", [1, 2, 3]), ("started 1", [1, 2, 3])]
)
def test_after_a_start_of_the_machine_another_clone_gets_what_is_there(ada, bob, boot, given):
    mark = ada / "journal" / "durable"
    before = mark.read_bytes()
    write(ada, 4)
    mark.write_bytes(before)
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(str(ada), LaterBoot(boot)), takes_only=True).refusals == []
        assert [entry.record.seq for name in journal.lineages() for _, entry in journal.entries(name)] == given


@pytest.mark.parametrize(
    ("boot", "listed"), [("another", [4, 3, 2, 1]), ("unknown 1", [3, 2, 1]), ("started 1", [3, 2, 1])]
)
def test_after_a_start_of_the_machine_what_is_there_was_on_the_disk(ada, tmp_path, boot, listed):
    """The map is of before, and the mark lagged: `log` and `sync` left the last record out until somebody wrote. Where the system does not
    say when it was started, or says a time that moves with the clock, nobody knows.
    """
    mark = ada / "journal" / "durable"
    before = mark.read_bytes()
    write(ada, 4)
    (ada / "index.sqlite").unlink()
    mark.write_bytes(before)
    files = LaterBoot(boot)
    with open_journal(ada, files) as journal:
        page = newest(journal, RecordFilter(), lineages=journal.lineages(), before={}, limit=10)
        assert [record.seq for record in page.records] == listed
        (tmp_path / "place").mkdir()
        (sent,) = sync(journal, open_folder(str(tmp_path / "place"), files)).transfers
        assert (sent.records, sent.refused) == (4, None)
        assert mark.read_bytes() != before, "a sync of our own has covered it by now"


def test_who_writes_without_a_map_says_that_one_of_an_earlier_start_says_nothing_more(ada, bob, monkeypatch):
    """On a nearly full disk nobody maps the file: what was written there and not synced counted as of before the start."""
    monkeypatch.setattr(MappingSpace, "is_enough", lambda _: False)
    files = LaterBoot("another")
    with open_journal(ada, files) as journal:
        unsynced(journal)
    with open_journal(ada, files) as journal:
        journal.project()
        assert [record.seq for record in Reader(journal, "me").look().records] == [1, 2, 3]
        assert [entry.next_seq - 1 for entry in journal.index.watermarks().values()] == [3]
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(str(ada), files), takes_only=True).refusals == []
        assert [entry.record.seq for name in journal.lineages() for _, entry in journal.entries(name)] == [1, 2, 3]
    monkeypatch.undo()
    with open_journal(ada, files) as journal:
        journal.mutate(lambda t: t.put("decision", item(5), {"text": "n5"}), WRITER)
        assert [record.seq for record in Reader(journal, "me").look().records] == [1, 2, 3, 4, 5]


def test_a_map_that_was_cut_off_says_nothing_of_an_earlier_start(ada, bob):
    mark = ada / "journal" / "durable"
    before = mark.read_bytes()
    write(ada, 4)
    mark.write_bytes(before)
    os.truncate(ada / "journal" / "flush", 64)
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(str(ada), LaterBoot("another")), takes_only=True).refusals == []
        assert [entry.record.seq for name in journal.lineages() for _, entry in journal.entries(name)] == [1, 2, 3]


def test_a_map_of_another_machine_says_nothing_of_a_start_of_this_one(ada, bob):
    """A folder that is shared: whoever writes it may be at it there."""
    mark, lineage = ada / "journal" / "durable", ada / "journal" / "lineage.json"
    before = mark.read_bytes()
    write(ada, 4)
    mark.write_bytes(before)
    lineage.write_text(json.dumps(json.loads(lineage.read_text()) | {"host": "elsewhere", "boot": "another"}))
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(str(ada), LaterBoot("another")), takes_only=True).refusals == []
        assert [entry.record.seq for name in journal.lineages() for _, entry in journal.entries(name)] == [1, 2, 3]


def test_a_copy_that_was_made_while_its_store_was_written_says_no_more_than_it_has(ada, tmp_path):
    """The segment was copied before the map."""
    mark = ada / "journal" / "durable"
    before = mark.read_bytes()
    left = write(ada, 4)
    mark.write_bytes(before)
    copied = tmp_path / "copied" / ".periplus"
    shutil.copytree(ada, copied)
    (segment,) = (copied / "journal" / left).glob("*.jsonl")
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-1]))
    (copied / "index.sqlite").unlink()
    write(copied, 5)
    with open_journal(copied) as journal:
        assert journal.own.left == {left: 3}
        assert journal.damage is None


class WrittenMeanwhile(FolderCarrier):
    """A clone in which somebody writes, the first since the machine was started, when its newest segment is about to be read from elsewhere."""

    def __init__(self, root, files, do):
        super().__init__(os.fspath(root), files, store=read_settings(Layout(os.fspath(root))).store, is_store=True)
        self.do = do

    def fetch(self, lineage, segment):
        do, self.do = self.do, None
        if do is not None:
            do()
        return super().fetch(lineage, segment)


def test_what_somebody_writes_while_it_is_found_out_that_nobody_has_is_not_given(ada, bob):
    files = LaterBoot("another")

    def begins():
        with open_journal(ada, files) as journal:
            unsynced(journal)

    with open_journal(bob) as journal:
        assert sync(journal, WrittenMeanwhile(ada, files, begins), takes_only=True).refusals == []
        assert [entry.record.seq for name in journal.lineages() for _, entry in journal.entries(name)] == [1, 2, 3]


def test_what_somebody_writes_first_while_the_index_is_filled_waits_for_its_sync(ada):
    """Nobody had written since the start of the machine when that was asked: all that was read went into the index, and a power cut within
    the sync that was on its way left a store that was taken for one put back.
    """
    with open_journal(ada) as journal:
        journal.roll()
        journal.mutate(lambda t: t.put("decision", item(4), {"text": "n4"}), WRITER)
    for name in ("index.sqlite", "journal/durable"):
        (ada / name).unlink()
    files, begun = LaterBoot("another"), []

    def begins(_done, _total):
        if not begun:
            begun.append(1)
            with open_journal(ada, files) as journal:
                unsynced(journal)

    with Journal(os.fspath(ada), TYPES, files=files, progress=begins) as journal:
        assert begun
        indexed = [entry.next_seq - 1 for entry in journal.index.watermarks().values()]
        assert indexed == [3], "what lies before the newest segment; of that nothing says so by now"
    with open_journal(ada, files) as journal:
        assert journal.get("decision", item(4)) is not None
        journal.settle(WRITER)
        journal.project()
        assert [entry.next_seq - 1 for entry in journal.index.watermarks().values()] == [5]


@pytest.mark.parametrize(("boot", "unsure"), [("", [5]), ("another", []), ("unknown 1", [5])])
def test_what_a_failed_sync_left_is_unsure_until_the_machine_is_started(ada, boot, unsure):
    """What is there then was on the disk: `log` showed it as any record, and named it as unsure besides."""
    with open_journal(ada) as journal:
        unsynced(journal)
        assert list_unconfirmed(journal) == [], "no sync of it failed"
        journal.settle(WRITER)
    with open_journal(ada, FailingFiles("sync_data", errno.EIO)) as journal:
        failed(journal)
    with open_journal(ada, LaterBoot(boot) if boot else None) as journal:
        page = newest(journal, RecordFilter(), lineages=journal.lineages(), before={}, limit=10)
        assert [record.seq for record in page.records] == [5, 4, 3, 2, 1][len(unsure) :]
        assert [record.seq for record in list_unconfirmed(journal)] == unsure
