"""State folded from zero is the state that the records give one by one, whatever the history and its order."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.canonical import canonical
from periplus.base.errors import DamageError, FormatError
from periplus.journal.fold import Fold
from periplus.journal.index import Index, NullIndexer
from periplus.journal.record import Record, decode_line, decode_lines, encode_line, version_id
from periplus.journal.segment import scan, scan_blocks
from periplus.journal.state import change_of
from support import item

STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),  # lineage
        st.integers(0, 3),  # entity
        st.sampled_from(["put", "put", "put", "branch", "delete", "unheld", "observe", "foreign"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


def a_record(seq, action, *, item_id="", parents=(), payload=None, deleted=False, txn=None, voids=None):
    raw = msgspec.UNSET if payload is None else msgspec.Raw(canonical(payload))
    return Record(
        v=2, seq=seq, ts="2026-01-01T00:00:00.000Z", writer="w", writer_id="w", pid=1, action=action,
        item_type="decision" if item_id else "", item_id=item_id, parents=tuple(sorted(parents)), payload=raw,
        deleted=deleted, key=f"k{seq}", txn=txn, voids=voids,
    )  # fmt: skip


def version_of(record):
    payload = None if record.deleted else bytes(record.payload)
    return version_id("decision", record.item_id, deleted=record.deleted, payload=payload, parents=record.parents)


def history(steps):
    """Segments' bytes by lineage; each knows only what its own lineage wrote, and some of what the other did."""
    versions = {}
    lines = {0: [], 1: []}
    for lineage, number, what, value in steps:
        item_id = item(number) if number else 'dec_"quoted'
        known = versions.setdefault(item_id, [])
        seq = len(lines[lineage]) + 1
        if what == "observe":
            record = a_record(seq, "observe", payload={"n": value})
        elif what == "delete" and known:
            record = a_record(seq, "delete", item_id=item_id, parents=known[-1:], deleted=True)
        else:
            parents = known[-1:]
            if what == "branch":
                parents = known[:1]
            if what == "unheld":
                parents = ["ab" * 32]
            if what == "foreign":
                parents = known[-2:]
            record = a_record(seq, "update", item_id=item_id, parents=parents, payload={"n": value})
        if record.item_id:
            known.append(version_of(record))
        lines[lineage].append(encode_line(record)[0])
    return {f"lin_{number:016d}": b"".join(found) for number, found in lines.items()}


def loaded(found, order):
    index = Index(None, "", NullIndexer())
    index.begin_write()
    fold = Fold(lambda _: b"", lambda lineage, _, places: [found[lineage][at : at + size] for at, size in places])
    for lineage in order:

        def take(block, lineage=lineage):
            folded = fold.add(block, lineage, 1)
            index.add_rows(folded.rows, folded.edges)
            if folded.odd:
                index.set_heads(fold.take_heads())
                index.apply(folded.odd, lineage, 1)

        scan_blocks(found[lineage], take, base=0, next_seq=1)
    index.set_heads(fold.take_heads())
    return dumped(index), fold.entities


def one_by_one(found, order):
    index = Index(None, "", NullIndexer())
    index.begin_write()
    touched = set()
    for lineage in order:
        for entry in scan(found[lineage], base=0, next_seq=1).entries:
            touched |= index.apply([(entry, change_of(entry, lineage, 1, lambda _: b""))], lineage, 1)
    return dumped(index), touched


def dumped(index):
    return {
        name: sorted(index.db.execute(f"SELECT * FROM {name}").fetchall()) for name in ("records", "edges", "heads")
    }


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_folding_gives_the_rows_and_heads_that_taking_in_one_by_one_gives(steps):
    found = history(steps)
    for order in (sorted(found), sorted(found, reverse=True)):
        assert loaded(found, order) == one_by_one(found, order)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_many_lines_are_decoded_as_each_alone_up_to_the_first_that_is_not_sound(data):
    count = data.draw(st.integers(0, 8))
    lines = [
        encode_line(a_record(seq, "update", item_id=item(1), payload={"n": seq}))[0][:-1] for seq in range(1, count + 1)
    ]
    for _ in range(data.draw(st.integers(0, 2))):
        if lines:
            at = data.draw(st.integers(0, len(lines) - 1))
            line = bytearray(lines[at] or b"-")
            line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
            lines[at] = data.draw(st.sampled_from([bytes(line), b"", lines[at][:10], lines[at]]))
    expected = []
    for line in lines:
        try:
            expected.append(decode_line(line))
        except FormatError:
            break
    assert list(zip(*decode_lines(lines), strict=True)) == expected


@pytest.mark.parametrize("item_id", ["dec_1", 'a"b', "a\\b", "é", "", "a\n", "\x7f"])
@pytest.mark.parametrize("parents", [(), ("ab" * 32,), ("ff" * 32, "ab" * 32), ('"', "x")])
@pytest.mark.parametrize("payload", [None, b"{}"])
def test_a_version_id_is_that_of_the_canonical_form(item_id, parents, payload):
    import hashlib
    import json

    value = {
        "deleted": payload is None, "item_id": item_id, "item_type": "note", "parents": sorted(parents),
        "payload": None if payload is None else json.loads(payload),
    }  # fmt: skip
    expected = hashlib.sha256(canonical(value)).hexdigest()
    assert version_id("note", item_id, deleted=payload is None, payload=payload, parents=parents) == expected


def test_a_head_that_nobody_can_read_is_damage():
    line = encode_line(a_record(1, "create", item_id=item(1), payload={"n": 1}))[0]
    sealed = encode_line(msgspec.structs.replace(decode_line(line[:-1])[0], payload=msgspec.Raw(b'{"n":1e999}')))[0]
    fold = Fold(lambda _: b"", lambda _, _segment, places: [sealed[at : at + size] for at, size in places])
    scan_blocks(sealed, lambda block: fold.add(block, "lin_0000000000000000", 1), base=0, next_seq=1)
    with pytest.raises(DamageError, match="cannot be read"):
        list(fold.take_heads())
