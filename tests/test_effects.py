"""``verify --effects``: a run that was recorded gives its files; what was forged, dropped or reordered is named."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_support import git, make_repository
from periplus.interop import import_git
from periplus.project.trail_store.git_effects import trail_effects
from periplus.trail import BY_NAME, OUTCOMES, Digest, TrailBuilder, TrailReader
from periplus.trail.checkpoints.file_states import FileStates, decode_file_states, encode_file_states
from periplus.trail.checkpoints.git_tree import TreeEntry, blob_id, tree_id
from recorder_support import SECRET, Agent, open_project, repository

ROOT = Path(__file__).resolve().parents[1]


class Recorded:
    """A recorded run with what is needed to judge it."""

    def __init__(self, folder, work, **how) -> None:
        self.folder = folder
        with open_project(folder) as project:
            with project.record(agent="ada", folder=os.fspath(folder), **how) as run:
                work(Agent(folder, run))
            self.data = project.trail_bytes(next(project.trails()).item_id).data
            self.objects = project.journal.objects

    @property
    def steps(self):
        reader = TrailReader(self.data)
        return reader.header, list(reader.steps())

    def effects(self, steps=None, repository=None, store=True):
        data = self.data if steps is None else self.forged(steps)
        (found,) = trail_effects(data, os.fspath(repository or self.folder), self.objects if store else None)
        return found.effects

    def forged(self, steps):
        """A trail that is sound in itself, of the same header and other steps."""
        header, _ = self.steps
        builder = TrailBuilder(bytes(32))
        for step in steps:
            builder.add(step.code, *step.operands, outcome=step.outcome, exit_code=step.exit_code, error=step.error,
                        result=step.result, result_size=step.result_size, note=step.note)  # fmt: skip
        return builder.finish(header)


def work(agent):
    """What agents do: everything that a file step can be, on every shape of file."""
    agent.read("engine.py")
    agent.edit("engine.py", "revision = 0", "revision = 1")
    agent.write("src/new/deep/wheel.py", b"SPOKES = 8\n")
    agent.edit("src/new/deep/wheel.py", "8", "16")
    agent.edit("docs/windows.txt", "two\r\n", "2\r\n")
    agent.write("docs/\u00fcbersicht \u6f22\u5b57.md", b"# Neu\n")
    agent.write("assets/logo.bin", bytes(range(255, -1, -1)))
    agent.write("bin/start", b"#!/bin/sh\necho go\n")
    agent.move("src/gears/crown.py", "src/gears/sub/crown.py")
    agent.delete("src/gears/cog.py")
    agent.run.step("PROMPT", text="Go on")
    agent.run.step("COMMAND_RUN", command="true", exit_code=0)
    agent.run.checkpoint()
    agent.edit("engine.py", "steam = True", "steam = False")
    agent.edit("engine.py", "revision = 1", "revision = 2")
    agent.write("notes.txt", b"one\n")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return Recorded(repository(tmp_path_factory.mktemp("effects") / "engine"), work)


def named(effects):
    return {(step.at, step.op): step.verdict for step in effects.steps}


# What verifies


def test_a_recorded_run_verifies(recorded):
    effects = recorded.effects()
    assert effects.verdict == "verified", effects
    assert effects.missing == ()
    assert {step.verdict for step in effects.steps} == {"right"}
    assert len(effects.steps) == 15  # three checkpoints and every file step


def test_it_verifies_in_a_fresh_clone_and_in_a_bare_one_too(recorded, tmp_path):
    for options, name in (((), "clone"), (("--bare",), "bare.git")):
        subprocess.run(["git", "clone", "-q", *options, recorded.folder, tmp_path / name], check=True)
        assert recorded.effects(repository=tmp_path / name).verdict == "verified"


def test_it_verifies_in_another_clone_of_the_store(recorded, tmp_path):
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", recorded.folder, folder], check=True)
    with open_project(recorded.folder) as project:
        assert project.examine().problems == []  # every object is named
        project.export(os.fspath(tmp_path / "store.zip"))
    from periplus.project import Project

    Project.import_from(os.fspath(tmp_path / "store.zip"), os.fspath(folder))
    with open_project(folder) as there:
        data = there.trail_bytes(next(there.trails()).item_id).data
        (found,) = trail_effects(data, os.fspath(folder), there.journal.objects)
        assert found.effects.verdict == "verified"
    store = tmp_path / "third" / ".periplus"
    (store / "journal").mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        shutil.copy(recorded.folder / ".periplus" / name, store)
    with open_project(tmp_path / "third") as third:
        third.sync(os.fspath(recorded.folder), cwd=os.fspath(tmp_path), environment=dict(os.environ))
        data = third.trail_bytes(next(third.trails()).item_id).data
        (found,) = trail_effects(data, os.fspath(folder), third.journal.objects)
        assert found.effects.verdict == "verified"
        assert third.examine().problems == []


def test_it_verifies_on_files_that_were_not_committed(tmp_path):
    folder = repository(tmp_path / "engine")
    (folder / "engine.py").write_text("revision = 0\ndirty = True\n")
    (folder / "draft.txt").write_text("first\n")
    (folder / "docs/windows.txt").unlink()

    def change(agent):
        agent.edit("draft.txt", "first", "second")
        agent.edit("engine.py", "dirty = True", "dirty = False")

    recorded = Recorded(folder, change)
    effects = recorded.effects()
    assert effects.verdict == "verified", effects
    assert effects.steps[0].verdict == "start"
    assert "docs/windows.txt, draft.txt, engine.py" in effects.steps[0].detail
    subprocess.run(["git", "clone", "-q", folder, tmp_path / "clone"], check=True)
    assert recorded.effects(repository=tmp_path / "clone").verdict == "verified"


@pytest.mark.slow
def test_this_repository_verifies(tmp_path):
    """On this very code: a clone of it, several files edited, one added, one moved and one deleted."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    folder = tmp_path / "periplus"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, folder], check=True)

    def change(agent):
        agent.edit("pyproject.toml", 'name = "periplus"', 'name = "coast"')
        agent.edit("src/periplus/trail/opcodes.py", "    _row(0x9F, ", "    _row(0x9F,  ")
        agent.write("src/periplus/coast.py", b'"""New."""\n')
        agent.move("README.md", "docs/README.md")
        agent.delete("Makefile")

    recorded = Recorded(folder, change)
    assert recorded.effects().verdict == "verified", recorded.effects()
    _, steps = recorded.steps
    for index, step in enumerate(steps):
        if step.code in CHANGING:
            effects = recorded.effects([*steps[:index], *steps[index + 1 :]])
            assert effects.verdict == "wrong", effects


