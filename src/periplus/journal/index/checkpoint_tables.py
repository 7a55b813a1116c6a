"""What the index knows of before the checkpoint that it was made from: versions that are no heads any more, and keys."""

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
# A head of before a checkpoint that gives way: no record of it is held, and what comes may have been made from it, too.
KEEP_HEADS: Final = """
INSERT OR IGNORE INTO ancestors SELECT *, '' FROM heads
WHERE item_type = ? AND item_id = ? AND NOT EXISTS (
    SELECT 1 FROM records WHERE records.version = heads.version AND records.version <> ''
        AND records.item_type = heads.item_type AND records.item_id = heads.item_id
)
"""


class CheckpointTables(ABC):
    """A part of ``Index``: its tables ``ancestors`` and ``kept_keys``."""

    db: Connection

    @abstractmethod
    def _head(self, row: tuple[Any, ...]) -> Head:
        """The version in a row of ``HEAD_COLUMNS``, checked."""

    def add_ancestors(self, ancestors: Iterable[Ancestor]) -> None:
        rows = ((*one.version._replace(parents=joined(one.version.parents)), joined(one.below)) for one in ancestors)  # type: ignore[arg-type]  # as the column holds it
        self.db.executemany(f"INSERT OR IGNORE INTO ancestors VALUES ({'?,' * 13}?)", rows)  # noqa: S608 - a constant

    def ancestors(self, item_type: str, item_id: str) -> list[Ancestor]:
        """The versions of before a checkpoint that are no heads any more and are known all the same."""
        return self._ancestors(self.db.execute(_BEFORE, (item_type, item_id)))

    def all_ancestors(self) -> Iterator[Head]:
        rows = self.db.execute(f"SELECT {HEAD_COLUMNS} FROM ancestors ORDER BY item_type, item_id, version")  # noqa: S608 - a constant
        return map(self._head, rows)

    def ancestor(self, item_type: str, item_id: str, version: str) -> Ancestor | None:
        """A version as it is known of before a checkpoint, also where it is a head still."""
        key = (item_type, item_id, version)
        found = self._ancestors(self.db.execute(f"{_BEFORE} AND version = ?", key))
        return next(iter(found or self._ancestors(self.db.execute(f"{_HEAD_BEFORE} AND version = ?", key))), None)

    def node_before(self, item_type: str, item_id: str, version: str, held: Node | None = None) -> Node | None:
        """A version in its graph, as it is known of before a checkpoint; ``held``: as records have it that are here, too. Those say nothing of
        what it descends from by versions that lie before.
        """
        from periplus.journal.state.merge import Node

        found = self.ancestor(item_type, item_id, version)
        if found is None or held is not None:
            return held if found is None or held is None else held._replace(below=found.below)
        return Node(found.version.parents, found.version.rev, found.below)

    def payload_before(self, item_type: str, item_id: str, version: str) -> bytes:
        """What a version says, as it is known of before a checkpoint."""
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
        """Lineage, seq and version of the records before a checkpoint that were written with ``key``."""
        return self.db.execute(
            "SELECT lineage, seq, version FROM kept_keys WHERE key = ? ORDER BY lineage, seq", (key,)
        ).fetchall()

    def kept_keys(self) -> tuple[int, str]:
        """How many keys of before a checkpoint are known, and when the one was used that was not used again for longest."""
        used = "SELECT MAX(ts) AS used FROM kept_keys GROUP BY key"
        count, oldest = self.db.execute(f"SELECT COUNT(*), MIN(used) FROM ({used})").fetchone()  # noqa: S608 - a constant
        return int(count), str(oldest or "")

    def newest_keys(self, limit: int) -> Iterator[tuple[str, str, int, str, str]]:
        """Rows of ``kept_keys`` for the keys that were used last, by key."""
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
