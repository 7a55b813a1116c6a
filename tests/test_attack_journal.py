"""Attacks on a store: what a cloned repository may bring, what other processes do meanwhile, where a writer may stop."""

from __future__ import annotations

import errno
import json
import os
import random
import select
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    LockTimeoutError,
    OutcomeUnknownError,
    PeriplusError,
    UsageError,
)
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from periplus.journal.records.record import PayloadRef, Record, encode_line
from periplus.journal.records.segment import Header, encode_header, scan, segment_name
from support import (
    WRITER,
    FailingFiles,
    Stop,
    StoppingFiles,
    item,
    make_store,
    open_journal,
    remove_index,
    segment_path,
)
from test_journal_damage import acknowledged, put, three


@pytest.fixture
def patience():
    """Ends a test that would wait for ever: no assertion about time, only that there is an end."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it does not come to an end"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def child(work, *arguments):
    """A process that does ``work`` and ends with 0, or with 1 where it raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(*arguments)
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(pid):
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


# What comes with a repository that somebody else made


@pytest.mark.parametrize(
    "name",
    ["journal/lock", "journal/projection.lock", "journal/durable", "index.sqlite", "entities", "entities/decision",
     "journal", "journal/keys", "objects", "objects/ab"],
)  # fmt: skip
def test_a_link_in_a_store_is_neither_followed_nor_written_through(tmp_path, name):
    root = make_store(tmp_path)
    path = Path(root, name)
    outside = tmp_path / "outside"
    if path.is_dir():
        shutil.move(path, outside)
    elif "." in name or name.startswith("journal/"):
        path.unlink(missing_ok=True)
        outside.write_text("somebody's own file\n" * 100)
    else:
        outside.mkdir()
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside)
    before = {found: found.read_bytes() for found in tmp_path.rglob("*") if found.is_file()}
    with pytest.raises(DamageError, match="symbolic link"), open_journal(root) as journal:
        journal.mutate(put(1, "x" * 70_000), WRITER)
    assert {found: found.read_bytes() for found in tmp_path.rglob("*") if found.is_file()} == before
    with pytest.raises(DamageError, match="symbolic link"):
        make_store(tmp_path)


def test_a_link_that_appears_later_is_not_written_through(tmp_path):
    root = make_store(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("somebody's own file\n" * 100)
    with open_journal(root) as journal:
        for name in ("durable", "lock"):
            path = Path(root, "journal", name)
            path.unlink(missing_ok=True)
            path.symlink_to(victim)
            try:
                journal.mutate(put(1, name), WRITER)
            except PeriplusError:
                assert name == "lock"
    assert victim.read_text() == "somebody's own file\n" * 100


@pytest.mark.parametrize("lineage", ["../../outside", "/tmp/outside", "", "lin_../../../../outs", "keys", "lin_\x00"])
def test_a_lineage_that_leads_out_of_the_store_is_refused(tmp_path, lineage):
    root = make_store(tmp_path)
    path = Path(root, "journal", "lineage.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lineage": lineage}))
    before = sorted(tmp_path.rglob("*"))
    with open_journal(root) as journal:
        assert journal.lineage == ""
        assert "lineage" in str(journal.damage)
        with pytest.raises(DamageError, match="lineage"):
            journal.mutate(put(1, "refused"), WRITER)
    assert [found for found in sorted(tmp_path.rglob("*")) if "index.sqlite" not in found.name] == before


def forge(root, *records):
    """A segment with sound checksums that no writer of ours would have written."""
    with open_journal(root) as journal:
        path = segment_path(journal)
        header = encode_header(Header(2, 2, journal.store_id, journal.lineage, 1, ""))
    path.write_bytes(header + b"".join(encode_line(record)[0] for record in records))


def forged(seq=1, payload=b'{"text":"t"}', item_id="dec_0000000000000001", **fields):
    raw = msgspec.UNSET if payload is None else msgspec.Raw(payload)
    return Record(2, seq, "2026-01-01T00:00:00.000Z", "w", "who_0000000000000000", 1, "create", item_type="decision",
                  item_id=item_id, payload=raw, **fields)  # fmt: skip


