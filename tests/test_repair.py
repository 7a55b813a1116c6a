"""Repair: what a copy, one byte's worth of luck or the index can bring back is back, the rest is told; nothing is deleted."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from periplus.journal.checkpointing import make_checkpoint
from periplus.journal.doctor import examine
from periplus.journal.layout import PARKED_FOLDER
from periplus.journal.proof import prove_record, verify_proof
from periplus.journal.repair import repair
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, settle

SEGMENT_BYTES = 3_000


def put(journal, number, text, **how):
    journal.mutate(lambda t: t.put("decision", item(number), {"text": text}, summary=text), WRITER, **how)


def entries_of(journal):
    return [(segment, entry) for segment, entry in journal.entries(journal.lineage)]


@pytest.fixture
def root(tmp_path):
    """Three segments: single records, a batch of three, an entity of several versions."""
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + f"segment_bytes = {SEGMENT_BYTES}\n")
    with open_journal(root) as journal:
        for number in range(12):
            put(journal, number % 5, f"text number {number} " + "long enough to make room for a stub " * 4)
        journal.mutate(lambda t: [t.put("decision", item(20 + n), {"text": "batch " * 30}) for n in range(3)], WRITER)
        put(journal, 9, "the end " * 30)
    return root


def damage(path: Path, offset: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[offset : offset + len(data)] = data
    path.write_bytes(whole)


def everything(root):
    """The records' leaves, what the entities say, the entity files."""
    with open_journal(root) as journal:
        journal.project()
        assert journal.damage is None
        leaves = {entry.record.seq: entry.leaf for _, entry in entries_of(journal)}
        told = {entity.item_id: (entity.version, entity.payload) for entity in journal.entities()}
    files = {path.name: path.read_bytes() for path in Path(root, "entities").rglob("*.json")}
    return leaves, told, files


def parked(root):
    return [path for path in Path(root, PARKED_FOLDER).rglob("*") if path.is_file()]


def places(root, seed=7, count=40):
    """Some bytes of every segment, header and ends included."""
    chance = random.Random(seed)
    for path in sorted(Path(root, "journal").glob("lin_*/*.jsonl")):
        size = path.stat().st_size
        yield from ((path, at) for at in sorted({0, 5, size - 1, *chance.sample(range(size), count)}))


def test_any_one_byte_is_mended_without_copies(root):
    before = everything(root)
    for path, at in places(root):
        good = path.read_bytes()
        damage(path, at, bytes([good[at] ^ 0x21]))
        Path(root, "index.sqlite").unlink(missing_ok=True)  # what the index remembers is not needed for this
        with open_journal(root) as journal:
            done = repair(journal, WRITER)
            assert done, (path.name, at)
            assert examine(journal).exit_code == 0, (path.name, at)
        assert path.read_bytes() == good, (path.name, at)
    assert everything(root) == before
    assert len(parked(root)) > 100


def test_a_copy_brings_back_what_it_has(root, tmp_path):
    before = everything(root)
    shutil.copytree(root, tmp_path / "backup")
    segments = sorted(Path(root, "journal").glob("lin_*/*.jsonl"))
    assert len(segments) >= 3
    damage(segments[0], 700, b"#" * 900)
    segments[1].unlink()
    segments[2].write_bytes(segments[2].read_bytes()[:400])
    Path(root, "index.sqlite").unlink()
    with open_journal(root) as journal:
        assert repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert examine(journal).exit_code == 0
    assert everything(root) == before


def test_without_a_copy_the_index_keeps_the_place_and_the_content(root):
    leaves, told, files = everything(root)
    with open_journal(root) as journal:
        proofs = [prove_record(journal, seq) for seq in (1, 5, 14)]
        found = {entry.record.seq: (segment, entry) for segment, entry in entries_of(journal)}
        reader = journal.reader(journal.lineage)
        for seq in (3, 12, 14):  # an old version, a present one, the middle of a batch
            segment, entry = found[seq]
            damage(Path(reader.path_of(segment)), entry.offset + 60, b"?" * (entry.length - 70))
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 3
        done = repair(journal, WRITER)
        assert sorted(one.seq for one in done if "content is lost" in one.what and one.seq) == [3, 12, 14]
        report = examine(journal)
        assert report.exit_code == 0, report.problems
        put(journal, 30, "life goes on")
    after, told_after, files_after = everything(root)
    assert {seq: leaf for seq, leaf in after.items() if seq in leaves} == leaves
    assert {key: value for key, value in told_after.items() if key in told} == told
    assert {key: value for key, value in files_after.items() if key in files} == files
    for proof in proofs:
        assert verify_proof(proof).holds
    with open_journal(root) as journal:
        assert verify_proof(prove_record(journal, 1)).holds


