"""What tests ask of the index's files."""

from __future__ import annotations

import sqlite3
from contextlib import closing


def is_held(index):
    """Whether somebody's snapshot keeps SQLite from making the log short again."""
    with closing(sqlite3.connect(index, timeout=0)) as db:
        return bool(db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
