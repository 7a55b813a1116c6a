"""Heads that were seen: records that no longer lead to them were cut off, rolled back, rewritten, or are a fork's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from periplus.base.errors import DamageError, RefusedError, UsageError
from periplus.journal.care.doctor import examine
from periplus.journal.proofs.heads import check_head, extends, pin_key, remember_head
from periplus.journal.proofs.proof_file import Prover, verify_proof
from periplus.journal.proofs.tiles import LineageTree
from periplus.journal.records.record import seal_line
from periplus.journal.records.segment import decode_header
from periplus.journal.storage.keys import public_key, sign
from periplus.journal.storage.tree_head import Seen, TreeHead, head_message, peers, pinned_key, read_peer
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, segment_path, settle


def add(root, *numbers):
    with open_journal(root) as journal:
        for number in numbers:
            journal.mutate(lambda t, n=number: t.put("note", item(n, "not"), {"text": f"number {n}"}), WRITER)


def copy_of(root, folder):
    target = os.fspath(folder / ".periplus")
    shutil.copytree(root, target)
    settle(target)
    return target


def head_of(journal, size=None):
    tree = LineageTree(journal)
    return TreeHead(journal.store_id, journal.lineage, size or tree.size, tree.root(size).hex())


def signature_of(journal, head):
    return sign(journal.layout, journal.lineage, head_message(head))


def rewrite(path, old, new):
    """Another past: the record's text is changed and its line sealed anew, so that every checksum holds."""
    data = path.read_bytes()
    lines = [seal_line(line[:-26].replace(old, new))[0][:-1] if old in line else line for line in data.splitlines()]
    path.write_bytes(b"\n".join(lines) + b"\n")


@pytest.fixture
def store(tmp_path):
    root = make_store(tmp_path)
    add(root, *range(5))
    return root


def problems(root):
    with open_journal(root) as journal:
        found = examine(journal)
        return found.exit_code, [(p.severity, p.what) for p in found.problems if p.severity != "note"]


def test_a_proof_leaves_a_memory_of_the_head_it_was_made_with(store):
    with open_journal(store) as journal:
        assert check_head(journal) is None
        signed = Prover(journal).head()
        peer = read_peer(journal.layout, journal.lineage)
        assert peer.seen == Seen(5, signed.head.root, signed.signature.hex())
        assert (peer.key, peer.own, peer.store) == (
            public_key(journal.layout, journal.lineage).hex(),
            True,
            journal.store_id,
        )
        assert peers(journal.layout) == [peer] == [check_head(journal)]
        assert pinned_key(journal.layout, journal.lineage).whose == "this store's own"
    add(store, 5, 6)
    with open_journal(store) as journal:
        assert Prover(journal).head().head.size == 7
        assert read_peer(journal.layout, journal.lineage).seen.size == 7
    assert problems(store) == (0, [])


def test_the_largest_head_is_kept_and_a_smaller_one_is_checked(store):
    with open_journal(store) as journal:
        remember_head(journal, head_of(journal))
        assert remember_head(journal, head_of(journal, 3)).seen.size == 5
        with pytest.raises(DamageError, match="rewritten, or this is another past"):
            remember_head(journal, TreeHead(journal.store_id, journal.lineage, 3, "11" * 32))
        assert extends(journal, head_of(journal, 2)) is True
        assert extends(journal, TreeHead(journal.store_id, journal.lineage, 2, "11" * 32)) is False
        assert extends(journal, TreeHead(journal.store_id, journal.lineage, 6, "11" * 32)) is None
        with pytest.raises(DamageError, match=r"seen with 6 records .* only 5 are here"):
            remember_head(journal, TreeHead(journal.store_id, journal.lineage, 6, "11" * 32))