CHANGING = frozenset(BY_NAME[name].code for name in ("FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_MOVE"))


def test_a_link_is_followed_within_the_tree(tmp_path):
    folder = repository(tmp_path / "engine")

    def change(agent):
        agent.write("latest/cog.py", b"TEETH = 13\n")
        agent.edit("latest/crown.py", "24", "25")
        agent.delete("latest")

    assert Recorded(folder, change).effects().verdict == "verified"


def test_what_git_leaves_out_is_no_part_of_it(tmp_path):
    folder = repository(tmp_path / "engine")

    def change(agent):
        agent.write("build/out.o", b"object\n")
        agent.run.checkpoint()
        agent.edit("build/out.o", "object", "other")
        agent.write("run.log", b"log\n")
        agent.run.step("FILE_WRITE", path="/tmp/outside.txt", content="x")
        agent.run.step("FILE_WRITE", path="../outside.txt", content="x")
        agent.run.step("FILE_EDIT", path=".git/config", old="a", new="b")

    effects = Recorded(folder, change).effects()
    assert effects.verdict == "verified", effects
    assert [step.verdict for step in effects.steps if step.op != "CHECKPOINT"] == ["outside"] * 6


def test_what_had_no_effect_changes_nothing(tmp_path):
    folder = repository(tmp_path / "engine")

    def change(agent):
        for outcome in OUTCOMES[1:4]:
            agent.run.step("FILE_WRITE", path="engine.py", content="x", outcome=outcome)
            agent.run.step("FILE_EDIT", path="engine.py", old="nothing of it", new="", outcome=outcome)
        agent.edit("engine.py", "0", "1")

    assert Recorded(folder, change).effects().verdict == "verified"


# What is forged


def test_every_dropped_step_is_found(recorded):
    _, steps = recorded.steps
    for index, step in enumerate(steps):
        if step.code in CHANGING:
            effects = recorded.effects([*steps[:index], *steps[index + 1 :]])
            assert effects.verdict != "verified", (index, effects)
            wrong = effects.first_wrong
            if index > 11:  # behind the command: nothing may have changed a file but the steps
                assert wrong is not None, (index, effects)
                assert wrong.at >= index, (index, effects)
            elif wrong is None:
                assert any(one.verdict == "not judged" for one in effects.steps)


