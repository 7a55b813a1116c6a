"""What lies before a checkpoint, wanted while another process builds the index anew: nobody is refused for that."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from periplus.journal.care.doctor import examine
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.checkpoints.format import KEYS_MAX
from periplus.journal.checkpoints.history_fallback import is_new_key
from support import WRITER, item, make_store, open_journal, remove_index
from test_checkpoint import branched_stores, filled, put, state


def from_checkpoint(root):
    """Have the index of ``root`` be one that was made from a checkpoint; gives what it shows."""
    with open_journal(root) as journal:
        make_checkpoint(journal, WRITER)
        expected = state(journal)
    remove_index(root)
    with open_journal(root) as journal:
        journal.project()
        assert journal.index.has_floors
    return expected


class Builder:
    """A process that has the lock of the projections, as for the minutes in which it builds the index of a large store."""

    def __init__(self, root):
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                with open_journal(root) as journal, journal.projecting_alone(0.0):
                    os.write(writer, b"x")
                    signal.pause()
            finally:
                os._exit(1)
        os.close(writer)
        assert os.read(reader, 1) == b"x"
        os.close(reader)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def building():
    made = []

    def build(root):
        made.append(Builder(root))
        return made[-1]

    yield build
    for one in made:
        try:
            one.end()
        except (ProcessLookupError, ChildProcessError):
            pass


def test_a_key_that_was_never_used_is_written_beside_whoever_builds_the_index(tmp_path, building):
    """It was refused after five seconds, though nobody wrote."""
    root = filled(tmp_path)
    from_checkpoint(root)
    building(root)
    with open_journal(root) as journal:
        receipt = put(journal, 2, "keyed", key="never used")
        assert not receipt.repeated
        assert not journal.index.is_apart, "a look at the bytes was enough"
        assert put(journal, 2, "keyed", key="never used") == receipt._replace(repeated=True)
        assert journal.get("decision", item(2)).value == {"n": "keyed"}


@pytest.mark.slow
def test_a_key_that_the_checkpoint_keeps_no_more_is_still_a_repetition(tmp_path, building):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        first = put(journal, 1, "first", key="long ago")
        for number in range(KEYS_MAX):
            journal.mutate(lambda t: t.observe({}), WRITER, key=f"key {number}", project=False)
    from_checkpoint(root)
    building(root)
    with open_journal(root) as journal:
        assert put(journal, 1, "again", key="long ago") == first._replace(repeated=True)
        assert journal.index.is_apart
        assert journal.get("decision", item(1)).value == {"n": "first"}


def test_no_key_is_called_new_where_a_segment_is_not_here(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(3):
            put(journal, number, number, key=f"key{number}")
            journal.roll()
    from_checkpoint(root)
    with open_journal(root) as journal:
        paths = [journal.reader(journal.lineage).path_of(first) for first in journal.reader(journal.lineage).segments()]
        assert is_new_key(journal, "never")
        assert not any(is_new_key(journal, f"key{number}") for number in range(3))
        assert is_new_key(journal, "key")
    for path in paths[:3]:
        os.rename(path, path + ".away")
        with open_journal(root) as journal:
            assert not is_new_key(journal, "never"), path
        os.rename(path + ".away", path)


@pytest.mark.slow
def test_history_is_had_beside_whoever_builds_the_index_and_the_stores_own_is_used_again_behind_it(tmp_path, building):
    root = filled(tmp_path)
    with open_journal(root) as journal:
        everything = journal.index.records("1 ORDER BY lineage, seq", (), -1)
    expected = from_checkpoint(root)
    builder = building(root)
    with open_journal(root) as journal:
        journal.need_history()
        assert journal.index.is_apart
        assert journal.index.records("1 ORDER BY lineage, seq", (), -1)[: len(everything)] == everything
        assert state(journal) == expected
        put(journal, 7, "beside")
        assert journal.index.is_apart
        assert journal.get("decision", item(7)).value == {"n": "beside"}
        builder.end()
        put(journal, 8, "behind")
        assert not journal.index.is_apart
        assert journal.index.watermarks()[journal.lineage] == journal.end()
        assert journal.get("decision", item(7)).value == {"n": "beside"}
        journal.need_history()
        assert not journal.index.is_apart
        assert not journal.index.has_floors
        assert examine(journal).problems == []


@pytest.mark.slow
def test_a_branch_from_before_the_checkpoint_is_merged_beside_whoever_builds_the_index(tmp_path, building):
    """Reading it was refused, and every write, for as long as it took."""
    root, clone, other = branched_stores(tmp_path)
    with open_journal(root) as journal:
        put(journal, 1, "second")
    from_checkpoint(root)
    building(root)
    with open_journal(root) as journal:
        shutil.copytree(Path(clone) / "journal" / other, Path(root) / "journal" / other)
        put(journal, 2, "another")
        assert journal.index.is_apart
        assert len(journal.get("decision", item(1)).heads) == 2
        put(journal, 1, "settled")
        assert len(journal.get("decision", item(1)).heads) == 1
    with open_journal(root) as journal:
        assert journal.get("decision", item(1)).value == {"n": "settled"}
        assert journal.get("decision", item(2)).value == {"n": "another"}