@pytest.mark.parametrize("keeps_tiles", [True, False])
def test_an_older_copy_of_the_records_is_noticed(store, tmp_path, keeps_tiles):
    with open_journal(store) as journal:
        segment = segment_path(journal)
        older = segment.read_bytes(), Path(journal.layout.durable).read_bytes()
    add(store, 5, 6)
    with open_journal(store) as journal:
        root = Prover(journal).head().head.root
        tree = journal.layout.tree
    segment.write_bytes(older[0])
    Path(store, "journal", "durable").write_bytes(older[1])
    Path(store, "index.sqlite").unlink()
    if not keeps_tiles:
        shutil.rmtree(tree)
    with open_journal(store) as journal:
        for attempt in (lambda: Prover(journal).record(2), lambda: Prover(journal).head(), lambda: check_head(journal)):
            with pytest.raises(DamageError, match=f"7 records .root {root}., but only 5 are here"):
                attempt()
    code, found = problems(store)
    assert code == 3
    assert any("only 5 are here" in what for _, what in found)


@pytest.mark.parametrize("keeps_tiles", [True, False])
def test_a_rewritten_record_is_noticed_although_its_checksum_holds(store, keeps_tiles):
    with open_journal(store) as journal:
        before = Prover(journal).head().head.root
        path, tree = segment_path(journal), journal.layout.tree
    rewrite(path, b"number 4", b"nombre 4")
    Path(store, "index.sqlite").unlink()
    Path(store, "journal", "durable").unlink()
    if not keeps_tiles:
        shutil.rmtree(tree)
    code, found = problems(store)
    assert code == 3
    assert any(f"under root {before}, but those here have root" in what for _, what in found)
    add(store, 5)  # the writer cannot know; the next proof does
    with open_journal(store) as journal, pytest.raises(DamageError, match="records were rewritten"):
        Prover(journal).record(5)


def test_a_fork_is_told_by_its_own_heads(store, tmp_path):
    """One lineage written in two copies: each alone is sound, together they are not."""
    with open_journal(store) as journal:
        Prover(journal).head()
    other = copy_of(store, tmp_path / "other")
    add(store, 10, 11)
    add(other, 20, 21, 22)
    with open_journal(store) as ours, open_journal(other) as theirs:
        assert ours.lineage == theirs.lineage
        mine, head = Prover(ours).head(), head_of(theirs)
        assert extends(theirs, mine.head) is False
        with pytest.raises(DamageError, match=r"7 records under root .* \(a fork\)"):
            remember_head(theirs, mine.head, signature=mine.signature, key=mine.key)
        assert check_head(theirs).seen.size == 5
        assert extends(ours, head) is None
        assert remember_head(theirs, head).seen.size == 8


def test_a_foreign_lineage_is_known_by_the_key_of_the_first_sight(store, tmp_path):
    foreign = make_store(tmp_path / "foreign")
    add(foreign, *range(100, 104))
    with open_journal(foreign) as other:
        lineage, head, key = other.lineage, head_of(other), public_key(other.layout, other.lineage)
        signature, folder = signature_of(other, head), other.reader(other.lineage).folder
        proof = Prover(other).record(2)
    # A clone of the same project: the foreign lineage's segments beside ours, as an exchange puts them.
    config = Path(foreign, "config.toml").read_text()
    with open_journal(store) as journal:
        assert pinned_key(journal.layout, lineage) is None
    clone = make_store(tmp_path / "clone")
    Path(clone, "config.toml").write_text(config)
    shutil.rmtree(Path(clone, "journal"))
    add(clone, 1)
    shutil.copytree(folder, Path(clone, "journal", lineage))
    with open_journal(clone) as journal:
        assert lineage in journal.lineages()
        peer = remember_head(journal, head, signature=signature, key=key)
        assert (peer.seen.size, peer.key, peer.own) == (4, key.hex(), False)
        assert check_head(journal, lineage) == peer
        assert pin_key(journal, lineage, head.store, key, "the other clone").name == "the other clone"
        known = pinned_key(journal.layout, lineage)
        assert (known.key, known.whose) == (key, "pinned for the other clone")
        assert verify_proof(proof, key=known.key).holds
        with pytest.raises(DamageError, match="was pinned when it was first seen"):
            pin_key(journal, lineage, head.store, bytes(32))
        with pytest.raises(DamageError, match="belonged to store"):
            pin_key(journal, lineage, "str_0000000000000000", key)
        with pytest.raises(RefusedError, match="not signed by the key"):
            remember_head(journal, head, signature=bytes(64), key=key)
        with pytest.raises(UsageError, match="32 bytes"):
            pin_key(journal, lineage, head.store, b"short")
        with pytest.raises(UsageError):
            pin_key(journal, "../../up", head.store, key)
        assert read_peer(journal.layout, lineage) == msgspec.structs.replace(peer, name="the other clone")
    # The other is rolled back, and what comes from it is shorter now.
    segment = Path(clone, "journal", lineage, "000000000001.jsonl")
    data = segment.read_bytes()
    segment.write_bytes(data[: data.rstrip(b"\n").rfind(b"\n") + 1])
    Path(clone, "index.sqlite").unlink()
    with open_journal(clone) as journal, pytest.raises(DamageError, match=r"seen with 4 records .* only 3 are here"):
        check_head(journal, lineage)
    shutil.rmtree(segment.parent)
    code, found = problems(clone)
    assert code == 3
    assert any("only 0 are here" in what for _, what in found)