def test_every_forged_content_is_found_and_named(recorded):
    _, steps = recorded.steps
    forged = Digest("sha256", recorded.objects.put(b"forged\n"))
    for index, step in enumerate(steps):
        if step.code == BY_NAME["FILE_WRITE"].code:
            changed = step._replace(operands=(step.operands[0], forged))
            effects = recorded.effects([*steps[:index], changed, *steps[index + 1 :]])
            assert effects.verdict == "wrong" or index < 11, (index, effects)
            if effects.verdict != "wrong":
                continue
            path = step.operands[0]
            later = [
                at
                for at in range(index, len(steps))
                if steps[at].operands[:1] == (path,) and steps[at].code in CHANGING
            ]
            assert effects.first_wrong.at == (later[1] if len(later) > 1 else index), effects


def test_every_forged_edit_is_found_and_named(recorded):
    _, steps = recorded.steps
    for index, step in enumerate(steps):
        if step.code == BY_NAME["FILE_EDIT"].code:
            path, old, new = step.operands
            for operands in ((path, old, new + "!"), (path, "not in it", new), ("engine.pyc", old, new)):
                changed = step._replace(operands=operands)
                effects = recorded.effects([*steps[:index], changed, *steps[index + 1 :]])
                assert effects.verdict == "wrong", (index, effects)
                assert effects.first_wrong.at == index, (index, effects)


def test_every_pair_of_reordered_edits_is_found(recorded):
    _, steps = recorded.steps
    edits = [at for at, step in enumerate(steps) if step.code == BY_NAME["FILE_EDIT"].code]
    pairs = [(a, b) for a in edits for b in edits if a < b and steps[a].operands[0] == steps[b].operands[0]]
    assert len(pairs) >= 3
    for first, second in pairs:
        order = list(steps)
        order[first], order[second] = steps[second], steps[first]
        effects = recorded.effects(order)
        assert effects.verdict == "wrong", effects
        assert effects.first_wrong.at == first, effects


def test_every_forged_path_outcome_or_checkpoint_is_found(recorded):
    _, steps = recorded.steps
    deletes = [at for at, step in enumerate(steps) if step.code == BY_NAME["FILE_DELETE"].code]
    moves = [at for at, step in enumerate(steps) if step.code == BY_NAME["FILE_MOVE"].code]
    cases = [
        (deletes[0], ("no/such/file",)),
        (deletes[0], ("engine.py",)),
        (moves[0], ("no/such/file", "elsewhere")),
        (moves[0], (steps[moves[0]].operands[0], "engine.py/below")),
    ]
    for at, operands in cases:
        order = list(steps)
        order[at] = steps[at]._replace(operands=operands)
        effects = recorded.effects(order)
        assert effects.verdict == ("wrong" if operands[0] != "engine.py" else "not shown"), (operands, effects)
    for at in (len(steps) - 2, len(steps) - 3):
        order = list(steps)
        order[at] = steps[at]._replace(outcome="failed")
        assert recorded.effects(order).verdict == "wrong"
    last = steps[-1]
    order = [*steps[:-1], last._replace(operands=(Digest("git-sha1", bytes(20)),))]
    assert recorded.effects(order).verdict == "wrong"
    assert recorded.effects(order).first_wrong.at == len(steps) - 1
    assert recorded.effects(steps[:-1]).verdict == "not shown"


def test_a_forged_account_of_the_files_does_not_help(recorded):
    """The object of a checkpoint may say what it likes: it counts only where it gives the tree that the step names."""
    _, steps = recorded.steps
    last = steps[-1]
    standing = decode_file_states(recorded.objects.get(last.result.value))
    entries = dict(standing.changed)
    entries["notes.txt"] = TreeEntry("100644", blob_id(b"forged\n", "git-sha1"))
    for account in (
        standing._replace(changed=entries),
        standing._replace(ignored=("src/", "notes.txt", "engine.py")),
        standing._replace(removed=("engine.py",)),
    ):
        data = encode_file_states(account)
        order = list(steps)
        order[-1] = last._replace(result=Digest("sha256", recorded.objects.put(data)), result_size=len(data))
        order[-2] = steps[-2]._replace(operands=("notes.txt", Digest("sha256", recorded.objects.put(b"forged\n"))))
        effects = recorded.effects(order)
        assert effects.verdict == "wrong", effects


