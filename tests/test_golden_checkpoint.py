"""Checkpoints are a promise: these two, each of a store with versions beside each other, must be read the same for ever.

*heads-alone* was made before a checkpoint kept what such versions are merged over, *with-ancestors* after; of the latter
the segments before it are not here. No golden file is ever made anew to let a test pass.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from periplus.journal import Journal
from periplus.journal.checkpoints.creation import make_checkpoint
from support import TYPES, WRITER, item, settle

GOLDEN = Path(__file__).parent / "golden" / "checkpoint-v1"


def opened(folder, name):
    root = folder / name / ".periplus"
    shutil.copytree(GOLDEN / name, root)
    settle(str(root))
    return root


def shown(journal):
    return [
        {"id": one.item_id, "version": one.version, "rev": one.rev, "heads": list(one.heads), "value": one.value,
         "conflicts": [list(conflict.path) for conflict in one.conflicts]}
        for one in journal.entities()
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["heads-alone", "with-ancestors"])
def test_the_golden_checkpoints_are_read(tmp_path, name):
    root = opened(tmp_path, name)
    expected = json.loads((GOLDEN / name / "shown.json").read_text())
    assert [len(one["heads"]) for one in expected] == [2, 2, 1]
    for _ in range(2):  # into an empty index, and from it
        with Journal(str(root), TYPES) as journal:
            assert journal.damage is None
            assert shown(journal) == expected
            assert journal.index.has_floors == (name == "with-ancestors"), "heads alone are not enough"
    with Journal(str(root), TYPES) as journal:
        journal.mutate(lambda t: t.put("decision", item(1), {"text": "one again"}), WRITER)
        assert len(journal.get("decision", item(1)).heads) == 1


def test_an_earlier_checkpoint_is_followed_by_one_that_is_enough(tmp_path):
    root = opened(tmp_path, "heads-alone")
    with Journal(str(root), TYPES) as journal:
        journal.mutate(lambda t: t.put("decision", item(4), {"text": "since"}), WRITER)
        expected = shown(journal)
        made = make_checkpoint(journal, WRITER)
        own = journal.lineage
    (root / "index.sqlite").unlink()
    for segment in (root / "journal" / own).glob("*.jsonl"):
        if int(segment.stem) < 7:
            segment.rename(tmp_path / segment.name)
    with Journal(str(root), TYPES) as journal:
        assert journal.damage is None
        assert journal.index.floors()[own] == made.seq + 1
        assert shown(journal) == expected