@pytest.mark.parametrize("item_id", ["../../../outside", "{folder}/outside", "a\0b", "x" * 3000, ".", ""])
def test_an_item_id_that_is_a_path_gets_no_file(tmp_path, item_id):
    root = make_store(tmp_path)
    forge(root, forged(item_id=item_id.format(folder=tmp_path)))
    with open_journal(root) as journal:
        journal.mutate(put(2, "goes on"), WRITER)
        assert examine(journal).exit_code == 0
    files = [found.name for found in tmp_path.rglob("*.json") if found.name != "lineage.json"]
    assert files == [f"{item(2)}.json"]


HOSTILE_PAYLOADS = [
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b'{"a":' * 30_000 + b"1" + b"}" * 30_000,
    b'{"a":"\\ud800"}',
    b'{"a":"\xff"}',
    b'{"a":1e999}',
    b'{"a":' + b"9" * 5000 + b"}",
    b"[]",
    b"null",
]


@pytest.mark.parametrize("payload", HOSTILE_PAYLOADS, ids=lambda payload: repr(payload[:14]))
def test_a_payload_that_cannot_be_decoded_is_named_and_the_rest_served(tmp_path, payload):
    root = make_store(tmp_path)
    forge(root, forged(), forged(2, payload, item(2)), forged(3, b'{"a":3}', item(3)))
    with open_journal(root) as journal:
        values = [entity.value for entity in journal.entities()]
        found = examine(journal)
    assert {"text": "t"} in values
    assert len(values) <= 2
    assert found.exit_code == 3 or any("unfinished write" in problem.what for problem in found.problems)


@pytest.mark.parametrize("name", ["zz", "abcd", "ab" * 32, "../../../../etc/passwd", "", "AB" * 32])
def test_a_payload_in_an_object_that_is_none_is_named_and_the_rest_served(tmp_path, name):
    root = make_store(tmp_path)
    forge(root, forged(), forged(2, None, item(2), payload_ref=PayloadRef(name, 5)))
    with open_journal(root) as journal:
        assert [entity.item_id for entity in journal.entities()] == [item(1)]
        assert examine(journal).exit_code == 3
        with pytest.raises(DamageError):
            journal.mutate(put(3, "refused"), WRITER)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
