"""A log of any length: the same as a short one, and no more memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from glob import glob

import pytest
from bench.rebuild import write_history

from cli_support import PERIPLUS
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.cli.common.schemas import RecordOut
from periplus.cli.journal.log_folds import LONG
from periplus.cli.journal.spooled_lists import Aside
from periplus.journal import Journal, create_store
from periplus.journal.care.doctor import examine
from periplus.journal.care.index_check import LONG_BYTES
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.history.log import PAGE_RECORDS, RecordFilter, newest, newest_by_pages, news, news_by_pages
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import LineageReader
from support import WRITER
from test_history import TYPES

_ENTITIES = 20
_PEAK = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL); "
_PEAK += "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


def long_store(folder, count):
    store = create_store(os.fspath(folder / ".periplus"), Files(), SystemClock())
    write_history(Layout(store.root).lineage_folder(store.lineage), store.store_id, store.lineage, count, _ENTITIES)
    return store


def peak_kb(folder, *words):
    """The most memory that the command had resident. On macOS in bytes: only growth is looked at."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, PERIPLUS, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    code, peak = done.stdout.split()
    assert code == "0", done.stderr
    return int(peak) // (1024 if sys.platform == "darwin" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--json"], ["--since-seq", "0", "--json"]], ids=["back", "on"])
def test_memory_does_not_grow_with_what_is_told(tmp_path, words):
    peaks = []
    for count in (LONG, 4 * LONG):
        folder = tmp_path / str(count)
        folder.mkdir()
        long_store(folder, count)
        peak_kb(folder, "status")  # which makes the index
        peaks.append(peak_kb(folder, "log", "--limit", "1000000", *words))
    assert peaks[1] - peaks[0] < 3 * LONG, "less than a kilobyte for each record more"


@pytest.mark.slow
def test_pages_are_the_whole(tmp_path):
    store = long_store(tmp_path, 2 * PAGE_RECORDS + 300)
    lineages = [store.lineage]
    with Journal(store.root, TYPES) as journal:
        for wanted in (RecordFilter(), RecordFilter(item_id="dec_000000000000000"), RecordFilter(writers=("nobody",))):
            for limit in (1, PAGE_RECORDS, 2 * PAGE_RECORDS, 2 * PAGE_RECORDS + 1, 10 * PAGE_RECORDS):
                for before in ({}, {store.lineage: PAGE_RECORDS + 500}):
                    _same_back(journal, wanted, lineages, before, limit)
                for seen in ({}, {store.lineage: 700}):
                    _same_on(journal, wanted, lineages, seen, limit)


def _same_back(journal, wanted, lineages, before, limit):
    whole = newest(journal, wanted, lineages=lineages, before=before, limit=limit)
    pages = [*newest_by_pages(journal, wanted, lineages=lineages, before=before, limit=limit)]
    assert [row for page in pages for row in page.records] == whole.records
    assert (pages[-1].before if pages else {}) == whole.before
    assert sorted((gap for page in pages for gap in page.gaps), key=lambda gap: gap.first) == [*whole.gaps]
    assert all(len(page.records) <= PAGE_RECORDS for page in pages)


def _same_on(journal, wanted, lineages, seen, limit):
    whole = news(journal, seen, wanted, lineages=lineages, limit=limit)
    pages = [*news_by_pages(journal, seen, wanted, lineages=lineages, limit=limit)]
    assert [row for page in pages for row in page.records] == whole.records
    assert (pages[-1].seen, pages[-1].more) == (whole.seen, whole.more)
    assert tuple(gap for page in pages for gap in page.gaps) == whole.gaps


@pytest.mark.slow
def test_pages_of_what_is_left(tmp_path):
    """Gaps at the ends of pages, each told once."""
    store = long_store(tmp_path, 2 * PAGE_RECORDS + 300)
    path = LineageReader(Layout(store.root).lineage_folder(store.lineage), (store.store_id,), store.lineage).path_of(1)
    with Journal(store.root, TYPES) as journal:
        make_checkpoint(journal, WRITER)
    for name in glob(os.path.join(store.root, "index.sqlite*")):
        os.unlink(name)  # the next one is loaded from the checkpoint, and knows nothing of the records before it
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    for number in (1, 150, PAGE_RECORDS + 300, PAGE_RECORDS + 301, 2 * PAGE_RECORDS):
        lines[number] = b"x" * (len(lines[number]) - 1) + b"\n"
    with open(path, "wb") as file:
        file.writelines(lines)
    with Journal(store.root, TYPES) as journal:
        assert newest(journal, RecordFilter(), lineages=[store.lineage], before={}, limit=5 * PAGE_RECORDS).gaps
        for limit in (PAGE_RECORDS, 5 * PAGE_RECORDS):
            _same_back(journal, RecordFilter(), [store.lineage], {}, limit)
            _same_on(journal, RecordFilter(), [store.lineage], {}, limit)


@pytest.mark.slow
def test_a_long_answer_says_what_short_ones_say(tmp_path):
    store = long_store(tmp_path, LONG + 200)

    def log(*words):
        done = subprocess.run([PERIPLUS, "log", *words], cwd=tmp_path, capture_output=True, check=True)
        return done.stdout

    short = json.loads(log("--limit", str(LONG - 1), "--json"))
    long = log("--limit", str(LONG), "--json")
    document = json.loads(long)
    assert long == json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    assert document["records"][:-1] == short["records"]
    assert (document["next_before"], document["more"]) == (short["next_before"] - 1, True)
    lines = log("--limit", str(LONG)).splitlines()
    assert lines[:-1][: LONG - 1] == log("--limit", str(LONG - 1)).splitlines()[:-1]
    assert lines[-1] == b"older: periplus log --before %d" % document["next_before"]
    assert log("--limit", str(LONG), "--writer", "nobody") == b"No matching records.\n"
    on = json.loads(log("--since-seq", "0", "--limit", str(LONG), "--json"))
    assert (on["seen"], on["more"], len(on["records"])) == ({store.lineage: LONG}, True, LONG)


def test_what_waits_aside_leaves_memory():
    row = RecordOut(1, "", "", "", "", "", "", "", 0, "", "x" * 1000, "", "", conflict=False)
    rows = Aside(RecordOut)
    rows.add(row for _ in range(5_000))
    assert rows._file._rolled
    assert (len(rows), next(iter(rows)), sum(1 for _ in rows)) == (5_000, row, 5_000)
    rows.close()


def test_doctor_says_what_has_no_bar(tmp_path):
    """SQLite looks at a large index for minutes: nothing was seen meanwhile."""
    store = long_store(tmp_path, 50)
    told = []
    with Journal(store.root, TYPES) as journal:
        assert {one.severity for one in examine(journal, tell=told.append).problems} == {"note"}
        assert told == []
        os.truncate(journal.layout.index, LONG_BYTES)  # zeros behind its pages count for nothing
        assert {one.severity for one in examine(journal, tell=told.append).problems} == {"note"}
        examine(journal, tell=told.append, derived=False)
    assert [line.partition(" (")[0] for line in told] == ["SQLite checks the index"]
