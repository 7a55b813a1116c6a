"""Everything that waits for a person: counted, with the first of each kind and the commands to type, and fast."""

from __future__ import annotations

import os
import sys

import pytest

from dispatch_records import GONE, Order
from periplus.base.ids import new_id
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.dispatches import NewQuestion
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.sessions import NewSession
from periplus.memory.reflection.candidates import record_candidates
from periplus.project import Project
from test_anchors import AUTH, commit, keep, project, write

__all__ = ["project"]


def ids(group):
    return [one.item_id for one in group.first]


def commands(waiting):
    return [one.command for one in waiting.next]


def test_of_an_empty_store_nothing_waits_and_the_next_commands_are_told(ada):
    waiting = ada.waiting()
    assert (waiting.is_anything, waiting.records, waiting.name, waiting.looked_at) == (False, 0, "ada", "")
    assert [group.words() for group in waiting.for_person] == ["0"] * 7
    assert commands(waiting)[0] == 'periplus brief "…"'


def test_mail_is_counted_until_it_is_read_or_answered(ada, bob):
    first, second = bob.work.send("ada", "The port is 8099 now"), bob.work.send("ada", "Which one?", needs_answer=True)
    bob.work.send("carol", "not for ada")
    waiting = ada.waiting()
    assert waiting.mail.number == 2
    assert {one.item_id: one.command for one in waiting.mail.first} == {
        first.item_id: f"periplus inbox read {first.item_id}",
        second.item_id: f'periplus inbox answer {second.item_id} "…"',
    }
    assert "bob, wants an answer" in [one.note for one in waiting.mail.first]
    assert "periplus inbox mail" in commands(waiting)
    ada.work.read_mail([first.item_id, second.item_id])
    assert ids(ada.waiting().mail) == [second.item_id]
    ada.work.answer(second.item_id, "The first")
    assert ada.waiting().mail.number == 0
    assert not ada.waiting().is_anything


def test_messages_written_last_come_first_and_old_ones_that_want_an_answer_are_kept(ada, bob, clock):
    sent = []
    for number in range(8):
        clock.advance(1_000)
        sent.append(bob.work.send("ada", f"message {number}").item_id)
    assert ids(ada.waiting().mail) == sent[:2:-1]
    owed = bob.work.send("ada", "Which one?", needs_answer=True).item_id
    ada.work.read_mail([*sent, owed])
    assert ids(ada.waiting().mail) == [owed]


def test_handoffs_for_others_do_not_wait_for_this_person(ada, bob):
    mine = bob.work.hand_off(NewHandoff("Counting works", recipient="ada"))
    anybody = bob.work.hand_off(NewHandoff("Refusing is open"))
    bob.work.hand_off(NewHandoff("For carol", recipient="carol"))
    assert {*ids(ada.waiting().handoffs)} == {anybody.item_id, mine.item_id}
    ada.work.accept_handoff(mine.item_id)
    assert ids(ada.waiting().handoffs) == [anybody.item_id]


def test_questions_work_and_a_dispatch_that_nobody_carries(ada):
    order = Order(ada)
    order.carry(GONE)
    one = order.offer(0)
    order.change(one, "running", fields={"run": "r1"})
    order.change(one, "waiting", question=NewQuestion("Which salt?", order.id, one.item_id, "codex", ("8", "16")))
    waiting = ada.waiting()
    (asked,) = waiting.questions.first
    assert (asked.text, asked.command) == ("Which salt?", f'periplus dispatch answer {asked.item_id} "…"')
    assert commands(waiting)[:2] == [asked.command, f"periplus dispatch start --resume {order.id}"]
    assert [(one.plan.text, one.done, one.steps) for one in waiting.plans] == [("Move to argon2", 0, 4)]
    assert (waiting.doing.number, waiting.ready.number, waiting.at_work.number) == (1, 2, 1)
    assert [progress.supervisor for progress in waiting.dispatches] == ["gone"]
    assert waiting.at_work.first[0].note.startswith("codex waiting")
    assert [one.note for one in waiting.claims.first] == ["codex-0"]


def test_people_and_their_claims(ada, bob):
    working = Project(ada.root, Writer.named("codex", session="s1"), clock=ada.journal.clock)
    with working as codex:
        codex.work.begin_session(NewSession("s1", tool="codex-cli"))
        codex.work.claim(Asked(("src/limit.py",)))
        bob.work.claim(Asked(("docs",)))
        waiting = ada.waiting()
        assert [(one.text, one.note) for one in waiting.present.first] == [
            ("bob", "1 claim"),
            ("codex", "codex-cli, 1 claim"),
        ]
        assert {one.text for one in waiting.claims.first} == {"src/limit.py", "docs"}
        codex.work.release()
        assert [one.text for one in ada.waiting().claims.first] == ["docs"]


