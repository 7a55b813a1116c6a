"""Changes of state, updates and lineage of entities, through the table of types, on real stores."""

from __future__ import annotations

import os
from typing import get_args, get_origin, get_type_hints

import pytest

from periplus.base.clock import FixedClock, format_ms
from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, UsageError
from periplus.base.ids import new_id
from periplus.journal import ABSENT
from periplus.memory import MEMORY_TYPES, TYPES, Memory
from periplus.memory.entities.types import DISPATCHED, memory_types
from periplus.memory.fulltext.indexer import MemoryIndexer
from periplus.memory.fulltext.links import linked, open_entities
from periplus.memory.writing.lifecycle import change_state, evolve, link, merge, split, update
from periplus.project import Project
from support import WRITER, Stop, StoppingFiles

ACTORS = [row for row in TYPES if row.transitions and row.name not in DISPATCHED]


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


@pytest.fixture
def project(tmp_path, clock):
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with Project(root, WRITER, clock=clock) as project:
        yield project


def minimal(row, clock, **fields):
    """The least that an entity of a type can be."""
    now = format_ms(clock.now_ms())
    held = {
        "text": "work", "created": now, "updated": now, "name": "ada", "source_store": "s", "source_lineage": "l",
        "item_type": "note", "item_id": "x", "version": "v", "rev": 1, "payload": {}, "scopes": ["src"], "holder": "ada",
        "holder_id": "who_1", "ttl_s": 60, "expires": now, "sender": "ada", "recipient": "bob", "agent": "ada",
        "tool_version": "1", "started": now, "lineage": "l", "first_seq": 1, "description": "x", "body": "x", "rule": "x",
        "commands": ["x"], "turns": [], "dispatch": "dsp_1", "kind": "review",
    }  # fmt: skip
    names = row.schema.__struct_fields__
    value = {name: value for name, value in held.items() if name in names}
    return {"v": 1, **value, **({"state": row.default_state} if row.default_state else {}), **fields}


def put(project, item_type, clock, **fields):
    row = MEMORY_TYPES[item_type]
    item_id = new_id(row.prefix)
    value = minimal(row, clock, **fields)
    project.journal.mutate(lambda at: at.put(item_type, item_id, value, expect=ABSENT), WRITER)
    return project.journal.get(item_type, item_id)


def state_of(project, entity):
    return project.journal.get(entity.item_type, entity.item_id).value["state"]


def records(project):
    return project.journal.end().next_seq


# ---- the table


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.name)
def test_a_row_of_the_table_fits_its_schema(row):
    fields = get_type_hints(row.schema)
    states = fields.get("state")
    assert set(row.transitions) | set(row.old_states) == set(get_args(states) if get_origin(states) is not None else ())
    assert set(row.old_states.values()) <= set(row.transitions)
    assert all(following <= set(row.transitions) for following in row.transitions.values())
    assert row.ended_states <= set(row.transitions)
    assert not row.default_state or row.default_state in row.transitions
    assert not row.replaced_state or row.replaced_state in row.ended_states
    assert row.touchable | row.linked | row.sets - {"tags", "about", "evidence", "relations"} <= set(fields)
    for cascade in row.cascades:
        other = MEMORY_TYPES[cascade.item_type]
        assert cascade.into <= set(row.transitions)
        assert cascade.states | {cascade.to} <= set(other.transitions)
        assert all(cascade.to in other.transitions[state] for state in cascade.states)
        assert cascade.field in (fields if cascade.is_own else other.linked)


def test_prefixes_are_different():
    assert len({row.prefix for row in TYPES}) == len(TYPES)


@pytest.mark.parametrize("row", ACTORS, ids=lambda row: row.name)
def test_every_pair_of_states_is_allowed_or_refused_as_the_table_says(project, clock, row):
    for before, following in row.transitions.items():
        for after in row.transitions:
            entity = put(project, row.name, clock, state=before)
            seq = records(project)
            if (row.name, after) in (("candidate", "accepted"), ("claim", "held")):
                with pytest.raises(UsageError, match=f"a {row.name} is (accepted|taken) by its own command"):
                    change_state(project.journal, WRITER, [entity.item_id], after)
            elif after in following or after == before:
                changed = change_state(project.journal, WRITER, [entity.item_id], after)
                assert changed.entities[0].value["state"] == after
                assert (changed.receipt is None) == (after == before)
            else:
                with pytest.raises(UsageError, match=rf"is {before} and cannot become {after}"):
                    change_state(project.journal, WRITER, [entity.item_id], after)
                assert records(project) == seq
                assert state_of(project, entity) == before


