"""A segment is not there: what is quick says so too, not only the doctor."""

from __future__ import annotations

import os
import shutil

import pytest

from cli_support import Shell, fill, segmented
from periplus.journal.checkpoints.offline_archive import absent
from periplus.project import Project
from test_archive_away import ADA


@pytest.fixture
def shell(tmp_path):
    shell = segmented(tmp_path, 20)
    shell("head", "--out", "seen.head")
    assert len(segments(shell)) > 2
    return shell


def segments(shell):
    return sorted((shell.folder / ".periplus/journal").glob("lin_*/*.jsonl"))


@pytest.mark.parametrize("which", [0, 1])
def test_status_and_verify_tell(shell, which):
    """Of the first, or one in the middle: the newest is what everything begins with, and missed by everybody."""
    gone = segments(shell)[which]
    first, last = int(gone.stem), int(segments(shell)[which + 1].stem) - 1
    aside = gone.rename(shell.folder / "aside")
    told = f"the segments of records {first} to {last} of {gone.parent.name} are neither here nor in archive/"
    done = shell("status", code=3)
    assert told in done.out
    assert "doctor --repair --from COPY" in done.out
    done = shell("verify", "seen.head", code=3)
    assert told in done.out
    assert shell.json("verify", "seen.head", code=3).here == "unknown"
    aside.rename(gone)
    assert "sound" in shell("status").out
    assert "begin with the ones that it covers" in shell("verify", "seen.head").out


def test_two_in_a_row(shell):
    second, third = segments(shell)[:2]
    second.unlink()
    third.unlink()
    with Project.open(os.fspath(shell.folder), ADA) as project:
        found = absent(project.journal)
    assert [(one.first_seq, one.last_seq) for one in found] == [(1, int(segments(shell)[0].stem) - 1)]


def test_the_archive_is_elsewhere(shell):
    shell("doctor", "--compact")
    shell("remember", "one more about the engine", "--type", "note")
    archive = next((shell.folder / ".periplus/journal").glob("lin_*/archive"), None)
    if archive is None:
        fill(shell, *(f"later note {number} about the engine" for number in range(20)))
        shell("doctor", "--compact")
        archive = next((shell.folder / ".periplus/journal").glob("lin_*/archive"))
    shutil.move(archive, shell.folder / "elsewhere")
    done = shell("status")
    assert "a checkpoint stands for them" in done.out
    assert "sound" in done.out
    assert len(shell.json("status").away) == 1
    assert "a checkpoint stands for them" in shell("verify", "seen.head").out


@pytest.mark.slow
@pytest.mark.parametrize("is_index_there", [True, False])
def test_no_rev_is_counted_from_what_is_not_here(shell, is_index_there):
    """Of a version that a checkpoint knows it is what it was, of others it is not told: each began with 1 again."""
    one = shell.json("remember", "The valve is open", "--type", "note").entity.id
    for number in range(30):
        shell("set", one, f"text=The valve is open at {number} degrees, said at some length: {'so ' * 30}")
        if number == 20:
            shell("doctor", "--compact")
    shell("doctor", "--compact")
    before = {record.seq: record.rev for record in shell.json("log", "--id", one, "--limit", "100").records}
    shutil.move(next((shell.folder / ".periplus/journal").glob("lin_*/archive")), shell.folder / "elsewhere")
    if not is_index_there:
        (shell.folder / ".periplus/index.sqlite").unlink()
    told = {record.seq: record.rev for record in shell.json("log", "--id", one, "--limit", "100").records}
    assert len(told) > 1
    assert {seq: rev for seq, rev in told.items() if rev} == {seq: before[seq] for seq, rev in told.items() if rev}
    assert told[max(told)] == before[max(before)] == 31
    if not is_index_there:
        assert 0 in told.values(), "some are of before the checkpoint"


def test_an_index_made_anew_from_a_checkpoint_misses_nothing(shell):
    shell("doctor", "--compact")
    (shell.folder / ".periplus/index.sqlite").unlink()
    shell("recall", "engine")
    assert "sound" in shell("status").out
    with Project.open(os.fspath(shell.folder), ADA) as project:
        assert absent(project.journal) == []


def test_a_copy_that_was_cut_short_fails_the_check(shell, tmp_path):
    shutil.copytree(shell.folder, tmp_path / "copy")
    copied = Shell(tmp_path / "copy", shell.home)
    segments(copied)[-1].unlink()
    assert "cannot be compared" in copied("verify", "seen.head", code=3).out