def test_candidates_wait_until_they_are_decided(ada, tmp_path):
    Project.init(os.fspath(tmp_path / "other"), store=os.fspath(tmp_path / "other/.periplus"))
    with Project(os.fspath(tmp_path / "other/.periplus"), Writer.named("eve")) as other:
        kept = other.remember(Memory("lesson", "Run make first")).entity
        record_candidates(ada.journal, other.journal.store_id, [kept], ada.writer)
    waiting = ada.waiting()
    (proposed,) = waiting.candidates.first
    assert (proposed.text, proposed.note) == ("Run make first", "lesson")
    ada.refuse(proposed.item_id)
    assert ada.waiting().candidates.number == 0


def test_what_is_stale_or_expired_is_what_review_lists(project, tmp_path):
    edited = keep(project, "src/auth.py:hash_password")
    moved = keep(project, "src/auth.py:Session", text="a session has a name")
    keep(project, "src/auth.py:1", text="every file says what it is for")
    note = project.remember(
        Memory("note", "the old server answers until then", extra={"expires": "2020-01-01T00:00:00Z"})
    ).entity
    assert ids(project.waiting().review) == [note.item_id]
    at = AUTH.index("class")
    write(tmp_path, AUTH[:at].replace("salt = new_salt()", "salt = old_salt()\n    check(salt)"))
    write(tmp_path, AUTH[at:], "src/session.py")
    commit(tmp_path, "edit and move")
    waiting = project.waiting()
    assert {*ids(waiting.review)} == {edited.item_id, moved.item_id, note.item_id}
    assert {*ids(waiting.review)} == {one.entity.item_id for one in project.reviewing.due()}
    assert {one.note.partition(" 2020")[0] for one in waiting.review.first} == {"its code changed", "expired"}
    assert "periplus review" in commands(waiting)
    project.reviewing.confirm(ids(waiting.review))
    assert project.waiting().review.number == 0


def test_changes_of_others_are_told_once_for_each_reader(ada, bob):
    first = bob.remember(Memory("decision", "Tokens end after a day")).entity
    ada.remember(Memory("note", "one's own is no news"))
    newest = ada.waiting("reader-of-ada")
    assert (ids(newest.changes), newest.looked_at) == ([first.item_id], "")
    ada.note_look("reader-of-ada")
    later = bob.remember(Memory("trap", "The clock is UTC")).entity
    seen = ada.waiting("reader-of-ada")
    assert (ids(seen.changes), seen.changes.number) == ([later.item_id], 1)
    assert seen.looked_at.startswith("20")
    assert seen.changes.first[0].note == "new, by bob"
    assert ada.waiting("another").changes.number == 2
    ada.note_look("reader-of-ada")
    assert ada.waiting("reader-of-ada").changes.number == 0
    bob.work.set_fields(first.item_id, {"tags": ["auth"]})
    assert [one.note for one in ada.waiting("reader-of-ada").changes.first] == ["by bob"]


def test_what_two_clones_settled_differently_is_in_conflict(ada, tmp_path):
    held = ada.remember(Memory("decision", "Tokens end after a day")).entity

    def write_apart(transaction):
        now = transaction.get("decision", held.item_id)
        transaction.put("decision", held.item_id, {**now.value, "confidence": 70}, summary="less sure")

    other = os.fspath(tmp_path / "clone")
    ada.export(os.fspath(tmp_path / "one.periplus"))
    os.mkdir(other)
    Project.import_from(os.fspath(tmp_path / "one.periplus"), other)
    with Project.open(other, Writer.named("bob")) as clone:
        clone.journal.mutate(write_apart, clone.writer)
        ada.work.set_fields(held.item_id, {"confidence": 90})
        folder = os.fspath(tmp_path / "between")
        os.mkdir(folder)
        for one in (clone, ada):
            one.sync(folder, cwd=other, environment={})
    waiting = ada.waiting()
    assert ids(waiting.conflicts) == [held.item_id]
    assert waiting.conflicts.first[0].note == "in conflict: confidence"
    assert f"periplus show {held.item_id}" in commands(waiting)


@pytest.mark.slow
def test_few_of_many_entities_are_decoded(ada, bob):
    sample = bob.remember(Memory("note", "a note")).entity.value
    message = bob.work.send("ada", "hello").value

    def write(transaction):
        for number in range(3_000):
            transaction.put("note", new_id("not"), {**sample, "text": f"note {number}"}, summary="n")
            transaction.put("message", new_id("msg"), {**message, "text": f"hello {number}"}, summary="m")

    bob.journal.mutate(write, bob.writer)
    ada.waiting()  # brings the index up to date
    decoded = 0

    def count(frame, event, _):
        nonlocal decoded
        decoded += event == "call" and frame.f_code.co_name == "entity_of_head"

    with Project(ada.root, ada.writer) as again:
        sys.setprofile(count)
        try:
            waiting = again.waiting()
        finally:
            sys.setprofile(None)
    assert (waiting.mail.number, waiting.changes.words()) == (3_001, "more than 2,000")
    assert 0 < decoded < 100
