"""The past by pages of bounded cost: windows of the log, entities as they were, and what changed between two records."""

from __future__ import annotations

import pytest

from periplus.journal.history.log import RecordFilter, newest, newest_within
from periplus.journal.history.past_state import (
    WALKED_MAX,
    content_at,
    content_before,
    counted_states,
    first_between,
    last_records,
)
from support import item
from test_history import by, delete, opened, put


@pytest.fixture
def journal(root):
    with opened(root) as journal:
        yield journal


def note(journal, number, **fields):
    return journal.mutate(lambda t: t.put("note", item(number), fields), by("ses")).last_seq


def shown(page):
    return [(record.item_id, record.seq) for record in page.records]


def test_windows_of_the_log_show_each_record_once_whatever_their_size(journal):
    for number in range(1, 31):
        put(journal, number % 4 + 1, text=f"t{number}") if number % 5 else note(journal, number, text="n")
    lineages = [journal.lineage]
    for wanted in (RecordFilter(), RecordFilter(types=("note",)), RecordFilter(writers=("nobody",))):
        whole = newest(journal, wanted, lineages=lineages, before={}, limit=100).records
        for window, limit in ((1, 1), (7, 3), (7, 50), (100, 4), (100, 100)):
            found, before, pages = [], {}, 0
            while pages < 50:
                page = newest_within(journal, wanted, lineages=lineages, before=before, limit=limit, window=window)
                found += page.records
                before, pages = page.before, pages + 1
                assert len(page.records) <= limit
                if not before:
                    break
            assert found == whole, (wanted, window, limit)


def test_a_window_examines_no_more_than_it_says(journal):
    for number in range(1, 41):
        note(journal, number, text="n")
    lineages, before = [journal.lineage], {journal.lineage: 41}
    page = newest_within(
        journal, RecordFilter(writers=("nobody",)), lineages=lineages, before=before, limit=5, window=10
    )
    assert (page.records, page.before) == ([], {journal.lineage: 31})


def test_a_window_without_a_wanted_type_is_skipped(journal):
    seq = put(journal, 1, text="the only one")
    for number in range(1, 41):
        note(journal, number, text="n")
    wanted = RecordFilter(types=("decision",))
    page = newest_within(journal, wanted, lineages=[journal.lineage], before={}, limit=5, window=10)
    assert [record.seq for record in page.records] == [seq]
    page = newest_within(
        journal, RecordFilter(types=("trap",)), lineages=[journal.lineage], before={}, limit=5, window=10
    )
    assert (page.records, page.before) == ([], {})


def test_entities_as_they_were_are_their_last_records_until_then(journal):
    first = put(journal, 1, text="a")
    second = put(journal, 2, text="b")
    third = put(journal, 1, text="c", state="accepted")
    gone = delete(journal, 2)
    assert shown(last_records(journal, journal.lineage, 1, second, limit=9)) == [(item(2), second), (item(1), first)]
    assert shown(last_records(journal, journal.lineage, 1, gone, limit=9)) == [(item(2), gone), (item(1), third)]
    page = last_records(journal, journal.lineage, 1, gone, limit=1)
    assert shown(page) == [(item(2), gone)]
    page = last_records(journal, journal.lineage, 1, gone, before=page.before, limit=1)
    assert (shown(page), page.before) == ([(item(1), third)], 0)
    assert last_records(journal, journal.lineage, 1, gone, types=["note"], limit=9).records == []
    assert content_at(journal, page.records[0]) == {"text": "c", "state": "accepted"}


def test_what_changed_between_two_records_has_the_content_before_and_after(journal):
    first = put(journal, 1, text="a")
    put(journal, 1, text="b")
    last = put(journal, 1, text="c")
    made = put(journal, 2, text="new")
    gone = delete(journal, 2)
    page = last_records(journal, journal.lineage, first + 1, gone, limit=9)
    two, one = page.records
    assert (one.seq, two.seq) == (last, gone)
    began = first_between(journal, one, first + 1)
    assert (content_before(journal, began), content_at(journal, one)) == ({"text": "a"}, {"text": "c"})
    assert first_between(journal, two, first + 1).seq == made
    assert content_before(journal, first_between(journal, two, first + 1)) is None
    assert content_at(journal, two) is None


def test_states_are_counted_as_they_were(journal):
    put(journal, 1, text="a", state="proposed")
    put(journal, 2, text="b", state="accepted")
    then = note(journal, 3, text="n")
    put(journal, 1, text="a", state="accepted")
    last = delete(journal, 2)
    seen = []
    counts = counted_states(journal, journal.lineage, then, ["decision", "note"], lambda *at: seen.append(at))
    assert counts == {("decision", "proposed"): 1, ("decision", "accepted"): 1, ("note", ""): 1}
    assert seen
    assert counted_states(journal, journal.lineage, last, ["decision"], lambda *_: None) == {
        ("decision", "accepted"): 1
    }


@pytest.mark.slow
def test_a_walk_is_bounded_and_the_next_page_goes_on(journal):
    old = put(journal, 1, text="old")

    def many(transaction):
        for at in range(1_000):
            transaction.put("note", item(2), {"text": str(at)})

    for _ in range(WALKED_MAX // 1_000 + 1):
        last = journal.mutate(many, by("ses")).last_seq
    page = last_records(journal, journal.lineage, 1, last, types=["decision"], limit=5)
    assert page.records == []
    assert page.before == last + 1 - WALKED_MAX
    page = last_records(journal, journal.lineage, 1, last, types=["decision"], before=page.before, limit=5)
    assert (shown(page), page.before) == ([(item(1), old)], 0)
