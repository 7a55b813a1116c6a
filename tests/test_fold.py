"""State folded from zero is the state that the records give one by one, whatever the history and its order."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.encoding.canonical import canonical
from periplus.base.errors import DamageError, EnvironmentFailure, FormatError
from periplus.journal.index.index_file import NullIndexer
from periplus.journal.index.tables import Index
from periplus.journal.records.record import Record, decode_line, decode_lines, encode_line, version_id
from periplus.journal.records.segment import Block, read_block, scan, scan_blocks, segment_name
from periplus.journal.state.entity import Head, change_of
from periplus.journal.state.fold import Fold
from periplus.journal.storage.lineage import LineageReader
from support import item

pytestmark = pytest.mark.quick

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
    with closing(Index(None, "", NullIndexer())) as index:
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


def loaded_in_parts(found, often):
    """As ``loaded``, a record a block, the heads taken after each ``often`` of them: (tables, how many heads were given)."""
    with closing(Index(None, "", NullIndexer())) as index:
        index.begin_write()
        fold = Fold(lambda _: b"", lambda lineage, _, places: [found[lineage][at : at + size] for at, size in places])
        given = 0
        for lineage in sorted(found):
            for number, entry in enumerate(scan(found[lineage], base=0, next_seq=1).entries, 1):
                folded = fold.add(Block(*map(list, zip(entry, strict=True))), lineage, 1)
                index.add_rows(folded.rows, folded.edges)
                if folded.odd or not number % often:
                    heads = list(fold.take_heads())
                    given += len(heads)
                    index.set_heads(heads)
                    assert list(fold.take_heads()) == []
                if folded.odd:
                    index.apply(folded.odd, lineage, 1)
        index.set_heads(fold.take_heads())
        return dumped(index), given


def one_by_one(found, order):
    with closing(Index(None, "", NullIndexer())) as index:
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


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_folding_gives_the_rows_and_heads_that_taking_in_one_by_one_gives(steps):
    found = history(steps)
    for order in (sorted(found), sorted(found, reverse=True)):
        assert loaded(found, order) == one_by_one(found, order)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.integers(1, 5))
def test_heads_may_be_taken_at_any_time(steps, often):
    found = history(steps)
    assert loaded_in_parts(found, often)[0] == one_by_one(found, sorted(found))[0]


@pytest.mark.parametrize("often", [1, 3, 7, 100])
def test_a_head_is_given_again_only_where_its_entity_changed(often):
    found = history([(0, 1 + number % 2, "put", number) for number in range(12)])
    tables, given = loaded_in_parts(found, often)
    assert tables == one_by_one(found, sorted(found))[0]
    assert given == {1: 12, 3: 8, 7: 2, 100: 0}[often]


@pytest.mark.parametrize(
    "head", [{"version": "é" * 64}, {"version": ""}, {"rev": -1}, {"rev": 1 << 70}, {"is_stub": True}]
)
def test_what_a_checkpoint_says_and_no_line_of_ours_can_continue_is_odd(head):
    record = a_record(1, "update", item_id=item(1), parents=["ab" * 32], payload={"n": 1})
    line = encode_line(record)[0]
    known = Head("decision", item(1), "ab" * 32, (), 1, False, b"{}", "", "", "", "lin_0000000000000000", 1)
    for heads, is_odd in (([known], False), ([known._replace(**head)], True), ([known, known], True)):
        fold = Fold(lambda _: b"", lambda _, _segment, places: [line[at : at + size] for at, size in places])
        fold.begin(heads)
        assert list(fold.take_heads()) == []
        folded = fold.add(read_block(line, base=0, next_seq=1), "lin_0000000000000000", 1)
        assert (bool(folded.odd), not folded.rows) == (is_odd, is_odd)
        assert [taken.rev for taken in fold.take_heads()] == ([] if is_odd else [2])
        assert fold.entities == {("decision", item(1))}


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_lines_lie_where_they_were_asked_for_however_far_apart(data):
    content = random.Random(1).randbytes(300_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, segment_name(1))
        if data.draw(st.booleans()):  # moved to the archive
            path = Path(folder, "archive", segment_name(1))
            path.parent.mkdir()
        path.write_bytes(content)
        places, at = [], 0
        for gap, length in data.draw(st.lists(st.tuples(st.sampled_from([0, 1, 8_191, 8_192, 8_193, 50_000]),
                                                        st.sampled_from([1, 500, 98_303, 98_304, 98_305])), max_size=30)):  # fmt: skip
            places.append((at + gap, length))
            at += gap + length
        found = list(LineageReader(folder, ("sto",), "lin").lines_at(1, places))
        assert found == [content[offset : offset + length] for offset, length in places]


def test_lines_of_what_is_no_plain_file_are_the_machines_failure(tmp_path):
    reader = LineageReader(str(tmp_path), ("sto",), "lin")
    with pytest.raises(EnvironmentFailure):
        list(reader.lines_at(1, [(0, 1)]))
    os.mkfifo(tmp_path / segment_name(1))
    with pytest.raises(EnvironmentFailure):
        list(reader.lines_at(1, [(0, 1)]))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_many_lines_are_decoded_as_each_alone_up_to_the_first_that_is_not_sound(data):
    count = data.draw(st.integers(0, 8))
    lines = [
        encode_line(a_record(seq, "update", item_id=item(1), payload={"n": seq}))[0][:-1] for seq in range(1, count + 1)
    ] * data.draw(st.sampled_from([1, 12]))  # few and many are read in two ways
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
