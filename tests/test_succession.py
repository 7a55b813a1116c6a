"""What becomes of entities: in whose place which stands, anchored to what, refused to whom; states by their old names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli_support import SECRET, Shell
from periplus.base.clock import FixedClock, parse_ms
from periplus.base.errors import ClaimedError, ConflictError, RefusedError, SecretFoundError, UsageError
from periplus.base.ids import new_id
from periplus.memory import Memory
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep
from periplus.memory.fulltext.links import linked, open_entities
from periplus.memory.retrieval.search import Filters
from periplus.project import Project
from support import ADA, Stop, StoppingFiles, record_count
from test_anchors import AUTH, commit, write
from test_anchors import project as in_git

__all__ = ["in_git"]

GOLDEN = Path(__file__).parent / "golden" / "entities"


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


def state(project, entity):
    return project.show(entity.item_id).value["state"]


# ---- what says it already


def test_what_says_it_already_stands_in_the_place_of_what_evolves(ada):
    old = ada.remember(Memory("lesson", "Run make lock", tags=("deps",))).entity
    held = ada.remember(Memory("lesson", "Run make setup after a pull", tags=("ci",))).entity
    done = ada.work.evolve(old.item_id, "Run  make setup after a pull")
    assert done.entities[0].item_id == held.item_id
    assert done.entities[0].value["tags"] == ["ci", "deps"]
    assert done.entities[0].value["relations"] == [{"kind": "supersedes", "target": old.item_id}]
    assert state(ada, old) == "superseded"
    before = record_count(ada)
    again = ada.work.evolve(held.item_id, "Run make setup after a pull")
    assert (again.receipt, [one.item_id for one in again.entities]) == (None, [held.item_id])
    assert record_count(ada) == before
    changed = ada.work.evolve(held.item_id, "Run make setup after a pull", {"confidence": 60})
    assert changed.entities[0].item_id != held.item_id


def test_merging_into_the_words_of_one_lets_it_stand(ada):
    one, other = (ada.remember(Memory("trap", text)).entity for text in ("The lock hangs", "A lock may hang on NFS"))
    done = ada.work.merge([one.item_id, other.item_id], "A lock may hang on NFS")
    assert [entity.item_id for entity in done.entities] == [other.item_id, one.item_id]
    assert [state(ada, one), state(ada, other)] == ["resolved", "active"]
    assert ada.recall("lock hangs").hits[0].item_id == other.item_id
    with pytest.raises(UsageError, match="given twice, or is the present text"):
        ada.work.split(other.item_id, ["A lock may hang on NFS", "Another"])
    with pytest.raises(UsageError, match="given twice"):
        ada.work.split(other.item_id, ["Another", "Another "])


def test_what_says_almost_the_same_is_pointed_out_and_what_says_the_same_is_not_said_twice(ada):
    near = ada.remember(Memory("decision", "Passwords are hashed with argon2 and a salt")).entity
    old = ada.remember(Memory("decision", "We use sqlite for the index")).entity
    done = ada.work.evolve(old.item_id, "Passwords are hashed with argon2 and a long salt")
    assert done.near == (near.item_id,)
    before = record_count(ada)
    with pytest.raises(ConflictError, match=f"{near.item_id} already says that"):
        ada.work.set_fields(done.entities[0].item_id, {"text": "Passwords are hashed with argon2 and a salt"})
    assert record_count(ada) == before


@pytest.mark.parametrize("item_type", ["decision", "trap", "lesson", "note"])
def test_what_was_replaced_already_is_not_replaced_apart_from_that(ada, item_type):
    old, beside = (ada.remember(Memory(item_type, text)).entity for text in ("We use files", "We keep backups"))
    first = ada.work.evolve(old.item_id, "We use sqlite", key="once").entities[0]
    second = ada.work.evolve(first.item_id, "We use sqlite with a journal").entities[0]
    before = record_count(ada)
    for call in (
        lambda: ada.work.evolve(old.item_id, "We use postgres"),
        lambda: ada.work.split(old.item_id, ["We use postgres", "We use files for blobs"]),
        lambda: ada.work.merge([old.item_id, beside.item_id], "We use postgres and keep backups"),
    ):
        with pytest.raises(ConflictError, match=f"{old.item_id} was replaced already, by {second.item_id}") as caught:
            call()
        assert caught.value.mend.endswith(f"periplus evolve {second.item_id} '…'")
    assert ada.work.evolve(old.item_id, "We use sqlite", key="once").receipt.repeated
    assert record_count(ada) == before
    noted = ada.remember(Memory(item_type, "We use redis", supersedes=(old.item_id,)))
    assert noted.notes == (f"{old.item_id} was replaced already, by {second.item_id}: this is another replacement",)
    ada.undo(seqs=[noted.entity.seq])
    ada.work.merge([old.item_id, second.item_id], "We use sqlite with a journal, as ever")


def test_what_was_replaced_may_be_once_that_is_gone(ada):
    old = ada.remember(Memory("decision", "We use files")).entity
    new = ada.work.evolve(old.item_id, "We use sqlite").entities[0]
    ada.work.change_state([new.item_id], "superseded")
    assert ada.work.evolve(old.item_id, "We use postgres").entities[0].value["text"] == "We use postgres"
    note = ada.remember(Memory("note", "The door is green")).entity
    parts = ada.work.split(note.item_id, ["The door is", "It is green"]).entities
    with pytest.raises(ConflictError, match="was replaced already") as caught:
        ada.work.evolve(note.item_id, "The door is red")
    assert "periplus merge " in caught.value.mend
    assert all(part.item_id in caught.value.mend for part in parts)


# ---- anchors


def test_what_is_set_is_anchored_like_what_is_remembered(in_git, tmp_path):
    said = in_git.remember(Memory("decision", "Passwords are salted")).entity
    as_remembered = in_git.remember(Memory("note", "the same anchor", about=("src/auth.py:hash_password",))).entity
    done = in_git.work.set_fields(said.item_id, {"about": ["src/auth.py:hash_password"]})
    assert done.entities[0].value["about"] == as_remembered.value["about"]
    bare = in_git.work.set_fields(said.item_id, {"about": [{"kind": "symbol", "ref": "src/auth.py:hash_password"}]})
    assert bare.receipt is None, "what is given bare is anchored all the same"
    before = record_count(in_git)
    for about in (["src/auth.py:no_such_thing"], [{"kind": "path"}], [""], [7]):
        with pytest.raises(UsageError):
            in_git.work.set_fields(said.item_id, {"about": about})
    assert record_count(in_git) == before
    write(tmp_path, AUTH.replace("salt = new_salt()", "salt = old_salt()"))
    assert in_git.ground().told(in_git.show(said.item_id))


def test_a_step_is_about_scopes(ada, tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    step = ada.work.make_plan("Work", [NewStep("one")]).steps[0]
    done = ada.work.set_fields(step.item_id, {"about": ["a.py", "src/**", "b.py:run"]})
    assert [one["ref"] for one in done.entities[0].value["about"]] == ["a.py", "src/**", "b.py:run"]
    assert sorted(ada.work.take().claim.value["scopes"]) == ["a.py", "b.py:run", "src/**"]


def test_what_is_said_anew_is_anchored_to_the_code_as_it_is_now(in_git, tmp_path):
    old = in_git.remember(Memory("decision", "Passwords are salted", about=("src/auth.py:hash_password",))).entity
    gone = in_git.remember(Memory("decision", "A session has a name", about=("src/auth.py:Session",))).entity
    at = AUTH.index("class")
    write(tmp_path, AUTH[:at].replace("salt = new_salt()", "salt = longer_salt()"))
    commit(tmp_path, "longer salts, no sessions")
    ground = in_git.ground()
    assert ground.told(old)
    assert ground.told(gone)
    new = in_git.work.evolve(old.item_id, "Passwords have long salts")
    assert in_git.ground().told(new.entities[0]) == ()
    kept = in_git.work.evolve(gone.item_id, "A session has a long name")
    assert kept.entities[0].value["about"] == gone.value["about"]
    assert kept.notes == ("src/auth.py:Session cannot be found again: it stays stale until it is confirmed",)
    assert in_git.ground().told(kept.entities[0])


# ---- whose work it is


def test_who_does_a_step_is_asked_before_somebody_else_ends_it(ada, bob, clock):
    made = ada.work.make_plan("Work", [NewStep("one"), NewStep("two")])
    taken = ada.work.take()
    before = record_count(bob)
    for ids, to in (
        ([taken.step.item_id], "done"),
        ([made.plan.item_id], "dropped"),
        ([taken.claim.item_id], "released"),
    ):
        with pytest.raises(RefusedError, match="ada") as caught:
            bob.work.change_state(ids, to)
        assert "--force" in caught.value.mend
    assert record_count(bob) == before
    ada.work.change_state([taken.step.item_id], "done")
    second = ada.work.take()
    bob.work.change_state([second.step.item_id], "blocked", force=True)
    assert [state(bob, second.step), state(bob, second.claim)] == ["blocked", "held"]
    clock.advance(8 * 3_600_000)
    bob.work.change_state([second.step.item_id], "todo")  # the claim is over
    assert state(bob, second.step) == "todo"


# ---- states by their old names


def test_candidates_of_every_version_are_read_shown_and_decided(ada):
    for version in (1, 2):
        for payload in json.loads((GOLDEN / f"candidate-{version}.json").read_text()):
            item_id = new_id("cnd")
            value = {**payload, "subject": [*payload.get("subject", []), str(version)]}
            ada.journal.mutate(lambda at, i=item_id, p=value: at.put("candidate", i, p), ADA)
    reflection = ada.reflection
    assert len(reflection.candidates()) == 2
    assert len(reflection.candidates(with_decided=True)) == 6
    assert len(open_entities(ada.journal, "candidate")) == 2
    assert len(linked(ada.journal, "candidate", "state", "rejected")) == 2
    ada.journal.project()
    assert len(open_entities(ada.journal, "candidate")) == 2
    first, second = reflection.candidates()
    with pytest.raises(UsageError, match="by its own command") as caught:
        ada.work.change_state([first.item_id], "accepted")
    assert f"candidates accept {first.item_id}" in caught.value.mend
    assert reflection.accept(first.item_id).is_new
    assert reflection.refuse(second.item_id).value["state"] == "rejected"
    assert {one.value["state"] for one in reflection.candidates(with_decided=True)} == {
        "accepted",
        "rejected",
        "refused",
    }
    old = next(one for one in reflection.candidates(with_decided=True) if one.value["state"] == "refused")
    with pytest.raises(ConflictError, match="was rejected already"):
        reflection.accept(old.item_id)
    assert ada.work.change_state([old.item_id], "pending").entities[0].value["state"] == "pending"


def test_claims_of_every_version_are_read(ada, bob, clock):
    held, waiting = json.loads((GOLDEN / "claim-1.json").read_text())
    clock.advance((parse_ms(held["created"]) or 0) - clock.now_ms())
    for value in (held, waiting):
        ada.journal.types["claim"].check(value)
        item_id = new_id("clm")
        ada.journal.mutate(lambda at, i=item_id, v=value: at.put("claim", i, v), ADA)
    assert [one.value["holder"] for one in ada.work.claims()] == ["eve"]
    assert [one.value["holder"] for one in ada.work.waiting()] == ["dan"]
    with pytest.raises(ClaimedError, match="claimed by eve"):
        bob.work.claim(Asked(("src/auth.py",)))


def test_nothing_is_put_away_by_its_age(ada, clock):
    kept = [
        ada.remember(Memory(kind, f"An old {kind} about tar")).entity
        for kind in ("decision", "constraint", "trap", "lesson", "note")
    ]
    plan = ada.work.make_plan("Tar the hull", [NewStep("heat the tar")])
    handoff = ada.work.hand_off(NewHandoff("The tar is half hot"))
    before = record_count(ada)
    clock.advance(20 * 365 * 86_400_000)
    assert {hit.item_id for hit in ada.recall("old tar", limit=50).hits} >= {one.item_id for one in kept}
    assert ada.reviewing.due() == []
    assert [one.item_id for one, _ in ada.work.plans()] == [plan.plan.item_id]
    assert [one.item_id for one in ada.work.handoffs()] == [handoff.item_id]
    ada.examine()
    assert all(ada.show(one.item_id).value == one.value for one in kept)
    assert record_count(ada) == before


# ---- secrets


def test_a_secret_is_refused_with_its_place_unless_one_insists(tmp_path):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    root = os.fspath(tmp_path / ".periplus")
    with Project(root, ADA) as project:
        names = ("first", "second", "third")
        one, other, third = (project.remember(Memory("decision", name)).entity.item_id for name in names)
        step = project.work.make_plan("a plan", [NewStep("step")]).steps[0].item_id
        claim = project.work.claim(Asked(("doc",))).claim.item_id
    key = f"the key is {SECRET}"
    for words, field in (
        (("remember", key), "note's text"),
        (("set", third, f"rationale={SECRET}"), "decision's rationale"),
        (("state", step, "blocked", "--reason", SECRET), "step's reason"),
        (("merge", one, other, "--text", key), "decision's text"),
        (("claim", "take", "src", "--text", SECRET), "claim's text"),
        (("plan", "make", "work", "--step", f"use {SECRET}"), "step's text"),
        (("handoff", "write", "half done", "--unfinished", SECRET), "handoff's unfinished[0]"),
        (("inbox", "send", "bob", f"use {SECRET}"), "message's text"),
        (("session", "begin", "s1", "--title", SECRET), "session's title"),
    ):
        done = shell.fails(*words, code=5, wrong=field)
        assert "characters" in done.err
        assert "--insist" in done.err
        assert SECRET not in done.err
        shell(*words, "--insist")
    with Project(root, ADA) as project:
        fresh = project.remember(Memory("decision", "fourth")).entity.item_id
        before = record_count(project)
        for call, field in (
            (lambda: project.work.evolve(fresh, key), "decision's text"),
            (lambda: project.work.split(fresh, ["one", key]), "decision's text"),
            (lambda: project.work.hand_off(NewHandoff(key)), "handoff's text"),
            (lambda: project.work.set_fields(claim, {"text": key}), "claim's text"),
        ):
            with pytest.raises(SecretFoundError, match=field):
                call()
        assert record_count(project) == before


# ---- a stop in the middle


@pytest.mark.slow
def test_a_stop_at_every_call_leaves_one_standing_for_both_or_neither(tmp_path, clock):
    stops = 0
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=clock).root
        with Project(root, ADA, clock=clock) as project:
            one, other = (
                project.remember(Memory("trap", text)).entity for text in ("The lock hangs", "A lock may hang")
            )
        stopped = True
        try:
            with Project(root, ADA, clock=clock, files=StoppingFiles(number)) as project:
                project.work.merge([one.item_id, other.item_id], "A lock may hang")
                stopped = False
        except Stop:
            stops += 1
        with Project(root, ADA, clock=clock) as project:
            assert (state(project, one), state(project, other)) in (("active", "active"), ("resolved", "active"))
            problems = [
                (found.severity, found.what) for found in project.examine().problems if found.severity != "note"
            ]
            assert not [what for _, what in problems if "differ" in what], "what is behind is no difference"
            project.work.merge([one.item_id, other.item_id], "A lock may hang")
            assert (state(project, one), state(project, other)) == ("resolved", "active")
        if not stopped:
            break
    assert 2 < stops < 199


@pytest.mark.parametrize("question", ["credentials", "password vault"])
def test_what_was_replaced_never_outranks_what_stands_in_its_place(ada, tmp_path, question):
    """Also where what stands there is stale, says none of the words, and came by way of something that says none either."""
    (tmp_path / "src").mkdir()
    write(tmp_path, AUTH)
    for number in range(12):
        ada.remember(Memory("note", f"Something else, the {number}th"))
    first = ada.remember(Memory("decision", "We keep the password in a vault")).entity.item_id
    second = ada.remember(Memory("decision", "Moved to the new place", supersedes=(first,))).entity.item_id
    third = ada.remember(
        Memory("decision", "A third way", supersedes=(second,), about=("src/auth.py",), confidence=30)
    ).entity.item_id
    other = ada.remember(Memory("decision", "The password of the wifi is on the wall")).entity.item_id
    write(tmp_path, "changed = True\n")
    told = ada.recall(question).hits
    assert {hit.item_id for hit in told} >= {third, other}
    assert not {first, second} & {hit.item_id for hit in told}
    all_told = ada.recall(question, filters=Filters(with_ended=True)).hits
    order = [hit.item_id for hit in all_told]
    assert order.index(third) < order.index(first)
    assert [one for one in order if one in (third, other)] == [
        hit.item_id for hit in told if hit.item_id in (third, other)
    ]
    assert all_told[order.index(third)].stale
