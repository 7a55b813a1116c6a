"""What a hostile disk does to a journal: every byte, every truncation, every stop; nothing acknowledged is lost unseen."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from periplus.base.errors import DamageError, FormatError, PeriplusError
from periplus.journal.care.doctor import examine
from periplus.journal.records.record import decode_line
from periplus.journal.records.segment import decode_header, scan
from periplus.journal.storage.store_identity import ReplacedError
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, remove_index, segment_path

SAMPLE: dict[str, Path] = {}


def put(number, text):
    return lambda transaction: transaction.put("decision", item(number), {"text": text})


def three(transaction):
    for number in (1, 2, 3):
        transaction.put("decision", item(number), {"text": f"batch {number}"})


def acknowledged(root, *, repeats=1):
    """A store with a few acknowledged mutations, one of them of three records."""
    with open_journal(root) as journal:
        for number in range(repeats):
            journal.mutate(put(7, f"before {number}"), WRITER)
        journal.mutate(three, WRITER)
        journal.mutate(put(8, "after"), WRITER)
        return segment_path(journal), {entity.item_id: entity.value["text"] for entity in journal.entities()}


@pytest.fixture
def memory(tmp_path):
    """A folder on a disk in memory where there is one, for who opens a store thousands of times and makes its index each time."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def write_changed(path, data, offset):
    """Write ``data`` with one bit of the byte at ``offset`` changed; returns what is written."""
    changed = bytearray(data)
    changed[offset] ^= 0x01
    path.write_bytes(changed)
    return changed


@pytest.mark.slow
def test_every_changed_byte_of_a_segment_is_found(memory):
    root = make_store(memory)
    path, _ = acknowledged(root)
    data = path.read_bytes()
    for offset in range(len(data)):
        changed = write_changed(path, data, offset)
        remove_index(root)
        with open_journal(root) as journal:
            assert journal.damage is not None, f"byte {offset} changed and nothing was said"
            assert journal.damage.exit_code == 3
            assert journal.damage.offset is not None
            assert journal.damage.offset <= offset + 26
            with pytest.raises(DamageError):
                journal.mutate(put(9, "refused"), WRITER)
        assert path.read_bytes() == changed


def never(root):
    config = Path(root, "config.toml")
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))


@pytest.mark.slow
def test_where_nobody_syncs_a_changed_byte_before_the_last_line_is_found(tmp_path):
    """No mark says there what was acknowledged; what was written behind it does."""
    root = make_store(tmp_path)
    never(root)
    path, state = acknowledged(root)
    data = path.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for offset in (*range(0, last, 7), last - 1):
        changed = write_changed(path, data, offset)
        remove_index(root)
        with open_journal(root) as journal:
            assert journal.damage is not None, f"byte {offset} changed and nothing was said"
            assert journal.damage.offset <= offset + 26
            if offset % 5 == 0 or offset == last - 1:
                assert examine(journal).exit_code == 3
                with pytest.raises(DamageError):
                    journal.mutate(put(9, "refused"), WRITER)
        assert path.read_bytes() == changed
    path.write_bytes(data)
    with open_journal(root) as journal:
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == state


@pytest.mark.parametrize("second", [b"batch 2", b"batch 3"], ids=["in the second line", "in the third"])
def test_where_nobody_syncs_what_two_killed_writers_left_is_no_damage(tmp_path, second):
    """Each tore its batch of three; the second had ended the first one's line and said that it counts for nothing."""
    root = make_store(tmp_path)
    never(root)
    path, state = acknowledged(root)
    before = path.read_bytes()
    with open_journal(root) as journal:
        journal.mutate(three, WRITER)
    path.write_bytes(path.read_bytes()[: path.read_bytes().rindex(b"batch 3")])
    with open_journal(root) as journal:
        journal.mutate(three, WRITER)
    whole = path.read_bytes()
    assert whole.count(b"#\n") == 1
    path.write_bytes(whole[: whole.rindex(second)])
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == state
        assert journal.mutate(put(9, "goes on"), WRITER).first_seq == 6
        assert examine(journal).exit_code == 0
    assert path.read_bytes().startswith(before)


