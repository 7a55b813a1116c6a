"""The backups of a migration: interrupted, gone on with, examined, and mended."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.errors import DamageError
from periplus.base.files import Files
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.migration import migrate
from support import Stop, StoppingFiles
from v1_samples import contents

WRITER = Writer("ada", "who_0000000000000000", "ses", 1)
LEFT = ".L-1.json.4711.0123abcd.tmp"


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "old"
    (folder / "lessons").mkdir(parents=True)
    for number in (1, 2):
        (folder / "lessons" / f"L-{number}.json").write_text(f'{{"id": "L-{number}", "text": "Lesson {number}"}}')
    (folder / "draft.tmp").write_text("what another program calls its files")
    (folder / LEFT).write_text("and what is left of a write")
    return folder


@pytest.fixture
def store(tmp_path):
    (tmp_path / "project").mkdir()
    Project.init(os.fspath(tmp_path / "project"))
    return tmp_path / "project" / ".periplus"


def to(store, mode, old=None, files=None):
    with Project(os.fspath(store), WRITER, files=files) as project:
        return migrate(project, mode, source=os.fspath(old) if old else "")


def told(store):
    """The exit code of an examination, and what it says with the place of it within the archive."""
    with Project(os.fspath(store), WRITER) as project:
        found = project.examine()
    return found.exit_code, [
        (one.severity, one.what, os.path.relpath(one.path, store / "archive")) for one in found.problems
    ]


def repaired(store, *sources):
    done = Project.rescue(os.fspath(store.parent), sources=[os.fspath(one) for one in sources])
    with Project(os.fspath(store), WRITER) as project:
        done += project.repair(sources=[os.fspath(one) for one in sources])
    return [one.what for one in done]


def stopped_at_the_manifest(store, old):
    """A backup of which all is there but the manifest."""
    calls = StoppingFiles(-1)
    shutil.copytree(store.parent, store.parent.with_name("try"))
    shutil.copytree(old, old.with_name("try-old"))
    to(store.parent.with_name("try") / ".periplus", "dual", old.with_name("try-old"), calls)
    at = next(at for at, call in enumerate(calls.calls) if call.startswith("open .MANIFEST.json"))
    with pytest.raises(Stop):
        to(store, "dual", old, StoppingFiles(at))
    (folder,) = (store / "archive").iterdir()
    return folder


def test_a_backup_that_was_interrupted_is_no_damage(old, store, tmp_path):
    with pytest.raises(Stop):
        to(store, "dual", old, _Torn("L-2.json"))
    (first,) = (store / "archive").iterdir()
    assert [path.name for path in (first / "files" / "lessons").iterdir() if path.name.startswith(".L-2.json.")]
    (old / "lessons" / "L-1.json").write_text('{"id": "L-1", "text": "Changed since"}')
    done = to(store, "dual", old)
    assert done.backup != f"archive/{first.name}"
    code, problems = told(store)
    assert code == 0, problems
    assert [one for one in problems if one[2].startswith(first.name)] == [
        (
            "note",
            "a backup that was interrupted: 4 files were copied, and no step relied on it",
            first.name,
        ),
        ("note", "2 temporary files of unfinished copies; they are not used", f"{first.name}/files"),
    ]
    out = Shell(store.parent, tmp_path)("doctor").out
    assert f"It is not needed; to remove it: rm -r {first}" in out
    assert "a temporary file of an unfinished copy is parked" in repaired(store)
    assert told(store)[0] == 0
    assert (first / "files" / "lessons" / "L-1.json").exists(), "it may be the only copy of what the file said then"


class _Repairing(Files):
    """Another process repairs the store while a file of the backup is copied."""

    def __init__(self, store):
        super().__init__()
        self.store, self.said = store, None

    def replace(self, source, target):
        if os.path.basename(target) == "L-2.json" and "/archive/" in target and self.said is None:
            self.said = [told(self.store), repaired(self.store)]
        super().replace(source, target)


def test_what_is_being_copied_is_not_taken_for_what_was_left(old, store):
    """The copy was moved away under its own hands: the migration ended with an error, though nothing was wrong."""
    files = _Repairing(store)
    done = to(store, "dual", old, files)
    assert files.said is not None
    assert "temporary file" not in str(files.said)
    assert (store / done.backup / "files/lessons/L-2.json").read_bytes() == (old / "lessons/L-2.json").read_bytes()
    assert told(store) == (0, [])


def test_the_same_content_goes_on_where_it_was_interrupted(old, store):
    with pytest.raises(Stop):
        to(store, "dual", old, _Torn("L-2.json"))
    again = StoppingFiles(-1)
    done = to(store, "dual", old, again)
    assert not [call for call in again.calls if call.startswith("open .L-1.json.")], "it had been copied"
    listed = json.loads((store / done.backup / "MANIFEST.json").read_bytes())["files"]
    assert sorted(one["path"] for one in listed) == sorted([LEFT, "draft.tmp", "lessons/L-1.json", "lessons/L-2.json"])
    code, problems = told(store)
    assert (code, [what for _, what, _ in problems]) == (
        0,
        ["a temporary file of an unfinished copy; it is not used"],
    )
    assert repaired(store) == ["a temporary file of an unfinished copy is parked"]
    assert told(store) == (0, [])


@pytest.mark.slow
def test_stopped_at_every_call_there_is_nothing_to_repair(old, store, tmp_path):
    at, is_done = 0, False
    while not is_done:
        mine = tmp_path / f"at{at}" / ".periplus"
        shutil.copytree(store, mine)
        files = StoppingFiles(at, share=0.5)
        shutil.copytree(old, tmp_path / f"old{at}")
        try:
            to(mine, "dual", tmp_path / f"old{at}", files)
            is_done = True
        except Stop:
            pass
        (tmp_path / f"old{at}" / "lessons" / "L-1.json").write_text('{"id": "L-1", "text": "Changed since"}')
        to(mine, "dual", tmp_path / f"old{at}")
        code, problems = told(mine)
        assert code == 0, (at, problems)
        repaired(mine)
        told_after = told(mine)
        assert told_after[0] == 0, (at, told_after)
        at += 3
    assert at > 30


@pytest.mark.parametrize("how", ["never written", "gone", "damaged"])
def test_a_manifest_is_written_again_where_all_its_files_are_there(old, store, how):
    if how == "never written":
        folder = stopped_at_the_manifest(store, old)
    else:
        folder = store / to(store, "dual", old).backup
        wanted = (folder / "MANIFEST.json").read_bytes()
        (folder / "MANIFEST.json").unlink() if how == "gone" else (folder / "MANIFEST.json").write_bytes(b"{")
    code, problems = told(store)
    what = "the manifest of a backup is missing or damaged; all its files are there"
    severity = "note" if how == "never written" else "warning"
    assert (code, [one[:2] for one in problems]) == (how != "never written", [(severity, what)])
    assert "the manifest of a backup, whose files are all there, is written again" in repaired(store)
    assert told(store) == (0, [])
    if how != "never written":
        assert (folder / "MANIFEST.json").read_bytes() == wanted


def test_a_finished_backup_without_manifest_and_one_of_its_files_is_damage(old, store, tmp_path):
    folder = store / to(store, "dual", old).backup
    shutil.copytree(store, tmp_path / "copy" / ".periplus")
    (folder / "MANIFEST.json").unlink()
    (folder / "files" / "lessons" / "L-1.json").unlink()
    assert told(store)[:1] == (1,)
    assert told(store)[1][0][1] == "the manifest of a backup is missing or damaged"
    repaired(store)
    assert told(store)[0] == 1
    repaired(store, tmp_path / "copy")
    assert told(store) == (0, [])


def test_what_another_program_calls_temporary_stays_in_its_backup(old, store):
    """Its names are its own: a repair took the files out of the backup, which then lacked them."""
    (old / "events.jsonl.tmp").write_text('{"item_id": "L-1"}\n')
    folder = store / to(store, "dual", old).backup
    to(store, "primary")
    before = contents(store / "archive")
    assert told(store) == (0, [])
    assert repaired(store) == []
    assert contents(store / "archive") == before
    assert (folder / "files" / LEFT).exists()
    assert told(store) == (0, [])


def test_a_backup_is_not_written_through_a_link(old, store, tmp_path):
    (old / LEFT).unlink()  # which the first step clears away
    name = Path(to(store, "dual", old).backup).name
    fresh = tmp_path / "other" / ".periplus"
    fresh.parent.mkdir()
    Project.init(os.fspath(fresh.parent))
    (fresh / "archive" / name / "files").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (fresh / "archive" / name / "files" / "lessons").symlink_to(tmp_path / "out")
    with pytest.raises(DamageError, match="symbolic link"):
        to(fresh, "dual", old)
    code, problems = told(fresh)
    assert code == 1
    assert ("a symbolic link; nothing within a store is one", f"{name}/files/lessons") in [one[1:] for one in problems]
    repaired(fresh)
    assert os.listdir(tmp_path / "out") == []


class _Torn(StoppingFiles):
    """Stops in the middle of a file of this name."""

    def __init__(self, name):
        super().__init__(-1)
        self.name, self.fd = name, -1

    def open(self, path, flags, mode=0o644):
        fd = super().open(path, flags, mode)
        if os.path.basename(path).startswith(f".{self.name}."):
            self.fd = fd
        return fd

    def write(self, fd, data):
        if fd == self.fd:
            os.write(fd, bytes(data)[:5])
            raise Stop
        return super().write(fd, data)
