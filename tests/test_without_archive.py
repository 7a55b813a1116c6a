"""The archive is on another disk, and the index knows all that lies in it: nothing comes in that would be merged over it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_support import Shell, git, shared_project
from periplus.journal import Writer
from periplus.journal.checkpoints import ancestors
from periplus.journal.checkpoints.offline_archive import missing_segments
from periplus.memory import Memory
from periplus.project import Project
from periplus.server.mcp.read_tools import run_show
from periplus.server.mcp.tool_arguments import ShowArguments
from support import WRITER, item, make_store, open_journal, remove_index
from test_history_apart import Builder


@pytest.fixture
def apart(tmp_path):
    """``(ada, bob, a decision, where ada's archive was, where it is)``: both changed the decision, and what they made it from is archived."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    config = ada.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "segment_bytes = 600\nlive_segments = 1\n")
    one = ada.json("remember", "The boiler is red", "--type", "decision").entity.id
    git(ada.folder, "add", "-A")
    git(ada.folder, "commit", "-q", "-m", "Say what colour it has")
    git(ada.folder, "push", "-q", "origin", "main")
    git(bob.folder, "pull", "-q")
    bob("sync", "--with", ada.folder)
    ada("set", one, "text=The boiler is grey")
    rule = ada.json("remember", "Ports start at 8000", "--type", "constraint").entity.id
    bob("set", one, "rationale=It was painted")
    for number in range(3):
        ada("set", rule, f"text=Ports start at 900{number}")
        ada("doctor", "--compact")
    [archive] = (ada.folder / ".periplus" / "journal").glob("lin_*/archive")
    assert len(list(archive.iterdir())) > 2
    away = tmp_path / "away"
    shutil.move(archive, away)
    return ada, bob, one, rule, archive, away


def check_works(ada, rule):
    assert "Ports start at 9002" in ada("show", rule).out
    assert "state    sound" in ada("status").out
    ada("remember", "What has nothing to do with it", "--type", "note")


@pytest.mark.slow
@pytest.mark.parametrize("is_index_there", [True, False])
def test_a_sync_lets_nothing_in(apart, is_index_there):
    """What came in was merged over what is elsewhere: nothing could be written, and old versions were shown."""
    ada, bob, one, rule, archive, away = apart
    if not is_index_there:
        remove_index(ada.folder / ".periplus")
    before = ada.json("log", "--lineage", "all", "--limit", "5").records if is_index_there else []
    for _ in range(2):
        ada.fails("sync", "--with", bob.folder, code=3, wrong="neither here nor in archive/")
    if is_index_there:
        assert ada.json("log", "--lineage", "all", "--limit", "5").records == before
    check_works(ada, rule)
    shutil.move(away, archive)
    assert "conflict" not in ada("sync", "--with", bob.folder).out
    assert ada.json("show", one).entity.value["rationale"] == "It was painted"


@pytest.mark.slow
@pytest.mark.parametrize("is_index_there", [True, False])
def test_another_clone_brings_nothing_either(apart, is_index_there):
    ada, bob, one, rule, archive, away = apart
    if not is_index_there:
        remove_index(ada.folder / ".periplus")
    bob("remember", "Bob says something", "--type", "note")
    for _ in range(2):
        assert "neither here nor in archive/" in bob("sync", "--with", ada.folder, code=3).out
    check_works(ada, rule)
    shutil.move(away, archive)
    bob("sync", "--with", ada.folder)
    assert ada.json("show", one).entity.value["rationale"] == "It was painted"
    assert bob.json("show", one).entity.value["text"] == "The boiler is grey"


@pytest.mark.slow
@pytest.mark.parametrize("is_index_there", [True, False])
def test_a_hole_in_the_archive_lets_nothing_in(apart, is_index_there):
    ada, bob, _, rule, archive, away = apart
    archive.mkdir()
    first, *others = sorted(away.iterdir())
    for path in (first, *others[1:]):
        shutil.move(path, archive / path.name)
    if not is_index_there:
        remove_index(ada.folder / ".periplus")
    ada.fails("sync", "--with", bob.folder, code=3, wrong="neither here nor in archive/")
    check_works(ada, rule)


@pytest.mark.slow
def test_a_file_that_would_stand_beside_what_is_held_is_left_alone(apart):
    """It was taken in by whoever looked, and merged over what is elsewhere."""
    ada, bob, one, rule, archive, away = apart
    file = ada.folder / ".periplus" / "entities" / "decision" / f"{one}.json"
    theirs = (bob.folder / ".periplus" / "entities" / "decision" / f"{one}.json").read_bytes()
    file.write_bytes(theirs)
    assert "it would be concurrent with the journal's version" in ada("status").out
    assert "it would be concurrent with the journal's version" in ada("doctor", code=3).out
    check_works(ada, rule)
    assert file.read_bytes() == theirs
    shutil.move(away, archive)
    assert "left alone" not in ada("status").out
    value = ada.json("show", one).entity.value
    assert (value["text"], value["rationale"]) == ("The boiler is grey", "It was painted")


def test_an_edit_of_what_is_held_is_taken_in(apart):
    ada, _, one, rule, _, _ = apart
    file = ada.folder / ".periplus" / "entities" / "decision" / f"{one}.json"
    file.write_text(file.read_text().replace("The boiler is grey", "The boiler is black"))
    assert ada.json("show", one).entity.value["text"] == "The boiler is black"
    check_works(ada, rule)


@pytest.mark.slow
def test_a_write_that_is_repeated_is_not_called_another(apart):
    """Whoever believed it wrote it again without its key."""
    ada, _, _, _, archive, away = apart
    shutil.move(away, archive)
    words = ("remember", "Ports are checked", "--type", "note", "--key", "k-1")
    ada(*words)
    for number in range(3):
        ada("remember", f"Rule {number}, at some length so that it fills a segment of its own", "--type", "note")
        ada("doctor", "--compact")
    shutil.move(archive, away)
    for is_index_there in (True, False):
        if not is_index_there:
            remove_index(ada.folder / ".periplus")
        said = ada.fails(*words, code=3, wrong="neither here nor in archive/").err
        assert "used for something else" not in said


def test_what_is_not_here_is_said_in_whatever_way_is_asked(apart):
    """Only lines for people said that a history is not whole."""
    ada, _, one, rule, archive, away = apart
    shutil.move(away, archive)
    assert not ada.json("show", rule).cut
    assert not ada.json("blame", rule).cut
    assert not ada.json("review").cut
    shutil.move(archive, away)
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).cut
    assert ada.json("blame", one).cut
    assert ada.json("review").cut
    assert "older records are missing" in ada("review").out
    with Project.open(str(ada.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        said = run_show(project, ShowArguments(one)).entries
        assert "older records are missing" in said[-1].text


@pytest.mark.slow
@pytest.mark.parametrize("is_built", [True, False])
def test_who_has_the_store_open_goes_on_where_the_index_is_thrown_away(apart, is_built):
    """It began with the first record that is here: what the checkpoint stands for was gone, and nothing could be written."""
    ada, _, one, rule, _, _ = apart
    with Project.open(str(ada.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        assert project.show(rule).value["text"] == "Ports start at 9002"
        remove_index(ada.folder / ".periplus")
        other = Builder(str(ada.folder / ".periplus")) if is_built else None
        try:
            project.journal.project()
            assert project.show(one).value["text"] == "The boiler is grey"
            assert project.journal.damage is None
            project.remember(Memory("note", "Something new"))
        finally:
            if other is not None:
                other.end()
        assert len(list(project.journal.entities("note"))) == 1
    assert "state    sound" in ada("status").out
    assert "Something new" in ada("recall", "something new").out


def test_whether_segments_are_missing_is_told_by_their_ends(tmp_path):
    """A damaged end is no missing segment: who reads it tells. The last line of a segment may be as long as a line can be."""
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 4000\n")
    with open_journal(root) as journal:
        for number, text in enumerate(("x" * 3_000, "y" * 30_000, *["z" * 3_000] * 4)):
            journal.mutate(lambda t, n=number, text=text: t.put("note", item(n, "not"), {"text": text}), WRITER)
        layout, stores = journal.layout, journal.stores
        reader = journal.reader(journal.lineage)
        paths = [reader.path_of(first) for first in reader.segments()]
    assert len(paths) > 2
    assert missing_segments(layout, stores) is None
    for path in map(Path, paths[:-1]):
        sound = path.read_bytes()
        path.write_bytes(sound[:-3] + b"?" + sound[-2:])
        assert missing_segments(layout, stores) is None
        path.write_bytes(sound + b'{"v":2,"se')  # a write that was cut off
        assert missing_segments(layout, stores) is None
        path.write_bytes(sound)
        path.rename(path.with_suffix(".away"))
        found = missing_segments(layout, stores)
        assert found is not None
        assert "missing" in str(found)
        path.with_suffix(".away").rename(path)


@pytest.mark.slow
def test_what_changed_since_then_needs_nothing_of_a_clone_that_was_silent(apart):
    """It was refused, for of another clone nothing lies behind the checkpoint: by the keys that it keeps its last record is older."""
    ada, bob, one, _, archive, away = apart
    shutil.move(away, archive)
    ada("sync", "--with", bob.folder)
    ada("set", one, "text=The boiler is black")
    ada("doctor", "--compact")
    seq = str(ada.json("log").records[0].seq)
    ada("remember", "Ports end at 9999", "--type", "note", env={"PERIPLUS_SESSION": "s-1"})
    expected = ada.json("changed", "--since", seq).items
    assert [one.text for one in expected] == ["Ports end at 9999"]
    shutil.move(archive, away)
    remove_index(ada.folder / ".periplus")
    assert ada.json("changed", "--since", seq).items == expected
    ada.fails("changed", "--since", "2", code=3, wrong="neither here nor in archive/")


@pytest.mark.slow
def test_a_check_that_may_have_failed_is_not_passed_over(apart):
    ada, _, _, rule, archive, away = apart
    shutil.move(away, archive)
    ada("set", rule, "check=false")
    ada("probe", rule, "--allow-commands", code=1)
    for number in range(3):
        ada("remember", f"Rule {number}, at some length so that it fills a segment of its own", "--type", "note")
        ada("doctor", "--compact")
    shutil.move(archive, away)
    assert "failed" in ada.json("recall", "ports start").hits[0].checked
    remove_index(ada.folder / ".periplus")
    assert "older records are missing" in ada.json("recall", "ports start").hits[0].checked
    new = ada.json("remember", "Ports end at 9999", "--type", "constraint", "--check", "true").entity.id
    told = {hit.id: hit.checked for hit in ada.json("recall", "ports").hits}
    assert "older records" in told[rule]
    assert not told[new]
    shutil.move(away, archive)
    assert "failed" in ada.json("recall", "ports start").hits[0].checked


@pytest.fixture
def beside(apart):
    """As ``apart``, with the archive put back; ada has both versions of the decision, and no checkpoint that knows it."""
    ada, bob, one, _, archive, away = apart
    shutil.move(away, archive)
    ada("sync", "--with", bob.folder)
    assert len(ada.json("show", one).entity.heads) == 2
    ada("remember", "The tide turns at six", "--type", "lesson")
    return apart


def compacted(ada, rule, compact):
    for number in range(3):
        ada("set", rule, f"text=Ports start at 910{number}")
        compact()


def put_back(away, archive):
    """What went to the archive meanwhile stays beside it."""
    archive.mkdir(exist_ok=True)
    for one in away.iterdir():
        shutil.move(one, archive / one.name)


def said(shell, words="boiler ports tide"):
    return {hit.id: hit.text for hit in shell.json("recall", words, "--limit", "20").hits}


@pytest.mark.slow
def test_without_an_index_versions_beside_each_other_are_merged_by_what_the_checkpoint_keeps(beside):
    ada, bob, one, rule, archive, away = beside
    compacted(ada, rule, lambda: ada("doctor", "--compact"))
    before, shown = said(ada), ada.json("show", one).entity
    assert len(before) == 3
    shutil.move(archive, away)
    remove_index(ada.folder / ".periplus")
    assert said(ada) == before
    assert ada.json("show", one).entity == shown
    assert (shown.value["text"], shown.value["rationale"], len(shown.heads)) == (
        "The boiler is grey",
        "It was painted",
        2,
    )
    assert ada.json("status").sound
    ada("remember", "Something is written", "--type", "note")
    ada("set", one, "text=The boiler is blue")
    shown = ada.json("show", one).entity
    assert (len(shown.heads), shown.value["text"], shown.value["rationale"]) == (
        1,
        "The boiler is blue",
        "It was painted",
    )
    ada("doctor", "--compact", code=3)  # it tells what is elsewhere
    put_back(away, archive)
    assert ada.json("show", one).entity == shown
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).entity == shown
    ada("doctor")
    bob("sync", "--with", ada.folder)
    assert bob.json("show", one).entity.value == shown.value


@pytest.mark.slow
def test_two_that_were_made_from_what_the_checkpoint_shows_are_merged_without_the_archive(apart):
    """Who diverges behind the checkpoint does so from a version of before it."""
    ada, bob, one, rule, archive, away = apart
    shutil.move(away, archive)
    ada("sync", "--with", bob.folder)
    ada("set", one, "tags=iron")  # one version again, which both know
    bob("sync", "--with", ada.folder)
    compacted(ada, rule, lambda: ada("doctor", "--compact"))
    ada("set", one, "text=The boiler is blue")
    bob("set", one, "rationale=It was old")
    ada("sync", "--with", bob.folder)
    shown = ada.json("show", one).entity
    assert (shown.value["text"], shown.value["rationale"], len(shown.heads)) == ("The boiler is blue", "It was old", 2)
    shutil.move(archive, away)
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).entity == shown
    assert ada.json("status").sound
    ada("doctor", "--compact", code=3)
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).entity == shown
    put_back(away, archive)
    ada("doctor")
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).entity == shown


