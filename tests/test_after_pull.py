"""What git brought is there for the very next command, whichever it is: nobody has to ask for the status first."""

from __future__ import annotations

import pytest

from cli_support import Shell, git, shared_project

COMMANDS = [
    ("show", "ID"),
    ("blame", "ID"),
    ("set", "ID", "rationale=Steam is cheap"),
    ("state", "ID", "deferred"),
    ("evolve", "ID", "The engine uses oil"),
    ("merge", "ID", "OTHER", "--text", "The engine uses what burns"),
    ("split", "ID", "The engine is old", "The boiler makes steam"),
    ("link", "ID", "references", "OTHER"),
    ("confirm", "ID"),
    ("remember", "The engine uses oil", "--type", "decision", "--supersedes", "ID"),
    ("plan", "add", "PLAN", "Order coal"),
    ("plan", "show", "PLAN"),
    ("plan", "drop", "PLAN"),
    ("plan", "make", "Heat it", "--after", "PLAN"),
    ("handoff", "write", "The boiler leaks", "--plan", "PLAN"),
]


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """Ada pushed two decisions and a plan; the ids, and the folder of all."""
    folder = tmp_path_factory.mktemp("team")
    ada = shared_project(folder)["ada"]
    first = ada.json("remember", "--type", "decision", "The engine uses steam").entity.id
    second = ada.json("remember", "--type", "decision", "The cellar is heated").entity.id
    plan = ada.json("plan", "make", "Build the engine").plan.id
    git(ada.folder, "add", "-A")
    git(ada.folder, "commit", "-q", "-m", "What we know")
    git(ada.folder, "push", "-q", "origin", "main")
    return folder, {"ID": first, "OTHER": second, "PLAN": plan}


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_the_first_command_after_a_pull_knows_what_came(team, tmp_path, words):
    folder, ids = team
    git(tmp_path, "clone", "-q", "-b", "main", folder / "hub.git", "bob")
    bob = Shell(tmp_path / "bob", folder / "home")
    git(bob.folder, "reset", "-q", "--hard", "HEAD~1")
    bob("remember", "The cellar is damp")
    git(bob.folder, "pull", "-q", "--ff-only")
    bob(*(ids.get(word, word) for word in words))
    assert bob("doctor").lines[-1].startswith("sound")


def test_what_a_person_wrote_into_a_file_is_what_the_next_command_stands_on(team, tmp_path):
    folder, ids = team
    git(tmp_path, "clone", "-q", "-b", "main", folder / "hub.git", "bob")
    bob = Shell(tmp_path / "bob", folder / "home")
    bob("recall", "steam")
    path = bob.folder / f".periplus/entities/decision/{ids['ID']}.json"
    path.write_text(path.read_text().replace("uses steam", "uses oil"))
    bob("set", ids["ID"], "rationale=It is there")
    shown = bob.json("show", ids["ID"]).entity
    assert (shown.value["text"], shown.value["rationale"]) == ("The engine uses oil", "It is there")
    assert (shown.conflicts, len(shown.heads)) == ([], 1)