@pytest.mark.slow
def test_every_truncation_of_a_segment_is_found(memory):
    root = make_store(memory)
    path, _ = acknowledged(root)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        remove_index(root)
        with open_journal(root) as journal:
            assert journal.damage is not None, f"cut to {length} bytes and nothing was said"
            assert journal.damage.offset is not None


def test_damage_is_found_with_the_index_in_place_and_the_rest_is_served(tmp_path):
    root = make_store(tmp_path)
    path, state = acknowledged(root, repeats=3)
    data = bytearray(path.read_bytes())
    place = data.index(b"before 1")
    data[place] ^= 0x20
    path.write_bytes(data)
    with open_journal(root) as journal:
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == state
        found = examine(journal)
        assert found.exit_code == 3
        worst = found.problems[0]
        assert (worst.severity, worst.seq) == ("error", 2)
        assert worst.offset <= place < worst.offset + 400
        assert f"record 2 cannot be read ({item(7)})" in worst.what
    remove_index(root)
    with open_journal(root) as journal:  # rebuilt without record 2: what is sound is served, and it is said
        assert journal.damage is not None
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == state
        assert not journal.project()


@pytest.mark.parametrize("what", ["a byte", "the segment", "the store"])
def test_who_has_a_journal_open_goes_on_when_what_was_wrong_is_mended(tmp_path, what):
    root = make_store(tmp_path)
    path, before = acknowledged(root)
    moved, data, elsewhere = Path(root) if what == "the store" else path, path.read_bytes(), tmp_path / "elsewhere"
    if what == "a byte":
        path.write_bytes(data.replace(b"batch 2", b"batch 3"))
        remove_index(root)
    with open_journal(root) as journal:
        if what != "a byte":
            moved.rename(elsewhere)
            with pytest.raises(ReplacedError) if what == "the store" else contextlib.nullcontext():
                journal.refresh()
        assert (journal.damage is not None) == (what != "the store")
        with pytest.raises(PeriplusError):
            journal.mutate(put(9, "refused"), WRITER)
        if what == "a byte":
            path.write_bytes(data)
        else:
            elsewhere.rename(moved)
        assert journal.mutate(put(9, "goes on"), WRITER).last_seq == 6
        assert journal.damage is None
        now = {entity.item_id: entity.value["text"] for entity in journal.entities()}
        assert now == before | {item(9): "goes on"}
    assert not [problem for problem in problems_of(root) if problem.severity == "error"]


def problems_of(root):
    with open_journal(root) as journal:
        return examine(journal).problems


