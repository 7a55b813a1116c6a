"""The journal as its users see it: mutate, read, compare-and-set, repeat, two writers, restart."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.encoding.canonical import canonical
from periplus.base.errors import (
    ConflictError,
    DamageError,
    EnvironmentFailure,
    LockTimeoutError,
    NewerFormatError,
    OutcomeUnknownError,
    UsageError,
)
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal import ABSENT, Journal
from periplus.journal.care.doctor import examine
from periplus.journal.projections.external_edits import take_in
from periplus.journal.records.record import Record, decode_line, encode_line, version_id
from periplus.journal.records.segment import scan
from periplus.journal.storage.lineage import START
from support import TYPES, WRITER, FailingFiles, item, make_store, open_journal, remove_index, segment_path


def put(number, text, **options):
    return lambda transaction: transaction.put("decision", item(number), {"text": text}, **options)


def lines_of(journal):
    return segment_path(journal).read_bytes().splitlines(keepends=True)


def test_a_mutation_is_read_back_here_and_by_the_next_process(journal, root):
    receipt = journal.mutate(put(1, "use flock"), WRITER)
    assert (receipt.first_seq, receipt.last_seq, receipt.repeated) == (1, 1, False)
    assert journal.get("decision", item(1)).value == {"text": "use flock"}
    with open_journal(root) as other:
        assert other.get("decision", item(1)).version == receipt.versions[0]


def test_every_field_of_the_record_table_is_there(journal):
    journal.mutate(put(1, "first"), WRITER)

    def three(transaction):
        transaction.put("decision", item(1), {"text": "second"}, summary="a change")
        transaction.put("decision", item(2), {"text": "x" * 70_000})
        transaction.delete("decision", item(2))

    journal.mutate(three, WRITER, key="k-1")
    records = [json.loads(line) for line in lines_of(journal)[1:]]
    first, second, large, deleted = records
    order = ("v seq ts writer writer_id pid action session item_type item_id parents key salt txn summary payload "
             "payload_ref deleted voids durable sum").split()  # fmt: skip
    for record in records:
        assert [name for name in order if name in record] == list(record)
        assert len(record["salt"]) == 24
    assert first["v"] == 2
    assert "parents" not in first
    assert second["parents"] == [
        version_id("decision", item(1), deleted=False, payload=b'{"text":"first"}', parents=())
    ]
    assert [record.get("txn") for record in records] == [None, [1, 3], [2, 3], [3, 3]]
    assert [record["key"] for record in records[1:]] == ["k-1"] * 3
    assert second["durable"] == 1
    assert large["payload_ref"]["bytes"] == 70_011
    assert deleted["deleted"] is True
    assert "payload" not in deleted
    assert all(re.fullmatch(rb'.*,"sum":"[0-9a-f]{16}"}\n', line) for line in lines_of(journal))


def test_the_checksum_is_the_leaf_hash(journal):
    import hashlib

    journal.mutate(put(1, "x"), WRITER)
    line = lines_of(journal)[1]
    body, _, rest = line.partition(b',"sum":"')
    leaf = hashlib.sha256(b"\0" + body).hexdigest()
    assert rest[:16].decode() == leaf[:16]
    assert journal.index.leaves(journal.lineage, 1, 2) == [bytes.fromhex(leaf)]


def test_compare_and_set_refuses_a_lost_update(journal):
    version = journal.mutate(put(1, "a", expect=ABSENT), WRITER).versions[0]
    journal.mutate(put(1, "b", expect=version), WRITER)
    with pytest.raises(ConflictError) as refused:
        journal.mutate(put(1, "c", expect=version), WRITER)
    assert "rev 2" in str(refused.value)
    with pytest.raises(ConflictError):
        journal.mutate(put(1, "c", expect=ABSENT), WRITER)
    assert journal.get("decision", item(1)).value == {"text": "b"}
    assert journal.end().next_seq == 3


def test_a_key_is_written_once(journal, root):
    first = journal.mutate(put(1, "a"), WRITER, key="once")
    again = journal.mutate(put(1, "other"), WRITER, key="once")
    assert again == first._replace(repeated=True)
    with open_journal(root) as other:
        assert other.mutate(put(1, "third"), WRITER, key="once").versions == first.versions
        assert other.get("decision", item(1)).value == {"text": "a"}


def test_a_function_that_raises_writes_nothing(journal):
    def half(transaction):
        transaction.put("decision", item(1), {"text": "a"})
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        journal.mutate(half, WRITER)
    assert journal.get("decision", item(1)) is None
    assert journal.mutate(lambda _: None, WRITER).versions == ()
    assert journal.end().next_seq == 1


def test_deletion_is_a_tombstone_and_a_later_create_descends_from_it(journal, root):
    journal.mutate(put(1, "a"), WRITER)
    path = Path(journal.layout.entity_file("decision", item(1)))
    assert path.exists()
    journal.mutate(lambda transaction: transaction.delete("decision", item(1)), WRITER)
    assert journal.get("decision", item(1)) is None
    assert not path.exists()
    with pytest.raises(UsageError):
        journal.mutate(lambda transaction: transaction.delete("decision", item(1)), WRITER)
    journal.mutate(put(1, "back", expect=ABSENT), WRITER)
    with open_journal(root) as other:
        assert other.get("decision", item(1)).rev == 3
        assert [entity.item_id for entity in other.entities()] == [item(1)]


def test_observations_are_records_but_no_state(journal):
    journal.mutate(lambda transaction: transaction.observe({"tool": "ls"}), WRITER, durable=False)
    assert journal.end().next_seq == 2
    assert list(journal.entities()) == []
    with pytest.raises(UsageError):
        journal.mutate(put(1, "state needs its sync"), WRITER, durable=False)
    journal.mutate(put(1, "a"), WRITER)
    assert [entry.record.action for _, entry in journal.entries(journal.lineage)] == ["observe", "create"]


@pytest.mark.parametrize(
    "payload",
    [{"a": 1.5}, {"a": float("nan")}, {"a": 2**53}, {"a": "\ud800"}, {"\U0001f600": 1}, {"a": {1, 2}}, {1: 2}],
)
def test_what_has_no_canonical_form_is_refused(journal, payload):
    with pytest.raises(UsageError):
        journal.mutate(lambda transaction: transaction.put("decision", item(1), payload), WRITER)
    assert journal.end().next_seq == 1


def test_bad_ids_and_types_are_refused(journal):
    for item_id in ("../../etc/passwd", "dec_SHOUTING00000000", "", "dec", "dec_" + "0" * 17):
        with pytest.raises(UsageError):
            journal.mutate(lambda t, i=item_id: t.put("decision", i, {}), WRITER)
    with pytest.raises(UsageError, match="unknown"):
        journal.mutate(lambda t: t.put("dragon", item(1), {}), WRITER)


@pytest.mark.slow
def test_a_batch_over_the_limits_is_refused_before_anything_is_written(journal):
    def many(transaction):
        for number in range(65_537):
            transaction.observe({"n": number})

    with pytest.raises(UsageError):
        journal.mutate(many, WRITER)
    with pytest.raises(UsageError, match="bytes"):
        journal.mutate(lambda t: [t.put("decision", item(n), {"text": "y" * 65_000}) for n in range(300)], WRITER)
    assert not segment_path(journal).exists() or len(lines_of(journal)) == 1


def test_a_payload_over_64_kib_goes_to_an_object_and_none_below_does(journal):
    frame = len(canonical({"text": ""}))
    for number, size in enumerate((65_536, 65_537)):
        journal.mutate(
            lambda t, n=number, size=size: t.put("decision", item(n), {"text": "x" * (size - frame)}), WRITER
        )
    inline, apart = (entry.record for _, entry in journal.entries(journal.lineage))
    assert (inline.payload_ref, len(inline.payload)) == (None, 65_536)
    assert (apart.payload, apart.payload_ref.bytes) == (msgspec.UNSET, 65_537)
    assert [len(journal.get("decision", item(number)).payload) for number in (0, 1)] == [65_536, 65_537]


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_line_over_256_kib_is_refused_and_what_is_written_is_read(beyond):
    def line(size):
        record = Record(
            2, 1, "2026-01-01T00:00:00.000Z", "ada", "who", 1, "note", payload=msgspec.Raw(b'"%b"' % (b"x" * size))
        )
        return encode_line(record)[0]

    frame = len(line(0))
    if beyond:
        with pytest.raises(UsageError, match="a record of 262,145 bytes; the limit is 262,144"):
            line(262_144 - frame + beyond)
        return
    written = line(262_144 - frame)
    assert len(written) == 262_144
    assert [entry.length for entry in scan(written, base=0, next_seq=1).entries] == [262_144]


def test_segments_roll_and_chain(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 2000\n")
    with open_journal(root) as journal:
        for number in range(30):
            journal.mutate(put(number % 4, f"v{number}"), WRITER)
        segments = journal.reader(journal.lineage).segments()
        assert len(segments) > 5
        assert journal.end().next_seq == 31
    with open_journal(root) as other:
        seqs = [entry.record.seq for _, entry in other.entries(other.lineage)]
        assert seqs == list(range(1, 31))
        assert other.get("decision", item(1)).value == {"text": "v29"}
    Path(root, "journal", other.lineage, f"{segments[2]:012d}.jsonl").unlink()
    os.unlink(Path(root, "index.sqlite"))
    with open_journal(root) as broken:
        assert isinstance(broken.damage, DamageError)
        assert broken.get("decision", item(1)).value == {"text": "v29"}
        with pytest.raises(DamageError):
            broken.mutate(put(1, "no"), WRITER)


class CountingFiles(Files):
    def __init__(self):
        self.writes, self.syncs = [], 0

    def write(self, fd, data):
        self.writes.append(bytes(data))
        return super().write(fd, data)

    def sync_data(self, fd):
        self.syncs += 1
        super().sync_data(fd)


def test_a_batch_is_one_write_and_one_sync_and_lies_in_one_segment(tmp_path):
    root, files = make_store(tmp_path), CountingFiles()
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 3000\n")
    with open_journal(root, files) as journal:
        for number in range(12):
            files.writes.clear()
            files.syncs = 0
            before = journal.end().segment

            def five(transaction, number=number):
                for each in range(5):
                    transaction.put("note", item(each, "not"), {"text": f"{number}"})

            journal.mutate(five, WRITER, project=False)
            records = [data for data in files.writes if b'"segment":2' not in data]
            assert [data.count(b"\n") for data in records] == [5], "one write of the whole batch"
            rolled = journal.end().segment != before
            assert files.syncs == (2 if rolled and before else 1), "a roll has what lies before it on the disk first"
        assert len(journal.reader(journal.lineage).segments()) > 3
        for first in journal.reader(journal.lineage).segments():
            lines = segment_path(journal, first).read_bytes().splitlines()[1:]
            places = [decode_line(line)[0].txn for line in lines]
            assert places == [(each, 5) for each in range(1, 6)] * (len(lines) // 5)


def test_the_keys_of_a_store_are_for_its_owner_only(tmp_path):
    mask = os.umask(0)
    try:
        root = Path(make_store(tmp_path))
    finally:
        os.umask(mask)
    keys = root / "journal" / "keys"
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in keys.iterdir()}
    assert keys.stat().st_mode & 0o077 == 0
    assert modes.keys() == {".private", ".public", ""}
    assert modes[".private"] == modes[""] == 0o600


def test_the_index_is_disposable(journal, root):
    for number in range(20):
        journal.mutate(put(number % 5, f"v{number}"), WRITER)
    want = list(journal.entities())
    files = {p: p.read_bytes() for p in Path(root, "entities").rglob("*.json")}
    journal.close()
    remove_index(root)
    for path in files:
        path.unlink()
    with open_journal(root) as other:
        other.project()
        assert list(other.entities()) == want
        assert {p: p.read_bytes() for p in Path(root, "entities").rglob("*.json")} == files
        other.index.end()
        other.index.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(Path(root, "index.sqlite").read_bytes())
    data[20:200] = bytes(180)
    Path(root, "index.sqlite").write_bytes(data)
    with open_journal(root) as mended:
        assert list(mended.entities()) == want


def test_an_index_of_another_journal_is_not_believed(tmp_path):
    roots = [make_store(tmp_path / name) for name in ("a", "b")]
    for root in roots:
        with open_journal(root) as journal:
            journal.mutate(put(1, root), WRITER)
    os.replace(Path(roots[0], "index.sqlite"), Path(roots[1], "index.sqlite"))
    with open_journal(roots[1]) as journal:
        assert journal.get("decision", item(1)).value == {"text": roots[1]}


def test_a_file_that_a_person_edited_is_recorded_before_it_is_written_over(journal):
    journal.mutate(put(1, "a"), WRITER)
    path = Path(journal.layout.entity_file("decision", item(1)))
    path.write_text(path.read_text().replace('"a"', '"edited"'))
    journal.mutate(put(1, "b"), WRITER)
    assert {head.payload for head in journal.heads_of("decision", item(1))} == {b'{"text":"edited"}', b'{"text":"b"}'}
    assert journal.get("decision", item(1)).is_in_conflict


def test_an_old_file_of_ours_is_brought_up_to_date(journal, root):
    journal.mutate(put(1, "a"), WRITER)
    path = Path(journal.layout.entity_file("decision", item(1)))
    old = path.read_bytes()
    journal.mutate(put(1, "b"), WRITER)
    path.write_bytes(old)
    journal.mutate(put(1, "c"), WRITER)
    assert '"c"' in path.read_text()


def test_a_full_disk_fails_the_mutation_and_loses_nothing(root):
    with open_journal(root) as journal:
        journal.mutate(put(1, "kept"), WRITER)
    for files in (FailingFiles("write", errno.ENOSPC), FailingFiles("write", 0, short=40)):
        with open_journal(root, files) as journal, pytest.raises(EnvironmentFailure) as full:
            journal.mutate(put(1, "lost"), WRITER)
        assert not isinstance(full.value, OutcomeUnknownError)
        with open_journal(root) as journal:
            assert journal.get("decision", item(1)).value == {"text": "kept"}
    with open_journal(root) as journal:
        assert journal.mutate(put(1, "next"), WRITER).first_seq == 2
        record = decode_line(lines_of(journal)[-1][:-1])[0]
        assert record.voids is not None
        assert record.voids[1] == 40 + len(b"#\n")
    with open_journal(root) as journal:
        assert journal.get("decision", item(1)).value == {"text": "next"}


def test_a_failed_sync_is_an_unknown_outcome_and_poisons_the_segment(root):
    with open_journal(root) as journal:
        journal.mutate(put(1, "kept"), WRITER)
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal:
        with pytest.raises(OutcomeUnknownError) as unknown:
            journal.mutate(put(2, "who knows"), WRITER, key="k")
        assert unknown.value.key == "k"
        with pytest.raises(OutcomeUnknownError):
            journal.mutate(put(2, "again"), WRITER, key="k2")
    with open_journal(root) as journal:
        assert journal.mutate(put(2, "who knows"), WRITER, key="k").repeated
        assert journal.mutate(put(3, "x"), WRITER).first_seq == 4
        assert journal.get("decision", item(2)).value == {"text": "again"}
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == [1, 2, 3, 4]
        segments = journal.reader(journal.lineage).segments()
    assert segments[0] == 1
    assert segments[-1] > 1, "the next writer began a new segment"
    with open_journal(root) as journal:
        assert examine(journal).exit_code < 3
        journal.mutate(put(4, "and on"), WRITER)
        assert journal.get("decision", item(4)) is not None


def test_a_projection_that_fails_does_not_fail_the_mutation(root):
    with open_journal(root, FailingFiles("replace", errno.ENOSPC, after=1)) as journal:
        journal.mutate(put(1, "a"), WRITER)
        assert journal.get("decision", item(1)).value == {"text": "a"}
        path = Path(journal.layout.entity_file("decision", item(1)))
        assert journal.unindexed() == []  # what is in no file is found all the same
        assert journal.unwritten.keys() == {os.fspath(path)}
        assert not path.exists()
    with open_journal(root) as journal:
        assert take_in(journal).rewritten == 1
        assert path.exists()


def test_a_held_lock_is_waited_for_and_then_named(journal, root):
    with Lock(journal.layout.lock).holding(), pytest.raises(LockTimeoutError, match=str(os.getpid())):
        journal.mutate(put(1, "a"), WRITER, patience_s=0.05)
    journal.mutate(put(1, "a"), WRITER)


def test_a_replaced_segment_is_noticed(journal, root):
    journal.mutate(put(1, "a"), WRITER)
    path = segment_path(journal)
    data = path.read_bytes()
    path.rename(path.with_suffix(".old"))
    path.write_bytes(data)
    journal.mutate(put(1, "b"), WRITER)
    with open_journal(root) as other:
        assert other.get("decision", item(1)).value == {"text": "b"}
        assert other.end().next_seq == 3


def test_a_newer_store_is_refused_with_a_clear_error(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(
        config.read_text().replace("format = 2", "format = 3").replace("[journal]", "[journal]\nnew = [1]")
    )
    with pytest.raises(NewerFormatError, match="format 3"):
        open_journal(root)


def test_records_of_a_later_version_are_passed_through(journal, root):
    journal.mutate(put(1, "a"), WRITER)
    end = journal.end()
    journal.close()
    path = segment_path(journal)
    record = decode_line(path.read_bytes().splitlines()[1])[0]
    later = msgspec.structs.replace(record, v=3, seq=2, action="entangle", durable=1)
    line = encode_line(later)[0]
    body = line[: line.index(b',"sum"')] + b',"phase":"unheard of"'
    from periplus.journal.records.record import seal_line

    with path.open("ab") as file:
        file.write(seal_line(body)[0])
    with open_journal(root) as other:
        assert other.end().next_seq == 3
        assert other.get("decision", item(1)).value == {"text": "a"}
        other.mutate(put(1, "b"), WRITER)
        assert [entry.record.action for _, entry in other.entries(other.lineage)] == ["create", "entangle", "update"]
    assert end.next_seq == 2
    assert b"unheard of" in path.read_bytes()


def test_a_fresh_clone_has_settings_and_mints_its_own_lineage(tmp_path, root):
    clone = tmp_path / "clone" / ".periplus"
    clone.mkdir(parents=True)
    (clone / "config.toml").write_bytes(Path(root, "config.toml").read_bytes())
    with open_journal(str(clone)) as journal:
        assert list(journal.entities()) == []
        journal.mutate(put(1, "mine"), WRITER)
        with open_journal(root) as original:
            assert journal.store_id == original.store_id
            assert journal.lineage != original.lineage


def test_two_lineages_side_by_side_are_one_state(tmp_path, root):
    clone = tmp_path / "clone" / ".periplus"
    clone.mkdir(parents=True)
    (clone / "config.toml").write_bytes(Path(root, "config.toml").read_bytes())
    with open_journal(root) as ours:
        ours.mutate(put(1, "ours"), WRITER)
        ours.mutate(put(3, "common"), WRITER)
    with open_journal(str(clone)) as theirs:
        theirs.mutate(put(2, "theirs"), WRITER)
        lineage = theirs.lineage
    os.rename(clone / "journal" / lineage, Path(root, "journal", lineage))
    with open_journal(root) as both:
        assert {entity.item_id for entity in both.entities()} == {item(1), item(2), item(3)}
        both.project()
        assert both.index.counts() == {"decision": 3}
        both.mutate(put(2, "both"), WRITER)
        assert both.get("decision", item(2)).rev == 2


WRITING = """
import sys
sys.path[:0] = {paths!r}
from support import WRITER, item, open_journal
with open_journal({root!r}) as journal:
    for number in range({count}):
        journal.mutate(lambda t: t.put("decision", item({base} + number), {{"text": str(number)}}), WRITER)
