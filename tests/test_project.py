"""One store behind one object: what importing promises, whatever is imported, again, at once, older or from elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.base.errors import ConflictError
from periplus.journal.history.log import RecordFilter
from periplus.memory import Memory
from periplus.project import Project
from support import SHARED, WRITER

SESSION = SHARED / "transcripts" / "claude-code-jsonl" / "33210c2e180b-0" / "full.jsonl"
needs_sessions = pytest.mark.skipif(not SESSION.exists(), reason="the shared transcripts are not beside this checkout")


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.py").write_text("a = 1\n")
    git(folder, "add", "a.py")
    git(folder, "commit", "-q", "-m", "Begin")
    Project.init(str(folder))
    with Project.open(str(folder), WRITER) as opened:
        yield opened


def git(folder, *arguments):
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def everything(project):
    """The bytes of the journal and the objects: what importing again must not change."""
    root = Path(project.root)
    return {path: path.read_bytes() for path in [*root.glob("journal/lin_*/*"), *root.glob("objects/*/*")]}


def test_importing_history_twice_changes_nothing(project):
    first = project.import_git(project.folder)
    before = everything(project)
    again = project.import_git(project.folder)
    assert (first.changed, again.changed) == (True, False)
    assert everything(project) == before


def test_a_history_that_grew_is_the_same_trail(project):
    first = project.import_git(project.folder)
    Path(project.folder, "b.py").write_text("b = 1\n")
    git(project.folder, "add", "b.py")
    git(project.folder, "commit", "-q", "-m", "Go on")
    again = project.import_git(project.folder)
    assert again.changed
    assert again.entity.item_id == first.entity.item_id
    assert again.entity.rev == 2
    assert len(list(project.trails())) == 1
    assert project.examine().problems == []  # the replaced version's object is still named


def test_the_history_of_a_linked_worktree_is_the_same(project, tmp_path):
    project.import_git(project.folder)
    before = everything(project)
    git(project.folder, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other name"))
    assert not project.import_git(str(tmp_path / "other name")).changed
    assert everything(project) == before


@needs_sessions
def test_importing_a_session_twice_changes_nothing(project):
    assert project.import_transcript(str(SESSION)).changed
    before = everything(project)
    assert not project.import_transcript(str(SESSION)).changed
    assert everything(project) == before


@needs_sessions
def test_an_older_copy_of_a_session_does_not_take_its_place(project, tmp_path):
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"".join(SESSION.read_bytes().splitlines(keepends=True)[:40]))
    short = project.import_transcript(str(part))
    whole = project.import_transcript(str(SESSION))
    assert whole.changed
    assert whole.entity.item_id == short.entity.item_id
    before = everything(project)
    again = project.import_transcript(str(part))
    assert not again.changed
    assert again.entity == whole.entity
    assert {name: data for name, data in everything(project).items() if "journal" in str(name)} == {
        name: data for name, data in before.items() if "journal" in str(name)
    }


def test_importing_at_once_writes_one_record(project):
    code = (
        "import sys\nfrom periplus.project import Project\nfrom periplus.journal import Writer\n"
        f"with Project.open({project.folder!r}, Writer('x', 'who_x')) as project:\n    project.import_git({project.folder!r})\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert len(project.log(RecordFilter(types=("trail",))).records) == 1


def test_importing_again_heals_a_lost_object(project):
    project.import_git(project.folder)
    shutil.rmtree(os.path.join(project.root, "objects"))
    assert project.examine().exit_code == 3
    assert not project.import_git(project.folder).changed
    assert project.examine().exit_code == 0


def test_a_key_of_something_else_is_refused(project):
    first = project.remember(Memory("note", "alpha beta"), key="k1")
    again = project.remember(Memory("note", "alpha beta"), key="k1")
    assert (again.entity, again.is_new) == (first.entity, False)
    with pytest.raises(ConflictError, match="k1"):
        project.remember(Memory("note", "gamma delta"), key="k1")
    assert not project.recall("gamma").hits


def test_under_the_policy_never_a_torn_tail_is_no_damage(tmp_path):
    Project.init(str(tmp_path))
    config = tmp_path / ".periplus" / "config.toml"
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))
    with Project.open(str(tmp_path), WRITER) as project:
        for number in range(3):
            project.remember(Memory("note", f"number {number}"))
        segment = Path(project.journal.reader(project.journal.lineage).path_of(1))
        assert not Path(project.journal.layout.durable).exists()
    segment.write_bytes(segment.read_bytes()[:-30])
    for path in tmp_path.glob(".periplus/index.sqlite*"):
        path.unlink()
    with Project.open(str(tmp_path), WRITER) as project:
        assert project.journal.damage is None
        project.remember(Memory("note", "goes on"))
        assert {entity.value["text"] for entity in project.journal.entities("note")} == {
            "number 0",
            "number 1",
            "goes on",
        }
        assert {entry.record.durable for _, entry in project.journal.entries(project.journal.lineage)} == {0}


@pytest.mark.parametrize("size", [-5, 0, 9_999_999_999])
def test_impossible_sizes_of_a_segment_are_refused(tmp_path, size):
    Project.init(str(tmp_path))
    config = tmp_path / ".periplus" / "config.toml"
    config.write_text(config.read_text() + f"segment_bytes = {size}\n")
    with pytest.raises(Exception, match="segment_bytes"):
        Project.open(str(tmp_path), WRITER)
