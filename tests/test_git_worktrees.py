"""Entity files under real git: clones, branches, worktrees, merges, rebases, stashes. No false edits, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_support import Shell, claude_session, shared_project
from periplus.base.filesystem.git_files import sparse_state
from periplus.journal.care.doctor import examine
from periplus.journal.projections.external_edits import ADOPTED
from periplus.journal.projections.git_state import read_git
from periplus.memory import Memory
from periplus.project import Project
from support import WRITER

MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>")


def git(folder, *arguments, fails=False):
    settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    settings += ["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "core.hooksPath=/dev/null"]
    environment = {**os.environ, "GIT_EDITOR": "true", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def run(*words, cwd):
    return Shell(cwd, Path(cwd).parent)(*words)


class Clone:
    """A working copy with its store open."""

    def __init__(self, folder):
        self.folder = Path(folder)
        if not (self.folder / ".periplus").exists():
            Project.init(str(folder))
        self.project = Project.open(str(folder), WRITER)
        self.journal = self.project.journal

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.project.close()

    def git(self, *arguments, fails=False):
        return git(self.folder, *arguments, fails=fails)

    def commit(self, message="More", *paths):
        self.git("add", *(paths or ("-A",)))
        self.git("commit", "-q", "-m", message)

    def decide(self, text):
        return self.project.remember(Memory("decision", text)).entity

    def change(self, entity, **fields):
        def write(transaction):
            held = transaction.get("decision", entity.item_id)
            transaction.put("decision", entity.item_id, {**held.value, **fields})

        self.journal.mutate(write, WRITER)

    def file(self, entity, at=None):
        return Path(at or self.folder, ".periplus", "entities", "decision", f"{entity.item_id}.json")

    def edit(self, entity, old, new, at=None):
        path = self.file(entity, at)
        data = path.read_text()
        assert old in data
        path.write_text(data.replace(old, new))

    def look(self, **more):
        found = self.project.look(**more)
        for path in self.folder.rglob(".periplus/entities/**/*.json"):
            assert not any(marker in path.read_bytes() for marker in MARKERS) or str(path) in {
                left.path for left in found.left
            } | ({str(path)} if found.waits else set())
        return found

    def text(self, entity):
        held = self.journal.get("decision", entity.item_id)
        return None if held is None else held.value["text"]

    def records(self):
        return [entry.record for _, entry in self.journal.entries(self.journal.lineage)] if self.journal.lineage else []

    def state(self):
        return {path: path.read_bytes() for path in sorted(self.folder.rglob(".periplus/entities/**/*.json"))}


@pytest.fixture
def origin(tmp_path):
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("a = 1\n")
    with Clone(folder) as clone:
        clone.commit("Begin")
        yield clone


def cloned(origin, tmp_path, name="clone"):
    git(tmp_path, "clone", "-q", str(origin.folder), name)
    return Clone(tmp_path / name)


def unchanged(found):
    return (found.adopted, found.edited, found.left, found.waits) == ((), (), (), ())


# -- a fresh clone -----------------------------------------------------------------------------------------------------


def test_a_fresh_clone_knows_what_its_files_say(origin, tmp_path):
    entity = origin.decide("Passwords are hashed with argon2id")
    origin.change(entity, rationale="it is slow on purpose")
    origin.commit()
    git(tmp_path, "clone", "-q", str(origin.folder), "fresh")
    fresh = tmp_path / "fresh"
    assert "argon2id" in run("recall", "how are passwords hashed", cwd=fresh).out
    assert git(fresh, "status", "--porcelain") == ""
    with Clone(fresh) as clone:
        held = clone.journal.get("decision", entity.item_id)
        assert held.version == origin.journal.get("decision", entity.item_id).version
        (record,) = clone.records()
        assert (record.action, record.writer, record.writer_id) == ("import", ADOPTED.name, "")
        assert examine(clone.journal).exit_code == 0
        clone.change(entity, rationale="measured")
        clone.commit("Ours")
        (only,) = clone.journal.heads_of("decision", entity.item_id)
        assert only.parents == (held.version,)


def test_where_the_files_are_not_tracked_a_fresh_clone_begins_empty(origin, tmp_path):
    (origin.folder / ".periplus" / ".gitignore").write_text("*\n!.gitignore\n!config.toml\n")
    origin.commit("No entities")
    entity = origin.decide("Kept here alone")
    assert origin.git("status", "--porcelain") == ""
    with cloned(origin, tmp_path) as clone:
        assert unchanged(clone.look())
        assert clone.text(entity) is None
        assert clone.records() == []
    origin.git("checkout", "-q", "-b", "other")
    origin.git("clean", "-fdxq", "-e", ".periplus/journal", "-e", ".periplus/objects", "-e", ".periplus/index.sqlite*")
    origin.look()
    assert origin.file(entity).exists()
    assert len(origin.records()) == 1


def test_a_pull_brings_the_next_versions(origin, tmp_path):
    entity = origin.decide("Version 0")
    origin.commit()
    with cloned(origin, tmp_path) as clone:
        clone.look()
        for number in (1, 2):
            origin.change(entity, text=f"Version {number}")
            origin.commit()
            clone.git("pull", "-q", "--ff-only")
            (one,) = clone.look().adopted
            assert one.version == origin.journal.get("decision", entity.item_id).version
            assert clone.text(entity) == f"Version {number}"
        assert clone.git("status", "--porcelain") == ""
        assert not clone.journal.get("decision", entity.item_id).is_in_conflict
        assert unchanged(clone.look())


@pytest.mark.slow
def test_a_pull_over_versions_that_were_never_seen_is_no_conflict(origin, tmp_path):
    """The records of the versions between are in the origin's journal, which nobody has brought here."""
    entity = origin.decide("Version 0")
    origin.commit()
    with cloned(origin, tmp_path) as clone:
        clone.look()
        for way in (["--ff-only"], ["--rebase"], ["--no-rebase", "--no-edit"]):
            for _ in range(3):
                origin.change(entity, text=f"Version {len(origin.records())}")
                origin.commit()
            if way != ["--ff-only"]:
                (clone.folder / f"ours{way[0]}").write_text("x")
                clone.commit("Ours", f"ours{way[0]}")
            clone.git("pull", "-q", *way)
            (one,) = clone.look().adopted
            assert one.version == origin.journal.get("decision", entity.item_id).version
            held = clone.journal.get("decision", entity.item_id)
            assert (held.heads, held.value["text"]) == ((one.version,), origin.text(entity))
            assert clone.git("status", "--porcelain", "--untracked-files=no") == ""
        assert [len(record.after) for record in clone.records()] == [0, 1, 1, 1]
        count = len(clone.records())
        for commit in ("HEAD~1", "HEAD~3", "HEAD~5"):
            clone.git("checkout", "-q", "-f", commit)
            found = clone.look()
            assert (found.adopted, found.edited) == ((), ())
            assert clone.text(entity) == origin.text(entity)
        clone.git("checkout", "-q", "-f", "main")
        assert unchanged(clone.look())
        assert len(clone.records()) == count
        assert examine(clone.journal).exit_code == 0


