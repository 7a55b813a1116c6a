"""Rows of the index file about records that the journal has lost, for repair and for messages about missing records."""

from __future__ import annotations

__all__ = ["IndexRows"]

import os
import sqlite3

from periplus.base.ids import is_id
from periplus.journal.records.segment_repair import Known


class IndexRows:
    """Read access to the rows of an index file, independent of the journal, which does not trust them."""

    def __init__(self, path: str) -> None:
        self._db: sqlite3.Connection | None = None
        if os.path.exists(path):
            from urllib.parse import quote

            self._db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def lineages(self) -> list[str]:
        """Return the lineages in the file with valid names: a damaged file may hold any text."""
        names = (str(row[0]) for row in self._rows("SELECT DISTINCT lineage FROM records", ()))
        return sorted(name for name in names if name.startswith("lin_") and is_id(name))

    def last(self, lineage: str) -> int:
        rows = self._rows("SELECT max(seq) FROM records WHERE lineage = ?", (lineage,))
        return int(str(rows[0][0])) if rows and rows[0][0] is not None else 0

    def segments(self, lineage: str) -> set[int]:
        return {
            int(str(row[0])) for row in self._rows("SELECT DISTINCT segment FROM records WHERE lineage = ?", (lineage,))
        }

    def get(self, lineage: str, seq: int) -> Known | None:
        rows = self._rows(
            "SELECT seq, offset, length, leaf, ts, writer, session, action, item_type, item_id, parents, version, key FROM records"
            " WHERE lineage = ? AND seq = ?",
            (lineage, seq),
        )
        if not rows or not isinstance(rows[0][3], bytes):
            return None
        *fields, parents, version, key = rows[0]
        batch = [int(str(row[0])) for row in self._rows(
            "SELECT seq FROM records WHERE lineage = ? AND key = ? AND key <> '' ORDER BY seq", (lineage, key))]  # fmt: skip
        txn = (batch.index(seq) + 1, len(batch)) if len(batch) > 1 else None
        held = tuple(str(parents).split(",")) if parents else ()
        return Known(*fields, held, version, key, txn)  # type: ignore[call-arg, arg-type]  # the columns are the fields

    def entities(self, lineage: str, segment: int, seqs: tuple[int, int], limit: int) -> list[str]:
        """Return ids of entities in a segment's records, between the first and the last of ``seqs``, in order."""
        rows = self._rows(
            "SELECT item_id FROM records WHERE lineage = ? AND segment = ? AND seq BETWEEN ? AND ? AND item_id <> ''"
            " GROUP BY item_id ORDER BY min(seq) LIMIT ?",
            (lineage, segment, *seqs, limit),
        )
        return [str(row[0]) for row in rows if is_id(str(row[0]))]

    def payload(self, version: str) -> bytes:
        rows = self._rows("SELECT payload FROM heads WHERE version = ?", (version,))
        return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else b""

    def payloads(self, item_type: str, item_id: str) -> list[bytes]:
        """Return the payloads of the entity's heads."""
        rows = self._rows("SELECT payload FROM heads WHERE item_type = ? AND item_id = ?", (item_type, item_id))
        return [bytes(row[0]) for row in rows if isinstance(row[0], bytes)]

    def _rows(self, statement: str, arguments: tuple[object, ...]) -> list[tuple[object, ...]]:
        if self._db is None:
            return []
        try:
            return self._db.execute(statement, arguments).fetchall()
        except sqlite3.Error:
            return []  # damaged, or of another version
