"""Reports of dispatches: what the records say now, what happened in between, how agents compare."""

from __future__ import annotations

import msgspec
import pytest

from dispatch_records import GONE, Order
from periplus.dispatch.reports.board import board_of, headings
from periplus.dispatch.reports.events import EventReader
from periplus.dispatch.reports.standing import Standing, by_standing
from periplus.dispatch.reports.stored import assignment_of
from periplus.memory.coordination.dispatches import NewQuestion, answer_question, change_dispatch


@pytest.fixture
def order(ada):
    return Order(ada)


def rows(order):
    return {row.text: row for row in board_of(order.journal, order.dispatch).rows}


def test_steps_without_an_assignment_are_on_the_board(order, bob):
    found = rows(order)
    assert {text: row.state for text, row in found.items()} == {
        "hash": "ready",
        "mail": "ready",
        "docs": "waits",
        "site": "ready",
    }
    assert found["docs"].waits_for == (order.steps[0].item_id,)
    assert [row.number for row in found.values()] == [1, 2, 3, 4]
    bob.work.take(step=order.steps[3].item_id)
    assert rows(order)["site"].state == "taken"
    order.project.work.change_state([order.steps[3].item_id], "dropped", reason="no need", force=True)
    assert (rows(order)["site"].state, rows(order)["site"].act) == ("dropped", "no need")


def test_a_board_has_what_was_spent_and_what_happened_last(order, clock):
    order.carry()
    one = order.start(0)
    clock.advance(90_000)
    order.start(1, "gemini", "r2")
    clock.advance(5_000)
    board = board_of(order.journal, order.dispatch)
    first, second = board.rows[:2]
    assert (first.state, first.act, first.is_going, first.wall_ms, first.run) == (
        "running",
        "works",
        True,
        95_000,
        "r1",
    )
    assert second.wall_ms == 5_000
    order.end_run(one, "submitted", tokens=(1_000, 800, 50), cost=12_345, wall_ms=95_000, summary="argon2id")
    clock.advance(60_000)
    board = board_of(order.journal, order.dispatch)
    first = board.rows[0]
    assert (first.state, first.act, first.is_going) == ("submitted", "argon2id", False)
    assert (first.tokens, first.cost, first.wall_ms) == (1_850, 12_345, 95_000)
    sums = board.heading.sums
    assert sums == (board.heading.sums.states, 1_000, 800, 50, 12_345, 95_000)
    assert sums.states == {"submitted": 1, "running": 1, "waits": 1, "ready": 1}
    assert sums.tokens == sum(row.tokens for row in board.rows)


def test_returned_work_is_in_its_next_round(order):
    one = order.start(0)
    order.end_run(one, "submitted")
    order.change(one, "running", fields={"returns": [{"why": "oracle", "text": "2 failed", "at": "2026-01-01"}]})
    order.begin_run(one, "r2")
    row = rows(order)["hash"]
    assert (row.rounds, row.act) == (1, "works, after oracle: 2 failed")


@pytest.mark.parametrize(
    ("process", "minutes", "state"),
    [
        ("own", 0, "running"),
        ("own", 180, "running"),
        ("gone", 0, "running"),
        ("gone", 180, "left"),
        (None, 180, "left"),
    ],
)
def test_work_that_nobody_carries_is_left_once_its_claim_is_over(order, clock, process, minutes, state):
    if process:
        order.carry(None if process == "own" else GONE)
    order.start(0)
    clock.advance(60_000 * minutes)
    board = board_of(order.journal, order.dispatch)
    assert board.rows[0].state == state
    assert board.rows[0].is_going == (state == "running")
    assert board.heading.is_carried is (process == "own")


def test_an_open_question_is_on_the_board_until_its_time_is_over(order, clock):
    held = order.start(0)
    order.change(held, "waiting", question=NewQuestion("Which salt?", order.id, held.item_id, "codex", ("8", "16")))
    (asked,) = board_of(order.journal, order.dispatch).questions
    assert (asked.text, asked.options, asked.assignment, asked.asker) == (
        "Which salt?",
        ("8", "16"),
        held.item_id,
        "codex",
    )
    clock.advance(8 * 86_400_000)
    assert board_of(order.journal, order.dispatch).questions == ()


def test_headings_are_the_newest_first(order, clock):
    assert [one.dispatch for one in headings(order.journal)] == [order.id]
    change_dispatch(order.journal, order.writer, order.id, state="stopped", reason="enough")
    clock.advance(1_000)
    another = Order(order.project)
    assert [one.dispatch for one in headings(order.journal)] == [another.id, order.id]
    assert [one.dispatch for one in headings(order.journal, with_ended=False)] == [another.id]
    assert headings(order.journal)[1].reason == "enough"
    assert headings(order.journal)[0].sums.states == {"todo": 4}


