"""Dispatches, assignments and questions as records: what is offered once, what goes with what, who sees what has ended."""

from __future__ import annotations

import pytest

from periplus.base.errors import ClaimedError, ConflictError, RefusedError, UsageError
from periplus.journal import Writer
from periplus.memory.claim_status import live_claims
from periplus.memory.coordination.assignments import (
    Offer,
    assignments_of,
    change_assignment,
    find_assignment,
    offer_again,
    offer_step,
)
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.dispatches import (
    NewDispatch,
    NewQuestion,
    answer_question,
    change_dispatch,
    find_dispatch,
    open_questions,
    start_dispatch,
)
from periplus.memory.coordination.plans import NewStep
from support import ADA, BOB


@pytest.fixture
def order(ada):
    """A plan of three steps, the third after the first, and its dispatch."""
    made = ada.work.make_plan(
        "Move to argon2",
        [NewStep("hash", about=("src/auth.py",)), NewStep("mail", about=("src/mail.py",)), NewStep("docs", (1,))],
    )
    new = NewDispatch("Move to argon2", made.plan.item_id, ("codex",), "main", "periplus/x", "0" * 40)
    return start_dispatch(ada.journal, ADA, new), made.steps


def offered(project, order, place=0, agent="codex"):
    dispatch, steps = order
    return Offer(dispatch, steps[place].item_id, agent, Writer.named(f"{agent}-{place}"))


def states(project, *items):
    return [project.journal.get(one.item_type, one.item_id).value["state"] for one in items]


def claims(project):
    return live_claims(project.journal, project.journal.clock.now_ms())


def test_an_offer_takes_the_step_and_its_claim_in_one_batch(ada, order):
    held = offer_step(ada.journal, ADA, offered(ada, order))
    assert (held.value["state"], held.value["attempt"]) == ("offered", 1)
    (claim,) = claims(ada)
    assert claim.item_id == held.value["claim"]
    assert (claim.value["holder"], claim.value["scopes"]) == ("codex-0", ["src/auth.py"])
    assert states(ada, order[1][0]) == ["doing"]
    again = offer_step(ada.journal, ADA, offered(ada, order))
    assert again.version == held.version
    assert len(claims(ada)) == 1


def test_a_step_is_offered_to_one_only(ada, bob, order):
    offer_step(ada.journal, ADA, offered(ada, order))
    held = find_assignment(bob.journal, order[1][0].item_id)
    change_assignment(bob.journal, BOB, held, state="running", fields={"run": "r1"})
    with pytest.raises(RefusedError, match="has an assignment already"):
        offer_step(bob.journal, BOB, offered(bob, order))
    with pytest.raises(RefusedError, match="not ready"):
        offer_step(ada.journal, ADA, offered(ada, order, 2))
    with pytest.raises(RefusedError, match="does the plan"):
        start_dispatch(bob.journal, BOB, NewDispatch("again", order[0].value["plan"], ("x",), "main", "b", "0"))


def test_what_others_claim_is_not_offered(ada, bob, order):
    bob.work.claim(Asked(("src",), text="all of it"))
    with pytest.raises(ClaimedError, match="claimed by bob"):
        offer_step(ada.journal, ADA, offered(ada, order))
    assert assignments_of(ada.journal, order[0].item_id) == []


def test_the_way_of_an_assignment(ada, order):
    dispatch, steps = order
    held = offer_step(ada.journal, ADA, offered(ada, order))
    held = change_assignment(
        ada.journal, ADA, held, state="running", fields={"run": "r1", "runs": [{"id": "r1", "agent": "codex"}]}
    )
    with pytest.raises(UsageError, match="cannot become integrated"):
        change_assignment(ada.journal, ADA, held, state="integrated")
    question = NewQuestion("Which salt?", dispatch.item_id, held.item_id, "codex-0", ("8", "16"))
    held = change_assignment(ada.journal, ADA, held, state="waiting", question=question)
    (asked,) = open_questions(ada.journal)
    assert asked.value["options"] == ["8", "16"]
    answered = answer_question(ada.journal, BOB, asked.item_id, "16")
    assert (answered.value["state"], answered.value["answered_by"]) == ("answered", "bob")
    assert answer_question(ada.journal, BOB, asked.item_id, "16").version == answered.version
    with pytest.raises(RefusedError, match="was answered by bob"):
        answer_question(ada.journal, ADA, asked.item_id, "8")
    for state in ("running", "submitted", "verified"):
        held = change_assignment(ada.journal, ADA, held, state=state)
    held = change_assignment(ada.journal, ADA, held, state="integrated", fields={"merged": "c" * 40})
    assert states(ada, held, steps[0]) == ["integrated", "done"]
    assert claims(ada) == []
    assert [one.item_id for one in ada.work.ready()] == [steps[1].item_id, steps[2].item_id]


def test_an_assignment_that_fails_gives_its_step_back_and_is_offered_again(ada, order):
    held = offer_step(ada.journal, ADA, offered(ada, order))
    stale = held
    held = change_assignment(ada.journal, ADA, held, state="running")
    with pytest.raises(ConflictError):
        change_assignment(ada.journal, ADA, stale, state="failed")
    asked = NewQuestion("?", order[0].item_id, held.item_id, "codex-0")
    held = change_assignment(ada.journal, ADA, held, state="waiting", question=asked)
    held = change_assignment(ada.journal, ADA, held, state="timed_out", reason="over an hour")
    assert states(ada, order[1][0]) == ["todo"]
    assert claims(ada) == []
    assert open_questions(ada.journal) == []
    again = offer_again(ada.journal, ADA, held, offered(ada, order, agent="gemini"))
    assert (again.value["state"], again.value["attempt"], again.value["agent"]) == ("offered", 2, "gemini")
    assert states(ada, order[1][0]) == ["doing"]


def test_stopping_a_dispatch_ends_all_of_it(ada, order):
    first, second = (offer_step(ada.journal, ADA, offered(ada, order, place)) for place in (0, 1))
    change_assignment(ada.journal, ADA, second, state="running")
    change_dispatch(ada.journal, ADA, order[0].item_id, state="stopped", reason="enough")
    assert states(ada, first, second) == ["cancelled", "cancelled"]
    assert states(ada, *order[1]) == ["todo", "todo", "todo"]
    assert claims(ada) == []
    assert find_dispatch(ada.journal).item_id == order[0].item_id


def test_a_question_nobody_answers_in_time_is_seen_as_over(ada, order, clock):
    held = offer_step(ada.journal, ADA, offered(ada, order))
    held = change_assignment(ada.journal, ADA, held, state="running")
    change_assignment(
        ada.journal, ADA, held, state="waiting", question=NewQuestion("?", order[0].item_id, held.item_id, "x")
    )
    assert len(open_questions(ada.journal, order[0].item_id)) == 1
    clock.advance(8 * 24 * 3_600_000)
    assert open_questions(ada.journal) == []
