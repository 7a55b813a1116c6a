"""Tiles give what the tree in memory gives, whatever its size and however it grew; damage in them changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import DamageError, UsageError
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.proofs.proof_file import Prover, verify_proof
from periplus.journal.proofs.tiles import LineageTree, read_tile_head
from periplus.journal.recovery.plain_files import PlainFiles
from periplus.journal.storage.layout import Layout
from periplus.merkle import HASH_BYTES, TILE_WIDTH, Frontier, TiledTree, Tree, leaf_hash
from periplus.merkle.tiles import level_sizes
from support import WRITER, FailingFiles, Stop, StoppingFiles, item, make_store, open_journal, settle

LEAVES = [leaf_hash(b"%d" % number) for number in range(70_000)]
SIZES = st.one_of(st.integers(0, 700), st.integers(65_500, 66_100))


class Levels:
    """What an agent of the tiles keeps: a run of bytes for each level."""

    def __init__(self):
        self.runs = []

    def take(self, added):
        for one in added:
            if one.level == len(self.runs):
                self.runs.append(bytearray())
            assert len(self.runs[one.level]) == one.start * HASH_BYTES, "hashes go behind those that are there"
            self.runs[one.level] += one.data

    def read(self, level, start, count):
        return bytes(self.runs[level][start * HASH_BYTES : (start + count) * HASH_BYTES])


def grown(*steps):
    levels, frontier, size = Levels(), Frontier(), 0
    for step in steps:
        levels.take(frontier.extend(LEAVES[size : size + step]))
        size += step
        frontier = Frontier(size, TiledTree(size, levels.read).tails())  # as a later process begins
    return levels, frontier, size


# ---- the tiles themselves


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(SIZES, st.data())
def test_tiles_give_the_roots_and_proofs_of_the_tree(size, data):
    levels, frontier, _ = grown(size)
    tree, tiled = Tree(LEAVES[:size]), TiledTree(size, levels.read)
    assert [len(run) // HASH_BYTES for run in levels.runs] == level_sizes(size)
    assert frontier.root() == tiled.root() == tree.root()
    for _ in range(4):
        end = data.draw(st.integers(0, size))
        assert tiled.root(end) == tree.root(end)
        first = data.draw(st.integers(0, end))
        assert tiled.consistency(first, end) == tree.consistency(first, end)
        if end:
            index = data.draw(st.integers(0, end - 1))
            assert tiled.inclusion(index, end) == tree.inclusion(index, end)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 600), max_size=8))
def test_it_does_not_matter_in_which_steps_a_tree_grew(steps):
    levels, frontier, size = grown(*steps)
    at_once, whole, _ = grown(size)
    assert levels.runs == at_once.runs
    assert frontier.root() == whole.root() == Tree(LEAVES[:size]).root()


def test_a_proof_reads_few_tiles_however_many_there_are():
    levels, _, size = grown(70_000)
    reads = []

    def read(level, start, count):
        assert start % TILE_WIDTH == 0
        assert count <= TILE_WIDTH
        reads.append((level, start))
        return levels.read(level, start, count)

    tiled = TiledTree(size, read)
    assert tiled.inclusion(31_415) == Tree(LEAVES).inclusion(31_415)
    assert len(reads) <= 2 * len(level_sizes(size))
    assert len(reads) == len(set(reads))


def test_a_tree_that_grows_knows_its_full_tiles_and_reads_the_others_again():
    levels, frontier, _ = grown(300)
    tiled = TiledTree(300, levels.read)
    assert tiled.root() == Tree(LEAVES[:300]).root()
    levels.take(frontier.extend(LEAVES[300:600]))
    tiled.grow(600)
    assert tiled.inclusion(299) == Tree(LEAVES[:600]).inclusion(299)


def test_wrong_tiles_are_refused():
    with pytest.raises(UsageError, match="32 bytes"):
        Frontier().extend([b"short"])
    with pytest.raises(UsageError, match="not the last tiles"):
        Frontier(3, [bytes(64)])
    with pytest.raises(DamageError, match=r"level 0 .* ends before hash 3"):
        TiledTree(3, lambda *_: bytes(64)).root()


# ---- the tree of a lineage, on disk


def fill(root, count, first=0, files=None):
    with open_journal(root, files) as journal:

        def write(transaction):
            for number in range(first, first + count):
                transaction.put("note", item(number, "not"), {"text": f"number {number}"})

        journal.mutate(write, WRITER)


def leaves_of(journal):
    return [entry.leaf for _, entry in journal.entries(journal.lineage)]


def tree_files(root, lineage):
    folder = Path(Layout(root).tree_folder(lineage))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def store(tmp_path):
    root = make_store(tmp_path)
    fill(root, 300)
    return root


def check(journal, tree):
    """Everything that ``tree`` says is what the records' own lines say."""
    leaves = leaves_of(journal)
    plain = Tree(leaves)
    assert (tree.size, tree.head_root) == (len(leaves), plain.root())
    for seq in {1, 2, len(leaves) // 2, len(leaves)}:
        assert tree.inclusion(leaves[seq - 1], seq) == plain.inclusion(seq - 1)
        assert tree.root(seq) == plain.root(seq)
        assert tree.consistency(seq) == plain.consistency(seq)


def test_tiles_are_written_once_and_only_what_came_is_added(store):
    with open_journal(store) as journal:
        tree = LineageTree(journal)
        check(journal, tree)
        lineage, before = journal.lineage, tree_files(store, journal.lineage)
        assert tree.rebuilt == 1
        assert before["level-0"] == b"".join(leaves_of(journal))
        assert set(before) == {"head", "level-0", "level-1"}
    fill(store, 260, 300)
    with open_journal(store) as journal:
        tree = LineageTree(journal)
        assert tree.rebuilt == 0
        check(journal, tree)
        after = tree_files(store, lineage)
        assert len(after["level-1"]) == 2 * HASH_BYTES
        assert all(after[name].startswith(before[name]) for name in ("level-0", "level-1"))
        journal.mutate(lambda t: t.put("note", item(900, "not"), {"text": "one more"}), WRITER)
        tree.refresh()
        check(journal, tree)
        assert tree.rebuilt == 0


@pytest.mark.slow
def test_every_changed_byte_of_a_tile_is_found_and_mended(tmp_path):
    root = make_store(tmp_path)
    fill(root, 21)
    with open_journal(root) as journal:
        LineageTree(journal)
        sound, leaves = tree_files(root, journal.lineage), leaves_of(journal)
        plain, folder = Tree(leaves), Path(Layout(root).tree_folder(journal.lineage))
        for name, content in sound.items():
            for place in range(len(content)):
                changed = bytearray(content)
                changed[place] ^= 4
                (folder / name).write_bytes(changed)
                tree = LineageTree(journal)
                assert tree.inclusion(leaves[4], 5) == plain.inclusion(4)
                assert (tree.rebuilt, tree.head_root) == (1, plain.root()), f"{name} byte {place}"
                assert tree_files(root, journal.lineage) == sound


def test_damage_in_a_full_tile_is_found_by_who_uses_it(store):
    with open_journal(store) as journal:
        LineageTree(journal)
        sound, leaves = tree_files(store, journal.lineage), leaves_of(journal)
        plain, folder = Tree(leaves), Path(Layout(store).tree_folder(journal.lineage))
        for name, step in (("level-0", 97), ("level-1", 5)):
            for place in range(0, len(sound[name]), step):
                changed = bytearray(sound[name])
                changed[place] ^= 0x20
                (folder / name).write_bytes(changed)
                tree = LineageTree(journal)
                for seq in (1, 2, 300):  # between them they read every hash there is
                    assert tree.inclusion(leaves[seq - 1], seq) == plain.inclusion(seq - 1)
                assert tree.rebuilt == 1, f"{name} byte {place}"
                assert tree_files(store, journal.lineage) == sound


@pytest.mark.parametrize("name", ["head", "level-0", "level-1"])
@pytest.mark.parametrize("how", ["gone", "cut", "empty", "longer", "a folder"])
def test_files_that_are_not_what_they_were(store, name, how):
    with open_journal(store) as journal:
        LineageTree(journal)
        path = Path(Layout(store).tree_folder(journal.lineage)) / name
        data = path.read_bytes()
        path.unlink()
        if how == "a folder":
            path.mkdir()
        elif how != "gone":
            path.write_bytes({"cut": data[:-7], "empty": b"", "longer": data + bytes(7)}[how])
        check(journal, LineageTree(journal))
    fill(store, 300, 300)
    with open_journal(store) as journal:
        check(journal, LineageTree(journal))


def test_a_seal_of_another_store_is_nobodys(store, tmp_path):
    """Whoever has no secret cannot make us believe a tree: not by copying the head of a store of his own."""
    other = make_store(tmp_path / "other")
    fill(other, 300)
    with open_journal(store) as journal, open_journal(other) as foreign:
        LineageTree(journal)
        LineageTree(foreign)
        ours, theirs = (
            Path(Layout(root).tree_folder(one.lineage)) for root, one in ((store, journal), (other, foreign))
        )
        forged = (theirs / "head").read_text().replace(foreign.lineage, journal.lineage)
        (ours / "head").write_text(forged)
        assert read_tile_head(journal, journal.lineage) is None
        check(journal, LineageTree(journal))


@pytest.mark.slow
def test_a_changed_byte_of_the_tiles_head_is_not_told_of_the_key_nor_the_other_way_round(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        fill(root, 5)
        journal.refresh()
        Prover(journal).head()
        head = Path(root, "journal", "tree", journal.lineage, "head")
        key = Path(root, "journal", "keys", "trail")
        for path in (head, key):
            data = path.read_bytes()
            for at in range(len(data.rstrip())):
                for bit in (1, 16):
                    path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
                    told = [(one.name, one.what) for one in PlainFiles(root, journal.stores).suspects()]
                    is_same_digit = path == key and path.read_bytes().lower() == data
                    expected = [] if path == head or is_same_digit else ["journal/keys/trail"]
                    assert [name for name, _ in told] == expected, (path.name, at, told)
            path.write_bytes(data)
        head.write_bytes(head.read_bytes().replace(b'"size":5', b'"size":4'))
        problems = [(one.path, one.what) for one in examine(journal).problems]
        assert problems == [(str(head), "the tiles' head is missing or damaged")]


def test_where_nothing_can_be_written_the_tree_is_kept_in_memory(store):
    with open_journal(store, FailingFiles("pwrite", 28)) as journal:
        tree = LineageTree(journal)
        check(journal, tree)
        assert "head" not in tree_files(store, journal.lineage)
    with open_journal(store) as journal:
        LineageTree(journal)
    fill(store, 400, 300)
    with open_journal(store, FailingFiles("pwrite", 28)) as journal:
        before = tree_files(store, journal.lineage)
        check(journal, LineageTree(journal))
        assert tree_files(store, journal.lineage) == before
    with open_journal(store) as journal:
        tree = LineageTree(journal)
        assert tree.rebuilt == 0
        check(journal, tree)


def test_without_the_stores_secret_nothing_on_disk_is_believed_or_written(store):
    with open_journal(store) as journal:
        os.unlink(os.path.join(journal.layout.keys, "trail"))
        check(journal, LineageTree(journal))
        assert not os.path.exists(journal.layout.tree_folder(journal.lineage))


def test_a_stop_at_every_call_while_the_tree_grows(store, tmp_path):
    with open_journal(store) as journal:
        LineageTree(journal)
    fill(store, 300, 300)
    at = 0
    while True:
        copy = os.fspath(tmp_path / f"copy{at}")
        shutil.copytree(store, copy)
        settle(copy)
        files = StoppingFiles(at, 0.4)
        with open_journal(copy, files) as journal:
            before = len(files.calls)
            if before > at:
                at = before
                continue
            try:
                LineageTree(journal)
            except Stop:
                pass
            else:
                break
        with open_journal(copy) as journal:
            check(journal, LineageTree(journal))
        fill(copy, 5, 600)
        with open_journal(copy) as journal:
            tree = LineageTree(journal)
            check(journal, tree)
        at += 1
    assert {"pwrite", "open level-0", "open level-1", "replace head"} <= set(files.calls)


def test_a_store_without_records_has_the_empty_tree(tmp_path):
    with open_journal(make_store(tmp_path)) as journal:
        tree = LineageTree(journal)
        assert (tree.size, tree.head_root) == (0, sha256(b"").digest())


def test_redaction_changes_no_tile(store):
    """A stub's leaf is that of the record it was: the tree grows on as if nothing had been taken out."""
    with open_journal(store) as journal:
        journal.mutate(lambda t: t.put("decision", item(1), {"text": "the password is hunter22"}), WRITER)
        tree = LineageTree(journal)
        before, path = tree_files(store, journal.lineage), tree.inclusion(leaves_of(journal)[300], 301)
        done = redact(journal, WRITER, secret="hunter22", reason="pasted by mistake")
        assert [one.seq for one in done.records] == [301]
    with open_journal(store) as journal:
        later = LineageTree(journal)
        assert later.rebuilt == 0
        assert later.root(301) == tree.head_root
        assert tree_files(store, journal.lineage)["level-0"].startswith(before["level-0"])
        proof = verify_proof(Prover(journal).record(301))
        assert (proof.holds, proof.stubs) == (True, (301,))
        assert b"hunter22" not in proof.line
        assert path == tree.inclusion(leaves_of(journal)[300], 301)
        shutil.rmtree(journal.layout.tree)
        again = LineageTree(journal)
        assert (again.rebuilt, again.head_root) == (1, later.head_root)


PROVE = """
import sys
sys.path.insert(0, sys.argv[2])
from support import open_journal
from periplus.journal.proofs.proof_file import Prover, verify_proof
print("ready", flush=True)
with open_journal(sys.argv[1]) as journal:
    prover = Prover(journal)
    sys.stdin.readline()
    for _ in range(20):
        size = prover.head().head.size
        assert verify_proof(prover.record(size)).holds and verify_proof(prover.growth(1)).holds
print(size)
"""


@pytest.mark.slow
def test_several_processes_prove_while_another_writes(store):
    """Nobody takes a lock for the tiles: all write the same bytes, and what is half there leads to no wrong proof."""
    words = [sys.executable, "-c", PROVE, store, os.path.dirname(__file__)]
    provers = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for prover in provers:
        assert prover.stdout.readline() == "ready\n"
    for prover in provers:
        prover.stdin.write("go\n")
        prover.stdin.flush()
    for number in range(40):
        fill(store, 3, 300 + 3 * number)
    for prover in provers:
        out, _ = prover.communicate(timeout=60)
        assert prover.returncode == 0
        assert 300 <= int(out) <= 420
    with open_journal(store) as journal:
        tree = LineageTree(journal)
        check(journal, tree)
        assert tree_files(store, journal.lineage)["level-0"] == b"".join(leaves_of(journal))