def test_a_record_that_does_not_fit_is_shown_with_what_fits():
    read = assignment_of({"text": "hash", "state": "sleeping", "agent": "codex", "tokens_in": 7, "runs": "none"})
    assert (read.text, read.state, read.agent, read.tokens_in, read.runs) == ("hash", "offered", "codex", 7, ())


# -- events ------------------------------------------------------------------------------------------------------------


def short(event):
    return tuple(filter(None, (event.event, event.purpose, event.before, event.state, event.number)))


def test_events_tell_the_course_of_an_assignment(order, bob):
    reader = EventReader(order.journal, order.id)
    assert [short(one) for one in reader.read()] == [("dispatch", "open")]
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(1_000, 800, 50), cost=12_345, wall_ms=95_000, summary="argon2id")
    order.change(one, "running", fields={"returns": [{"why": "oracle", "text": "2 failed"}]})
    order.begin_run(one, "r2")
    asked = order.change(one, "waiting", question=NewQuestion("Which salt?", order.id, one.item_id, "codex"))
    order.end_run(one, ending="asked")
    (question,) = board_of(order.journal, order.dispatch).questions
    answer_question(bob.journal, bob.writer, question.question, "16")
    order.change(asked, "running")
    order.change(one, "submitted", fields={"remarks": ["uncommitted work was committed for it"]})
    order.integrate(one)
    found = reader.read()
    assert [short(event) for event in found] == [
        ("assignment", "offered", 1), ("assignment", "offered", "running", 1), ("run", "work", "started", 1),
        ("run", "work", "started", "exited", 1), ("assignment", "running", "submitted", 1),
        ("assignment", "submitted", "running", 1), ("run", "work", "started", 1),
        ("assignment", "running", "waiting", 1), ("question", "open"), ("run", "work", "started", "asked", 1),
        ("question", "open", "answered"), ("assignment", "waiting", "running", 1),
        ("assignment", "running", "submitted", 1), ("note", "submitted", 1),
        ("assignment", "submitted", "verified", 1), ("assignment", "verified", "integrated", 1), ("integrated", "verified", "integrated", 1),
    ]  # fmt: skip
    ended = next(event for event in found if event.state == "exited")
    assert (ended.run, ended.tokens_in, ended.cached, ended.out, ended.cost, ended.wall_ms) == (
        "r1",
        1_000,
        800,
        50,
        12_345,
        95_000,
    )
    assert [event.text for event in found if event.event == "question"] == ["Which salt?", "16"]
    assert (
        next(event for event in found if event.before == "submitted" and event.state == "running").text
        == "oracle: 2 failed"
    )
    assert found[-1].commit == "c" * 40
    assert all(event.dispatch == order.id and event.ts.endswith("Z") for event in found)
    assert reader.read() == []
    assert [event for event in EventReader(bob.journal, order.id).read() if event.event != "dispatch"] == found


def test_a_reader_that_begins_later_knows_the_states_before(order):
    order.start(0)
    seen = {order.journal.lineage: order.journal.end().next_seq - 1}
    order.change(
        order.journal.get("assignment", next(iter(rows(order).values())).assignment), "failed", reason="it gave up"
    )
    found = EventReader(order.journal, order.id, seen).read()
    assert [(one.before, one.state, one.text) for one in found] == [("running", "failed", "it gave up")]


def test_another_dispatch_is_not_told(order):
    reader = EventReader(order.journal, order.id)
    reader.read()
    another = Order(order.project)
    another.change(another.offer(3), "running")
    assert reader.read() == []


def test_events_are_followed_as_they_come(order, bob):
    reader = EventReader(bob.journal, order.id)
    turns = []

    def wait(_seconds):
        turns.append(0)
        if len(turns) == 1:
            order.start(0)
        return len(turns) > 30

    found = [event for events in reader.follow(wait) for event in events]
    assert [short(event) for event in found][-1] == ("run", "work", "started", 1)
    assert msgspec.json.decode(msgspec.json.encode(found[0]))["schema"] == "periplus.dispatch.event/1"


def test_agents_begin_by_what_they_have_shown():
    found = [
        Standing("anna", "implementer", steps=4, at_first=1), Standing("bert", "implementer", steps=4, at_first=4),
        Standing("cleo", "implementer", steps=4, at_first=4, undone=3), Standing("dora", "tester", steps=9, at_first=9),
    ]  # fmt: skip
    assert by_standing(found, ["anna", "dora", "cleo", "bert"], "implementer") == ["bert", "dora", "anna", "cleo"]
    assert by_standing([], ["b", "a"], "implementer") == ["b", "a"]
