"""A part of what a session wrote is undone, and no more."""

from __future__ import annotations

from periplus.journal.undo import plan_undo
from support import WRITER, item


def test_of_a_session_only_the_records_that_were_named_are_undone(journal):
    for number in (1, 2, 3):
        journal.mutate(lambda t, number=number: t.put("decision", item(number), {"n": number}), WRITER)
    plan = plan_undo(journal, session=WRITER.session, seqs=[1, 3])
    assert plan.seqs == (1, 3)
    assert {one.item_id for one in plan.entities} == {item(1), item(3)}
