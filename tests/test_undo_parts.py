"""A part of what a session wrote is undone, and no more."""

from __future__ import annotations

import pytest

from periplus.journal.history.field_reversal import Overlap, take_out
from periplus.journal.history.undo import plan_undo
from periplus.journal.state.entity import MergeRules
from support import WRITER, item


def test_of_a_session_only_the_records_that_were_named_are_undone(journal):
    for number in (1, 2, 3):
        journal.mutate(lambda t, number=number: t.put("decision", item(number), {"n": number}), WRITER)
    plan = plan_undo(journal, session=WRITER.session, seqs=[1, 3])
    assert plan.seqs == (1, 3)
    assert {one.item_id for one in plan.entities} == {item(1), item(3)}


def test_a_deletion_is_taken_out_where_nobody_wrote_the_entity_anew():
    before = {"n": 1}
    assert take_out(None, None, before, MergeRules()) == before
    assert take_out({"n": 1}, None, before, MergeRules()) == before
    assert take_out({"n": 2}, None, None, MergeRules()) == {"n": 2}  # it was deleted where it was not
    with pytest.raises(Overlap, match="written anew since"):
        take_out({"n": 2}, None, before, MergeRules())


def test_fields_that_belong_together_are_taken_out_together_or_not_at_all():
    rules = MergeRules(groups=(frozenset({"state", "by"}),))
    before, made = {"state": "open", "by": ""}, {"state": "done", "by": "ada"}
    assert take_out(made, made, before, rules) == before
    assert take_out(before, made, before, rules) == before
    with pytest.raises(Overlap, match="changed since: by, state"):
        take_out({"state": "done", "by": "bob"}, made, before, rules)