def test_a_file_that_is_no_memory_is_told_not_forgotten(store):
    with open_journal(store) as journal:
        Prover(journal).head()
        path = Path(journal.layout.peer_file(journal.lineage))
        sound = path.read_bytes()
        for data in (
            b"",
            b"{}",
            sound[:-20],
            sound.replace(b'"size":5', b'"size":0'),
            sound.replace(b'"root":"', b'"root":"zz'),
        ):
            path.write_bytes(data)
            with pytest.raises(DamageError, match="not a valid peer file"):
                Prover(journal).head()
            assert problems(store)[0] == 1
        path.write_bytes(sound)
        Prover(journal).head()
        lineage_file = path.with_name("lin_0000000000000000.json")
        lineage_file.write_bytes(sound)
        assert any("not a valid peer file" in what for _, what in problems(store)[1])


@pytest.mark.slow
def test_a_stop_at_every_call_while_a_head_is_remembered(store, tmp_path):
    at = 0
    while True:
        root = copy_of(store, tmp_path / f"copy{at}")
        files = StoppingFiles(at, 0.5)
        with open_journal(root, files) as journal:
            try:
                data = Prover(journal).record(3)
            except Stop:
                data = b""
        with open_journal(root) as journal:
            seen = read_peer(journal.layout, journal.lineage)
            assert seen is None or seen.seen is None or seen.seen.size == 5
            assert Prover(journal).record(3) == (data or Prover(journal).record(3))
        add(root, 5)
        with open_journal(root) as journal:
            assert verify_proof(Prover(journal).growth(5), key=public_key(journal.layout, journal.lineage)).holds
        assert problems(root) == (0, [])
        if data:
            break
        at += 1
    assert any(call.startswith("replace lin_") for call in files.calls)


def test_doctor_finds_each_kind_of_wrong_tile(store):
    with open_journal(store) as journal:
        Prover(journal).head()
        folder = Path(journal.layout.tree_folder(journal.lineage))
    assert problems(store) == (0, [])
    level = folder / "level-0"
    sound = level.read_bytes()
    for place in range(0, len(sound), 13):
        changed = bytearray(sound)
        changed[place] ^= 1
        level.write_bytes(changed)
        with open_journal(store) as journal:
            [problem] = [p for p in examine(journal).problems if p.severity != "note"]
            assert (problem.severity, problem.path, problem.offset) == ("warning", str(level), place)
    level.unlink()
    assert problems(store)[0] == 1
    (folder / "head").write_bytes(b"{}")
    assert any("head is missing or damaged" in what for _, what in problems(store)[1])
    with open_journal(store) as journal:
        Prover(journal).record(1)
    assert problems(store) == (0, [])


def test_a_segment_header_is_no_leaf(store):
    with open_journal(store) as journal:
        data = segment_path(journal).read_bytes()
        assert decode_header(data)[0].first_seq == 1
        assert LineageTree(journal).size == data.count(b"\n") - 1