def test_what_git_did_not_bring_by_going_forward_is_shown_beside_ours(origin, tmp_path):
    entity = origin.decide("Version 0")
    origin.commit()
    with cloned(origin, tmp_path) as clone:
        clone.look()
        for number in (1, 2):
            origin.change(entity, text=f"Version {number}")
            origin.commit()
        clone.git("fetch", "-q")
        clone.git("reset", "-q", "--hard", "origin/main")
        (one,) = clone.look().adopted
        heads = {head.version for head in clone.journal.heads_of("decision", entity.item_id)}
        assert heads == {one.version, entity.version}


# -- going back and forth in one clone ---------------------------------------------------------------------------------


@pytest.fixture
def versions(origin):
    """Three commits with three versions of one entity, and another entity from the second on."""
    entity = origin.decide("Version 0")
    origin.commit("0")
    origin.change(entity, text="Version 1")
    other = origin.decide("Another")
    origin.commit("1")
    origin.change(entity, text="Version 2")
    origin.commit("2")
    return entity, other


JOURNEYS = {
    "an old commit": [("checkout", "-q", "HEAD~1")],
    "before the entity": [("checkout", "-q", "HEAD~2")],
    "before all": [("checkout", "-q", "HEAD~3")],
    "a file of an old commit": [("checkout", "HEAD~2", "--", ".periplus/entities")],
    "reset": [("reset", "-q", "--hard", "HEAD~2")],
    "revert": [("revert", "--no-edit", "HEAD")],
    "removed": [("rm", "-qr", ".periplus/entities")],
}


@pytest.mark.parametrize("name", JOURNEYS)
def test_old_commits_bring_no_edits_and_the_files_come_up_to_date(origin, versions, name):
    entity, other = versions
    now, count = origin.state(), len(origin.records())
    for arguments in JOURNEYS[name]:
        origin.git(*arguments)
    found = origin.look()
    assert unchanged(found)
    assert found.rewritten
    assert origin.state() == now
    assert (origin.text(entity), origin.text(other)) == ("Version 2", "Another")
    assert len(origin.records()) == count
    origin.git("checkout", "-q", "-f", "main")
    assert unchanged(origin.look())
    assert len(origin.records()) == count


