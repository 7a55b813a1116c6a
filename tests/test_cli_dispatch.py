"""``periplus dispatch`` as a person types it, on records that a supervisor would write."""

from __future__ import annotations

import os

import pytest

from cli_support import Shell
from dispatch_records import GONE, Order
from periplus.cli.dispatch.table import money_text, time_text, tokens_text
from periplus.journal import Writer
from periplus.memory.coordination.dispatches import NewQuestion, change_dispatch
from periplus.project import Project

ADA = Writer("ada", "who_0000000000000000", "", 1)


@pytest.fixture
def sh(tmp_path):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    Project.init(os.fspath(tmp_path / "project"))
    return Shell(tmp_path / "project", tmp_path / "home")


@pytest.fixture
def order(sh):
    with Project.open(os.fspath(sh.folder), ADA) as project:
        yield Order(project)


def test_a_store_without_dispatches(sh):
    assert sh("dispatch", code=1).lines == ["There are no dispatches. Next: periplus dispatch start PLAN --agent NAME"]
    sh.fails("dispatch", "show", code=1, wrong="there is no dispatch")
    sh.fails("dispatch", "stop", code=1, wrong="Start one: periplus dispatch start")


def test_a_dispatch_is_listed_and_shown(sh, order):
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(11_000, 800, 1_350), cost=123_456, wall_ms=95_000, summary="argon2id")
    order.start(1, "gemini", "r2")
    order.offer(3)
    listed = sh.json("dispatch", "list")
    (found,) = listed.dispatches
    assert (found.id, found.state, found.carried, found.agents) == (order.id, "open", False, ["codex", "gemini"])
    assert found.sums.states == {"submitted": 1, "running": 1, "offered": 1, "todo": 1}
    shown = sh.json("dispatch", "show")
    assert [(row.number, row.state, row.agent) for row in shown.rows] == [
        (1, "submitted", "codex"), (2, "running", "gemini"), (3, "waits", ""), (4, "offered", "codex"),
    ]  # fmt: skip
    assert shown.rows[0].act == "argon2id"
    assert shown.assignment is None
    out = sh("dispatch", "show", order.id).out
    assert f"{order.id} open, no supervisor: Move to argon2" in out
    assert "  1  submitted  codex         12.3k   $0.12  1m35s  hash  (argon2id)\n" in out
    assert f"waits for {order.steps[0].item_id}" in out
    assert f"To go on: periplus dispatch start --resume {order.id}" in out
    order.carry()
    assert f"{order.id} running: Move to argon2" in sh("dispatch", "list").out


def test_an_assignment_is_shown_by_its_step(sh, order):
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(11_000, 800, 1_350), cost=123_456, wall_ms=95_000)
    order.change(
        one,
        "running",
        fields={"returns": [{"why": "oracle", "text": "2 failed\nsee above", "at": "2026-01-01T00:00:00Z"}]},
    )
    order.begin_run(one, "r2")
    finding = {"severity": "blocking", "text": "a salt is fixed", "path": "src/auth.py", "line": 3}
    order.end_run(
        one, "failed", ending="wall", reason="over an hour", findings=[finding], remarks=["a file was left out"]
    )
    shown = sh.json("dispatch", "show", order.steps[0].item_id)
    assert shown.assignment.reason == "over an hour"
    assert [run.id for run in shown.assignment.runs] == ["r1", "r2"]
    out = sh("dispatch", "show", one.item_id).out
    for said in (
        "failed     codex", "over an hour", "returned 2026-01-01T00:00:00  oracle: 2 failed see above", "wall",
        "blocking  src/auth.py:3: a salt is fixed", "note  a file was left out", f"periplus dispatch retry {one.item_id}",
    ):  # fmt: skip
        assert said in out


def test_a_question_is_seen_and_answered(sh, order):
    one = order.start(0)
    order.change(one, "waiting", question=NewQuestion("Which salt?", order.id, one.item_id, "codex", ("8", "16")))
    (asked,) = sh.json("dispatch", "list").questions
    for words in (["dispatch", "list"], ["dispatch", "show"], ["dispatch", "show", one.item_id]):
        out = sh(*words).out
        assert f"{asked.id} codex asks: Which salt?\n    one of: 8, 16\n" in out
        assert f'periplus dispatch answer {asked.id} "…"' in out
    assert sh("dispatch", "answer", asked.id, "16").lines == [f"Answered {asked.id}; codex goes on with it: 16"]
    assert sh.json("dispatch", "answer", asked.id, "16").answered_by == "ada"
    sh.fails("dispatch", "answer", asked.id, "8", code=5, wrong="was answered by ada")
    assert sh.json("dispatch", "list").questions == []


def test_a_dispatch_is_stopped_and_taken_up_again_by_a_retry(sh, order):
    one, _ = order.start(0), order.offer(1)
    done = sh("dispatch", "stop", "--reason", "the plan changed")
    assert done.lines[0].startswith(f"Stopped {order.id}; 2 assignments cancelled.")
    assert done.lines[-1] == f"To go on later: periplus dispatch start --resume {order.id}"
    assert sh("dispatch", "stop").lines == [f"{order.id} is stopped already."]
    assert [row.state for row in sh.json("dispatch", "show").rows][:2] == ["cancelled", "cancelled"]
    found = sh.json("dispatch", "retry", order.steps[0].item_id)
    assert (found.reopened, [each.granted for each in found.retried], found.carried) == (True, [1], False)
    assert sh.json("dispatch", "show").dispatch.state == "open"
    again = sh("dispatch", "retry", order.id)
    assert len(again.lines) == 3
    assert again.lines[-1] == f"Nobody carries {order.id} now. To go on: periplus dispatch start --resume {order.id}"
    assert sh.json("show", one.item_id).entity.value["granted"] == 2


def test_what_may_not_be_tried_again(sh, order):
    one = order.start(0)
    sh.fails("dispatch", "retry", one.item_id, code=5, wrong="is running: there is nothing to try again")
    sh.fails("dispatch", "retry", order.id, code=1, wrong="ended without result")
    order.end_run(one, "submitted")
    order.integrate(one)
    sh.fails("dispatch", "retry", one.item_id, code=5, wrong="is integrated")
    other = order.start(1)
    order.change(other, "failed", reason="it gave up")
    change_dispatch(order.journal, ADA, order.id, state="done")
    sh.fails("dispatch", "retry", other.item_id, code=5, wrong="Start another for the rest of the plan")
    assert sh("dispatch", "show").lines[0].startswith(f"{order.id} done: ")


def test_work_that_nobody_carries(sh, order):
    order.carry(GONE)
    order.start(0)
    assert sh.json("dispatch", "show").dispatch.carried is False
    assert sh("dispatch", "list").lines[0] == f"{order.id} open, no supervisor: Move to argon2"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, ""), (999, "999"), (1_000, "1.0k"), (99_949, "99.9k"), (99_950, "100k"), (999_499, "999k"), (999_500, "1.0M"), (5 * 10**9, "5.0G")],
)  # fmt: skip
def test_tokens_take_little_room(count, shown):
    assert tokens_text(count) == shown


def test_money_and_time_take_little_room():
    assert [money_text(cost) for cost in (0, 40, 12_345, 1_234_567_890)] == ["", "$0.0000", "$0.01", "$1,234.57"]
    assert [time_text(1000 * s) for s in (0, 59, 60, 3_599, 3_600, 400_000)] == [
        "",
        "59s",
        "1m00s",
        "59m59s",
        "1h00m",
        "4d",
    ]
