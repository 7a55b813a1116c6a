"""Entity files that cannot be written: what they were to say is known all the same, and it is told that they lag behind."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from cli_support import Shell
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.memory import Memory
from periplus.project import Project
from support import WRITER, Stop


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "shop").mkdir()
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell("init")
    shell("remember", "The harbour opens at dawn", "--type", "constraint")
    return shell


def block(shell):
    """Nothing can be made in the folder of constraints, as where it is somebody else's: a file is in its place."""
    folder = shell.folder / ".periplus/entities/constraint"
    folder.rename(shell.folder / "aside")
    folder.write_text("no folder\n")
    return folder


def test_what_is_written_beside_files_that_cannot_be_is_found(shell):
    folder = block(shell)
    kept = shell.json("remember", "Moor at the quay", "--type", "constraint").entity.id
    shell("remember", "The tide turns twice", "--type", "note")
    assert [hit.id for hit in shell.json("recall", "moor").hits] == [kept]
    assert len(shell.json("recall", "tide").hits) == 1
    assert "Moor at the quay" in shell("brief", "moor at the quay").out
    assert len(shell.json("log").records) == 3
    assert shell.json("status").index_current
    said = shell("status").out
    assert f"left alone: .periplus/entities/constraint/{kept}.json: cannot be written: " in said
    assert "Remove what is in the place of its folder, or let `periplus doctor --repair` park it." in said
    assert "the entity's file cannot be read: Not a directory" in shell("doctor", code=1).out
    folder.unlink()
    shell("status")
    assert {path.stem for path in folder.iterdir()} >= {kept}
    assert "left alone" not in shell("status").out
    assert "sound" in shell("doctor").out


def test_what_changed_is_found_by_its_new_words_and_the_old_file_is_no_edit(shell):
    [first] = (shell.folder / ".periplus/entities/constraint").iterdir()
    folder = block(shell)
    shell("set", first.stem, "text=The harbour opens at noon")
    assert len(shell.json("recall", "noon").hits) == 1
    folder.unlink()
    shutil.move(shell.folder / "aside", folder)  # with the file of before
    assert len(shell.json("recall", "noon").hits) == 1
    assert shell("status").out.count("edited in") == 0
    assert json.loads(first.read_text())["entity"]["text"] == "The harbour opens at noon"
    assert [one.action for one in shell.json("log").records] == ["update", "create"]
    assert "sound" in shell("doctor").out


@pytest.mark.slow
def test_a_search_says_what_it_could_not_see(shell):
    """Another process is at the index, and stays there."""
    with Lock(os.fspath(shell.folder / ".periplus/journal/projection.lock")).holding():
        kept = shell.json("remember", "The tide turns twice", "--type", "note").entity.id
        begun = time.monotonic()
        shell("brief", "the tide")
        assert time.monotonic() - begun < 14, (
            "waits for the other once: for each of its eight parts that is 16 s on any machine"
        )
        for words, code in (
            (("recall", "tide"), 1),
            (("brief", "the tide"), 0),
            (("related", "--task", "the tide"), 1),
        ):
            done = shell(*words, code=code)
            assert "1 entity that was written just now cannot be searched yet" in done.err, words
        assert "The tide turns twice" in shell("show", kept).out
    done = shell("recall", "tide")
    assert kept in done.out
    assert done.err == ""


class KilledBeforeSync(Files):
    def sync_data(self, fd):
        raise Stop


def test_a_search_says_that_no_sync_has_covered_what_it_could_not_see(shell):
    """It said that another process was at the index, and to repeat the command in a moment: it would have said so until somebody wrote."""
    root = os.fspath(shell.folder / ".periplus")
    with Project(root, WRITER, files=KilledBeforeSync()) as project, pytest.raises(Stop):
        project.remember(Memory("note", "The tide turns twice"))
    for words, code in ((("recall", "tide"), 1), (("brief", "the tide"), 0)):
        done = shell(*words, code=code)
        assert "1 entity that was written last cannot be searched yet: the write may not be on disk" in done.err, words
    assert shell("doctor").out.splitlines()[-1].startswith("sound")
    shell("remember", "Moor at the quay", "--type", "note")
    done = shell("recall", "tide")
    assert "The tide turns twice" in done.out
    assert done.err == ""
