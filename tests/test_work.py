"""Plans, handoffs, mail and sessions on real stores; many processes that race for the steps of a plan."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.base.clock import parse_ms
from periplus.base.errors import ClaimedError, ConflictError, NotFoundError, RefusedError, SecretFoundError, UsageError
from periplus.memory import Memory
from periplus.memory.claim_status import session_id
from periplus.memory.coordination.claims import TTL_S, Asked
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.mail import mail, send
from periplus.memory.coordination.plans import NewStep
from periplus.memory.coordination.sessions import LIVE_S, NewSession
from periplus.project import Project
from support import ADA, BOB, Stop, StoppingFiles, record_count

SECRET = "AKIA" + "IOSFODNN7ABCDEFG"


def texts(entities):
    return [entity.value["text"] for entity in entities]


def state_of(project, entity):
    project.journal.refresh()
    return project.journal.get(entity.item_type, entity.item_id).value["state"]


# -- plans ------------------------------------------------------------------------------------------------------------


def test_what_is_ready_follows_from_dependencies_priority_and_place(ada):
    made = ada.work.make_plan(
        "Ship it",
        [
            NewStep("design"),
            NewStep("build", (1,)),
            NewStep("test", (2,)),
            NewStep("write docs"),
            NewStep("urgent", priority=90),
        ],
    )
    assert texts(made.steps) == ["design", "build", "test", "write docs", "urgent"]
    assert texts(ada.work.ready()) == ["urgent", "design", "write docs"]
    design, build, test, docs, _ = made.steps
    assert ada.work.waits_for(test) == [build.item_id]
    ada.work.change_state([design.item_id], "done")
    assert texts(ada.work.ready(made.plan.item_id[:9])) == ["urgent", "build", "write docs"]
    ada.work.change_state([docs.item_id], "blocked", reason="no words")
    later = ada.work.make_plan("Later", [NewStep("sell")], after=[made.plan.item_id], priority=99)
    assert texts(ada.work.ready()) == ["urgent", "build"]
    assert ada.work.ready(later.plan.item_id) == []
    ada.work.change_state([made.plan.item_id], "done")
    assert texts(ada.work.ready()) == ["sell"]
    more = ada.work.add_steps(
        later.plan.item_id, [NewStep("ask", (), 50, ("src/*.py", "a.py:f")), NewStep("tell", (1,))]
    )
    assert [step.value["place"] for step in more.steps] == [2, 3]
    assert [one["kind"] for one in more.steps[0].value["about"]] == ["path", "symbol"]
    with pytest.raises(RefusedError, match="is done"):
        ada.work.add_steps(made.plan.item_id, [NewStep("too late")])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([NewStep("a", (2,)), NewStep("b", (1,))], "steps 1, 2 wait for each other"),
        ([NewStep("a", (1,))], "step 1 cannot wait for step 1"),
        ([NewStep("a", (3,)), NewStep("b")], "cannot wait for step 3"),
        ([NewStep("a"), NewStep("b", (4,)), NewStep("c", (2,)), NewStep("d", (3,))], "steps 2, 3, 4 wait"),
        ([NewStep("  ")], "needs a text"),
        ([NewStep("a", (), 101)], "not between 0 and 100"),
        ([NewStep("a", (), 50, ("../x",))], "leads out"),
        ([NewStep("a", ("stp_nothing",))], "nothing has an id"),
        ([NewStep(f"key {SECRET}")], "secret"),
        ([NewStep("a")] * 1001, "1,001 steps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plan_that_cannot_be_is_not_written(ada, steps, said):
    before = record_count(ada)
    with pytest.raises((UsageError, SecretFoundError), match=said):
        ada.work.make_plan("A plan", steps)
    assert record_count(ada) == before


def test_taking_the_next_step(ada, bob, clock):
    made = ada.work.make_plan(
        "Work", [NewStep("one", about=("src",)), NewStep("two", about=("src/a.py",)), NewStep("three")]
    )
    one, two, three = made.steps
    taken = ada.work.take()
    assert taken.step.item_id == one.item_id
    assert (taken.step.value["state"], taken.step.value["assignee"]) == ("doing", "ada")
    assert taken.claim.value["scopes"] == ["src"]
    assert state_of(ada, made.plan) == "doing"
    assert bob.work.take().step.item_id == three.item_id  # two lies under ada's claim
    with pytest.raises(ClaimedError, match="claimed by ada"):
        bob.work.take()
    with pytest.raises(RefusedError, match="is being done by ada"):
        bob.work.take(step=one.item_id)
    assert ada.work.take(step=two.item_id).step.item_id == two.item_id  # what lies under ones own is no matter
    assert ada.work.take() is None
    ada.work.change_state([one.item_id, two.item_id], "done")
    assert [claim.value["holder"] for claim in ada.work.claims()] == ["bob"]
    with pytest.raises(RefusedError, match="is done"):
        bob.work.take(step=one.item_id)
    with pytest.raises(NotFoundError, match="is a plan, not a step"):
        bob.work.take(step=made.plan.item_id)


def test_a_step_whose_claim_is_over_can_be_taken_again(ada, bob, clock):
    made = ada.work.make_plan("Work", [NewStep("one")])
    first = ada.work.take(ttl_s=60)
    assert bob.work.take() is None
    clock.advance(60_000)
    assert texts(bob.work.ready()) == ["one"]
    again = bob.work.take()
    assert again.step.item_id == made.steps[0].item_id
    assert again.step.value["assignee"] == "bob"
    assert state_of(ada, first.claim) == "expired"
    bob.work.release()
    assert state_of(ada, again.step) == "todo", "who lets go of the claim gives the step back"
    ada.work.change_state([again.step.item_id], "doing")  # by hand, without a claim
    assert bob.work.take() is None


def test_a_key_takes_one_step_once(ada):
    ada.work.make_plan("Work", [NewStep("one"), NewStep("two")], key="plan")
    again = ada.work.make_plan("Work", [NewStep("one"), NewStep("two")], key="plan")
    assert len(again.steps) == 2
    assert len(ada.work.plans()) == 1
    first = ada.work.take(key="k")
    assert ada.work.take(key="k").step.item_id == first.step.item_id
    assert texts(ada.work.ready()) == ["two"]


@pytest.mark.slow
def test_twenty_processes_race_for_a_hundred_steps_and_each_is_taken_once(tmp_path):
    root = Project.init(os.fspath(tmp_path)).root
    with Project(root, ADA) as project:
        steps = project.work.make_plan("Race", [NewStep(f"step {number}") for number in range(100)]).steps
    child = [sys.executable, os.fspath(Path(__file__).with_name("work_child.py")), root]
    processes = [
        subprocess.Popen(
            [*child, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(20)
    ]
    try:
        lines = [process.stdout.readline() for process in processes]
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        done = [(*process.communicate(timeout=300), process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [(line, err, code) for line, (_, err, code) in zip(lines, done, strict=True)] == [("ready\n", "", 0)] * 20
    taken = [item_id for out, _, _ in done for item_id in out.split()]
    assert sorted(taken) == sorted(step.item_id for step in steps)
    with Project(root, ADA) as project:
        assert {state_of(project, step) for step in steps} == {"done"}
        assert project.work.claims() == []


# -- handoffs ---------------------------------------------------------------------------------------------------------


def test_a_handoff_is_accepted_once_closed_and_never_changed(ada, bob, clock):
    plan = ada.work.make_plan("Work").plan
    new = NewHandoff("Half done", "bob", ("src/a.py",), "two fail", ("mend them",), plan.item_id[:9])
    one = ada.work.hand_off(new, key="k")
    assert ada.work.hand_off(new, key="k").item_id == one.item_id
    assert one.value["plan"] == plan.item_id
    for field in ("text", "files", "tests"):
        with pytest.raises(UsageError, match="cannot be set"):
            ada.work.set_fields(one.item_id, {field: "x"})
    clock.advance(1000)
    better = ada.work.hand_off(NewHandoff("Nearly done"), corrects=one.item_id)
    assert state_of(ada, one) == "closed"
    assert texts(bob.work.handoffs()) == ["Nearly done"]
    assert texts(bob.work.handoffs(with_closed=True)) == ["Nearly done", "Half done"]
    assert bob.work.accept_handoff(better.item_id).value["accepted_by"] == "bob"
    assert bob.work.accept_handoff(better.item_id).value["state"] == "accepted"
    with pytest.raises(ConflictError, match="accepted by bob"):
        ada.work.accept_handoff(better.item_id)
    ada.work.change_state([better.item_id], "closed")
    assert ada.work.handoffs() == []
    with pytest.raises(NotFoundError, match="is a plan, not a handoff"):
        ada.work.accept_handoff(plan.item_id)
    with pytest.raises(NotFoundError, match="not a plan"):
        ada.work.hand_off(NewHandoff("x", plan=one.item_id))


def test_handoffs_for_somebody_else_are_not_mine(ada, clock):
    for recipient in ("", "bob", "eve"):
        clock.advance(1000)
        ada.work.hand_off(NewHandoff(f"for {recipient}", recipient))
    assert texts(ada.work.handoffs(recipient="bob")) == ["for bob", "for"]


def test_a_handoff_for_somebody_else_is_taken_over_only_by_force(ada, bob):
    one = ada.work.hand_off(NewHandoff("Half done", "carl"))
    with pytest.raises(RefusedError, match="is for carl, and you are bob") as refused:
        bob.work.accept_handoff(one.item_id)
    assert "--force" in refused.value.mend
    assert state_of(ada, one) == "open"
    assert bob.work.accept_handoff(one.item_id, force=True).value["accepted_by"] == "bob"
    own = ada.work.hand_off(NewHandoff("Mine", "bob"))
    assert bob.work.accept_handoff(own.item_id).value["state"] == "accepted"


# -- mail -------------------------------------------------------------------------------------------------------------


def test_a_message_is_read_and_answered_in_its_thread(ada, bob, clock):
    note = ada.remember(Memory("note", "What it is about")).entity
    asked = ada.work.send("bob", "May I change src/auth?", ref=note.item_id[:9], needs_answer=True, key="k")
    assert ada.work.send("bob", "May I change src/auth?", key="k").item_id == asked.item_id
    assert texts(bob.work.mail()) == ["May I change src/auth?"]
    assert ada.work.mail() == []
    with pytest.raises(RefusedError, match="was sent to bob, not to ada"):
        ada.work.read_mail([asked.item_id])
    assert bob.work.read_mail([asked.item_id]).entities[0].value["state"] == "read"
    assert bob.work.read_mail([asked.item_id]).receipt is None
    assert len(bob.work.mail()) == 1, "it waits for an answer"
    clock.advance(1000)
    answer = bob.work.answer(asked.item_id, "Yes")
    assert (answer.value["recipient"], answer.value["thread"], answer.value["ref"]) == (
        "ada",
        asked.item_id,
        asked.item_id,
    )
    assert state_of(ada, asked) == "answered"
    assert bob.work.mail() == []
    clock.advance(1000)
    ada.work.answer(answer.item_id, "Thank you")
    assert texts(ada.work.thread(answer.item_id)) == ["May I change src/auth?", "Yes", "Thank you"]
    assert len(bob.work.mail(with_read=True)) == 2
    bob.work.answer(asked.item_id, "And another thing")
    assert texts(ada.work.mail()) == ["And another thing"]


@pytest.mark.parametrize(
    ("recipient", "text", "said"),
    [
        ("", "x", "'' is not a valid name of a recipient"),
        ("x" * 101, "x", "x' is not a valid name of a recipient"),
        ("bob", " ", "needs a text"),
        ("bob", "x" * 8001, "8,001"),
        ("bob", SECRET, "secret"),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_message_that_cannot_be_is_not_sent(ada, recipient, text, said):
    before = record_count(ada)
    with pytest.raises((UsageError, SecretFoundError), match=said):
        ada.work.send(recipient, text)
    assert record_count(ada) == before
    assert mail(ada.journal, "bob") == []


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_begins_gives_signs_of_life_and_lets_go_at_its_end(ada, clock):
    with Project(ada.root, ADA._replace(session="s1"), clock=clock) as mine:
        begun = mine.work.begin_session(NewSession("s1", model="model-1", tool="shell"))
        assert begun.item_id == session_id("s1") == mine.work.begin_session(NewSession("s1")).item_id
        claim = mine.work.claim(Asked(("src",))).claim
        assert claim.value["session"] == begun.item_id
        assert not mine.work.seen(), "nothing to write so soon"
        clock.advance(TTL_S * 500)
        assert mine.work.seen()
        assert parse_ms(ada.journal.get("claim", claim.item_id).value["expires"]) == clock.now_ms() + TTL_S * 1000
        (present,) = ada.work.who()
        assert (present.name, present.session.value["model"]) == ("ada", "model-1")
        assert [one.item_id for one in present.claims] == [claim.item_id]
        sealed = mine.work.seal_session()
        assert sealed.value["ended"]
        assert mine.work.seal_session("s1").version == sealed.version
        assert state_of(ada, claim) == "released"
        assert ada.work.who() == []
        assert "ended" not in mine.work.begin_session(NewSession("s1")).value
        clock.advance(LIVE_S * 1000)
        assert ada.work.who() == [], "it gave no sign for too long"
    with pytest.raises(NotFoundError):
        ada.work.seal_session("s2")
    with pytest.raises(UsageError, match="no session is named"):
        ada.work.seal_session()
    with pytest.raises(UsageError, match="is not a valid session name"):
        ada.work.begin_session(NewSession(" "))


def test_who_claims_without_a_session_is_there_too(ada, bob):
    bob.work.claim(Asked(("docs",)))
    ada.work.claim(Asked(("src",)))
    ada.work.claim(Asked(("lib",)))
    assert [(one.name, one.session, len(one.claims)) for one in bob.work.who()] == [("ada", None, 2), ("bob", None, 1)]


# -- the brief --------------------------------------------------------------------------------------------------------


def test_the_brief_tells_what_others_do_now_and_what_waits(ada, bob, clock):
    empty = ada.brief("add rate limiting").text
    ada.work.make_plan("Work", [NewStep("one"), NewStep("two", (1,))])
    ada.work.claim(Asked(("lib",)))
    bob.work.claim(Asked(("src",), text="the login"))
    bob.work.hand_off(NewHandoff("old"))
    clock.advance(1000)
    bob.work.hand_off(NewHandoff("Half done", "ada", unfinished=("mend it",)))
    bob.work.hand_off(NewHandoff("not for ada", "eve"))
    bob.work.send("ada", "May I?", needs_answer=True)
    found = ada.brief("add rate limiting")
    assert [(section.title, len(section.lines), section.left_out) for section in found.sections] == [
        ("Claims of others", 1, 0),
        ("Mail for you", 1, 0),
        ("Handoffs", 1, 1),
        ("Ready plan steps", 1, 0),
    ]
    for said in (
        "bob (exclusive, until ",
        "): src [",
        "bob (wants an answer): May I?",
        "bob: Half done; to do: mend it",
        "- one [",
    ):
        assert said in found.text
    assert "lib" not in found.text
    assert "- two" not in found.text
    assert ada.brief("add rate limiting") == found
    clock.advance(TTL_S * 1000)
    assert "Claims of others" not in ada.brief("add rate limiting").text
    assert ada.brief("add rate limiting", budget_tokens=100).tokens <= 100
    assert "Nothing is known" in empty


# -- a crash in the middle --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_step_is_taken_whole_or_not_at_all_wherever_the_process_stops(tmp_path, clock):
    at = 0
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=clock).root
        with Project(root, BOB, clock=clock) as project:
            project.work.make_plan("Work", [NewStep("one"), NewStep("two")])
        stopped = True
        try:
            with Project(root, ADA, clock=clock, files=StoppingFiles(at, 0.5)) as project:
                project.work.take()
            stopped = False
        except Stop:
            pass
        with Project(root, BOB, clock=clock) as project:
            claims = project.work.claims()
            (plan, steps), *_ = project.work.plans()
            doing = [step for step in steps if step.value["state"] == "doing"]
            assert [claim.value["step"] for claim in claims] == [step.item_id for step in doing]
            assert plan.value["state"] == ("doing" if doing else "todo")
            assert project.work.take().step.item_id == steps[len(doing)].item_id
        if not stopped:
            break
        at += 1
    assert at > 5


def test_mail_between_two_stores_open_at_once(ada, bob):
    for number in range(5):
        send(ada.journal, ADA, "bob", f"message {number}")
        assert len(bob.work.mail()) == number + 1
