"""What redactions took out, by one look that is brought up to date: the same as by a new one, and only what was added is read."""

from __future__ import annotations

import os
import random
import shutil
import sys

import pytest

from periplus.base.encoding import hashing
from periplus.base.files import Files
from periplus.journal.care.redaction import redact
from periplus.journal.carriers import open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.recovery.removed_content import TakenOut, taken_out
from support import WRITER, calls_made, item, make_store, open_journal, segment_path
from test_exchange import clone, put

SECRET = "zanzibar-horse-battery"
LARGE = " a large payload is an object." * 3000
_opened: list[str] = []


def _note(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".jsonl"):
        _opened.append(os.path.basename(str(arguments[0])))


sys.addaudithook(_note)


@pytest.fixture
def opened():
    """The segments that were opened, as the interpreter tells it."""
    _opened.clear()
    return _opened


def fill(journal, segments):
    for number in range(segments):
        journal.mutate(put(number, f"text {number}"), WRITER)
        journal.roll()


def test_only_what_was_added_is_read(tmp_path, opened):
    root = make_store(tmp_path)
    with open_journal(root) as journal, open_journal(root) as other:
        fill(journal, 6)
        look = TakenOut(journal)
        look.now()
        assert len({*opened}) > 5
        opened.clear()
        assert b"x" * 32 not in look.now()
        assert opened == []
        other.mutate(put(9, "one more"), WRITER)
        opened.clear()
        assert b"x" * 32 not in look.now()
        assert len({*opened}) == 1


def test_what_was_written_meanwhile_is_read_once_for_all_who_ask_whether_something_went(tmp_path, opened):
    """A sync asks before each object that it puts: beside others who wrote megabytes it read all of them each time."""
    root = make_store(tmp_path)
    with open_journal(root) as journal, open_journal(root) as other:
        other.mutate(put(1, f"{SECRET}{LARGE}"), WRITER)
        look = TakenOut(journal)
        other.mutate(put(2, "plain"), WRITER)
        assert not look.is_more()
        opened.clear()
        assert not look.is_more()
        assert opened == []
        other.roll()
        other.mutate(put(3, "plain"), WRITER)
        assert not look.is_more()
        redact(other, WRITER, secret=SECRET, reason="a secret")
        assert look.is_more()
        assert look.is_more(), "who asked first may not be the one who judges again"
        assert {*look.now()} == {*taken_out(journal)} != set()
        assert not look.is_more()


@pytest.mark.slow
def test_brought_up_to_date_it_says_what_a_new_look_says(tmp_path):
    chance = random.Random(20260301)
    root = make_store(tmp_path)
    with open_journal(root) as journal, open_journal(root) as other:
        look, gone = TakenOut(journal), set()
        for number in range(40):
            what = chance.randrange(4)
            if what == 0:
                other.roll()
            elif what == 1:
                other.mutate(put(number, f"plain {number}"), WRITER)
            elif what == 2:
                other.mutate(
                    lambda t, n=number: t.put("note", item(n, "not"), {"text": f"{n} {SECRET}{LARGE}"}), WRITER
                )
            else:
                redact(other, WRITER, secret=SECRET, reason="a secret")
            assert {*look.now()} == {*taken_out(journal)}
            gone |= {*look.now()}
        assert gone


@pytest.mark.parametrize("reason", ["a secret " * 20, "a secret " * 2000])
@pytest.mark.parametrize("behind", [150, -1, 0, 1])
def test_an_audit_record_of_which_half_was_seen_is_not_missed(tmp_path, reason, behind):
    """``behind`` is how much was seen: of the record from its action on, of all of its batch from its own end on."""
    root, gone = make_store(tmp_path), hashing.sha256(b"gone").digest()
    with open_journal(root) as journal:
        journal.mutate(put(1, "plain"), WRITER)
        said = {"lineage": journal.lineage, "records": [], "objects": [gone.hex()], "reason": reason}

        def write(transaction):
            transaction.meta("redact", said)
            if behind < 100:
                transaction.observe({"what": "else"})

        journal.mutate(write, WRITER)
        segment = segment_path(journal)
    data = segment.read_bytes()
    audit = data.index(b'"action":"redact"')
    at = (audit if behind > 100 else data.index(b"\n", audit) + 1) + behind
    with open_journal(root) as journal:
        segment.write_bytes(data[:at])
        look, other = TakenOut(journal), TakenOut(journal)
        assert {*look.now()} == set()
        segment.write_bytes(data)
        assert {*look.now()} == {gone}
        assert other.is_more()


@pytest.mark.slow
def test_records_without_objects_are_exchanged_without_a_look_at_all_lineages_for_each(tmp_path):
    """A project of which every container was a clone has hundreds of lineages, and a new clone takes all of them."""
    root = make_store(tmp_path / "hub")
    costs = {}
    for number in range(1, 33):
        with open_journal(clone(root, tmp_path / f"c{number}")) as journal:
            journal.mutate(put(number, f"text {number}"), WRITER)
            held = f"journal/{journal.lineage}"
            shutil.copytree(os.path.join(journal.layout.root, held), os.path.join(root, held))
        if number in (8, 32):
            with open_journal(clone(root, tmp_path / f"new{number}")) as journal:
                reports = []
                costs[number] = calls_made(
                    lambda journal=journal, reports=reports: reports.append(sync(journal, open_folder(root, Files())))
                )
                assert sum(one.records for one in reports[0].transfers) == number
                assert len(list(journal.entities())) == number
    assert costs[32] < 4.5 * costs[8]  # more than seven times as much with such looks
