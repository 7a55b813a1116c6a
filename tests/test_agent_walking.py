"""Walks end when their time is over: also in the middle of a folder with very many entries, or on a slow file system."""

import os
from itertools import count

import pytest

from periplus.agent.perception.project_files import Bounds, look_at
from periplus.agent.tools.files.folder_walk import Walk
from periplus.base.filesystem.confined_folder import LOOK_EVERY, Confined

FILES = 3_000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A folder with very many files, and one behind it."""
    root = tmp_path_factory.mktemp("crowd")
    (root / "many").mkdir()
    for at in range(FILES):
        os.close(os.open(root / "many" / f"f{at}", os.O_WRONLY | os.O_CREAT))
    (root / "zoo").mkdir()
    (root / "zoo" / "animal").touch()
    return os.fspath(root)


class Slow(Confined):
    """As on a file system that answers once a second: the clock goes on with each name that is looked at."""

    now_s = 0.0

    def _listed(self, folder, path):
        for name in super()._listed(folder, path):
            self.now_s += 1
            yield name


@pytest.mark.parametrize("seconds", [0, 1, LOOK_EVERY, 1_000, FILES, 10 * FILES])
def test_a_listing_overruns_the_time_by_no_more_than_it_looks_ahead(crowd, seconds):
    with Slow(crowd) as folder:
        walk = Walk(folder, seconds=seconds, monotonic_s=lambda: folder.now_s)
        found = [one.path for one in walk.entries()]
        assert folder.now_s <= seconds + LOOK_EVERY
        is_whole = seconds == 10 * FILES
        assert walk.stopped == ("" if is_whole else f"over {seconds} s")
        assert ("zoo/animal" in found) is is_whole
        assert (len(found) == FILES + 3) is is_whole


def test_a_folder_that_is_asked_for_itself_is_bounded_as_well(crowd):
    with Slow(crowd) as folder:
        walk = Walk(folder, seconds=10, monotonic_s=lambda: folder.now_s)
        assert list(walk.files("many")) == []
        assert walk.stopped == "over 10 s"
        assert folder.now_s <= 10 + LOOK_EVERY


def test_rules_that_take_long_for_each_entry_are_bounded(crowd):
    spent = count()

    def unread(_):
        next(spent)
        return False

    with Confined(crowd) as folder:
        walk = Walk(folder, seconds=500, unread=unread, monotonic_s=lambda: next(spent) - 1)
        list(walk.entries("many"))
        assert walk.stopped == "over 500 s"
        assert next(spent) <= 500 + 2 * LOOK_EVERY


def test_what_a_listing_is_interrupted_with_comes_out_of_it(crowd):
    class HeardError(Exception):
        pass

    asked = count()

    def meanwhile():
        if next(asked) == 3:
            raise HeardError

    with Confined(crowd) as folder:
        with pytest.raises(HeardError):
            folder.list("many", meanwhile)
        assert len(folder.list("many")) == FILES


def test_a_look_at_the_project_ends_within_a_listing(crowd):
    ticks = count()
    tree = look_at(crowd, bounds=Bounds(seconds=5), monotonic_s=lambda: next(ticks))
    assert tree.stopped == "over 5 s"
    assert next(ticks) < 10  # it did not go on to ask
    assert look_at(crowd).counts["many"] == FILES
