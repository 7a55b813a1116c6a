"""What is remembered in a linked worktree is about the files of that worktree, and is judged by those where somebody asks."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from mcp_support import Raw, Served
from periplus.journal import Writer
from periplus.memory import Filters, Memory
from periplus.project import Project
from team_support import run_git

WRITER = Writer("ada", "who_0000000000000000", "", 1)
AUTH = "def login(name):\n    return find(name)\n\n\ndef logout(name):\n    forget(name)\n    return None\n"


class Two:
    """A repository with a store, and a linked worktree on a branch of its own, both with ``src/auth.py``."""

    def __init__(self, tmp_path, *, is_bare=False):
        self.served = Served(tmp_path, store=False)
        self.main = self.served.folder
        (self.main / ".git").rmdir()
        (self.main / "src" / "auth.py").write_text(AUTH)
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Begin")
        self.linked = tmp_path / "beside"
        if is_bare:
            self.bare = tmp_path / "shop.git"
            assert run_git(tmp_path, "clone", "-q", "--bare", str(self.main), str(self.bare)).returncode == 0
            assert run_git(self.bare, "worktree", "add", "-q", "-b", "work", str(self.linked)).returncode == 0
        else:
            self.git("worktree", "add", "-q", "-b", "work", str(self.linked))
        Project.init(os.fspath(self.linked))

    def git(self, *words, cwd=None):
        done = run_git(cwd or self.main, *words)
        assert done.returncode == 0, done
        return done.stdout.decode()

    def write(self, text, path="src/auth.py"):
        (self.linked / path).write_text(text)

    def commit(self):
        self.git("add", "-A", "src", cwd=self.linked)
        self.git("commit", "-q", "-m", "Work", cwd=self.linked)

    def project(self, folder):
        return Project.open(os.fspath(folder), WRITER)

    def remember(self, text, about, kind="lesson"):
        with self.project(self.linked) as project:
            return project.remember(Memory(kind, text, about=(about,))).entity

    def standing(self, folder, text):
        """What is said of the memory to who asks in ``folder``, and what ``review`` lists there."""
        with self.project(folder) as project:
            [hit] = project.recall(text, limit=1, filters=Filters(types=("lesson", "trap"))).hits
            return hit.standing, [one.stale for one in project.reviewing.due()]


@pytest.fixture
def two(tmp_path):
    return Two(tmp_path)


def test_what_only_the_worktree_has_is_anchored_there(two):
    two.write(AUTH + "\n\ndef renew(name):\n    return login(name)\n")
    two.write("def fresh():\n    return 1\n", "src/fresh.py")
    symbol = two.remember("Renew keeps the old token", "src/auth.py:renew")
    file = two.remember("Fresh counts from one", "src/fresh.py")
    assert symbol.value["about"][0]["name"] == "renew"
    assert file.value["about"][0]["sha256"]
    two.commit()
    assert two.standing(two.linked, "Renew keeps the old token") == ((), [])
    two.write(AUTH + "\n\ndef renew(name):\n    return None\n")
    told, due = two.standing(two.linked, "Renew keeps the old token")
    assert told == ("src/auth.py:renew changed, which is not committed",)
    assert due == [told]


def test_what_has_not_come_here_is_told_as_that_and_is_nothing_to_review(two):
    two.write(AUTH.replace("find(name)", "find(name.lower())"))
    two.write("def fresh():\n    return 1\n", "src/fresh.py")
    two.remember("Login ignores the case of names", "src/auth.py:login")
    two.remember("Fresh counts from one", "src/fresh.py")
    two.commit()
    assert two.standing(two.main, "Login ignores the case of names") == (
        ("src/auth.py:login is otherwise here, but as this was written in ../beside",), [],
    )  # fmt: skip
    assert two.standing(two.main, "Fresh counts from one")[0] == (
        "src/fresh.py is not here, but as this was written in ../beside",
    )
    two.git("merge", "-q", "work")
    assert two.standing(two.main, "Login ignores the case of names") == ((), [])
    assert two.standing(two.main, "Fresh counts from one") == ((), [])


def test_what_a_commit_changed_is_stale_though_an_old_worktree_has_it_yet(two):
    two.remember("Logout forgets who it was", "src/auth.py:logout")
    (two.main / "src" / "auth.py").write_text(AUTH.replace("forget(name)", "drop(name)"))
    two.git("commit", "-q", "-a", "-m", "Drop")
    commit = two.git("rev-parse", "HEAD")[:12]
    told, due = two.standing(two.main, "Logout forgets who it was")
    assert told == (f"src/auth.py:logout changed in {commit}",)
    assert due == [told]
    assert two.standing(two.linked, "Logout forgets who it was") == ((), [])


def test_in_a_bare_repository_memory_is_about_the_files_of_the_worktree(tmp_path):
    two = Two(tmp_path, is_bare=True)
    two.remember("Logout forgets who it was", "src/auth.py:logout")
    assert two.standing(two.linked, "Logout forgets who it was") == ((), [])
    two.write(AUTH.replace("forget(name)", "drop(name)"))
    assert two.standing(two.linked, "Logout forgets who it was")[0] == (
        "src/auth.py:logout changed, which is not committed",
    )


@pytest.mark.slow
def test_an_agent_in_a_worktree_is_told_by_tools_and_hooks_of_its_own_files(two):
    two.write("def fresh():\n    return 1\n", "src/fresh.py")
    two.served.shell.folder = two.linked
    with Raw(two.served) as server:
        server.shake_hands()
        written = server.call(
            1, "remember", {"type": "trap", "text": "Fresh breaks on strings", "about": ["src/fresh.py:fresh"]}
        )
        assert written["structuredContent"]["notes"] == []
        told = server.call(2, "brief", {"paths": ["src/fresh.py"]})
        assert "trap about src/fresh.py: Fresh breaks on strings" in told["content"][0]["text"]
        assert server.end()[0] == 0
    document = {
        "session_id": "s", "cwd": os.fspath(two.linked), "hook_event_name": "PreToolUse", "tool_name": "Edit",
        "tool_input": {"file_path": os.fspath(two.linked / "src" / "moved.py"), "old_string": "a", "new_string": "b"},
    }  # fmt: skip
    (two.linked / "src" / "fresh.py").rename(two.linked / "src" / "moved.py")
    process = two.served.shell.start("hook", "PreToolUse", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = process.communicate(json.dumps(document).encode(), timeout=60)
    assert "written for src/fresh.py:fresh, which moved here" in out.decode()


def test_a_rule_about_what_was_not_there_yet_is_told_of_the_file(two):
    with two.project(two.main) as project:
        rule = project.remember(Memory("constraint", "No globals", about=("src/later.py:Later",))).entity
        assert rule.value["about"] == [{"kind": "path", "ref": "src/later.py:Later"}]
        found = project.work.check(["src/later.py"])
        assert [one.entity.item_id for one in found.rules] == [rule.item_id]
        assert project.work.check(["src/late.py", "src"]).rules == ()
