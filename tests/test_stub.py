"""Stubs: the content is gone, and nothing else changed: seq, leaf, version, offsets, batches."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.encoding.canonical import canonical
from periplus.base.errors import FormatError
from periplus.journal.records.record import Record, decode_line, encode_line, seal_line
from periplus.journal.records.segment import Entry, scan
from periplus.journal.records.stub import audited_by, audited_record, make_stub, unaudited
from periplus.journal.state.entity import change_of
from periplus.journal.storage.lineage import START
from support import WRITER, item, make_store, open_journal, segment_path

pytestmark = pytest.mark.quick

LONG = {"text": "the password is hunter2, do not tell anybody; " * 3}


@pytest.fixture
def journal(tmp_path):
    with open_journal(make_store(tmp_path)) as journal:
        for number in range(3):
            journal.mutate(lambda t, n=number: t.put("decision", item(n), LONG, summary="hunter2"), WRITER)
        yield journal


def entries_of(journal):
    return [entry for _, entry in journal.entries(journal.lineage)]


def line_of(journal, entry):
    data = segment_path(journal).read_bytes()
    return data[entry.offset : entry.offset + entry.length - 1]


def test_a_stub_is_its_record_without_its_content(journal):
    entry = entries_of(journal)[1]
    line = line_of(journal, entry)
    before = change_of(entry, journal.lineage, 1, journal.load_object)
    stub = make_stub(line, entry.leaf, before.version)
    assert len(stub) == len(line) + 1
    assert b"hunter2" not in stub
    assert entry.record.salt.encode() not in stub
    record, leaf = decode_line(stub[:-1])
    assert record.is_stub
    assert leaf == entry.leaf
    after = change_of(Entry(record, entry.offset, entry.length, leaf), journal.lineage, 1, journal.load_object)
    assert (after.version, after.parents, after.payload) == (before.version, before.parents, b"")
    for name in ("seq", "ts", "writer", "writer_id", "pid", "action", "item_type", "item_id", "key", "durable"):
        assert getattr(record, name) == getattr(entry.record, name)


def test_a_segment_with_a_stub_reads_on_as_before(journal):
    found = entries_of(journal)
    path = segment_path(journal)
    data = path.read_bytes()
    stub = make_stub(line_of(journal, found[1]), found[1].leaf, "0" * 64)
    changed = data[: found[1].offset] + stub + data[found[1].offset + found[1].length :]
    assert len(changed) == len(data)
    start = found[0].offset
    again = scan(changed[start:], base=start, next_seq=1)
    assert [(e.offset, e.length, e.leaf) for e in again.entries] == [(e.offset, e.length, e.leaf) for e in found]


def test_a_position_behind_a_record_holds_when_it_becomes_a_stub(journal):
    reader = journal.reader(journal.lineage)
    [chunk] = reader.read_from(START)
    last = chunk.entries[-1]
    path = segment_path(journal)
    data = path.read_bytes()
    path.write_bytes(data[: last.offset] + make_stub(line_of(journal, last), last.leaf, "0" * 64))
    assert [part.entries for part in reader.read_from(chunk.end)] == [[]]


def test_fields_of_a_later_version_are_kept():
    line = seal_line(b'{"v":2,"seq":7,"ts":"","writer":"w","writer_id":"w","pid":1,"action":"update","mood":"good",'
                     b'"salt":"AAAA","payload":{"text":"a secret that is long enough to make room for what the stub adds,'
                     b' and then some more of it, for a stub says two hashes"}')[0][:-1]  # fmt: skip
    _, leaf = decode_line(line)
    assert b'"mood":"good"' in make_stub(line, leaf, "")


def test_a_record_too_short_for_its_stub():
    record = Record(2, 1, "t", "w", "w", 1, "observe", payload=msgspec.Raw(b"{}"), salt="AAAA")
    line, leaf = encode_line(record)
    assert len(make_stub(line[:-1], leaf, "a" * 64)) > len(line)


@pytest.mark.parametrize("fields", [b'"leaf":"abc"', b'"leaf":"' + b"a" * 64 + b'","version":"x"'])
def test_a_stub_that_does_not_say_what_it_was(fields):
    line = seal_line(b'{"v":2,"seq":7,"ts":"","writer":"w","writer_id":"w","pid":1,"action":"update",' + fields)[0]
    with pytest.raises(FormatError, match="without a valid leaf hash or version"):
        decode_line(line[:-1])


@given(
    st.integers(1, 10**12),
    st.text(max_size=40),
    st.dictionaries(st.text("abü ", max_size=9), st.text(max_size=60), max_size=9),
)
def test_any_record_makes_a_stub(seq, writer, payload):
    record = Record(2, seq, "t", writer, "w", 1, "update", item_type="note", item_id=item(1, "not"), salt="AAAA",
                    payload=msgspec.Raw(canonical(payload)), summary="s")  # fmt: skip
    line, leaf = encode_line(record)
    stub = make_stub(line[:-1], leaf, "a" * 64)
    again, kept = decode_line(stub[:-1])
    assert (again.seq, again.writer, again.version, kept) == (seq, writer, "a" * 64, leaf)
    assert len(stub) >= len(line)


def test_a_stub_counts_only_where_an_audit_record_names_it(journal):
    found = entries_of(journal)
    target = found[0]
    stub = make_stub(line_of(journal, target), target.leaf, "0" * 64)
    record, leaf = decode_line(stub[:-1])
    entries = [Entry(record, target.offset, target.length, leaf), *found[1:]]
    wanted = audited_record(stub[:-1], target.leaf, 1)

    def strangers(entries):
        return [entry.record.seq for entry, _ in unaudited(entries, journal.lineage, lambda _: stub[:-1])]

    def audit(record, lineage=journal.lineage):
        journal.mutate(lambda t: t.meta("redact", {"lineage": lineage, "records": [list(record)]}), WRITER)
        return entries + entries_of(journal)[3:]

    assert strangers(entries) == [1]
    assert strangers(audit(wanted, "lin_of_somebody")) == [1]
    assert strangers(audit(wanted._replace(seq=2))) == [1]
    assert strangers(audit(wanted._replace(leaf=found[1].leaf.hex()))) == [1]
    assert strangers(audit(wanted._replace(stub="0" * 64))) == [1]  # another stub of the same record
    assert strangers(audit(wanted)) == []


def test_an_audit_record_of_another_shape_names_nothing():
    def record(payload, action="redact"):
        return Record(2, 1, "t", "w", "w", 1, action, payload=msgspec.Raw(payload))

    assert audited_by(record(b'{"lineage":"lin_a","records":"all"}'), "lin_a") == []
    assert audited_by(record(b'{"lineage":"lin_a","records":[[1,"x","y"]]}'), "lin_a") == []
    assert audited_by(record(b'{"lineage":"lin_a","records":[[1,"%b"]]}' % (b"a" * 64)), "lin_a") == []
    good = b'{"lineage":"lin_a","records":[[1,"%b","%b"]]}' % (b"a" * 64, b"b" * 64)
    assert audited_by(record(good, "note"), "lin_a") == []
    assert audited_by(record(good), "lin_a") == [(1, "a" * 64, "b" * 64)]
