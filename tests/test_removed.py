"""What redactions took out, by one look that is brought up to date: the same as by a new one, and only what was added is read."""

from __future__ import annotations

import os
import random
import sys

import pytest

from periplus.base import hashing
from periplus.journal.redaction import redact
from periplus.journal.removed import TakenOut, taken_out
from support import WRITER, item, make_store, open_journal, segment_path
from test_exchange import put

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


def test_an_audit_record_of_which_half_was_seen_is_not_missed(tmp_path):
    root, gone = make_store(tmp_path), hashing.sha256(b"gone").digest()
    with open_journal(root) as journal:
        journal.mutate(put(1, "plain"), WRITER)
        said = {"lineage": journal.lineage, "records": [], "objects": [gone.hex()], "reason": "a secret " * 20}
        journal.mutate(lambda transaction: transaction.meta("redact", said), WRITER)
        segment = segment_path(journal)
    data = segment.read_bytes()
    at = data.index(b'"action":"redact"') + 150
    with open_journal(root) as journal:
        segment.write_bytes(data[:at])
        look = TakenOut(journal)
        assert {*look.now()} == set()
        segment.write_bytes(data)
        assert {*look.now()} == {gone}
