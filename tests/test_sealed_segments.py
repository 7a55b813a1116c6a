"""A byte that fell over in a segment that nobody writes to any more, with the index in its place: it is found, and told by who reads the record."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from periplus.base.errors import DamageError
from periplus.journal.care.doctor import examine
from periplus.journal.history.log import RecordFilter, newest, newest_by_pages
from support import WRITER, item, make_store, open_journal, settle

RECORDS = 12
EVERYTHING = RecordFilter()


def put(number, text):
    return lambda t: t.put("note", item(number, "not"), {"text": text})


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A store of three segments, the first of which is sealed, all of it indexed; the segment's place in it and what it says."""
    folder = tmp_path_factory.mktemp("sealed")
    root = make_store(folder)
    with open_journal(root) as journal:
        for number in range(RECORDS):
            journal.mutate(put(number % 5, f"text {number}"), WRITER)
            if number in (5, 8):
                journal.roll()
        journal.project()
        path = Path(journal.reader(journal.lineage).path_of(1))
        state = {entity.item_id: entity.value["text"] for entity in journal.entities()}
    settle(root)
    return Path(root), path.relative_to(root), state


def looked(journal, pages):
    lineages, before = [journal.lineage], {}
    if pages:
        found = newest_by_pages(journal, EVERYTHING, lineages=lineages, before=before, limit=100)
        return [record for page in found for record in page.records]
    return newest(journal, EVERYTHING, lineages=lineages, before=before, limit=100).records


@pytest.mark.slow
@pytest.mark.parametrize("pages", [False, True], ids=["at once", "by pages"])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_any_byte_of_it_is_found_and_who_reads_the_record_is_told(sealed, tmp_path, bit, pages):
    source, name, state = sealed
    root = tmp_path / "store"
    shutil.copytree(source, root, symlinks=True)
    settle(root)
    path = root / name
    data = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 0x0A]
    for at in range(bit % 7, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= bit
        path.write_bytes(changed)
        seq = sum(end <= at for end in ends)  # 0: the header
        with open_journal(root) as journal:
            assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == state
            assert journal.damage is None, "nobody read the record"
            rows = {record.seq: record for record in looked(journal, pages)}
            assert sorted(rows) == list(range(1, RECORDS + 1))
            if seq and data[at] != 0x0A:  # of the line's end nothing is read with the record: the doctor tells
                assert journal.damage is not None, at
                assert (journal.damage.path, journal.damage.seq) == (str(path), seq), at
                assert journal.damage.offset == ends[seq - 1], at
                with pytest.raises(DamageError):
                    journal.line_at(rows[seq])
                with pytest.raises(DamageError):
                    journal.mutate(put(9, "refused"), WRITER)
            for other in set(rows) - {seq}:
                assert f'"seq":{other},'.encode() in journal.line_at(rows[other]), at
        with open_journal(root) as journal:
            errors = [one for one in examine(journal).problems if one.severity == "error"]
            assert any(one.path == str(path) and one.offset is not None and one.offset <= at for one in errors), at
        assert path.read_bytes() == changed, "nothing was cut or written over"
    path.write_bytes(data)
    with open_journal(root) as journal:
        looked(journal, pages)
        assert journal.damage is None
        assert [one for one in examine(journal).problems if one.severity == "error"] == []


def test_a_record_that_is_not_read_keeps_nobody_from_going_on(sealed, tmp_path):
    """What the index says was checked when it was made; the doctor reads everything."""
    source, name, state = sealed
    root = tmp_path / "store"
    shutil.copytree(source, root, symlinks=True)
    settle(root)
    path = root / name
    data = bytearray(path.read_bytes())
    data[data.index(b"text 2")] ^= 1
    path.write_bytes(data)
    with open_journal(root) as journal:
        journal.mutate(put(9, "goes on"), WRITER)
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == {
            **state,
            item(9, "not"): "goes on",
        }
        problems = [one for one in examine(journal).problems if one.severity == "error"]
        assert (problems[0].path, problems[0].seq) == (str(path), 3)
