"""Eight lanes, forty steps, agents of random luck, and a supervisor that is killed twice: at the end everything is true."""

from __future__ import annotations

import collections
import os
import random
import signal
import time
from pathlib import Path

import pytest

from dispatch_dying import Graveyard
from dispatch_support import edit, git
from periplus.journal import Writer
from periplus.memory.coordination.dispatches import answer_question, open_questions
from periplus.project.trail_store.model_costs import trail_costs

SEED = int(os.environ.get("PERIPLUS_LUCK_SEED", "20261128"))
STEPS = 40
LANES = 8
KILLED_AT = (6, 18)  # integrated steps
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
DONE = {"result": {"status": "done", "summary": "done"}}
LUCKS = (
    "well", "well", "well", "well", "well", "fail", "shared", "shared", "odd", "question", "secret", "crash", "keeper", "nothing", "left",
    "hang", "never", "other run",
)  # fmt: skip


def script(chance, luck, name, branch):
    """The attempts of a worker with this luck."""
    well = edit(f"n/{name}", str(2 * chance.randrange(100)), f"Do {name}")
    merge = {"git": ["merge", "-q", "-X", "ours", "--no-edit", branch]}
    shared = f"n/shared{chance.randrange(3)}"
    attempts = {
        "well": [well],
        "fail": [[{"say": "I cannot"}, {"exit": 3}], well],
        "shared": [edit(shared, str(2 * chance.randrange(1000)), f"Share {name}"), [merge, *edit(shared, str(2 * chance.randrange(1000)), f"Share {name}")]],
        "odd": [edit(f"n/{name}", "3", "Odd"), well],
        "question": [[{"question": {"question": f"What of {name}?"}}], well],
        "secret": [[{"write": {"key": SECRET}}, {"commit": "Key"}, {"remove": "key"}, *well], [{"git": ["reset", "-q", "--soft", "HEAD~2"]}, {"commit": "Clean"}, DONE]],
        "crash": [[{"write": {f"n/{name}": "5"}}, {"signal": "SIGKILL"}], well],
        "keeper": [[{"python": "os.kill(os.getppid(), signal.SIGKILL)"}, *well]],
        "nothing": [[{"lie": "all done"}]],
        "left": [[{"write": {f"n/{name}": "8"}}, {"detach": {}}, DONE]],
        "hang": [[{"write": {f"n/{name}": "8"}}, {"hang": {}}], well],
        "never": [[{"exit": 1}]],
        "other run": [[*well[:-1], {"result": {"run": "job_0000000000000000", "status": "done"}}], [DONE]],
    }[luck]  # fmt: skip

    def spent():
        tokens = {"tokens_in": chance.randrange(1, 500), "cached": chance.randrange(50), "out": chance.randrange(90)}
        return {"usage": {**tokens, "cost": chance.randrange(1000) / 10_000}}

    return [[spent(), *acts] for acts in attempts]


def left_processes(folder):
    """Processes of agents and checks of a yard that still live."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if os.fsencode(folder) in (path / "environ").read_bytes():
                    found.append((path / "cmdline").read_bytes())
            except OSError:
                continue  # it ended meanwhile
    return found


def carried(yard, project, dispatch):
    """Carry a dispatch to its end; its supervisor is killed when so many steps are integrated, and questions are answered."""
    outcome = ""
    for count in (*KILLED_AT, STEPS + 1):
        pid = yard.begin(dispatch)
        until = time.monotonic() + 300
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            assert time.monotonic() < until, "it does not end"
            states = [one.state for one in yard.assignments(project, dispatch).values()]
            if states.count("integrated") >= count:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
            for question in open_questions(project.journal):
                answer_question(project.journal, Writer.named("bob"), question.item_id, "Go on.")
            time.sleep(0.1)
        else:
            outcome = (yard.grave / "outcome").read_text()
            break
    return outcome


@pytest.mark.slow
def test_a_plan_of_forty_steps_with_luck(tmp_path):
    chance = random.Random(SEED)
    yard = Graveyard(tmp_path, agents=("scripted", "other"), files={f"n/shared{number}": "0" for number in range(3)})
    with yard.open() as project:
        names = [f"s{number:02}" for number in range(STEPS)]
        lucks = {name: LUCKS[number % len(LUCKS)] for number, name in enumerate(chance.sample(names, STEPS))}
        after = {
            name: chance.sample(names[:number], min(number, chance.choice((0, 0, 1, 2))))
            for number, name in enumerate(names)
        }
        plan = yard.plan(project, **{name: {"attempts": [], "after": after[name]} for name in names})
        before = (
            git(yard.folder, "status", "--porcelain=v2", "--branch", "--untracked-files=all"),
            git(yard.folder, "rev-parse", "HEAD"),
        )
        dispatch = yard.order(
            project, plan, agents=("scripted", "other"), lanes=LANES, limits={"retries": 2, "rounds": 6, "silence_s": 4}
        )
        branch = dispatch.value["branch"]
        for name, luck in lucks.items():
            yard.script(name, *script(chance, luck, name, branch))
        outcome = carried(yard, project, dispatch)
        found = yard.assignments(project, dispatch)
        said = {name: (lucks[name], one.state, one.reason) for name, one in found.items()}

        # every step in a true state
        doomed = {name for name, luck in lucks.items() if luck == "never"}
        for name in names:  # in their order: a step comes after earlier ones
            doomed |= {name} if doomed & set(after[name]) else set()
        assert {name for name, one in found.items() if one.state == "integrated"} == set(names) - doomed, said
        assert {one.state for name, one in found.items() if name in doomed} <= {"failed"}, said
        assert outcome == ("stopped" if doomed else "done")
        yard.check(project, dispatch)
        assert project.work.claims() == []
        assert open_questions(project.journal) == []

        # what it cost is what the trails say
        sums = collections.Counter()
        for one in found.values():
            for run in one.runs:
                if run.purpose == "work":
                    assert run.trail, (one.text, run)
                    assert trail_costs(project, run.trail) == (run.tokens_in, run.cached, run.out, run.cost)
                    sums.update(
                        dict(zip(("tokens_in", "cached", "out", "cost"), trail_costs(project, run.trail), strict=True))
                    )
        assert sums["tokens_in"]
        assert {name: sum(getattr(one, name) for one in found.values()) for name in sums} == dict(sums)

        # nothing is left, nothing is lost
        assert left_processes(yard.scripts) == []
        kept = {one.worktree: one.remarks for one in found.values()}
        worktrees = {path.name for path in yard.state.glob("dispatch/*/worktrees/*")}
        assert worktrees == {one.worktree for one in found.values() if one.state != "integrated"}, kept
        assert before == (
            git(yard.folder, "status", "--porcelain=v2", "--branch", "--untracked-files=all"),
            git(yard.folder, "rev-parse", "HEAD"),
        )
        assert SECRET not in git(yard.folder, "log", "-p", branch)
        git(yard.folder, "gc", "-q", "--prune=now")
        git(yard.folder, "fsck", "--strict", "--no-dangling")
        for one in found.values():
            if one.state != "integrated":
                assert git(yard.folder, "rev-parse", one.branch)
        assert project.examine().exit_code == 0, project.examine().problems