# What cannot be judged


def test_what_a_command_changed_is_not_judged_and_what_follows_is(tmp_path):
    folder = repository(tmp_path / "engine")

    def change(agent):
        agent.write("a.txt", b"a\n")
        (folder / "engine.py").write_text("formatted = True\n")
        agent.run.step("COMMAND_RUN", command="format engine.py")
        agent.run.checkpoint()
        agent.edit("engine.py", "True", "False")

    recorded = Recorded(folder, change)
    effects = recorded.effects()
    assert effects.verdict == "not shown"
    assert [(step.op, step.verdict) for step in effects.steps] == [
        ("CHECKPOINT", "right"), ("FILE_WRITE", "right"), ("CHECKPOINT", "not judged"), ("FILE_EDIT", "right"),
        ("CHECKPOINT", "right")]  # fmt: skip
    assert "engine.py" in effects.steps[2].detail
    _, steps = recorded.steps
    order = [steps[0], *steps[2:]]  # without a.txt: a command may have made it
    assert recorded.effects(order).verdict == "not shown"
    order = [*steps[:4], steps[4]._replace(operands=("engine.py", "True", "Forged")), *steps[5:]]
    assert recorded.effects(order).first_wrong.at == 4


def test_contents_that_are_not_at_hand_are_not_judged(recorded):
    effects = recorded.effects(store=False)
    assert effects.verdict == "not shown"
    assert not any(step.verdict == "right" for step in effects.steps if step.op == "FILE_WRITE")
    assert effects.first_wrong is None


def test_masked_and_withheld_contents_are_not_judged(tmp_path):
    from periplus.trail import withhold

    folder = repository(tmp_path / "engine")

    def change(agent):
        agent.write("env.txt", f"TOKEN={SECRET}\n".encode())
        agent.write("a.txt", b"a\n")

    recorded = Recorded(folder, change)
    effects = recorded.effects()
    assert effects.verdict == "not shown"
    assert {step.at: step.verdict for step in effects.steps}[1] == "not judged"
    assert {step.at: step.verdict for step in effects.steps}[2] == "right"
    folder = repository(tmp_path / "second")
    recorded = Recorded(folder, work)
    for hidden in ("engine.py", "steam = False", recorded.steps[1][3].operands[1]):
        data = withhold(recorded.data, lambda _, value, hidden=hidden: value == hidden)
        (found,) = trail_effects(data, os.fspath(folder), recorded.objects)
        assert found.effects.verdict == "not shown", (hidden, found.effects)
    data = withhold(recorded.data, lambda _, value: value == "Go on")
    (found,) = trail_effects(data, os.fspath(folder), recorded.objects)
    assert found.effects.verdict == "verified"


def test_what_is_missing_is_said(recorded, tmp_path):
    elsewhere = make_repository(tmp_path / "elsewhere")
    other = recorded.effects(repository=elsewhere)
    assert other.verdict == "not shown"
    assert "is not in the repository" in other.summary
    assert recorded.effects(repository=tmp_path).verdict == "not shown"
    header, steps = recorded.steps
    builder = TrailBuilder(bytes(32))
    for step in steps[1:-1]:
        if step.code != BY_NAME["CHECKPOINT"].code:
            builder.add(step.code, *step.operands)
    (found,) = trail_effects(builder.finish(header._replace(base=None)), os.fspath(recorded.folder), recorded.objects)
    assert found.effects.verdict == "not shown"
    assert found.effects.missing == (
        "the trail does not say which commit its run began from", "no checkpoint records the files")  # fmt: skip


# What is hostile


def test_nothing_of_a_repository_is_changed_or_run(tmp_path):
    folder = repository(tmp_path / "engine")
    recorded = Recorded(folder, work)
    witness = tmp_path / "witness"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {witness}\ncat\n")
    program.chmod(0o755)
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
    for setting in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.evil.command", "core.fsmonitor",
                    "core.sshCommand", "core.pager", "diff.external", "core.alternateRefsCommand"):  # fmt: skip
        git(folder, "config", setting, os.fspath(program))
    before = {path: (os.lstat(path).st_mtime_ns, os.lstat(path).st_size) for path in folder.rglob("*")}
    assert recorded.effects().verdict == "verified"
    assert {path: (os.lstat(path).st_mtime_ns, os.lstat(path).st_size) for path in folder.rglob("*")} == before
    assert not witness.exists()


