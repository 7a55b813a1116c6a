"""Random operations of git and of the file system, after each of which the listing is compared with the truth."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from listing_support import Listed, git, make_repository, write

FILES = {
    "a.py": "a = 1\n", "b.py": "b = 2\n", "pkg/c.py": "c = 3\n", "pkg/deep/d.py": "d = 4\n", "pkg/deep/e.py": "e = 5\n",
    "made/f.py": "f = 6\n", "A/g.py": "g = 7\n", ".gitignore": "*.log\n/ignored/\nmade/*.tmp\n", "pkg/.gitignore": "!kept.log\nskip*\n",
}  # fmt: skip
NAMES = ("a.py", "b.py", "B.py", "pkg/c.py", "pkg/deep/d.py", "pkg/kept.log", "pkg/skip.py", "x.log", "ignored/y.py", "made/z.tmp",
         "new/n.py", "a/g.py", "pkg", "pkg/deep", "new", "line\nend.py", "made", 'quote".py', "\udcff.py")  # fmt: skip


class Deeds:
    """Operations on a worktree, each drawn by its name; an operation that makes no sense at the time does nothing."""

    def __init__(self, folder, drawn):
        self.folder, self.drawn, self.serial = folder, drawn, 0
        self.other = make_repository(
            folder.parent / "other", {"m.py": "m = 1\n", "n/o.py": "o = 2\n", ".gitignore": "*.o\n"}
        )
        self.names = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]

    def git(self, *words):
        git(self.folder, *words, fails=None)

    def place(self):
        """A path that may be written: one below no symbolic link."""
        path = self.drawn.choice(NAMES)
        at = self.folder
        for name in path.split("/")[:-1]:
            at = at / name
            if at.is_symlink() or (at.exists() and not at.is_dir()):
                at.unlink()
        return self.folder / path

    def clear(self, place):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif place.is_symlink() or place.exists():
            place.unlink()

    def do_write(self):
        place = self.place()
        self.clear(place)
        self.serial += 1
        write(self.folder, {os.path.relpath(place, self.folder): f"v = {self.drawn.randrange(4)}\n"})

    def do_write_same_size(self):
        for place in sorted(self.folder.glob("*.py"))[:1]:
            if not place.is_symlink():
                place.write_text("w" + place.read_text()[1:])

    def do_touch(self):
        place = self.place()
        if place.is_file() and not place.is_symlink():
            os.utime(place)

    def do_delete(self):
        self.clear(self.place())

    def do_rename(self):
        source, target = self.place(), self.place()
        if source.is_file() and not source.is_symlink() and not target.exists() and target.parent.is_dir():
            source.rename(target)

    def do_rename_case(self):
        if (self.folder / "b.py").is_file():
            self.git("mv", "b.py", "B.py")

    def do_chmod(self):
        place = self.place()
        if place.is_file() and not place.is_symlink():
            place.chmod(self.drawn.choice((0o644, 0o755)))

    def do_link(self):
        place = self.place()
        self.clear(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(self.drawn.choice(("a.py", "pkg", "made", "nowhere", "..", str(self.other))))

    def do_add(self):
        self.git("add", "-A")

    def do_intend_to_add(self):
        self.git("add", "-N", ".")

    def do_commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "more")

    def do_branch(self):
        self.git("checkout", "-q", "-f", self.drawn.choice(("main", "side")))

    def do_new_branch(self):
        self.git("branch", "-f", "side", self.drawn.choice(("main~1", "main", "HEAD")))

    def do_merge(self):
        self.git("merge", "-q", self.drawn.choice(("main", "side")))

    def do_stop_merging(self):
        self.git(self.drawn.choice(("merge", "rebase")), "--abort")

    def do_rebase(self):
        self.git("rebase", "-q", self.drawn.choice(("main", "side")))

    def do_stash(self):
        self.git("stash", *self.drawn.choice((("-q",), ("-q", "-u"), ("pop", "-q"))))

    def do_reset(self):
        self.git(
            "reset", "-q", self.drawn.choice(("--hard", "--mixed", "--soft")), self.drawn.choice(("HEAD", "HEAD~1"))
        )

    def do_remove(self):
        self.git("rm", "-q", "--cached", self.drawn.choice(NAMES))

    def do_ignore(self):
        self.clear(self.folder / ".gitignore")
        (self.folder / ".gitignore").write_text(
            self.drawn.choice((FILES[".gitignore"], "a*\n", "pkg/\n", "*\n!*.py\n"))
        )

    def do_submodule(self):
        self.git("submodule", "--quiet", "add", "-f", str(self.other), self.drawn.choice(("sub", "pkg/sub")))

    def do_leave_submodule(self):
        self.git("submodule", "deinit", "-f", self.drawn.choice(("sub", "pkg/sub")))

    def do_enter_submodules(self):
        self.git("submodule", "--quiet", "update", "--init")

    def do_edit_submodule(self):
        for name in ("sub", "pkg/sub"):
            if (self.folder / name / ".git").exists():
                write(self.folder / name, {self.drawn.choice(("m.py", "p.py", "n/q.o")): str(self.drawn.random())})

    def do_commit_in_submodule(self):
        if (self.folder / "sub" / ".git").exists():
            git(self.folder / "sub", "add", "-A")
            git(self.folder / "sub", "commit", "-qm", "more", fails=None)

    def do_worktree(self):
        self.serial += 1
        place = self.drawn.choice((self.folder, self.folder.parent)) / f"tree{self.serial}"
        self.git("worktree", "add", "-q", "--detach", str(place))
        if place.exists():
            Listed(place).check()

    def do_assume(self):
        """Mark a file, or take a mark back: git does not notice an edit of the same size and second that was made meanwhile."""
        how, path = self.drawn.choice(("assume-unchanged", "skip-worktree")), self.drawn.choice(("a.py", "pkg/c.py"))
        self.serial += 1
        if os.path.isfile(self.folder / path) and not os.path.islink(self.folder / path):
            os.utime(self.folder / path, (0, self.serial))
        self.git("update-index", f"--{self.drawn.choice(('', 'no-'))}{how}", path)

    def do_sparse(self):
        self.git("sparse-checkout", *self.drawn.choice((("set", "pkg"), ("set", "made"), ("disable",))))

    def do_refresh(self):
        self.git("status")


def run(folder, seed, count):
    folder.mkdir()
    drawn = random.Random(seed)
    deeds = Deeds(make_repository(folder / "project", FILES), drawn)
    listed = Listed(deeds.folder)
    done = []
    for _ in range(count):
        name = drawn.choice(deeds.names)
        done.append(name)
        getattr(deeds, f"do_{name}")()
        try:
            listed.check()
        except AssertionError as error:
            raise AssertionError(f"after {done[-8:]}: {error}") from error


def test_a_listing_is_true_after_a_few_operations(tmp_path):
    run(tmp_path / "0", 0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_a_listing_is_true_after_any_operations(tmp_path, seed):
    run(tmp_path / str(seed), seed, 60)
