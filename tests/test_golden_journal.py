"""The journal's format is a promise: this store, written once, must be read the same and written the same for ever.

A golden file is never made anew to let a test pass. When the format gets a successor, this store stays and a second
one is put beside it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from periplus.base.clock import FixedClock
from periplus.journal import Journal
from periplus.journal.care.doctor import examine
from periplus.journal.proofs.proof_file import verify_proof
from periplus.journal.records.record import seal_line
from support import TYPES, WRITER, item, settle

GOLDEN = Path(__file__).parent / "golden" / "journal-v2"
LINEAGE = "lin_0000000000000000"
LARGE = "long text " * 7000


class Counter:
    """Bytes that stand in for random ones: 1, 2, 3, … in each call's first byte."""

    def __init__(self):
        self.calls = 0

    def __call__(self, size):
        self.calls += 1
        return bytes((self.calls % 256,)) * size


def write(root):
    """The history of the golden store: every kind of record, a torn write, a roll, a record of a later version."""

    def opened():
        return Journal(root, TYPES, clock=FixedClock(1_767_225_600_000 + 1000 * random.calls), random=random)

    random = Counter()
    with opened() as journal:
        journal.mutate(
            lambda t: t.put("decision", item(1), {"text": "Grüße, 世界 \u2028 \x7f"}, summary="first"), WRITER
        )
        journal.mutate(lambda t: t.observe({"tool": "ls", "code": 0}, summary="a tool ran"), WRITER, durable=False)

        def batch(transaction):
            transaction.put(
                "decision", item(1), {"text": "second", "n": 2**53 - 1, "nested": {"b": [None, True], "a": -1}}
            )
            transaction.put("note", item(2, "not"), {"text": LARGE})
            transaction.put("decision", item(3), {"text": "to be deleted"})

        journal.mutate(batch, WRITER, key="a key of the caller's")
        segment = Path(journal.reader(LINEAGE).path_of(1))
    with segment.open("ab") as file:
        file.write(b'{"v":2,"seq":6,"ts":"2026-01-01T00:0')
    with opened() as journal:
        journal.mutate(lambda t: t.delete("decision", item(3)), WRITER)
    with segment.open("ab") as file:
        body = b'{"v":3,"seq":7,"ts":"2026-01-01T00:00:09.000Z","writer":"later","writer_id":"who_1","pid":1,"action":"entangle"'
        file.write(seal_line(body + b',"item_type":"wave","item_id":"wav_1","phase":{"new":"field"},"durable":6')[0])
    config = Path(root, "config.toml")
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "mutation"\nsegment_bytes = 500'))
    with opened() as journal:
        journal.mutate(lambda t: t.put("decision", item(4), {"text": "in the second segment"}), WRITER)


def skeleton(folder):
    """The folder that ``write`` begins with, copied from the golden one: settings, identity, keys; no records."""
    root = folder / ".periplus"
    (root / "journal" / LINEAGE).mkdir(parents=True)
    for name in ("config.toml", "journal/lineage.json"):
        shutil.copy(GOLDEN / name, root / name)
    settle(str(root))
    config = root / "config.toml"
    config.write_text(config.read_text().replace("\nsegment_bytes = 500", ""))
    return str(root)


def tree(root):
    """The files of the store that are promises, by their paths."""
    paths = [
        *Path(root).glob("journal/lin_*/*.jsonl"),
        *Path(root).glob("entities/**/*.json"),
        *Path(root).glob("objects/*/*"),
    ]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_the_same_history_gives_the_same_bytes(tmp_path):
    root = skeleton(tmp_path)
    write(root)
    assert tree(root) == tree(GOLDEN)
    assert len([name for name in tree(GOLDEN) if name.endswith(".jsonl")]) == 2


@pytest.fixture
def golden(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / ".periplus")
    with Journal(str(tmp_path / ".periplus"), TYPES) as journal:
        yield journal


def test_the_golden_store_is_read(golden):
    assert golden.damage is None
    state = {entity.item_id: entity.value for entity in golden.entities()}
    assert state == {
        item(1): {"text": "second", "n": 2**53 - 1, "nested": {"b": [None, True], "a": -1}},
        item(2, "not"): {"text": LARGE},
        item(4): {"text": "in the second segment"},
    }
    records = [entry.record for _, entry in golden.entries(LINEAGE)]
    assert [record.action for record in records] == (
        ["create", "observe", "update", "create", "create", "delete", "entangle", "create"]
    )
    assert records[5].voids == (2016, 38)
    leaves = [entry.leaf.hex() for _, entry in golden.entries(LINEAGE)]
    assert leaves == json.loads((GOLDEN / "leaves.json").read_text())
    severities = {problem.severity for problem in examine(golden).problems}
    assert "error" not in severities


def test_the_golden_store_goes_on(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / ".periplus")
    settle(str(tmp_path / ".periplus"))
    with Journal(str(tmp_path / ".periplus"), TYPES) as golden:
        assert golden.mutate(lambda t: t.put("decision", item(4), {"text": "on"}), WRITER).first_seq == 9


def test_a_copy_of_the_golden_store_goes_on_in_a_lineage_of_its_own(golden):
    assert (golden.lineage, golden.copied_from) == ("", LINEAGE)
    receipt = golden.mutate(lambda t: t.put("decision", item(4), {"text": "on"}), WRITER)
    assert (receipt.lineage, receipt.first_seq) == (golden.lineage, 1)
    assert golden.lineage != LINEAGE
    assert (golden.own.previous, golden.copied_from) == (LINEAGE, "")
    assert golden.get("decision", item(4)).rev == 2
    assert golden.lineages() == [golden.lineage, LINEAGE]


def test_the_golden_proof_holds():
    data = (GOLDEN / "record-1.proof").read_bytes()
    key = bytes.fromhex((GOLDEN / "key.public").read_text())
    verdict = verify_proof(data, key=key)
    assert verdict.holds, verdict.reason
    assert verdict.statement.head.lineage == LINEAGE
