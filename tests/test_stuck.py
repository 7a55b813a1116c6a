"""Work that nobody can start, which clones made apart: it is told until somebody settles it, by every way there is."""

from __future__ import annotations

import shlex

import pytest

from cli_support import shared_project
from periplus.project import Project
from support import WRITER


@pytest.fixture
def team(tmp_path):
    """``(ada, bob, a plan that both know, its two steps)``."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    made = ada.json("plan", "make", "Sell on Sundays", "--step", "Open the shop", "--step", "Find flowers")
    bob("sync", "--with", ada.folder)
    return ada, bob, made.plan.id, [step.id for step in made.steps]


def settled(shell):
    return shell.json("review").due == [] and shell.json("status").stuck == []


def run_command(shell, command):
    for one in command.split(" && "):
        shell(*shlex.split(one)[1:])


@pytest.mark.parametrize("state", ["done", "drop"])
@pytest.mark.parametrize("way", ["command", "otherwise"])
def test_a_step_that_was_added_to_a_plan_that_ended(team, state, way):
    ada, bob, plan, _steps = team
    ada("plan", state, plan)
    late = bob.json("plan", "add", plan, "Ask the mayor").steps[0].id
    assert settled(ada)
    [said] = ada.json("sync", "--with", bob.folder).stuck
    ended = {"done": "done", "drop": "dropped"}[state]
    assert (said.id, said.why, said.members) == (plan, "ended", [late])
    words = f"{late} is open, and the plan {plan} is {ended}"
    for shell in (ada, bob):
        [due] = shell.json("review", code=1).due
        assert (due.id, due.stuck, due.stuck_members) == (plan, words, [late])
        assert (due.command, due.otherwise) == (said.command, said.otherwise)
        assert f"stuck: {words}\n  {said.command}\n  or else: {said.otherwise}\n" in shell("review", code=1).out
        assert shell.json("status").stuck == [plan]
        assert "plans    1 stuck: periplus review" in shell("status").out
        for command in (["plan", "ready"], ["plan", "next"], ["plan", "next", "--plan", plan]):
            out = shell(*command, code=1).out
            assert out == f"No step can be started now.\n  stuck: {words}: periplus review\n"
            assert [one.members for one in shell.json(*command, code=1).stuck] == [[late]]
        assert f"## Stuck work\n- {words}: {said.command} [{plan}]\n" in shell("brief", "Sell on Sundays").out + "\n"
    run_command(ada, getattr(due, way))
    assert settled(ada)
    assert "Stuck work" not in ada("brief", "Sell on Sundays").out
    if way == "otherwise":
        assert [step.id for step in ada.json("plan", "ready").steps] == [late]
    ada("sync", "--with", bob.folder)
    assert settled(bob)


def test_the_text_of_sync_tells_of_it(team):
    ada, bob, plan, _steps = team
    ada("plan", "drop", plan)
    late = bob.json("plan", "add", plan, "Ask the mayor").steps[0].id
    out = bob("sync", "--with", ada.folder).out
    assert f"stuck     {late} is open, and the plan {plan} is dropped: periplus review\n" in out


def test_a_step_of_a_plan_that_was_deleted(team):
    ada, bob, plan, _steps = team
    late = bob.json("plan", "add", plan, "Ask the mayor").steps[0].id
    ada("undo", "--seq", "1-3")
    ada("sync", "--with", bob.folder)
    [due] = ada.json("review", code=1).due
    assert (due.id, due.stuck, due.otherwise) == (late, f"{late} is open, and the plan {plan} is deleted", "")
    run_command(ada, due.command)
    assert settled(ada)


def test_steps_that_wait_for_each_other(team):
    ada, bob, _plan, (one, other) = team
    ada("set", one, f"depends_on={other}")
    bob("set", other, f"depends_on={one}")
    assert settled(ada)
    [said] = ada.json("sync", "--with", bob.folder).stuck
    assert (said.why, said.members, said.otherwise) == ("circle", sorted([one, other]), "")
    words = f"{', '.join(sorted([one, other]))} wait for each other"
    for shell in (ada, bob):
        [due] = shell.json("review", code=1).due
        assert (due.stuck, due.stuck_members, due.command) == (words, sorted([one, other]), said.command)
        assert shell("plan", "next", code=1).out == f"No step can be started now.\n  stuck: {words}: periplus review\n"
    run_command(ada, due.command)
    assert settled(ada)
    assert len(ada.json("plan", "ready").steps) == 1


def test_a_circle_through_a_plan_and_what_is_kept_beside_it(team):
    ada, _bob, plan, (_one, other) = team
    ada("set", plan, f"depends_on={other}")
    before = ada.json("plan", "make", "Before").plan.id
    ada("set", plan, f"depends_on={other},{before}")
    [due] = ada.json("review", code=1).due
    assert (due.id, due.stuck_members, due.command) == (
        plan,
        sorted([plan, other]),
        f"periplus set {plan} depends_on={before}",
    )
    assert ada.json("plan", "next", code=1).left == {"waiting": 1}
    assert "No step can be started now: 1 waits for others.\n" in ada("plan", "next", code=1).out


def test_undo_may_close_a_circle(team):
    ada, _, _plan, (one, other) = team
    ada("set", one, f"depends_on={other}")
    seq = ada.json("status").records
    ada("set", one, "depends_on=")
    ada("set", other, f"depends_on={one}")
    ada("undo", "--seq", str(seq + 1))
    [due] = ada.json("review", code=1).due
    assert due.stuck_members == sorted([one, other])


@pytest.mark.parametrize("way", ["command", "otherwise"])
def test_a_step_that_waits_for_what_was_dropped(team, way):
    ada, bob, plan, (one, _other) = team
    late = bob.json("plan", "add", plan, "Sell them", "--after", one).steps[0].id
    ada("plan", "drop", one)
    ada("sync", "--with", bob.folder)
    [due] = ada.json("review", code=1).due
    assert (due.id, due.stuck) == (late, f"{late} waits for {one}, which was dropped or deleted")
    assert due.command == f"periplus set {late} depends_on="
    run_command(ada, getattr(due, way))
    assert settled(ada)


def test_why_nothing_can_be_started_is_counted(team):
    ada, _, plan, (one, other) = team
    ada("plan", "add", plan, "Sell them", "--after", one)
    ada("plan", "next", "--step", one)
    ada("plan", "block", other)
    ada("plan", "make", "Later", "--after", plan, "--step", "Rest")
    asked = ada.json("plan", "ready", code=1)
    assert (asked.left, asked.stuck) == ({"doing": 1, "blocked": 1, "waiting": 2}, [])
    said = "No step can be started now: 1 is being done, 2 wait for others, 1 is blocked.\n"
    assert ada("plan", "ready", code=1).out == ada("plan", "next", code=1).out == said
    assert settled(ada)


def test_a_plan_with_nothing_left_is_not_told(team):
    ada, _, plan, _ = team
    ada("plan", "drop", plan)
    assert ada("plan", "next", code=1).out == "No step can be started now.\n"
    ada.fails("plan", "add", plan, "More", code=5, wrong=f"`periplus state {plan} todo`")
    ada("state", plan, "todo")
    ada("plan", "done", plan)
    ada.fails("plan", "add", plan, "More", code=5, wrong=f"`periplus state {plan} review`")


def test_wide_and_long_circles_are_found_whole(tmp_path):
    from periplus.memory.coordination.plans import NewStep, make_plan
    from periplus.memory.coordination.stuck_work import stuck_work

    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), WRITER) as project:
        made = make_plan(project.journal, WRITER, "Long", [NewStep(f"Step {number}") for number in range(400)])
        ids = [step.item_id for step in made.steps]

        def close(at):
            for before, step in zip(ids[-1:] + ids[:-2], ids[:-1], strict=True):
                held = at.get("step", step)
                at.put("step", step, {**held.value, "depends_on": [before]}, expect=held.version)
            held = at.get("step", ids[-1])
            at.put("step", ids[-1], {**held.value, "depends_on": [ids[-2]]}, expect=held.version)

        project.journal.mutate(close, WRITER)
        [found] = stuck_work(project.journal)
    assert found.members == tuple(sorted(ids))