@pytest.mark.parametrize("name", sorted(DISPATCHED))
def test_what_a_dispatch_writes_is_not_changed_by_hand(project, clock, name):
    entity = put(project, name, clock)
    for state in MEMORY_TYPES[name].transitions:
        with pytest.raises(UsageError, match="not by hand"):
            change_state(project.journal, WRITER, [entity.item_id], state)


def test_a_state_that_is_none_is_refused_with_those_that_are(project):
    entity = project.remember(Memory("trap", "Mind the lock")).entity
    with pytest.raises(UsageError, match="cannot become done") as caught:
        change_state(project.journal, WRITER, [entity.item_id], "done")
    assert "expired, resolved" in caught.value.mend
    note = project.remember(Memory("note", "No states")).entity
    with pytest.raises(UsageError, match="a note has no states"):
        change_state(project.journal, WRITER, [note.item_id], "resolved")
    with pytest.raises(NotFoundError):
        change_state(project.journal, WRITER, ["trp_zzzzzzzz"], "resolved")


# ---- what a change takes with it


def test_a_plan_that_ends_takes_its_open_steps_and_their_claims_along_in_one_batch(project, clock):
    plan = put(project, "plan", clock)
    steps = [put(project, "step", clock, plan=plan.item_id, state=state) for state in ("todo", "doing", "done")]
    other = put(project, "step", clock, plan=new_id("pln"))
    claim = put(project, "claim", clock, step=steps[1].item_id)
    seq = records(project)
    changed = change_state(project.journal, WRITER, [plan.item_id], "dropped", reason="no longer wanted")
    assert [state_of(project, step) for step in steps] == ["dropped", "dropped", "done"]
    assert (state_of(project, claim), state_of(project, other)) == ("released", "todo")
    assert changed.receipt.record_count == records(project) - seq == 4
    assert {one.item_id for one in changed.entities} == {
        plan.item_id,
        steps[0].item_id,
        steps[1].item_id,
        claim.item_id,
    }
    assert project.journal.get("step", steps[0].item_id).value["reason"] == "no longer wanted"


def test_a_claim_that_is_released_gives_its_step_back_but_not_one_that_is_done(project, clock):
    for state, after in (("doing", "todo"), ("review", "review"), ("done", "done")):
        step = put(project, "step", clock, state=state)
        claim = put(project, "claim", clock, step=step.item_id)
        change_state(project.journal, WRITER, [claim.item_id], "released")
        assert state_of(project, step) == after


def test_a_session_that_is_sealed_releases_what_it_held(project, clock):
    session = put(project, "session", clock)
    mine = put(project, "claim", clock, session=session.item_id)
    theirs = put(project, "claim", clock, session=new_id("ses"))
    change_state(project.journal, WRITER, [session.item_id], "sealed")
    assert (state_of(project, mine), state_of(project, theirs)) == ("released", "held")


def test_several_change_together_or_not_at_all(project, clock):
    one, other = put(project, "step", clock), put(project, "step", clock, state="dropped")
    seq = records(project)
    with pytest.raises(UsageError, match="dropped and cannot become done"):
        change_state(project.journal, WRITER, [one.item_id, other.item_id], "done")
    assert records(project) == seq
    assert state_of(project, one) == "todo"


def test_a_stop_at_every_call_leaves_all_of_a_cascade_or_nothing(tmp_path, clock):
    stops = 0
    for number in range(1, 400):
        folder = tmp_path / str(number)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=clock).root
        with Project(root, WRITER, clock=clock) as project:
            plan = put(project, "plan", clock)
            step = put(project, "step", clock, plan=plan.item_id)
        stopped = True
        try:
            with Project(root, WRITER, clock=clock, files=StoppingFiles(number)) as project:
                change_state(project.journal, WRITER, [plan.item_id], "done")
                stopped = False
        except Stop:
            pass
        stops += stopped
        with Project(root, WRITER, clock=clock) as project:
            assert (state_of(project, plan), state_of(project, step)) in (("todo", "todo"), ("done", "dropped"))
            change_state(project.journal, WRITER, [plan.item_id], "done")
            assert (state_of(project, plan), state_of(project, step)) == ("done", "dropped")
        if not stopped:
            break
    assert 5 < stops < 399


# ---- links


