"""Reads: fresh, behind and stale; what another process writes in between; and where nothing can be written."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.journal import Journal
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.index.record_lookup import REPLAY_BYTES_PER_S, bytes_behind
from periplus.journal.state.entity import EntityType
from support import TYPES, WRITER, item, let_everybody_in, make_store, open_journal, remove_index

CLAIMS = {**TYPES, "claim": EntityType("claim", "clm", is_projected=False, check=lambda _: None, reads_through=True)}
ANOTHER = """
import sys
from periplus.journal import EntityType, Journal, Writer
names = {"decision": "dec", "claim": "clm"}
types = {name: EntityType(name, prefix, False, lambda _: None) for name, prefix in names.items()}
def write(transaction):
    for number in range(int(sys.argv[3])):
        transaction.put("decision", f"dec_{number:016d}", {"n": sys.argv[2]})
    transaction.put("claim", "clm_" + "0" * 16, {"by": sys.argv[2]})
with Journal(sys.argv[1], types) as journal:
    journal.mutate(write, Writer("another", "who_0000000000000001", "", 2), project=False)
"""


def another_writes(root, what, count=1):
    """In a process of its own; the index is left behind."""
    subprocess.run([sys.executable, "-c", ANOTHER, root, what, str(count)], check=True, timeout=60)


def put(journal, number, value, **more):
    return journal.mutate(lambda t: t.put("decision", item(number), {"n": value}), WRITER, **more)


def state(journal):
    return [(entity.item_type, entity.item_id, entity.version, entity.rev, entity.heads, entity.payload, entity.conflicts)
            for entity in journal.entities()]  # fmt: skip


def claim(number=0):
    return item(number, "clm")


def test_what_is_kept_of_an_entity_goes_when_another_process_writes_it(tmp_path):
    root = make_store(tmp_path)
    with Journal(root, TYPES) as journal:
        put(journal, 0, "mine")
        put(journal, 1, "mine")
        for number in range(3):
            other = journal.get("decision", item(1))
            another_writes(root, f"theirs {number}")
            assert journal.get("decision", item(0)) == journal.get("decision", item(0))
            journal.refresh()
            assert journal.get("decision", item(0)).value == {"n": f"theirs {number}"}
            assert journal.get("decision", item(1)) == other
            journal.project()
            assert journal.get("decision", item(0)).value == {"n": f"theirs {number}"}
        journal.mutate(lambda t: t.delete("decision", item(0)), WRITER, project=False)
        assert journal.get("decision", item(0)) is None


@pytest.mark.slow
def test_a_reader_in_haste_is_stale_and_says_so_but_never_about_a_claim(tmp_path):
    root = make_store(tmp_path)
    with Journal(root, CLAIMS) as writer:
        put(writer, 0, "first")
        writer.mutate(lambda t: t.put("claim", claim(), {"by": "me"}), WRITER)
    with Journal(root, CLAIMS) as journal:
        assert bytes_behind(journal) == 0
        journal.refresh(within_s=0.0)
        assert not journal.is_stale, "there was nothing to read"
        another_writes(root, "other", 50)
        behind = bytes_behind(journal)
        assert behind > 50 * 200
        journal.refresh(within_s=behind / REPLAY_BYTES_PER_S / 2)
        assert journal.is_stale
        assert journal.get("decision", item(0)).value == {"n": "first"}
        assert [entity.value["n"] for entity in journal.entities("decision")] == ["first"]
        assert journal.is_stale
        assert journal.get("claim", claim()).value == {"by": "other"}
        assert not journal.is_stale, "it read all there was"
        assert journal.get("decision", item(0)).value == {"n": "other"}
        for read in (
            lambda: journal.get("claim", claim()),
            lambda: next(journal.entities("claim")),
            lambda: next(journal.entities()),
            lambda: journal.find(claim()[:6]),
        ):
            another_writes(root, f"again {read}")
            journal.refresh(within_s=0.0)
            assert journal.is_stale
            assert read().value in ({"by": f"again {read}"}, {"n": f"again {read}"}), "without a look of its own"
    with Journal(root, CLAIMS, within_s=0.0) as journal:
        assert journal.is_stale
        assert journal.get("decision", item(0)).value == {"n": "first"}
        put(journal, 3, "a write is never made on a stale state")
        assert not journal.is_stale
        assert journal.get("decision", item(0)).value != {"n": "first"}


def test_a_reader_with_time_enough_is_fresh(tmp_path):
    root = make_store(tmp_path)
    with Journal(root, TYPES) as journal:
        put(journal, 0, "first")
        another_writes(root, "other", 50)
        journal.refresh(within_s=bytes_behind(journal) / REPLAY_BYTES_PER_S)
        assert not journal.is_stale
        assert journal.get("decision", item(0)).value == {"n": "other"}


def test_without_an_index_in_a_folder_of_somebody_else_the_checkpoint_is_read_into_memory(tmp_path):
    if os.getuid() != 0:
        pytest.skip("becoming another user needs root")
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(9):
            put(journal, number % 4, number)
        journal.roll()
        made = make_checkpoint(journal, WRITER)
        put(journal, 2, "after")
        expected, lineage = state(journal), journal.lineage
    remove_index(root)
    let_everybody_in(tmp_path)
    before = {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}
    pid = os.fork()
    if not pid:
        try:
            os.setgid(65534)
            os.setuid(65534)
            with open_journal(root) as journal:
                assert journal.index.is_memory
                assert journal.index.floors() == {lineage: made.seq + 1}
                assert state(journal) == expected
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()} == before


# -- from a checkpoint and from zero, over several lineages ------------------------------------------------------------


def files_of(root):
    return {path.relative_to(root): path.read_bytes() for path in Path(root, "entities").rglob("*.json")}


def exchanged(roots):
    """Each clone gets the others' records as they are now."""
    for source in roots:
        for target in roots:
            own = {path.name for path in Path(source, "journal").glob("lin_*")}
            for name in own:
                for path in sorted(Path(source, "journal", name).rglob("*.jsonl")):
                    held = Path(target, "journal", name, path.name)
                    if source != target and (not held.exists() or held.stat().st_size < path.stat().st_size):
                        held.parent.mkdir(exist_ok=True)
                        held.write_bytes(path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_histories_of_clones_are_one_state_from_a_checkpoint_and_from_zero(tmp_path, seed):
    chance = random.Random(seed)
    roots = [make_store(tmp_path / "0")]
    with open_journal(roots[0]) as journal:
        put(journal, 0, "before they part")
    for number in (1, 2):
        roots.append(str(tmp_path / str(number) / ".periplus"))
        shutil.copytree(roots[0], roots[-1])
    for _ in range(4):
        for root in roots:
            with open_journal(root) as journal:
                for _ in range(chance.randrange(1, 6)):
                    number = chance.randrange(4)
                    if chance.random() < 0.2 and journal.get("decision", item(number)):
                        journal.mutate(lambda t, number=number: t.delete("decision", item(number)), WRITER)
                    else:
                        put(journal, number, chance.randrange(5))
                if chance.random() < 0.3:
                    journal.roll()
                if chance.random() < 0.5:
                    make_checkpoint(journal, WRITER)
        if chance.random() < 0.7:
            exchanged(roots)
    with open_journal(roots[0]) as journal:
        make_checkpoint(journal, WRITER)
    exchanged(roots)
    found = []
    for root in roots:
        remove_index(root)
        shutil.rmtree(Path(root, "entities"), ignore_errors=True)
        with open_journal(root) as journal:
            assert journal.damage is None
            from_checkpoint = state(journal)
        files = files_of(root)
        remove_index(root)
        shutil.rmtree(Path(root, "entities"), ignore_errors=True)
        shutil.rmtree(Path(root, "journal", "checkpoints"), ignore_errors=True)
        with open_journal(root) as journal:
            assert not journal.index.floors()
            assert state(journal) == from_checkpoint
        assert files_of(root) == files
        found.append((from_checkpoint, files))
    assert found[0] == found[1] == found[2]
    assert found[0][1], "there are files"


def test_segments_that_are_gone_before_a_checkpoint_are_not_missed(tmp_path):
    """Not only damaged: parked on another disk. Present state is served, and what needs the past says what is missing."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(9):
            put(journal, number % 4, number)
            if number % 3 == 2:
                journal.roll()
        made = make_checkpoint(journal, WRITER)
        put(journal, 2, "after")
        expected, lineage = state(journal), journal.lineage
    remove_index(root)
    for path in Path(root, "journal", lineage).glob("*.jsonl"):
        if int(path.stem) < 10:
            path.unlink()
    with open_journal(root) as journal:
        assert journal.index.floors() == {lineage: made.seq + 1}
        assert journal.damage is None
        assert state(journal) == expected
        put(journal, 3, "goes on")
        journal.refresh()
        assert journal.get("decision", item(3)).value == {"n": "goes on"}