def test_a_stash_and_its_return_bring_no_edits(origin, versions):
    entity, _ = versions
    origin.change(entity, text="Version 3")
    count = len(origin.records())
    origin.git("stash", "-q")
    assert b"Version 2" in origin.file(entity).read_bytes()
    assert unchanged(origin.look())
    assert b"Version 3" in origin.file(entity).read_bytes()
    origin.git("checkout", "-q", "--", ".")
    origin.git("stash", "pop", "-q")
    assert unchanged(origin.look())
    assert origin.text(entity) == "Version 3"
    assert len(origin.records()) == count


def test_a_stashed_edit_is_taken_in_when_it_comes_back(origin, versions):
    entity, _ = versions
    origin.edit(entity, "Version 2", "By hand")
    origin.git("stash", "-q")
    assert unchanged(origin.look())
    origin.git("stash", "pop", "-q")
    assert len(origin.look().edited) == 1
    assert origin.text(entity) == "By hand"


def test_a_rebase_of_entity_commits_brings_no_edits(origin, versions):
    entity, other = versions
    origin.git("checkout", "-q", "-b", "side", "HEAD~1")
    origin.look()
    origin.git("checkout", "-q", "--", ".")
    (origin.folder / "b.py").write_text("b = 1\n")
    origin.commit("Side", "b.py")
    third = origin.decide("Third")
    origin.commit("Third", str(origin.file(third)))
    origin.git("checkout", "-q", "--", ".")
    count = len(origin.records())
    origin.git("rebase", "-q", "main")
    assert unchanged(origin.look())
    assert [origin.text(one) for one in (entity, other, third)] == ["Version 2", "Another", "Third"]
    assert len(origin.records()) == count


# -- git in the middle of something ------------------------------------------------------------------------------------


def conflicting(origin):
    """Two branches that change one line of a.py, and an entity each."""
    origin.git("checkout", "-q", "-b", "side")
    (origin.folder / "a.py").write_text("a = 2\n")
    origin.commit("Side", "a.py")
    origin.git("checkout", "-q", "main")
    (origin.folder / "a.py").write_text("a = 3\n")
    origin.commit("Main", "a.py")