def test_entities_are_found_by_what_they_hold_before_and_after_the_index_has_them(project, clock):
    plan = put(project, "plan", clock)
    steps = sorted(put(project, "step", clock, plan=plan.item_id).item_id for _ in range(5))
    assert [one.item_id for one in linked(project.journal, "step", "plan", plan.item_id)] == steps
    project.journal.mutate(
        lambda at: at.put("step", steps[0], {**at.get("step", steps[0]).value, "plan": "", "state": "doing"}), WRITER,
        project=False,
    )  # fmt: skip
    assert project.journal.unindexed() == [("step", steps[0])]
    assert [one.item_id for one in linked(project.journal, "step", "plan", plan.item_id)] == steps[1:]
    assert [one.item_id for one in linked(project.journal, "step", "state", "doing")] == steps[:1]
    project.journal.mutate(lambda at: at.delete("step", steps[1]), WRITER)
    assert [one.item_id for one in open_entities(project.journal, "step")] == [steps[0], *steps[2:]]


def test_an_index_of_an_older_version_is_made_anew(tmp_path, clock, monkeypatch):
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with monkeypatch.context() as patch:
        patch.setattr(MemoryIndexer, "version", MemoryIndexer.version - 1)
        with Project(root, WRITER, clock=clock) as project:
            step = put(project, "step", clock, plan="pln_0000000000000000")
            project.journal.index.db.execute("DROP TABLE links")
            project.journal.index.db.commit()
    with Project(root, WRITER, clock=clock) as project:
        project.journal.refresh()
        assert [one.item_id for one in linked(project.journal, "step", "plan", "pln_0000000000000000")] == [
            step.item_id
        ]


# ---- updates


