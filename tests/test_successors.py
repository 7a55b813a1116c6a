"""One thing said anew in two clones apart: no field is in conflict, and yet it is told until somebody settles it."""

from __future__ import annotations

import time

import pytest

from cli_support import git, shared_project
from hook_support import hook
from periplus.memory.succession.successors import rivalries, rivals_of
from periplus.project import Project
from periplus.server.mcp.read_tools import run_recall, run_show
from periplus.server.mcp.tool_arguments import RecallArguments, ShowArguments
from support import WRITER


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
        assert "1 replaced differently by several clones: periplus review" in shell("status").out
        due = shell.json("review", code=1).due
        assert [(one.id, one.rivals) for one in due] == [(rivals[0], rivals[1:]), (rivals[1], rivals[:1])]
        assert shell.json("show", old).superseded_by == rivals
        assert f"superseded by {', '.join(rivals)}" in shell("show", old).out
    assert f"{rivals[0]} and {rivals[1]} both replace {old}" not in ada("sync", "--with", bob.folder).out
    command = due[0].command.split()
    assert command[:2] == ["periplus", "merge"]
    ada(*command[1:-1], "The engine burns what there is")
    assert settled(ada)
    assert ada.json("sync", "--with", bob.folder).apart == []
    assert settled(bob)


def test_the_text_of_sync_names_what_settles_it(team):
    ada, bob, old, rivals = team
    out = bob("sync", "--with", ada.folder).out
    assert f"{rivals[0]} and {rivals[1]} both replace {old}" in out
    assert f"periplus merge {rivals[0]} {rivals[1]} --text" in out


def test_three_that_stand_in_place_of_one_are_all_named(tmp_path):
    people = shared_project(tmp_path, "bob", "cay")
    old = people["ada"].json("remember", "--type", "decision", "The engine burns coal").entity.id
    for name in ("bob", "cay"):
        people[name]("sync", "--with", people["ada"].folder)
    rivals = sorted(
        people[name].json("evolve", old, f"The engine burns {what}").entities[0].id
        for name, what in (("ada", "oil"), ("bob", "wood"), ("cay", "gas"))
    )
    people["ada"]("sync", "--with", people["bob"].folder)
    out = people["ada"]("sync", "--with", people["cay"].folder).out
    assert f"{' and '.join(rivals)} all replace {old}" in out


@pytest.mark.parametrize(
    "words",
    [("link", "ID", "supersedes", "OTHER"), ("link", "OTHER", "references", "ID"), ("state", "ID", "superseded")],
)
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


def test_whoever_asks_is_told_by_every_way_there_is(team):
    ada, bob, _, rivals = team
    oil = next(one for one in ada.json("recall", "engine").hits)
    assert oil.rivals == []
    assert "apart" not in ada("recall", "engine").out + ada("brief", "the engine").out
    ada("sync", "--with", bob.folder)
    for shell in (ada, bob):
        hits = {hit.id: hit.rivals for hit in shell.json("recall", "engine").hits}
        assert hits == {rivals[0]: rivals[1:], rivals[1]: rivals[:1]}
        assert f"competes with {rivals[0]}: periplus review" in shell("recall", "engine").out
        assert f"(competes with {rivals[1]}: periplus review) [{rivals[0]}]" in shell("brief", "the engine").out
        assert shell.json("show", rivals[0]).rivals == rivals[1:]
        assert f"competes with  {rivals[1]}: periplus review" in shell("show", rivals[0]).out
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s1",
        "prompt": "The engine uses oil or gas",
    }
    told = hook(
        "UserPromptSubmit", event | {"cwd": str(ada.folder)}, cwd=ada.folder, environment=ada.environment()
    ).stdout.decode()
    assert f"competes with {rivals[0]}" in told
    assert f"competes with {rivals[1]}" in told
    ada("evolve", rivals[0], "The engine uses steam after all")
    ada("link", rivals[1], "resolves", ada.json("recall", "after all").hits[0].id)
    assert all(not hit.rivals for hit in ada.json("recall", "engine").hits)


def test_a_server_tells_its_agent(team):
    ada, bob, _, rivals = team
    ada("sync", "--with", bob.folder)
    with Project.open(str(ada.folder), WRITER) as project:
        said = run_recall(project, RecallArguments(question="engine"))
        assert {tuple(one.data["rivals"]) for one in said.entries} == {(rivals[0],), (rivals[1],)}
        assert (
            f"competing: another clone replaced the same entity by {rivals[0]}"
            in said.entries[0].text + said.entries[1].text
        )
        shown = run_show(project, ShowArguments(id=rivals[0]))
        assert [one.data["id"] for one in shown.entries if one.data.get("field") == "apart"] == rivals[1:]


def test_what_stands_at_the_ends_of_the_chains_is_apart(team):
    ada, bob, old, rivals = team
    mine = next(one for one in rivals if one in {hit.id for hit in ada.json("recall", "engine").hits})
    other = next(one for one in rivals if one != mine)
    later = ada.json("evolve", mine, "The engine uses old oil").entities[0].id
    latest = ada.json("evolve", later, "The engine uses very old oil").entities[0].id
    ada("sync", "--with", bob.folder)
    both = sorted([latest, other])
    assert [one.id for one in ada.json("review", code=1).due] == both
    assert ada.json("status").apart == [old]
    assert {hit.id: hit.rivals for hit in bob.json("recall", "engine").hits} == {both[0]: both[1:], both[1]: both[:1]}
    ada("merge", *both, "--text", "The engine burns what there is")
    assert settled(ada)
    assert all(not hit.rivals for hit in ada.json("recall", "engine").hits)


@pytest.mark.slow
def test_chains_that_go_in_circles_and_wide_ones_end(team):
    ada, bob, _, rivals = team
    ada("sync", "--with", bob.folder)
    with Project.open(str(ada.folder), WRITER) as project:
        journal = project.journal
        names = [f"dec_{number:016x}" for number in range(1, 61)]

        def build(transaction):  # every level of two supersedes both of the level before, and the first the last
            for at, name in enumerate(names):
                below = names[at // 2 * 2 - 2 :][:2] if at > 1 else [*names[-2:], rivals[0]]
                relations = [{"kind": "supersedes", "target": one} for one in below]
                transaction.put("decision", name, {"v": 1, "text": name, "state": "accepted", "relations": relations})

        journal.mutate(build, project.writer)
        began = time.perf_counter()
        assert len(project.recall("engine", limit=10).hits) > 0
        assert all(isinstance(rivals_of(journal, one), list) for one in journal.entities("decision"))
        rivalries(journal)
        assert time.perf_counter() - began < 20
