"""The segment that is written to is only ever appended to: whoever has it open, or reads it, meets the same file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from support import WRITER, make_store, open_journal
from test_archive import settings
from test_exchange import clone, put

pytestmark = pytest.mark.quick

SECRET = "hunter2-is-the-secret"


class Watching(Files):
    """Tells of each call that gives a segment another name, puts another file in its place, shortens it or removes it."""

    def __init__(self, root):
        super().__init__()
        self.root = root
        self.changed = []  # path, and whether it was the newest of its lineage
        self.sizes = {}

    def _note(self, path):
        if path.endswith(".jsonl"):
            there = sorted(one.name for one in Path(path).parent.glob("*.jsonl"))
            is_archived = os.path.basename(os.path.dirname(path)) == "archive"
            is_active = os.path.exists(path) and not is_archived and os.path.basename(path) == there[-1]
            self.changed.append((path, is_active))

    def open(self, path, flags, mode=0o644):
        if flags & os.O_TRUNC:
            self._note(path)
        return super().open(path, flags, mode)

    def replace(self, source, target):
        self._note(source)
        self._note(target)
        super().replace(source, target)

    def unlink(self, path):
        self._note(path)
        super().unlink(path)

    def grew(self):
        """Check that every segment that was looked at before begins with what it had then, or was rewritten by a call that was told of."""
        told = {path for path, _ in self.changed}
        for path in Path(self.root, "journal").glob("lin_*/*.jsonl"):
            data, inode = path.read_bytes(), path.stat().st_ino
            before = self.sizes.get(path)
            if before is not None and os.fspath(path) not in told:
                assert before == (inode, data[: len(before[1])]), path
            self.sizes[path] = (inode, data)


def test_the_segment_that_is_written_to_is_never_renamed_replaced_or_cut(tmp_path):
    root = make_store(tmp_path / "own", SystemClock())
    settings(root, "live_segments = 1\n")
    other = clone(root, tmp_path / "other")
    files = Watching(root)
    with open_journal(other) as journal:
        journal.mutate(put(1, "elsewhere"), WRITER)
    with open_journal(root, files) as journal:
        for number in range(3):
            for text in ("plain", SECRET, "after"):
                journal.mutate(put(number, f"{number} {text}"), WRITER)
                files.grew()
            journal.roll()
            make_checkpoint(journal, WRITER)
            files.grew()
        assert sync(journal, open_folder(other, Files())).refusals == []
        files.grew()
        journal.mutate(put(1, "merged"), WRITER)
        assert len(journal.get("decision", "dec_0000000000000001").heads) == 1
        files.grew()
        assert redact(journal, WRITER, secret=SECRET, reason="a secret").remaining == []
        files.grew()
        repair(journal, WRITER)
        files.grew()
        make_checkpoint(journal, WRITER)
        assert [one for one in examine(journal).problems if one.severity != "note"] == []
        own = journal.lineage
    of_own = [(path, is_active) for path, is_active in files.changed if own in path]
    assert any("archive" in path for path, _ in of_own), "segments went to the archive"
    assert len(of_own) > 3, "and were written anew without what was redacted"
    assert [path for path, is_active in of_own if is_active] == []
