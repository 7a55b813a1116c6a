"""Cursors and following: each record once, in order, only when it is durable; whatever stops, nothing is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from periplus.base.errors import DamageError, EnvironmentFailure, NewerFormatError, UsageError
from periplus.journal.care.doctor import examine
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.history.cursors import Reader, check_reader_name, read_cursor, write_cursor
from periplus.journal.history.follow import INTERVAL_MAX_S, INTERVAL_MIN_S, follow
from periplus.journal.history.log import RecordFilter, newest, news
from periplus.journal.index.tables import IndexDamageError
from support import WRITER, FailingFiles, Stop, StoppingFiles, item, make_store, open_journal, segment_path

pytestmark = pytest.mark.quick


def write(journal, *numbers):
    def put_all(transaction):
        for number in numbers:
            transaction.put("decision", item(number), {"text": f"text {number}"}, summary=f"s{number}")

    return journal.mutate(put_all, WRITER)


def small_segments(root, size=1):
    path = Path(root) / "config.toml"
    path.write_text(path.read_text() + f"segment_bytes = {size}\n")


def seqs(found):
    return [record.seq for record in found.records]


# -- cursors -----------------------------------------------------------------------------------------------------------


def test_a_reader_sees_everything_once_in_order(journal):
    reader = Reader(journal, "claude-1")
    assert reader.look().records == []
    write(journal, 1, 2, 3)
    assert seqs(reader.look()) == [1, 2, 3]
    assert seqs(reader.look()) == [1, 2, 3]  # it has not said that it has them
    reader.advance(reader.look())
    assert reader.look().records == []
    write(journal, 4)
    again = Reader(journal, "claude-1")
    assert seqs(again.look()) == [4]
    assert seqs(Reader(journal, "another").look()) == [1, 2, 3, 4]


def test_the_cursor_file_is_as_documented(journal):
    write(journal, 1, 2)
    reader = Reader(journal, "hook")
    reader.advance(reader.look())
    document = json.loads(Path(journal.layout.cursors, "hook.json").read_text())
    assert list(document) == ["format", "last_seq", "read_at", "sum"]
    assert document["format"] == 1
    assert document["last_seq"] == {journal.lineage: 2}
    assert document["read_at"].endswith("Z")


def test_a_limit_leaves_the_rest_for_the_next_look(journal):
    write(journal, *range(1, 8))
    reader = Reader(journal, "slow")
    taken = []
    for more in (True, True, False):
        found = reader.look(limit=3)
        assert found.more is more
        taken.append(seqs(found))
        reader.advance(found)
    assert taken == [[1, 2, 3], [4, 5, 6], [7]]


def test_what_the_filter_leaves_out_counts_as_seen(journal):
    write(journal, 1, 2)
    journal.mutate(lambda t: t.delete("decision", item(1)), WRITER)
    reader = Reader(journal, "filtered")
    found = reader.look(RecordFilter(actions=("delete",)))
    assert seqs(found) == [3]
    reader.advance(found)
    assert reader.look().records == []
    write(journal, 5)
    found = reader.look(RecordFilter(types=("note",)))
    assert found.records == []
    reader.advance(found)
    assert reader.look().records == []


def test_nothing_new_writes_nothing(journal):
    reader = Reader(journal, "idle")
    reader.advance(reader.look())
    assert not os.path.exists(journal.layout.cursors)
    write(journal, 1)
    reader.advance(reader.look())
    before = os.stat(os.path.join(journal.layout.cursors, "idle.json")).st_mtime_ns
    reader.advance(reader.look())
    assert os.stat(os.path.join(journal.layout.cursors, "idle.json")).st_mtime_ns == before


def test_a_cursor_never_goes_back_behind_another_process(journal, root):
    write(journal, 1, 2)
    slow, fast = Reader(journal, "one"), Reader(journal, "one")
    old = slow.look()
    write(journal, 3)
    fast.advance(fast.look())
    slow.advance(old)
    assert Reader(journal, "one").seen == {journal.lineage: 3}


@pytest.mark.parametrize(
    "name", ["", "../up", "a/b", ".hidden", "-x", "A", "é", "a" * 65, "nul\0", "a b", "con:1", "\udc80", "..", "a\n"]
)
def test_names_that_are_no_file_names_are_refused(journal, name):
    with pytest.raises(UsageError, match="not a valid reader name"):
        Reader(journal, name)


@pytest.mark.parametrize("name", ["a", "claude-code.7f3a_1", "0", "a" * 64])
def test_names_that_are_fine(name):
    assert check_reader_name(name) == name


@pytest.mark.parametrize(
    "text",
    [b"", b"\0" * 80, b"{", b'{"format":1}', b'{"format":1,"last_seq":{"lin_x":1},"read_at":""}',
     b'{"format":1,"last_seq":{"lin_0000000000000000":-1},"read_at":""}', b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_cursor_is_said_and_can_be_begun_anew(journal, text):
    write(journal, 1, 2)
    os.makedirs(journal.layout.cursors)
    Path(journal.layout.cursors, "me.json").write_bytes(text)
    with pytest.raises(DamageError, match="not a cursor") as caught:
        Reader(journal, "me").look()
    assert "--since-seq 0" in caught.value.mend
    reader = Reader(journal, "me")
    reader.move({journal.lineage: 1})
    found = reader.look()
    assert seqs(found) == [2]
    reader.advance(found)
    assert read_cursor(journal.layout, "me").last_seq == {journal.lineage: 2}


def test_every_changed_byte_of_a_cursor_is_found(journal):
    """A digit that fell over would be records that are never shown, or shown twice."""
    write(journal, 1, 2)
    reader = Reader(journal, "me")
    reader.advance(reader.look())
    path = Path(journal.layout.cursors, "me.json")
    data = path.read_bytes()
    for at, byte in enumerate(data):
        path.write_bytes(data[:at] + bytes((byte ^ 1,)) + data[at + 1 :])
        with pytest.raises((DamageError, NewerFormatError)):
            read_cursor(journal.layout, "me")
    path.write_bytes(data)
    assert read_cursor(journal.layout, "me").last_seq == {journal.lineage: 2}


@pytest.mark.parametrize(("seq", "is_one"), [(0, True), (2**53 - 1, True), (2**53, False), (-1, False)])
def test_a_cursor_names_seqs_that_there_can_be(journal, seq, is_one):
    write_cursor(journal, "me", {journal.lineage or "lin_0000000000000000": seq})
    if is_one:
        assert [*read_cursor(journal.layout, "me").last_seq.values()] == [seq]
    else:
        with pytest.raises(DamageError, match="names no lineages"):
            read_cursor(journal.layout, "me")


def test_a_cursor_of_a_later_version_is_left_alone(journal):
    os.makedirs(journal.layout.cursors)
    path = Path(journal.layout.cursors, "me.json")
    path.write_text('{"format":2,"last_seq":{},"read_at":"","new":1}')
    with pytest.raises(NewerFormatError):
        Reader(journal, "me").look()
    assert '"new":1' in path.read_text()


def test_a_cursor_beyond_the_end_is_loud(journal):
    write(journal, 1)
    write_cursor(journal, "me", {journal.lineage: 40})
    with pytest.raises(DamageError, match=r"has seen record 40 of lin_.*ends at 1") as caught:
        Reader(journal, "me").look()
    assert "periplus log --reader me --since-seq" in caught.value.mend
    write_cursor(journal, "me", {journal.lineage: 2})
    with pytest.raises(DamageError, match=r"has seen record 2 of lin_.*ends at 1"):
        Reader(journal, "me").look()


def test_who_was_told_where_to_look_on_goes_back_behind_nobody_from_then_on(journal):
    write(journal, 1, 2, 3)
    reader = Reader(journal, "me")
    reader.move({journal.lineage: 0})
    reader.advance(reader.look(limit=1))
    write_cursor(journal, "me", {journal.lineage: 3})
    reader.advance(reader.look(limit=1))
    assert read_cursor(journal.layout, "me").last_seq == {journal.lineage: 3}


def test_where_the_journal_is_damaged_a_cursor_behind_what_is_sound_is_not_called_ahead(journal, root):
    write(journal, 1, 2)
    write(journal, 3)
    reader = Reader(journal, "me")
    reader.advance(reader.look())
    path = segment_path(journal)
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"seq":3', b'"seq":4')]))
    os.unlink(os.path.join(root, "index.sqlite"))  # what it knows is not read again
    with open_journal(root) as again:
        assert again.damage is not None
        assert again.end().next_seq == 3
        assert Reader(again, "me").look().records == []


def test_who_is_told_where_to_look_on_in_one_lineage_stays_where_he_is_in_others(journal):
    write(journal, 1)
    write_cursor(journal, "me", {"lin_0000000000000000": 7})
    reader = Reader(journal, "me")
    reader.move({journal.lineage: 1})
    assert reader.seen == {"lin_0000000000000000": 7, journal.lineage: 1}


def test_missing_segments_are_a_gap_with_what_is_known_of_it(tmp_path):
    root = make_store(tmp_path)
    small_segments(root)
    with open_journal(root) as journal:
        for number in (1, 2, 3):
            write(journal, number)
        reader = Reader(journal, "me")
        reader.advance(reader.look(limit=1))
        segment_path(journal, 2).rename(tmp_path / "away")
        os.unlink(journal.layout.index)
        lineage = journal.lineage
    with open_journal(root) as journal:
        reader = Reader(journal, "me")
        found = reader.look(summary=lambda _, lineage, first, last: {"decision/present": last - first + 1})
        assert seqs(found) == [3]
        assert found.gaps == ((lineage, 2, 2, {"decision/present": 1}),)
        reader.advance(found)
        assert reader.look().gaps == ()


def test_a_gap_says_what_the_index_still_knows(tmp_path):
    """The segments before a checkpoint are gone; what it holds of them is said."""
    root = make_store(tmp_path)
    small_segments(root)
    with open_journal(root) as journal:
        for number in (1, 2, 3):
            write(journal, number)
        make_checkpoint(journal, WRITER)
        write(journal, 4)
        segment_path(journal, 2).rename(tmp_path / "away")
        os.unlink(journal.layout.index)
        lineage = journal.lineage
    with open_journal(root) as journal:
        found = news(journal, {}, RecordFilter(), lineages=[lineage], limit=9)
        assert found.gaps == ((lineage, 2, 2, {"decision/present": 1}),)
        assert (seqs(found), journal.damage) == ([1, 3, 4, 5], None)
        page = newest(journal, RecordFilter(), lineages=[lineage], before={}, limit=9)
        assert (seqs(page), page.gaps) == ([5, 4, 3, 1], found.gaps)
        page = newest(journal, RecordFilter(actions=("create",)), lineages=[lineage], before={}, limit=2)
        assert (seqs(page), page.before) == ([5, 3], {lineage: 3})
        assert len(list(journal.entities())) == 4
        told = [one for one in examine(journal).problems if one.path == journal.layout.index]
        assert told == [], "the index holds what a checkpoint said, and is right"


def test_a_row_that_is_gone_is_no_gap(journal):
    for number in (1, 2, 3):
        write(journal, number)
    journal.project()
    journal.index.end()
    journal.index.db.execute("DELETE FROM records WHERE seq = 2")
    with pytest.raises(IndexDamageError):
        news(journal, {}, RecordFilter(), lineages=[journal.lineage], limit=9)
    found = news(journal, {}, RecordFilter(), lineages=[journal.lineage], limit=9)
    assert (seqs(found), found.gaps) == ([1, 2, 3], ())


def test_a_stop_at_every_call_leaves_the_old_cursor_or_the_new_one(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        write(journal, 1, 2)
        write_cursor(journal, "me", {journal.lineage: 1})
    seen = set()
    for at in range(20):
        for share in (0.0, 0.5, 1.0):
            files = StoppingFiles(-1)
            with open_journal(root, files) as journal:
                write_cursor(journal, "me", {journal.lineage: 1})
                files.calls.clear()
                files.at, files.share = at, share
                reader = Reader(journal, "me")
                found = reader.look()
                assert seqs(found) == [2]
                try:
                    reader.advance(found)
                    done = True
                except Stop:
                    done = False
            with open_journal(root) as journal:
                left = Reader(journal, "me")
                seen.add(left.seen[journal.lineage])
                assert left.seen[journal.lineage] == (2 if done else left.seen[journal.lineage])
                left.advance(left.look())
                assert left.seen == {journal.lineage: 2}
        if done:
            break
    assert done
    assert at >= 5
    assert seen == {1, 2}


def test_a_full_disk_is_said_and_the_old_cursor_stays(tmp_path):
    import errno

    root = make_store(tmp_path)
    with open_journal(root) as journal:
        write(journal, 1, 2)
        write_cursor(journal, "me", {journal.lineage: 1})
    with open_journal(root, FailingFiles("write", errno.ENOSPC)) as journal:
        reader = Reader(journal, "me")
        with pytest.raises(EnvironmentFailure, match="No space"):
            reader.advance(reader.look())
    with open_journal(root) as journal:
        assert Reader(journal, "me").seen == {journal.lineage: 1}
        assert os.listdir(journal.layout.cursors) == ["me.json"]


def test_a_linked_cursor_folder_is_not_followed(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", Path(root) / "cursors")
    with pytest.raises(DamageError, match="a symbolic link"):
        open_journal(root)


def test_only_durable_records_are_handed_out(journal):
    write(journal, 1)
    journal.mutate(lambda t: t.observe({"saw": 1}), WRITER, durable=False)
    reader = Reader(journal, "me")
    assert seqs(reader.look()) == [1]
    write(journal, 2)
    assert seqs(reader.look()) == [1, 2, 3]


def copied(journal, tmp_path, numbers):
    """The segments of another clone of this store, beside ours."""
    import shutil

    other = tmp_path / "other" / ".periplus"
    other.mkdir(parents=True)
    shutil.copy(os.path.join(journal.layout.root, "config.toml"), other)
    with open_journal(os.fspath(other)) as clone:
        for number in numbers:
            write(clone, number)
        shutil.copytree(
            clone.layout.lineage_folder(clone.lineage), journal.layout.lineage_folder(clone.lineage), dirs_exist_ok=True
        )
        return clone.lineage


def test_each_lineage_has_a_seq_of_its_own(journal, tmp_path):
    write(journal, 1, 2)
    reader = Reader(journal, "me")
    reader.advance(reader.look())
    foreign = copied(journal, tmp_path, (7, 8))
    found = reader.look()
    assert [(record.lineage, record.seq) for record in found.records] == [(foreign, 1), (foreign, 2)]
    reader.advance(found)
    assert reader.seen == {journal.lineage: 2, foreign: 2}
    assert reader.look().records == []


# -- following ---------------------------------------------------------------------------------------------------------


class Script:
    """A ``wait`` that takes no time: each call does the next thing of a script, and the last one ends it."""

    def __init__(self, *things):
        self.things = list(things)
        self.waited = []

    def __call__(self, seconds):
        self.waited.append(seconds)
        if not self.things:
            return True
        thing = self.things.pop(0)
        if thing is not None:
            thing()
        return False


def followed(journal, script, seen=None, **options):
    return [
        (record.lineage, record.seq)
        for found in follow(journal, seen or {}, wait=script, **options)
        for record in found.records
    ]


def test_following_gives_each_record_once_across_rolls_lineages_and_parked_segments(tmp_path):
    root = make_store(tmp_path)
    small_segments(root)
    with open_journal(root) as reading, open_journal(root) as writing:
        foreign = []
        script = Script(
            lambda: write(writing, 1, 2),
            None,
            lambda: write(writing, 3),
            lambda: foreign.append(copied(writing, tmp_path, (7, 8))),
            lambda: write(writing, 4),
        )
        got = followed(reading, script)
        own = reading.lineage
        assert got == [(own, 1), (own, 2), (own, 3), (foreign[0], 1), (foreign[0], 2), (own, 4)]
        assert len(reading.reader(own).segments()) == 3


def test_following_survives_a_segment_whose_sync_failed(tmp_path):
    import errno

    root = make_store(tmp_path)
    failing = FailingFiles("sync_data", errno.EIO, after=10_000)
    with open_journal(root) as reading, open_journal(root, failing) as writing:

        def fail():
            failing.after = 0
            with pytest.raises(EnvironmentFailure):
                write(writing, 2)
            failing.after = 10_000

        script = Script(lambda: write(writing, 1), fail, None, lambda: write(writing, 3), None)
        got = [seq for _, seq in followed(reading, script)]
        assert got == [1, 2, 3]
        assert len(reading.reader(reading.lineage).segments()) == 2


def test_the_interval_grows_while_nothing_comes_and_shrinks_when_something_does(journal, root):
    with open_journal(root) as writing:
        script = Script(*[None] * 20, lambda: write(writing, 1), *[None] * 20)
        followed(journal, script)
    assert script.waited[0] == INTERVAL_MIN_S
    assert script.waited[:21] == sorted(script.waited[:21])
    assert script.waited[20] == INTERVAL_MAX_S
    assert script.waited[21] == INTERVAL_MIN_S
    assert script.waited[-1] == INTERVAL_MAX_S


def test_a_timeout_ends_it(journal):
    write(journal, 1)
    clock = [0.0]

    def wait(seconds):
        clock[0] += seconds
        return False

    got = list(follow(journal, {}, wait=wait, timeout_s=2.0, now=lambda: clock[0]))
    assert [seqs(found) for found in got] == [[1]]
    assert clock[0] == 2.0


def test_damage_ends_it_loudly_after_what_is_sound(journal, root):
    write(journal, 1)
    path = segment_path(journal)

    def damage():
        os.truncate(path, path.stat().st_size - 40)

    got = []
    with pytest.raises(DamageError):
        got.extend(seqs(found) for found in follow(journal, {}, wait=Script(damage, None)))
    assert got == [[1]]


def test_files_that_cannot_be_read_for_a_moment_are_read_again(journal, root):
    write(journal, 1)
    folder = Path(journal.layout.lineage_folder(journal.lineage))
    away = folder.parent / "away"

    def take_away():
        path = segment_path(journal)
        os.rename(path, away)
        os.mkdir(path)

    def give_back():
        os.rmdir(segment_path(journal))
        os.rename(away, segment_path(journal))

    with open_journal(root) as writing:
        write(writing, 2)
        script = Script(take_away, None, give_back, None, lambda: write(writing, 3))
        assert [seq for _, seq in followed(journal, script)] == [1, 2, 3]
        with pytest.raises(EnvironmentFailure):
            followed(journal, Script(take_away, *[None] * 10))
        give_back()


WRITER_PROCESS = """
import sys
sys.path[:0] = sys.argv[3:]
from support import WRITER, item, open_journal
with open_journal(sys.argv[1]) as journal:
    for number in range(int(sys.argv[2])):
        journal.mutate(lambda t: t.put("note", item(number, "not"), {"text": "x" * 100}), WRITER)
"""


def test_following_a_real_second_process_across_rolls(tmp_path):
    root = make_store(tmp_path)
    small_segments(root, 2_000)
    with open_journal(root) as journal:
        process = subprocess.Popen([sys.executable, "-c", WRITER_PROCESS, root, "60", *sys.path])
        got = []
        for found in follow(journal, {}, wait=threading.Event().wait, timeout_s=60):
            got += seqs(found)
            if len(got) >= 60:
                break
        assert process.wait(60) == 0
        assert got == list(range(1, 61))
        assert len(journal.reader(journal.lineage).segments()) > 5
