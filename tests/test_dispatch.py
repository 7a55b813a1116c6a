"""A plan goes in, merged and verified work comes out: whole dispatches with scripted workers, real git and real processes."""

from __future__ import annotations

import os
import sys

import pytest

from dispatch_support import Yard, edit, git
from periplus.dispatch.supervision.old_runs import forget_runs
from periplus.journal import Writer
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.dispatches import answer_question, open_questions
from periplus.project.trail_store.model_costs import trail_costs


@pytest.fixture
def yard(tmp_path):
    return Yard(tmp_path)


def test_a_plan_of_two_steps(yard):
    with yard.open() as project:
        plan = yard.plan(
            project, one=[edit("n/b", "4", "Add b")], two={"attempts": [edit("n/c", "6")], "after": ["one"]}
        )
        before = git(yard.folder, "status", "--porcelain=v2", "--branch", "--untracked-files=all")
        dispatch = yard.order(project, plan)
        assert yard.run(project, dispatch) == "done"
        found = yard.assignments(project, dispatch)
        assert {name: one.state for name, one in found.items()} == {"one": "integrated", "two": "integrated"}
        held, steps = project.work.plan(plan.plan.item_id)
        assert [one.value["state"] for one in (held, *steps)] == ["done", "done", "done"]
        assert project.work.claims() == []
        branch = dispatch.value["branch"]
        assert git(yard.folder, "show", f"{branch}:n/b") == "4"
        assert git(yard.folder, "show", f"{branch}:n/c") == "6"
        assert yard.history_passes(branch) == 3
        assert git(yard.folder, "status", "--porcelain=v2", "--branch", "--untracked-files=all") == before
        assert list((yard.state / "dispatch").glob("*/worktrees/*-????????")) == []
        assert "Do one" in yard.prompt("one")
        assert found["two"].runs[0].trail


def done(yard, project, dispatch, outcome="done"):
    assert yard.run(project, dispatch) == outcome
    return yard.assignments(project, dispatch)


def test_work_that_fails_its_check_goes_back_with_what_the_check_said(yard):
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/b", "3", "Odd"), edit("n/b", "4", "Even")])
        dispatch = yard.order(project, plan)
        found = done(yard, project, dispatch)["one"]
        assert (found.state, [one.why for one in found.returns]) == ("integrated", ["oracle"])
        assert "sum 5" in yard.prompt("one", 1)
        assert [run.purpose for run in found.runs] == ["work", "oracle", "work", "oracle", "queue"]
        assert yard.history_passes(dispatch.value["branch"]) == 2


def test_what_passes_apart_and_fails_together_goes_back(yard):
    """The check refuses three numbers: each branch has two, and the merge of both three."""
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/b", "0", "b")], two=[])
        dispatch = yard.order(
            project, plan, oracle=(sys.executable, "-c", "import os,sys;sys.exit(len(os.listdir('n'))==3)")
        )
        merge = {"git": ["merge", "-q", "--no-edit", dispatch.value["branch"]]}
        yard.script(
            "two",
            [{"wait_for": str(yard.scripts / "one.count")}, *edit("n/c", "0", "c")],
            [merge, *edit("n/d", "0", "d")],
        )
        found = done(yard, project, dispatch)
        assert {one.state for one in found.values()} == {"integrated"}
        returns = [back.why for one in found.values() for back in one.returns]
        assert returns == ["queue"]
        assert len(git(yard.folder, "ls-tree", f"{dispatch.value['branch']}:n").splitlines()) == 4


def test_a_conflict_goes_back_to_its_author_once_and_then_to_a_person(yard):
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/a", "4", "Four")], two=[])
        dispatch = yard.order(project, plan, limits={"rounds": 5})
        branch = dispatch.value["branch"]
        six = edit("n/a", "6", "Six")
        merge = [{"git": ["merge", "-q", "-X", "ours", "--no-edit", branch]}]
        yard.script(
            "two", [{"wait_for": str(yard.scripts / "one.count")}, *six], edit("n/a", "8", "Eight"), [*merge, *six]
        )
        supervisor = yard.supervisor(project, dispatch)
        yard.look_until(supervisor, lambda: open_questions(project.journal))
        (question,) = open_questions(project.journal)
        assert "conflicts with" in question.value["text"]
        assert "n/a" in question.value["text"]
        loser = next(one for one in yard.assignments(project, dispatch).values() if one.state == "waiting")
        assert [back.why for back in loser.returns] == ["conflict"]
        if "[script two]" in loser.text:
            assert "+4" in yard.prompt("two", 1)
            assert "+6" in yard.prompt("two", 1)
        answer_question(project.journal, Writer.named("ada"), question.item_id, "Take six.")
        assert supervisor.run() == "done"
        assert git(yard.folder, "show", f"{branch}:n/a") == "6"
        assert "Take six." in yard.prompt("two", 2)


