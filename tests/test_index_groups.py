"""Memories whose files are written at once and which are indexed together: nobody who reads, and nobody who is killed, can tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from periplus.memory import Memory
from periplus.project import Project
from support import WRITER, Stop, StoppingFiles


@pytest.fixture
def root(tmp_path):
    return Project.init(os.fspath(tmp_path)).root


def keep(project, text):
    return project.remember(Memory("decision", text)).entity


def file_of(root, entity):
    return os.path.join(root, "entities", entity.item_type, f"{entity.item_id}.json")


def shown(root, entity):
    with open(file_of(root, entity), encoding="utf-8") as file:
        return json.load(file)["entity"]["text"]


def indexed(project):
    return {row[0] for row in project.journal.index.db.execute("SELECT item_id FROM heads")}


def test_a_file_is_there_at_once_and_the_index_comes_behind_many(root):
    with Project(root, WRITER) as project:
        kept = [keep(project, f"The boats of day {number} sail") for number in range(200)]
        assert [shown(root, one) for one in kept] == [one.value["text"] for one in kept]
        assert len(project.journal.unindexed()) <= 64
    with Project(root, WRITER) as project:
        assert project.journal.unindexed() == []  # closing did the rest
        assert indexed(project) == {one.item_id for one in kept}
        assert project.examine().problems == []


def test_another_process_sees_what_is_not_indexed_yet(root):
    with Project(root, WRITER) as project, Project(root, WRITER) as other:
        kept = keep(project, "The harbour opens at dawn")
        assert project.journal.unindexed() == [("decision", kept.item_id)]
        assert other.recall("harbour dawn").hits[0].item_id == kept.item_id
        assert other.journal.get("decision", kept.item_id) == kept


@pytest.mark.parametrize(
    "text", ["The harbour opens at dawn", "Größe «zwölf»", "äöü", "a\u2028b", 'a "quoted" path\\name']
)
def test_a_duplicate_of_what_another_wrote_and_nobody_indexed_is_found(root, text):
    with Project(root, WRITER) as project, Project(root, WRITER) as other:
        keep(other, "What the other writes first")
        kept = keep(project, text)
        keep(project, f"{text}, and more")
        done = other.remember(Memory("decision", f" {text} "))
        assert (done.entity.item_id, done.is_new, done.receipt) == (kept.item_id, False, None)
        assert other.remember(Memory("note", text)).is_new


def test_who_is_killed_before_anything_is_indexed_leaves_nothing_undone(root):
    script = f"""
        import os
        from periplus.journal import Writer
        from periplus.memory import Memory
        from periplus.project import Project
        project = Project({root!r}, Writer("ada", "who_0000000000000000"))
        for number in range(40):
            project.remember(Memory("decision", f"The boats of day {{number}} sail"))
        os._exit(0)
    """
    with Project(root, WRITER) as project:
        keep(project, "The harbour opens at dawn")
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    with Project(root, WRITER) as project:
        assert len(project.recall("boats", limit=50).hits) == 40
        assert project.journal.unindexed() == []
        assert project.examine().problems == []


@pytest.mark.slow
def test_stopped_at_any_call_a_memory_is_whole_or_absent_and_the_next_look_converges(root):
    for at in range(70):
        try:
            with Project(root, WRITER, files=StoppingFiles(at)) as stopped:
                for number in range(3):
                    keep(stopped, f"Tide {at} turns {number}")
        except Stop:
            pass
        with Project(root, WRITER) as project:
            project.journal.settle(WRITER)  # of what was stopped at its sync
            project.look()
            held = list(project.journal.entities("decision"))
            assert all(shown(root, one) == one.value["text"] for one in held)
            assert project.journal.unindexed() == []
    with Project(root, WRITER) as project:
        assert {one.severity for one in project.examine().problems} <= {"note"}  # of temporary files


def test_an_edit_of_a_file_that_is_not_indexed_yet_is_taken_in(root):
    with Project(root, WRITER) as project:
        kept = keep(project, "The harbour opens at dawn")
        with open(file_of(root, kept), encoding="utf-8") as file:
            said = file.read()
        with open(file_of(root, kept), "w", encoding="utf-8") as file:
            file.write(said.replace("dawn", "noon"))
        project.journal.project()
        project.look()
        assert project.journal.get("decision", kept.item_id).value["text"] == "The harbour opens at noon"
        assert shown(root, kept) == "The harbour opens at noon"


def test_a_file_that_stands_there_already_is_not_written_over(root):
    with Project(root, WRITER) as project:
        kept = keep(project, "The harbour opens at dawn")
        with open(file_of(root, kept), "w", encoding="utf-8") as file:
            file.write("mine")
        project.journal.index_later("decision", kept.item_id)
        project.look()
        with open(file_of(root, kept), encoding="utf-8") as file:
            assert file.read() == "mine"


def test_no_file_is_written_while_git_is_at_a_merge_and_the_next_look_writes_it(root):
    git = os.path.join(os.path.dirname(root), ".git")
    os.mkdir(git)
    with open(os.path.join(git, "MERGE_HEAD"), "w", encoding="utf-8"):
        pass
    with Project(root, WRITER) as project:
        kept = keep(project, "The harbour opens at dawn")
        assert not os.path.exists(file_of(root, kept))
        os.unlink(os.path.join(git, "MERGE_HEAD"))
        project.look()
        assert shown(root, kept) == "The harbour opens at dawn"


def test_near_ones_are_looked_up_when_they_are_asked_for_and_are_never_the_memory_itself(root):
    with Project(root, WRITER) as project:
        old = keep(project, "Hash every password with argon2 before it is stored")
        done = project.remember(Memory("decision", "Hash every password with argon2 before it is stored anywhere"))
        assert ("decision", done.entity.item_id) in project.journal.unindexed()  # nobody has asked
        assert done.near == (old.item_id,)
