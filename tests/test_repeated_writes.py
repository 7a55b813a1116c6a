"""A write that is repeated with its key finds what was written, also where the index does not have it, or not any more."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from periplus import Project, Writer
from periplus.base.errors import ConflictError, OutcomeUnknownError
from periplus.base.files import Files
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.memory import Memory
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep

ADA = Writer.named("ada", session="monday")
KEY = "0123456789abcdef"


def write_plan(project, key):
    return project.work.make_plan("Rate limits", [NewStep("measure"), NewStep("limit")], key=key).plan


def write_steps(project, key):
    [plan] = [one for one in project.journal.entities("plan") if one.value["text"] == "An older one"]
    return project.work.add_steps(plan.item_id, [NewStep("third"), NewStep("fourth")], key=key).steps[0]


def take_step(project, key):
    return project.work.take(key=key).claim


def split(project, key):
    [old] = [one for one in project.journal.entities("decision") if one.value["text"] == "Ports and hosts"]
    return project.work.split(old.item_id, ["Ports are fixed", "Hosts are not"], key=key).entities[-1]


WRITES = {
    "remember": lambda project, key: project.remember(Memory("note", "Port 9 is free"), key=key).entity,
    "plan": write_plan,
    "steps": write_steps,
    "take": take_step,
    "claim": lambda project, key: project.work.claim(Asked(("src",)), key=key).claim,
    "handoff": lambda project, key: project.work.hand_off(NewHandoff("Measured"), key=key),
    "message": lambda project, key: project.work.send("bob", "Ready", key=key),
    "split": split,
}


@pytest.fixture
def folder(tmp_path):
    Project.init(os.fspath(tmp_path))
    with Project.open(os.fspath(tmp_path), ADA) as project:
        project.work.make_plan("An older one", [NewStep("first")])
        project.remember(Memory("decision", "Ports and hosts"))
    return os.fspath(tmp_path)


def written(project):
    rows = project.journal.index.records("key = ? ORDER BY seq", (KEY,), -1)
    return [(row.item_type, row.item_id) for row in rows]


@pytest.mark.parametrize("kind", WRITES)
def test_after_an_outcome_that_is_unknown(folder, kind, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "the disk")

    with Project.open(folder, ADA) as project, monkeypatch.context() as patched:
        patched.setattr(Files, "sync_data", fail)
        with pytest.raises(OutcomeUnknownError):
            WRITES[kind](project, KEY)
    with Project.open(folder, ADA) as project:
        found = WRITES[kind](project, KEY)
        project.journal.project()
        assert (found.item_type, found.item_id) in written(project)
        assert WRITES[kind](project, KEY).item_id == found.item_id


@pytest.mark.parametrize("kind", WRITES)
def test_where_the_index_was_made_from_a_checkpoint_behind_it(folder, kind):
    with Project.open(folder, ADA) as project:
        first = WRITES[kind](project, KEY)
        project.remember(Memory("note", "something behind it"))
        assert make_checkpoint(project.journal, ADA) is not None
    Path(folder, ".periplus/index.sqlite").unlink()
    with Project.open(folder, ADA) as project:
        assert written(project) == []
        assert WRITES[kind](project, KEY).item_id == first.item_id


@pytest.mark.parametrize("kind", [kind for kind in WRITES if kind != "remember"])
def test_a_key_of_something_else_is_told(folder, kind):
    with Project.open(folder, ADA) as project:
        project.remember(Memory("lesson", "Run the migrations first"), key=KEY)
        end = project.journal.end()
        with pytest.raises(ConflictError, match=r"the key '.*' was used for something else \(record \d+\)") as caught:
            WRITES[kind](project, KEY)
        assert caught.value.mend == "Repeat without --key, or with another key."
        assert project.journal.end() == end


def ids_of(project):
    """A decision, a claim, a step, a message and a handoff, each by its id, as the calls below want them."""
    decision = project.remember(Memory("decision", "Ports start at 8000")).entity.item_id
    other = project.remember(Memory("decision", "Hosts are fixed")).entity.item_id
    work = project.work
    claims = [work.claim(Asked((path,))).claim.item_id for path in ("src", "doc")]
    plan = work.make_plan("Sell", [NewStep("open"), NewStep("close")])
    mail = [work.send("ada", text).item_id for text in ("one", "two")]
    handoffs = [work.hand_off(NewHandoff(text)).item_id for text in ("here", "there")]
    return decision, other, claims, [step.item_id for step in plan.steps], mail, handoffs, plan.plan.item_id


CALLS = {
    "set": (lambda w, ids, key: w.set_fields(ids[0], {"confidence": 10}, key=key),
            lambda w, ids, key: w.set_fields(ids[0], {"confidence": 20}, key=key)),
    "set tags": (lambda w, ids, key: w.set_fields(ids[0], {"tags": ["a"]}, key=key),
                 lambda w, ids, key: w.set_fields(ids[0], {"tags": ["a"], "rationale": "so"}, key=key)),
    "set another": (lambda w, ids, key: w.set_fields(ids[0], {"confidence": 10}, key=key),
                    lambda w, ids, key: w.set_fields(ids[1], {"confidence": 10}, key=key)),
    "state": (lambda w, ids, key: w.change_state([ids[0]], "deferred", key=key),
              lambda w, ids, key: w.change_state([ids[0]], "superseded", key=key)),
    "state of another": (lambda w, ids, key: w.change_state([ids[0]], "deferred", key=key),
                         lambda w, ids, key: w.change_state([ids[1]], "deferred", key=key)),
    "evolve": (lambda w, ids, key: w.evolve(ids[0], "Ports start at 9000", key=key),
               lambda w, ids, key: w.evolve(ids[0], "Ports start at 9001", key=key)),
    "evolve with": (lambda w, ids, key: w.evolve(ids[0], "Ports start at 9000", {"tags": ["a"]}, key=key),
                    lambda w, ids, key: w.evolve(ids[0], "Ports start at 9000", {"tags": ["b"]}, key=key)),
    "merge": (lambda w, ids, key: w.merge(ids[:2], "Both", key=key),
              lambda w, ids, key: w.merge(ids[:2], "Both of them", key=key)),
    "split": (lambda w, ids, key: w.split(ids[0], ["Ports", "Eight thousand"], key=key),
              lambda w, ids, key: w.split(ids[0], ["Ports", "Nine thousand"], key=key)),
    "link": (lambda w, ids, key: w.link(ids[0], "references", ids[1], key=key),
             lambda w, ids, key: w.link(ids[0], "depends_on", ids[1], key=key)),
    "claim": (lambda w, ids, key: w.claim(Asked(("lib",)), key=key),
              lambda w, ids, key: w.claim(Asked(("bin",)), key=key)),
    "release": (lambda w, ids, key: w.release([ids[2][0]], key=key),
                lambda w, ids, key: w.release([ids[2][1]], key=key)),
    "steps": (lambda w, ids, key: w.add_steps(ids[6], [NewStep("sweep")], key=key),
              lambda w, ids, key: w.add_steps(ids[6], [NewStep("dust")], key=key)),
    "take": (lambda w, ids, key: w.take(step=ids[3][0], key=key),
             lambda w, ids, key: w.take(step=ids[3][1], key=key)),
    "plan": (lambda w, ids, key: w.make_plan("Buy", [NewStep("look")], key=key),
             lambda w, ids, key: w.make_plan("Buy", [NewStep("ask")], key=key)),
    "message": (lambda w, ids, key: w.send("bob", "Ready", key=key),
                lambda w, ids, key: w.send("eve", "Ready", key=key)),
    "answer": (lambda w, ids, key: w.answer(ids[4][0], "Yes", key=key),
               lambda w, ids, key: w.answer(ids[4][1], "Yes", key=key)),
    "read": (lambda w, ids, key: w.read_mail([ids[4][0]], key=key),
             lambda w, ids, key: w.read_mail([ids[4][1]], key=key)),
    "handoff": (lambda w, ids, key: w.hand_off(NewHandoff("Measured"), key=key),
                lambda w, ids, key: w.hand_off(NewHandoff("Not measured"), key=key)),
    "accept": (lambda w, ids, key: w.accept_handoff(ids[5][0], key=key),
               lambda w, ids, key: w.accept_handoff(ids[5][1], key=key)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_another_call_with_a_used_key_is_refused_and_the_same_one_is_not(folder, name):
    """Whatever was written in between: it is what was written with the key that counts, not what became of it."""
    call, other = CALLS[name]
    with Project.open(folder, ADA) as project:
        ids = ids_of(project)
        first = call(project.work, ids, KEY)
        end = project.journal.end()
        with pytest.raises(ConflictError, match="used for something else"):
            other(project.work, ids, KEY)
        assert project.journal.end() == end
        for value in [one.value for one in project.journal.entities("decision")]:
            assert value.get("confidence") != 20
        project.work.set_fields(ids[1], {"confidence": 77})
        if project.show(ids[0]).value["state"] == "accepted":
            project.work.set_fields(ids[0], {"text": "Said anew since", "confidence": 55, "tags": ["since"]})
        end = project.journal.end()
        again = call(project.work, ids, KEY)
        assert project.journal.end() == end
        assert told(again) == told(first)


def told(done):
    """What of an answer stays, whatever is written since: the ids, in their order."""
    if hasattr(done, "entities"):
        return [one.item_id for one in done.entities]
    return [
        part.item_id
        for part in (done if hasattr(done, "claim") or hasattr(done, "plan") else [done])
        if hasattr(part, "item_id")
    ]


def test_what_was_remembered_with_a_key_is_found_though_it_says_something_else_by_now(folder):
    with Project.open(folder, ADA) as project:
        first = project.remember(Memory("note", "Port 9 is free"), key=KEY).entity
        project.work.set_fields(first.item_id, {"text": "Port 10 is free"})
        assert project.remember(Memory("note", "Port 9 is free"), key=KEY).entity.item_id == first.item_id
        with pytest.raises(ConflictError, match="used for something else"):
            project.remember(Memory("note", "Port 10 is free"), key=KEY)
        project.undo(seqs=[first.seq, project.show(first.item_id).seq])
        again = project.remember(Memory("note", "Port 9 is free"), key=KEY)
        assert (again.entity.item_id, again.entity.value["text"]) == (first.item_id, "Port 9 is free")


def test_several_of_which_one_was_in_that_state_already(folder):
    with Project.open(folder, ADA) as project:
        one, two, *_ = ids_of(project)
        project.work.change_state([two], "deferred")
        first = project.work.change_state([one, two], "deferred", key=KEY)
        assert told(project.work.change_state([one, two], "deferred", key=KEY)) == told(first)