@pytest.mark.parametrize(
    "name", ["config.toml", "journal/lineage.json", "journal/durable", "journal/lock", "journal/projection.lock",
             "index.sqlite", f"entities/decision/{item(1)}.json", "segment"]
)  # fmt: skip
def test_what_is_no_file_where_one_should_be_holds_nobody_up(tmp_path, patience, kind, name):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "x"), WRITER)
        path = segment_path(journal) if name == "segment" else Path(root, name)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    try:
        with open_journal(root) as journal:
            journal.mutate(put(2, "goes on"), WRITER)
            assert len(list(journal.entities())) == 2
            assert examine(journal).exit_code in (0, 1)
    except (DamageError, EnvironmentFailure) as error:
        assert name in ("config.toml", "journal/lineage.json", "journal/lock", "segment"), error  # noqa: PT017 - the others go on


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW w AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM heads; END",
    ],
)
def test_an_index_with_views_or_triggers_is_made_anew(tmp_path, patience, statement):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "x"), WRITER)
    db = sqlite3.connect(Path(root, "index.sqlite"))
    db.execute(statement)
    if "VIEW" in statement:  # whoever reads the watermarks would read for ever
        db.execute("DROP TABLE watermarks")
        db.execute(
            "CREATE VIEW watermarks AS SELECT x AS lineage, 1 AS segment, 1 AS offset, 1 AS next_seq, '' AS sum FROM w"
        )
    db.commit()
    db.close()
    with open_journal(root) as journal:
        journal.mutate(put(2, "goes on"), WRITER)
        assert len(list(journal.entities())) == 2
    with closing(sqlite3.connect(Path(root, "index.sqlite"))) as db, db:
        assert db.execute("SELECT COUNT(*) FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone() == (0,)
    db.close()


@pytest.mark.slow
def test_a_changed_bit_of_the_index_is_never_served(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(60):
            journal.mutate(put(number % 30 + 1, f"{number} " + "y" * 500), WRITER, project=number == 59)
        state = {entity.item_id: entity.value for entity in journal.entities()}
    path = Path(root, "index.sqlite")
    whole = path.read_bytes()
    chance = random.Random(3)
    refused = 0
    for _ in range(120):
        changed = bytearray(whole)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(changed)
        try:
            with open_journal(root) as journal:
                held = {entity.item_id: entity.value for entity in journal.entities()}
                one = journal.get("decision", item(7))
        except sqlite3.DatabaseError:  # the command line throws the index away and repeats the command
            refused += 1
            continue
        assert one is None or one.value == state[item(7)]
        assert all(state[item_id] == value for item_id, value in held.items())
    assert refused > 5


def test_settings_that_would_make_a_segment_nobody_reads_are_refused(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    whole = config.read_text()
    config.write_text(f"{whole}segment_bytes = 1000000000\n")
    with pytest.raises(UsageError, match="segment_bytes"):
        open_journal(root)
    for size in (-1, 0):
        config.write_text(f"{whole}segment_bytes = {size}\n")
        with pytest.raises(UsageError, match="segment_bytes"):
            open_journal(root)
    for size in (1, 2):
        config.write_text(f"{whole}segment_bytes = {size}\n")
        with open_journal(root) as journal:
            before = journal.end().next_seq
            journal.mutate(put(1, "x"), WRITER)
            with (
                open_journal(root, FailingFiles("write", errno.ENOSPC, after=1)) as failing,
                pytest.raises(EnvironmentFailure),
            ):
                failing.mutate(put(1, "not written"), WRITER)
            journal.mutate(put(2, "goes on"), WRITER)
            assert journal.end().next_seq == before + 2


@pytest.mark.parametrize("what", ["writer", "summary", "key", "session"])
def test_half_a_character_is_refused_with_one_error(journal, what):
    half = "a\udcff"
    writer = WRITER._replace(name=half) if what == "writer" else WRITER
    writer = writer._replace(session=half) if what == "session" else writer
    with pytest.raises(UsageError):
        journal.mutate(
            lambda transaction: transaction.put("decision", item(1), {}, summary=half if what == "summary" else ""),
            writer,
            key=half if what == "key" else "",
        )
    assert journal.end().next_seq == 1
    with pytest.raises(UsageError):
        journal.find(half)


@pytest.mark.slow
def test_a_segment_full_of_damage_is_read_in_one_pass(patience):
    """Of every two lines one is broken: what is looked up for each damage must not be the whole rest of the file."""
    lines = []
    for seq in range(1, 60_001):
        line = encode_line(forged(seq, durable=seq - 1))[0]
        lines.append(line if seq % 2 else b"x" * (len(line) - 1) + b"\n")
    found = scan(b"".join(lines), base=0, next_seq=1, durable_seq=60_000, salvage=True)
    assert len(found.entries) == 30_000
    assert len(found.damages) == 30_000


# Where a writer may stop, and who comes after it


class CountingFiles(Files):
    def __init__(self):
        self.synced: list[str] = []

    def sync_data(self, fd):
        self.synced.append("data")
        super().sync_data(fd)

    def sync_folder(self, path):
        self.synced.append(path)
        super().sync_folder(path)


def test_a_repetition_is_not_acknowledged_before_it_is_durable(tmp_path):
    """The first writer was killed between its write and its sync: its batch counts, but no disk has promised it."""
    root = make_store(tmp_path)
    acknowledged(root)
    sync = StoppingFiles(-1)
    probe = make_store(tmp_path / "probe")
    acknowledged(probe)
    with open_journal(probe, sync) as journal:
        journal.mutate(three, WRITER)
    with open_journal(root, StoppingFiles(sync.calls.index("sync_data"))) as journal, pytest.raises(Stop):
        journal.mutate(three, WRITER, key="k")
    files = CountingFiles()
    with open_journal(root, files) as journal:
        assert journal.durable_seq < journal.end().next_seq - 1
        assert journal.mutate(three, WRITER, key="k").repeated
        assert files.synced == ["data"]
        assert journal.mutate(three, WRITER, key="k").repeated
        assert files.synced == ["data"], "once is enough"
    for name in ("flush", "durable"):  # as after a power cut: nobody knows of that sync any more
        Path(root, "journal", name).unlink()
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal, pytest.raises(OutcomeUnknownError):
        journal.mutate(three, WRITER, key="k")
    with open_journal(root) as journal:  # that failure poisoned the segment
        assert journal.mutate(three, WRITER, key="k").repeated
        journal.mutate(put(9, "goes on"), WRITER)
        assert [len(journal.reader(journal.lineage).segments()), journal.end().next_seq] == [2, 10]


def test_a_segment_is_sure_to_be_found_before_its_first_record_is_acknowledged(tmp_path):
    """Its writer was killed between the rename and the sync of the folder."""
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 500\n")
    acknowledged(root)
    with open_journal(root) as journal:
        reader = journal.reader(journal.lineage)
    segments = reader.segments()
    at = 0
    while reader.segments() == segments:
        files = StoppingFiles(at)
        with open_journal(root, files) as journal, pytest.raises(Stop):
            journal.mutate(three, WRITER)
        at += 1
    assert files.calls[-1] == "sync_folder"
    counting = CountingFiles()
    with open_journal(root, counting) as journal:
        journal.mutate(put(9, "goes on"), WRITER, project=False)
    assert reader.folder in counting.synced


def test_a_segment_that_follows_acknowledged_records_is_sure_to_be_found_too(tmp_path):
    """The same where all that lies before it is known to be on disk: of a folder's entry that says nothing."""
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 500\n")
    with open_journal(root) as journal:
        reader = journal.reader(journal.lineage)
        while journal.end().offset < 500:
            journal.mutate(put(8, "acknowledged"), WRITER)
        segments, last = reader.segments(), journal.end().next_seq - 1
        assert journal.durable_end() == last
    at = 0
    while reader.segments() == segments:
        files = StoppingFiles(at)
        with open_journal(root, files) as journal, pytest.raises(Stop):
            journal.mutate(put(9, "killed"), WRITER)
        at += 1
    assert files.calls[-1] == "sync_folder"
    counting = CountingFiles()
    with open_journal(root, counting) as journal:
        assert (journal.end().next_seq - 1, journal.durable_end()) == (last, last)
        journal.mutate(put(9, "goes on"), WRITER, project=False)
    assert reader.folder in counting.synced


def poisoned(root, *, repeats=0):
    """A store whose newest segment had a failed sync; gives what was acknowledged before, and the records held."""
    for number in range(repeats):
        with open_journal(root) as journal:
            journal.mutate(put(7, f"acked {number}"), WRITER)
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal, pytest.raises(OutcomeUnknownError):
        journal.mutate(three, WRITER, key="k")
    with open_journal(root) as journal:
        assert Path(f"{segment_path(journal, journal.end().segment)}.poisoned").exists()


@pytest.mark.parametrize("is_first", [True, False], ids=["of a new segment", "behind others"])
def test_what_voids_torn_bytes_is_written_once_more_without_them(tmp_path, is_first):
    """The bytes stay behind in the segment that was left: in the new one nothing lies before the record that voided them."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(2):
            journal.mutate(put(7, f"acked {number}"), WRITER)
        if is_first:
            journal.roll()
        path = Path(journal.reader(journal.lineage).path_of(journal.end().segment))
    with path.open("ab") as file:
        file.write(b'{"v":2,"seq":')
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal, pytest.raises(OutcomeUnknownError):
        journal.mutate(three, WRITER, key="k")
    with open_journal(root) as journal:
        journal.mutate(put(9, "the next writer"), WRITER)
        entries = [entry for _, entry in journal.entries(journal.lineage)]
        assert [entry.record.seq for entry in entries] == list(range(1, 7))
        assert [entry.record.voids for entry in entries] == [None] * len(entries)
        state = {entity.item_id: entity.payload for entity in journal.entities()}
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert {entity.item_id: entity.payload for entity in journal.entities()} == state
        assert [one for one in examine(journal).problems if one.severity == "error"] == []


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [0, 3])
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_stop_at_every_call_of_leaving_a_poisoned_segment(tmp_path, repeats, is_marked):
    at = 0
    while True:
        root = make_store(tmp_path / str(at))
        poisoned(root, repeats=repeats)
        if not is_marked:
            Path(root, "journal", "durable").unlink(missing_ok=True)
        files = StoppingFiles(at, 0.5)
        journal = open_journal(root, files)
        try:
            journal.mutate(put(9, "the next writer"), WRITER)
        except Stop:
            pass
        journal.close()
        remove_index(root)
        with open_journal(root) as journal:
            assert journal.damage is None
            seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
            assert seqs == list(range(1, len(seqs) + 1))
            assert len(seqs) >= repeats, f"acknowledged records are gone after a stop at {files.calls[at:]}"
            again = journal.mutate(three, WRITER, key="k")
            journal.mutate(put(8, "and the next"), WRITER)
            assert journal.get("decision", item(1)).value == {"text": "batch 1"}
            assert again.repeated
            assert not repeats or journal.get("decision", item(7)).value == {"text": f"acked {repeats - 1}"}
        with open_journal(root) as journal:
            assert examine(journal).exit_code in (0, 1)
        if len(files.calls) <= at:
            break
        at += 1
    assert at > 8


def test_a_reader_forgets_what_a_failed_sync_took_back(tmp_path):
    """It had read a batch that was never durable; after the failed sync the disk no longer had it."""
    root = make_store(tmp_path)
    path, _ = acknowledged(root)
    whole = path.read_bytes()
    reader = open_journal(root)
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal, pytest.raises(OutcomeUnknownError):
        journal.mutate(three, WRITER)
    reader.refresh()
    assert reader.get("decision", item(1)).rev == 2
    path.write_bytes(whole)  # what the page cache held is gone
    with open_journal(root) as journal:
        journal.mutate(put(1, "another past"), WRITER)
    reader.refresh()
    assert reader.damage is None
    assert reader.get("decision", item(1)).value == {"text": "another past"}
    assert not reader.get("decision", item(1)).is_in_conflict
    assert reader.get("decision", item(2)).rev == 1
    reader.mutate(put(1, "goes on"), WRITER)
    assert examine(reader).exit_code in (0, 1)
    reader.close()


def test_unfinished_writes_never_fill_a_segment_beyond_what_is_read(tmp_path):
    root = make_store(tmp_path)
    path, state = acknowledged(root)
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + 40 * 1024 * 1024)
    for number in range(3):
        with open_journal(root) as journal:
            journal.mutate(put(9, f"goes on {number}"), WRITER)
            assert journal.end().segment > 1
    with open_journal(root) as journal:
        assert journal.end().next_seq == 9
        assert len(list(journal.entities())) == len(state) + 1
        assert examine(journal).exit_code == 0


@pytest.mark.parametrize("garbage", [b"\0" * 3000, b'{"v":2,"seq":6', b"x\n" * 40])
def test_an_unfinished_write_at_the_end_of_a_full_segment_is_no_damage(tmp_path, garbage):
    """The next writer begins a new segment, and nothing ever voids those bytes."""
    root = make_store(tmp_path)
    path, state = acknowledged(root)
    with path.open("ab") as file:
        file.write(garbage)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 500\n")
    for number in range(3):
        with open_journal(root) as journal:
            journal.mutate(put(9, f"goes on {number}"), WRITER)
            assert journal.end().segment > 1
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert journal.end().next_seq == 9
        assert len(list(journal.entities())) == len(state) + 1
        assert examine(journal).exit_code == 0


# Other processes


def test_a_store_that_was_replaced_is_not_written_to(tmp_path):
    root = make_store(tmp_path)
    journal = open_journal(root)
    shutil.rmtree(root)
    with pytest.raises(PeriplusError):
        journal.mutate(put(1, "into nothing"), WRITER)
    assert not Path(root, "config.toml").exists()
    shutil.rmtree(root, ignore_errors=True)
    make_store(tmp_path)
    with pytest.raises(EnvironmentFailure, match="no longer the store"):
        journal.mutate(put(1, "into another"), WRITER)
    journal.close()
    with open_journal(root) as journal:
        assert journal.damage is None
        assert len(journal.lineages()) == 1
        journal.mutate(put(1, "x"), WRITER)


def test_a_view_stays_as_it_is_while_another_process_projects(tmp_path):
    """Who did not get to write the projections reads a snapshot all the same: no entity newer than its neighbour."""
    root = make_store(tmp_path)
    acknowledged(root)
    remove_index(root)
    with Lock(os.path.join(root, "journal", "projection.lock")).holding():
        reader = open_journal(root)  # finds no index, and somebody else is making it
    with open_journal(root) as journal:
        journal.mutate(put(1, "changed"), WRITER)
        journal.mutate(put(20, "new"), WRITER)
    assert reader.get("decision", item(1)).value == {"text": "batch 1"}
    assert reader.get("decision", item(20)) is None
    reader.refresh()
    assert reader.get("decision", item(1)).value == {"text": "changed"}
    assert reader.get("decision", item(20)).value == {"text": "new"}
    reader.close()


def test_two_processes_that_find_no_lineage_mint_one(tmp_path):
    root = make_store(tmp_path)
    shutil.rmtree(Path(root, "journal"))
    first = open_journal(root)
    second = open_journal(root)
    first.mutate(put(1, "a"), WRITER)
    second.mutate(put(2, "b"), WRITER)
    first.mutate(put(3, "c"), WRITER)
    assert first.lineage == second.lineage
    assert first.end().next_seq == 4
    assert len(first.lineages()) == 1
    first.close()
    second.close()


@pytest.mark.parametrize("garbage", [b"\0" * 5000, b'{"v":2,"seq":6', b"x\n" * 40])
def test_a_warm_journal_goes_on_behind_what_others_left(tmp_path, garbage):
    root = make_store(tmp_path)
    path, _ = acknowledged(root)
    with open_journal(root) as warm, open_journal(root) as other:
        with path.open("ab") as file:
            file.write(garbage)
        warm.refresh()  # it has seen the unfinished tail
        other.mutate(put(9, "voids it"), WRITER)
        with path.open("ab") as file:
            file.write(garbage)
        warm.mutate(put(9, "voids another"), WRITER)
        Path(root, "index.sqlite").unlink()
        other.mutate(put(9, "and on"), WRITER)
        assert (warm.end().next_seq, other.end().next_seq) == (8, 9)
        warm.refresh()
        assert warm.get("decision", item(9)).value == {"text": "and on"}
        assert [warm.damage, other.damage] == [None, None]
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 0


@pytest.mark.slow
def test_readers_see_prefixes_of_whole_batches_while_two_processes_write_and_roll(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 4000\n")
    rounds = 60

    def write(name):
        with open_journal(root) as journal:
            for number in range(rounds):

                def batch(transaction, number=number):
                    for part in "abc":
                        transaction.put("note", f"not_{name}{'0' * 14}{part}", {"text": number, "pad": "x" * 300})

                journal.mutate(batch, WRITER, key=f"{name}{number}", project=number % 7 == 0, patience_s=60)

    writers = [child(write, name) for name in "12"]
    looks = 0
    seen = {"1": -1, "2": -1}
    journal = open_journal(root)
    while writers:
        journal.refresh()
        assert journal.damage is None
        for name in "12":
            found = [journal.get("note", f"not_{name}{'0' * 14}{part}") for part in "abc"]
            texts = {entity.value["text"] if entity is not None else -1 for entity in found}
            assert len(texts) == 1, "a part of a batch was seen"
            now = texts.pop()
            assert now >= seen[name], "a reader went back in time"
            seen[name] = now
        if looks % 20 == 0:
            seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
            assert seqs == list(range(1, len(seqs) + 1))
        looks += 1
        for pid in writers[:]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                assert status == 0
                writers.remove(pid)
    journal.close()
    with open_journal(root) as journal:
        assert journal.end().next_seq == 2 * 3 * rounds + 1
        assert journal.mutate(put(1, "repeated"), WRITER, key="17").repeated
        assert examine(journal).exit_code == 0
    assert looks > 20


def test_a_stopped_holder_of_the_lock_is_waited_for_and_never_robbed(tmp_path):
    root = make_store(tmp_path)
    acknowledged(root)
    hears, says = os.pipe()

    def hold():
        def inside(transaction):
            os.write(says, b"in")
            os.kill(os.getpid(), signal.SIGSTOP)
            transaction.put("decision", item(1), {"text": "of the stopped one"})

        with open_journal(root) as journal:
            journal.mutate(inside, WRITER)

    pid = child(hold)
    assert os.read(hears, 2) == b"in"
    os.waitpid(pid, os.WUNTRACED)
    with open_journal(root) as journal:
        before = journal.end().next_seq
        with pytest.raises(LockTimeoutError, match=str(pid)):
            journal.mutate(put(1, "robbed"), WRITER, patience_s=0.2)
        os.kill(pid, signal.SIGCONT)
        journal.mutate(put(1, "afterwards"), WRITER)
        assert ended(pid) == 0
        assert journal.end().next_seq == before + 2
        assert journal.get("decision", item(1)).rev == 3
    os.close(hears)
    os.close(says)


@pytest.mark.slow
def test_writers_killed_at_any_moment_beside_one_that_stays_open(tmp_path):
    root = make_store(tmp_path)
    acknowledged(root)
    chance = random.Random(7)
    kept = 0
    with open_journal(root) as warm:
        for number in range(40):
            hears, says = os.pipe()

            def write(says=says):
                with open_journal(root) as journal:
                    os.write(says, b"x")
                    for _ in range(1000):
                        journal.mutate(three, WRITER)

            pid = child(write)
            select.select([hears], [], [])
            for _ in range(chance.randrange(0, 60_000)):
                pass
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(hears)
            os.close(says)
            warm.mutate(put(9, f"round {number}"), WRITER)
            kept += 1
            assert warm.get("decision", item(9)).rev == kept
            assert len({warm.get("decision", item(part)).rev for part in (1, 2, 3)}) == 1
        seqs = [entry.record.seq for _, entry in warm.entries(warm.lineage)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert examine(warm).exit_code == 0


def test_a_system_that_cannot_unlock_does_not_keep_others_out(tmp_path):
    """The lock ends with its descriptor."""
    import fcntl

    root = make_store(tmp_path)
    real = fcntl.flock
    with open_journal(root) as journal, open_journal(root) as other, pytest.MonkeyPatch.context() as patch:

        def refusing(fd, operation):
            if operation == fcntl.LOCK_UN:
                raise OSError(errno.EIO, "refused")
            real(fd, operation)

        patch.setattr(fcntl, "flock", refusing)
        journal.mutate(put(1, "x"), WRITER)
        other.mutate(put(2, "y"), WRITER, patience_s=0.2)
        assert other.end().next_seq == 3


def test_segment_names_that_only_look_like_one_are_passed_over(tmp_path):
    root = make_store(tmp_path)
    path, state = acknowledged(root)
    for name in ("000000000002.jsonl.bak", "00000000000２.jsonl", "000000000000.jsonl", "1.jsonl", ".000000000009.jsonl",
                 "-00000000001.jsonl", "000000000001.JSONL", f"{segment_name(1)}.parked"):  # fmt: skip
        (path.parent / name).write_bytes(b"nothing")
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert len(list(journal.entities())) == len(state)
        journal.mutate(put(1, "goes on"), WRITER)
