"""Whose change it is: a file of a v1 folder against what it was when last seen, and one that is not there against whether it ever was."""

from __future__ import annotations

import json
import os
import shutil
from errno import ENOSPC
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.ids import derived_id
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.migration import migrate, migration_status
from support import Stop, StoppingFiles

WRITER = Writer("ada", "who_0000000000000000", "ses", 1)
LESSON = derived_id("les", "v1", "lesson", "L-1")
FIRST = '{"id": "L-1", "text": "first", "severity": 3}\n'


def made(folder, *, clone_of=None):
    """A project beside a v1 folder of one lesson."""
    place = folder / "old" / "lessons" / "L-1.json"
    place.parent.mkdir(parents=True)
    place.write_text(FIRST)
    store = folder / "project" / ".periplus"
    store.mkdir(parents=True)
    if clone_of is not None:
        shutil.copy(Path(clone_of, "config.toml"), store)
    Project.init(os.fspath(folder / "project"))
    return os.fspath(store), place


@pytest.fixture
def here(tmp_path):
    return made(tmp_path)


def opened(store, files=None):
    return Project(store, WRITER, files=files)


def to(store, mode, **how):
    with opened(store) as project:
        return migrate(project, mode, source=os.fspath(Path(store).parents[1] / "old") if mode == "dual" else "", **how)


def say(project, text):
    entity = project.journal.get("lesson", LESSON)
    project.journal.mutate(lambda tx: tx.put("lesson", LESSON, entity.value | {"text": text}), WRITER)


def text_in(path):
    return json.loads(path.read_text())["text"]


def told(store):
    """What the journal says and how it came to say so, and what there is to look at."""
    with opened(store) as project:
        records = [record.action for record in project.log(limit=100).records if record.item_id == LESSON]
        kinds = [one.kind for one in migration_status(project).findings if one.kind != "kept_foreign"]
        return project.journal.get("lesson", LESSON).value["text"], records, kinds


# -- a file of its text of before --------------------------------------------------------------------------------------


def test_a_file_set_back_to_its_text_of_before_is_an_edit(here):
    store, path = here
    to(store, "dual")
    with opened(store) as project:
        say(project, "second")
    assert text_in(path) == "second"
    path.write_text(FIRST)
    assert told(store) == ("first", ["external_edit", "update", "import"], [])
    assert path.read_text() == FIRST


def test_a_file_set_back_while_the_migration_was_off_is_an_edit(here):
    store, path = here
    to(store, "dual")
    with opened(store) as project:
        say(project, "second")
    to(store, "off")
    path.write_text(FIRST)
    done = to(store, "dual")
    assert (done.counts["taken_in"], done.counts["written"]) == (1, 0)
    assert told(store) == ("first", ["external_edit", "update", "import"], [])


def test_a_file_set_back_in_primary_is_told_and_not_written_over(here):
    store, path = here
    to(store, "dual")
    to(store, "primary")
    with opened(store) as project:
        say(project, "second")
    path.write_text(FIRST)
    assert told(store) == ("second", ["update", "import"], ["edited"])
    assert path.read_text() == FIRST


def test_a_file_that_was_moved_and_set_back_is_an_edit(here):
    store, path = here
    to(store, "dual")
    with opened(store) as project:
        say(project, "second")
    path.unlink()
    moved = path.with_name("L-1-moved.json")
    moved.write_text(FIRST)
    assert told(store)[0] == "first"
    assert moved.read_text() == FIRST
    assert not path.exists()


@pytest.mark.parametrize("take", ["files", "journal"])
def test_a_file_set_back_after_which_the_journal_moved_is_in_conflict(here, take):
    store, path = here
    to(store, "dual")
    with opened(store) as project:
        say(project, "second")
        project.hold()
        say(project, "third")
    path.write_text(FIRST)
    assert told(store) == ("third", ["update", "update", "import"], ["conflict"])
    assert path.read_text() == FIRST
    to(store, "dual", take=take)
    assert told(store)[::2] == ("first" if take == "files" else "third", [])
    aside = Path(store, "archive", "v1-aside")
    assert [one.read_text() for one in aside.glob("*")] == ([FIRST] if take == "journal" else [])


