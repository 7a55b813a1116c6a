"""One thing said anew in two clones apart: no field is in conflict, and yet it is told until somebody settles it."""

from __future__ import annotations

import pytest

from cli_support import git, shared_project


@pytest.fixture
def team(tmp_path):
    """Ada and Bob know the same decision by git, and each put another one in its place."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    old = ada.json("remember", "--type", "decision", "The engine uses steam").entity.id
    git(ada.folder, "add", "-A")
    git(ada.folder, "commit", "-q", "-m", "Steam")
    git(ada.folder, "push", "-q", "origin", "main")
    git(bob.folder, "pull", "-q", "--ff-only")
    mine = ada.json("evolve", old, "The engine uses oil").entities[0].id
    theirs = bob.json("evolve", old, "The engine uses gas").entities[0].id
    return ada, bob, old, sorted([mine, theirs])


def settled(shell):
    return shell.json("status").apart == [] and shell.json("review").due == []


def test_it_is_told_until_somebody_settles_it(team):
    ada, bob, old, rivals = team
    assert settled(ada)
    said = ada.json("sync", "--with", bob.folder).apart
    assert [(one.old, one.rivals) for one in said] == [(old, rivals)]
    for shell in (ada, bob):
        assert shell.json("status").apart == [old]
        assert "1 said anew in several ways: periplus review" in shell("status").out
        due = shell.json("review", code=1).due
        assert [(one.id, one.rivals) for one in due] == [(rivals[0], rivals[1:]), (rivals[1], rivals[:1])]
        assert shell.json("show", old).superseded_by == rivals
        assert f"superseded by {', '.join(rivals)}" in shell("show", old).out
    assert f"{rivals[0]} and {rivals[1]} both stand in place of {old}" not in ada("sync", "--with", bob.folder).out
    command = due[0].command.split()
    assert command[:2] == ["periplus", "merge"]
    ada(*command[1:-1], "The engine burns what there is")
    assert settled(ada)
    assert ada.json("sync", "--with", bob.folder).apart == []
    assert settled(bob)


def test_the_text_of_sync_names_what_settles_it(team):
    ada, bob, old, rivals = team
    out = bob("sync", "--with", ada.folder).out
    assert f"{rivals[0]} and {rivals[1]} both stand in place of {old}" in out
    assert f"periplus merge {rivals[0]} {rivals[1]} --text" in out


@pytest.mark.parametrize("words", [("link", "ID", "supersedes", "OTHER"), ("state", "ID", "superseded")])
def test_other_ways_to_settle_it(team, words):
    ada, bob, _, rivals = team
    ada("sync", "--with", bob.folder)
    ada(*({"ID": rivals[0], "OTHER": rivals[1]}.get(word, word) for word in words))
    assert settled(ada)


def test_it_is_told_where_only_the_files_came(team):
    ada, bob, old, rivals = team
    git(bob.folder, "add", "-A")
    git(bob.folder, "commit", "-q", "-m", "Gas")
    git(bob.folder, "push", "-q", "origin", "main")
    git(ada.folder, "add", "-A")
    git(ada.folder, "commit", "-q", "-m", "Oil")
    git(ada.folder, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    assert ada.json("status").apart == [old]
    assert ada.json("show", old).superseded_by == rivals


def test_a_split_is_no_rivalry_and_one_beside_it_is(team):
    ada, bob, _, _ = team
    whole = ada.json("remember", "--type", "decision", "Boilers are cleaned and tested").entity.id
    ada("sync", "--with", bob.folder)
    parts = [one.id for one in ada.json("split", whole, "Boilers are cleaned", "Boilers are tested").entities][:2]
    assert whole not in ada.json("status").apart
    assert ada.json("show", whole).superseded_by == sorted(parts)
    other = bob.json("evolve", whole, "Boilers are looked at").entities[0].id
    ada("sync", "--with", bob.folder)
    (said,) = [one for one in ada.json("review", code=1).due if one.id == other]
    assert said.rivals == sorted(parts)