PATHS = ["../../outside", "/etc/passwd", "a/../../outside", ".git/hooks/post-checkout", ".periplus/config.toml", "loop/x",
         "away/passwd", "engine.py/below", "src", ".", "", "latest/../../../outside"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_the_tree(tmp_path, path):
    folder = repository(tmp_path / "engine")
    (folder / "loop").symlink_to("loop")
    (folder / "away").symlink_to("/etc")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Links")
    before = sorted(os.listdir(tmp_path))

    def change(agent):
        agent.run.step("FILE_WRITE", path=path, content="x")
        agent.run.step("FILE_EDIT", path=path, old="", new="y")
        agent.run.step("FILE_MOVE", source="engine.py", target=path)
        agent.run.step("FILE_DELETE", path=path)

    effects = Recorded(folder, change).effects()
    assert effects.verdict != "verified" or all(
        step.verdict == "outside" for step in effects.steps if step.op != "CHECKPOINT"
    )
    assert sorted(os.listdir(tmp_path)) == before


# Trees


def test_trees_have_the_ids_that_git_gives_them(tmp_path):
    for algorithm in ("sha1", "sha256"):
        folder = tmp_path / algorithm
        folder.mkdir()
        git(folder, "init", "-q", f"--object-format={algorithm}")
        shutil.copytree(repository(tmp_path / f"files {algorithm}"), folder, dirs_exist_ok=True, symlinks=True,
                        ignore=shutil.ignore_patterns(".git"))  # fmt: skip
        for name in ("a", "a.b", "a-b", "ab"):  # git sorts a folder as if its name ended with a slash
            (folder / "order" / name).mkdir(parents=True)
            (folder / "order" / name / "x").write_text(name)
            (folder / "order" / f"{name}.txt").write_text(name)
        git(folder, "add", "-A")
        entries = {}
        for row in git(folder, "ls-files", "-s", "-z").split("\0"):
            if row:
                meta, path = row.split("\t")
                mode, blob, _ = meta.split()
                entries[path] = TreeEntry(mode, bytes.fromhex(blob))
        assert tree_id(entries, f"git-{algorithm}").hex() == git(folder, "write-tree").strip()


def test_an_account_of_the_files_comes_back_as_it_was():
    standing = FileStates(
        bytes(20), b"\1" * 20, {"ü": TreeEntry("100755", b"\2" * 20)}, ("gone",), ("build/",), {"ü": b"\3" * 32}
    )
    assert decode_file_states(encode_file_states(standing)) == standing
    assert decode_file_states(encode_file_states(standing._replace(ignored=None))).ignored is None
    assert encode_file_states(standing._replace(removed=("\udcff",))) is None
    assert standing.ignores("build/x")
    assert not standing.ignores("builder")


# Histories


def test_a_history_is_judged_commit_by_commit_and_a_forged_step_in_it_is_named(tmp_path):
    folder = make_repository(tmp_path / "engine", commits=5)
    imported = import_git(os.fspath(folder), trail_key=bytes(32), put_object=lambda data: hashlib.sha256(data).digest())
    (found,) = trail_effects(imported.trail, os.fspath(folder), None)
    assert (found.effects.verdict, found.effects.summary) == ("verified", "verified: 10 right")
    reader = TrailReader(imported.trail)
    steps = list(reader.steps())

    def forged(change):
        builder = TrailBuilder(bytes(32))
        for step in change(list(steps)):
            builder.add(step.code, *step.operands, outcome=step.outcome, note=step.note)
        (found,) = trail_effects(builder.finish(reader.header), os.fspath(folder), None)
        return found.effects

    other = forged(lambda all_: [*all_[:4], all_[4]._replace(operands=all_[2].operands), *all_[5:]])
    assert (other.verdict, other.first_wrong.at, other.first_wrong.op) == ("wrong", 4, "FILE_WRITE")
    assert sum(step.verdict == "wrong" for step in other.steps) == 1  # those behind are judged for themselves
    dropped = forged(lambda all_: [*all_[:4], *all_[5:]])
    assert (dropped.verdict, dropped.first_wrong.at, dropped.first_wrong.op) == ("wrong", 4, "GIT_COMMIT")
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q")
    (found,) = trail_effects(imported.trail, os.fspath(elsewhere), None)
    assert found.effects.verdict == "not shown"
    assert {step.verdict for step in found.effects.steps} == {"not judged"}
