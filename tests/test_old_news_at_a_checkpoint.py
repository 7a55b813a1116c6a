"""What was said, checked, lost or ended long ago is known where the index begins at a checkpoint behind it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli_support import Shell, git, shared_project
from periplus.journal import Writer
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.projections.external_edits import take_in
from periplus.journal.recovery.lost_payloads import still_lost
from periplus.project import Project
from support import WRITER, item, make_store, open_journal, remove_index
from test_answers_from_a_checkpoint import begin_at_a_checkpoint
from test_lost_records import TEXTS, damage, said


def put(root, number, value):
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("decision", item(number), {"n": value}), WRITER)


@pytest.fixture
def alone(tmp_path):
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell.folder.mkdir()
    shell("init")
    return shell


def test_a_check_that_failed_is_told(alone):
    rule = alone.json("remember", "Ports start at 8000", "--type", "constraint").entity.id
    alone("set", rule, "check=false")
    alone("probe", rule, "--allow-commands", code=1)
    expected = alone.json("review", code=1).due
    assert expected[0].check
    begin_at_a_checkpoint(alone)
    assert alone.json("review", code=1).due == expected
    begin_at_a_checkpoint(alone)
    assert alone.json("recall", "ports").hits[0].checked == expected[0].check


def test_a_hook_does_not_stop_to_read_what_is_long_ago(alone):
    """It takes many seconds in a large store, of the few for which an agent waits: the next command does it."""
    rule = alone.json("remember", "Ports of the shop start at 8000", "--type", "constraint").entity.id
    alone("set", rule, "check=false")
    alone("probe", rule, "--allow-commands", code=1)
    begin_at_a_checkpoint(alone)
    alone("status")
    index = alone.folder / ".periplus/index.sqlite"

    def is_cut():
        with closing(sqlite3.connect(index)) as db:
            return db.execute("SELECT count(*) FROM floors").fetchone() != (0,)

    assert is_cut()
    event = {
        "hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(alone.folder),
        "prompt": "where do the ports of the shop start?",
    }  # fmt: skip
    assert rule in alone("hook", "UserPromptSubmit", stdin=json.dumps(event)).out
    assert is_cut()
    assert alone.json("recall", "ports").hits[0].checked
    assert not is_cut()


@pytest.mark.slow
def test_what_clones_put_apart_in_place_of_one_thing_is_told(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    old = ada.json("remember", "Ports start at 8000", "--type", "decision").entity.id
    bob("sync", "--with", ada.folder)
    ada("evolve", old, "Ports start at 9000")
    bob("evolve", old, "Ports start at 7000")
    ada("sync", "--with", bob.folder)
    ada("set", old, "tags=net")  # whoever wrote on from both has no conflict any more
    expected = ada.json("review", code=1).due
    assert any(one.rivals for one in expected)
    begin_at_a_checkpoint(ada)
    assert ada.json("review", code=1).due == expected
    begin_at_a_checkpoint(ada)
    assert "replaced differently by several clones" in ada("status").out


def test_who_wrote_of_what_had_ended_did_not_end_it(alone):
    old = alone.json("remember", "Ports start at 8000", "--type", "decision").entity.id
    alone("evolve", old, "Ports start at 9000")
    begin_at_a_checkpoint(alone)
    since = str(alone.json("status").records)
    alone("set", old, "tags=net", "--as", "bob")
    told = [(one.id, one.what, one.by) for one in alone.json("changed", "--since", since).items]
    assert told == [(old, "changed", ["bob"])]


# -- what is lost, or is called by a name of before ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_version_whose_other_record_was_redacted_does_not_come_back(tmp_path):
    """Ada's record of it is lost, Bob had taken it in from its file and redacted it, and Carol has it still."""
    people = shared_project(tmp_path, "bob", "carol")
    ada, bob, carol = people.values()
    one = ada.json("remember", TEXTS[0], "--type", "decision").entity.id
    git(ada.folder, "add", "-A")
    git(ada.folder, "commit", "-q", "-m", "Say what colour it has")
    git(ada.folder, "push", "-q", "origin", "main")
    git(bob.folder, "pull", "-q")
    assert TEXTS[0] in bob("show", one).out
    ada("set", one, f"text={TEXTS[1]}")
    lineage = ada.json("status").lineage
    for shell in (bob, carol):
        shell("sync", "--with", ada.folder)
    bob("redact", "--seq", "1", "--reason", "a secret")
    damage(ada, lineage, 1)
    ada("doctor", "--repair")
    ada("sync", "--with", bob.folder)
    assert TEXTS[0] not in said(ada, "lin_*")
    begin_at_a_checkpoint(ada)
    assert ada.json("sync", "--with", carol.folder).returned == 0
    assert TEXTS[0] not in said(ada, "lin_*")


@pytest.mark.slow
def test_what_was_written_again_is_not_told_as_lost(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people.values()
    one = ada.json("remember", TEXTS[0], "--type", "decision").entity.id
    for text in TEXTS[1:3]:
        ada("set", one, f"text={text}")
    bob("sync", "--with", ada.folder)
    damage(ada, ada.json("status").lineage, 2)
    ada("doctor", "--repair")
    told = ada("redact", "--secret-file", "-", "--reason", "a secret", "--dry-run", code=1, stdin="nowhere at all")
    assert "lost here by damage" in told.out
    ada("sync", "--with", bob.folder)
    begin_at_a_checkpoint(ada)
    with Project.open(str(ada.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        assert project.journal.index.has_floors
        assert still_lost(project.journal) == {}


def test_a_session_is_named_as_it_was_before(alone):
    alone("remember", "First", "--type", "note", env={"PERIPLUS_SESSION": "s-1 "})
    expected = alone.json("log", "--session", "s-1 ").records
    assert expected
    begin_at_a_checkpoint(alone)
    assert alone.json("log", "--session", "s-1 ").records == expected


def test_a_type_that_only_records_of_before_have_is_known(alone):
    with open_journal(str(alone.folder / ".periplus")) as journal:
        journal.mutate(lambda t: t.observe({"v": 1}, item_type="weather", item_id="wea_0000000000000001"), WRITER)
    expected = alone.json("log", "--type", "weather").records
    assert len(expected) == 1
    begin_at_a_checkpoint(alone)
    assert alone.json("log", "--type", "weather").records == expected
    begin_at_a_checkpoint(alone)
    assert "weather" in alone.fails("log", "--type", "wether", code=2).err


# -- entity files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_another_clone_made_under_the_same_id_is_taken_in(tmp_path, is_whole):
    """It was written over, for an entity is created once: of what is before the checkpoint nobody had looked."""
    here, there = make_store(tmp_path / "here"), make_store(tmp_path / "there")
    put(here, 1, "ours")
    put(there, 1, "theirs")
    with open_journal(here) as journal:
        make_checkpoint(journal, WRITER)
        journal.project()
    if not is_whole:
        remove_index(here)
    put(here, 1, "ours, later")
    name = "entities/decision/dec_0000000000000001.json"
    theirs = Path(there, name).read_bytes()
    Path(here, name).write_bytes(theirs)
    with open_journal(here) as journal:
        assert journal.index.has_floors != is_whole
        assert len(take_in(journal).adopted) == 1
        assert {head.payload for head in journal.heads_of("decision", item(1))} == {
            b'{"n":"ours, later"}',
            b'{"n":"theirs"}',
        }