@pytest.mark.slow
def test_an_index_that_knows_all_merges_by_what_the_checkpoint_keeps(beside):
    """What was elsewhere was asked for, and who looked was told of damage."""
    ada, _, one, rule, archive, away = beside
    compacted(ada, rule, lambda: ada("doctor", "--compact"))
    shown = ada.json("show", one).entity
    shutil.move(archive, away)
    assert ada.json("show", one).entity == shown
    ada("set", one, "text=The boiler is blue")
    assert ada("status").err == ""
    assert len(ada.json("show", one).entity.heads) == 1
    put_back(away, archive)
    ada("doctor")
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).entity.value["text"] == "The boiler is blue"


@pytest.fixture
def as_before(monkeypatch):
    """Checkpoints as earlier programs made them, without what heads are merged over."""

    def compact(shell):
        with monkeypatch.context() as patch:
            patch.setattr(ancestors, "kept_of", lambda _index, _heads: [])
            with Project(shell.folder / ".periplus", WRITER) as project:
                assert project.compact() is not None

    return compact


@pytest.mark.slow
def test_a_checkpoint_of_an_earlier_program_is_followed_by_one_that_says_what_heads_are_merged_over(beside, as_before):
    ada, _, one, rule, archive, away = beside
    compacted(ada, rule, lambda: as_before(ada))
    ada("remember", "Something was written since", "--type", "note")
    shown = ada.json("show", one).entity
    ada("doctor", "--compact")  # reads all once more
    ada("remember", "And since", "--type", "note")
    ada("doctor", "--compact")  # from the one before
    shutil.move(archive, away)
    remove_index(ada.folder / ".periplus")
    assert ada.json("show", one).entity == shown
    assert ada.json("status").sound
    ada("remember", "And now", "--type", "note")
    ada("doctor", "--compact", code=3)


