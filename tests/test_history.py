"""What the past says: pages of the log, an entity as it was, who set a field; and taking back what was done."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.errors import DamageError, NotFoundError, UsageError
from periplus.journal import EntityType, Journal, MergeRules, Writer
from periplus.journal.history.field_reversal import take_out
from periplus.journal.history.log import RecordFilter, beside_others, newest
from periplus.journal.history.undo import plan_undo, undo
from periplus.journal.history.versions import blame, entity_at, find_ever
from support import WRITER, Stop, StoppingFiles, item, make_store, segment_path
from test_cursors import small_segments


def refuse_bad(payload):
    if payload.get("text") == "bad":
        raise UsageError("a bad text")


TYPES = {
    "decision": EntityType(
        "decision", "dec", is_projected=True, check=refuse_bad, rules=MergeRules(frozenset({"tags"}))
    ),
    "note": EntityType("note", "not", is_projected=False, check=refuse_bad),
}


def opened(root, files=None):
    return Journal(root, TYPES, files=files)


def by(session):
    return Writer("tester", "who_0000000000000000", session, 1)


@pytest.fixture
def journal(root):
    with opened(root) as journal:
        yield journal


def put(journal, number=1, session="ses", **fields):
    return journal.mutate(lambda t: t.put("decision", item(number), fields), by(session)).last_seq


def delete(journal, number=1, session="ses"):
    return journal.mutate(lambda t: t.delete("decision", item(number)), by(session)).last_seq


def value(journal, number=1):
    entity = journal.get("decision", item(number))
    return None if entity is None else entity.value


class Clone:
    """Another clone of the store, whose records are copied beside ours and ours beside its."""

    def __init__(self, journal, folder):
        (folder / ".periplus").mkdir(parents=True)
        shutil.copy(os.path.join(journal.layout.root, "config.toml"), folder / ".periplus")
        self.ours = journal
        self.journal = opened(os.fspath(folder / ".periplus"))

    def exchange(self):
        for source, target in ((self.ours, self.journal), (self.journal, self.ours)):
            if source.lineage:
                folder = target.layout.lineage_folder(source.lineage)
                shutil.copytree(source.layout.lineage_folder(source.lineage), folder, dirs_exist_ok=True)
        for journal in (self.ours, self.journal):
            journal.refresh()
            journal.project()


@pytest.fixture
def clone(journal, tmp_path):
    clone = Clone(journal, tmp_path / "clone")
    yield clone
    clone.journal.close()


# -- the log -----------------------------------------------------------------------------------------------------------


def test_pages_of_several_lineages_lie_side_by_side_and_leave_nothing_out(journal, clone):
    for number in range(5):
        put(journal, number, text="ours")
        put(clone.journal, 10 + number, text="theirs")
    clone.exchange()
    lineages = journal.lineages()
    assert len(lineages) == 2
    seen, before = [], {}
    while True:
        page = newest(journal, RecordFilter(), lineages=lineages, before=before, limit=3)
        seen += page.records
        before = page.before
        if not before:
            break
    assert [r.ts for r in seen] == sorted((r.ts for r in seen), reverse=True)
    assert sorted((r.lineage, r.seq) for r in seen) == sorted((one, seq) for one in lineages for seq in range(1, 6))
    for one in lineages:
        assert [r.seq for r in seen if r.lineage == one] == [5, 4, 3, 2, 1]


def test_a_clock_that_goes_back_changes_no_order_within_a_lineage(tmp_path):
    from periplus.base.clock import FixedClock

    root = make_store(tmp_path)
    with Journal(root, TYPES, clock=FixedClock(step_ms=-60_000)) as journal:
        for number in range(4):
            put(journal, number, text="x")
        page = newest(journal, RecordFilter(), lineages=journal.lineages(), before={}, limit=9)
        assert [record.seq for record in page.records] == [4, 3, 2, 1]


def test_versions_that_stand_beside_others_are_marked_until_they_are_written_together(journal, clone):
    put(journal, text="a")
    clone.exchange()
    put(clone.journal, text="theirs")
    put(journal, text="ours")
    clone.exchange()
    records = newest(journal, RecordFilter(), lineages=journal.lineages(), before={}, limit=9).records
    beside = beside_others(journal, records)
    assert [(r.lineage == journal.lineage, r.seq) for r in records if r.version in beside] in (
        [(True, 2), (False, 1)], [(False, 1), (True, 2)])  # fmt: skip
    put(journal, text="settled")
    journal.project()
    assert beside_others(journal, records) == set()


# -- as it was ---------------------------------------------------------------------------------------------------------


def test_an_entity_as_it_was(journal):
    put(journal, 2, text="other")
    first = put(journal, text="a")
    second = put(journal, text="b")
    gone = delete(journal)
    again = put(journal, text="c")

    def at(seq):
        return entity_at(journal, "decision", item(1), seq).value["text"]

    assert (at(first), at(second), at(again)) == ("a", "b", "c")
    assert at(first) == "a"
    with pytest.raises(NotFoundError, match="did not exist at record 1") as caught:
        at(1)
    assert "first record there is 2" in caught.value.mend
    with pytest.raises(NotFoundError, match="had been deleted at record 4") as caught:
        at(gone)
    assert "Record 4" in caught.value.mend
    for wrong in (0, -1, again + 1):
        with pytest.raises(NotFoundError, match=f"there is no record {wrong}: the newest of lin_.* is 5"):
            at(wrong)


def test_what_another_lineage_had_counts_from_when_it_was_built_upon(journal, clone):
    first = put(journal, text="a")
    clone.exchange()
    put(clone.journal, text="b", by="them")
    clone.exchange()
    other = put(journal, 2, text="elsewhere")
    assert value(journal) == {"text": "b", "by": "them"}
    assert entity_at(journal, "decision", item(1), other).value == {"text": "a"}
    built = put(journal, text="c", by="them")
    assert entity_at(journal, "decision", item(1), built).value == {"text": "c", "by": "them"}
    assert entity_at(journal, "decision", item(1), first).value == {"text": "a"}
    assert entity_at(journal, "decision", item(1), 1, clone.journal.lineage).value["text"] == "b"
    with pytest.raises(NotFoundError, match="did not exist") as caught:
        entity_at(journal, "decision", item(2), 1, clone.journal.lineage)
    assert "--lineage all" in caught.value.mend


def test_deleted_ones_are_found_too(journal):
    put(journal, text="a")
    delete(journal)
    assert find_ever(journal, "dec_") == ("decision", item(1))
    put(journal, 2, text="b")
    with pytest.raises(UsageError, match="several ids"):
        find_ever(journal, "dec_")
    with pytest.raises(NotFoundError):
        find_ever(journal, "dec_zzz")
    with pytest.raises(NotFoundError):
        find_ever(journal, "\udc80")


def test_a_line_that_is_damaged_is_said(journal):
    put(journal, text="a")
    put(journal, text="b")
    path = segment_path(journal)
    path.write_bytes(path.read_bytes().replace(b'{"text":"a"}', b'{"text":"x"}'))
    with pytest.raises(DamageError, match="not what was written"):
        entity_at(journal, "decision", item(1), 1)


# -- blame -------------------------------------------------------------------------------------------------------------


def blamed(journal, number=1):
    entity = journal.get("decision", item(number))
    return {one.name: [(origin.record.lineage, origin.record.seq) for origin in one.origins]
            for one in blame(journal, entity)}  # fmt: skip


def test_each_field_leads_to_the_record_that_set_it(journal):
    put(journal, text="a", why="w", gone=1)
    put(journal, text="b", why="w", gone=1)
    put(journal, text="b", why="w", tags=["x"])
    own = journal.lineage
    assert blamed(journal) == {"text": [(own, 2)], "why": [(own, 1)], "tags": [(own, 3)]}
    put(journal, text="a", why="w", tags=["x"])
    assert blamed(journal)["text"] == [(own, 4)]  # the same value as long ago, set anew
    delete(journal)
    put(journal, text="a", why="w")
    assert blamed(journal) == {"text": [(own, 6)], "why": [(own, 6)]}


def test_values_that_only_look_the_same_are_not(journal):
    put(journal, flag=1)
    put(journal, flag=True)
    assert blamed(journal) == {"flag": [(journal.lineage, 2)]}


def test_a_field_that_came_through_a_merge_leads_to_the_head_that_brought_it(journal, clone):
    put(journal, text="a", why="w", same=1)
    clone.exchange()
    put(clone.journal, text="a", why="theirs", same=1)
    put(journal, text="ours", why="w", same=1)
    clone.exchange()
    put(journal, text="ours", why="theirs", same=1, new=1)  # the merge, written
    own, foreign = journal.lineage, clone.journal.lineage
    assert blamed(journal) == {"text": [(own, 2)], "why": [(foreign, 1)], "same": [(own, 1)], "new": [(own, 3)]}


def test_a_field_merged_from_heads_that_nobody_wrote_together_leads_to_each(journal, clone):
    put(journal, text="a", why="w", tags=["x"])
    clone.exchange()
    put(clone.journal, text="a", why="theirs", tags=["x", "t"])
    put(journal, text="ours", why="w", tags=["x", "o"])
    clone.exchange()
    own, foreign = journal.lineage, clone.journal.lineage
    assert len(journal.get("decision", item(1)).heads) == 2
    found = blamed(journal)
    assert {name: set(origins) for name, origins in found.items()} == {
        "text": {(own, 2)}, "why": {(foreign, 1)}, "tags": {(own, 2), (foreign, 1)}}  # fmt: skip
    assert blamed(clone.journal) == found


def test_undo_takes_one_head_out_of_the_merged_view(journal, clone):
    put(journal, text="a", why="w", tags=["x"])
    clone.exchange()
    put(clone.journal, session="theirs", text="a", why="theirs", tags=["x", "t"])
    seq = put(journal, text="ours", why="w", tags=["x", "o"])
    clone.exchange()
    done = undo(journal, WRITER, seqs=[seq])
    assert outcome(done).outcome == "restored"
    assert value(journal) == {"text": "a", "why": "theirs", "tags": ["x", "t"]}
    assert entity_at(journal, "decision", item(1), seq).value == {"text": "ours", "why": "w", "tags": ["x", "o"]}
    clone.exchange()
    assert value(clone.journal) == value(journal)
    undo(journal, WRITER, session="theirs", lineage=clone.journal.lineage)
    assert value(journal) == {"text": "a", "why": "w", "tags": ["x"]}


def apart(journal, clone, **settled):
    """Two clones said different things of one text; ``settled`` is what was written on both, if anything. Gives the seq of ours."""
    put(journal, text="a", tags=["x"])
    clone.exchange()
    put(clone.journal, text="theirs", tags=["x"])
    put(journal, text="a", tags=["x", "y"])
    seq = put(journal, text="ours", tags=["x", "y"])
    clone.exchange()
    if settled:
        put(journal, **settled)
    return seq


@pytest.mark.parametrize("text", ["settled", "ours", "theirs"])
def test_undoing_the_write_that_settled_a_conflict_is_a_conflict(journal, clone, text):
    """Neither side may be lost by chance: until now the one that was shown came back, as if it had been decided for."""
    seq = apart(journal, clone, text=text, tags=["x", "y"]) + 1
    found = outcome(undo(journal, WRITER, seqs=[seq]))
    assert (found.outcome, found.fields) == ("conflict", ())
    assert "clones disagree on: text" in found.reason
    assert f"periplus set {item(1)} text=VALUE" in found.reason
    assert value(journal)["text"] == text
    put(journal, text=text, tags=["x", "y", "z"])
    found = outcome(undo(journal, WRITER, seqs=[seq]))
    assert found.reason == f"record {seq} settled a conflict between clones: text"


def test_undoing_what_is_no_side_of_a_conflict_does_not_end_it(journal, clone):
    seq = apart(journal, clone)
    for seqs in ([seq - 1], [1]):
        found = outcome(undo(journal, WRITER, seqs=seqs))
        assert found.outcome == "conflict"
    assert f"settle that first (`periplus show {item(1)}`)" in outcome(plan_undo(journal, seqs=[seq - 1])).reason
    assert len(journal.get("decision", item(1)).heads) == 2
    assert {one.value for one in journal.get("decision", item(1)).conflicts[0].values} == {b'"ours"', b'"theirs"'}


def test_undoing_one_side_of_a_conflict_leaves_the_other(journal, clone):
    seq = apart(journal, clone)
    found = outcome(undo(journal, WRITER, seqs=[seq]))
    assert found.outcome == "restored"
    assert "text" in found.fields
    assert value(journal) == {"text": "theirs", "tags": ["x", "y"]}
    assert not journal.get("decision", item(1)).is_in_conflict


def test_undoing_the_other_side_of_a_conflict_leaves_ours(journal, clone):
    apart(journal, clone)
    found = outcome(undo(journal, WRITER, seqs=[1], lineage=clone.journal.lineage))
    assert found.outcome == "restored"
    assert "text" in found.fields
    assert value(journal) == {"text": "ours", "tags": ["x", "y"]}
    assert not journal.get("decision", item(1)).is_in_conflict


def test_undoing_what_settled_a_conflict_with_one_side_of_it_leaves_the_other(journal, clone):
    seq = apart(journal, clone, text="settled", tags=["x", "y"])
    undo(journal, WRITER, seqs=[seq, seq + 1])
    assert value(journal) == {"text": "theirs", "tags": ["x", "y"]}


def test_a_deletion_beside_a_change_is_decided_by_undoing_it(journal, clone):
    put(journal, text="a")
    clone.exchange()
    put(clone.journal, text="theirs")
    gone = delete(journal)
    clone.exchange()
    assert journal.get("decision", item(1)).is_in_conflict
    undo(journal, WRITER, seqs=[gone])
    assert value(journal) == {"text": "theirs"}
    assert not journal.get("decision", item(1)).is_in_conflict


def test_an_ancestor_that_is_not_held_makes_it_uncertain(journal, clone, tmp_path):
    put(journal, text="a", why="w")
    clone.exchange()
    put(clone.journal, text="b", why="w")
    shutil.rmtree(clone.journal.layout.lineage_folder(journal.lineage))
    os.unlink(clone.journal.layout.index)
    with opened(clone.journal.layout.root) as alone:
        found = blame(alone, alone.get("decision", item(1)))
        assert {one.name: [origin.is_certain for origin in one.origins] for one in found} == {
            "text": [False],
            "why": [False],
        }


# -- undo --------------------------------------------------------------------------------------------------------------


def outcome(undoing, number=1):
    return next(one for one in undoing.entities if one.item_id == item(number))


def test_a_create_becomes_a_tombstone_an_update_and_a_deletion_go_back(journal):
    put(journal, 1, text="a")
    put(journal, 2, text="a")
    put(journal, 3, text="a")

    def three(transaction):
        transaction.put("decision", item(1), {"text": "b"})
        transaction.delete("decision", item(2))
        transaction.put("decision", item(4), {"text": "new"})

    done = journal.mutate(three, by("s2"))
    undoing = undo(journal, WRITER, session="s2")
    assert [value(journal, number) for number in (1, 2, 3, 4)] == [{"text": "a"}, {"text": "a"}, {"text": "a"}, None]
    assert [one.outcome for one in undoing.entities] == ["restored", "restored", "deleted"]
    assert undoing.receipt.last_seq - undoing.receipt.first_seq == 2  # one mutation for all
    records = journal.index.records("key = ? ORDER BY seq", (undoing.receipt.key,), -1)
    assert {record.summary for record in records} == {f"undo of seq {done.first_seq}-{done.last_seq}, session s2"}
    assert [record.action for record in records] == ["update", "create", "delete"]


def test_what_others_changed_since_stays(journal):
    put(journal, text="a", why="w", tags=["x", "y"], links={"k": 1, "l": 1})
    mine = put(journal, session="mine", text="b", why="w", tags=["x", "z"], links={"k": 2, "l": 1}, more=1)
    put(journal, text="b", why="theirs", tags=["x", "z", "t"], links={"k": 2, "l": 9}, more=1)
    undoing = undo(journal, WRITER, seqs=[mine])
    assert value(journal) == {"text": "a", "why": "theirs", "tags": ["x", "t", "y"], "links": {"k": 1, "l": 9}}
    assert outcome(undoing).fields == ("links", "more", "tags", "text")
    assert outcome(undoing).kept == ("why",)


def test_a_field_that_others_changed_too_is_a_conflict_and_nothing_is_done_there(journal):
    put(journal, 1, text="a", why="w")
    put(journal, 2, text="a")

    def both(transaction):
        transaction.put("decision", item(1), {"text": "b", "why": "v"})
        transaction.put("decision", item(2), {"text": "b"})
        transaction.put("decision", item(3), {"text": "new"})

    journal.mutate(both, by("s"))
    put(journal, 1, text="c", why="v")
    put(journal, 3, text="new", why="built upon")
    undoing = undo(journal, WRITER, session="s")
    assert value(journal, 1) == {"text": "c", "why": "v"}
    assert value(journal, 2) == {"text": "a"}
    assert value(journal, 3) == {"text": "new", "why": "built upon"}
    assert [one.outcome for one in undoing.entities] == ["conflict", "restored", "conflict"]
    assert outcome(undoing, 1).reason == "changed since: text"
    assert outcome(undoing, 3).reason == "it was created there, and changed since: why"


def test_a_dry_run_changes_nothing_and_says_the_same(journal):
    put(journal, text="a")
    seq = put(journal, text="b")
    end = journal.end()
    plan = plan_undo(journal, seqs=[seq])
    assert journal.end() == end
    assert plan.receipt is None
    assert undo(journal, WRITER, seqs=[seq]).entities == plan.entities


def test_undoing_an_undo_brings_it_back_and_twice_does_nothing(journal):
    put(journal, text="a")
    seq = put(journal, text="b")
    created = put(journal, 2, text="n")
    first = undo(journal, WRITER, seqs=[seq, created])
    end = journal.end()
    again = undo(journal, WRITER, seqs=[seq, created])
    assert [one.outcome for one in again.entities] == ["unchanged", "unchanged"]
    assert again.receipt is None
    assert journal.end() == end
    undo(journal, WRITER, seqs=range(first.receipt.first_seq, first.receipt.last_seq + 1))
    assert (value(journal), value(journal, 2)) == ({"text": "b"}, {"text": "n"})


def test_sessions_that_took_turns_are_told_apart(journal):
    put(journal, session="mine", text="1")
    put(journal, session="other", text="1", why="theirs")
    put(journal, session="mine", text="2", why="theirs")
    with_conflict = undo(journal, WRITER, session="mine")
    assert outcome(with_conflict).reason == "it was created there, and changed since: why"
    undo(journal, WRITER, session="other")
    assert value(journal) == {"text": "2"}
    undo(journal, WRITER, session="mine")
    assert value(journal) is None


def test_a_deletion_after_which_it_was_written_anew_is_a_conflict(journal):
    put(journal, text="a")
    gone = delete(journal)
    put(journal, text="new")
    assert outcome(undo(journal, WRITER, seqs=[gone])).reason == "it was deleted, and written anew since"


def test_what_was_deleted_since_stays_deleted(journal):
    put(journal, text="a")
    seq = put(journal, text="b")
    delete(journal)
    assert outcome(undo(journal, WRITER, seqs=[seq])).reason == "it is deleted since"
    assert value(journal) is None


def test_what_the_type_refuses_today_is_a_conflict(root):
    from support import TYPES as LENIENT

    with Journal(root, LENIENT) as journal:
        put(journal, text="bad")
        put(journal, text="good")
    with opened(root) as journal:
        found = outcome(undo(journal, WRITER, seqs=[2]))
        assert (found.outcome, found.reason) == ("conflict", "its earlier content is no longer allowed: a bad text")
    with Journal(root, {"note": TYPES["note"]}) as journal:
        assert outcome(plan_undo(journal, seqs=[2])).reason == "this Periplus does not know its type"


def test_wrong_seqs_and_sessions_change_nothing(journal):
    put(journal, text="a")
    journal.mutate(lambda t: t.observe({"saw": 1}), WRITER)
    journal.mutate(lambda t: t.meta("note", {"n": 1}), WRITER)
    end = journal.end()
    for seqs in ([0], [4]):
        with pytest.raises(NotFoundError, match=f"no record {seqs[0]}"):
            undo(journal, WRITER, seqs=seqs)
    for seqs, wrong in (([], "no record to undo"), ([2], "changed no entity"), ([1, 3], "changed no entity")):  # fmt: skip
        with pytest.raises(UsageError, match=wrong):
            undo(journal, WRITER, seqs=seqs)
    with pytest.raises(NotFoundError, match="changed nothing"):
        undo(journal, WRITER, session="nobody")
    assert journal.end() == end


def test_somebody_faster_is_taken_into_account(journal, root):
    put(journal, text="a", why="w")
    seq = put(journal, text="b", why="w")
    with opened(root) as other:
        original = journal.mutate

        def mutate(*args, **options):
            if value(other)["why"] == "w":
                put(other, text="b", why="faster")
            return original(*args, **options)

        journal.mutate = mutate  # the moment between plan and write, which nothing else can meet
        undo(journal, WRITER, seqs=[seq])
    assert value(journal) == {"text": "a", "why": "faster"}


def test_a_key_repeats_it_without_writing_twice(journal):
    put(journal, text="a")
    seq = put(journal, text="b")
    first = undo(journal, WRITER, seqs=[seq], key="k-1")
    end = journal.end()
    again = undo(journal, WRITER, seqs=[seq], key="k-1")
    assert again.receipt.repeated
    assert again.receipt.first_seq == first.receipt.first_seq
    assert journal.end() == end


def test_a_stop_at_every_call_undoes_all_or_nothing(tmp_path):
    for at in range(60):
        folder = tmp_path / str(at)
        folder.mkdir()
        root = make_store(folder)
        with opened(root) as journal:
            put(journal, 1, text="a")
            journal.mutate(lambda t: [t.put("decision", item(n), {"text": "b"}) for n in (1, 2)], by("s"))
        files = StoppingFiles(-1)
        with opened(root, files) as journal:
            files.calls.clear()
            files.at, files.share = at, 0.5
            try:
                undo(journal, WRITER, session="s")
                done = True
            except Stop:
                done = False
        with opened(root) as journal:
            now = (value(journal, 1), value(journal, 2))
            assert now in (({"text": "a"}, None), ({"text": "b"}, {"text": "b"}))
            assert not done or now == ({"text": "a"}, None)
            undo(journal, WRITER, session="s")
            assert (value(journal, 1), value(journal, 2)) == ({"text": "a"}, None)
        if done:
            break
    assert done
    assert at >= 5


def test_undo_across_lineages_takes_out_what_came_from_elsewhere(journal, clone):
    put(journal, text="a", why="w")
    clone.exchange()
    put(clone.journal, session="theirs", text="a", why="v")
    clone.exchange()
    undoing = undo(journal, WRITER, session="theirs", lineage=clone.journal.lineage)
    assert value(journal) == {"text": "a", "why": "w"}
    record = journal.index.records("key = ?", (undoing.receipt.key,), 1)[0]
    assert record.summary == f"undo of seq 1, session theirs of {clone.journal.lineage}"


def test_entities_over_64_kib_and_in_earlier_segments_go_back_too(tmp_path):
    root = make_store(tmp_path)
    small_segments(root)
    with opened(root) as journal:
        put(journal, text="x" * 70_000)
        seq = put(journal, text="y" * 80_000)
        undo(journal, WRITER, seqs=[seq])
        assert value(journal) == {"text": "x" * 70_000}


FIELDS = st.dictionaries(
    st.sampled_from(["text", "why", "tags", "links"]),
    st.one_of(st.integers(0, 2), st.lists(st.sampled_from("abc"), unique=True), st.dictionaries(st.sampled_from("kl"), st.integers(0, 1))),
    min_size=1,
)  # fmt: skip
STEP = st.tuples(st.integers(1, 3), st.one_of(st.none(), FIELDS))


def apply(journal, model, steps, session):
    """Write ``steps`` to both; a deletion of what is not there is left out."""
    for number, fields in steps:
        if fields is None:
            if number in model:
                delete(journal, number, session)
                del model[number]
        else:
            journal.mutate(lambda t, n=number, f=fields: t.put("decision", item(n), f), by(session), project=False)
            model[number] = fields


def state(journal):
    return {number: found for number in (1, 2, 3) if (found := value(journal, number)) is not None}


def test_what_says_when_it_was_last_so_stands_in_no_undos_way():
    rules = MergeRules(latest=frozenset({"updated"}))
    before, made = {"text": "a", "updated": "1"}, {"text": "b", "updated": "2"}
    assert take_out({"text": "b", "n": 1, "updated": "3"}, made, before, rules) == {"text": "a", "n": 1, "updated": "3"}
    assert take_out(made, made, before, rules) == before


def test_of_fields_that_are_one_value_none_goes_back_where_another_changed_one():
    rules = MergeRules(groups=(frozenset({"state", "reason"}),))
    before, made = {"text": "a", "state": "doing", "reason": ""}, {"text": "b", "state": "blocked", "reason": "no key"}
    with pytest.raises(Exception, match="changed since: reason, state"):
        take_out({**made, "state": "done"}, made, before, rules)
    assert take_out({**made, "n": 1}, made, before, rules) == {**before, "n": 1}
    only_text = {**before, "text": "b"}
    assert take_out({**made, "state": "done"}, only_text, before, rules) == {**made, "state": "done", "text": "a"}


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=6), st.lists(STEP, min_size=1, max_size=6))
def test_undoing_the_last_session_restores_what_was_and_undoing_that_brings_it_back(before, last):
    with tempfile.TemporaryDirectory() as folder:
        root = make_store(Path(folder))
        path = Path(root) / "config.toml"
        path.write_text(path.read_text().replace('sync = "mutation"', 'sync = "never"'))
        with opened(root) as journal:
            model: dict[int, object] = {}
            apply(journal, model, before, "before")
            was = dict(model)
            apply(journal, model, last, "last")
            journal.project()
            if not journal.index.records("session = 'last'", (), 1):
                return  # all it did was to delete what was not there
            first = undo(journal, WRITER, session="last")
            assert state(journal) == was
            assert all(one.outcome != "conflict" for one in first.entities)
            if first.receipt is not None:
                undo(journal, WRITER, seqs=range(first.receipt.first_seq, first.receipt.last_seq + 1))
                assert state(journal) == model


@given(FIELDS, FIELDS, FIELDS)
def test_taking_out_is_exact_where_nothing_else_happened_and_never_touches_other_fields(before, made, extra):
    rules = MergeRules(frozenset({"tags"}))
    assert canonical_text(take_out(made, made, before, rules)) == canonical_text(before)
    assert canonical_text(take_out(before, made, before, rules)) == canonical_text(before)
    others = {f"other_{name}": content for name, content in extra.items()}
    assert canonical_text(take_out(made | others, made, before, rules)) == canonical_text(before | others)


def canonical_text(content):
    return json.dumps(content, sort_keys=True)
