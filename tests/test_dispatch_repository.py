"""The repository of a dispatch on real git: worktrees, leftovers, merges and refs, beside agents that do as they like."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.base.errors import EnvironmentFailure, NotFoundError, RefusedError, SecretFoundError, UsageError
from periplus.dispatch.repository import RESULT_FILE, Conflict, FoundSecret, Merged, Repository

AUTHOR = ("Claude (periplus)", "ada@example.org")
BRANCH = "periplus/s-1"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
AS_ADA = {
    **ENVIRONMENT,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
SECRET = "ghp_" + "wJ4kZ9tQ2mXc7VbN1sLd8RfG3hYp6TaE5uKo"


def git(folder, *words, fails=False, said=None, **more):
    settings = ["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "core.fsync=none"]
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, capture_output=True, env={**AS_ADA, **more}, input=said, timeout=60
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return os.fsdecode(done.stdout).strip("\n")


def make(folder, **more):
    """A repository with two commits."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", *more.pop("how", ()))
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "src").mkdir()
    (folder / "src" / "b.py").write_text("b = 1\n")
    commit(folder, "First")
    (folder / "c.txt").write_text("c\n")
    commit(folder, "Second")
    return folder


def commit(folder, message="More"):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def raw_status(top):
    return git(top, "status", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignored")


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    return make(tmp_path_factory.mktemp("pattern") / "project")


@pytest.fixture
def top(pattern, tmp_path):
    """A repository of one's own: a copy costs less than making it."""
    shutil.copytree(pattern, tmp_path / "project", symlinks=True)
    return tmp_path / "project"


@pytest.fixture
def repository(top):
    return Repository(str(top), ENVIRONMENT)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "worktrees" / "s-1"


@pytest.fixture
def worktree(repository, path):
    repository.add_worktree(str(path), BRANCH, repository.tip("main"))
    return path


class TestWorktrees:
    def test_a_worktree_is_on_its_branch_and_locked(self, repository, top, path):
        base = repository.tip("main")
        repository.add_worktree(str(path), BRANCH, base)
        assert (path / "src" / "b.py").read_text() == "b = 1\n"
        assert git(path, "rev-parse", "HEAD") == base
        assert git(path, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
        assert f"locked Periplus works here on {BRANCH}" in git(top, "worktree", "list", "--porcelain")
        assert repository.checkouts(BRANCH) == [str(path)]
        assert repository.branches("periplus/") == {BRANCH: base}
        assert repository.branch() == "main"

    def test_adding_it_again_changes_nothing(self, repository, worktree):
        (worktree / "a.txt").write_text("work\n")
        repository.add_worktree(str(worktree), BRANCH, repository.tip("main"))
        assert (worktree / "a.txt").read_text() == "work\n"
        with pytest.raises(RefusedError, match="is a worktree for periplus/s-1, not for periplus/s-2"):
            repository.add_worktree(str(worktree), "periplus/s-2", repository.tip("main"))

    def test_a_detached_one_for_looking(self, repository, path):
        base = repository.tip("main")
        repository.add_worktree(str(path), "", base)
        repository.add_worktree(str(path), "", base)
        assert git(path, "rev-parse", "HEAD") == base
        git(path, "symbolic-ref", "HEAD", fails=True)
        with pytest.raises(RefusedError, match=r"is a worktree at .*, not at "):
            repository.add_worktree(str(path), "", f"{base}~1")
        repository.remove_worktree(str(path), keep_branch=False)
        assert not path.exists()

    @pytest.mark.parametrize("has_index_change", [False, True])
    @pytest.mark.parametrize("is_ignored", [False, True])
    def test_the_main_checkout_sees_nothing_of_it(self, repository, top, path, has_index_change, is_ignored):
        if is_ignored:
            (top / ".gitignore").write_text(".periplus/\n")
        (top / ".periplus").mkdir()
        (top / ".periplus" / "store").write_text("x")
        (top / "untracked file").write_text("x")
        (top / "a.txt").write_text("changed\n")
        if has_index_change:
            git(top, "add", "a.txt")
        before = raw_status(top)
        files = [".git/index", ".git/config", ".git/info/exclude", ".git/HEAD"]
        held = {name: ((top / name).read_bytes(), (top / name).stat().st_mtime_ns) for name in files}
        base = repository.tip("main")
        repository.add_worktree(str(path), BRANCH, base)
        (path / "settings.json").write_text("{}")
        repository.exclude_file(str(path), ["settings.json"])
        repository.hide(str(path), ["settings.json"])
        (path / "new").write_text("new\n")
        tip = repository.commit_rest(str(path), "Work", AUTHOR, ["settings.json"])
        merged = repository.merge(base, tip, "Merge", AUTHOR, at_s=1_000_000_000)
        assert isinstance(merged, Merged)
        repository.remove_worktree(str(path), keep_branch=True)
        assert {name: ((top / name).read_bytes(), (top / name).stat().st_mtime_ns) for name in files} == held
        assert raw_status(top) == before

    def test_a_deleted_worktree_is_made_again_with_its_work(self, repository, worktree):
        (worktree / "new").write_text("work\n")
        tip = commit(worktree)
        shutil.rmtree(worktree)
        assert repository.tip(BRANCH) == tip
        repository.add_worktree(str(worktree), BRANCH, repository.tip("main"))
        assert (worktree / "new").read_text() == "work\n"
        assert git(worktree, "rev-parse", "HEAD") == tip

    def test_a_deleted_dot_git_is_written_again(self, repository, worktree):
        (worktree / "new").write_text("work\n")
        (worktree / ".git").unlink()
        repository.add_worktree(str(worktree), BRANCH, repository.tip("main"))
        assert git(worktree, "status", "--porcelain") == "?? new"

    @pytest.mark.parametrize("state", ["initializing", None])
    def test_one_that_was_not_finished_is_made_anew(self, repository, top, worktree, state):
        """Killed before the lock, or while git wrote the files."""
        locked = top / ".git" / "worktrees" / "s-1" / "locked"
        if state is None:
            locked.unlink()
        else:
            locked.write_text(state)
            (worktree / "a.txt").unlink()
        repository.add_worktree(str(worktree), BRANCH, repository.tip("main"))
        assert (worktree / "a.txt").exists()
        assert locked.read_text().strip() == f"Periplus works here on {BRANCH}"

    @pytest.mark.slow
    def test_killed_while_git_writes_the_files(self, top, path, tmp_path):
        """Git runs on; who makes the worktree next waits for it, because it would remove the folder when it fails."""
        gate, settings = tmp_path / "gate", tmp_path / "settings"
        os.mkfifo(gate)
        filter_path = tmp_path / "smudge"
        filter_path.write_text(f"#!/bin/sh\n[ -p '{gate}' ] && cat '{gate}' > /dev/null\ncat\n")
        filter_path.chmod(0o755)
        git(tmp_path, "config", "--file", str(settings), "filter.f.smudge", f"'{filter_path}'")
        (top / ".git" / "info" / "attributes").write_text("a.txt filter=f\n")
        environment = {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": str(settings)}
        code = (
            "import json, sys\nfrom periplus.dispatch.repository import Repository\n"
            "top, path, branch, environment = sys.argv[1:]\n"
            "Repository(top, json.loads(environment)).add_worktree(path, branch, 'HEAD')\n"
        )
        words = [sys.executable, "-c", code, str(top), str(path), BRANCH, json.dumps(environment)]
        supervisor = subprocess.Popen(words)
        with gate.open("wb"):  # opens when the filter reads
            supervisor.kill()
            supervisor.wait()
            lock = os.open(f"{path}.lock", os.O_RDWR)
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(lock)
            gate.unlink()
        Repository(str(top), environment).add_worktree(str(path), BRANCH, "HEAD")
        assert git(path, "status", "--porcelain") == ""
        assert (path / "src" / "b.py").exists()
        assert os.listdir(path.parent) == ["s-1"]

    def test_a_folder_of_somebody_else_is_refused(self, repository, path):
        path.mkdir(parents=True)
        (path / "precious").write_text("x")
        with pytest.raises(RefusedError, match="exists and is not a worktree of Periplus"):
            repository.add_worktree(str(path), BRANCH, repository.tip("main"))
        with pytest.raises(RefusedError):
            repository.remove_worktree(str(path), keep_branch=True, force=True)
        assert (path / "precious").read_text() == "x"

    @pytest.mark.parametrize("branch", ["main", "-x", "periplus", "periplus/../x", "periplus/a b", "periplus/-x\n"])
    def test_other_branches_are_refused(self, repository, path, branch):
        with pytest.raises((UsageError, EnvironmentFailure)):
            repository.add_worktree(str(path), branch, repository.tip("main"))
        assert not path.exists()

    def test_one_that_was_unlocked_says_how_to_lock_it(self, repository, top, worktree):
        git(top, "worktree", "unlock", str(worktree))
        (worktree / "new").write_text("x\n")
        with pytest.raises(RefusedError, match="not locked by Periplus") as refused:
            repository.describe(str(worktree))
        assert (
            refused.value.mend == f"Type there: git worktree lock --reason 'Periplus works here on {BRANCH}' {worktree}"
        )
        git(worktree, "worktree", "lock", "--reason", f"Periplus works here on {BRANCH}", str(worktree))
        assert repository.describe(str(worktree)).untracked == ("new",)

    def test_what_stands_in_the_way_of_a_branch_is_told(self, repository, top, path):
        base = repository.tip("main")
        git(top, "branch", "periplus")
        with pytest.raises(RefusedError, match="a branch periplus exists") as refused:
            repository.add_worktree(str(path), BRANCH, base)
        assert refused.value.mend == "Give it another name: git branch -m periplus NAME"
        git(top, "branch", "-D", "periplus")
        git(top, "switch", "-q", "-c", BRANCH)
        with pytest.raises(RefusedError, match=f"{BRANCH} is checked out in") as refused:
            repository.add_worktree(str(path), BRANCH, base)
        with pytest.raises(RefusedError, match=f"{BRANCH} is checked out in"):
            repository.drop_branch(BRANCH)
        with pytest.raises(NotFoundError, match="there is no commit gone"):
            repository.add_worktree(str(path), BRANCH, "gone")
        assert not path.exists()

    def test_gc_and_prune_leave_it(self, repository, top, worktree):
        held = worktree.rename(worktree.with_name("moved away"))
        git(top, "worktree", "prune")
        git(top, "gc", "-q", "--prune=now")
        held.rename(worktree)
        assert git(worktree, "status", "--porcelain") == ""

    def test_removal_refuses_to_lose_work(self, repository, worktree):
        (worktree / "new").write_text("work\n")
        with pytest.raises(RefusedError, match="uncommitted work: new"):
            repository.remove_worktree(str(worktree), keep_branch=True)
        tip = repository.commit_rest(str(worktree), "Work", AUTHOR, [])
        with pytest.raises(RefusedError, match="commits that no other branch has"):
            repository.remove_worktree(str(worktree), keep_branch=False)
        repository.remove_worktree(str(worktree), keep_branch=True)
        repository.remove_worktree(str(worktree), keep_branch=True)
        assert not worktree.exists()
        assert repository.tip(BRANCH) == tip
        with pytest.raises(RefusedError, match="commits that no other branch has"):
            repository.drop_branch(BRANCH)
        assert repository.drop_branch(BRANCH, force=True) == tip
        assert repository.drop_branch(BRANCH) == ""
        assert repository.branches("periplus/") == {}

    def test_a_removal_that_was_interrupted_is_repeated(self, repository, top, worktree):
        (worktree / "new").write_text("work\n")
        commit(worktree)
        shutil.rmtree(worktree)
        with pytest.raises(RefusedError, match="commits that no other branch has"):
            repository.remove_worktree(str(worktree), keep_branch=False)
        held = top / ".git" / "worktrees" / "s-1"
        shutil.copytree(held, top / "kept")
        repository.remove_worktree(str(worktree), keep_branch=False, force=True)
        assert repository.branches("periplus/") == {}
        shutil.copytree(top / "kept", held)  # as it is between the two
        repository.remove_worktree(str(worktree), keep_branch=False)
        assert not held.exists()

    def test_removal_by_force(self, repository, top, worktree):
        (worktree / "new").write_text("work\n")
        commit(worktree)
        (worktree / "closed").mkdir()
        (worktree / "closed" / "file").write_text("x")
        (worktree / "closed").chmod(0o500)
        repository.remove_worktree(str(worktree), keep_branch=False, force=True)
        assert not worktree.exists()
        assert repository.branches("periplus/") == {}
        assert git(top, "worktree", "list").count("\n") == 0

    def test_pruning_forgets_ours_alone(self, repository, top, worktree, tmp_path):
        git(top, "worktree", "add", "-q", "-b", "hers", str(worktree.with_name("hers")))
        shutil.rmtree(worktree)
        shutil.rmtree(worktree.with_name("hers"))
        assert repository.prune(str(tmp_path / "elsewhere")) == []
        assert repository.prune(str(worktree.parent)) == [str(worktree)]
        assert repository.prune(str(worktree.parent)) == []
        assert "hers" in git(top, "worktree", "list")
        assert BRANCH in repository.branches("periplus/")


class TestLeftovers:
    def test_what_is_left_is_committed(self, repository, worktree):
        (worktree / "a.txt").unlink()
        (worktree / "src" / "b.py").write_text("b = 2\n")
        (worktree / "new").mkdir()
        (worktree / "new" / "file").write_text("x\n")
        (worktree / "staged").write_text("x\n")
        git(worktree, "add", "staged")
        (worktree / RESULT_FILE).write_text("{}")
        left = repository.describe(str(worktree))
        assert (left.changed, left.untracked) == (("a.txt", "src/b.py", "staged"), ("new/file",))
        assert not left.is_clean
        tip = repository.commit_rest(str(worktree), "Uncommitted work\n\nRun: r-1", AUTHOR, [])
        assert repository.tip(BRANCH) == tip
        assert git(worktree, "status", "--porcelain", "--", ":!.periplus-result.json") == ""
        assert git(worktree, "log", "-1", "--format=%an %ae %cn|%B") == "Claude (periplus) ada@example.org Claude (periplus)|Uncommitted work\n\nRun: r-1"  # fmt: skip
        changes = repository.changes(repository.tip("main"), tip)
        assert changes.paths == ("a.txt", "new/file", "src/b.py", "staged")
        assert (changes.additions, changes.deletions, changes.commits, changes.secrets) == (3, 4, 1, ())
        assert repository.describe(str(worktree)).is_clean
        assert repository.commit_rest(str(worktree), "Again", AUTHOR, []) is None

    @pytest.mark.parametrize("name", [b"with space", b"line\nbreak", b"\xff\xfe", "\u00fcml\u00e4ut".encode(), b"-x", b"--", b":(top)x", b"*", b'"q"'])  # fmt: skip
    def test_names_of_any_kind(self, repository, worktree, name):
        with open(os.path.join(os.fsencode(worktree), name), "wb") as file:
            file.write(b"x\n")
        tip = repository.commit_rest(str(worktree), "Work", AUTHOR, [])
        assert repository.changes(repository.tip("main"), tip).paths == (os.fsdecode(name),)
        assert "+x" in repository.diff(repository.tip("main"), tip, 10_000)

    def test_what_was_placed_is_left_out(self, repository, worktree):
        (worktree / "c.txt").write_text("placed\n")
        (worktree / "settings.json").write_text("{}")
        placed = ["c.txt", "settings.json"]
        excludes = repository.exclude_file(str(worktree), placed)
        repository.hide(str(worktree), placed)
        assert git(worktree, "-c", f"core.excludesFile={excludes}", "status", "--porcelain") == ""
        assert repository.describe(str(worktree)).is_clean
        assert repository.commit_rest(str(worktree), "Work", AUTHOR, placed) is None
        git(worktree, "add", "--force", "settings.json")
        git(worktree, "update-index", "--no-skip-worktree", "c.txt")
        git(worktree, "add", "c.txt")
        (worktree / "new").write_text("x\n")
        tip = repository.commit_rest(str(worktree), "Work", AUTHOR, placed)
        assert repository.changes(repository.tip("main"), tip).paths == ("new",)
        assert (worktree / "c.txt").read_text() == "placed\n"

    def test_patterns_name_the_placed_files_alone(self, top, worktree, tmp_path):
        (tmp_path / "home" / ".config" / "git").mkdir(parents=True)
        (tmp_path / "home" / ".config" / "git" / "ignore").write_text("*.log")
        repository = Repository(str(top), {**ENVIRONMENT, "HOME": str(tmp_path / "home")})
        placed = ["a*b", "#x", "!y", " z ", "[q]", "d/back\\slash", "-p"]
        (worktree / "d").mkdir()
        for name in (*placed, "aab", "q", "deep.log", "d/-p", RESULT_FILE):
            (worktree / name).write_text("x")
        excludes = repository.exclude_file(str(worktree), placed)
        assert (
            git(worktree, "-c", f"core.excludesFile={excludes}", "status", "--porcelain", "-uall")
            == "?? aab\n?? d/-p\n?? q"
        )
        assert repository.describe(str(worktree)).untracked == ("aab", "d/-p", "q")
        git(top, "config", "--file", str(tmp_path / "settings"), "core.excludesFile", "~/mine")
        (tmp_path / "home" / "mine").write_text("q\n")
        environment = {**ENVIRONMENT, "HOME": str(tmp_path / "home"), "GIT_CONFIG_GLOBAL": str(tmp_path / "settings")}
        Repository(str(top), environment).exclude_file(str(worktree), placed)
        assert repository.describe(str(worktree)).untracked == ("aab", "d/-p", "deep.log")
        for wrong in ("../x", "/x", "a//b", "", "a\nb"):
            with pytest.raises(UsageError, match="is not a path inside a worktree"):
                repository.exclude_file(str(worktree), [wrong])

    def test_what_was_placed_and_committed_is_taken_back(self, repository, worktree):
        base = repository.tip("main")
        (worktree / "c.txt").write_text("placed\n")
        (worktree / "settings.json").write_text("{}")
        (worktree / "hers.json").write_text("{}")
        placed = ["c.txt", "settings.json", "hers.json"]
        repository.exclude_file(str(worktree), placed)
        (worktree / "hers.json").write_text("changed by the agent")
        (worktree / "new").write_text("x\n")
        (worktree / RESULT_FILE).write_text("{}")
        git(worktree, "add", "--force", "-A")
        tip = commit(worktree)
        clean = repository.without_placed(str(worktree), base, placed, AUTHOR)
        assert clean != tip
        assert repository.tip(BRANCH) == clean
        assert repository.changes(base, clean).paths == ("hers.json", "new")
        assert (worktree / "settings.json").exists()
        assert repository.describe(str(worktree)).is_clean
        assert repository.without_placed(str(worktree), base, placed, AUTHOR) == clean

    def test_a_placed_link_that_was_committed_is_taken_back(self, repository, top, worktree):
        base = repository.tip("main")
        (worktree / "modules").symlink_to(top / "src")
        repository.exclude_file(str(worktree), ["modules"])
        assert repository.describe(str(worktree)).is_clean
        git(worktree, "add", "--force", "modules")
        commit(worktree)
        assert repository.changes(base, repository.tip(BRANCH)).paths == ("modules",)
        tip = repository.without_placed(str(worktree), base, ["modules"], AUTHOR)
        assert repository.changes(base, tip).paths == ()
        assert (worktree / "modules").is_symlink()

    def test_work_on_a_placed_file_stays_when_the_agent_is_started_again(self, repository, worktree):
        base = repository.tip("main")
        (worktree / "c.txt").write_text("c\nplaced\n")
        repository.exclude_file(str(worktree), ["c.txt"])
        (worktree / "c.txt").write_text("the agent's\n")
        tip = commit(worktree)
        (worktree / "settings.json").write_text("{}")
        excludes = repository.exclude_file(str(worktree), ["c.txt", "settings.json"])
        assert Path(excludes).read_text().split() == ["/.periplus-result.json", "/c.txt", "/settings.json"]
        assert repository.without_placed(str(worktree), base, ["c.txt", "settings.json"], AUTHOR) == tip
        (worktree / "c.txt").write_text("c\nplaced\n")
        commit(worktree)
        tip = repository.without_placed(str(worktree), base, ["c.txt"], AUTHOR)
        assert repository.changes(base, tip).paths == ()

    def test_a_secret_is_refused(self, repository, worktree):
        (worktree / "fine").write_text("x\n")
        (worktree / "config.py").write_text(f"TOKEN = '{SECRET}'\n")
        with pytest.raises(SecretFoundError, match=r"config\.py in .* has a secret"):
            repository.commit_rest(str(worktree), "Work", AUTHOR, [])
        assert repository.tip(BRANCH) == repository.tip("main")
        assert git(worktree, "diff", "--cached", "--name-only") == ""

    def test_secrets_of_each_commit_and_message_are_told(self, repository, top, worktree):
        base = repository.tip("main")
        (worktree / "config.py").write_text(f"TOKEN = '{SECRET}'\n")
        commit(worktree)
        (worktree / "config.py").write_text("TOKEN = ''\n")
        (worktree / "src" / "b.py").write_text("b = 2\n")
        tip = commit(worktree, f"Use the token {SECRET}")
        secrets = repository.changes(base, tip).secrets
        assert {secret.path for secret in secrets} == {"config.py", f"message of {tip[:12]}"}
        assert all(isinstance(secret, FoundSecret) and secret.kind for secret in secrets)
        (top / "old.py").write_text(f"TOKEN = '{SECRET}'\n")
        base = commit(top)
        git(worktree, "reset", "-q", "--hard", "main")
        git(worktree, "mv", "old.py", "moved.py")
        (worktree / "moved.py").write_text(f"TOKEN = '{SECRET}'\nmore = 1\n")
        assert repository.changes(base, commit(worktree)).secrets == ()

    @pytest.mark.parametrize("how", [("switch", "-q", "-c", "elsewhere"), ("switch", "-q", "--detach")])
    def test_a_worktree_on_another_branch_is_refused(self, repository, worktree, how):
        git(worktree, *how)
        (worktree / "new").write_text("x\n")
        with pytest.raises(RefusedError, match=r"in .*, not periplus/s-1"):
            repository.commit_rest(str(worktree), "Work", AUTHOR, [])

    def test_a_deleted_branch_is_told(self, repository, top, worktree):
        git(top, "update-ref", "-d", f"refs/heads/{BRANCH}")
        with pytest.raises(RefusedError, match="the branch periplus/s-1 was deleted"):
            repository.commit_rest(str(worktree), "Work", AUTHOR, [])

    def test_an_unfinished_merge_is_refused(self, repository, top, worktree):
        (top / "a.txt").write_text("theirs\n")
        commit(top)
        (worktree / "a.txt").write_text("ours\n")
        commit(worktree)
        git(worktree, "merge", "main", fails=True)
        assert repository.describe(str(worktree)).unmerged == ("a.txt",)
        with pytest.raises(RefusedError, match="a merge is not finished"):
            repository.commit_rest(str(worktree), "Work", AUTHOR, [])

    def test_locks_of_a_killed_git_do_not_stop_it(self, repository, top, worktree):
        (top / ".git" / "worktrees" / "s-1" / "index.lock").write_text("")
        (top / ".git" / "refs" / "heads" / f"{BRANCH}.lock").write_text("")
        (worktree / "new").write_text("x\n")
        assert repository.commit_rest(str(worktree), "Work", AUTHOR, []) == repository.tip(BRANCH)

    def test_a_repository_inside_is_told_and_left_out(self, repository, worktree):
        make(worktree / "inner")
        assert repository.describe(str(worktree)).nested == ("inner/",)
        assert repository.commit_rest(str(worktree), "Work", AUTHOR, []) is None
        with pytest.raises(RefusedError, match="uncommitted work: inner/"):
            repository.remove_worktree(str(worktree), keep_branch=True)


class TestMerges:
    def test_a_merge_without_a_worktree(self, repository, top, worktree):
        (worktree / "new").write_text("x\n")
        tip = commit(worktree)
        (top / "c.txt").write_text("changed\n")
        onto = commit(top)
        message = "Merge s-1\n\nPeriplus-Step: s-1\n"
        merged = repository.merge(onto, tip, message, AUTHOR, at_s=1_700_000_000)
        assert merged == repository.merge(onto, tip, message, AUTHOR, at_s=1_700_000_000)
        assert git(top, "log", "-1", "--format=%P|%an|%cn|%at|%ct|%G?|%B", merged.commit) == f"{onto} {tip}|{AUTHOR[0]}|{AUTHOR[0]}|1700000000|1700000000|N|{message}".strip()  # fmt: skip
        assert git(top, "show", f"{merged.commit}:new") == "x"
        assert git(top, "show", f"{merged.commit}:c.txt") == "changed"
        assert repository.merge(merged.commit, tip, "Again", AUTHOR, at_s=1) == merged
        assert not [name for name in os.listdir(top / ".git") if name.startswith("periplus")]
        assert repository.tip("main") == onto

    def test_a_conflict_has_both_sides(self, repository, top, worktree):
        (worktree / "a.txt").write_text("one\nagent\nthree\n")
        (worktree / "new").write_text("x\n")
        tip = commit(worktree)
        (top / "a.txt").write_text("one\nperson\nthree\n")
        onto = commit(top)
        conflict = repository.merge(onto, tip, "Merge", AUTHOR, at_s=1)
        assert isinstance(conflict, Conflict)
        assert conflict.paths == ("a.txt",)
        assert "+person" in conflict.ours
        assert "+agent" in conflict.theirs
        assert "new" not in conflict.theirs

    def test_attributes_are_those_of_the_target(self, repository, top, worktree):
        """Not those of the files that happen to be checked out."""
        git(worktree, "checkout", "-q", "--detach")
        (worktree / "src" / ".gitattributes").write_text("b.py merge=union\n")
        base = commit(worktree)
        sides = []
        for text in ("one", "two"):
            git(worktree, "checkout", "-q", base)
            (worktree / "src" / "b.py").write_text(f"{text} = 1\n")
            sides.append(commit(worktree))
        merged = repository.merge(*sides, "Merge", AUTHOR, at_s=1)
        assert git(top, "show", f"{merged.commit}:src/b.py") == "one = 1\ntwo = 1"

    def test_histories_apart_are_refused(self, repository, top):
        git(top, "checkout", "-q", "--orphan", "apart")
        apart = commit(top, "Apart")
        with pytest.raises(RefusedError, match="no history in common"):
            repository.merge(repository.tip("main"), apart, "Merge", AUTHOR, at_s=1)

    def test_a_long_diff_is_cut_and_says_so(self, repository, worktree):
        (worktree / "long").write_text("a line of some length\n" * 10_000)
        tip = commit(worktree)
        text = repository.diff(repository.tip("main"), tip, 5_000)
        assert len(text) < 5_200
        assert text.endswith("left out: it has more than 5,000 bytes.]\n")


class TestMoves:
    def test_compare_and_set(self, repository, top):
        old = repository.tip("main")
        git(top, "branch", "target")
        (top / "d").write_text("d\n")
        new = commit(top)
        assert not repository.move("target", new, "0" * 39 + "1")
        assert repository.tip("target") == old
        assert repository.move("target", new, old)
        assert repository.move("target", new, old)
        assert repository.tip("target") == new
        assert repository.move("refs/heads/made", new, "")
        assert not repository.move("refs/heads/made", old, "")
        assert not repository.move("refs/heads/never", new, old)

    def test_a_branch_that_is_checked_out_is_not_moved(self, repository, top):
        old = repository.tip("main")
        new = git(top, "commit-tree", f"{old}^{{tree}}", "-p", old, "-m", "New")
        with pytest.raises(RefusedError, match="main is checked out") as refused:
            repository.move("main", new, old)
        assert f"merge --ff-only {new}" in refused.value.mend
        assert repository.tip("main") == old

    def test_fast_forward_of_a_clean_checkout(self, repository, top, worktree):
        (worktree / "d").write_text("d\n")
        new = commit(worktree)
        (top / "untracked").write_text("x")
        (top / "a.txt").write_text("changed\n")
        assert "has uncommitted changes" in repository.fast_forward(str(top), new)
        git(top, "checkout", "-q", "a.txt")
        assert "main is checked out" in repository.fast_forward(str(top), new, "other")
        (top / "d").write_text("in the way\n")
        assert "failed" in repository.fast_forward(str(top), new, "main")
        assert (top / "d").read_text() == "in the way\n"
        (top / "d").unlink()
        assert repository.fast_forward(str(top), new, "main") == ""
        assert repository.fast_forward(str(top), new, "main") == ""
        assert (top / "d").read_text() == "d\n"
        assert git(top, "status", "--porcelain") == "?? untracked"
        unrelated = git(top, "commit-tree", "HEAD^{tree}", "-m", "Unrelated")
        assert "failed" in repository.fast_forward(str(top), unrelated)
        assert repository.tip("main") == new
        git(top, "checkout", "-q", "--detach")
        assert "no branch is checked out" in repository.fast_forward(str(top), new)


def program(folder, name="program"):
    """A program that leaves a file behind when it is run, and that file."""
    path, ran = folder / name, folder / f"{name} ran"
    path.write_text(f"#!/bin/sh\necho ran >> '{ran}'\ncat\n")
    path.chmod(0o755)
    return path, ran


class TestHostileAgents:
    @pytest.mark.parametrize("how", ["folder", "link", "file", "link to the top", "itself", "lead elsewhere", "common"])
    def test_a_worktree_made_to_look_like_another_is_refused(self, repository, top, worktree, tmp_path, how):
        other = make(tmp_path / "other")
        dot_git = worktree / ".git"
        held = top / ".git" / "worktrees" / "s-1"
        if how == "common":
            (held / "commondir").write_text(f"{other}/.git\n")
        elif how == "lead elsewhere":
            git(top, "worktree", "add", "-q", "-b", "hers", str(tmp_path / "hers"))
            dot_git.write_text((tmp_path / "hers" / ".git").read_text())
        elif how == "itself":
            shutil.rmtree(worktree)
            worktree.symlink_to(top)
        else:
            dot_git.unlink()
            if how == "folder":
                shutil.copytree(other / ".git", dot_git)
            elif how == "file":
                dot_git.write_text(f"gitdir: {other}/.git\n")
            else:
                dot_git.symlink_to((other if how == "link" else top) / ".git")
        (worktree / "new").write_text("x\n")
        before = git(top, "rev-parse", "main", BRANCH), git(other, "rev-parse", "HEAD")
        calls = [
            lambda: repository.commit_rest(str(worktree), "Work", AUTHOR, []),
            lambda: repository.without_placed(str(worktree), before[0][:40], [], AUTHOR),
            lambda: repository.describe(str(worktree)),
            lambda: repository.hide(str(worktree), ["a.txt"]),
            lambda: repository.exclude_file(str(worktree), []),
            lambda: repository.remove_worktree(str(worktree), keep_branch=False),
        ]
        for call in calls:
            with pytest.raises(RefusedError, match="is not the worktree that was made there") as refused:
                call()
            assert "Commits on its branch are in the repository" in refused.value.safe
        with pytest.raises(RefusedError):
            repository.add_worktree(str(worktree), BRANCH, repository.tip("main"))
        assert (git(top, "rev-parse", "main", BRANCH), git(other, "rev-parse", "HEAD")) == before
        assert (other / "a.txt").exists()
        assert (top / "a.txt").exists()

    def test_a_dot_git_that_changes_between_the_look_and_the_call_changes_nothing(self, repository, worktree, tmp_path):
        """Git is given its folders by name."""
        from periplus.dispatch.repository import leftovers, worktrees

        other = make(tmp_path / "other")
        known = worktrees.worktree_at(repository._at, str(worktree))
        (worktree / ".git").write_text(f"gitdir: {other}/.git\n")
        (worktree / "new").write_text("x\n")
        before = git(other, "rev-parse", "HEAD")
        tip = leftovers.commit_rest(repository._git, known, "Work", AUTHOR, [])
        assert repository.tip(BRANCH) == tip
        assert git(other, "rev-parse", "HEAD") == before
        assert git(other, "status", "--porcelain") == ""

    def test_removal_by_force_of_one_that_was_changed(self, repository, top, worktree, tmp_path):
        other = make(tmp_path / "other")
        (worktree / ".git").unlink()
        (worktree / ".git").symlink_to(other / ".git")
        repository.remove_worktree(str(worktree), keep_branch=True, force=True)
        assert not worktree.exists()
        assert git(other, "status", "--porcelain") == ""
        assert BRANCH in repository.branches("periplus/")

    @pytest.mark.parametrize("how", ["setting", "include"])
    def test_no_program_of_the_repository_is_run(self, repository, top, worktree, tmp_path, how):
        base = repository.tip("main")
        path, ran = program(tmp_path)
        hooks = top / ".git" / "hooks" if how == "setting" else tmp_path / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("post-checkout", "reference-transaction", "post-merge", "post-index-change"):
            shutil.copy(path, hooks / name)
        bad = tmp_path / "bad"
        settings = {
            "core.fsmonitor": path, "core.hooksPath": hooks, "core.pager": path, "core.editor": path,
            "core.worktree": tmp_path, "core.alternateRefsCommand": path, "diff.external": path, "gpg.program": path,
            "commit.gpgSign": "true", "log.showSignature": "true", "core.sshCommand": path, "alias.status": f"!{path}",
            "filter.f.clean": path, "filter.f.smudge": path, "filter.f.process": path, "filter.f.required": "true",
            "filter.a=b.clean": path, "diff.d.textconv": path, "diff.d.command": path, "merge.m.driver": f"{path} %A",
            "trailer.x.cmd": path, "interactive.diffFilter": path, "credential.helper": path,
        }  # fmt: skip
        target = str(bad) if how == "include" else str(top / ".git" / "config")
        for key, value in settings.items():
            git(tmp_path, "config", "--file", target, key, str(value))
        if how == "setting":
            git(tmp_path, "config", "--file", target, "--unset", "core.hooksPath")
        else:
            git(tmp_path, "config", "--file", str(top / ".git" / "config"), "include.path", str(bad))
        (top / ".git" / "info" / "attributes").write_text("* filter=f diff=d merge=m\nsrc/* filter=a=b\n")
        (worktree / "a.txt").write_text("agent\n")
        repository.describe(str(worktree))
        with pytest.raises(RefusedError, match="is to pass the filter 'f'"):
            repository.commit_rest(str(worktree), "Work", AUTHOR, [])
        (top / ".git" / "info" / "attributes").write_text("* diff=d merge=m\n")
        tip = repository.commit_rest(str(worktree), "Work", AUTHOR, [])
        (top / ".git" / "info" / "attributes").write_text("* filter=f diff=d merge=m\n")
        repository.changes(base, tip)
        assert "+agent" in repository.diff(base, tip, 10_000)
        side = git_commit_of(top, base, {"a.txt": "one\ntwo\nperson\n"})
        conflict = repository.merge(side, tip, "Merge", AUTHOR, at_s=1)
        assert conflict.paths == ("a.txt",)
        other = git_commit_of(top, base, {"c.txt": "c\n", "d.txt": "d\n"})
        merged = repository.merge(other, tip, "Merge", AUTHOR, at_s=1)
        repository.add_worktree(f"{worktree}-2", "periplus/s-2", merged.commit)
        assert Path(f"{worktree}-2", "d.txt").read_text() == "d\n"
        assert repository.fast_forward(str(top), merged.commit, "main") == ""
        assert (top / "a.txt").read_text() == "agent\n"
        assert repository.move("made", tip, "")
        repository.marks()
        repository.remarks()
        repository.remove_worktree(f"{worktree}-2", keep_branch=False)
        assert not ran.exists()
        subprocess.run(["git", "status"], cwd=worktree, env=AS_ADA, capture_output=True, timeout=60)
        assert ran.exists(), "git itself runs them"

    @pytest.mark.parametrize("has_process", [False, True])
    def test_filters_of_the_user_are_run_whatever_the_repository_says(self, top, worktree, tmp_path, has_process):
        users = tmp_path / "settings"
        path, ran = program(tmp_path, "mine")
        bad, bad_ran = program(tmp_path, "bad")
        for part in ("clean", "smudge"):
            git(tmp_path, "config", "--file", str(users), f"filter.f.{part}", f"'{path}'")
        git(top, "config", "filter.f.clean", f"'{bad}'")
        git(top, "config", "filter.f.required", "true")
        if has_process:  # git has no way to take this one away and leave the others
            git(top, "config", "filter.f.process", f"'{bad}'")
        (top / ".git" / "info" / "attributes").write_text("*.txt filter=f\n")
        repository = Repository(str(top), {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": str(users)})
        repository.add_worktree(f"{worktree}-2", "periplus/s-2", repository.tip("main"))
        assert ran.exists() != has_process
        ran.unlink(missing_ok=True)
        Path(f"{worktree}-2", "a.txt").write_text("agent\n")
        if has_process:
            with pytest.raises(RefusedError, match="is to pass the filter 'f'"):
                repository.commit_rest(f"{worktree}-2", "Work", AUTHOR, [])
            assert repository.remarks() != []
        else:
            assert repository.commit_rest(f"{worktree}-2", "Work", AUTHOR, [])
            assert ran.exists()
            assert repository.remarks() == []
        assert not bad_ran.exists()

    def test_replaced_objects_and_grafts_change_no_result(self, repository, top, worktree):
        base = repository.tip("main")
        (worktree / "new").write_text("x\n")
        tip = commit(worktree)
        git(top, "replace", base, git_commit_of(top, "", {"evil": "x\n"}))
        (top / ".git" / "info" / "grafts").write_text(f"{tip}\n")
        assert repository.changes(base, tip).paths == ("new",)
        assert repository.changes(base, tip).commits == 1
        assert repository.merge(base, tip, "Merge", AUTHOR, at_s=1).commit != tip


def git_commit_of(top, parent, files):
    """A commit with other ``files``, made without a checkout."""
    index = {"GIT_INDEX_FILE": str(top / ".git" / "index of a test")}
    quiet = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    git(top, *quiet, "read-tree", *([parent] if parent else ["--empty"]), GIT_WORK_TREE=str(top), **index)
    for path, text in files.items():
        oid = git(top, *quiet, "hash-object", "-w", "--stdin", said=text.encode(), GIT_WORK_TREE=str(top))
        git(
            top, *quiet, "update-index", "--add", "--cacheinfo", f"100644,{oid},{path}", GIT_WORK_TREE=str(top), **index
        )
    tree = git(top, *quiet, "write-tree", GIT_WORK_TREE=str(top), **index)
    os.unlink(index["GIT_INDEX_FILE"])
    return git(top, *quiet, "commit-tree", tree, *(["-p", parent] if parent else []), "-m", "x", GIT_WORK_TREE=str(top))


class TestTampering:
    def test_work_on_ones_own_branch_is_none(self, repository, top, worktree):
        before = repository.marks()
        (worktree / "new").write_text("x\n")
        tip = commit(worktree)
        repository.add_worktree(f"{worktree}-2", "periplus/s-2", tip)
        assert repository.move("made", tip, "")
        assert repository.tampered(before, {"refs/heads/made": tip}) == []
        assert repository.tampered(before) == ["the branch made was added"]

    @pytest.mark.parametrize(
        ("act", "said"),
        [
            (lambda top, at: (top / ".git/hooks/pre-commit").write_text("x"), ["hooks/pre-commit in git's folder was added"]),
            (lambda top, at: git(at, "config", "core.fsmonitor", "x"), ["the setting core.fsmonitor was added"]),
            (lambda top, at: git(at, "config", "alias.st", "x"), ["the setting alias.st was added"]),
            (lambda top, at: git(at, "config", "filter.x.clean", "x"), ["the setting filter.x.clean was added"]),
            (lambda top, at: git(at, "config", "core.worktree", "/x"), ["the setting core.worktree was added"]),
            (lambda top, at: git(at, "config", "core.bare", "true"), ["the setting core.bare was changed"]),
            (lambda top, at: (top / ".git/info/attributes").write_text("x"), ["info/attributes in git's folder was added"]),
            (lambda top, at: (top / ".git/info/exclude").write_text("*"), ["info/exclude in git's folder was changed"]),
            (lambda top, at: (top / ".git/info/grafts").write_text("x"), ["info/grafts in git's folder was added"]),
            (lambda top, at: (top / ".git/shallow").write_text(""), ["shallow in git's folder was added"]),
            (lambda top, at: (top / ".git/objects/info/alternates").write_text("/x\n"), ["objects/info/alternates in git's folder was added"]),
            (lambda top, at: git(at, "update-ref", "refs/heads/main", "HEAD~1"), ["the branch main was changed"]),
            (lambda top, at: git(at, "tag", "v1"), ["the tag v1 was added"]),
            (lambda top, at: git(at, "branch", "other"), ["the branch other was added"]),
            (lambda top, at: git(top, "checkout", "-q", "--detach"), ["was switched from main to "]),
            (lambda top, at: (top / ".git/config").write_text((top / ".git/config").read_text() + "# x\n"), ["config in git's folder was changed"]),
            (lambda top, at: git(at, "replace", "HEAD", "HEAD~1"), ["a replacement of "]),
        ],
    )  # fmt: skip
    def test_what_is_told(self, repository, top, worktree, act, said):
        before = repository.marks()
        act(top, worktree)
        found = repository.tampered(before)
        assert len(found) == 1
        assert said[0] in found[0]

    def test_an_included_file_counts(self, repository, top, worktree, tmp_path):
        (tmp_path / "more").write_text("[core]\n\tx = 1\n")
        git(top, "config", "include.path", str(tmp_path / "more"))
        before = repository.marks()
        (tmp_path / "more").write_text("[core]\n\tfsmonitor = x\n")
        assert repository.tampered(before) == ["the setting core.fsmonitor was added", "the setting core.x was removed"]

    def test_settings_that_git_cannot_read_are_told(self, repository, top):
        before = repository.marks()
        (top / ".git" / "config").write_text("[core\nx")
        found = repository.tampered(before)
        assert found[0].startswith("git does not work there any more: git ")
        assert found[1:] == ["config in git's folder was changed"]

    def test_many_are_counted(self, repository, top):
        before = repository.marks()
        head = git(top, "rev-parse", "HEAD")
        rows = "".join(f"create refs/tags/v{number} {head}\n" for number in range(80))
        git(top, "update-ref", "--stdin", said=rows.encode())
        assert repository.tampered(before)[-1] == "and 30 more"


class TestRepositories:
    @pytest.mark.parametrize("kind", ["nothing", "bare", "bare setting", "empty", "inside", "relative", "no git"])
    def test_those_that_are_refused(self, pattern, tmp_path, kind):
        top, environment = tmp_path / "top", ENVIRONMENT
        top.mkdir()
        if kind == "bare":
            git(top, "init", "-q", "--bare")
        elif kind == "empty":
            git(top, "init", "-q")
        elif kind == "bare setting":
            git(top, "init", "-q")
            commit(top)
            git(top, "config", "core.bare", "true")
        elif kind == "inside":
            top = pattern / "src"
        elif kind == "no git":
            environment = {**ENVIRONMENT, "PATH": str(tmp_path)}
        where = "top" if kind == "relative" else str(top)
        said = {"empty": "no commit is checked out", "bare setting": "is a bare repository", "no git": "git is not installed",
                "relative": "not an absolute path"}.get(kind, "is not the top of a git checkout")  # fmt: skip
        with pytest.raises((UsageError, NotFoundError, EnvironmentFailure), match=said) as refused:
            Repository(where, environment)
        assert refused.value.safe == "Nothing was changed."

    def test_an_old_git_is_refused(self, pattern, tmp_path):
        (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.30.2\n")
        (tmp_path / "git").chmod(0o755)
        with pytest.raises(EnvironmentFailure, match=r"git 2\.38 or later is needed .*, not git version 2\.30\.2"):
            Repository(str(pattern), {**ENVIRONMENT, "PATH": str(tmp_path)})

    @pytest.mark.parametrize(
        "kind", ["plain", "dash", "sha256", "shallow", "detached", "named", "sparse", "linked", "eol"]
    )
    def test_a_step_from_worktree_to_target(self, pattern, tmp_path, kind):
        top, target = tmp_path / ("-x" if kind == "dash" else "top"), "target"
        if kind == "sha256":
            make(top, how=("--object-format=sha256",))
        elif kind == "shallow":
            git(tmp_path, "clone", "-q", "--depth=1", f"file://{pattern}", str(top))
        else:
            shutil.copytree(pattern, top, symlinks=True)
        if kind == "detached":
            git(top, "checkout", "-q", "--detach")
        elif kind == "sparse":
            git(top, "status")  # the index has other time stamps than the copies
            git(top, "sparse-checkout", "set", "other")
            assert not (top / "src").exists()
        elif kind == "linked":
            git(top, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
            top = tmp_path / "linked"
        elif kind == "named":
            target = "r\u00e9lease/2026/\u00fcber"
        elif kind == "eol":
            (top / ".gitattributes").write_text("* text=auto eol=crlf\n")
            commit(top)
        git(top, "branch", target)
        before = raw_status(top)
        repository = Repository(str(top), ENVIRONMENT)
        base = repository.tip(target)
        path = str(tmp_path / "state" / "-s-1")
        repository.add_worktree(path, BRANCH, base)
        Path(path, "src").mkdir(exist_ok=True)
        Path(path, "src", "new.py").write_text("x = 1\n")
        Path(path, "a.txt").write_text("changed\n")
        tip = repository.commit_rest(path, "Work", AUTHOR, [])
        assert repository.changes(base, tip).paths == ("a.txt", "src/new.py")
        side = git_commit_of(top if kind != "linked" else tmp_path / "top", base, {"side": "x\n"})
        merged = repository.merge(side, tip, "Merge", AUTHOR, at_s=1)
        assert repository.move(target, merged.commit, base)
        assert repository.tip(target) == merged.commit
        assert git(top, "show", f"{merged.commit}:a.txt") == "changed"
        repository.remove_worktree(path, keep_branch=False)
        assert raw_status(top) == before
        assert repository.branches("periplus/") == {}
        git(top, "fsck", "--strict")

    def test_submodules_are_said_and_left_as_they_are(self, pattern, tmp_path):
        top = tmp_path / "top"
        shutil.copytree(pattern, top)
        git(top, "submodule", "--quiet", "add", str(pattern), "sub")
        commit(top)
        repository = Repository(str(top), ENVIRONMENT)
        assert any(remark.startswith("Submodules are empty") for remark in repository.remarks())
        path = str(tmp_path / "s-1")
        repository.add_worktree(path, BRANCH, repository.tip("main"))
        assert repository.describe(path).is_clean
        git(Path(path), "submodule", "--quiet", "update", "--init")
        Path(path, "sub", "a.txt").write_text("x\n")
        Path(path, "new").write_text("x\n")
        tip = repository.commit_rest(path, "Work", AUTHOR, [])
        assert repository.changes(repository.tip("main"), tip).paths == ("new",)
        inner = Repository(str(top / "sub"), ENVIRONMENT)
        assert inner.branch() == "main"
        repository.remove_worktree(path, keep_branch=True, force=True)
        assert git(top, "status", "--porcelain") == ""

    def test_remarks(self, pattern, tmp_path):
        assert Repository(str(pattern), ENVIRONMENT).remarks() == []
        top = tmp_path / "top"
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{pattern}", str(top))
        (top / "src" / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
        commit(top)
        git(top, "config", "filter.crypt.clean", "x")
        git(top, "config", "extensions.partialClone", "origin")
        git(top, "sparse-checkout", "set", "src")
        git(top, "checkout", "-q", "--detach")
        said = " ".join(Repository(str(top), ENVIRONMENT).remarks())
        words = ("detached", "shallow", "sparse", "partial", "are not run: crypt.", "Git LFS")
        assert [word for word in words if word not in said] == []