@pytest.mark.slow
def test_without_an_index_all_is_known_but_what_two_versions_have_in_common(beside, as_before):
    """No checkpoint serves where what versions beside each other were made from is elsewhere and none keeps it: what is left of the segments was
    served, half of what is known, and old versions of it.
    """
    ada, _, one, rule, archive, away = beside
    compacted(ada, rule, lambda: as_before(ada))
    before = {found.id: found.text for found in ada.json("recall", "boiler ports tide", "--limit", "20").hits}
    assert len(before) == 3
    shutil.move(archive, away)
    remove_index(ada.folder / ".periplus")
    for _ in range(2):
        found = ada.json("recall", "boiler ports tide", "--limit", "20")
        assert {hit.id: hit.text for hit in found.hits} == before | {one: {hit.id: hit.text for hit in found.hits}[one]}
    assert "Ports start at 9102" in ada("show", rule).out
    assert ada.json("status", code=3).sound is False
    ada.fails("remember", "Nothing is written", "--type", "note", code=3)
    shutil.move(away, archive)
    assert {hit.id: hit.text for hit in ada.json("recall", "boiler ports tide", "--limit", "20").hits} == before
    assert ada.json("show", one).entity.value["rationale"] == "It was painted"
    assert ada.json("status").sound
    ada("remember", "Something is written", "--type", "note")


