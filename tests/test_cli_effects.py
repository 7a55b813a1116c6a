"""``periplus trail verify --effects`` as a reviewer types it."""

from __future__ import annotations

import json

import pytest

from cli_support import Shell, claude_session, git
from periplus.trail import TrailBuilder, TrailReader, concat
from recorder_support import repository


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    work = tmp_path_factory.mktemp("effects")
    (work / "home").mkdir()
    shell = Shell(repository(work / "engine"), work / "home")
    shell("init")
    (shell.folder / "a.txt").write_text("a\n")
    (shell.folder / "engine.py").write_text("revision = 9\nsteam = True\n")
    return shell


STEPS = [
    {"op": "FILE_WRITE", "path": "a.txt", "content": "a\n"},
    {"op": "FILE_EDIT", "path": "engine.py", "old": "= 0", "new": "= 9", "after": "revision = 9\nsteam = True\n"},
]


@pytest.fixture(scope="module")
def trail(shell):
    """A run that begins on a clean tree: the files change when the run has begun."""
    git(shell.folder, "stash", "-q", "--include-untracked", "--", "a.txt", "engine.py")
    run = json.loads(shell("trail", "record", "--keep-open", stdin="").lines[0])["run"]
    git(shell.folder, "stash", "pop", "-q")
    done = shell("trail", "record", "--run", run, "--json", stdin="".join(json.dumps(step) + "\n" for step in STEPS))
    return json.loads(done.lines[-1])["trail"]


@pytest.mark.slow
def test_a_recorded_run_is_verified(shell, trail):
    done = shell("trail", "verify", "--effects", trail)
    assert "effects  verified: 4 right" in done.out
    found = shell.json("trail", "verify", trail, "--effects").trails[0].effects[0]
    assert (found.verdict, found.first_wrong, found.missing) == ("verified", None, [])
    assert [(step.index, step.verdict) for step in found.steps] == [
        (0, "right"),
        (1, "right"),
        (2, "right"),
        (3, "right"),
    ]
    assert shell.json("trail", "verify", trail).trails[0].effects is None


def forged(shell, trail, tmp_path, change):
    from periplus.journal import Writer
    from periplus.project import Project

    with Project.open(str(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        reader = TrailReader(project.trail_bytes(trail).data)
        builder = TrailBuilder(bytes(32))
        for step in change(list(reader.steps()), project.journal.objects):
            builder.add(step.code, *step.operands, result=step.result, result_size=step.result_size, note=step.note)
        path = tmp_path / "forged.pplt"
        path.write_bytes(builder.finish(reader.header))
    return path


def test_the_first_wrong_step_is_named(shell, trail, tmp_path):
    from periplus.trail import Digest

    def content(steps, objects):
        return [steps[0], steps[1]._replace(operands=("a.txt", Digest("sha256", objects.put(b"b\n")))), *steps[2:]]

    done = shell("trail", "verify", "--effects", forged(shell, trail, tmp_path, content), code=1)
    assert "effects  WRONG: step 1 FILE_WRITE is wrong: a.txt differs from the checkpoint, step 3" in done.out
    dropped = forged(shell, trail, tmp_path, lambda steps, _: [steps[0], steps[2], steps[3]])
    found = shell.json("trail", "verify", dropped, "--effects", code=1)
    assert found.ok
    assert (found.trails[0].effects[0].verdict, found.trails[0].effects[0].first_wrong) == ("wrong", 2)
    reordered = forged(shell, trail, tmp_path, lambda steps, _: [steps[0], steps[2]._replace(operands=("engine.py", "= 1", "= 9")), steps[1], steps[3]])  # fmt: skip
    done = shell("trail", "verify", "--effects", reordered, code=1)
    assert "step 1 FILE_EDIT is wrong: engine.py does not hold the text that it replaced" in done.out


def test_each_part_of_a_concatenation_is_judged(shell, trail, tmp_path):
    good = forged(shell, trail, tmp_path, lambda steps, _: steps).read_bytes()
    bad = forged(shell, trail, tmp_path, lambda steps, _: [steps[0], steps[2], steps[3]]).read_bytes()
    path = tmp_path / "both.pplt"
    path.write_bytes(concat([good, bad]))
    found = shell.json("trail", "verify", path, "--effects", code=1).trails[0].effects
    assert [part.verdict for part in found] == ["verified", "wrong"]
    assert "part 1 WRONG" in shell("trail", "verify", "--effects", path, code=1).out


def test_what_is_missing_is_said_and_is_no_success(shell, trail, tmp_path):
    shell("trail", "import", claude_session(tmp_path / "session.jsonl"))
    session = next(one for one in shell.json("trail", "list").trails if one.value["format"] == "claude-code")
    done = shell("trail", "verify", "--effects", session.id, code=1)
    assert "not shown" in done.out
    assert "does not say which commit" in done.out
    done = shell("trail", "verify", trail, "--effects", "--repository", tmp_path, code=1)
    assert "is not in the repository" in done.out
    shell.fails("trail", "verify", trail, "--effects", "--repository", tmp_path / "absent", code=1, wrong="no folder")
    shell.fails("trail", "verify", trail, "--repository", ".", code=2, wrong="--repository needs --effects")


def test_a_damaged_trail_is_damaged_first(shell, trail, tmp_path):
    path = forged(shell, trail, tmp_path, lambda steps, _: steps)
    path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    found = shell.json("trail", "verify", path, "--effects", code=3)
    assert found.trails[0].effects is None
