"""Index tables for what precedes a checkpoint: superseded versions and idempotency keys."""

from __future__ import annotations

__all__ = ["CHILDREN_BEFORE", "HEAD_COLUMNS", "KEEP_HEADS", "CheckpointTables", "joined", "split"]

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from periplus.journal.index.connection import Connection
from periplus.journal.state.entity import Head

if TYPE_CHECKING:
    from periplus.journal.state.entity import Ancestor
    from periplus.journal.state.merge import Node

HEAD_COLUMNS: Final = (
    "item_type, item_id, version, parents, rev, deleted, payload, ts, writer, session, lineage, seq, stub"
)
_BEFORE: Final = f"SELECT {HEAD_COLUMNS}, below FROM ancestors WHERE item_type = ? AND item_id = ?"  # noqa: S608 - a constant
_HEAD_BEFORE: Final = f"SELECT {HEAD_COLUMNS}, '' FROM heads WHERE item_type = ? AND item_id = ?"  # noqa: S608 - a constant
CHILDREN_BEFORE: Final = """
SELECT version, rev FROM ancestors WHERE item_type = ?1 AND item_id = ?2 AND instr(parents, ?3)
UNION SELECT version, rev FROM heads WHERE item_type = ?1 AND item_id = ?2 AND instr(parents, ?3)
"""
# Keep a superseded head from before a checkpoint: no record of it is held, and later changes may have it as a parent.
KEEP_HEADS: Final = """
INSERT OR IGNORE INTO ancestors SELECT *, '' FROM heads
WHERE item_type = ? AND item_id = ? AND NOT EXISTS (
    SELECT 1 FROM records WHERE records.version = heads.version AND records.version <> ''
        AND records.item_type = heads.item_type AND records.item_id = heads.item_id
)
"""


class CheckpointTables(ABC):
    """The part of ``Index`` with the tables ``ancestors`` and ``kept_keys``."""

    db: Connection

    @abstractmethod
    def _head(self, row: tuple[Any, ...]) -> Head:
        """Return the checked version in a row of ``HEAD_COLUMNS``."""

    def add_ancestors(self, ancestors: Iterable[Ancestor]) -> None:
        rows = ((*one.version._replace(parents=joined(one.version.parents)), joined(one.below)) for one in ancestors)  # type: ignore[arg-type]  # as the column holds it
        self.db.executemany(f"INSERT OR IGNORE INTO ancestors VALUES ({'?,' * 13}?)", rows)  # noqa: S608 - a constant

    def ancestors(self, item_type: str, item_id: str) -> list[Ancestor]:
        """Return the known versions from before a checkpoint that are no longer heads."""
        return self._ancestors(self.db.execute(_BEFORE, (item_type, item_id)))

    def all_ancestors(self) -> Iterator[Head]:
        rows = self.db.execute(f"SELECT {HEAD_COLUMNS} FROM ancestors ORDER BY item_type, item_id, version")  # noqa: S608 - a constant
        return map(self._head, rows)

    def ancestor(self, item_type: str, item_id: str, version: str) -> Ancestor | None:
        """Return a version from before a checkpoint, whether or not it is still a head."""
        key = (item_type, item_id, version)
        found = self._ancestors(self.db.execute(f"{_BEFORE} AND version = ?", key))
        return next(iter(found or self._ancestors(self.db.execute(f"{_HEAD_BEFORE} AND version = ?", key))), None)

    def node_before(self, item_type: str, item_id: str, version: str, held: Node | None = None) -> Node | None:
        """Return the graph node of a version from before a checkpoint.

        ``held`` is its node according to records, which do not know ancestors from before the checkpoint; the result adds those.
        """
        from periplus.journal.state.merge import Node

        found = self.ancestor(item_type, item_id, version)
        if found is None or held is not None:
            return held if found is None or held is None else held._replace(below=found.below)
        return Node(found.version.parents, found.version.rev, found.below)

    def payload_before(self, item_type: str, item_id: str, version: str) -> bytes:
        """Return the payload of a version from before a checkpoint; empty if it is unknown."""
        found = self.ancestor(item_type, item_id, version)
        return b"" if found is None else found.version.payload

    def _ancestors(self, found: Iterable[tuple[Any, ...]]) -> list[Ancestor]:
        rows = list(found)
        if not rows:
            return []
        from periplus.journal.state.entity import Ancestor

        return [Ancestor(self._head(row[:-1]), split(row[-1])) for row in rows]

    def add_kept_keys(self, rows: Iterable[tuple[str, str, int, str, str]]) -> None:
        self.db.executemany("INSERT OR REPLACE INTO kept_keys VALUES (?, ?, ?, ?, ?)", rows)

    def kept_key(self, key: str) -> list[tuple[str, int, str]]:
        """Return lineage, seq and version of the records before a checkpoint that were written with ``key``."""
        return self.db.execute(
            "SELECT lineage, seq, version FROM kept_keys WHERE key = ? ORDER BY lineage, seq", (key,)
        ).fetchall()

    def kept_keys(self) -> tuple[int, str]:
        """Return the number of keys from before a checkpoint, and the time at which the least recently used one was last used."""
        used = "SELECT MAX(ts) AS used FROM kept_keys GROUP BY key"
        count, oldest = self.db.execute(f"SELECT COUNT(*), MIN(used) FROM ({used})").fetchone()  # noqa: S608 - a constant
        return int(count), str(oldest or "")

    def newest_keys(self, limit: int) -> Iterator[tuple[str, str, int, str, str]]:
        """Yield the rows of ``kept_keys`` for the ``limit`` most recently used keys, sorted by key."""
        both = (
            "SELECT key, lineage, seq, version, ts FROM records WHERE key <> ''"
            " UNION SELECT key, lineage, seq, version, ts FROM kept_keys"
        )
        newest = f"SELECT key FROM ({both}) GROUP BY key ORDER BY MAX(ts) DESC, key LIMIT ?"  # noqa: S608 - constants
        return self.db.execute(
            f"SELECT * FROM ({both}) WHERE key IN ({newest}) ORDER BY key, lineage, seq",  # noqa: S608 - constants
            (limit,),
        )


def joined(parents: tuple[str, ...]) -> str:
    return ",".join(parents)


def split(text: object) -> tuple[str, ...]:
    return tuple(str(text).split(",")) if text else ()