def test_a_checkpoint_gives_back_what_an_old_record_said(root):
    with open_journal(root) as journal:
        version = journal.get("decision", item(1)).version
        assert make_checkpoint(journal, WRITER) is not None
        put(journal, 1, "something newer")
        [record] = journal.index.records("version = ?", (version,), 1)
        path = Path(journal.reader(journal.lineage).path_of(record.segment))
        said = journal.index.payload("decision", item(1), version)
        assert b"text number" in said
    damage(path, record.offset + 60, b"?" * (record.length - 70))
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 3
        assert any("written again" in one.what for one in repair(journal, WRITER))
        assert examine(journal).exit_code == 0
        assert journal.index.payload("decision", item(1), version) == said
        assert journal.get("decision", item(1)).value == {"text": "something newer"}


def test_what_nothing_brings_back_is_left_and_told(root):
    with open_journal(root) as journal:
        segment, entry = entries_of(journal)[4]
        path = Path(journal.reader(journal.lineage).path_of(segment))
    damage(path, entry.offset + 10, b"?" * 100)
    Path(root, "index.sqlite").unlink()
    before = path.read_bytes()
    with open_journal(root) as journal:
        assert [one for one in repair(journal, WRITER) if one.seq] == []
        report = examine(journal)
        assert report.exit_code == 3
        assert any(one.seq == entry.record.seq for one in report.problems)
    assert path.read_bytes() == before


def test_objects_come_back_from_a_copy(root, tmp_path):
    with open_journal(root) as journal:
        put(journal, 40, "x" * 70_000)
        [digest] = journal.objects.digests()
        path = Path(journal.objects.path_of(digest))
    shutil.copytree(root, tmp_path / "backup")
    path.write_bytes(b"nonsense")
    with open_journal(root) as journal:
        assert repair(journal, WRITER) == []
        assert path.read_bytes() == b"nonsense"
        done = repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert [one.what for one in done] == ["the object is restored from a copy"]
        assert journal.objects.check(digest) is None
    assert any(one.read_bytes() == b"nonsense" for one in parked(root))
    path.unlink()
    with open_journal(root) as journal:
        assert repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert examine(journal).exit_code == 0


def test_leftovers_are_parked_and_keys_are_closed(root):
    left = Path(root, "journal", ".durable.1.abc.tmp")
    left.write_bytes(b"half")
    key = next(Path(root, "journal/keys").glob("*.private"))
    key.chmod(0o644)
    with open_journal(root) as journal:
        assert len(repair(journal, WRITER)) == 2
        assert examine(journal).problems == []
    assert not left.exists()
    assert any(path.read_bytes() == b"half" for path in parked(root))
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_sound_store_is_not_touched(root):
    before = everything(root)
    with open_journal(root) as journal:
        assert repair(journal, WRITER) == []
    assert not Path(root, PARKED_FOLDER).exists()
    assert everything(root) == before


def test_a_stop_at_every_call_and_repair_again(root, tmp_path):
    with open_journal(root) as journal:
        found = {entry.record.seq: (segment, entry) for segment, entry in entries_of(journal)}
        reader = journal.reader(journal.lineage)
        for seq in (2, 12):
            segment, entry = found[seq]
            damage(Path(reader.path_of(segment)), entry.offset + 60, b"?" * (entry.length - 70))
    Path(root, "journal/.left.1.abc.tmp").write_bytes(b"half")
    at = 0
    while True:
        copy = tmp_path / f"copy{at}"
        shutil.copytree(root, copy)
        settle(os.fspath(copy))
        files = StoppingFiles(at)
        try:
            with open_journal(os.fspath(copy), files=files) as journal:
                repair(journal, WRITER)
        except Stop:
            pass
        with open_journal(os.fspath(copy)) as journal:
            repair(journal, WRITER)
            report = examine(journal)
            assert report.exit_code == 0, (at, report.problems)
            assert repair(journal, WRITER) == []
            put(journal, 30, "life goes on")
        shutil.rmtree(copy)
        if at >= len(files.calls):
            break
        at += 1
    assert at > 25


def test_the_index_is_only_asked(root):
    index = Path(root, "index.sqlite")
    index.write_bytes(b"not a database at all" * 100)
    path, at = next(places(root))
    good = path.read_bytes()
    damage(path, at, bytes([good[at] ^ 1]))
    with open_journal(root) as journal:
        assert repair(journal, WRITER)
        assert examine(journal).exit_code == 0
    assert path.read_bytes() == good


def test_files_that_anybody_may_write_are_told_in_one_line(root):
    for path in sorted(Path(root, "journal").rglob("*.jsonl")):
        path.chmod(0o666)
    Path(root, "entities").chmod(0o777)
    with open_journal(root) as journal:
        told = [one for one in examine(journal).problems if "anybody on this machine" in one.what]
    assert [one.severity for one in told] == ["warning"]
    assert "more" in told[0].what
    assert told[0].mend == f"chmod -R o-w {root}"
    subprocess.run(told[0].mend.split(), check=True)
    with open_journal(root) as journal:
        assert not [one for one in examine(journal).problems if "anybody on this machine" in one.what]
