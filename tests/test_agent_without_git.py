"""A run where git is broken, or not there at all: it goes on without, says so once, and its trail tells what was done."""

import json
import os
import shutil
import subprocess

import pytest
from tests.cli_support import Shell
from tests.fake_provider import FakeProvider
from tests.test_cli_run import MENDED, MENDS, READS, says, shell, use

from agent_room import Place, results
from periplus.agent.events import Noticed
from periplus.agent.models.scripted import answer, call
from periplus.agent.perception.git_status import GitView, is_without

__all__ = ["shell"]
TOOLS = ("bwrap", "sh", "bash")
CHECK = "test -f calc.py"


def broken_file(git):
    git.write_text("neither a folder nor a link to one\n")


def link_to_nowhere(git):
    git.write_text("gitdir: /nowhere/.git\n")


def empty_folder(git):
    git.mkdir()


def broken_index(git):
    subprocess.run(["git", "init", "-q", os.path.dirname(git)], check=True)
    (git / "index").write_bytes(b"DIRC garbage")


def broken_head(git):
    subprocess.run(["git", "init", "-q", os.path.dirname(git)], check=True)
    (git / "HEAD").write_bytes(b"\xff\n")


BROKEN = [link_to_nowhere, broken_index, broken_head]


def without_git(place):
    """A PATH that has the tools of a run and no git."""
    place.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None:
            (place / name).symlink_to(os.path.realpath(found))
    return os.fspath(place)


@pytest.mark.slow
@pytest.mark.parametrize("breaks", [broken_file, empty_folder])
def test_a_run_in_a_broken_repository_does_its_work(shell, breaks):
    shutil.rmtree(shell.folder / ".git")
    breaks(shell.folder / ".git")
    check_a_run(shell, None, "the state of the files is not recorded")


@pytest.mark.parametrize("breaks", BROKEN)
def test_whatever_is_broken_of_it_is_told_once_in_a_session(tmp_path, breaks):
    place, heard = Place(tmp_path), []
    breaks(place.root / ".git")
    script = [answer("", call("write", path="b.txt", content="hi\n")), "Done.", "Done."]
    with place.session(script, emit=heard.append) as session:
        assert session.turn("Go").reason == "done"
        assert session.turn("Go on").reason == "done"
        told = "".join(one.content for one in session.client.requests[-1][0][1:])
    assert (place.root / "b.txt").read_text() == "hi\n"
    assert len([one for one in heard if isinstance(one, Noticed)]) == 1
    assert session.trail_id
    assert told.count("git: cannot be used here") == 1


def test_a_run_without_git_does_its_work(shell, tmp_path):
    check_a_run(
        shell, {"PATH": without_git(tmp_path / "bin")}, "git is not installed: the state of the files is not recorded"
    )


def check_a_run(shell: Shell, env, said):
    with FakeProvider(
        says("I look.", READS), says("", MENDS, ("shell", {"command": CHECK})), says("It adds now.")
    ) as fake:
        use(shell, fake)
        done = shell("run", "make it add", "--allow", "shell(test)", "--oracle", CHECK, "--json", env=env)
        told = json.dumps(fake.bodies()[0]["messages"][1:])
    assert (shell.folder / "calc.py").read_text() == MENDED
    events = [json.loads(line) for line in done.out.splitlines()]
    noticed = [one["text"] for one in events if one["event"] == "noticed"]
    assert len(noticed) == 1  # once, though it is looked at again at the end
    assert noticed[0].endswith(said)
    assert events[-1]["event"] in ("turn_ended", "learned")
    assert [one["reason"] for one in events if one["event"] == "turn_ended"] == ["done"]
    assert "git: cannot be used here" in told
    (trail,) = json.loads(shell("trail", "list", "--json", env=env).out)["trails"]
    assert "sound" in shell("trail", "verify", trail["id"], env=env).out


def test_git_that_breaks_in_the_middle_takes_nothing_from_the_trail(tmp_path):
    place = Place(tmp_path)
    subprocess.run(["git", "init", "-q", place.root], check=True)
    heard = []
    script = [
        answer("", call("write", path="b.txt", content="hi\n")),
        "Done.",
        answer("", call("read", path="b.txt")),
        "Done.",
    ]
    with place.session(script, emit=heard.append) as session:
        assert session.turn("Go").reason == "done"
        (place.root / ".git" / "index").write_bytes(b"DIRC garbage")
        shutil.rmtree(place.root / ".git" / "objects")
        assert session.turn("Go on").reason == "done"
        assert {one.outcome for one in results(session)} == {"ok"}
    (told,) = [one for one in heard if isinstance(one, Noticed)]
    assert told.text.endswith("the state of the files is not recorded")
    assert session.trail_id
    with place.project() as project:
        assert project.journal.get("trail", session.trail_id).value["status"] == "success"


def test_what_does_not_change_within_a_session_is_asked_once(tmp_path):
    root, asked = tmp_path / "work", tmp_path / "asked"
    root.mkdir()
    real = shutil.which("git")

    def git(*words):
        subprocess.run(
            [real, "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True
        )

    git("init", "-q", "-b", "main")
    (root / "a").write_text("x\n")
    git("add", "-A")
    git("commit", "-qm", "first thing")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexec {real} "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    view = GitView(os.fspath(root))

    def fact():
        asked.write_text("")
        told = view.fact()
        return told.text, told.quoted, len(asked.read_text().splitlines())

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        text, subject, count = fact()
        assert (subject, count) == ("first thing", 3)
        assert fact() == (text, subject, 2)
        (root / "a").write_text("y\n")
        assert fact() == (text.replace("nothing changed", "1 file changed"), subject, 2)
        git("commit", "-qam", "second thing")
        assert fact()[1:] == ("second thing", 3)
        git("commit", "-q", "--amend", "-m", "another thing")
        assert fact()[1:] == ("another thing", 3)
        git("checkout", "-q", "--detach")
        (root / ".git" / "MERGE_HEAD").write_text("x")
        assert fact()[0].endswith("a merge is under way")
        git("worktree", "add", "-q", os.fspath(tmp_path / "linked"))
        (root / ".git" / "worktrees" / "linked" / "BISECT_LOG").write_text("x")
        linked = GitView(os.fspath(tmp_path / "linked")).fact()
        assert linked.text.endswith("a bisect is under way")
        assert linked.quoted == "another thing"
        assert not is_without(linked)
        shutil.rmtree(root / ".git" / "objects")
        assert is_without(GitView(os.fspath(root)).fact())
        assert GitView(os.fspath(tmp_path)).fact() is None