@pytest.mark.parametrize(
    "garbage",
    [b"\0" * 300, b'{"v":2,"seq":', b"x", b"\n\n\n", random.Random(64).randbytes(64), b'"sum":"0123456789abcdef"}\n'],
)
def test_what_was_never_acknowledged_is_voided_by_the_next_batch(tmp_path, garbage):
    root = make_store(tmp_path)
    path, state = acknowledged(root)
    length = path.stat().st_size
    with path.open("ab") as file:
        file.write(garbage)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert {entity.item_id: entity.value["text"] for entity in journal.entities()} == state
        notes = examine(journal).problems
        assert [note.severity for note in notes] == ["note"]
        assert notes[0].offset == length
        journal.mutate(put(9, "goes on"), WRITER)
        journal.mutate(put(9, "and on"), WRITER)
    with open_journal(root) as journal:
        assert journal.damage is None
        assert journal.end().next_seq == 8
        found = examine(journal)
        assert found.exit_code == 0
        assert [note.what.split(" of ")[1] for note in found.problems] == [
            "an unfinished write, voided by the next batch"
        ]
    entries = scan(path.read_bytes()[length:], base=length, next_seq=6).entries
    assert entries[0].record.voids == (length, entries[0].offset - length)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_write_torn_at_any_byte_counts_for_nothing(tmp_path, cut):
    """The last line lacking only its newline must not become a record when somebody writes behind it."""
    root = make_store(tmp_path)
    path, _ = acknowledged(root)
    whole = path.read_bytes()
    with open_journal(root) as journal:
        journal.mutate(three, WRITER)
    torn = path.read_bytes()
    path.write_bytes(torn[: len(torn) - (cut if cut < 40 else (cut - 39) * (len(torn) - len(whole)) // 21)])
    reset_durable(root, whole)
    remove_index(root)
    shutil.rmtree(Path(root, "entities"))  # of what was not durable there were no files: they would be adopted
    for number in range(3):
        with open_journal(root) as journal:
            assert journal.damage is None
            journal.mutate(put(9, f"goes on {number}"), WRITER)
    with open_journal(root) as journal:
        assert journal.end().next_seq == 9
        assert [e.record.action for _, e in journal.entries(journal.lineage)][5:] == ["create", "update", "update"]


def reset_durable(root, data):
    """Put the durable mark back to where the journal ends with ``data``."""
    from periplus.base.files import Files
    from periplus.journal.storage.lineage import Position, write_durable

    _, start = decode_header(data)
    found = scan(data[start:], base=start, next_seq=1)
    last = found.entries[-1]
    fd = os.open(Path(root, "journal", "durable"), os.O_WRONLY)
    with open_journal(root) as journal:
        lineage = journal.lineage
    write_durable(Files(), fd, lineage, Position(1, found.end, found.next_seq, last.leaf[:8].hex()), last.leaf)
    os.close(fd)


@pytest.mark.slow
def test_a_stop_at_every_call_of_a_mutation_with_three_records(tmp_path):
    calls = 0
    seen = set()
    for share in (0.0, 0.3, 0.5, 0.9, 0.999, 1.0):
        at = 0
        while True:
            root = make_store(tmp_path / f"{share}-{at}")
            _, state = acknowledged(root)
            files = StoppingFiles(at, share)
            journal = open_journal(root, files)
            try:
                receipt = journal.mutate(three, WRITER)
            except Stop:
                receipt = None
            journal.close()
            if len(files.calls) <= at:
                break
            seen.add(files.calls[at].split()[0])
            calls += 1
            check_recovery(root, state, receipt)
            at += 1
    assert {"open", "write", "pwrite", "sync_data", "replace"} <= seen
    assert calls > 40


def check_recovery(root, state, receipt):
    after = {**state, **{item(n): f"batch {n}" for n in (1, 2, 3)}}
    with open_journal(root) as journal:
        assert journal.damage is None
        now = {entity.item_id: entity.value["text"] for entity in journal.entities()}
        revs = [journal.get("decision", item(number)).rev for number in (1, 2, 3)]
        assert now == after
        assert revs in ([1, 1, 1], [2, 2, 2]), "a batch is there whole or not at all"
        if receipt is not None:
            assert revs == [2, 2, 2], "what was acknowledged is there"
        before = journal.end().next_seq
        assert journal.mutate(put(9, "the next writer goes on"), WRITER).first_seq == before
    with open_journal(root) as journal:
        found = examine(journal)
        assert found.exit_code == 0, found.problems
        assert all(problem.severity == "note" for problem in found.problems)


@pytest.mark.slow
def test_kill_9_at_a_thousand_random_moments(tmp_path):
    """A child writes in a loop and reports what was acknowledged; it is killed; its store must hold all of that."""
    root = make_store(tmp_path)
    chance = random.Random(20260131)
    acked: set[tuple[str, str]] = set()
    kills = int(os.environ.get("PERIPLUS_KILLS", "1000"))
    for round_number in range(kills):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            write_until_killed(root, writer, round_number)
        os.close(writer)
        said = wait_then_kill(reader, child, chance)
        with os.fdopen(reader, "rb") as pipe:
            said += pipe.read()
        for line in said.split(b"\n")[:-1]:
            kind, key, text = line.decode().split(" ")
            if kind == "ack":
                acked.add((key, text))
        if round_number % 50 == 49 or round_number == kills - 1:
            check_survivors(root, acked)
    assert len(acked) > kills


def wait_then_kill(reader, child, chance):
    """Wait for the child's first word, then for a random number of further ones, then kill it wherever it is."""
    said = b""
    for _ in range(1 + chance.randrange(0, 6)):
        said += os.read(reader, chance.randrange(1, 120))
    until = time.perf_counter() + chance.uniform(0, 0.004)  # a mutation with its projection takes about as long
    while time.perf_counter() < until:
        pass
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the writing child ended by itself: {status}"
    return said


def write_until_killed(root, pipe, round_number):
    try:
        with open_journal(root) as journal:
            for number in range(10_000):
                key = item(number % 37 + 1)
                text = f"{round_number}-{number}"

                def batch(transaction, key=key, text=text):
                    for part in range(3):
                        transaction.put("note", key.replace("dec_", "not_")[:-1] + "abc"[part], {"text": text})

                os.write(pipe, f"try {key} {text}\n".encode())
                journal.mutate(batch, WRITER, project=number % 5 == 0)
                os.write(pipe, f"ack {key} {text}\n".encode())
    finally:
        os._exit(1)


def check_survivors(root, acked):
    with open_journal(root) as journal:
        assert journal.damage is None
        for key in {key for key, _ in acked}:
            base = key.replace("dec_", "not_")[:-1]
            texts = {journal.get("note", base + letter).value["text"] for letter in "abc"}
            assert len(texts) == 1, "half of a batch"
        seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
        assert seqs == list(range(1, len(seqs) + 1))
        history: dict[str, set[str]] = {}
        for _, entry in journal.entries(journal.lineage):
            history.setdefault(entry.record.item_id, set()).add(bytes(entry.record.payload).decode())
        for key, text in acked:
            base = key.replace("dec_", "not_")[:-1]
            assert any(f'"{text}"' in payload for payload in history[base + "a"]), "an acknowledged mutation is lost"
        journal.mutate(put(99, "goes on"), WRITER)
        assert examine(journal).exit_code == 0


MARKS_OF_GIT = (b"<<<<<<< ", b"=======\n", b">>>>>>> ", b"||||||| ")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
@example(b"=======\n")
def test_scanning_any_bytes_raises_nothing(data):
    found = scan(data, base=0, next_seq=1)
    assert found.entries == []
    # An unfinished write is held back; marks of a conflict are no write of ours.
    assert found.tail is not None or not data or (found.damages and any(mark in data for mark in MARKS_OF_GIT))
    try:
        decode_header(data)
    except PeriplusError:
        pass
    try:
        decode_line(data)
    except FormatError:
        pass


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_scanning_mangled_segments_never_invents_a_record(tmp_path_factory, data):
    path = SAMPLE.get("path")
    if path is None:
        path, _ = acknowledged(make_store(tmp_path_factory.mktemp("sample")))
        SAMPLE["path"] = path
    whole = path.read_bytes()
    _, start = decode_header(whole)
    body = bytearray(whole[start:])
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "repeat"]))
        at = data.draw(st.integers(0, max(0, len(body) - 1)))
        if kind == "flip" and body:
            body[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del body[at : at + data.draw(st.integers(1, 50))]
        elif kind == "insert":
            body[at:at] = data.draw(st.binary(min_size=1, max_size=20))
        else:
            body[at:at] = body[at : at + 200]
    true_lines = set(whole[start:].split(b"\n"))
    found = scan(bytes(body), base=start, next_seq=1, durable_seq=5, salvage=True)
    for entry in found.entries:
        line = bytes(body[entry.offset - start : entry.offset - start + entry.length - 1])
        assert line in true_lines
    seqs = [entry.record.seq for entry in found.entries]
    assert seqs == sorted(set(seqs))


def test_a_lost_object_is_named(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "z" * 70_000), WRITER)
    shutil.rmtree(Path(root, "objects"))
    with open_journal(root) as journal:
        found = examine(journal)
        assert found.exit_code == 3
        assert any("object" in problem.what for problem in found.problems)