def test_an_update_touches_what_the_table_lets_it(project, clock):
    entity = project.remember(Memory("trap", "Mind the lock", extra={"severity": "low"})).entity
    changed = update(
        project.journal, WRITER, entity.item_id[:10], {"severity": "high", "remedy": "Take it first", "tags": ["db"]}
    )
    value = changed.entities[0].value
    assert (value["severity"], value["remedy"], value["tags"], value["text"]) == (
        "high",
        "Take it first",
        ["db"],
        "Mind the lock",
    )
    assert value["updated"] > value["created"]
    assert "remedy" not in update(project.journal, WRITER, entity.item_id, {"remedy": None}).entities[0].value
    seq = records(project)
    assert update(project.journal, WRITER, entity.item_id, {"severity": "high"}).receipt is None
    for fields, wrong in (
        ({"state": "resolved"}, "changes its state by its own command"), ({"created": "now"}, "created of a trap cannot be set"),
        ({"severity": "grave"}, "not a trap"), ({"text": " "}, "needs a text"), ({"confidence": 101}, "not between"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=wrong):
            update(project.journal, WRITER, entity.item_id, fields)
    handoff = put(project, "handoff", clock)
    with pytest.raises(UsageError, match="text of a handoff cannot be set") as caught:
        update(project.journal, WRITER, handoff.item_id, {"text": "Other"})
    assert caught.value.mend == "To correct it, write an entity that supersedes it."
    assert records(project) == seq + 1


def test_an_update_of_what_changed_meanwhile_is_refused(project):
    entity = project.remember(Memory("note", "First")).entity
    update(project.journal, WRITER, entity.item_id, {"text": "Second"})
    with pytest.raises(ConflictError):
        update(project.journal, WRITER, entity.item_id, {"text": "Third"}, expect=entity.version)
    assert project.journal.get("note", entity.item_id).value["text"] == "Second"


def test_work_that_would_wait_for_itself_is_refused_with_the_way_round(project, clock):
    plan = put(project, "plan", clock)
    first = put(project, "step", clock)
    second = put(project, "step", clock, depends_on=[first.item_id])
    third = put(project, "step", clock, depends_on=[second.item_id, plan.item_id])
    for waiting in ([third.item_id], [first.item_id]):
        with pytest.raises(UsageError, match="it would wait for itself") as caught:
            update(project.journal, WRITER, first.item_id, {"depends_on": waiting})
        assert first.item_id in str(caught.value)
    with pytest.raises(UsageError, match="it would wait for itself"):
        update(project.journal, WRITER, plan.item_id, {"depends_on": [third.item_id]})
    assert update(project.journal, WRITER, third.item_id, {"depends_on": [first.item_id]}).receipt is not None
    with pytest.raises(UsageError, match="priority 101"):
        update(project.journal, WRITER, first.item_id, {"priority": 101})


# ---- lineage


def test_what_evolves_carries_on_and_supersedes(project):
    old = project.remember(Memory("decision", "Hash with bcrypt", tags=("auth",), evidence=(("commit", "abc"),),
                                  extra={"rationale": "It is there"})).entity  # fmt: skip
    changed = evolve(project.journal, WRITER, old.item_id, "Hash with argon2", {"rationale": "It is better"})
    new, before = changed.entities
    assert (new.value["text"], new.value["tags"], new.value["rationale"]) == (
        "Hash with argon2",
        ["auth"],
        "It is better",
    )
    assert new.value["evidence"] == [{"kind": "commit", "ref": "abc"}]
    assert new.value["relations"] == [{"kind": "supersedes", "target": old.item_id}]
    assert (before.item_id, before.value["state"], new.value["state"]) == (old.item_id, "superseded", "accepted")
    assert [hit.item_id for hit in project.recall("how do we hash").hits] == [new.item_id]
    seq = records(project)
    with pytest.raises(UsageError, match="cannot be given created"):
        evolve(project.journal, WRITER, new.item_id, "Again", {"created": "now"})
    assert records(project) == seq


def test_several_are_merged_and_one_is_split(project):
    one = project.remember(Memory("lesson", "Run make lock", tags=("deps",))).entity
    other = project.remember(Memory("lesson", "Run make setup", tags=("deps", "ci"))).entity
    merged = merge(project.journal, WRITER, [one.item_id, other.item_id], "Run make lock, then make setup").entities
    assert merged[0].value["tags"] == ["deps", "ci"]
    assert {link["target"] for link in merged[0].value["relations"]} == {one.item_id, other.item_id}
    assert [entity.value["state"] for entity in merged] == ["active", "superseded", "superseded"]
    parts = split(project.journal, WRITER, merged[0].item_id, ["Run make lock", "Run make setup"]).entities
    assert [entity.value["text"] for entity in parts[:2]] == ["Run make lock", "Run make setup"]
    assert state_of(project, merged[0]) == "superseded"
    trap = project.remember(Memory("trap", "It hangs")).entity
    for call, wrong in (
        (lambda: merge(project.journal, WRITER, [parts[0].item_id, trap.item_id], "x"), "not all of one type"),
        (lambda: merge(project.journal, WRITER, [trap.item_id, trap.item_id], "x"), "two or more entities"),
        (lambda: split(project.journal, WRITER, trap.item_id, ["x"]), "two or more texts"),
        (lambda: evolve(project.journal, WRITER, trap.item_id, "  "), "needs a text"),
    ):
        with pytest.raises(PeriplusError, match=wrong):
            call()
    assert state_of(project, trap) == "active"


def test_a_repeated_key_gives_what_the_first_time_gave(project):
    old = project.remember(Memory("lesson", "Once")).entity
    first = evolve(project.journal, WRITER, old.item_id, "Twice", key="k1")
    again = evolve(project.journal, WRITER, old.item_id, "Twice", key="k1")
    assert [one.item_id for one in again.entities] == [one.item_id for one in first.entities]
    assert again.receipt.repeated


def test_relations_are_said_once_and_superseding_changes_the_other(project):
    one = project.remember(Memory("decision", "Use sqlite")).entity
    other = project.remember(Memory("decision", "Use files")).entity
    link(project.journal, WRITER, one.item_id, "contradicts", other.item_id)
    assert link(project.journal, WRITER, one.item_id, "contradicts", other.item_id).receipt is None
    assert state_of(project, other) == "accepted"
    link(project.journal, WRITER, one.item_id, "supersedes", other.item_id)
    assert state_of(project, other) == "superseded"
    kinds = [said["kind"] for said in project.journal.get("decision", one.item_id).value["relations"]]
    assert kinds == ["contradicts", "supersedes"]
    with pytest.raises(UsageError, match="not a relation"):
        link(project.journal, WRITER, one.item_id, "likes", other.item_id)
    with pytest.raises(UsageError, match="to itself"):
        link(project.journal, WRITER, one.item_id, "references", one.item_id)


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.name)
def test_a_field_merges_in_one_way(row):
    """A group names fields that there are, and none of another group, of a set, or of those with an order; of a group's own the latest
    value may hold where all else agrees.
    """
    rules = memory_types()[row.name].rules
    grouped = frozenset().union(*rules.groups)
    ranked = frozenset(name for name, _ in rules.ranks)
    ways = [*rules.groups, rules.sets & row.fields, (rules.latest & row.fields) - grouped, ranked]
    assert sum(map(len, ways)) == len(frozenset().union(*ways))
    assert frozenset().union(*rules.groups) <= row.fields | {"unreadable_lines"}


@pytest.mark.parametrize("name", ["decision", "lesson"])
def test_nothing_is_remembered_as_superseded_by_nothing(project, name):
    with pytest.raises(UsageError, match="it becomes so when something replaces it"):
        project.remember(Memory(name, "Read the log first", extra={"state": "superseded"}))
    assert list(project.journal.entities(name)) == []
    assert project.remember(Memory(name, "Read the log first")).entity.value["state"] != "superseded"
