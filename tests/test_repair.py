"""Repair: what a copy, one byte's worth of luck or the index can bring back is back, the rest is told; nothing is deleted."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.proofs.proof_file import prove_record, verify_proof
from periplus.journal.records.record import SUM_TRAILER_BYTES
from periplus.journal.records.segment_repair import mend_line
from periplus.journal.storage.layout import PARKED_FOLDER
from sampling import sampled
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


@pytest.mark.slow
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


def test_a_line_is_not_searched_for_one_byte_where_its_checksum_is_broken_too(root):
    """Every byte would be tried in vain: the end of the line would still be wrong."""
    path = next(Path(root, "journal").glob("lin_*/*.jsonl"))
    line = path.read_bytes().split(b"\n")[2]
    body, trailer = line[:-SUM_TRAILER_BYTES], line[-SUM_TRAILER_BYTES:]
    changed = bytes((body[40] ^ 1,)).join((body[:40], body[41:]))
    assert mend_line(changed + trailer) == line
    for wrong in (
        b";" + trailer[1:],
        trailer[:-1] + b"]",
        trailer[:8] + b"\xc3" + trailer[9:],
        b"?" * SUM_TRAILER_BYTES,
    ):
        assert mend_line(changed + wrong) is None


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


@pytest.mark.parametrize("is_newest", [False, True])
def test_the_file_of_a_change_that_cannot_be_read_is_to_be_kept(root, is_newest):
    with open_journal(root) as journal:
        put(journal, 9, "the end, said anew")
        segment, entry = entries_of(journal)[-1]
        if not is_newest:
            put(journal, 8, "behind it")
        journal.project()
        path = Path(journal.reader(journal.lineage).path_of(segment))
        file = journal.layout.entity_file("decision", item(9))
    damage(path, entry.offset + 60, b"?" * (entry.length - 70))
    with open_journal(root) as journal:
        [told] = [one for one in examine(journal).problems if one.path == file]
        assert told.mend.startswith("Keep it")
        repair(journal, WRITER)
        assert journal.get("decision", item(9)).value == {"text": "the end, said anew"}
        assert examine(journal).exit_code == 0


def damage_before_a_checkpoint(root, seq, content=b"", at=60):
    """Damage a record that only the tiles, a checkpoint and an entity file know of; with one record behind it."""
    with open_journal(root) as journal:
        put(journal, 8, "behind it")  # the last record before a checkpoint is looked at when it is loaded
        journal.project()
        assert make_checkpoint(journal, WRITER) is not None
        segment, entry = next(one for one in entries_of(journal) if one[1].record.seq == seq)
        path = Path(journal.reader(journal.lineage).path_of(segment))
        file = journal.layout.entity_file(entry.record.item_type, entry.record.item_id)
    Path(root, "index.sqlite").unlink()
    damage(path, entry.offset + at, content or b"?" * (entry.length - at - 10))
    return path, file


@pytest.mark.slow
@pytest.mark.parametrize("is_tree_held", [True, False])
def test_what_only_a_checkpoint_and_the_file_say_is_promised_to_the_journal_where_the_tree_knows_its_place(
    root, is_tree_held
):
    before = everything(root)
    path, file = damage_before_a_checkpoint(root, 16)
    good = path.read_bytes()
    if not is_tree_held:
        shutil.rmtree(Path(root, "journal/tree"))
    with open_journal(root) as journal:  # the index is made from the checkpoint, and knows no record before it
        for _ in range(1 if is_tree_held else 2):
            [told] = [one for one in examine(journal).problems if one.path == file]
            assert told.what == "the file holds the content of a record that cannot be read"
            if is_tree_held:
                assert "writes it into the journal again" in told.mend
            else:
                assert told.mend.startswith("Keep it: a checkpoint")
                assert "--from PATH" in told.mend
            done = repair(journal, WRITER)
        report = examine(journal)
        assert report.exit_code == (0 if is_tree_held else 3), report.problems
        assert journal.get("decision", item(9)).value == {"text": "the end " * 30}
        if is_tree_held:
            assert any("written again" in one.what for one in done)
            assert prove_and_verify(journal, 16)
            put(journal, 30, "life goes on")
    after = everything(root) if is_tree_held else before
    assert before[0].items() <= after[0].items()
    assert before[1].items() <= after[1].items()
    assert not is_tree_held or any(one.read_bytes() == good for one in parked(root))


def prove_and_verify(journal, seq):
    return verify_proof(prove_record(journal, seq)).holds


@pytest.mark.slow
@pytest.mark.parametrize("at", [30, 75, 190, -50, -100, -20])
def test_a_line_comes_back_byte_for_byte_from_what_else_says_it(root, at):
    """Five bytes of the time, the writer, the payload, the checksum: what was there is known from a checkpoint and the tree."""
    before = everything(root)
    with open_journal(root) as journal:
        entry = entries_of(journal)[15][1]
        assert entry.record.item_id == item(9)
    damage_before_a_checkpoint(root, 16, b"?????", at if at > 0 else entry.length + at)
    with open_journal(root) as journal:
        done = repair(journal, WRITER)
        assert [(one.what, one.seq) for one in done if one.seq] == [
            ("reconstructed from its remains and other records", 16)
        ]
        assert examine(journal).exit_code == 0
    after = everything(root)
    assert before[0].items() <= after[0].items()
    assert before[1].items() <= after[1].items()


@pytest.mark.slow
@pytest.mark.parametrize("seqs", [[3], [14], [12, 13], [13, 14, 15], [2, 7, 16], [7, 12], [1, 2, 3, 4]])
@pytest.mark.parametrize("at", sampled([20, 100, 150], 1))
def test_places_are_kept_by_the_tree_alone(root, seqs, at):
    """Old versions, present ones, a whole batch and parts of it: what is still said anywhere stays, the lineage goes on."""
    before = everything(root)
    with open_journal(root) as journal:
        put(journal, 8, "behind it")
        journal.project()
        assert make_checkpoint(journal, WRITER) is not None
        put(journal, 1, "said later")
        found = {entry.record.seq: (segment, entry) for segment, entry in entries_of(journal)}
        for seq in seqs:
            segment, entry = found[seq]
            path = Path(journal.reader(journal.lineage).path_of(segment))
            damage(path, entry.offset + at, b"?" * (entry.length - at - 10))
        told = {entity.item_id: entity.payload for entity in journal.entities()}
    Path(root, "index.sqlite").unlink()
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 3
        assert repair(journal, WRITER)
        report = examine(journal)
        assert report.exit_code == 0, report.problems
        put(journal, 30, "life goes on")
        assert repair(journal, WRITER) == []
        assert {entity.item_id: entity.payload for entity in journal.entities() if entity.item_id in told} == told
        assert not any(entity.is_in_conflict for entity in journal.entities())
        assert prove_and_verify(journal, seqs[0])
    assert before[0].items() <= everything(root)[0].items()


@pytest.mark.slow
def test_no_stub_is_written_while_another_record_has_no_place(root, tmp_path):
    """Stubs count once an audit record names them, for which the whole lineage has to be writable; a copy found later is better."""
    with open_journal(root) as journal:
        assert make_checkpoint(journal, WRITER) is not None
        put(journal, 1, "said later")
        found = {entry.record.seq: (segment, entry) for segment, entry in entries_of(journal)}
        paths = {seq: Path(journal.reader(journal.lineage).path_of(found[seq][0])) for seq in (3, 17)}
    good = everything(root)
    shutil.copytree(root, tmp_path / "backup")
    for seq, path in paths.items():  # the second is what announces the checkpoint, behind all that the tree has
        damage(path, found[seq][1].offset + 20, b"?" * (found[seq][1].length - 30))
    left = [path.read_bytes() for path in paths.values()]
    Path(root, "index.sqlite").unlink()
    with open_journal(root) as journal:
        assert not [one for one in repair(journal, WRITER) if one.seq]
        assert [path.read_bytes() for path in paths.values()] == left
        assert examine(journal).exit_code == 3
        assert repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert examine(journal).exit_code == 0
    assert everything(root) == good


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
        put(journal, 40, "what neither the index nor the entity's file has any more")
        [digest] = journal.objects.digests()
        path = Path(journal.objects.path_of(digest))
    shutil.copytree(root, tmp_path / "backup")
    path.write_bytes(b"nonsense")
    with open_journal(root) as journal:
        done = repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert [one.what for one in done] == ["the object is restored from a copy"]
        assert journal.objects.check(digest) is None
    assert any(one.read_bytes() == b"nonsense" for one in parked(root))
    path.unlink()
    with open_journal(root) as journal:
        assert repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert examine(journal).exit_code == 0


@pytest.mark.parametrize("held_by", ["index", "file"])
@pytest.mark.parametrize("content", [None, b"nonsense"])
def test_a_large_payload_comes_back_from_what_says_the_same(root, held_by, content):
    with open_journal(root) as journal:
        put(journal, 40, "x" * 70_000)
        [digest] = journal.objects.digests()
        path = Path(journal.objects.path_of(digest))
        file = Path(journal.layout.entity_file("decision", item(40)))
        journal.project()
    before = everything(root)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    (file if held_by == "index" else Path(root, "index.sqlite")).unlink()
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 3
        assert "the object is written again from the same content elsewhere" in [
            one.what for one in repair(journal, WRITER)
        ]
        assert journal.objects.check(digest) is None
        report = examine(journal)
        assert report.exit_code == 0, report.problems
        put(journal, 41, "life goes on")
    after = everything(root)
    assert before[0].items() <= after[0].items()
    assert before[1].items() <= after[1].items()
    assert before[2].items() <= after[2].items()
    assert content is None or any(one.read_bytes() == content for one in parked(root))


def lose_a_payload(root, number, content=None):
    """The object of the only large payload is gone or nonsense, and so is all else that says the same."""
    with open_journal(root) as journal:
        [digest] = journal.objects.digests()
        path = Path(journal.objects.path_of(digest))
        file = Path(journal.layout.entity_file("decision", item(number)))
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    Path(root, "index.sqlite").unlink()
    file.unlink(missing_ok=True)


@pytest.mark.parametrize("content", [None, b"nonsense"])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_payload_that_is_lost_everywhere_keeps_its_place_until_a_copy_has_it(
    root, tmp_path, content, before, after, is_checkpointed
):
    with open_journal(root) as journal:
        if before:
            put(journal, 40, "said before")
        put(journal, 40, "x" * 70_000)
        version, lost = journal.get("decision", item(40)).version, journal.durable_seq
        put(journal, 40 if after else 41, "said after")
        journal.project()
        if is_checkpointed:
            assert make_checkpoint(journal, WRITER) is not None
            put(journal, 8, "behind it")
    held = everything(root)
    shutil.copytree(root, tmp_path / "backup")
    lose_a_payload(root, 40, content)
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 3
        done = repair(journal, WRITER)
        assert [one.seq for one in done if "its place is kept" in one.what] == [lost]
        assert any("whose content is lost: recorded as lost" in one.what for one in done)
        report = examine(journal)
        assert report.exit_code == 0, report.problems
        assert repair(journal, WRITER) == []
        put(journal, 42, "life goes on")
        assert prove_and_verify(journal, lost)
        if after:
            assert journal.get("decision", item(40)).value == {"text": "said after"}
    assert content is None or any(one.read_bytes() == content for one in parked(root))
    with open_journal(root) as journal:
        done = repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert [one.what for one in done] == ["the content of a lost record is written again"]
        assert journal.index.payload("decision", item(40), version) == b'{"text":"' + b"x" * 70_000 + b'"}'
        assert repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")]) == []
        report = examine(journal)
        assert report.exit_code == 0, report.problems
    now = everything(root)
    assert held[0].items() <= now[0].items()
    assert held[1].items() <= now[1].items()


def test_no_payload_is_given_up_while_a_record_is_damaged(root, tmp_path):
    with open_journal(root) as journal:
        put(journal, 40, "x" * 70_000)
        put(journal, 40, "said after")
        segment, entry = entries_of(journal)[4]
        path = Path(journal.reader(journal.lineage).path_of(segment))
    good = everything(root)
    shutil.copytree(root, tmp_path / "backup")
    lose_a_payload(root, 40, b"nonsense")
    damage(path, entry.offset + 10, b"?" * 100)
    with open_journal(root) as journal:
        assert not [one for one in repair(journal, WRITER) if one.seq]
        [digest] = journal.objects.digests()
        assert repair(journal, WRITER, sources=[os.fspath(tmp_path / "backup")])
        assert journal.objects.check(digest) is None
        assert examine(journal).exit_code == 0
    assert everything(root) == good


def test_a_payload_that_came_back_and_was_redacted_stays_out(root, tmp_path):
    with open_journal(root) as journal:
        put(journal, 40, "secret " * 10_000)
        put(journal, 40, "said after")
    shutil.copytree(root, tmp_path / "backup")
    lose_a_payload(root, 40)
    sources = [os.fspath(tmp_path / "backup")]
    with open_journal(root) as journal:
        repair(journal, WRITER)
        assert repair(journal, WRITER, sources=sources)
        redact(journal, WRITER, secret="secret secret", reason="told in confidence")
        assert repair(journal, WRITER, sources=sources) == []
        assert list(journal.objects.digests()) == []


def mended_wherever_it_stops(root, tmp_path):
    """Stop a repair at every call, and repair again; gives how many calls there are."""
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
            return at
        at += 1


@pytest.mark.slow
def test_a_stop_at_every_call_while_a_payload_is_given_up(root, tmp_path):
    with open_journal(root) as journal:
        put(journal, 40, "x" * 70_000)
        put(journal, 40, "said after")
    lose_a_payload(root, 40, b"nonsense")
    assert mended_wherever_it_stops(root, tmp_path) > 15


def test_a_damaged_object_that_nothing_names_is_parked_once_that_is_certain(root):
    stray = Path(root, "objects/ab", f"{5:062}")
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"x")
    with open_journal(root) as journal:
        segment, entry = entries_of(journal)[4]
        path = Path(journal.reader(journal.lineage).path_of(segment))
    good = path.read_bytes()
    damage(path, entry.offset + 10, b"?" * 100)
    Path(root, "index.sqlite").unlink()
    with open_journal(root) as journal:
        repair(journal, WRITER)
    assert stray.read_bytes() == b"x", "a record that cannot be read may name it"
    path.write_bytes(good)

    def unsure(entity, lend):
        lend(b"\0" * 32)

    with open_journal(root) as journal:
        digest = bytes.fromhex("ab" + stray.name)
        assert repair(journal, WRITER, all_references=unsure) == []
        assert repair(journal, WRITER, all_references=lambda _entity, _lend: {digest}) == []
        assert examine(journal).exit_code == 1
        assert [one.path for one in repair(journal, WRITER)] == [os.fspath(stray)]
        assert examine(journal).problems == []
        assert repair(journal, WRITER) == []
    assert any(one.read_bytes() == b"x" for one in parked(root))


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


@pytest.mark.slow
def test_a_stop_at_every_call_and_repair_again(root, tmp_path):
    with open_journal(root) as journal:
        found = {entry.record.seq: (segment, entry) for segment, entry in entries_of(journal)}
        reader = journal.reader(journal.lineage)
        for seq in (2, 12):
            segment, entry = found[seq]
            damage(Path(reader.path_of(segment)), entry.offset + 60, b"?" * (entry.length - 70))
    Path(root, "journal/.left.1.abc.tmp").write_bytes(b"half")
    assert mended_wherever_it_stops(root, tmp_path) > 25


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
