"""An index that was made from a checkpoint lacks the records before it: nobody gets another answer for that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_support import Shell, git, shared_project
from periplus.base.clock import FixedClock
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.history.log import RecordFilter, newest, newest_by_pages
from periplus.project.trail_store.recording import IDLE_MS_MAX
from recorder_support import open_project
from support import open_journal, remove_index
from test_checkpoint import filled, put
from test_history_apart import from_checkpoint


def begin_at_a_checkpoint(shell):
    """Have the index begin at a checkpoint behind everything that was written."""
    shell("doctor", "--compact")
    remove_index(shell.folder / ".periplus")
    shell("status")


@pytest.fixture
def alone(tmp_path):
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell.folder.mkdir()
    shell("init")
    return shell


@pytest.fixture
def team(tmp_path):
    """Ada and Bob, who hold the records of both."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000", "--type", "note", "--as", "ada")
    bob("remember", "No releases on Fridays", "--type", "note", "--as", "bob")
    ada("sync", "--with", bob.folder)
    return ada, bob


# -- log ---------------------------------------------------------------------------------------------------------------


def test_as_many_as_lie_behind_the_checkpoint_are_not_the_last(tmp_path):
    root = filled(tmp_path)
    from_checkpoint(root)
    with open_journal(root) as journal:
        put(journal, 1, "behind")
        lineage, end = journal.lineage, journal.end(journal.lineage).next_seq
        held = len(journal.index.records("lineage = ?", (lineage,), -1))
        for limit in range(1, held + 2):
            remove_index(root)
            with open_journal(root) as again:
                again.project()
                assert again.index.has_floors
                expected = {lineage: end - limit}
                assert newest(again, RecordFilter(), lineages=[lineage], before={}, limit=limit).before == expected
            remove_index(root)
            with open_journal(root) as again:
                pages = [*newest_by_pages(again, RecordFilter(), lineages=[lineage], before={}, limit=limit)]
                assert pages[-1].before == expected


def test_log_says_that_there_is_more(alone):
    for number in range(3):
        alone("remember", f"Rule {number}", "--type", "note")
    begin_at_a_checkpoint(alone)
    assert alone("log", "--limit", "1").lines[-1] == "older: periplus log --before 4"
    remove_index(alone.folder / ".periplus")
    assert alone.json("log", "--limit", "1").more


def test_a_lineage_with_nothing_behind_the_checkpoint_is_shown(team):
    ada, bob = team
    [foreign] = bob.json("log").records
    begin_at_a_checkpoint(ada)
    assert [one.leaf for one in ada.json("log", "--lineage", foreign.lineage).records] == [foreign.leaf]


def test_the_newest_of_several_lineages_are_the_newest(team):
    ada, bob = team
    begin_at_a_checkpoint(ada)
    bob("remember", "Tests need the database", "--type", "note")
    ada("sync", "--with", bob.folder)
    found = ada.json("log", "--lineage", "all", "--limit", "2")
    shutil.rmtree(ada.folder / ".periplus" / "journal" / "checkpoints")
    remove_index(ada.folder / ".periplus")
    whole = ada.json("log", "--lineage", "all", "--limit", "2")
    assert (found.records, found.more, found.next_page) == (whole.records, whole.more, whole.next_page)


# -- changed -----------------------------------------------------------------------------------------------------------


def test_a_session_from_before_the_checkpoint_is_known(alone):
    alone("remember", "First", "--type", "note", env={"PERIPLUS_SESSION": "s-1"})
    alone("remember", "Second", "--type", "note", env={"PERIPLUS_SESSION": "s-2"})
    begin_at_a_checkpoint(alone)
    assert [one.text for one in alone.json("changed", "--since", "s-1").items] == ["Second"]


def test_a_time_from_before_the_checkpoint_is_not_the_beginning(alone):
    first = alone.json("remember", "First", "--type", "note").entity.id
    alone("remember", "Second", "--type", "note")
    since = alone.json("log").records[0].ts
    begin_at_a_checkpoint(alone)
    assert first not in [one.id for one in alone.json("changed", "--since", since).items]


def test_what_came_from_others_before_the_checkpoint_is_told(team):
    ada, _ = team
    seq = str(ada.json("log").records[0].seq)
    expected = ada.json("changed", "--since", seq).items
    assert [one.text for one in expected] == ["No releases on Fridays"]
    begin_at_a_checkpoint(ada)
    assert ada.json("changed", "--since", seq).items == expected


# -- what was changed late, and a brief without its past ------------------------------------------------------------------


def test_what_was_changed_late_is_told(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    old = ada.json("remember", "--type", "decision", "Ports start at 8000").entity.id
    bob("sync", "--with", ada.folder)
    ada("evolve", old, "Ports start at 9000")
    bob("set", old, "rationale=8443 must stay free")
    bob("sync", "--with", ada.folder)
    bob("set", old, "tags=net")
    expected = bob.json("review", code=1).due
    begin_at_a_checkpoint(bob)
    assert bob.json("review", code=1).due == expected
    begin_at_a_checkpoint(bob)
    assert bob.json("sync", "--with", ada.folder).changed_late != []


@pytest.mark.slow
def test_a_brief_does_without_the_archive(alone):
    config = alone.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "segment_bytes = 600\nlive_segments = 1\n")
    alone("session", "begin", "s-0", "--as", "bob")
    alone("session", "end", "s-0", "--as", "bob", env={"PERIPLUS_SESSION": "s-0"})
    for number in range(4):
        alone("remember", f"Rule {number}", "--type", "note")
        alone("doctor", "--compact")
    begin_at_a_checkpoint(alone)
    [archive] = (alone.folder / ".periplus" / "journal").glob("lin_*/archive")
    away = Path(shutil.move(archive, alone.folder.parent / "archive"))
    remove_index(alone.folder / ".periplus")
    said = alone("brief", "Rule", "--as", "bob").out
    assert "Rule 0" in said
    assert "changes by others are unknown" in said
    shutil.move(away, archive)
    assert "note created by ada" in alone("brief", "Rule", "--as", "bob").out


