"""Which segments a lineage has: by listing, and not by listing or reading names again where no folder changed."""

from __future__ import annotations

import pytest

from periplus.base.files import FolderWatch
from periplus.journal.records.segment import segment_name
from periplus.journal.storage.lineage import LineageReader
from support import calls_made

pytestmark = pytest.mark.quick


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "archive").mkdir()
    return tmp_path


def fill(folder, first, end):
    for number in range(first, end):
        (folder / segment_name(number)).touch()


def test_names_are_read_again_where_a_folder_changed(folder, monkeypatch):
    monkeypatch.setattr(FolderWatch, "_SETTLED_NS", 20_000_000)  # two changes within a tick of its clock look like one
    reader = LineageReader(str(folder), (), "lin_0000000000000001")
    assert (reader.segments(), reader.newest()) == ([], 0)
    fill(folder, 7, 9)
    assert (reader.segments(), reader.newest()) == ([7, 8], 8)
    (folder / segment_name(7)).rename(folder / "archive" / segment_name(7))
    (folder / "notes.txt").touch()
    assert (reader.segments(), reader.newest()) == ([7, 8], 8)
    fill(folder / "archive", 1, 3)
    assert reader.segments() == [1, 2, 7, 8]
    reader.segments().clear()  # what was given is the caller's own
    assert reader.segments() == [1, 2, 7, 8]
    (folder / segment_name(8)).unlink()
    assert (reader.segments(), reader.newest()) == ([1, 2, 7], 7)
    (folder / "archive").rename(folder / "elsewhere")
    assert (reader.segments(), reader.newest()) == ([], 0)


def test_a_look_at_what_did_not_change_costs_the_same_however_many_segments_there_are(folder, monkeypatch):
    monkeypatch.setattr(FolderWatch, "_SETTLED_NS", 0)  # believed at once, as they are some seconds after a change
    costs = []
    for first, end in ((1, 11), (11, 511)):
        fill(folder / "archive", first, end)
        fill(folder, end, end + 1)
        reader = LineageReader(str(folder), (), "lin_0000000000000001")
        reader.segments()
        costs.append(calls_made(lambda reader=reader: (reader.segments(), reader.newest())))
    assert costs[1] <= costs[0] + 4