def test_a_failed_attempt_is_retried_and_the_step_waits_for_nothing_afterwards(yard):
    with yard.open() as project:
        plan = yard.plan(
            project,
            one=[[{"say": "I cannot"}, {"exit": 3}], edit("n/b", "4")],
            two=[[{"lie": "all done"}, {"exit": 0}]],
        )
        dispatch = yard.order(project, plan, agents=("scripted", "other"))
        found = done(yard, project, dispatch)
        one = found["one"]
        assert (one.state, one.attempt) == ("integrated", 2)
        assert len({run.agent for run in one.runs if run.purpose == "work"}) == 2
        assert "I cannot" in yard.prompt("one", 1)
        assert found["two"].state == "integrated"
        assert found["two"].merged == ""


def test_a_step_that_never_succeeds_ends_truly_and_stops_what_waits_for_it(yard):
    with yard.open() as project:
        bad = [[{"exit": 1}]]
        plan = yard.plan(
            project, one=bad, two={"attempts": [edit("n/b", "2")], "after": ["one"]}, three=[edit("n/c", "2")]
        )
        dispatch = yard.order(project, plan)
        found = done(yard, project, dispatch, "stopped")
        assert (found["one"].state, found["one"].attempt) == ("failed", 2)
        assert "two" not in found
        assert found["three"].state == "integrated"
        assert "2 steps are left" in project.journal.get("dispatch", dispatch.item_id).value["reason"]
        assert project.work.claims() == []


def test_a_question_is_answered_by_a_person(yard):
    with yard.open() as project:
        asks = [{"question": {"question": "Which?", "options": ["4", "6"]}}]
        plan = yard.plan(project, one=[asks, edit("n/b", "4")])
        dispatch = yard.order(project, plan)
        supervisor = yard.supervisor(project, dispatch)
        yard.look_until(supervisor, lambda: open_questions(project.journal))
        (question,) = open_questions(project.journal)
        assert (question.value["text"], question.value["options"]) == ("Which?", ["4", "6"])
        answer_question(project.journal, Writer.named("ada"), question.item_id, "4, please")
        assert supervisor.run() == "done"
        assert "4, please" in yard.prompt("one", 1)


def test_another_agent_reviews_and_its_findings_go_back(yard):
    finding = {"severity": "blocking", "path": "n/b", "line": 1, "text": "Not large enough"}
    reviews = [
        [{"review": {"verdict": "changes", "findings": [finding]}}],
        [{"review": {"verdict": "approve", "findings": []}}],
    ]
    with yard.open() as project:
        plan = yard.plan(
            project, one={"attempts": [edit("n/b", "4", "Four"), edit("n/b", "40", "Forty")], "review": reviews}
        )
        dispatch = yard.order(project, plan, reviewers=("scripted", "other"))
        found = done(yard, project, dispatch)["one"]
        assert (found.state, found.verdict) == ("integrated", "approve")
        assert [back.why for back in found.returns] == ["review"]
        assert {run.agent for run in found.runs if run.purpose == "review"} == {"other"}
        assert "Not large enough" in yard.prompt("one", 1)
        assert "+4" in yard.prompt("one.review", 0)
        assert git(yard.folder, "show", f"{dispatch.value['branch']}:n/b") == "40"


@pytest.mark.slow
def test_a_worker_without_a_sign_of_life_is_stopped_and_one_that_computes_is_not(yard):
    with yard.open() as project:
        plan = yard.plan(
            project, one=[[{"write": {"n/b": "4"}}, {"hang": {"ignores_term": True}}]], two=[[{"hang": {"works": True, "seconds": 4}}, *edit("n/c", "2")]]
        )  # fmt: skip
        dispatch = yard.order(project, plan, limits={"silence_s": 2, "retries": 0})
        found = done(yard, project, dispatch, "stopped")
        assert (found["one"].state, found["two"].state) == ("timed_out", "integrated")
        assert "no sign of life" in found["one"].reason
        # What it had not committed is on its branch.
        assert git(yard.folder, "show", f"{found['one'].branch}:n/b") == "4"


def test_a_worktree_that_grows_beyond_its_limit_ends_the_attempt(yard):
    with yard.open() as project:
        plan = yard.plan(project, one=[[{"write": {"big": "x" * 3_000_000}}, {"hang": {}}]])
        dispatch = yard.order(project, plan, limits={"disk_bytes": 2_000_000, "retries": 0})
        found = done(yard, project, dispatch, "stopped")["one"]
        assert (found.state, found.reason) == ("timed_out", "its worktree grew beyond its limit")


