"""What git brought is there for the very next command, whichever it is: nobody has to ask for the status first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime

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


def test_what_a_sync_brought_stands_in_the_way_of_a_pull_and_status_says_what_makes_room(tmp_path):
    shells = shared_project(tmp_path, "bob")
    ada, bob = shells["ada"], shells["bob"]
    first = ada.json("remember", "--type", "decision", "The engine uses steam").entity.id
    commit(ada, "One")
    git(bob.folder, "pull", "-q")
    ada("set", first, "rationale=Steam is cheap")
    second = ada.json("remember", "--type", "trap", "The boiler leaks").entity.id
    commit(ada, "Two")
    ada("sync", "--with", "origin")
    assert ada.json("status").pull_blocked == []
    bob("sync", "--with", "origin")
    assert bob.json("status").pull_blocked == []  # what was pushed is not known before it is fetched
    bob("remember", "--type", "lesson", "Oil the gears")  # nobody else has it
    with pytest.raises(subprocess.CalledProcessError, match="git"):
        git(bob.folder, "pull", "-q")
    files = [f".periplus/entities/decision/{first}.json", f".periplus/entities/trap/{second}.json"]
    assert bob.json("status").pull_blocked == files
    assert bob("status").lines[-2:] == [
        "files    in git's way: 2 files: also changed upstream, and `git pull` does not overwrite them",
        "         Make room; missing files are written again: rm -r .periplus/entities && git pull",
    ]
    shutil.rmtree(bob.folder / ".periplus/entities")
    git(bob.folder, "pull", "-q")
    status = bob.json("status")
    assert (status.pull_blocked, status.entities) == ([], {"decision": 1, "lesson": 1, "trap": 1})
    assert git(bob.folder, "status", "--short", "-uall").split() == ["??", *(
        os.path.relpath(path, bob.folder) for path in bob.folder.glob(".periplus/entities/lesson/*")
    )]  # fmt: skip


def test_who_wrote_what_came_by_git_first_is_named_once_his_records_are_here(tmp_path):
    shells = shared_project(tmp_path, "bob")
    ada, bob = shells["ada"], shells["bob"]
    ids = [ada.json("remember", "--type", "decision", text).entity.id for text in ("It burns coal", "It is oiled")]
    commit(ada, "Two")
    git(bob.folder, "pull", "-q")
    bob("sync", "--with", ada.folder)
    since = datetime.now(UTC).isoformat()
    ada("evolve", ids[0], "It burns wood")
    ada("set", ids[1], "rationale=It squeaks")
    commit(ada, "Changed")
    git(bob.folder, "pull", "-q")

    def told():
        items = json.loads(bob("changed", "--since", since, "--as", "zed", "--json").out)["items"]
        found = {one["id"]: (one["what"], one["by"]) for one in items}
        return [found[one] for one in ids]

    assert told() == [("ended", ["adopted from file"]), ("changed", ["adopted from file"])]
    bob("sync", "--with", ada.folder)
    assert told() == [("ended", ["ada"]), ("changed", ["ada"])]


def test_what_git_does_not_track_or_cannot_say_stands_in_nobodys_way(tmp_path):
    shells = shared_project(tmp_path, "bob")
    bob = shells["bob"]
    bob("remember", "--type", "lesson", "Oil the gears")
    for change in (["branch", "--unset-upstream"], ["checkout", "-q", "--detach"]):
        git(bob.folder, *change)
        assert bob.json("status").pull_blocked == []
    (bob.folder / ".git/HEAD").write_text("nonsense")
    assert bob.json("status").pull_blocked == []


def commit(shell, message):
    git(shell.folder, "add", "-A")
    git(shell.folder, "commit", "-q", "-m", message)
    git(shell.folder, "push", "-q", "origin", "main")
