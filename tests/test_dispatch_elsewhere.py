"""Dispatched work as others see it: in plans, the inbox, who, status, briefs, undo, sync, and the trails that it costs."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cli_support import Shell
from hook_support import hook
from periplus.base.clock import SystemClock
from periplus.base.errors import NotFoundError, RefusedError
from periplus.base.ids import new_id
from periplus.base.process.process_marks import process_mark
from periplus.cli.common.dispatch_schemas import SpentOut
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.coordination.assignments import Offer, change_assignment, is_at_work, offer_again, offer_step
from periplus.memory.coordination.claims import clashes
from periplus.memory.coordination.dispatches import (
    NewDispatch,
    NewQuestion,
    answer_question,
    ask_person,
    change_dispatch,
    open_questions,
    start_dispatch,
)
from periplus.memory.coordination.plans import NewStep
from periplus.memory.coordination.sessions import NewSession
from periplus.memory.entities.types import DISPATCHED, MEMORY_TYPES
from periplus.project import Project
from periplus.project.migration import migrate
from periplus.project.trail_store.model_costs import TrailCosts, trail_costs
from periplus.server.mcp.tool_arguments import ClaimArguments, MessageArguments, PlanArguments
from periplus.server.mcp.write_tools import run_claim, run_message, run_plan
from sampling import seed
from support import ADA, BOB, record_count

pytestmark = pytest.mark.quick


@pytest.fixture
def clock():
    """The time of the commands, which judge claims and questions by it."""
    return SystemClock()


@pytest.fixture
def shell(ada, tmp_path):
    (tmp_path / "home").mkdir()
    return Shell(Path(ada.folder), tmp_path / "home")


def dispatched(project, *, agents=("codex",), plan=None):
    """A plan of three steps, the third after the first, and its dispatch."""
    steps = [NewStep("hash", about=("src/auth.py",)), NewStep("mail", about=("src/mail.py",)), NewStep("docs", (1,))]
    made = project.work.make_plan("Move to argon2", steps) if plan is None else plan
    new = NewDispatch("Move to argon2", made.plan.item_id, agents, "main", "periplus/x", "0" * 40)
    return start_dispatch(project.journal, project.writer, new), made


def offered(project, dispatch, step, agent="codex"):
    worker = Writer.named(f"{agent}-{step.item_id[-8:]}")
    offer = Offer(
        dispatch, step.item_id, agent, worker, branch=f"periplus/{step.item_id}", worktree=f"{step.item_id}-w"
    )
    return offer_step(project.journal, project.writer, offer)


def changed(project, assignment, state="", reason="", question=None, **fields):
    return change_assignment(
        project.journal, project.writer, assignment, state=state, reason=reason, fields=fields, question=question
    )


def recorded(project, *calls):
    """The id of the trail of a run with these model calls: (fresh, cached, written, cost)."""
    with project.record(title="t", checkpoints=False) as run:
        for fresh, cached, out, cost in calls:
            run.step("PROMPT", text="go on")
            run.step("MODEL_CALL", model="m", tokens_in=fresh, cached=cached, out=out, cost=cost)
    (trail,) = [one.item_id for one in project.trails() if one.value["session_id"] == run.id] or [""]
    return trail


# -- trails -------------------------------------------------------------------------------------------------------------


def test_the_costs_of_a_trail_are_the_sums_of_its_model_calls(ada):
    trail = recorded(ada, (10, 100, 3, 700), (20, 0, 4, None), (1, 2, 3, 4))
    assert trail_costs(ada, trail) == TrailCosts(31, 102, 10, 704)
    assert trail_costs(ada, recorded(ada)) == TrailCosts()
    with pytest.raises(NotFoundError):
        trail_costs(ada, "trl_0000000000000000")


# -- plans --------------------------------------------------------------------------------------------------------------


def test_a_plan_says_who_does_each_step_and_what_it_cost(ada, shell):
    dispatch, made = dispatched(ada)
    first, second, _ = made.steps
    trail = recorded(ada, (1_000, 20_000, 500, 1_250_000), (10, 0, 5, None))
    runs = [
        {"id": "r1", "agent": "codex", "started": "2026-01-02T03:04:05.000Z", "tokens_in": 7, "cost": 9},
        {
            "id": "r2",
            "agent": "codex",
            "started": "2026-01-02T03:14:05.000Z",
            "trail": trail,
            "tokens_in": 1,
            "cost": 1,
        },
        {"id": "r3", "agent": "codex", "trail": "trl_0000000000000000", "out": 2},
    ]
    held = changed(
        ada, offered(ada, dispatch, first), "running", run="r2", runs=runs, wall_ms=200_000, tokens_in=8, attempt=2
    )
    failed = changed(
        ada, offered(ada, dispatch, second, "gemini"), "failed", "tests fail", tokens_in=100, wall_ms=5_000
    )
    told = shell.json("plan", "show", made.plan.item_id)
    mine, other, none = (step.assignment for step in told.steps)
    assert (mine.id, mine.agent, mine.state, mine.attempt) == (held.item_id, "codex", "running", 2)
    assert (mine.since, mine.theirs) == ("2026-01-02T03:14:05.000Z", False)
    costs = trail_costs(ada, trail)
    assert mine.spent == SpentOut(costs.tokens_in + 7, costs.cached, costs.out + 2, costs.cost + 9, 200_000)
    assert (other.state, other.reason, other.branch) == ("failed", "tests fail", f"periplus/{second.item_id}")
    assert none is None
    assert told.plan.spent.tokens_in == mine.spent.tokens_in + other.spent.tokens_in
    assert (told.plan.spent.cost, told.plan.spent.wall_ms) == (mine.spent.cost, 205_000)
    out = shell("plan", "show", made.plan.item_id).out
    assert f"codex running since 2026-01-02T03:14Z, attempt 2: 21,524 tokens, $1.25, 3 min [{held.item_id}]" in out
    assert f"gemini failed (tests fail): 100 tokens, 5 s [{failed.item_id}]" in out
    assert "  cost: 21,624 tokens, $1.25, 3 min" in out
    assert shell.json("plan", "list").plans[0].spent.tokens_in == 108
    assert "0 of 3 done, 108 tokens, 3 min: Move to argon2" in shell("plan", "list").out


def test_a_plan_without_a_dispatch_is_as_before(ada, shell):
    made = ada.work.make_plan("Alone", [NewStep("one")])
    told = shell.json("plan", "show", made.plan.item_id)
    assert (told.plan.spent, told.steps[0].assignment) == (None, None)
    assert shell("plan", "list").lines == [f"{made.plan.item_id} todo, 0 of 1 done: Alone"]


def test_the_tool_says_who_does_each_step(ada):
    dispatch, made = dispatched(ada)
    held = changed(ada, offered(ada, dispatch, made.steps[0]), "running", run="r1", tokens_in=5)
    (plan, *steps) = run_plan(ada, PlanArguments()).entries
    assert "0 of 3 steps done, cost 5 tokens" in plan.text
    assert plan.data["spent"]["tokens_in"] == 5
    assert [one.data["id"] for one in steps] == [one.item_id for one in made.steps[:2]]
    assert "codex running since " in steps[0].text
    assert steps[0].data["assignment"]["id"] == held.item_id
    shown = run_plan(ada, PlanArguments(action="show", plan=made.plan.item_id))
    assert shown.data["spent"]["tokens_in"] == 5
    assert "assignment" not in shown.entries[2].data


# -- questions ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(ada):
    """A question that the agent of the first step waits with."""
    dispatch, made = dispatched(ada)
    held = changed(ada, offered(ada, dispatch, made.steps[0]), "running", run="r1")
    worker = f"codex-{made.steps[0].item_id[-8:]}"
    new = NewQuestion("Which salt?", dispatch.item_id, held.item_id, worker, ("8", "16"))
    changed(ada, held, "waiting", question=new)
    (question,) = open_questions(ada.journal)
    return question


def test_the_inbox_shows_questions_and_how_to_answer(ada, shell, asked):
    out = shell("inbox").lines
    assert f"{asked.value['asker']} asks, about {asked.value['assignment']}; waits for an answer" in out[0]
    assert out[1:] == ["  Which salt? (8 / 16)", f"  Next: periplus dispatch answer {asked.item_id} TEXT"]
    (told,) = shell.json("inbox", "list").questions
    assert (told.options, told.command) == (["8", "16"], f"periplus dispatch answer {asked.item_id} TEXT")
    assert "Which salt?" in shell("inbox", "list").out
    shell.fails("inbox", "answer", asked.item_id, " ", code=2, wrong="the answer is empty")
    assert "  answer: 16" in shell("inbox", "answer", asked.item_id[:10], "16").out
    ada.journal.refresh()
    answered = ada.show(asked.item_id).value
    assert (answered["state"], answered["answer"], answered["answered_by"]) == ("answered", "16", "ada")
    assert shell("inbox", code=1).lines == ["No mail."]


def test_who_asks_does_not_answer(ada, shell, asked):
    name = str(asked.value["asker"])
    for how in ({"env": {"PERIPLUS_AGENT": name}}, {}):
        words = () if how else ("--as", name)
        shell.fails("inbox", "answer", asked.item_id, "8", *words, code=5, wrong="cannot answer it", **how)
    nameless = ask_person(ada.journal, BOB, NewQuestion("And pepper?", "", str(asked.value["assignment"])))
    shell.fails("inbox", "answer", nameless.item_id, "no", "--as", name, code=5, wrong="cannot answer it")
    assert len(open_questions(ada.journal)) == 2


def test_the_tool_shows_questions_and_answers_none(ada, asked):
    (entry,) = run_message(ada, MessageArguments()).entries
    assert entry.data["id"] == asked.item_id
    assert f"periplus dispatch answer {asked.item_id} TEXT" in entry.text
    with pytest.raises(RefusedError, match="a question to a person"):
        run_message(ada, MessageArguments(action="answer", id=asked.item_id, text="8"))
    assert ada.show(asked.item_id).value["state"] == "open"


# -- who and status -----------------------------------------------------------------------------------------------------


def carried(project, dispatch, pid):
    """As if the process ``pid`` were the supervisor of the dispatch."""
    mark = process_mark(pid, project.journal.files)._asdict()
    return change_dispatch(project.journal, project.writer, dispatch.item_id, fields={"process": mark})


def test_who_and_status_tell_agents_at_work_and_who_carries_them(ada, shell, asked):
    dispatch = ada.show(str(asked.value["dispatch"]))
    told = shell.json("who")
    (agent,), (progress,), (question,) = told.agents, told.dispatches, told.questions
    assert (agent.agent, agent.state, agent.paths, agent.theirs) == ("codex", "waiting", ["src/auth.py"], False)
    assert (progress.done, progress.steps, progress.supervisor) == (0, 3, "gone")
    assert progress.resume == f"periplus dispatch start --resume {dispatch.item_id}"
    assert question.id == asked.item_id
    out = shell("who").out
    assert f"codex waiting since {agent.since[:16]}Z: hash (src/auth.py) [{agent.id}]" in out
    assert f"{dispatch.item_id} Move to argon2: 0 of 3 steps done, supervisor gone: {progress.resume}" in out
    status = shell("status").out
    assert f"dispatch {dispatch.item_id}: 0 of 3 steps done, supervisor gone: {progress.resume}" in status
    assert "agents   1 at work here: periplus who" in status
    assert "ask      1 question for a person to answer: periplus inbox mail" in status
    assert "1 dispatch," in status
    carried(ada, dispatch, os.getpid())
    assert "0 of 3 steps done, supervisor alive" in shell("status").out
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    carried(ada, dispatch, child.pid)
    child.communicate(b"\n")
    document = shell.json("status")
    assert (document.dispatches[0].supervisor, document.at_work, document.questions) == ("gone", 1, 1)


def test_what_a_stopped_dispatch_left_is_not_at_work(ada, shell, asked):
    change_dispatch(ada.journal, ada.writer, str(asked.value["dispatch"]), state="stopped")
    assert shell("who", code=1).lines == ["Nobody works here now."]
    status = shell("status").out
    assert "agents " not in status
    assert "ask " not in status


# -- briefs -------------------------------------------------------------------------------------------------------------


def titles(project, task=""):
    return {section.title: [line.text for line in section.lines] for section in project.brief(task).sections}


def test_a_brief_tells_what_other_agents_do_now(ada, clock):
    dispatch, made = dispatched(ada)
    held = changed(ada, offered(ada, dispatch, made.steps[0]), "running", run="r1")
    other = offered(ada, dispatch, made.steps[1], "gemini")
    found = titles(ada, "Send mail")
    assert [line.rpartition(" ")[2] for line in found["Other agents at work"]] == [
        f"[{held.item_id}]",
        f"[{other.item_id}]",
    ]
    assert found["Other agents at work"][0].startswith("- codex running since ")
    assert ": hash (src/auth.py)" in found["Other agents at work"][0]
    assert "Claims of others" not in found
    worker = Writer.named(f"codex-{made.steps[0].item_id[-8:]}")
    with Project(ada.root, worker, clock=clock) as project:
        (line,) = titles(project, "Send mail")["Other agents at work"]
        assert "gemini offered" in line
        assert project.brief("Send mail", budget_tokens=100).tokens <= 100
    changed(ada, other, "cancelled")
    changed(ada, ada.show(held.item_id), "failed")
    assert "Other agents at work" not in titles(ada, "Send mail")


def test_the_tool_lists_agents_at_work_beside_claims(ada, asked):
    entries = run_claim(ada, ClaimArguments()).entries
    assert entries[-1].data["id"] == asked.value["assignment"]
    assert entries[-1].data["paths"] == ["src/auth.py"]


def test_a_brief_tells_where_the_work_of_a_failed_assignment_lies(ada, clock):
    dispatch, made = dispatched(ada)
    step = made.steps[0]
    held = changed(ada, offered(ada, dispatch, step), "running", run="r1")
    held = changed(ada, held, "timed_out", "over an hour")
    left = (
        f"codex timed out (over an hour); its work is on the branch periplus/{step.item_id}, in the worktree {step.item_id}-w:"
        f" periplus dispatch show {held.item_id}"
    )
    assert f"tried before: {left}" in titles(ada)["Ready plan steps"][0]
    for task in (step.item_id, f"Go on with {step.item_id}", "hash"):
        assert titles(ada, task)["Earlier attempts at this step"] == [f"- hash: {left} [{held.item_id}]"]
    assert "Earlier attempts at this step" not in titles(ada, "rehash everything")
    worker = Writer.named(f"gemini-{step.item_id[-8:]}")
    with Project(ada.root, worker, clock=clock) as project:
        project.work.take(step=step.item_id)
        assert titles(project)["Earlier attempts at this step"] == [f"- hash: {left} [{held.item_id}]"]
        project.work.change_state([step.item_id], "done")
        assert "Earlier attempts at this step" not in titles(project, step.item_id)


def test_a_worker_is_told_of_the_attempts_before_its_own(ada, clock):
    dispatch, made = dispatched(ada)
    held = changed(ada, offered(ada, dispatch, made.steps[0]), "failed", "silent for 900 s")
    worker = Writer.named(f"codex-{made.steps[0].item_id[-8:]}")
    offer = Offer(dispatch, made.steps[0].item_id, "codex", worker, branch=f"periplus/{made.steps[0].item_id}")
    offer_again(ada.journal, ADA, held, offer)
    with Project(ada.root, worker, clock=clock) as project:
        (line,) = titles(project)["Earlier attempts at this step"]
    branch = f"its work is on the branch periplus/{made.steps[0].item_id}"
    assert line == f"- attempt 1 ended: silent for 900 s; {branch} [{held.item_id}]"


def test_assignments_are_no_news_of_their_own(ada, bob):
    bob.work.begin_session(NewSession("s"))
    bob.work.seal_session("s")
    dispatch, made = dispatched(ada)
    changed(ada, offered(ada, dispatch, made.steps[0]), "running", run="r1")
    assert {one.item_type for one in bob.changed("s").items} == {"dispatch", "plan", "step"}


@pytest.mark.slow
def test_a_session_of_a_dispatched_agent_begins_without_a_second_brief(ada):
    ada.remember(Memory("constraint", "The cogs are oiled with olive oil only"))
    ada.journal.project()

    def told(source, **environment):
        event = {"session_id": "s1", "cwd": ada.folder, "hook_event_name": "SessionStart", "source": source}
        return hook("SessionStart", event, cwd=ada.folder, environment=environment).stdout

    assert b"olive oil" in told("startup")
    assert told("startup", PERIPLUS_RUN="r1") == b""
    assert b"olive oil" in told("compact", PERIPLUS_RUN="r1")


# -- clones -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def eve(ada, tmp_path, clock):
    """In a clone, which has the settings and no journal."""
    (tmp_path / "eve/.periplus").mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        shutil.copy(tmp_path / ".periplus" / name, tmp_path / "eve/.periplus")
    with Project(os.fspath(tmp_path / "eve/.periplus"), BOB, clock=clock) as project:
        yield project


def meet(project, other):
    done = project.sync(other.folder, cwd=project.folder, environment={})
    other.journal.refresh()
    project.journal.refresh()
    return done


def test_assignments_of_another_clone_are_theirs(ada, eve, tmp_path):
    dispatch, made = dispatched(ada)
    held = changed(ada, offered(ada, dispatch, made.steps[0]), "running", run="r1")
    carried(ada, dispatch, os.getpid())
    meet(eve, ada)
    (tmp_path / "eve/home").mkdir()
    shell = Shell(Path(eve.folder), tmp_path / "eve/home")
    (agent,), (progress,) = shell.json("who").agents, shell.json("who").dispatches
    assert (agent.id, agent.theirs, progress.supervisor, progress.resume) == (held.item_id, True, "elsewhere", "")
    status = shell.json("status")
    assert (status.at_work, status.at_work_elsewhere) == (0, 1)
    assert "agents   0 at work here, 1 in other clones: periplus who" in shell("status").out
    assert "codex running in another clone since" in shell("plan", "show", made.plan.item_id).out
    assert shell.json("plan", "show", made.plan.item_id).steps[0].assignment.theirs
    assert "codex running in another clone" in titles(eve)["Other agents at work"][0]
    with pytest.raises(RefusedError, match="has an assignment already"):
        offered(eve, ada.show(dispatch.item_id), made.steps[0])


@pytest.mark.parametrize("paths", [("lib",), ()])
def test_two_clones_that_dispatch_one_plan_apart_keep_both_and_are_told(ada, eve, tmp_path, paths):
    made = ada.work.make_plan("Apart", [NewStep("one", about=paths)])
    meet(eve, ada)
    (mine, _), (theirs, _) = dispatched(ada, plan=made), dispatched(eve, plan=made)
    both = [offered(ada, mine, made.steps[0]), offered(eve, theirs, made.steps[0])]
    assert both[0].item_id != both[1].item_id
    (clash,) = meet(eve, ada).clashes
    assert (clash.mine.item_id, clash.other.item_id) == (both[1].value["claim"], both[0].value["claim"])
    assert clash.dispatch == theirs.item_id
    assert clash.scope == (paths[0] if paths else f"the step {made.steps[0].item_id}")
    for project in (ada, eve):
        assert [one.item_id for one in project.work.dispatched.at_work()] == [one.item_id for one in both]
        assert troubles(project) == []
    change_dispatch(eve.journal, BOB, theirs.item_id, state="stopped")
    meet(eve, ada)
    assert [one.item_id for one in ada.work.dispatched.at_work()] == [both[0].item_id]
    assert ada.show(made.steps[0].item_id).value["state"] == "doing"
    assert clashes(ada.journal, ada.journal.clock.now_ms()) == []


def test_the_sync_command_says_which_dispatch_has_to_stop(ada, eve, tmp_path):
    made = ada.work.make_plan("Apart", [NewStep("one", about=("lib",))])
    meet(eve, ada)
    (mine, _), (theirs, _) = dispatched(ada, plan=made), dispatched(eve, plan=made)
    offered(ada, mine, made.steps[0])
    offered(eve, theirs, made.steps[0])
    (tmp_path / "eve/home").mkdir()
    out = Shell(Path(eve.folder), tmp_path / "eve/home")("sync", "--with", ada.folder).out
    assert f"periplus dispatch stop {theirs.item_id}" in out


def troubles(project):
    """The problems that doctor finds."""
    return [one.what for one in project.examine().problems if one.severity != "note"]


# -- undo ---------------------------------------------------------------------------------------------------------------


def seq_of(project, entity):
    """The number of the last record of an entity."""
    return project.show(entity.item_id).seq


def outcomes(done):
    return {one.item_id: (one.outcome, one.reason) for one in done.entities}


def states(project, *items):
    project.journal.refresh()
    found = [project.journal.get(one.item_type, one.item_id) for one in items]
    return [one.value["state"] if one is not None else "gone" for one in found]


def test_undoing_an_offer_takes_back_all_of_it(ada):
    dispatch, made = dispatched(ada)
    held = offered(ada, dispatch, made.steps[0])
    claim = ada.show(str(held.value["claim"]))
    ada.undo(seqs=[seq_of(ada, held)])
    assert states(ada, held, claim, made.steps[0], dispatch) == ["gone", "gone", "todo", "open"]
    assert ada.work.dispatched.at_work() == []
    assert troubles(ada) == []
    assert offered(ada, dispatch, made.steps[0]).value["state"] == "offered"


def test_undoing_the_session_of_a_supervisor_takes_back_the_dispatch(ada, clock):
    made = ada.work.make_plan("Work", [NewStep("one", about=("lib",)), NewStep("two")])
    supervisor = ADA._replace(session="supervisor")
    with Project(ada.root, supervisor, clock=clock) as project:
        dispatch, _ = dispatched(project, plan=made)
        one, two = (offered(project, dispatch, step) for step in made.steps)
        one = changed(project, one, "running", run="r1")
        one = changed(project, one, "waiting", question=NewQuestion("?", dispatch.item_id, one.item_id, "x"))
        changed(project, two, "failed", "no")
    done = ada.undo(session="supervisor")
    assert {outcome for outcome, _ in outcomes(done).values()} == {"deleted", "restored"}
    assert states(ada, dispatch, one, two, *made.steps, made.plan) == ["gone", "gone", "gone", "todo", "todo", "todo"]
    assert (ada.work.claims(), open_questions(ada.journal), troubles(ada)) == ([], [], [])


def test_the_work_of_a_living_supervisor_is_not_undone(ada):
    dispatch, made = dispatched(ada)
    held = offered(ada, dispatch, made.steps[0])
    carried(ada, dispatch, os.getpid())
    before = states(ada, held, made.steps[0], dispatch)
    told = outcomes(ada.undo(seqs=[seq_of(ada, held)]))
    assert told[held.item_id] == (
        "conflict",
        f"{dispatch.item_id} is carried by its supervisor; first: periplus dispatch stop {dispatch.item_id}",
    )
    assert {outcome for outcome, _ in told.values()} == {"conflict"}
    assert states(ada, held, made.steps[0], dispatch) == before


def test_what_was_merged_stays_integrated_with_its_dispatch(ada, clock):
    made = ada.work.make_plan("Work", [NewStep("one", about=("lib",)), NewStep("two")])
    with Project(ada.root, ADA._replace(session="supervisor"), clock=clock) as project:
        dispatch, _ = dispatched(project, plan=made)
        one, two = (offered(project, dispatch, step) for step in made.steps)
        for state in ("running", "submitted", "verified"):
            one = changed(project, one, state, run="r1")
        one = changed(project, one, "integrated", merged="c" * 40)
    told = outcomes(ada.undo(session="supervisor"))
    assert told[one.item_id] == (
        "conflict",
        "its work is merged as cccccccccccc, which stays in the branch: revert it there",
    )
    assert told[dispatch.item_id] == ("conflict", f"{one.item_id} belongs to it, and stays")
    assert states(ada, dispatch, one, two, *made.steps) == ["open", "integrated", "gone", "done", "todo"]
    assert troubles(ada) == []


def test_no_undo_brings_back_work_that_nobody_may_do(ada):
    dispatch, made = dispatched(ada)
    held = changed(ada, offered(ada, dispatch, made.steps[0]), "running", run="r1")
    held = changed(ada, held, "failed", "no")
    change_dispatch(ada.journal, ADA, dispatch.item_id, state="stopped")
    told = outcomes(ada.undo(seqs=[seq_of(ada, held)]))
    assert told[held.item_id] == ("conflict", f"it would be at work, and its dispatch {dispatch.item_id} is stopped")
    again, _ = dispatched(ada, plan=made)
    other = offered(ada, again, made.steps[0])
    assert (
        outcomes(ada.undo(seqs=[seq_of(ada, dispatch)]))[dispatch.item_id][1]
        == f"{again.item_id} does the plan already"
    )
    assert states(ada, held, other, dispatch, again) == ["failed", "offered", "stopped", "open"]


def test_the_answer_that_an_agent_went_on_with_stays(ada, asked):
    answered = answer_question(ada.journal, BOB, asked.item_id, "16")
    assert outcomes(ada.undo(seqs=[answered.seq]))[asked.item_id][0] == "restored"
    assert len(open_questions(ada.journal)) == 1
    answered = answer_question(ada.journal, BOB, asked.item_id, "8")
    held = ada.show(str(asked.value["assignment"]))
    changed(ada, held, "running", run="r2")
    told = outcomes(ada.undo(seqs=[answered.seq]))
    assert told[asked.item_id] == ("conflict", f"{held.item_id} went on and does not wait for it")


def contradictions(project):
    """What the rules of dispatched work forbid, among all that the store holds."""
    found, steps = [], []
    get = project.journal.get
    for one in project.journal.entities("assignment"):
        state = one.value["state"]
        dispatch, claim, step = (get(name, one.value[name]) for name in ("dispatch", "claim", "step"))
        is_open = is_at_work(one)
        steps += [one.value["step"]] if is_open else []
        found += ["no dispatch"] if dispatch is None else []
        found += (
            [f"{state} in a dispatch {dispatch.value['state']}"]
            if is_open and dispatch.value["state"] != "open"
            else []
        )
        holds = claim is not None and claim.value["state"] == "held"
        found += [f"{state}, and its claim is held: {holds}"] if is_open != holds else []
        found += (
            [f"{state}, and its step is {step.value['state']}"] if is_open and step.value["state"] != "doing" else []
        )
        found += ["not done"] if state == "integrated" and step.value["state"] != "done" else []
    found += ["two at work on a step"] if len(steps) != len(set(steps)) else []
    for one in project.journal.entities("question"):
        waits = get("assignment", one.value["assignment"])
        found += (
            ["an open question that nobody waits with"]
            if one.value["state"] == "open" and waits.value["state"] != "waiting"
            else []
        )
    return found


def test_no_undo_of_any_records_contradicts_the_rules(ada):
    drawn = random.Random(seed())
    dispatch, made = dispatched(ada)
    first = record_count(ada) + 1
    held = {step.item_id: offered(ada, dispatch, step) for step in made.steps[:2]}
    for _ in range(12):
        step = drawn.choice(made.steps[:2])
        one = ada.journal.get("assignment", held[step.item_id].item_id)
        following = sorted(MEMORY_TYPES["assignment"].transitions[one.value["state"]]) if one is not None else []
        state = drawn.choice(following) if following else ""
        if state == "offered":
            worker = Writer.named(f"codex-{step.item_id[-8:]}")
            offer_again(ada.journal, ADA, one, Offer(dispatch, step.item_id, "codex", worker))
        elif state:
            question = NewQuestion("?", dispatch.item_id, one.item_id, "x") if state == "waiting" else None
            if one.value["state"] == "waiting":
                for asks in open_questions(ada.journal):
                    answer_question(ada.journal, BOB, asks.item_id, "yes") if asks.value[
                        "assignment"
                    ] == one.item_id else None
            changed(ada, one, state, question=question)
        assert contradictions(ada) == []
    seqs = range(first, record_count(ada) + 1)
    for _ in range(12):
        ada.undo(seqs=drawn.sample(seqs, drawn.randint(1, 3)))
        assert contradictions(ada) == []
    assert troubles(ada) == []


# -- formats ------------------------------------------------------------------------------------------------------------


GOLDEN = Path(__file__).parent / "golden" / "entities"


@pytest.mark.parametrize("name", sorted(DISPATCHED))
def test_payloads_of_version_1_are_read_whole(ada, name):
    whole, least = json.loads((GOLDEN / f"{name}-1.json").read_text())
    schema = MEMORY_TYPES[name].schema
    assert set(whole) <= set(schema.__struct_fields__), "no field was removed or renamed"
    written = json.loads(msgspec.json.encode(msgspec.convert(whole, schema)))
    assert whole | written == whole, "what is read is what was written"
    for value in (whole, least):
        item_id = new_id(MEMORY_TYPES[name].prefix)
        ada.journal.mutate(lambda at, i=item_id, v=value: at.put(name, i, v), ADA)
        assert ada.show(item_id).value == value
    ada.journal.project()
    assert [one.value["text"] for one in ada.journal.entities(name)] in (
        [whole["text"], least["text"]],
        [least["text"], whole["text"]],
    )


ARTIFACT = b"argon2, for it is slow\n" * 100
OUTPUT = b"1 failed\n" * 100


def held_of(project):
    project.journal.refresh()
    return {
        (name, one.item_id): one.value
        for name in sorted({*DISPATCHED, "claim", "step", "plan"})
        for one in project.journal.entities(name)
    }


def with_all(project, question):
    """What the store holds, a loop included."""
    (value, _) = json.loads((GOLDEN / "loop-1.json").read_text())
    value["artifacts"][0]["object"] = project.journal.objects.put(ARTIFACT).hex()
    value["checks"][0]["output"] = project.journal.objects.put(OUTPUT).hex()
    project.journal.mutate(lambda at: at.put("loop", new_id("lop"), value), ADA)
    found = held_of(project)
    assert {name for name, _ in found} >= DISPATCHED
    assert ("question", question.item_id) in found
    return found


def test_dispatched_work_is_exported_imported_and_synced_whole(ada, eve, tmp_path, asked):
    before = with_all(ada, asked)
    ada.export(os.fspath(tmp_path / "store.tar"))
    Project.import_from(os.fspath(tmp_path / "store.tar"), os.fspath(tmp_path / "copy"))
    with Project(os.fspath(tmp_path / "copy/.periplus"), ADA) as copy:
        assert held_of(copy) == before
        assert copy.journal.objects.get(hashlib.sha256(ARTIFACT).digest()) == ARTIFACT
        assert copy.journal.objects.get(hashlib.sha256(OUTPUT).digest()) == OUTPUT
        assert [one.item_id for one in copy.work.dispatched.questions()] == [asked.item_id]
    meet(eve, ada)
    assert held_of(eve) == before
    assert eve.journal.objects.get(hashlib.sha256(ARTIFACT).digest()) == ARTIFACT
    assert eve.journal.objects.get(hashlib.sha256(OUTPUT).digest()) == OUTPUT
    assert troubles(eve) == []


def test_a_folder_of_version_1_gets_none_of_it(ada, tmp_path, asked):
    before = with_all(ada, asked)
    folder = tmp_path / "old"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes/N-1.json").write_text('{"id": "N-1", "type": "note", "content": "hello"}')
    found = migrate(ada, "dual", source=os.fspath(folder))
    assert [one.kind for one in found.findings if one.kind in ("refused", "unreadable")] == []
    change_dispatch(ada.journal, ADA, str(asked.value["dispatch"]), fields={"reason": "so"})
    migrate(ada, "dual", source=os.fspath(folder))
    kinds = {path.parent.name for path in folder.rglob("*.json")}
    assert {"notes", "plans"} <= kinds
    assert not {name for name in kinds if name.rstrip("s").rstrip("e") in DISPATCHED}, kinds
    dispatch = ("dispatch", str(asked.value["dispatch"]))
    assert held_of(ada).keys() == before.keys()
    assert held_of(ada)[dispatch]["reason"] == "so"
    assert not any((Path(ada.root) / "parked").rglob("*"))
    assert troubles(ada) == []


# -- claims -------------------------------------------------------------------------------------------------------------


def test_a_claim_of_an_assignment_names_its_agent_and_step(ada, shell):
    dispatch, made = dispatched(ada)
    step = made.steps[0]
    held = offered(ada, dispatch, step)
    agent = f"codex-{step.item_id[-8:]}"
    (line,) = shell("claim", "list").lines
    assert line.startswith(f"{held.value['claim']}  {agent} exclusive, ")
    assert line.endswith(f": src/auth.py, for the step {step.item_id}: hash")
    (own,) = shell("claim", "list", env={"PERIPLUS_AGENT": agent}).lines
    assert own.startswith(f"{held.value['claim']}  you exclusive, ")
    shell.fails("claim", "take", "src", code=5, wrong=f"src overlaps src/auth.py, which is claimed by {agent}")
    assert f"taken src/auth.py: {held.value['claim']}" in shell("check", "src/auth.py", code=1).out
