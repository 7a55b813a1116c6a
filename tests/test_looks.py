"""When the entity files are looked at: a look that was dear is remembered from one process to the next."""

from __future__ import annotations

import subprocess

import pytest

from cli_support import Shell
from periplus.journal.projections import external_edits
from periplus.journal.projections.look_schedule import FILES_LOOKED
from periplus.journal.state.transaction import Writer
from periplus.memory import Memory
from periplus.project import Project

WRITER = Writer("ada", "s1")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A store whose looks are dear, and due again in a minute."""
    monkeypatch.setattr(external_edits, "_DEAR_NS", 0)
    monkeypatch.setattr(external_edits, "_FEW_FILES", 0)
    monkeypatch.setattr(external_edits, "LOOK_SHARE", 1_000_000_000)
    folder = tmp_path / "project"
    folder.mkdir()
    Shell(folder, tmp_path)("init")
    with Project(folder / ".periplus", WRITER) as project:
        project.remember(Memory("decision", "The tide turns the boats"))
        project.look()
    return folder / ".periplus"


def edit(root):
    (path,) = (root / "entities" / "decision").glob("*.json")
    path.write_text(path.read_text().replace("boats", "ships"))


def answers(root):
    with Project(root, WRITER) as project:
        return [hit.text for hit in project.recall("tide").hits]


def test_who_only_asks_goes_by_the_last_look(root):
    edit(root)
    assert answers(root) == ["The tide turns the boats"]
    with Project(root, WRITER) as project:  # who looks at one thing sees it as it is
        entity = next(project.journal.entities("decision"))
        assert project.show(entity.item_id).value["text"] == "The tide turns the ships"
    assert answers(root) == ["The tide turns the ships"]


def test_who_writes_over_an_edit_loses_nothing(root):
    edit(root)
    with Project(root, WRITER) as project:
        assert project.recall("tide").hits[0].text == "The tide turns the boats"
        project.remember(Memory("decision", "Another thing"))
    with Project(root, WRITER) as project:
        project.look()
        assert {str(one.value["text"]) for one in project.journal.entities("decision")} == {
            "The tide turns the ships",
            "Another thing",
        }


@pytest.mark.parametrize(
    "said",
    [
        "",
        "nonsense",
        "another-boot 99999999999999999999",
        "{boot} 5",
        "{boot} 99999999999999999999",
        "{boot} -1",
        "{boot} ٣",
    ],
)
def test_what_is_past_or_cannot_be_is_not_believed(root, said):
    edit(root)
    with Project(root, WRITER) as project:
        boot = project.journal.files.boot_id()
        project.journal.index.begin_write()
        project.journal.index.set_meta(FILES_LOOKED, said.replace("{boot}", boot))
        project.journal.index.commit()
    assert answers(root) == ["The tide turns the ships"]


def test_a_cheap_look_is_not_remembered(root, monkeypatch):
    monkeypatch.setattr(external_edits, "_DEAR_NS", 10**12)
    edit(root)
    with Project(root, WRITER) as project:
        project.look()
        assert project.journal.index.meta(FILES_LOOKED) == ""
    assert answers(root) == ["The tide turns the ships"]


def test_a_look_at_few_files_is_not_dear_however_busy_the_machine_is(root, monkeypatch):
    monkeypatch.setattr(external_edits, "_FEW_FILES", 500)
    edit(root)
    with Project(root, WRITER) as project:
        project.look()
        assert project.journal.index.meta(FILES_LOOKED) == ""
    edited = next((root / "entities" / "decision").glob("*.json"))
    edited.write_text(edited.read_text().replace("ships", "barges"))
    assert answers(root) == ["The tide turns the barges"]


def test_another_commit_is_seen_at_once(root):
    def git(*words):
        subprocess.run(
            ["git", "-C", root.parent, "-c", "user.name=a", "-c", "user.email=a@example.org", *words],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    with Project(root, WRITER) as project:
        project.look()
    edit(root)
    assert answers(root) == ["The tide turns the boats"]
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert answers(root) == ["The tide turns the ships"]


def test_a_store_without_an_index_is_looked_at(root):
    edit(root)
    Project.discard_index(str(root.parent), store=str(root))
    assert answers(root) == ["The tide turns the ships"]
