"""Records with a right checksum that no Periplus ever wrote: numbers beyond every limit, fields that say what cannot be.

Whoever can write a store's files can seal any line. Such a record stands behind sound ones, which are served as before;
a mutation is refused, or acknowledged and there for whoever reads the journal from zero.
"""

from __future__ import annotations

import json

import pytest

from periplus.base.errors import DamageError
from periplus.journal.care.doctor import examine
from periplus.journal.records.record import seal_line
from support import WRITER, item, make_store, open_journal, remove_index
from test_journal_damage import acknowledged, put

BIG = 2**63
NO_OBJECT = {"sha256": "0" * 64, "bytes": 3}
ABOUT_NOTHING = {"item_type": None, "item_id": None}


def body(**fields):
    """The next record, sealed by nobody yet; a field of None is left out."""
    record = {"v": 2, "seq": 6, "ts": "2026-01-01T00:00:00.000Z", "writer": "x", "writer_id": "who_1", "pid": 1,
              "action": "create", "item_type": "decision", "item_id": item(50), "salt": "A" * 22 + "==",
              "payload": {"text": "h"}, "durable": 5} | fields  # fmt: skip
    kept = {name: value for name, value in record.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"))[:-1].encode()


def saying(text):
    """With these bytes in place of the payload's text."""
    return body().replace(b'"h"', text)


# What a reader may take for a record: the numbers and texts in it are what somebody claimed.
CLAIMS = {
    **{f"durable {number}": body(durable=number) for number in (BIG, 2**64, 10**30, -1)},
    **{f"pid {number}": body(pid=number) for number in (BIG, 2**70)},
    **{f"v {number}": body(v=number) for number in (BIG, 0)},
    "a long time": body(ts="x" * 1000),
    "no time": body(ts=""),
    "an impossible time": body(ts="9999-99-99T99:99:99.999Z"),
    "a key twice in the payload": body().replace(b'{"text":"h"}', b'{"text":"h","text":"i"}'),
    "a payload twice": body() + b',"payload":{"text":"other"}',
    "a fraction": saying(b"1.5"),
    "a large integer": saying(b"9223372036854775808"),
    "NUL": saying(b'"\\u0000"'),
    "parents that are not held": body(parents=[f"{number:064x}" for number in range(3000)]),
    "a parent three times": body(parents=["0" * 64] * 3),
    "deleted, with a payload": body(deleted=True),
    "a stub that nobody announced": body(leaf="0" * 64, version="1" * 64, payload=None, salt=None),
    "a type that is a path": body(item_type="../x"),
    "an id that is a path": body(item_id="../../x"),
    "a long id": body(item_id="x" * 5000),
    "an unknown action": body(action="zap"),
    "no action": body(action=""),
    "a long key": body(key="k" * 100_000),
    "a key that is NUL": body(key="\0"),
    "a predecessor that is none": body(after=["zz"]),
    "a summary for the terminal": body(summary="\x1b[31m" * 100),
    "a redaction of what is not there": body(action="redact", **ABOUT_NOTHING, payload={
        "lineage": "lin_x", "records": [[BIG, "0" * 64, "0" * 64]], "reason": "x", "objects": ["../x"]}),
    "a redaction of nonsense": body(action="redact", **ABOUT_NOTHING, payload={"lineage": 5, "records": "x"}),
    "a checkpoint far ahead": body(action="checkpoint", **ABOUT_NOTHING, payload={
        "bytes": BIG, "root": "x", "seq": BIG, "sha256": "y"}),
    "a checkpoint of nothing": body(action="checkpoint", **ABOUT_NOTHING, payload=[]),
}  # fmt: skip
# What is none: bytes behind the last record, as a torn write leaves them.
NO_RECORDS = {
    **{f"seq {number}": body(seq=number) for number in (BIG, 2**64, 0, -5)},
    **{f"txn {place}": body(txn=place) for place in ([1, 10**12], [0, 0], [2, 1], [BIG, BIG])},
    **{f"voids {place}": body(voids=place) for place in ([0, 10**18], [-1, -1], [BIG, BIG])},
    "seq twice": body().replace(b'"seq":6', b'"seq":6,"seq":7'),
    "NaN": saying(b"NaN"),
    "nested 10,000 deep": saying(b"[" * 10_000 + b"]" * 10_000),
    "half a character": saying(b'"\\ud800"'),
    "a raw NUL": saying(b'"a\0b"'),
    "a stub of nonsense": body(leaf="zz"),
}
# Records whose content cannot be had: damage, told by seq.
UNREADABLE = {
    "infinity": saying(b"1e999"),
    "nested 70 deep": saying(b"[" * 70 + b"]" * 70),
    "a parent that is none": body(parents=["x"]),
    "an object that is not there": body(payload=None, payload_ref=NO_OBJECT),
    "an object of 2^63 bytes": body(payload=None, payload_ref=NO_OBJECT | {"bytes": BIG}),
    "an object that is a path": body(payload=None, payload_ref={"sha256": "../../../etc/passwd", "bytes": 3}),
    "a payload and an object": body(payload_ref=NO_OBJECT),
    "no payload": body(payload=None),
    "a list": body(payload=[1]),
    "null": body().replace(b'{"text":"h"}', b"null"),
}


@pytest.fixture(params=[True, False], ids=["index", "no index"])
def store(request, tmp_path):
    """A store whose index knows the five sound records, or one without: the root, its segment, what it tells."""
    root = make_store(tmp_path)
    path, state = acknowledged(root)
    if not request.param:
        remove_index(root)
    return root, path, state


def told(journal):
    return {entity.item_id: entity.value for entity in journal.entities()}


def append(path, line):
    with path.open("ab") as file:
        file.write(seal_line(line)[0])


@pytest.mark.parametrize("name", [*CLAIMS, *NO_RECORDS])
def test_what_it_claims_changes_nothing_that_was_there(store, name):
    root, path, state = store
    append(path, {**CLAIMS, **NO_RECORDS}[name])
    seq = 7 if name in CLAIMS else 6
    with open_journal(root) as journal:
        held = told(journal)
        assert {item_id: held[item_id]["text"] for item_id in state} == state
        assert journal.mutate(put(9, "goes on"), WRITER).first_seq == seq
        examine(journal)
    remove_index(root)
    with open_journal(root) as journal:
        assert told(journal)[item(9)] == {"text": "goes on"}, "what was acknowledged is there"
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, seq + 1))


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_it_says_cannot_be_had_and_that_is_told_by_its_seq(store, name):
    """With an index that is sound but for this record, too: making it anew mends nothing, and is not tried for ever."""
    root, path, state = store
    append(path, UNREADABLE[name])
    before = path.read_bytes()
    for _ in range(2):
        with open_journal(root) as journal:
            assert journal.damage is not None
            assert {item_id: value["text"] for item_id, value in told(journal).items()} == state, "the rest is served"
            with pytest.raises(DamageError):
                journal.mutate(put(9, "refused"), WRITER)
            found = examine(journal)
            assert found.exit_code == 3
            assert any(problem.seq == 6 for problem in found.problems if problem.severity == "error"), found.problems
        assert path.read_bytes() == before