def test_a_file_edited_while_the_same_was_taken_in_elsewhere_is_in_conflict(here, tmp_path):
    """Nothing was changed here since the file of another clone was taken in: yet both of them changed."""
    store, path = here
    to(store, "dual")
    (tmp_path / "theirs").mkdir()
    theirs, other = made(tmp_path / "theirs", clone_of=store)
    to(theirs, "dual")
    other.write_text(FIRST.replace("first", "edited there"))
    with opened(theirs):
        pass
    with opened(store) as project:
        project.hold()
        project.sync(os.fspath(Path(theirs).parent), cwd=os.fspath(tmp_path), environment={})
    path.write_text(FIRST.replace("first", "edited here"))
    assert told(store)[::2] == ("edited there", ["conflict"])
    assert text_in(path) == "edited here"


def test_what_the_journal_took_in_and_went_on_from_is_written(here):
    """Another process changed what was taken in before who took it in had noted that it did."""
    store, path = here
    to(store, "dual")
    seen = Path(store, "migration", "seen.json")
    before = seen.read_bytes()
    path.write_text(FIRST.replace("first", "edited"))
    with opened(store) as project:
        project.hold()
        say(project, "edited, then said")
    seen.write_bytes(before)
    assert told(store) == ("edited, then said", ["update", "external_edit", "import"], [])
    assert text_in(path) == "edited, then said"


@pytest.mark.slow
def test_stopped_at_every_call_of_a_write_our_own_text_is_no_edit(tmp_path):
    at, total = 0, 1
    while at < total:
        store, path = made(tmp_path / f"{at}")
        to(store, "dual")
        files = StoppingFiles(at)
        try:
            with opened(store, files) as project:
                say(project, "second")
            total = len(files.calls)
        except Stop:
            total = at + 2
        with opened(store) as project:
            say(project, "third")
        said, records, kinds = told(store)
        assert (said, kinds, "external_edit" in records) == ("third", [], False), (at, files.calls)
        assert text_in(path) == "third"
        at += 1
    assert at > 10


def test_where_one_file_cannot_be_written_the_others_are_known(here):
    """Nothing is noted of a pass that failed: what it wrote into the other files would be somebody's edit from then on."""
    store, path = here
    away = path.parent.parent / "traps"
    away.mkdir()
    (away / "T-1.json").write_text('{"id": "T-1", "text": "first"}')
    to(store, "dual")
    trap = derived_id("trp", "v1", "trap", "T-1")
    with opened(store, _Full("traps")) as project:
        project.hold()
        held = project.journal.get("trap", trap)
        project.journal.mutate(lambda tx: tx.put("trap", trap, held.value | {"text": "second"}), WRITER)
    for text in ("second", "third"):
        with opened(store, _Full("traps")) as project:
            say(project, text)
            assert "No space left" in project.keeper.failure
    assert told(store)[::2] == ("third", [])
    assert (text_in(path), text_in(away / "T-1.json")) == ("third", "second")


class _Full(StoppingFiles):
    """No room in one folder."""

    def __init__(self, name):
        super().__init__(-1)
        self.name = name

    def open(self, path, flags, mode=0o644):
        if os.path.basename(os.path.dirname(path)) == self.name:
            raise OSError(ENOSPC, os.strerror(ENOSPC), path)
        return super().open(path, flags, mode)


# -- a file that is not there ------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    """Two clones, each in dual with a folder of its own."""
    ada, bob = (Shell(tmp_path / name / "project", tmp_path) for name in ("ada", "bob"))
    store, _ = made(tmp_path / "ada")
    made(tmp_path / "bob", clone_of=store)
    for shell in (ada, bob):
        shell("migrate", "--from", "../old", "--to", "dual")
    bob("sync", "--with", ada.folder)
    return ada, bob


