"""Two clones with a linked worktree each, and git doing whatever it does, in any order, beside journals that are written.

Nobody edits a file by hand here. So whatever git brings into a working tree, no journal may ever hold a version that no
mutation made; nothing that was written may go; and once git has done there are no marks of a conflict in our files. Entity
files are tracked by git or not. ``PERIPLUS_GIT_SEED`` chooses other histories.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from periplus.base.errors import UsageError
from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.carriers import open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.state.entity import Entity
from periplus.memory import Memory
from periplus.project import Project
from support import WRITER

SEED = int(os.environ.get("PERIPLUS_GIT_SEED", "20260131"))
STEPS = 45
MARKS = (b"<<<<<<< ", b"\n=======\n", b">>>>>>> ")
UNKNOWN = {  # told, and left alone until it is known
    "it shows a conflict between versions that are not held here",
    "its version has no known relation to those held here: it may be older or newer",
}
SETTINGS = ["user.name=Ada", "user.email=ada@example.org", "commit.gpgsign=false", "protocol.file.allow=always",
            "core.hooksPath=/dev/null", "init.defaultBranch=main", "advice.detachedHead=false"]  # fmt: skip


class Clone:
    """A working copy: its folder, its store, the branches it knows, the actions that random histories are made of."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.project = Project.open(os.fspath(folder), WRITER)
        self.journal = self.project.journal
        self.commits = 0

    def git(self, *words: str) -> bool:
        """Whether it succeeded: git refuses much of what is tried, and that is as it should be."""
        environment = {**os.environ, "GIT_EDITOR": "true", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        given = [part for setting in SETTINGS for part in ("-c", setting)]
        done = subprocess.run(
            ["git", *given, *words], cwd=self.folder, capture_output=True, env=environment, timeout=60
        )
        return done.returncode == 0

    # -- what happens ----------------------------------------------------------------------------------------------------

    def held(self, world: World) -> list[Entity]:
        """In the order in which they were written first: ids are others in each run."""
        order = {item_id: number for number, item_id in enumerate(dict.fromkeys(world.written.values()))}
        return sorted(self.journal.entities("decision"), key=lambda entity: order[entity.item_id])

    def write(self, world: World) -> None:
        number = len(world.written)
        held = self.held(world)
        if not held or self.chance.random() < 0.3:
            entity = self.project.remember(Memory("decision", f"text {number}")).entity
            world.written[entity.version] = entity.item_id
            return
        entity = self.chance.choice(held)
        field = self.chance.choice(("text", "rationale"))
        try:
            receipt = self.journal.mutate(
                lambda t: t.put("decision", entity.item_id, {**entity.value, field: f"{field} {number}"}), WRITER
            )
        except UsageError:  # a merged view that the type refuses, until somebody settles it
            return
        world.written[receipt.versions[0]] = entity.item_id

    def delete(self, world: World) -> None:
        held = self.held(world)
        if len(held) > 2:
            entity = self.chance.choice(held)
            receipt = self.journal.mutate(lambda t: t.delete("decision", entity.item_id), WRITER)
            world.written[receipt.versions[0]] = entity.item_id

    def commit(self, _: World) -> None:
        self.commits += 1
        (self.folder / f"code{self.chance.randrange(3)}.py").write_text(f"a = {self.commits}\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"{self.commits}")

    def branch(self, _: World) -> None:
        name = self.chance.choice(("main", "side", "other"))
        force = ["-f"] if self.chance.random() < 0.5 else []
        self.git("checkout", "-q", *force, name) or self.git("checkout", "-q", *force, "-b", name)

    def old_commit(self, _: World) -> None:
        self.git("checkout", "-q", "-f", f"HEAD~{self.chance.randrange(1, 4)}")

    def old_files(self, _: World) -> None:
        self.git("checkout", "-q", f"HEAD~{self.chance.randrange(1, 4)}", "--", ".periplus/entities")

    def stash(self, _: World) -> None:
        self.git("stash", "-q", *(["-u"] if self.chance.random() < 0.3 else []))

    def unstash(self, world: World) -> None:
        if not self.git("stash", "pop", "-q"):
            self.settle(world)

    def merge(self, world: World) -> None:
        self.begin(world, "merge", "--no-edit", self.chance.choice(("main", "side", "other")))

    def rebase(self, world: World) -> None:
        self.begin(world, "rebase", self.chance.choice(("main", "side", "other")))

    def cherry_pick(self, world: World) -> None:
        self.begin(world, "cherry-pick", self.chance.choice(("main", "side", "other")))

    def pull(self, world: World) -> None:
        other = world.clones[1] if self is world.clones[0] else world.clones[0]
        way = self.chance.choice(("--ff-only", "--no-rebase", "--rebase"))
        self.begin(world, "pull", "-q", "--no-edit", way, os.fspath(other.folder), self.chance.choice(("main", "side")))

    def reset(self, _: World) -> None:
        self.git("reset", "-q", "--hard", f"HEAD~{self.chance.randrange(3)}")

    def worktree(self, _: World) -> None:
        place = os.fspath(self.folder.parent / f"{self.folder.name}-linked")
        if not os.path.isdir(place):
            self.git("worktree", "add", "-q", "--detach", place, f"HEAD~{self.chance.randrange(3)}")
        elif self.chance.random() < 0.3:
            self.git("worktree", "remove", "--force", place)
        else:
            self.git("-C", place, "checkout", "-q", "-f", "--detach", self.chance.choice(("main", "side", "other")))

    def exchange(self, world: World) -> None:
        assert sync(self.journal, open_folder(os.fspath(world.hub), Files())).refusals == []

    # -- when git stands in the middle of something ------------------------------------------------------------------------

    def begin(self, world: World, *words: str) -> None:
        """What git may end with a conflict: then we look, write and look again before anybody goes on."""
        if self.git(*words) or not self.is_in_the_middle():
            return
        world.middles += 1
        before = self.files()
        self.write(world)
        assert self.project.look().waits
        assert self.files() == before, "while git has not done its files are left alone"
        self.settle(world)

    def is_in_the_middle(self) -> bool:
        names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
        return any((self.folder / ".git" / name).exists() for name in names)

    def settle(self, _: World) -> None:
        """Give up, or take one side of everything and go on."""
        if self.chance.random() < 0.6:
            side = self.chance.choice(("--ours", "--theirs"))
            for _ in range(12):
                if not self.git("checkout", side, "--", "."):
                    break  # one side has removed a file: nobody commits what is left then
                self.git("add", "-A")
                if not self.is_in_the_middle():
                    return
                for what in ("merge", "rebase", "cherry-pick"):
                    self.git(what, "--continue")
        for what in ("merge", "rebase", "cherry-pick"):
            self.git(what, "--abort")
        self.git("reset", "-q", "--hard")
        assert not self.is_in_the_middle()

    def files(self) -> dict[str, bytes]:
        root = self.folder / ".periplus" / "entities"
        return {os.fspath(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*.json"))}

    def versions(self) -> dict[str, str]:
        """``{version: action}`` of all records that say what an entity is, of every lineage held."""
        found = {}
        for lineage in self.journal.lineages():
            for _, entry in self.journal.entries(lineage):
                if entry.record.item_type == "decision":
                    found[world_version(entry.record)] = entry.record.action
        return found


def world_version(record) -> str:
    from periplus.journal.records.record import version_id

    return version_id(record.item_type, record.item_id, deleted=bool(record.deleted), payload=record.payload or None,
                      parents=record.parents)  # fmt: skip


class World:
    """The two clones, the folder that they exchange records by, and what was ever written: ``{version: entity}``."""

    def __init__(self, folder: Path, seed: str, *, is_tracked: bool) -> None:
        self.chance = random.Random(seed)
        self.written: dict[str, str] = {}
        self.shown: set[str] = set()  # merged from several heads: what a file with them says is a version, too
        self.middles = 0
        self.done: list[str] = []
        self.hub = folder / "hub"
        one, two = folder / "one", folder / "two"
        one.mkdir()
        Project.init(os.fspath(one))
        if not is_tracked:
            (one / ".periplus" / ".gitignore").write_text("*\n!.gitignore\n!config.toml\n")
        self.clones = [Clone(one, self.chance)]
        self.clones[0].git("init", "-q", "-b", "main")
        for _ in range(3):
            self.clones[0].write(self)
            self.clones[0].commit(self)
        assert self.clones[0].git("clone", "-q", os.fspath(one), os.fspath(two))
        self.clones.append(Clone(two, self.chance))
        self.is_tracked = is_tracked

    def step(self) -> None:
        clone = self.chance.choice(self.clones)
        deeds = [*[clone.write] * 7, clone.delete, clone.commit, clone.commit, clone.commit, clone.branch,
                 clone.branch, clone.old_commit, clone.old_files, clone.stash, clone.unstash, clone.merge, clone.merge,
                 clone.rebase, clone.cherry_pick, clone.pull, clone.pull, clone.reset, clone.worktree, clone.exchange]  # fmt: skip
        deed = self.chance.choice(deeds)
        self.done.append(f"{clone.folder.name} {deed.__name__}")
        held = set(clone.versions())
        deed(self)
        self.check(clone, held)

    def check(self, clone: Clone, held: set[str]) -> None:
        found = clone.project.look(everywhere=self.chance.random() < 0.3)
        assert found.edited == (), "nobody edited a file"
        assert {one.what for one in found.left} <= UNKNOWN, "what git brought can be read"
        assert found.waits == ()
        now = clone.versions()
        assert held <= now.keys(), "what was held is held"
        assert now.keys() <= self.written.keys() | self.shown, "a version that nobody wrote"
        self.shown |= {entity.version for entity in clone.journal.entities("decision")}
        assert set(now.values()) <= {"create", "update", "delete", "import"}
        assert self.is_tracked or "import" not in now.values(), "nothing comes by git where it does not have the files"
        shown = {entity.item_id for entity in clone.journal.entities("decision")}
        files = clone.files()
        left = {Path(one.path).stem for one in found.left}
        assert {Path(name).stem for name in files if name.startswith("decision/")} - left == shown - left
        for name, data in files.items():
            assert not any(mark in data for mark in MARKS), name
        again = clone.project.look()
        assert (again.adopted, again.edited, again.rewritten) == ((), (), 0), "a second look has nothing to do"

    def end(self) -> None:
        for clone in (*self.clones, *self.clones):
            clone.exchange(self)
        for clone in self.clones:
            clone.project.look()
            clone.journal.project()
            assert clone.versions().keys() >= self.written.keys(), "what was written in either is in both"
            assert "error" not in {problem.severity for problem in examine(clone.journal).problems}
        one, two = self.clones
        assert one.files() == two.files()
        for clone in self.clones:
            clone.project.close()


def run(folder: Path, seed: str, *, is_tracked: bool) -> World:
    world = World(folder, seed, is_tracked=is_tracked)
    try:
        for _ in range(STEPS):
            world.step()
        world.end()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, tracked {is_tracked}, after {world.done}") from error
    return world


@pytest.mark.slow
@pytest.mark.parametrize("is_tracked", [True, False], ids=["tracked", "not tracked"])
def test_whatever_git_does_no_edit_is_invented_and_nothing_lost(tmp_path, is_tracked):
    run(tmp_path, f"{SEED}", is_tracked=is_tracked)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("is_tracked", [True, False], ids=["tracked", "not tracked"])
def test_many_histories_with_git(tmp_path, number, is_tracked):
    run(tmp_path, f"{SEED} {number}", is_tracked=is_tracked)
