"""The repository of a dispatch on real git: worktrees, leftovers, merges and refs, beside agents that do as they like."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from periplus.base.errors import EnvironmentFailure, RefusedError, SecretFoundError, UsageError
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