def test_usage_is_summed_and_its_limit_stops_the_dispatch(yard):
    with yard.open() as project:
        spent = {"usage": {"tokens_in": 1000, "cached": 400, "out": 50, "cost": 0.01}}
        plan = yard.plan(
            project,
            one=[[spent, spent, *edit("n/b", "2")]],
            two={"attempts": [[spent, {"hang": {}}]], "after": ["one"]},
        )
        dispatch = yard.order(project, plan, limits={"tokens": 2800, "retries": 0})
        found = done(yard, project, dispatch, "stopped")
        one = found["one"]
        assert (one.tokens_in, one.cached, one.out, one.cost) == (1200, 800, 100, 20_000)
        assert trail_costs(project, one.runs[0].trail) == (1200, 800, 100, 20_000)
        assert found["two"].state == "timed_out"
        assert "limit of tokens" in project.journal.get("dispatch", dispatch.item_id).value["reason"]


def test_what_others_have_claimed_is_not_taken_in(yard):
    with yard.open() as project:
        project.work.claim(Asked(("n/x",), text="mine"))
        plan = yard.plan(
            project, one=[edit("n/x", "2", "Not mine"), [{"git": ["revert", "--no-edit", "HEAD"]}, *edit("n/b", "2")]]
        )
        dispatch = yard.order(project, plan)
        found = done(yard, project, dispatch)["one"]
        assert [back.why for back in found.returns] == ["claim"]
        assert "n/x is claimed by ada" in yard.prompt("one", 1)
        assert "n/x" not in git(yard.folder, "ls-tree", "-r", "--name-only", dispatch.value["branch"]).splitlines()


def test_old_runs_are_forgotten_but_those_at_work(yard):
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/b", "4")])
        dispatch = yard.order(project, plan)
        found = done(yard, project, dispatch)["one"]
        supervisor = yard.supervisor(project, dispatch)
        runs = [supervisor.workplace.places.run(run.id) for run in found.runs]
        for run in runs[:-1]:
            os.utime(run, (0, 0))
        assert forget_runs(supervisor.workplace) == len(runs) - 1
        assert [os.path.exists(run) for run in runs] == [False, False, True]


def test_worktrees_get_folders_of_the_checkout_that_are_no_work(yard):
    with yard.open() as project:
        for name in ("modules", "cache"):
            (yard.folder / name).mkdir()
            (yard.folder / name / "x").write_text(name)
        acts = [{"append": {"cache/x": "!"}}, {"git": ["add", "-A"]}, *edit("n/b", "4")]
        plan = yard.plan(project, one=[acts])
        dispatch = yard.order(project, plan, links=("modules",), copies=("cache",), oracle=("test", "-e", "modules/x"))
        done(yard, project, dispatch)
        files = git(yard.folder, "ls-tree", "-r", "--name-only", dispatch.value["branch"]).splitlines()
        assert "n/b" in files
        assert not [name for name in files if name.startswith(("modules", "cache"))]
        assert (yard.folder / "cache/x").read_text() == "cache"


def test_what_was_merged_of_others_is_no_work_of_ones_own(yard):
    """Bob claims what step one changed; step two merges that into its branch, and has not touched it."""
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/a", "4", "Four")], two=[])
        dispatch = yard.order(project, plan)
        go = yard.scripts / "go"
        merge = {"git": ["merge", "-q", "--no-edit", dispatch.value["branch"]]}
        yard.script(
            "two", [{"write": {"n/b": "2"}}, {"commit": "b"}, {"wait_for": str(go)}, merge, *edit("n/c", "2", "c")]
        )
        supervisor = yard.supervisor(project, dispatch)
        yard.look_until(
            supervisor, lambda: "integrated" in {one.state for one in yard.assignments(project, dispatch).values()}
        )
        project.work.claim(Asked(("n/a",), text="mine now"))
        go.touch()
        assert supervisor.run() == "done"
        two = yard.assignments(project, dispatch)["two"]
        assert (two.state, two.returns) == ("integrated", ())


def test_what_an_agent_leaves_in_a_folder_of_its_own_is_no_work(yard):
    """aider keeps a cache in such a folder: committed for it, it made a run without any work count as done."""
    name = "scripted"
    yard.options.adapters[name] = yard.options.adapters[name]._replace(leaves=(".cache*",))
    with yard.open() as project:
        plan = yard.plan(project, one=[[{"write": {".cache.v4/cache.db": "x"}}]])
        dispatch = yard.order(project, plan, limits={"retries": 0})
        found = done(yard, project, dispatch, "stopped")["one"]
        assert (found.state, found.tip) == ("failed", found.base)