def test_a_run_at_work_is_not_sealed_for_its_steps_lie_before_the_checkpoint(tmp_path):
    clock = FixedClock()
    with open_project(tmp_path, clock=clock) as project:
        run = project.record(checkpoints=False, pid=0)
        clock.advance(IDLE_MS_MAX)
        run.step("NOP")
        make_checkpoint(project.journal, project.writer)
    remove_index(tmp_path / ".periplus")
    clock.advance(1)
    with open_project(tmp_path, clock=clock) as project:
        project.journal.project()
        assert project.journal.index.has_floors
        assert project.seal_abandoned() == []
        clock.advance(IDLE_MS_MAX)
        assert [one.run.id for one in project.seal_abandoned()] == [run.id]


# -- entity files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def committed(tmp_path):
    """``(shell, the file of a decision, its text of before)``: an older version in git, behind it a newer one and two checkpoints."""
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell.folder.mkdir()
    git(shell.folder, "init", "-q", "-b", "main")
    shell("init")
    config = shell.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "segment_bytes = 600\nlive_segments = 1\n")
    name = shell.json("remember", "Indent by spaces", "--type", "decision").entity.id
    file = shell.folder / ".periplus" / "entities" / "decision" / f"{name}.json"
    old = file.read_text()
    shell("set", name, "text=Indent by three")  # else the newest version names the old one, and its place were known
    shell("set", name, "text=Indent by tabs")
    for number in range(2):
        shell("remember", f"Rule {number}", "--type", "note")
        shell("doctor", "--compact")
    begin_at_a_checkpoint(shell)
    return shell, file, old


def archive_away(shell):
    [archive] = (shell.folder / ".periplus" / "journal").glob("lin_*/archive")
    away = Path(shutil.move(archive, shell.folder.parent / "archive"))
    remove_index(shell.folder / ".periplus")
    shell("status")
    return away, archive


def test_doctor_knows_an_older_version_in_a_file(committed):
    shell, file, old = committed
    file.write_text(old)
    out = shell("doctor", code=1).out
    assert "the file holds an older version" in out
    assert "not in the journal yet" not in out


def test_an_edited_file_refuses_nobody_who_does_without_the_archive(committed):
    """Everything was refused, reading too, for one file that was edited."""
    shell, file, _ = committed
    archive_away(shell)
    file.write_text(file.read_text().replace("Indent by tabs", "Indent by two"))
    assert f"decision {file.stem} was edited in its file" in shell("status").out
    assert "Indent by two" in shell("show", file.stem).out
    shell("remember", "Rule 3", "--type", "note")


@pytest.mark.slow
def test_a_file_of_whose_version_nobody_knows_is_left_alone_until_the_archive_is_back(committed):
    shell, file, old = committed
    away, archive = archive_away(shell)
    file.write_text(old)
    assert "it may be older than the journal's version" in shell("status").out
    assert "it may be older than the journal's version" in shell("doctor", code=3).out
    assert "Indent by tabs" in shell("show", file.stem).out
    shell("remember", "Rule 3", "--type", "note")
    assert file.read_text() == old
    shutil.move(away, archive)
    assert "left alone" not in shell("status").out
    assert "Indent by tabs" in file.read_text()
    assert shell.json("log", "--action", "external_edit").records == []


@pytest.mark.slow
def test_a_file_of_the_version_that_the_newest_was_made_from_is_known_to_be_older(committed):
    shell, file, _ = committed
    before = file.read_text()
    shell("set", file.stem, "text=Indent by eight")
    shell("doctor", "--compact")
    archive_away(shell)
    file.write_text(before)
    assert "may be older" not in shell("status").out
    assert "Indent by eight" in file.read_text()
    assert shell.json("log", "--action", "external_edit").records == []


def test_what_cannot_be_read_in_a_file_refuses_nobody_either(committed):
    shell, file, _ = committed
    archive_away(shell)
    file.write_text(file.read_text() + "<<<<<<< HEAD\n")
    assert "conflict markers" in shell("status").out
    assert "Indent by tabs" in shell("show", file.stem).out


@pytest.mark.slow
def test_a_sync_without_the_archive_is_refused_before_anything_has_come(committed):
    """What came was merged over versions that are elsewhere, and everything was refused then, reading too."""
    shell, file, _ = committed
    git(shell.folder, "add", "-A")
    git(shell.folder, "commit", "-q", "-m", "Say how to indent")
    other = Shell(shell.folder.parent / "clone", shell.home)
    git(shell.folder, "clone", "-q", ".", other.folder)
    other("set", file.stem, "rationale=Screens are narrow")
    shell("set", file.stem, "tags=style")
    archive_away(shell)
    before = shell.json("status")
    for _ in range(2):
        shell.fails("sync", "--with", other.folder, code=3, wrong="neither here nor in archive/")
    assert shell.json("status") == before
    assert "Indent by tabs" in shell("show", file.stem).out
    shell("remember", "Rule 3", "--type", "note")