"""


@pytest.mark.slow
def test_two_processes_of_a_thousand_mutations_each(root):
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]
    running = [
        subprocess.Popen([sys.executable, "-c", WRITING.format(paths=paths, root=root, count=1000, base=base)])
        for base in (0, 100_000)
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    with open_journal(root) as journal:
        seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
        assert seqs == list(range(1, 2001))
        assert journal.project()
        assert journal.index.counts() == {"decision": 2000}
    assert len(list(Path(root, "entities", "decision").iterdir())) == 2000


def test_threads_share_one_journal_file(root):
    import threading

    def work(base):
        with open_journal(root) as mine:
            for number in range(25):
                mine.mutate(put(base + number, "t"), WRITER)

    threads = [threading.Thread(target=work, args=(base,)) for base in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_journal(root) as journal:
        assert journal.end().next_seq == 76
        assert len(list(journal.entities())) == 75


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "delete", "reopen", "lazy", "drop index"]), st.integers(0, 3), st.text(max_size=5)
        ),
        max_size=25,
    )
)
def test_any_history_gives_the_state_of_a_plain_dict(tmp_path_factory, steps):
    root = make_store(tmp_path_factory.mktemp("model"))
    model: dict[str, str] = {}
    journal = open_journal(root)
    for action, number, text in steps:
        key = item(number)
        if action in ("put", "lazy"):
            journal.mutate(put(number, text), WRITER, project=action == "put")
            model[key] = text
        elif action == "delete" and key in model:
            journal.mutate(lambda t, k=key: t.delete("decision", k), WRITER)
            del model[key]
        elif action == "reopen":
            journal.close()
            journal = open_journal(root)
        elif action == "drop index":
            journal.close()
            remove_index(root)
            journal = open_journal(root)
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == model
    journal.project()
    files = {
        path.stem: json.loads(path.read_text())["entity"]["text"] for path in Path(root, "entities").rglob("*.json")
    }
    assert files == model
    journal.close()


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet=st.characters(max_codepoint=0xD7FF)), inner),
        max_leaves=10,
    )
)
def test_version_ids_are_those_of_the_canonical_document(value):
    import hashlib

    payload = canonical({"x": value})
    parents = ("b" * 64, "a" * 64)
    whole = canonical({"item_type": "decision", "item_id": item(1), "deleted": False, "payload": {"x": value},
                       "parents": sorted(parents)})  # fmt: skip
    assert (
        version_id("decision", item(1), deleted=False, payload=payload, parents=parents)
        == hashlib.sha256(whole).hexdigest()
    )


def test_the_type_check_runs_before_anything_is_written(root):
    def refuse(payload):
        raise UsageError("never")

    types = {"decision": TYPES["decision"]._replace(check=refuse)}
    with Journal(root, types) as journal:
        with pytest.raises(UsageError, match="never"):
            journal.mutate(put(1, "x"), WRITER)
        assert journal.end() == START


def test_a_record_about_the_journal_takes_a_seq_and_is_no_state(tmp_path):
    with open_journal(make_store(tmp_path)) as journal:
        receipt = journal.mutate(lambda t: t.meta("note", {"text": "looked"}, summary="a look"), WRITER)
        assert (receipt.first_seq, receipt.last_seq, receipt.versions) == (1, 1, ())
        assert list(journal.entities()) == []
        with pytest.raises(UsageError, match="is not an action for records about the journal"):
            journal.mutate(lambda t: t.meta("create", {}), WRITER)
        assert journal.end().next_seq == 2
