"""``prove --bundle``, ``head`` and ``verify`` in a project, as a person types them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cli_support import Shell, fill
from support import settle


@pytest.fixture
def store(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path)
    shell.folder.mkdir()
    fill(shell, *(f"Thing number {number}" for number in range(4)))
    return shell


def other_folder(tmp_path, name="far"):
    (tmp_path / name).mkdir()
    return Shell(tmp_path / name, tmp_path)


def test_several_records_in_one_file(store, tmp_path):
    made = store.json("prove", "4", "2", "--bundle", "--from", "3")
    assert (made.kind, made.seqs, made.size, made.path) == ("bundle", [2, 4], 4, f"{store.folder}/bundle.proof")
    done = other_folder(tmp_path)("verify", made.path, "--key", made.key)
    assert done.lines[0].startswith("holds: signed by key ")
    assert done.lines[1].startswith("2 of the 4 records of lineage lin_")
    assert "Thing number 1" in done.lines[2]
    assert "Thing number 3" in done.lines[3]
    assert done.lines[4] == "They begin with the 3 records of the earlier head."
    result = store.json("verify", made.path)
    assert (result.seqs, result.seq, result.record, len(result.records)) == ([2, 4], 0, "", 2)
    assert (result.stubs, result.here) == ([], "extends")


def test_what_cannot_be_proved_together(store):
    before = sorted(os.listdir(store.folder))
    store.fails("prove", "1", "2", code=2, wrong="use --bundle for several")
    store.fails("prove", "--bundle", code=2, wrong="--bundle takes one or more SEQ")
    store.fails("prove", "1", "--bundle", "--from", "1", "--to", "2", code=2, wrong="but not --to")
    store.fails("prove", "1", "5", "--bundle", code=1, wrong="there is no record 5")
    store.fails("prove", "1", "--bundle", "--from", "5", code=1, wrong="not from 5")
    store.fails("prove", "x", "--bundle", code=2, wrong="x")
    assert sorted(os.listdir(store.folder)) == before


def test_the_head_on_paper_and_in_a_file(store, tmp_path):
    done = store("head")
    size, _, root = done.lines[0].partition(":")
    head = store.json("head", "--out", tmp_path / "head.proof")
    assert (head.size, head.root, head.path) == (int(size), root, str(tmp_path / "head.proof"))
    assert (head.key, head.signature) == (done.lines[2].split()[1], done.lines[3].split()[1])
    far = other_folder(tmp_path)
    assert far.json("verify", head.path, "--key", head.key).kind == "head"
    assert far("verify", head.path).lines[1].startswith("The head of the first 4 records of lineage lin_")
    proof = store.json("prove", "1").path
    for name in (head.path, f"{size}:{root}"):
        assert far("verify", proof, "--head", name).lines[0] == "holds: of the head given"
    fill(store, "One more")
    assert not far.json("verify", store.json("prove", "1").path, "--head", head.path, code=3).holds
    far.fails("verify", proof, "--head", proof, code=2, wrong="is not a file of a tree head")
    far.fails("verify", proof, "--head", "4:none", code=2)
    far.fails("head", code=2, wrong="no store")
    store.fails("head", "--out", tmp_path / "no/such/folder", code=2, wrong="there is no folder")


def test_a_store_without_records_has_no_head(tmp_path):
    empty = other_folder(tmp_path, "empty")
    fill(empty)
    empty.fails("head", code=1, wrong="no records of its own yet")
    empty.fails("prove", "--from", "1", "--to", "1", code=1, wrong="no records of its own yet")
    empty.fails("prove", "1", code=1, wrong="it has none")


def test_in_a_project_verify_says_whose_a_proof_is(store, tmp_path):
    proof = store.json("prove", "2").path
    done = store("verify", proof)
    assert done.lines[0].startswith("holds: signed by key ")
    assert done.lines[0].endswith(", this store's own")
    assert done.lines[-1] == "The records here begin with the ones that it covers."
    # Elsewhere nobody knows the key, neither without a store nor in another one.
    nobody = other_folder(tmp_path)
    assert nobody("verify", proof).lines[0].startswith("holds: consistent, but its origin is unknown")
    stranger = other_folder(tmp_path, "stranger")
    fill(stranger, "Something else")
    result = stranger.json("verify", proof)
    assert (result.holds, result.signer, result.here) == (True, "", "")
    assert nobody.json("verify", proof, "--store", store.folder).here == "extends"
    nobody.fails("verify", proof, "--store", nobody.folder, code=2, wrong="not a store")
    # Whoever has a copy of the statement and signs it with a key of his own is told apart.
    key = Path(store.folder, ".periplus/journal/keys")
    public = next(path for path in key.iterdir() if path.suffix == ".public")
    public.write_text("22" * 32 + "\n")
    wrong = store("verify", proof, code=3)
    assert wrong.lines[0].startswith(
        "does not hold: the proof is not signed by the key given: the one this store's own"
    )


def test_a_store_that_was_rolled_back_is_told_by_a_head_kept_elsewhere(store, tmp_path):
    older = tmp_path / "older"
    shutil.copytree(store.folder / ".periplus", older)
    fill(store, "One more", "And another")
    head = store.json("head", "--out", tmp_path / "head.proof").path
    assert store.json("verify", head).here == "extends"
    fork = other_folder(tmp_path, "fork")
    shutil.copytree(older, fork.folder / ".periplus")
    settle(os.fspath(fork.folder / ".periplus"))  # as a snapshot of the whole disk would put it back
    result = fork.json("verify", head, code=3)
    assert (result.holds, result.here) == (True, "behind")
    assert (
        fork("verify", head, code=3)
        .lines[-1]
        .startswith("Here are only 4 of the 6 records that it covers: this store lost records")
    )
    fill(fork, "Another past", "with as many records", "and one more")
    assert fork.json("verify", head, code=3).here == "differs"
    assert fork("doctor").code == 0  # alone it is sound: that is why heads are kept elsewhere
    # Unpacked from a backup it is a copy, and the lineage that it had is seen to be behind as well.
    copy = other_folder(tmp_path, "copy")
    shutil.copytree(older, copy.folder / ".periplus")
    assert copy.json("verify", head, code=3).here == "behind"
    fill(copy, "What it writes goes into a lineage of its own")
    assert copy.json("log").lineage != store.json("log").lineage
    told = copy("verify", head, code=3).lines
    assert told[0].endswith(", this store's own before it was copied, moved or restored")
    assert told[-1].startswith("Here are only 4 of the 6 records that it covers: this store lost records")
    again = other_folder(tmp_path, "again")
    shutil.copytree(copy.folder / ".periplus", again.folder / ".periplus")
    fill(again, "And once more")
    assert again.json("verify", head, code=3).here == "behind"
    again("sync", "--with", store.folder)  # whoever has what was lost gives it back
    assert again.json("verify", head).here == "extends"
    # A store that cannot be read does not keep a proof from being checked.
    (fork.folder / ".periplus/config.toml").write_text("[store")
    assert fork.json("verify", head).here == "unknown"


def test_doctor_and_prove_tell_of_records_that_are_no_longer_there(store):
    root = store.json("head").root
    segment = next((store.folder / ".periplus/journal").glob("lin_*/*.jsonl"))
    data = segment.read_bytes()
    segment.write_bytes(data[: data.rstrip(b"\n").rfind(b"\n") + 1])
    (store.folder / ".periplus/index.sqlite").unlink()
    (store.folder / ".periplus/journal/durable").unlink()
    failed = store.fails("prove", "1", code=3, wrong="only 3 are here")
    assert root in failed.err
    found = store.json("doctor", code=3)
    assert any("4 records" in problem.what and root in problem.what for problem in found.problems)
