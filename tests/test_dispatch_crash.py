"""Supervisors, keepers and workers die at any moment, and the next supervisor goes on: nothing is lost, nothing done twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess

import pytest

from dispatch_dying import Graveyard
from dispatch_support import edit, git
from periplus.base.clock import FixedClock, SystemClock
from periplus.base.errors import RefusedError
from periplus.base.files import Files
from periplus.journal import Writer
from periplus.memory.coordination.assignments import change_assignment
from periplus.memory.coordination.claims import Asked, acquire, release
from periplus.memory.coordination.dispatches import answer_question, change_dispatch, open_questions
from periplus.memory.writing.lifecycle import change_state
from periplus.project import Project

SEED = int(os.environ.get("PERIPLUS_CRASH_SEED", "20261128"))
FINDING = {"severity": "blocking", "path": "n/b", "line": 1, "text": "Not large enough"}
SPENT = {"usage": {"tokens_in": 100, "cached": 40, "out": 7, "cost": 0.001}}


@pytest.fixture
def yard(tmp_path):
    return Graveyard(tmp_path)


def everything(yard, project):
    """A dispatch with a setup, a failing check, a failing attempt, a review with findings, a conflict, a question."""
    reviews = [
        [SPENT, {"review": {"verdict": "changes", "findings": [FINDING]}}],
        [{"review": {"verdict": "approve", "findings": []}}],
    ]
    plan = yard.plan(
        project,
        one={"attempts": [[SPENT, {"exit": 3}], [SPENT, *edit("n/b", "3", "Odd")], edit("n/b", "4"), edit("n/b", "40", "Forty")],
             "review": reviews},
        two={"attempts": [], "review": reviews[1:]},
        three={"attempts": [], "review": reviews[1:]},
        four={"attempts": [[SPENT, {"question": {"question": "Which?", "options": ["2", "4"]}}], edit("n/d", "2")],
              "review": reviews[1:], "after": ["two"]},
    )  # fmt: skip
    dispatch = yard.order(
        project, plan, reviewers=("scripted", "other"), lanes=3, setup=("true",), limits={"rounds": 6, "retries": 2}
    )
    merge = {"git": ["merge", "-q", "-X", "ours", "--no-edit", dispatch.value["branch"]]}
    yard.script("two", edit("n/a", "4", "Four"), [merge, *edit("n/a", "14", "Fourteen")])
    yard.script("three", edit("n/a", "6", "Six"), [merge, *edit("n/a", "16", "Sixteen")])
    return dispatch


ANSWERS = {"Which?": "2, please", "conflicts with": "Merge it."}


def finish(yard, project, dispatch):
    assert not yard.end(yard.begin(dispatch), project, ANSWERS)
    assert (yard.grave / "outcome").read_text() == "done"
    found = yard.assignments(project, dispatch)
    yard.check(project, dispatch)
    assert {one.state for one in found.values()} == {"integrated"}
    assert project.work.claims() == []
    assert list((yard.state / "dispatch").glob("*/worktrees/*")) == []
    return found


@pytest.mark.slow
def test_nobody_dies(yard):
    with yard.open() as project:
        dispatch = everything(yard, project)
        finish(yard, project, dispatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_supervisors_die_at_many_moments(yard, seed):
    chance = random.Random(SEED + seed)
    with yard.open() as project:
        dispatch = everything(yard, project)
        deaths = 0
        while yard.end(yard.begin(dispatch, chance.randint(1, 40)), project, ANSWERS):
            deaths += 1
            assert deaths < 200
        found = finish(yard, project, dispatch) if not deaths else yard.assignments(project, dispatch)
        yard.check(project, dispatch)
        assert {one.state for one in found.values()} == {"integrated"}
        assert project.work.claims() == []


def test_supervisors_die_at_some_moments(yard):
    """A small dispatch; the whole one is slow."""
    chance = random.Random(SEED)
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/b", "3", "Odd"), edit("n/b", "4", "Even")])
        dispatch = yard.order(project, plan)
        deaths = 0
        while yard.end(yard.begin(dispatch, chance.randint(5, 60)), project):
            deaths += 1
        assert deaths
        yard.check(project, dispatch)
        assert yard.assignments(project, dispatch)["one"].state == "integrated"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_supervisors_die_at_any_time(yard, seed):
    """By the clock: also between the system calls of which nobody is told."""
    chance = random.Random(SEED + seed)
    with yard.open() as project:
        dispatch = everything(yard, project)
        deaths = 0
        while yard.end(yard.begin(dispatch), project, ANSWERS, kill_s=chance.uniform(0.05, 2.5)):
            deaths += 1
            assert deaths < 200
        yard.check(project, dispatch)
        assert {one.state for one in yard.assignments(project, dispatch).values()} == {"integrated"}


def test_a_second_supervisor_is_refused(yard):
    with yard.open() as project:
        plan = yard.plan(project, one=[[{"wait_for": str(yard.scripts / "go")}, *edit("n/b", "4", "Four")]])
        dispatch = yard.order(project, plan)
        pid = yard.begin(dispatch)
        supervisor = yard.supervisor(project, dispatch)
        yard.wait(lambda: yard.times("one"))
        with pytest.raises(RefusedError, match=f"supervised by process {pid}"):
            supervisor.run()
        (yard.scripts / "go").touch()
        assert not yard.end(pid, project)
        yard.check(project, dispatch)


# -- one supervisor that looks when it is told to ------------------------------------------------------------------------

STATES = ("offered", "running", "waiting", "submitted", "verified", "reviewed")


def gated(yard, project, **more):
    """A dispatch of one step that asks, works, is checked and reviewed; each of its jobs waits for the file ``go``."""
    go = {"wait_for": str(yard.scripts / "go")}
    approve = [go, {"review": {"verdict": "approve", "findings": []}}]
    asks = [SPENT, {"wait_for": str(yard.scripts / "ask")}, {"question": {"question": "Which?"}}]
    plan = yard.plan(
        project, one={"attempts": [asks, [SPENT, go, *edit("n/b", "4", "Four")]], "review": [approve], "about": ["n/b"]}
    )
    oracle = ("sh", "-c", f"until [ -e {yard.scripts}/go ]; do sleep 0.05; done; exec python3 check.py")
    return yard.order(project, plan, reviewers=("other",), oracle=oracle, **more)


def one_of(yard, project, dispatch):
    return yard.assignments(project, dispatch)["one"]


def look_until(yard, project, dispatch, supervisor, state):
    """Let a supervisor look until the step is in ``state``; everything before that state goes through."""
    if state not in ("offered", "running"):
        (yard.scripts / "ask").touch()
    if state in STATES[3:]:
        yard.look_until(supervisor, lambda: open_questions(project.journal))
        answer_question(project.journal, Writer.named("bob"), open_questions(project.journal)[0].item_id, "4")
        (yard.scripts / "go").touch()
    yard.look_until(supervisor, lambda: any(one.state == state for one in yard.assignments(project, dispatch).values()))


def go_on(yard, project, dispatch, supervisor):
    """Let everything through, to the end."""
    (yard.scripts / "ask").touch()
    (yard.scripts / "go").touch()

    def is_over():
        for question in open_questions(project.journal):
            answer_question(project.journal, Writer.named("bob"), question.item_id, "4")
        return one_of(yard, project, dispatch).state in ("integrated", "failed", "timed_out")

    yard.look_until(supervisor, is_over)
    outcome = supervisor.run()
    yard.check(project, dispatch)
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_a_dispatch_that_is_stopped_from_elsewhere_can_be_gone_on_with(yard, state):
    with yard.open() as project, yard.open() as other:
        dispatch = gated(yard, project)
        supervisor = yard.supervisor(project, dispatch)
        look_until(yard, project, dispatch, supervisor, state)
        change_dispatch(other.journal, Writer.named("bob"), dispatch.item_id, state="stopped", reason="enough")
        assert supervisor.run() == "stopped"
        one = one_of(yard, project, dispatch)
        assert one.state == "cancelled"
        assert all(run.ended for run in one.runs)
        assert project.work.claims() == []
        assert open_questions(project.journal) == []
        assert project.journal.get("step", one.step).value["state"] == "todo"
        yard.check(project, dispatch)
        (assignment,) = supervisor.workplace.assignments()
        change_assignment(other.journal, Writer.named("bob"), assignment, fields={"granted": 2})
        change_dispatch(other.journal, Writer.named("bob"), dispatch.item_id, state="open")
        project.journal.refresh()
        assert go_on(yard, project, dispatch, yard.supervisor(project, dispatch)) == "done"
        one = one_of(yard, project, dispatch)
        assert (one.state, one.attempt) == ("integrated", 2)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("deed", ["step", "claim", "plan"])
def test_a_person_takes_the_step_away(yard, state, deed):
    with yard.open() as project:
        dispatch = gated(yard, project)
        supervisor = yard.supervisor(project, dispatch)
        look_until(yard, project, dispatch, supervisor, state)
        one = one_of(yard, project, dispatch)
        bob = Writer.named("bob")
        if deed == "claim":
            release(project.journal, bob, [one.claim], force=True)
        else:
            change_state(project.journal, bob, [one.step if deed == "step" else one.plan], "dropped", force=True)
        outcome = supervisor.run()
        one = one_of(yard, project, dispatch)
        assert one.state == "cancelled"
        assert ("released" if deed == "claim" else "ended by somebody") in one.reason
        assert outcome == ("done" if deed == "step" else "stopped")  # it was the only step
        assert project.work.claims() == []
        assert all(run.ended for run in one.runs)
        assert supervisor.workplace.repository.tip(one.branch) or state == "offered", "its work is lost"
        yard.check(project, dispatch)


def present_job(yard, project, dispatch):
    """The present run of the step, once its job runs, with the process ids of its keeper and its leader."""
    run = one_of(yard, project, dispatch).runs[-1]
    (path,) = yard.state.glob(f"dispatch/*/runs/{run.id}")
    found = json.loads((path / "process").read_text())
    return run, found["keeper"]["pid"], found["leader"]["pid"]


def is_at_job(yard, project, dispatch, purpose):
    runs = [one.runs[-1] for one in yard.assignments(project, dispatch).values() if one.runs]
    return (
        bool(runs)
        and runs[0].purpose == purpose
        and not runs[0].ended
        and bool(list(yard.state.glob(f"dispatch/*/runs/{runs[0].id}/process")))
    )


@pytest.mark.slow
@pytest.mark.parametrize("purpose", ["work", "oracle", "review", "queue"])
@pytest.mark.parametrize("whom", ["keeper", "both", "leader"])
def test_a_job_is_killed(yard, purpose, whom):
    """A keeper is needed by nobody; a job that is gone with its keeper is done again; one that was killed alone has failed."""
    with yard.open() as project:
        approve = [{"wait_for": str(yard.scripts / "review")}, {"review": {"verdict": "approve", "findings": []}}]
        plan = yard.plan(
            project,
            one={
                "attempts": [[SPENT, {"wait_for": str(yard.scripts / "work")}, *edit("n/b", "4", "Four")]],
                "review": [approve],
            },
        )
        script = f"case $PWD in */queue-*) gate=queue;; *) gate=oracle;; esac; until [ -e {yard.scripts}/$gate ]; do sleep 0.05; done; exec python3 check.py"
        dispatch = yard.order(project, plan, reviewers=("other",), oracle=("sh", "-c", script))
        supervisor = yard.supervisor(project, dispatch)
        for before in ("work", "oracle", "review", "queue"):
            if before == purpose:
                break
            (yard.scripts / before).touch()
        yard.look_until(supervisor, lambda: is_at_job(yard, project, dispatch, purpose))
        run, keeper, leader = present_job(yard, project, dispatch)
        yard.look_until(supervisor, lambda: yard.times("one") or purpose != "work")
        for pid in {"keeper": (keeper,), "both": (keeper, leader), "leader": (leader,)}[whom]:
            os.kill(pid, signal.SIGKILL)
        for gate in ("work", "oracle", "review", "queue"):
            (yard.scripts / gate).touch()
        assert yard.run(project, dispatch) == "done"  # a new supervisor, which knows nothing
        yard.check(project, dispatch)
        one = one_of(yard, project, dispatch)
        assert one.state == "integrated"
        again = [found for found in one.runs if found.purpose == purpose]
        if whom == "keeper" and purpose in ("work", "review"):
            assert len(again) == 1, "what went on was not waited for"
        elif whom != "leader":
            assert [found.ending for found in again] == [
                "lost",
                "exited" if purpose == "work" else "answered" if purpose == "review" else "passed",
            ]
            assert one.attempt == 1
            assert {back.why for back in one.returns} <= {"attempt"}, "the author is blamed"
        assert run.id in {found.id for found in one.runs}


class Boot(Files):
    def __init__(self, name):
        self._name = name

    def boot_id(self):
        return self._name


@pytest.mark.slow
def test_after_a_restart_of_the_machine_work_is_done_again_and_strangers_are_left_alone(yard):
    root = str(yard.folder / ".periplus")
    with Project(root, Writer.named("ada"), files=Boot("one")) as project:
        plan = yard.plan(
            project,
            one=[
                [SPENT, {"write": {"n/b": "4"}}, {"hang": {}}],
                [{"write": {"n/c": "2"}}, {"result": {"status": "done"}}],
            ],
        )
        dispatch = yard.order(project, plan)
        supervisor = yard.supervisor(project, dispatch)
        yard.look_until(supervisor, lambda: list(yard.state.glob("dispatch/*/worktrees/*/n/b")))
        _, keeper, leader = present_job(yard, project, dispatch)
        os.kill(keeper, signal.SIGKILL)
    try:
        with Project(root, Writer.named("ada"), files=Boot("two")) as project:
            assert yard.run(project, dispatch) == "done"
            yard.check(project, dispatch)
            one = one_of(yard, project, dispatch)
            assert [run.ending for run in one.runs] == ["lost", "exited", "passed", "passed"]
            assert git(yard.folder, "show", f"{dispatch.value['branch']}:n/b") == "4", "what it had written is lost"
        os.kill(leader, 0)  # of another boot: its number may be anybody's
    finally:
        os.kill(leader, signal.SIGKILL)


DAY_MS = 24 * 3600 * 1000


@pytest.mark.slow
@pytest.mark.parametrize("jumps", [(1,), (-1,), (1, -1), (-1, 1), (1, 1, 1)])
@pytest.mark.parametrize("state", ["running", "waiting", "submitted", "verified"])
def test_the_clock_is_set(yard, jumps, state):
    clock = FixedClock(SystemClock().now_ms(), 1)
    with Project(str(yard.folder / ".periplus"), Writer.named("ada"), clock=clock) as project:
        dispatch = gated(yard, project, limits={"silence_s": 30})
        supervisor = yard.supervisor(project, dispatch)
        look_until(yard, project, dispatch, supervisor, state)
        for days in jumps:
            clock.advance(days * DAY_MS)
            # Whoever claims something notes the end of claims that are over.
            acquire(project.journal, Writer.named("bob"), Asked((f"other{days}",), text="mine"))
            for _ in range(3):
                supervisor.look()
        one = one_of(yard, project, dispatch)
        assert one.state not in ("cancelled", "failed", "timed_out"), one.reason
        claim = project.journal.get("claim", one.claim)
        assert claim.value["state"] == "held"
        assert go_on(yard, project, dispatch, supervisor) == "done"
        one = one_of(yard, project, dispatch)
        assert (one.state, one.attempt) == ("integrated", 1)


@pytest.mark.slow
def test_what_somebody_else_claims_while_nobody_kept_the_claim_is_theirs(yard):
    clock = FixedClock(SystemClock().now_ms(), 1)
    with Project(str(yard.folder / ".periplus"), Writer.named("ada"), clock=clock) as project:
        dispatch = gated(yard, project)
        supervisor = yard.supervisor(project, dispatch)
        look_until(yard, project, dispatch, supervisor, "running")
        clock.advance(DAY_MS)
        acquire(project.journal, Writer.named("bob"), Asked(("n/b",), text="mine"))
        assert supervisor.run() == "stopped"
        one = one_of(yard, project, dispatch)
        assert one.state == "cancelled"
        assert "bob has claimed" in one.reason
        yard.check(project, dispatch)


def test_what_agents_commit_is_on_the_disk_before_a_record_tells_of_it(yard):
    told = []

    class Logged(Files):
        def sync_everything(self, path):
            told.append("sync")
            return super().sync_everything(path)

    with Project(str(yard.folder / ".periplus"), Writer.named("ada"), files=Logged()) as project:
        plan = yard.plan(project, one=[edit("n/b", "4", "Four")])
        dispatch = yard.order(project, plan)
        assert yard.supervisor(project, dispatch, told=lambda one: told.append(one.value["state"])).run() == "done"
    assert "sync" in told[: told.index("submitted")][-1:]


# -- a full disk --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(yard):
    """The state folder on a disk of few megabytes."""
    yard.state.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", yard.state], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    yield yard.state
    subprocess.run(["umount", "-l", yard.state], check=False)


def fill(path):
    """Fill a disk to its last byte."""
    with open(path, "wb", 0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_worker_that_fills_the_disk_fails_and_another_attempt_goes_on(yard, small_disk):
    big = {"python": "open('big', 'wb').write(b'x' * (9 << 20))"}
    with yard.open() as project:
        plan = yard.plan(project, one=[[SPENT, {"write": {"n/b": "4"}}, big], edit("n/c", "6", "Six")])
        dispatch = yard.order(project, plan, limits={"retries": 0})
        assert yard.run(project, dispatch) == "stopped"
        one = one_of(yard, project, dispatch)
        assert (one.state, one.tokens_in) == ("failed", 60)
        assert "it ended with 1" in one.reason
        assert git(yard.folder, "show", f"{one.branch}:n/b") == "4", "what it had done is lost"
        (left,) = small_disk.glob("dispatch/*/worktrees/*/big")
        left.unlink()
        (assignment,) = yard.supervisor(project, dispatch).workplace.assignments()
        change_assignment(project.journal, Writer.named("bob"), assignment, fields={"granted": 2})
        change_dispatch(project.journal, Writer.named("bob"), dispatch.item_id, state="open")
        assert yard.run(project, dispatch) == "done", one_of(yard, project, dispatch)
        assert one_of(yard, project, dispatch).state == "integrated"
        yard.check(project, dispatch)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize("state", STATES)
def test_a_disk_that_is_full_for_a_while_costs_time_alone(yard, small_disk, state):
    with yard.open() as project:
        dispatch = gated(yard, project)
        supervisor = yard.supervisor(project, dispatch)
        look_until(yard, project, dispatch, supervisor, state)
        filler = small_disk / "filler"
        fill(filler)
        for question in open_questions(project.journal):
            answer_question(project.journal, Writer.named("bob"), question.item_id, "4")
        for _ in range(10):
            supervisor.look()
        filler.unlink()
        assert go_on(yard, project, dispatch, supervisor) == "done", one_of(yard, project, dispatch)
        one = one_of(yard, project, dispatch)
        assert one.state == "integrated"