OPERATIONS = {
    "a merge": (("merge", "side"), ("merge", "--abort")),
    "a rebase": (("rebase", "side"), ("rebase", "--abort")),
    "a rebase or `git am`": (("rebase", "--apply", "side"), ("rebase", "--abort")),
    "a cherry-pick": (("cherry-pick", "side"), ("cherry-pick", "--abort")),
    "a revert": (("revert", "--no-edit", "HEAD~1"), ("revert", "--abort")),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_while_git_is_in_the_middle_of_something_the_files_stay(origin, versions, name):
    entity, _ = versions
    conflicting(origin)
    (origin.folder / "a.py").write_text("a = 4\n")
    origin.commit("Again", "a.py")
    begin, abort = OPERATIONS[name]
    origin.git(*begin, fails=True)
    before, count = origin.state(), len(origin.records())
    new = origin.decide("While it merges")
    origin.change(entity, text="Version 3")
    assert origin.state() == before
    (reason,) = origin.look().waits
    assert name in reason
    assert origin.text(entity) == "Version 3"
    assert origin.text(new) == "While it merges"
    assert "git has" in run("status", cwd=origin.folder).out
    assert [p.severity for p in examine(origin.journal).problems if p.path.endswith(".json")] == ["note", "note"]
    origin.git(*abort)
    assert unchanged(origin.look())
    assert b"Version 3" in origin.file(entity).read_bytes()
    assert origin.file(new).exists()
    assert len(origin.records()) == count + 2
    assert examine(origin.journal).problems == []


def test_between_two_of_a_series_of_cherry_picks_the_files_wait(origin, versions):
    """The first is committed by hand: nothing but the list of what is to follow says that git is not done."""
    entity, _ = versions
    conflicting(origin)
    origin.git("checkout", "-q", "side")
    (origin.folder / "b.py").write_text("b = 1\n")
    origin.commit("Side again", "b.py")
    origin.git("checkout", "-q", "main")
    origin.git("cherry-pick", "side~1", "side", fails=True)
    (origin.folder / "a.py").write_text("a = 5\n")
    origin.commit("Both", "a.py")
    assert not (origin.folder / ".git" / "CHERRY_PICK_HEAD").exists()
    before = origin.state()
    origin.change(entity, text="Version 3")
    assert origin.state() == before
    (reason,) = origin.look().waits
    assert "a series of cherry-picks or reverts" in reason
    origin.git("cherry-pick", "--continue")
    assert unchanged(origin.look())
    assert b"Version 3" in origin.file(entity).read_bytes()


def test_a_bisect_and_a_held_index_make_the_files_wait(origin, versions):
    entity, _ = versions
    origin.git("bisect", "start", "HEAD", "HEAD~3")
    before = origin.state()
    assert "a bisect" in origin.look().waits[0]
    assert origin.state() == before
    origin.git("bisect", "reset")
    lock = origin.folder / ".git" / "index.lock"
    lock.touch()
    origin.change(entity, text="Version 3")
    assert "index.lock" in origin.look().waits[0]
    assert b"Version 3" not in origin.file(entity).read_bytes()
    lock.unlink()
    assert unchanged(origin.look())
    assert b"Version 3" in origin.file(entity).read_bytes()


# -- two clones that part ----------------------------------------------------------------------------------------------


def test_merging_what_two_clones_added_needs_nobody(origin, tmp_path):
    with cloned(origin, tmp_path) as clone:
        ours, theirs = origin.decide("From origin"), clone.decide("From the clone")
        origin.commit()
        clone.commit()
        clone.git("pull", "-q", "--no-rebase", "--no-edit")
        (one,) = clone.look().adopted
        assert (one.item_id, clone.text(ours), clone.text(theirs)) == (ours.item_id, "From origin", "From the clone")
        assert clone.git("status", "--porcelain") == ""
        origin.git("pull", "-q", str(clone.folder), "main")
        assert [one.item_id for one in origin.look().adopted] == [theirs.item_id]
        assert list(map(contents, origin.state().values())) == list(map(contents, clone.state().values()))


def contents(data):
    return json.loads(data)


@pytest.fixture
def parted(origin, tmp_path):
    """Two clones that changed the text of one entity, and a merge in the second that git cannot do."""
    entity = origin.decide("At first")
    origin.commit()
    with cloned(origin, tmp_path) as clone:
        clone.look()
        origin.change(entity, text="As origin says")
        origin.commit()
        clone.change(entity, text="As the clone says")
        clone.commit()
        clone.git("pull", "-q", "--no-rebase", "--no-edit", fails=True)
        assert b"<<<<<<<" in clone.file(entity).read_bytes()
        yield clone, entity


def test_a_textual_conflict_is_left_to_whoever_merges(parted):
    clone, entity = parted
    data = clone.file(entity).read_bytes()
    assert "a merge" in clone.look().waits[0]
    assert clone.file(entity).read_bytes() == data
    assert clone.text(entity) == "As the clone says"
    clone.git("commit", "-q", "-a", "-m", "With the markers in it")
    (left,) = clone.look().left
    assert "conflict markers" in left.what
    assert clone.file(entity).read_bytes() == data
    assert clone.text(entity) == "As the clone says"


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_conflict_resolved_by_one_side_gives_that_side(parted, origin, side):
    clone, entity = parted
    clone.git("checkout", f"--{side}", "--", ".periplus/entities")
    clone.commit("Merged")
    found = clone.look()
    assert (found.edited, found.left) == ((), ())
    versions = {head.version for head in clone.journal.heads_of("decision", entity.item_id)}
    if side == "ours":
        assert clone.text(entity) == "As the clone says"
    else:
        assert origin.journal.get("decision", entity.item_id).version in versions
        assert len(versions) == 2, "what the clone said is not lost"
    assert unchanged(clone.look())


def test_a_conflict_resolved_by_hand_is_an_edit(parted, origin):
    clone, entity = parted
    clone.git("checkout", "--theirs", "--", ".periplus/entities")
    clone.edit(entity, "As origin says", "As both say")
    clone.commit("Merged")
    (one,) = clone.look().edited
    (record,) = [record for record in clone.records() if record.action == "external_edit"]
    assert record.parents == (origin.journal.get("decision", entity.item_id).version,)
    assert one.version in {head.version for head in clone.journal.heads_of("decision", entity.item_id)}
    assert unchanged(clone.look())


def test_an_edit_that_was_committed_raw_is_one_version_in_every_clone(origin, tmp_path):
    entity = origin.decide("At first")
    origin.commit()
    with cloned(origin, tmp_path) as clone:
        clone.look()
        origin.edit(entity, "At first", "By hand")
        origin.commit("Edited")
        clone.git("pull", "-q", "--ff-only")
        (there,), (here,) = clone.look().edited, origin.look().edited
        assert (there.item_id, there.version) == (here.item_id, here.version)
        assert clone.text(entity) == origin.text(entity) == "By hand"


# -- linked worktrees --------------------------------------------------------------------------------------------------


@pytest.fixture
def linked(origin, versions, tmp_path):
    folder = tmp_path / "a linked one"
    origin.git("worktree", "add", "-q", "-b", "linked", str(folder), "HEAD~1")
    return folder


def test_linked_worktrees_are_found_without_git(origin, linked, tmp_path):
    found = read_git(origin.project.root)
    assert found.main.folder == str(origin.folder)
    assert [one.folder for one in found.linked] == [str(linked)]
    moved = tmp_path / "moved"
    linked.rename(moved)
    assert read_git(origin.project.root).linked == ()  # until `git worktree repair`
    assert read_git("/nowhere/.periplus") is None


def test_an_edit_in_a_linked_worktree_is_taken_in_and_its_file_is_not_written(origin, versions, linked):
    entity, other = versions
    origin.edit(other, "Another", "From beside", at=linked)
    there = origin.file(other, linked).read_bytes()
    assert unchanged(origin.look()), "looked at only from within, or by status"
    (one,) = origin.look(everywhere=True).edited
    assert one.path == str(origin.file(other, linked))
    assert origin.text(other) == "From beside"
    assert b"From beside" in origin.file(other).read_bytes()
    assert origin.file(other, linked).read_bytes() == there
    count = len(origin.records())
    assert unchanged(origin.look(everywhere=True))
    assert len(origin.records()) == count
    assert b"Version 1" in origin.file(entity, linked).read_bytes(), "an old version there is as it should be"
    path = origin.file(other, linked).relative_to(linked)
    assert origin.git("-C", str(linked), "status", "--porcelain").split() == ["M", str(path)]


def test_a_command_run_in_a_linked_worktree_looks_at_its_files(origin, versions, linked):
    _, other = versions
    origin.edit(other, "Another", "Seen from within", at=linked)
    (linked / "deeper").mkdir()
    assert "Seen from within" in run("recall", "seen from within", cwd=linked / "deeper").out
    origin.journal.refresh()
    assert origin.text(other) == "Seen from within"


def test_a_linked_worktree_in_a_merge_is_not_looked_at(origin, versions, linked):
    _, other = versions
    origin.edit(other, "Another", "Half merged", at=linked)
    git_folder = origin.folder / ".git" / "worktrees" / linked.name.replace(" ", "-")
    if not git_folder.exists():
        (git_folder,) = (origin.folder / ".git" / "worktrees").iterdir()
    (git_folder / "MERGE_HEAD").write_text("0" * 40 + "\n")
    found = origin.look(everywhere=True)
    assert (found.edited, len(found.waits)) == ((), 1)
    assert str(linked) in found.waits[0]
    (git_folder / "MERGE_HEAD").unlink()
    assert len(origin.look(everywhere=True).edited) == 1


def test_a_removed_worktree_leaves_nothing_behind(origin, versions, linked):
    origin.look(everywhere=True)
    origin.git("worktree", "remove", "--force", str(linked))
    assert unchanged(origin.look(everywhere=True))
    assert origin.journal.index.looked_at() == {}


def test_a_store_in_a_folder_of_the_repository_has_its_linked_files_in_the_same_folder(origin, tmp_path):
    inner = origin.folder / "inner"
    inner.mkdir()
    Project.init(str(origin.folder), store=str(inner))
    with Project(str(inner / ".periplus"), WRITER) as project:
        entity = project.remember(Memory("decision", "Of the inner store")).entity
        origin.commit("Inner")
        origin.git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
        path = tmp_path / "w" / "inner" / ".periplus" / "entities" / "decision" / f"{entity.item_id}.json"
        path.write_text(path.read_text().replace("Of the inner store", "Changed"))
        (one,) = project.look(everywhere=True).edited
        assert one.path == str(path)


def test_a_worktree_whose_clone_was_moved_makes_no_store_of_its_own(origin, linked, tmp_path):
    entity = origin.decide("Passwords are hashed with argon2id")
    held = sorted(linked.rglob("*"))
    moved = tmp_path / "moved"
    origin.folder.rename(moved)
    shell = Shell(linked, tmp_path)
    for words in [("remember", "Kept beside"), ("recall", "passwords"), ("init",), ("status",), ("doctor",)]:
        done = shell.fails(*words, code=2, wrong="the clone of this worktree was moved or removed")
        assert "Nothing was changed. Run `git worktree repair`" in done.err
    event = json.dumps({"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(linked)})
    assert shell("hook", "SessionStart", stdin=event) == (0, "", "")
    assert sorted(linked.rglob("*")) == held
    assert "argon2id" in shell("recall", "passwords", "--store", moved).out
    git(moved, "worktree", "repair")
    assert entity.item_id in shell("recall", "passwords").out


def test_a_journal_in_a_linked_worktree_is_told_until_it_was_brought(origin, linked, tmp_path):
    stray = tmp_path / "stray"
    shutil.copytree(linked, stray, ignore=lambda _folder, names: [name for name in names if name == ".git"])
    Shell(stray, tmp_path)("remember", "Kept beside")  # as if there were no clone
    shutil.copytree(stray / ".periplus" / "journal", linked / ".periplus" / "journal")
    main = Shell(origin.folder, tmp_path)
    main("recall", "beside", code=1)
    [problem] = [one for one in main.json("doctor", code=1).problems if "linked worktree" in one.what]
    assert problem.path == str(linked / ".periplus" / "journal")
    assert problem.next == f"`periplus sync --with '{linked}'` brings it here."
    main("sync", "--with", linked)
    assert "Kept beside" in main("recall", "beside").out
    assert main.json("doctor").problems == []


def test_a_submodule_has_a_store_of_its_own(origin, tmp_path):
    git(tmp_path, "init", "-q", "whole")
    whole = tmp_path / "whole"
    git(whole, "submodule", "--quiet", "add", str(origin.folder), "part")
    assert (whole / "part" / ".git").is_file()
    shell = Shell(whole / "part", tmp_path)
    shell("remember", "Kept in the part")
    assert shell.json("status").root == str(whole / "part" / ".periplus")


def test_a_linked_worktree_of_a_repository_kept_elsewhere_makes_no_second_store(tmp_path):
    """Git does not record where the main worktree of such a repository is."""
    git(tmp_path, "init", "-q", "-b", "main", f"--separate-git-dir={tmp_path / 'store.git'}", "main")
    main, linked = Shell(tmp_path / "main", tmp_path), Shell(tmp_path / "linked", tmp_path)
    main("init")
    main("remember", "Passwords are hashed with argon2id")
    git(main.folder, "add", "-A")
    git(main.folder, "commit", "-q", "-m", "Begin")
    git(main.folder, "worktree", "add", "-q", str(linked.folder))
    for words in [("recall", "passwords"), ("init",), ("remember", "Kept beside")]:
        done = linked.fails(*words, code=2, wrong="store.git does not name its main worktree")
        assert 'Nothing was changed. Run `git config core.worktree "$PWD"` in the main worktree' in done.err
    event = json.dumps({"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(linked.folder)})
    assert linked("hook", "SessionStart", stdin=event) == (0, "", "")
    assert not (tmp_path / "store.git" / ".periplus").exists()
    assert "argon2id" in linked("recall", "passwords", "--store", main.folder).out
    git(main.folder, "config", "core.worktree", str(main.folder))
    assert "argon2id" in linked("recall", "passwords").out
    assert linked("init").lines[0] == f"Found the store {main.folder / '.periplus'}"
    main.folder.rename(tmp_path / "moved")
    linked.fails("recall", "passwords", code=2, wrong=f"main worktree {main.folder}, which does not exist")


def test_a_store_that_was_made_in_the_git_folder_is_found_still_and_told_where_it_is_a_second_one(tmp_path):
    common = tmp_path / "store.git"
    git(tmp_path, "init", "-q", "-b", "main", f"--separate-git-dir={common}", "main")
    main, linked = Shell(tmp_path / "main", tmp_path), Shell(tmp_path / "linked", tmp_path)
    main("init")
    main("remember", "Kept in the main one")
    git(main.folder, "commit", "-q", "--allow-empty", "-m", "Begin")
    git(main.folder, "worktree", "add", "-q", str(linked.folder))
    git(main.folder, "config", "core.worktree", str(main.folder))
    Shell(main.folder, tmp_path)("init", "--store", common / ".periplus")
    linked("remember", "Kept in the git folder")
    assert linked.json("status").root == str(common / ".periplus")
    [problem] = main.json("doctor", code=1).problems
    store = linked.json("status").store
    assert problem.what.startswith("a journal lies in the repository's git folder")
    assert problem.next == (
        f'If it was made for this project, write `joined = ["{store}"]` under [store] in config.toml. '
        f"`periplus sync --with {common}` brings it here. Then move that folder away: all worktrees lead to this one."
    )
    config = main.folder / ".periplus/config.toml"
    config.write_text(config.read_text().replace("format = 2\n", f'format = 2\njoined = ["{store}"]\n'))
    main("sync", "--with", common)
    [problem] = main.json("doctor", code=1).problems
    assert "do not see what is here" in problem.what
    (common / ".periplus").rename(tmp_path / "away")
    assert "Kept in the git folder" in linked("recall", "kept in the git folder").out
    assert "Kept in the main one" in linked("recall", "kept in the main one").out
    assert main.json("doctor").problems == []


@pytest.fixture
def beside_bare(tmp_path):
    """A folder whose ``.git`` leads to a bare repository in it, and a worktree of that."""
    folder = tmp_path / "engine"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "engine/.bare")
    (folder / ".git").write_text("gitdir: ./.bare\n")
    tree = git(folder, "hash-object", "-t", "tree", "-w", "/dev/null").strip()
    git(folder, "update-ref", "refs/heads/main", git(folder, "commit-tree", tree, "-m", "Begin").strip())
    git(folder, "worktree", "add", "-q", "main", "main")
    return Shell(folder, tmp_path), Shell(folder / "main", tmp_path)


@pytest.mark.parametrize("first", [0, 1])
def test_the_folder_around_a_bare_repository_has_the_store_of_its_worktrees(beside_bare, first):
    one, other = beside_bare[first], beside_bare[1 - first]
    made = one("init").lines
    assert made[0] == f"Made the store {beside_bare[0].folder / '.bare/.periplus'}"
    assert made[1].endswith("It is shared by all worktrees and not in git. `periplus sync` copies it to other clones.")
    one("remember", "Passwords are hashed with argon2id")
    assert "argon2id" in other("recall", "passwords").out
    assert other("init").lines[0] == made[0].replace("Made", "Found")
    assert not (beside_bare[0].folder / ".periplus").exists()
    assert one.json("doctor").problems == []


def test_a_store_that_was_made_beside_a_bare_repository_is_that_of_its_worktrees(beside_bare):
    around, worktree = beside_bare
    around("init", "--store", around.folder / ".periplus")
    around("remember", "Passwords are hashed with argon2id")
    assert around.json("status").root == str(around.folder / ".periplus")
    assert "argon2id" in worktree("recall", "passwords").out
    assert worktree("init").lines[0] == f"Found the store {around.folder / '.periplus'}"
    worktree("init", "--store", around.folder / ".bare/.periplus")
    worktree("remember", "Kept within it")
    assert around.json("status").root == str(around.folder / ".periplus")
    for shell, told in [(around, "the repository's git folder"), (worktree, "the folder beside the bare repository")]:
        [problem] = shell.json("doctor", code=1).problems
        assert problem.what.startswith(f"a journal lies in {told}, which shares this store")


def test_a_linked_worktree_of_a_submodule_has_its_store(origin, tmp_path):
    git(tmp_path, "init", "-q", "whole")
    whole = tmp_path / "whole"
    git(whole, "submodule", "--quiet", "add", str(origin.folder), "part")
    part, linked = Shell(whole / "part", tmp_path), Shell(tmp_path / "linked", tmp_path)
    part("init")
    part("remember", "Kept in the part")
    git(part.folder, "worktree", "add", "-q", str(linked.folder))
    assert linked.json("status").root == str(whole / "part" / ".periplus")
    git(
        part.folder, "config", "extensions.worktreeConfig", "true"
    )  # as sparse-checkout has it, with what is the main one's own
    git(part.folder, "config", "--unset", "core.worktree")
    git(part.folder, "config", "--worktree", "core.worktree", "../../../part")
    assert "Kept in the part" in linked("recall", "kept in the part").out


# -- sparse-checkout -----------------------------------------------------------------------------------------------------


@pytest.fixture
def sparse(tmp_path):
    """A store with a decision, which has a file, and a note, in a repository with the folders ``src`` and ``docs``."""
    ada = shared_project(tmp_path, "bob")["ada"]
    for name in ("src", "docs"):
        (ada.folder / name).mkdir()
        (ada.folder / name / "a.txt").write_text("a\n")
    ada("remember", "Steam comes first", "--type", "decision")
    ada("remember", "Oil comes second", "--type", "note")
    git(ada.folder, "add", "-A")
    git(ada.folder, "commit", "-q", "-m", "Folders")
    return ada


def test_what_sparse_checkout_took_away_is_said_and_what_brings_it(sparse, tmp_path):
    shutil.copytree(sparse.folder / ".periplus", tmp_path / "copy/.periplus")
    assert sparse.json("status").sparse == ""
    git(sparse.folder, "sparse-checkout", "set", "src")
    assert not (sparse.folder / ".periplus").exists(), "git does it; else the warnings could go"
    done = sparse.fails("recall", "steam", code=2, wrong=".periplus, which git's sparse-checkout leaves out",
                        cwd=sparse.folder / "src")  # fmt: skip
    add = f"git -C {sparse.folder} sparse-checkout add .periplus"
    assert f"If it is in git, `{add}` restores it. Else make one with `periplus init`" in done.err
    git(sparse.folder / "src", *add.split()[1:])
    assert "Steam comes first" in sparse("recall", "steam").out
    assert sparse("status").lines[-2:] == [
        "git      sparse-checkout is on: if it excluded .periplus, it deleted the journal that was here. To restore it:",
        "         periplus sync --with REMOTE, another clone or a copy",
    ]
    sparse("sync", "--with", tmp_path / "copy")
    assert "Oil comes second" in sparse("recall", "oil").out
    assert "sparse-checkout" not in sparse("status").out


def test_a_store_that_sparse_checkout_would_take_away_is_told_of(sparse):
    git(sparse.folder, "sparse-checkout", "set", "src", ".periplus")
    assert sparse.json("status").sparse == "inside"
    assert sparse.json("doctor").problems == []
    (sparse.folder / ".periplus/new").write_text("what git does not ignore keeps the folder\n")
    ignored = sparse.folder / ".periplus/.gitignore"
    ignored.write_text(ignored.read_text() + "!new\n")
    git(sparse.folder, "sparse-checkout", "set", "docs")
    sparse("init")
    assert "Oil comes second" in sparse("recall", "oil").out
    add = f"git -C {sparse.folder} sparse-checkout add .periplus"
    for words, said in [(("init",), "err"), (("status",), "out"), (("doctor",), "out")]:
        done = sparse(*words, code=int(words == ("doctor",)))
        assert "sparse-checkout excludes .periplus" in getattr(done, said)
        assert add in getattr(done, said)
    git(sparse.folder, *add.split()[3:])
    assert sparse.json("status").sparse == "inside"
    assert sparse.json("doctor").problems == []


def test_a_journal_whose_settings_sparse_checkout_left_out_is_brought_them_by_git(sparse, tmp_path):
    shutil.copytree(sparse.folder / ".periplus/journal", tmp_path / "journal")
    git(sparse.folder, "sparse-checkout", "set", "src")
    (sparse.folder / ".periplus").mkdir()
    shutil.copytree(tmp_path / "journal", sparse.folder / ".periplus/journal")
    done = sparse.fails("recall", "steam", code=2, wrong="its config.toml is gone, git's sparse-checkout leaves it out")
    assert f"Restore it from git: `git -C {sparse.folder} sparse-checkout add .periplus`" in done.err
    git(sparse.folder, "sparse-checkout", "add", ".periplus")
    assert "Oil comes second" in sparse("recall", "oil").out


@pytest.mark.parametrize(("given", "inside", "state"), [
    (["src"], "src/.periplus", "inside"),
    (["src/deep"], "src/.periplus", "outside"),
    (["src/.periplus/entities"], "src/.periplus", "inside"),
    (["docs"], "src/.periplus", "outside"),
    (["--skip-checks", "src [1]"], "src [1]/.periplus", "inside"),
    (["--no-cone", "/docs/"], "src/.periplus", "patterns"),
    ([], ".periplus", "outside"),
])  # fmt: skip
def test_what_sparse_checkout_has_is_read_as_git_does(sparse, given, inside, state):
    for name in ("src/deep", "src/.periplus/entities", "src [1]/.periplus"):
        (sparse.folder / name).mkdir(parents=True)
        (sparse.folder / name / "config.toml").write_text("a = 1\n")
        (sparse.folder / name / ".gitignore").write_text("*\n!config.toml\n!.gitignore\n")
    git(sparse.folder, "add", "-A")
    git(sparse.folder, "commit", "-q", "-m", "Deep")
    kept = sparse.folder / inside / "journal"
    kept.mkdir(exist_ok=True)
    git(sparse.folder, "sparse-checkout", "set", *given)
    assert sparse_state(str(sparse.folder / ".git"), inside) == state
    assert kept.exists() == (state != "outside")


@pytest.mark.parametrize("words", [("clean", "-fdq"), ("stash", "-u", "-q"), ("add", "-A")])
def test_git_in_a_commit_of_before_the_store_leaves_the_journal_alone(tmp_path, words):
    """What keeps git from it is a file of later commits."""
    ada = shared_project(tmp_path, "bob")["ada"]
    git(ada.folder, "checkout", "-q", "--orphan", "old")
    git(ada.folder, "rm", "-rfq", "--cached", ".")
    git(ada.folder, "commit", "-q", "--allow-empty", "-m", "Before")
    git(ada.folder, "checkout", "-q", "-f", "main")
    said = ada.json("remember", "Steam comes first", "--type", "note").entity.id
    ada("trail", "import", claude_session(tmp_path / "session.jsonl", steps=3))
    ada("remember", "Oil comes second")
    held = {
        path: path.read_bytes()
        for name in ("journal", "objects")
        for path in (ada.folder / ".periplus" / name).rglob("*")
        if path.is_file()
    }
    git(ada.folder, "checkout", "-q", "-f", "old")
    assert not (ada.folder / ".periplus/.gitignore").exists()
    git(ada.folder, *words)
    assert "journal" not in git(ada.folder, "status", "--porcelain", "--untracked-files=all")
    assert {path: path.read_bytes() for path in held} == held
    git(ada.folder, "checkout", "-q", "-f", "main")
    assert ada.json("show", said).entity.value["text"] == "Steam comes first"
    assert ada.json("doctor").problems == []


def test_a_journal_that_somebody_tracks_all_the_same_is_not_hidden_from_git(tmp_path):
    ada = shared_project(tmp_path, "bob")["ada"]
    for path in (ada.folder / ".periplus").glob("*/.gitignore"):
        path.unlink()
    (ada.folder / ".periplus/.gitignore").write_text("index.sqlite*\n")
    ada("remember", "Steam comes first")
    assert ".periplus/journal/" in git(ada.folder, "status", "--porcelain")
