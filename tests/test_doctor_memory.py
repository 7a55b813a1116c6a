"""What an examination and a rebuild take of memory and disk: not all of the store at once, and no more than there is room for."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from periplus.journal.care.doctor import examine
from periplus.journal.care.rebuild_comparison import rebuilding
from support import PEAK, WRITER, item, make_store, open_journal, remove_index

BYTES_AN_ENTITY = 900


def filled(folder, count, text, at_once=50):
    root = make_store(folder)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 200000\n")
    with open_journal(root) as journal:
        for start in range(0, count, at_once):
            among = range(start, min(start + at_once, count))
            journal.mutate(
                lambda t, among=among: [t.put("decision", item(n), {"text": f"{n} {text}"}) for n in among], WRITER
            )
    return root


def peak(root):
    with open_journal(root) as journal:
        examine(journal)  # what is loaded once is none of it
        tracemalloc.start()
        try:
            examine(journal)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.slow
def test_an_examination_holds_little_of_each_entity(tmp_path):
    """Every entity was held twice, with its payload and what the records say of it: 8 KB each."""
    few, many = (peak(filled(tmp_path / str(count), count, "x" * 2_000)) for count in (500, 2_500))
    assert (many - few) / 2_000 < BYTES_AN_ENTITY


@pytest.mark.slow
def test_a_disk_without_room_for_the_rebuild_keeps_nobody_from_looking(tmp_path):
    root = filled(tmp_path, 300, "x" * 60_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_journal(root) as journal:
        with rebuilding(journal) as rebuilt:
            assert rebuilt.is_scratch
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            found = examine(journal)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert found == examine(journal)
        assert found.problems == []
        assert found.counts["entities"] == found.counts["versions"] == 300


REBUILD = """
import sys
sys.path[:0] = sys.argv[2:]
from support import open_journal
with open_journal(sys.argv[1]) as journal:
    assert sum(1 for _ in journal.entities()) == 50
print(peak_bytes())
"""


@pytest.mark.slow
def test_a_rebuild_takes_memory_by_the_entities_and_not_by_their_history(tmp_path):
    """As many entities of as many bytes, one store with twenty times the versions of the other."""
    peaks, sizes = [], []
    for versions in (10, 200):
        root = make_store(tmp_path / str(versions))
        config = Path(root, "config.toml")
        config.write_text(config.read_text() + "segment_bytes = 1000000\n")
        with open_journal(root) as journal:
            for number in range(versions):
                text = f"{number} ".ljust(3_000, "x")
                journal.mutate(
                    lambda t, text=text: [t.put("note", item(n, "not"), {"text": text}) for n in range(50)],
                    WRITER,
                    project=False,
                )
        remove_index(root)
        for path in Path(root, "journal").glob("checkpoints/*"):
            path.unlink()
        sizes.append(sum(path.stat().st_size for path in Path(root, "journal").rglob("*.jsonl")))
        command = [sys.executable, "-c", PEAK + REBUILD, root, *sys.path]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    assert sizes[1] - sizes[0] > 25_000_000
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) // 3, peaks
