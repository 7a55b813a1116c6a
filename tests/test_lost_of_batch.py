"""A record of a very large batch that is lost: its place in the batch is known from a checkpoint, whose line for a key holds a part."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.journal.care.repair import repair
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.checkpoints.format import KEY_RECORDS_A_LINE
from periplus.journal.index.index_file import discard_indexes
from support import WRITER, item, make_store, open_journal

COUNT = 2 * KEY_RECORDS_A_LINE + 7


@pytest.mark.slow
def test_a_record_behind_the_first_line_of_its_key_keeps_its_place(tmp_path):
    root = make_store(tmp_path / "store", SystemClock())

    def batch(transaction):
        for number in range(COUNT):
            transaction.put("note", item(number), {"text": f"number {number}"})

    with open_journal(root) as journal:
        journal.mutate(lambda transaction: transaction.put("note", item(COUNT), {"text": "first"}), WRITER)
        journal.mutate(batch, WRITER, key="many")
        make_checkpoint(journal, WRITER)
        index = journal.index_path
    lost = KEY_RECORDS_A_LINE + 301
    for path in Path(root, "journal").glob("lin_*/**/*.jsonl"):
        data = path.read_bytes()
        for seq in (lost, lost + 1, lost + 2):
            data = re.sub(rb'\n\{"v":2,"seq":%d,[^\n]*' % seq, lambda line: b"\n" + b"x" * (len(line[0]) - 1), data)
        path.write_bytes(data)
    discard_indexes(index)
    with open_journal(root) as journal:
        repair(journal, WRITER)
        for seq in (lost, lost + 1, lost + 2):
            [record] = (entry.record for _, entry in journal.entries(journal.lineage) if entry.record.seq == seq)
            assert (record.txn, record.key) == ((seq - 1, COUNT), "many")
