"""Eight writers at once, with batches, cascades and rolling, killed at random: what was acknowledged is there.

``PERIPLUS_STORM_S`` sets how long it rages (20 s in the suite), ``PERIPLUS_STORM_SEED`` which storm it is.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from pathlib import Path

import pytest

from periplus.base.errors import ConflictError
from periplus.journal.care.doctor import examine
from support import WRITER, item, make_store, open_journal

WRITERS = 8
ENTITIES = 40
LINE_BYTES = 4096


def note(number):
    return item(number, "not")


def batch(chance, stamp):
    """Several entities at once, some of them with files, now and then a large one or a deletion."""

    def write(transaction):
        for part in range(chance.randint(1, 5)):
            kind, item_id = ("decision", item(chance.randrange(ENTITIES))) if part % 3 == 0 else (
                "note", note(chance.randrange(ENTITIES)))  # fmt: skip
            found = transaction.get(kind, item_id)
            if found is not None and not found.deleted and chance.random() < 0.1:
                transaction.delete(kind, item_id)
            else:
                size = 70_000 if chance.random() < 0.01 else chance.randrange(400)
                transaction.put(kind, item_id, {"stamp": f"{stamp}/{part}", "text": "x" * size})

    return write


def cascade(chance, stamp):
    """Moves one from an account to another: what is written follows from what was read, and the sum never changes."""

    def write(transaction):
        source, target = (note(1000 + number) for number in chance.sample(range(6), 2))
        for item_id, change in ((source, -1), (target, +1)):
            found = transaction.get("note", item_id)
            value = found.value if found is not None else {"balance": 0, "moves": 0}
            transaction.put("note", item_id, {"balance": value["balance"] + change, "moves": value["moves"] + 1,
                                              "stamp": stamp})  # fmt: skip

    return write


def compare_and_set(journal, chance, stamp):
    """Reads without the lock and writes what it had read, plus one; another may have been faster."""
    item_id = note(2000 + chance.randrange(3))
    journal.refresh()
    found = journal.get("note", item_id)
    value = {"count": (found.value["count"] if found else 0) + 1, "stamp": stamp}
    return lambda transaction: transaction.put("note", item_id, value, expect=found.version if found else "absent")


def write_for_ever(root, pipe, name, seed):
    """Says of each mutation that it was acknowledged, in one line of one write."""
    chance = random.Random(seed)
    number = 0
    while True:
        with open_journal(root) as journal:
            for _ in range(chance.randrange(20, 200)):
                number += 1
                stamp = f"{name}-{number}"
                kind = chance.choices(["batch", "cascade", "set", "observe"], (4, 3, 2, 1))[0]
                if kind == "observe":
                    fn = lambda transaction, stamp=stamp: transaction.observe({"stamp": stamp})  # noqa: E731
                elif kind == "set":
                    fn = compare_and_set(journal, chance, stamp)
                else:
                    fn = (batch if kind == "batch" else cascade)(chance, stamp)
                try:
                    receipt = journal.mutate(fn, WRITER, key=stamp, project=chance.random() < 0.2, patience_s=30)
                except ConflictError:
                    if kind != "set":
                        raise
                    continue
                said = json.dumps([stamp, kind, receipt.first_seq, receipt.last_seq, receipt.versions])
                assert len(said) < LINE_BYTES
                os.write(pipe, said.encode() + b"\n")


class Child:
    """A writer with a pipe to us, on which it says what was acknowledged."""

    def __init__(self, root, name, seed):
        self.reader, writer = os.pipe()
        self.said = b""
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.reader)
                write_for_ever(root, writer, name, seed)
            except BaseException:  # noqa: BLE001 - shown before the process ends
                import traceback

                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(writer)

    def listen(self):
        data = os.read(self.reader, 1 << 16)
        self.said += data
        return bool(data)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        while self.listen():
            pass
        os.close(self.reader)
        status = os.waitpid(self.pid, 0)[1]
        assert os.WIFSIGNALED(status), "a writer ended by itself"
        return [json.loads(line) for line in self.said.split(b"\n")[:-1]]


def rage(root, seconds, seed):
    """Let the writers write and kill them one after the other; gives what was acknowledged, and how many died."""
    chance = random.Random(seed)
    names = (f"{seed}-{number}" for number in range(1_000_000))
    children = [Child(root, name, f"{seed} {name}") for name, _ in zip(names, range(WRITERS), strict=False)]
    acknowledged, kills = [], 0
    until = time.monotonic() + seconds
    next_kill = time.monotonic() + 1
    while time.monotonic() < until:
        ready, _, _ = select.select([child.reader for child in children], [], [], 0.05)
        for child in children:
            if child.reader in ready:
                assert child.listen(), "a writer ended by itself"
        if time.monotonic() >= next_kill:
            victim = chance.randrange(WRITERS)
            acknowledged += children[victim].kill()
            name = next(names)
            children[victim] = Child(root, name, f"{seed} {name}")
            kills += 1
            next_kill = time.monotonic() + chance.uniform(0.02, 0.6)
    for child in children:  # all at once, as when the machine is switched off
        os.kill(child.pid, signal.SIGSTOP)
    for child in children:
        acknowledged += child.kill()
        kills += 1
    return acknowledged, kills


def files_of(root):
    return {path.relative_to(root): path.read_bytes() for path in Path(root, "entities").rglob("*.json")}


def check_sums(journal):
    """The accounts sum up to nothing, and each counter counted every write that was not refused."""
    found = [journal.get("note", note(1000 + number)) for number in range(6)]
    assert sum(entity.value["balance"] for entity in found if entity) == 0
    for number in range(3):
        entity = journal.get("note", note(2000 + number))
        if entity is not None:
            assert entity.value["count"] == entity.rev, "a lost update"


@pytest.mark.slow
def test_a_storm_of_eight_writers_that_are_killed_at_random(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(f"{config.read_text()}segment_bytes = 65536\n")
    seconds = float(os.environ.get("PERIPLUS_STORM_S", "20"))
    seed = os.environ.get("PERIPLUS_STORM_SEED", "20260131")
    acknowledged, kills = rage(root, seconds, seed)
    assert len(acknowledged) > 10 * WRITERS
    with open_journal(root) as journal:
        assert journal.damage is None
        records = {entry.record.seq: entry.record for _, entry in journal.entries(journal.lineage)}
        assert list(records) == list(range(1, len(records) + 1))
        assert len(journal.reader(journal.lineage).segments()) > 3
        for stamp, kind, first, last, _ in acknowledged:
            mine = [records[seq] for seq in range(first, last + 1)]
            assert {record.key for record in mine} == {stamp}, "an acknowledged mutation is lost"
            assert [record.txn or (1, 1) for record in mine] == [(n + 1, len(mine)) for n in range(len(mine))]
            assert (mine[0].action == "observe") == (kind == "observe")
        keys = [record.key for record in records.values() if (record.txn or (1, 1))[0] == 1]
        assert len(keys) == len(set(keys)), "a mutation is there twice"
        check_sums(journal)
        assert journal.mutate(batch(random.Random(1), "next"), WRITER, key="next").first_seq == len(records) + 1
        assert journal.project(patience_s=30)
        state, files = list(journal.entities()), files_of(root)
        assert examine(journal).exit_code == 0
    for path in [*Path(root).glob("index.sqlite*"), *Path(root, "entities").rglob("*.json")]:
        path.unlink()
    with open_journal(root) as journal:
        assert journal.project(patience_s=30)
        assert list(journal.entities()) == state, "what was kept up to date is what a rebuild from zero gives"
        assert files_of(root) == files
        journal.need_history()  # the index may have been loaded from a checkpoint
        versions = {entry.version for entry in journal.index.records("1", (), -1)}
        assert all(set(found) <= versions for *_, found in acknowledged)
    print(f"storm {seed}: {len(acknowledged)} acknowledged, {len(records)} records, {kills} killed, {seconds:g} s")
