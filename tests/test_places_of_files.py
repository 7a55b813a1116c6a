"""What a file is called, said in any worktree of a project, by any name that leads to it: the same path of the project."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import pytest

from cli_support import Shell
from mcp_support import Raw

NESTED = ".claude/worktrees/side"


def git(folder, *words):
    subprocess.run(["git", "-C", os.fspath(folder), "-c", "user.name=ada", "-c", "user.email=ada@example.org", *words],
                   check=True, capture_output=True)  # fmt: skip


@pytest.fixture
def shell(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text("def login(name):\n    return name\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    made = Shell(folder, home)
    made("init")
    return made


@pytest.fixture(params=["../side", NESTED])
def side(request, shell):
    """A linked worktree, beside the main one and within it, with a file that the main one lacks."""
    folder = (shell.folder / request.param).resolve()
    git(shell.folder, "worktree", "add", "-q", "-b", "side", os.fspath(folder))
    (folder / "src" / "new.py").write_text("def begin():\n    return 1\n")
    return folder


def about(shell, item_id):
    return [one["ref"] for one in shell.json("show", item_id).entity.value["about"]]


@pytest.mark.slow
def test_an_agent_names_files_of_a_worktree_by_absolute_paths(shell, side):
    shell.folder, main = side, shell.folder
    auth = os.fspath(side / "src" / "auth.py")
    with Raw(SimpleNamespace(shell=shell)) as raw:
        raw.shake_hands()
        given = {"type": "trap", "text": "Never log in twice", "about": [auth, f"{auth}:login", f"{auth}:1-2"]}
        trap = raw.call(1, "remember", given)["structuredContent"]
        assert trap["notes"] == []
        new = {"type": "trap", "text": "Begin once", "about": [os.fspath(side / "src" / "new.py:begin")]}
        begun = raw.call(2, "remember", new)["structuredContent"]["id"]
        note = raw.call(3, "remember", {"text": "Something else"})["structuredContent"]["id"]
        raw.call(4, "revise", {"ids": [note], "action": "set", "fields": {"about": [auth]}})
        made = raw.call(5, "plan", {"action": "make", "text": "Go", "steps": [{"text": "On", "paths": [auth]}]})
        step = made["structuredContent"]["entries"][0]["id"]
        raw.call(6, "revise", {"ids": [step], "action": "set", "fields": {"about": [os.fspath(side / "src")]}})
        held = raw.call(7, "claim", {"action": "take", "paths": [auth]})["structuredContent"]
        assert held["entries"][0]["scopes"] == ["src/auth.py"]
        brief = raw.call(8, "brief", {"paths": [auth]})["structuredContent"]
        assert [one["path"] for one in brief["entries"] if one["section"] == "trap"] == ["src/auth.py"]
        read = raw.ask(9, "resources/read", {"uri": f"periplus://entity/{trap['id']}"})["result"]["contents"][0]
        assert json.loads(read["text"])["stale"] == []
        for cwd in (main, side):
            assert "Never log in twice" in shell("check", "src/auth.py", code=1, cwd=cwd).out
        assert raw.end() == (0, "")
    assert about(shell, trap["id"]) == ["src/auth.py", "src/auth.py:login", "src/auth.py:1-2"]
    assert about(shell, begun) == ["src/new.py:begin"]
    assert about(shell, note) == ["src/auth.py"]
    assert about(shell, step) == ["src"]


def test_commands_in_a_worktree_are_about_the_same_files(shell, side):
    shell("remember", "Never log in twice", "--type", "trap", "--about", "src/auth.py")
    shell("claim", "take", "src/auth.py", env={"PERIPLUS_AGENT": "bob"})
    told = shell("check", "src/auth.py", code=1, cwd=side).out
    assert "Never log in twice" in told
    assert "bob" in told
    shell.fails("claim", "take", "auth.py", code=5, wrong="claimed by bob", cwd=side / "src")
    for path, cwd in ((side / "src" / "auth.py", shell.folder), ("../src/auth.py", side / "src"), ("auth.py", side / "src")):  # fmt: skip
        done = shell.json("remember", f"said as {path}", "--about", path, cwd=cwd)
        assert [one["ref"] for one in done.entity.value["about"]] == ["src/auth.py"], path
    done = shell("remember", "said too early", "--about", "../src/soon.py", cwd=side / "src")
    assert "soon.py does not exist; saved anyway" in done.err
    assert about(shell, done.out.split()[3]) == ["src/soon.py"]


def test_a_file_behind_a_link_to_the_project_is_a_file_of_it(shell, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(shell.folder)
    shell("remember", "Never log in twice", "--type", "trap", "--about", link / "src" / "auth.py")
    assert "Never log in twice" in shell("check", link / "src" / "auth.py").out
    shell("claim", "take", link / "src" / "auth.py")
    assert "Never log in twice" in shell("check", "src/auth.py").out
    shell.fails("claim", "take", tmp_path / "home", code=2, wrong="lies outside of the project")


def test_a_submodule_is_a_folder_of_the_project(shell):
    module = shell.folder / "vendor"
    module.mkdir()
    (module / ".git").write_text("gitdir: ../.git/modules/vendor\n")
    (module / "a.c").write_text("int a;\n")
    (shell.folder / ".git" / "modules" / "vendor").mkdir(parents=True)
    done = shell.json("remember", "not ours", "--about", module / "a.c")
    assert [one["ref"] for one in done.entity.value["about"]] == ["vendor/a.c"]


def test_what_is_never_stale_is_about_paths_of_the_project_too(shell):
    config = shell.folder / ".periplus" / "config.toml"
    config.write_text(
        config.read_text() + '\n[types.idea]\nprefix = "ide"\nmeaning = "what may be done"\nstale = "never"\n'
    )
    done = shell.json(
        "remember", "Log in once", "--type", "idea", "--about", "src/auth.py", "--about", "src/auth.py:login"
    )
    assert done.entity.value["about"] == [
        {"kind": "path", "ref": "src/auth.py"},
        {"kind": "path", "ref": "src/auth.py:login"},
    ]