def test_what_came_from_the_folder_of_another_clone_is_written(two):
    ada, bob = two
    theirs = bob.folder.parent / "old" / "lessons" / "L-9.json"
    theirs.write_text('{"id":"L-9","text":"written there"}')
    bob("status")
    bob("sync", "--with", ada.folder)
    ada("status")
    mine = ada.folder.parent / "old" / "lessons" / "L-9.json"
    assert mine.read_bytes() == theirs.read_bytes()
    assert ada("migrate").code == 0

    mine.unlink()
    for _ in range(3):
        assert "1 missing in the folder: --heal" in ada("migrate", code=1).out
        assert not mine.exists(), "what a person removed does not come back by itself"
    bob("set", derived_id("les", "v1", "lesson", "L-9"), "text=changed there")
    bob("sync", "--with", ada.folder)
    assert ada("status").code == 0
    assert not mine.exists()
    ada("migrate", "--heal")
    assert text_in(mine) == "changed there"


def test_what_lies_there_already_is_not_written_over(two):
    ada, bob = two
    (bob.folder.parent / "old" / "lessons" / "L-9.json").write_text('{"id":"L-9","text":"written there"}')
    mine = ada.folder.parent / "old" / "lessons" / "L-9.json"
    mine.write_text('{"id":"L-8","text":"another one, of the same name"}')
    bob("status")
    bob("sync", "--with", ada.folder)
    found = ada("migrate", code=1).out
    assert "lessons/L-9.json: something else lies there" in found
    assert json.loads(mine.read_text())["id"] == "L-8"


@pytest.mark.parametrize(
    "path", ["lessons/L-1.json/L-9.json", f"lessons/{'x' * 300}.json", ".git/L-9.json", "lessons/.L-9.json"]
)
def test_a_path_of_elsewhere_that_there_cannot_be_stops_nothing_else(here, path):
    store, place = here
    to(store, "dual")
    with opened(store) as project:
        project.hold()
        value = project.journal.get("lesson", LESSON).value
        value = value | {"v1": value["v1"] | {"path": path, "id": "L-9"}}
        project.journal.mutate(lambda tx: tx.put("lesson", derived_id("les", "v1", "lesson", "L-9"), value), WRITER)
        say(project, "second")
    with opened(store) as project:
        assert project.keeper.failure == ""
        assert [(one.kind, one.path) for one in migration_status(project).findings] == [("conflict", path)]
    assert text_in(place) == "second"
    assert [one.name for one in place.parents[1].rglob("*") if one.is_file()] == ["L-1.json"]


def test_a_file_of_ours_that_was_moved_and_removed_is_not_made_again(here):
    store, path = here
    to(store, "dual")
    with opened(store) as project:
        note = project.remember(Memory("note", "made here")).entity
    mine = path.parents[1] / "notes" / f"{note.item_id}.json"
    moved = mine.with_name("moved.json")
    mine.rename(moved)
    assert told(store)[2] == []
    moved.unlink()
    for _ in range(2):
        assert told(store)[2] == ["missing"]
    assert not mine.exists()
    assert not moved.exists()


def test_a_file_that_gave_way_to_a_link_is_not_made_again(here, tmp_path):
    store, path = here
    to(store, "dual")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert told(store)[2] == ["unreadable"]
    path.unlink()
    for _ in range(2):
        assert told(store)[2] == ["missing"]
    assert not path.exists()


def test_without_what_was_seen_a_file_that_was_removed_stays_away(here):
    store, path = here
    to(store, "dual")
    path.unlink()
    Path(store, "migration", "seen.json").unlink()
    for _ in range(2):
        assert told(store)[2] == ["missing"]
    assert not path.exists()
