"""The path of a process that wrote last, and of one that steps over what others wrote: they look at little, and what they
must see they see all the same.

A folder that changed in the last seconds is listed at every look, so that no test would come to that path: here folders
count as settled at once. Their times are fine enough for that where these tests run, or the first of them says so.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faulty_files import Fault, FaultyFiles
from periplus.base.encoding.canonical import DEPTH_MAX, INTEGER_MAX, check
from periplus.base.errors import DamageError, EnvironmentFailure, OutcomeUnknownError, PeriplusError, UsageError
from periplus.base.files import Files, FolderWatch
from periplus.journal.care.doctor import examine
from support import WRITER, item, make_store, open_journal, segment_path, settle


def put(number, text="a text", **options):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text}, **options)


class CountingFiles(Files):
    def __init__(self):
        self.rooms = []

    def reserve(self, fd, offset, length):
        self.rooms.append((offset, length))
        super().reserve(fd, offset, length)


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setattr(FolderWatch, "_SETTLED_NS", 0)


@pytest.fixture
def warm(root):
    """A journal whose next mutation takes the short path."""
    with open_journal(root) as journal:
        for number in range(3):
            journal.mutate(put(number), WRITER, project=False)
        assert is_short(journal)
        yield journal


def is_short(journal):
    with journal._lock.holding(5.0, None, journal._is_in_place) as is_in_place:
        return is_in_place and journal._writer.is_as_left(journal.end())


def check_sound(root, count):
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, count + 1))
        assert examine(journal).exit_code in (0, 1)


def test_who_wrote_last_goes_on_where_he_left(warm, root):
    for number in range(3, 30):
        assert warm.mutate(put(number), WRITER, project=False).first_seq == number + 1
        assert is_short(warm)
    check_sound(root, 30)


def test_what_another_wrote_is_seen(warm, root):
    with open_journal(root) as other:
        other.mutate(put(1, "of another"), WRITER)
        assert not is_short(warm)
        seen = []
        warm.mutate(lambda t: (seen.append(t.get("note", item(1, "not")).value), put(7)(t)), WRITER)
        assert seen == [{"text": "of another"}]
        assert other.mutate(put(8), WRITER).first_seq == 6
    assert warm.mutate(put(9), WRITER).first_seq == 7
    check_sound(root, 7)


def test_an_expected_version_is_compared_with_what_another_wrote(warm, root):
    version = warm.get("note", item(1, "not")).version
    with open_journal(root) as other:
        other.mutate(put(1, "of another"), WRITER)
    with pytest.raises(PeriplusError, match="changed since you read it"):
        warm.mutate(put(1, "late", expect=version), WRITER)
    check_sound(root, 4)


@pytest.mark.parametrize("name", ["lock", "lineage.json"])
def test_a_file_that_was_put_in_the_place_of_another_is_seen(warm, root, name):
    path = Path(root, "journal", name)
    aside = path.with_suffix(".aside")
    shutil.copy2(path, aside)
    os.replace(aside, path)
    if name == "lineage.json":
        settle(root)  # else it is a copy of the store that is opened below
    assert not is_short(warm)
    assert warm.mutate(put(5), WRITER).first_seq == 4
    assert os.fstat(warm._lock._fd).st_ino == Path(root, "journal", "lock").stat().st_ino
    check_sound(root, 4)


def test_a_segment_that_was_put_in_the_place_of_another_is_written_to(warm, root):
    path = segment_path(warm)
    aside = path.with_suffix(".aside")
    shutil.copy2(path, aside)
    os.replace(aside, path)
    assert warm.mutate(put(5), WRITER).first_seq == 4
    check_sound(root, 4)


def test_bytes_that_somebody_left_behind_the_last_batch_are_voided(warm, root):
    with segment_path(warm).open("ab") as file:
        file.write(b'{"v":2,"seq":4')
    assert not is_short(warm)
    receipt = warm.mutate(put(5), WRITER)
    assert receipt.first_seq == 4
    [entry] = [entry for _, entry in warm.entries(warm.lineage) if entry.record.seq == 4]
    assert entry.record.voids is not None
    check_sound(root, 4)


def test_a_segment_that_was_cut_short_is_damage(warm, root):
    path = segment_path(warm)
    os.truncate(path, path.stat().st_size - 30)
    with pytest.raises(DamageError):
        warm.mutate(put(5), WRITER)


@pytest.mark.parametrize("how", ["cut", "gone", "damaged"])
def test_a_map_that_is_no_more_what_it_was_costs_a_look(warm, root, how):
    path = Path(root, "journal", "flush")
    if how == "cut":
        os.truncate(path, 0)
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"\xff" * 4096)
    assert not is_short(warm)
    assert warm.mutate(put(5), WRITER).first_seq == 4
    check_sound(root, 4)


def test_a_store_that_was_moved_is_not_acknowledged_to(warm, root, tmp_path):
    moved = f"{root}-moved"
    os.rename(root, moved)
    with pytest.raises(PeriplusError):
        warm.mutate(put(5), WRITER)
    make_store(tmp_path)  # another in its place
    with pytest.raises(PeriplusError):
        warm.mutate(put(6), WRITER)
    with open_journal(root) as journal:
        assert journal.end().next_seq == 1
    with open_journal(moved) as journal:
        assert journal.damage is None


def test_a_segment_that_is_replaced_while_it_is_synced_is_not_acknowledged(root):
    class Replacing(Files):
        is_on = False

        def sync_data(self, fd):
            super().sync_data(fd)
            if self.is_on:
                path = Path(root, "journal", self.lineage, "000000000001.jsonl")
                shutil.copy2(path, path.with_suffix(".aside"))
                os.replace(path.with_suffix(".aside"), path)

    files = Replacing()
    with open_journal(root, files) as journal:
        for number in range(3):
            journal.mutate(put(number), WRITER, project=False)
        assert is_short(journal)
        files.lineage, files.is_on = journal.lineage, True
        with pytest.raises(OutcomeUnknownError) as caught:
            journal.mutate(put(3), WRITER, project=False)
        files.is_on = False
        assert journal.mutate(put(3), WRITER, key=caught.value.key, project=False).repeated
    check_sound(root, 4)


def test_bytes_that_come_during_a_mutation_are_not_written_behind(warm, root):
    """Of somebody who asks for no lock: nothing is acknowledged, and nothing stands behind them."""

    def write(transaction):
        put(4)(transaction)
        with segment_path(warm).open("ab") as file:
            file.write(b'{"v":2,"seq":4,"garbage')

    with pytest.raises(DamageError, match="changed while the lock was held"):
        warm.mutate(write, WRITER, project=False)
    assert warm.mutate(put(5), WRITER, project=False).first_seq == 4
    check_sound(root, 4)


@pytest.mark.parametrize("size", [0, 100])
def test_a_map_that_is_cut_during_a_mutation_ends_no_process(warm, root, size):
    def write(transaction):
        put(4)(transaction)
        os.truncate(Path(root, "journal", "flush"), size)

    assert warm.mutate(write, WRITER, project=False).first_seq == 4
    assert warm.mutate(put(5), WRITER, project=False).first_seq == 5
    check_sound(root, 5)


def test_a_file_that_may_not_grow_is_told_and_nothing_is_half_there(warm, root):
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (segment_path(warm).stat().st_size + 100, hard))
        with pytest.raises(EnvironmentFailure, match="only 100 of"):
            warm.mutate(put(4), WRITER, project=False)
        with pytest.raises(EnvironmentFailure):
            warm.mutate(put(4), WRITER, project=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert warm.mutate(put(5), WRITER, project=False).first_seq == 4
    check_sound(root, 4)


def test_a_failed_sync_on_the_short_path_begins_a_new_segment(root):
    files = FaultyFiles()
    with open_journal(root, files) as journal:
        for number in range(3):
            journal.mutate(put(number), WRITER, project=False)
        assert is_short(journal)
        files.fault = Fault(len(files.calls) + 1, error=errno.EIO)  # behind the write
        with pytest.raises(OutcomeUnknownError) as caught:
            journal.mutate(put(3), WRITER, project=False)
        files.fault = Fault(1 << 62)
        assert journal.mutate(put(3), WRITER, key=caught.value.key, project=False).repeated
        assert journal.mutate(put(4), WRITER, project=False).first_seq == 5
        assert files.calls.count("sync_data") > 3
        assert len(journal.reader(journal.lineage).segments()) == 2
    check_sound(root, 5)


def test_room_is_asked_for_once_for_many_and_changes_no_size(root):
    files = CountingFiles()
    with open_journal(root, files) as journal:
        for number in range(60):
            journal.mutate(put(number), WRITER, project=False)
        path = segment_path(journal)
        assert len(files.rooms) == 1
        assert path.stat().st_size == journal.end().offset
    check_sound(root, 60)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_without_room_it_is_written_all_the_same(root, error):
    class Roomless(CountingFiles):
        def reserve(self, fd, offset, length):
            self.rooms.append((offset, length))
            raise OSError(error, os.strerror(error))

    files = Roomless()
    with open_journal(root, files) as journal:
        for number in range(60):
            journal.mutate(put(number), WRITER, project=False)
    assert len(files.rooms) == 1, "asked once for a segment"
    check_sound(root, 60)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-INTEGER_MAX - 2, INTEGER_MAX + 2), st.text(max_size=3), st.floats(),
    st.binary(max_size=1), st.sampled_from([INTEGER_MAX, INTEGER_MAX + 1, -INTEGER_MAX, "\ud800", "é"]),
)  # fmt: skip
KEYS = st.one_of(st.text(max_size=2), st.sampled_from(["\uffff", "é", "\U0001f600", 1, None, True]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4), st.tuples(inner)),
)


def allowed(value, depth=0):
    """The profile as the module's docstring says it."""
    if value is None or type(value) in (bool, str):
        return True
    if type(value) is int:
        return abs(value) <= INTEGER_MAX
    if type(value) not in (dict, list, tuple) or depth >= DEPTH_MAX:
        return False
    if type(value) is dict and not all(type(key) is str and all(c < "\ud800" for c in key) for key in value):
        return False
    return all(allowed(one, depth + 1) for one in (value.values() if type(value) is dict else value))


@pytest.mark.slow
@given(VALUES)
def test_a_value_is_within_the_profile_or_is_refused(value):
    if allowed(value):
        check(value)
    else:
        with pytest.raises(UsageError):
            check(value)


@pytest.mark.parametrize("depth", [DEPTH_MAX, DEPTH_MAX + 1])
def test_depth_is_counted_the_same_in_lists_and_objects(depth):
    for wrap in (lambda inner: [inner], lambda inner: {"a": inner}):
        value = wrap("x")
        for _ in range(depth - 1):
            value = wrap(value)
        assert allowed(value) == (depth <= DEPTH_MAX)
        if depth <= DEPTH_MAX:
            check(value)
        else:
            with pytest.raises(UsageError, match="nested deeper"):
                check(value)