@pytest.fixture
def copied(tmp_path):
    """``(a store without archive and index that was copied, where its archive is)``: as who copies what is small."""
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell.folder.mkdir()
    shell("init")
    config = shell.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "segment_bytes = 600\nlive_segments = 1\n")
    for number in range(8):
        shell("remember", f"The boiler of house {number} is red", "--type", "lesson")
        if number in (4, 6):
            shell("doctor", "--compact")
    [archive] = (shell.folder / ".periplus" / "journal").glob("lin_*/archive")
    copy = Shell(tmp_path / "copy", shell.home)
    shutil.copytree(shell.folder, copy.folder, ignore=shutil.ignore_patterns("archive", "index.sqlite*"))
    return copy, archive


@pytest.mark.slow
def test_a_copy_begins_at_the_checkpoint_of_what_it_is_a_copy_of(copied):
    """What was left of its segments was served, half of what is known, and it took no writes."""
    shell, archive = copied
    assert len(said(shell, "boiler")) == 8
    status = shell.json("status")
    assert (status.sound, status.copied_from) == (True, archive.parent.name)
    assert archive.parent.name in status.away[0]
    shell("remember", "The boiler of house 8 is red", "--type", "lesson")
    assert shell.json("status").lineage not in ("", archive.parent.name)
    for _ in range(2):
        remove_index(shell.folder / ".periplus")
        assert len(said(shell, "boiler")) == 9
        assert shell.json("status").sound
        doctor = shell("doctor", "--compact", code=3).out
        assert "A checkpoint covers them" in doctor
        assert "--archive-lost" not in doctor, "it is not this clone's to give up"
    before = {path: path.read_bytes() for path in (shell.folder / ".periplus").rglob("*.jsonl")}
    shell("doctor", "--repair", code=3)
    assert {path: path.read_bytes() for path in (shell.folder / ".periplus").rglob("*.jsonl")} == before
    shutil.copytree(archive, shell.folder / ".periplus" / "journal" / archive.parent.name / "archive")
    shell("doctor")
    remove_index(shell.folder / ".periplus")
    assert len(said(shell, "boiler")) == 9
    assert not shell.json("status").away


@pytest.mark.slow
def test_a_copy_gets_the_archive_from_where_it_was_copied(copied):
    shell, archive = copied
    shell("remember", "The boiler of house 8 is red", "--type", "lesson")
    shell("doctor", "--repair", "--from", archive.parent.parent.parent.parent)
    assert not shell.json("status").away
    assert len(shell.json("log", "--lineage", "all", "--limit", "100").records) == 11
