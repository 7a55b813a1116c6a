"""What is told and what is still served where SQLite has no room on the disk, or may not have any."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys

import pytest

from periplus.journal import Index
from periplus.journal.history.log import of_entity
from periplus.journal.index.connection import connect, index_failure
from support import WRITER, item, make_store, open_journal

FILL = "CREATE TABLE t AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9000) SELECT x, hex(randomblob(40)) y FROM c"


def refused(db, statement):
    with pytest.raises(sqlite3.Error) as found:
        db.execute(statement).fetchall()
    return found.value


def test_of_a_full_disk_it_is_said_where_room_is_wanted(tmp_path):
    db = connect(str(tmp_path / "index"))
    db.execute("PRAGMA max_page_count = 4")
    told = index_failure(refused(db, FILL), "Repeat the command.")
    assert str(told) == "the index cannot be used: database or disk is full"
    assert told.mend == (
        "Free some space, where the store is and in the folder for temporary files (TMPDIR, else /var/tmp). Repeat the command."
    )
    db.close()


def test_of_a_file_that_may_not_be_as_large_it_is_said_too(tmp_path):
    program = (
        "import sys\n"
        "from periplus.journal.index.connection import connect, index_failure\n"
        "import sqlite3\n"
        "try:\n    connect(sys.argv[1]).execute(sys.argv[2])\n"
        "except sqlite3.Error as error:\n    told = index_failure(error, 'Repeat the command.')\n    print(told, told.mend)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, str(tmp_path / "index"), FILL], check=True, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )  # fmt: skip
    assert done.stdout.startswith(
        "the index cannot be used: disk I/O error Check for a full or failing disk, a quota, or a file size limit"
    )


def test_the_records_of_an_entity_are_read_in_the_order_of_the_index(tmp_path):
    """An entity may have tens of thousands: to sort them took a file on the disk, and `show` failed where that was full."""
    root = make_store(tmp_path)
    asked = []
    with open_journal(root) as journal:
        for number in range(3):
            journal.mutate(lambda t, n=number: t.put("decision", item(1), {"text": f"text {n}"}), WRITER)
        journal.project()
        assert isinstance(journal.index, Index)
        journal.index.db.set_trace_callback(asked.append)
        assert [record.seq for record in of_entity(journal, "decision", item(1))] == [3, 2, 1]
        journal.index.db.set_trace_callback(None)
        plans = [
            str(row[3])
            for statement in asked
            if " FROM records " in statement
            for row in journal.index.db.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]
    assert any("records_by_item" in plan for plan in plans)
    assert not [plan for plan in plans if "TEMP B-TREE" in plan]
