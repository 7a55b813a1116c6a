"""The index: SQLite tables derived from the journal, discarded and rebuilt whenever in doubt.

It holds the position of each record, the heads of every entity and, through an ``Indexer`` of the layer above, full text. A watermark for
each lineage states how far the index has come. Watermark and rows change in one transaction, so the index is always the exact image of a
prefix of the journal. The journal always takes precedence over it.
"""

from __future__ import annotations

__all__ = ["SEVERAL_MAX", "Index", "IndexDamageError", "node_of", "payload_in", "payload_of"]

import os
import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from periplus.base.filesystem.file_systems import is_room_for_maps
from periplus.journal.index.checkpoint_tables import (
    CHILDREN_BEFORE,
    HEAD_COLUMNS,
    KEEP_HEADS,
    CheckpointTables,
    joined,
    split,
)
from periplus.journal.index.connection import Connection, IndexDamageError, abandon, connect
from periplus.journal.index.index_file import (
    INDEX_VERSION,
    PAST,
    Indexer,
    NullIndexer,
    discard_index,
    inode_of,
    make_tables,
    open_index,
)
from periplus.journal.records.record import decode_line, version_id
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Change, Entity, Head, MergeRules, change_of, entity_of_head
from periplus.journal.state.index_values import NO_VIEW, FileRow, HistoryNeededError, IndexedRecord, View
from periplus.journal.storage.lineage import Position

if TYPE_CHECKING:
    from periplus.journal.state.merge import History, Node
    from periplus.journal.state.version_graph import VersionGraph

SEVERAL_MAX: Final = 400  # two values each; old SQLite allows 999 a statement
_SLICE: Final = 256

_HEADS_OF: Final = f"SELECT {HEAD_COLUMNS} FROM heads WHERE item_type = ? AND item_id = ?"  # noqa: S608 - a constant
_CIRCLE: Final = "circle "  # prefix of names in ``meta``, followed by type and id
_HAS_HEAD: Final = "SELECT 1 FROM heads WHERE item_type = ? AND item_id = ? LIMIT 1"
# Of several records with one version, the same one is kept in any order of arrival: see ``VersionGraph``.
_PUT_HEAD: Final = """
INSERT INTO heads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (item_type, item_id, version) DO UPDATE SET deleted = excluded.deleted, payload = excluded.payload,
    ts = excluded.ts, writer = excluded.writer, session = excluded.session, lineage = excluded.lineage,
    seq = excluded.seq, stub = excluded.stub
WHERE (excluded.stub, excluded.ts, excluded.lineage, excluded.seq) < (stub, ts, lineage, seq)
"""


_RECORD_TYPES: Final = (str, int, int, int, int, bytes, *[str] * 7, int, str, str, str)


class Index(CheckpointTables):
    """The index of a store in the file ``path``, or in memory if that is None."""

    def __init__(self, path: str | None, store: str, indexer: Indexer, view: View = NO_VIEW) -> None:
        self.view = view
        self._indexer = indexer
        self._identity = f"{INDEX_VERSION}.{indexer.version} {store}"
        self._path = path
        self.is_memory = path is None
        self.is_scratch = False
        self.gives_way = True  # the file is removed for the journal's sake if a write finds no space
        self.is_apart = False  # private to this process: see checkpoints.history_fallback
        self.is_rest = False  # concurrent versions are shown without their merge base, which is not here
        self.is_writable = path is None or _may_write(os.path.dirname(path))
        if path is None:
            self.db = self._in_memory()
        else:
            opened = open_index(path, self._identity, indexer, is_writable=self.is_writable)
            self.db = self._serve_from_memory() if opened is None else opened
            self._path = self.db.path or None
        self._inode = 0 if self._path is None else inode_of(self._path)
        self._version = 0
        self._has_floors: bool | None = None  # in the current transaction

    @property
    def path(self) -> str | None:
        """The path of the index file, which may differ from the requested one (see ``index_file``); None if the index is in memory."""
        return self._path

    def close(self) -> None:
        if self.db.is_inherited:
            return
        if self.is_cramped():
            abandon(self.db)
        else:
            self.db.close()

    def is_cramped(self) -> bool:
        """Return True if the disk has no room for the file's shared memory: see ``base.disks``."""
        return self._path is not None and self.is_writable and not is_room_for_maps(os.path.dirname(self._path))

    def is_replaced(self) -> bool:
        """Return True if another process removed the file since it was opened, so that this one is outdated."""
        return self._path is not None and self.is_writable and self._inode != inode_of(self._path)

    @property
    def is_past(self) -> bool:
        """True if the index is marked as outdated in the current snapshot: see ``index.rebuild``."""
        return self._path is not None and self.is_writable and self.meta(PAST) != ""

    def was_written(self) -> bool:
        """Return True if another process wrote to the index since ``begin``. The snapshot is then a new one, and the view must begin anew."""
        if self._path is None or not self.is_writable or not self.db.in_transaction:
            return False
        before = self._version
        self.end()
        self.begin()
        return self._version != before

    @property
    def is_damaged(self) -> bool:
        """True if damage was found in the index. The next look removes it, except in a forked child."""
        return self.db.is_damaged and not self.db.is_inherited

    def damaged(self, what: str) -> IndexDamageError:
        """Return the error for damage ``what``, and set ``is_damaged``."""
        return self.db.damaged(what)

    def _in_memory(self) -> Connection:
        return make_tables(connect(":memory:"), self._identity, self._indexer)

    def _serve_from_memory(self) -> Connection:
        self.is_writable = False
        self._path = None
        self.is_memory = True
        return self._in_memory()

    @classmethod
    def scratch(cls, store: str, view: View, indexer: Indexer | None = None) -> Index:
        """Return a temporary index: in memory while it is small, then in an anonymous file."""
        found = cls(None, store, indexer or NullIndexer(), view)
        found.db.close()
        found.db = make_tables(connect(""), found._identity, found._indexer)
        found.is_scratch = True
        return found

    # -- reading ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Hold one snapshot until ``end``, because watermark and rows belong together."""
        if not self.db.in_transaction:
            self._has_floors = None
            self.db.execute("BEGIN")
            self._version = int(self.db.execute("PRAGMA data_version").fetchone()[0])  # this also takes the snapshot

    def resumes(self) -> bool:
        """Take a snapshot again after ``end``; return False if the snapshot or the file has changed."""
        before = self._version
        self.begin()
        return self._version == before and not self.is_replaced()

    def end(self) -> None:
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def watermarks(self) -> dict[str, Position]:
        rows = self.db.execute("SELECT lineage, segment, offset, next_seq, sum FROM watermarks")
        return {row[0]: Position(*row[1:]) for row in self._sound(rows, (str, int, int, int, str))}

    def last_seq(self, lineage: str) -> int:
        """Return the seq of the lineage's last record here; 0 if there is none."""
        for (found,) in self.db.execute("SELECT max(seq) FROM records WHERE lineage = ?", (lineage,)):
            return found or 0
        return 0

    def heads(self, item_type: str, item_id: str) -> list[Head]:
        key = (item_type, item_id)
        if not self.db.has_row(_HAS_HEAD, key):  # a third of the cost, for new entities
            return []
        return [self._head(row) for row in self.db.execute(_HEADS_OF, key)]

    def has_live_head(self, item_type: str, item_id: str) -> bool:
        """Return True if there is a head that is not a tombstone; uses another database index than ``heads``."""
        where = "deleted = 0 AND item_type = ? AND item_id = ?"
        found = self.db.execute(f"SELECT 1 FROM heads INDEXED BY heads_live WHERE {where}", (item_type, item_id))  # noqa: S608
        return found.fetchone() is not None

    def heads_of_several(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[Head]]:
        """Return the heads of at most ``SEVERAL_MAX`` entities with one query; unknown entities are left out."""
        found: dict[tuple[str, str], list[Head]] = {}
        wanted = f"WITH wanted (type, id) AS (VALUES {', '.join(['(?, ?)'] * len(keys))})"
        columns = f"SELECT {HEAD_COLUMNS} FROM wanted CROSS JOIN heads ON item_type = type AND item_id = id"  # noqa: S608 - a constant
        for row in self.db.execute(f"{wanted} {columns}", [part for key in keys for part in key]).fetchall():
            found.setdefault((row[0], row[1]), []).append(self._head(row))
        return found

    def entities(self, item_type: str | None = None) -> Iterator[Entity]:
        """Yield every entity, tombstones too, by type and id."""
        where, arguments = ("WHERE item_type = ?", (item_type,)) if item_type else ("", ())
        rows = self.db.execute(
            f"SELECT {HEAD_COLUMNS} FROM heads {where} ORDER BY item_type, item_id",  # noqa: S608 - constants
            arguments,
        )
        group: list[Head] = []
        live = 0
        for row in rows:
            head = self._head(row)
            live += not head.deleted
            if group and (group[0].item_type, group[0].item_id) != (head.item_type, head.item_id):
                yield from self._shown(group)
                group = []
            group.append(head)
        yield from self._shown(group)
        counted = f"SELECT COUNT(*) FROM heads INDEXED BY heads_live WHERE deleted = 0 {where.replace('WHERE', 'AND')}"  # noqa: S608
        if live != self.db.execute(counted, arguments).fetchone()[0]:
            raise self.db.damaged("heads are missing")

    def _shown(self, heads: list[Head]) -> Iterator[Entity]:
        if len(heads) == 1:
            yield entity_of_head(heads[0])
        elif heads:
            from periplus.journal.state.merge import entity_of

            entity = entity_of(heads, self.view.rules.get(heads[0].item_type, MergeRules()), self)
            assert entity is not None
            yield entity

    def entity(self, item_type: str, item_id: str) -> Entity | None:
        """Return the entity, a tombstone too."""
        return next(self._shown(self.heads(item_type, item_id)), None)

    def contested(self) -> list[tuple[str, str]]:
        """Return type and id of the entities with several heads."""
        return self.db.execute(
            "SELECT item_type, item_id FROM heads GROUP BY item_type, item_id HAVING COUNT(*) > 1"
        ).fetchall()

    def versions(self, item_type: str, item_id: str, version: str) -> list[IndexedRecord]:
        """Return the records that hold a version of this entity, superseded ones too."""
        where = "version = ? AND version <> '' AND item_type = ? AND item_id = ? ORDER BY lineage, seq"
        return self.records(where, (version, item_type, item_id), -1)

    def versions_of(self, item_type: str, item_id: str) -> list[IndexedRecord]:
        """Return the records that hold versions of this entity."""
        where = "item_type = ? AND item_id = ? AND version <> '' ORDER BY lineage, seq"
        return self.records(where, (item_type, item_id), -1)

    def node(self, item_type: str, item_id: str, version: str) -> Node | None:
        found = node_of(self.versions(item_type, item_id, version))
        return self.node_before(item_type, item_id, version, found) if self.has_floors else found

    def payload(self, item_type: str, item_id: str, version: str) -> bytes:
        found = payload_of(self.versions(item_type, item_id, version), self.view)
        return found or (self.payload_before(item_type, item_id, version) if self.has_floors else b"")

    def ids_with_prefix(self, prefix: str, limit: int = 10) -> list[tuple[str, str]]:
        """Return ``(type, id)`` of the entities whose id begins with ``prefix``."""
        rows = self.db.execute(
            "SELECT DISTINCT item_type, item_id FROM heads WHERE item_id >= ? AND item_id < ? ORDER BY item_id LIMIT ?",
            (prefix, prefix + "\U0010ffff", limit),
        )
        return [(row[0], row[1]) for row in rows]

    def ids_named(self, name: str) -> list[tuple[str, str]]:
        """Return ``(type, id)`` of the entities that have this name beside their id."""
        try:
            name.encode()
        except UnicodeEncodeError:
            return []  # a lone surrogate, which no name contains
        return self._indexer.named(self.db, name)

    def names_of(self, entity: Entity) -> list[str]:
        return self._indexer.names_of(entity)

    def records(self, where: str, arguments: Sequence[object], limit: int) -> list[IndexedRecord]:
        """Return records by a condition written in this package; values are passed only through ``arguments``."""
        rows = self.db.execute(f"SELECT * FROM records WHERE {where} LIMIT ?", (*arguments, limit))  # noqa: S608
        return [IndexedRecord(*row)._replace(parents=split(row[-1])) for row in self._sound(rows, _RECORD_TYPES)]

    def leaves(self, lineage: str, first: int, end: int) -> list[bytes]:
        """Return the leaf hashes of the records with ``first`` ≤ seq < ``end``."""
        rows = self.db.execute(
            "SELECT leaf FROM records WHERE lineage = ? AND seq >= ? AND seq < ? ORDER BY seq", (lineage, first, end)
        )
        return [row[0] for row in self._sound(rows, (bytes,))]

    def rev_of(self, item_type: str, item_id: str, version: str) -> int | None:
        """Return the rev of a version of this entity; None if it is not held."""
        key = (version, item_type, item_id)
        row = self.db.execute(
            "SELECT rev FROM heads WHERE version = ? AND item_type = ? AND item_id = ?", key
        ).fetchone()
        if row is None:
            where = "version = ? AND version <> '' AND item_type = ? AND item_id = ?"
            row = self.db.execute(f"SELECT rev FROM records WHERE {where}", key).fetchone()  # noqa: S608 - a constant
            if row is None and self.has_floors:
                row = self.db.execute(f"SELECT rev FROM ancestors WHERE {where}", key).fetchone()  # noqa: S608 - a constant
        return None if row is None else int(row[0])

    def children_of(self, item_type: str, item_id: str, version: str) -> list[tuple[str, int]]:
        """Return version and rev of the versions of this entity that name ``version`` as a parent."""
        found = self.db.execute(
            "SELECT DISTINCT child, rev FROM edges CROSS JOIN records ON records.version = child AND records.version <> ''"
            " WHERE parent = ? AND item_type = ? AND item_id = ?",
            (version, item_type, item_id),
        ).fetchall()
        if self.has_floors:
            known = {child for child, _ in found}
            rows = self.db.execute(CHILDREN_BEFORE, (item_type, item_id, version))
            found += [row for row in rows if row[0] not in known]
        return found

    def child_versions(self, item_type: str, item_id: str, version: str) -> list[str]:
        return [child for child, _ in self.children_of(item_type, item_id, version)]

    def file_row(self, item_type: str, item_id: str) -> FileRow | None:
        row = self.db.execute(
            "SELECT sha256, stamp, boot FROM files WHERE item_type = ? AND item_id = ?", (item_type, item_id)
        ).fetchone()
        return None if row is None else FileRow(*next(self._sound([row], (bytes, bytes, str))))

    def file_stamps(self, item_type: str, boot: str) -> dict[str, bytes]:
        """Return the stamps of the type's files by id; empty stamps for files that cannot be trusted in ``boot``."""
        believed = "CASE WHEN boot IN ('', ?) THEN stamp ELSE x'' END"
        rows = self.db.execute(f"SELECT item_id, {believed} FROM files WHERE item_type = ?", (boot, item_type))  # noqa: S608
        return dict(self._sound(rows, (str, bytes)))

    def looked_at(self) -> dict[str, bytes]:
        """Return the files of linked worktrees that had no edits to take in, with their stamps."""
        return dict(self._sound(self.db.execute("SELECT path, stamp FROM looked"), (str, bytes)))

    def meta(self, name: str) -> str:
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def counts(self) -> dict[str, int]:
        """Return the number of live entities by type."""
        rows = self.db.execute(
            "SELECT item_type, COUNT(DISTINCT item_id) FROM heads WHERE deleted = 0 GROUP BY item_type ORDER BY item_type"
        )
        return {row[0]: row[1] for row in rows}

    def _sound(self, rows: Iterable[tuple[Any, ...]], types: tuple[type, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield ``rows`` after checking the types of their columns; a flipped bit in a row's header changes them."""
        for row in rows:
            if tuple(map(type, row)) != types:
                raise self.db.damaged("a row has columns of the wrong type")
            yield row

    def _head(self, row: tuple[Any, ...]) -> Head:
        item_type, item_id, version, joined, rev, deleted, payload, ts, writer, session, lineage, seq, stub = row
        parents: tuple[str, ...] = ()
        try:
            parents = tuple(joined.split(",")) if joined else ()
            is_sound = stub or version == version_id(
                item_type, item_id, deleted=bool(deleted), payload=payload or None, parents=parents
            )
        except (AttributeError, TypeError, ValueError):  # a column of another type
            is_sound = False
        if not is_sound:
            # SQLite has no checksums: a changed payload would be returned as true, and a changed version become a parent.
            raise self.db.damaged(f"{item_id} does not have the version id that it states")
        return Head(
            item_type,
            item_id,
            version,
            parents,
            rev,
            bool(deleted),
            payload,
            ts,
            writer,
            session,
            lineage,
            seq,
            bool(stub),
        )

    def check_above(self, live: Iterable[Entity], left_out: Container[tuple[str, str]]) -> Iterator[str]:
        """Yield the differences between the tables of the layer above and what ``live`` makes of them; see ``Indexer.check``."""
        return self._indexer.check(self.db, live, left_out)

    # -- writing, within a transaction that the caller began with begin_write ------------------------------------------

    def begin_write(self) -> None:
        self.end()
        self._has_floors = None
        self.db.execute("BEGIN IMMEDIATE")

    def give_way(self, error: sqlite3.Error) -> None:
        """After a write that failed for lack of space, remove the file to leave room for the journal, and use an index in memory."""
        if (error.sqlite_errorcode & 0xFF) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or self._path is None:
            return
        if not self.gives_way:
            return
        self.close()
        try:
            discard_index(self._path)
        except OSError:
            pass  # it stays; the journal takes precedence over it
        self.db, self._has_floors = self._serve_from_memory(), None

    def commit(self) -> None:
        self.db.execute("COMMIT")

    def apply(self, items: Iterable[tuple[Entry, Change | None]], lineage: str, segment: int) -> set[tuple[str, str]]:
        """Add records; return the entities that they touch."""
        has_floors = self.has_floors
        has_edges = has_floors or self.db.execute("SELECT 1 FROM edges LIMIT 1").fetchone() is not None
        from periplus.journal.state.version_graph import VersionGraph

        growth = VersionGraph(self, has_edges=has_edges)
        edges: list[tuple[str, str]] = []
        known: list[tuple[Entry, str]] = []
        for entry, change in items:
            if change is not None:
                if has_floors:
                    self.check_reach(change, growth)
                growth.add(change)
                edges += [(parent, change.version) for parent in change.before]
            known.append((entry, "" if change is None else change.version))
        rows = (_row(entry, version, lineage, segment, growth) for entry, version in known)
        self.db.executemany(f"INSERT OR REPLACE INTO records VALUES ({'?,' * 16}?)", rows)  # noqa: S608 - a constant
        self.db.executemany("INSERT OR IGNORE INTO edges VALUES (?, ?)", sorted(edges))
        self._settle_circles(growth)
        self._apply_heads(growth)
        if has_floors:
            for key in growth.entities:
                self.check_heads(self.heads(*key), self)
        return set(growth.entities)

    def add_rows(self, rows: Iterable[Sequence[object]], edges: Iterable[tuple[str, str]]) -> None:
        """Add rows of ``records`` and ``edges`` unchanged; ``set_heads`` adds the heads."""
        self.db.executemany(f"INSERT OR REPLACE INTO records VALUES ({'?,' * 16}?)", rows)  # noqa: S608 - a constant
        self.db.executemany("INSERT OR IGNORE INTO edges VALUES (?, ?)", sorted(edges))

    def set_heads(self, heads: Iterable[Head]) -> None:
        """Make each of ``heads`` the only head of its entity."""
        rows = [head._replace(parents=joined(head.parents)) for head in heads]  # type: ignore[arg-type]  # as the column holds it
        if self.has_floors:
            self.db.executemany(KEEP_HEADS, [row[:2] for row in rows])
        self.db.executemany("DELETE FROM heads WHERE item_type = ? AND item_id = ?", [row[:2] for row in rows])
        self.db.executemany(_PUT_HEAD, rows)

    def _settle_circles(self, growth: VersionGraph) -> None:
        """Compute the heads of entities whose versions form a cycle, which needs all their versions."""
        known = self.circular()
        for key, found in growth.entities.items():
            if not found.is_unsettled and key not in known:
                continue
            from periplus.journal.state.version_cycles import settle

            if self.has_floors:
                raise HistoryNeededError
            if settle(found, self.versions_of(*key), partial(self.child_versions, *key), self.view.payload_at):
                self.set_meta(_CIRCLE + msgspec.json.encode(key).decode(), "")

    def circular(self) -> set[tuple[str, str]]:
        """Return type and id of the entities whose versions form a cycle."""
        rows = self.db.execute("SELECT name FROM meta WHERE name GLOB ?", (_CIRCLE + "*",))
        return {msgspec.json.decode(row[0][len(_CIRCLE) :], type=tuple[str, str]) for row in rows}

    def _apply_heads(self, growth: VersionGraph) -> None:
        execute_all = self.db.executemany
        gone, raised, heads = [], [], []
        for key, found in growth.entities.items():
            gone += [(*key, version) for version in found.gone]
            raised += [(found.revs[version], *key, version) for version in found.raised]
            heads += [head._replace(rev=found.revs[version], parents=joined(head.parents))  # type: ignore[arg-type]  # as the column holds it
                      for version, head in found.heads.items()]  # fmt: skip
        if self.has_floors:
            execute_all(KEEP_HEADS + "AND version = ?", gone)
            execute_all("UPDATE ancestors SET rev = ? WHERE item_type = ? AND item_id = ? AND version = ?", raised)
        execute_all("DELETE FROM heads WHERE item_type = ? AND item_id = ? AND version = ?", gone)
        execute_all("UPDATE heads SET rev = ? WHERE item_type = ? AND item_id = ? AND version = ?", raised)
        execute_all("UPDATE records SET rev = ? WHERE item_type = ? AND item_id = ? AND version = ? AND version <> ''",
                    raised)  # fmt: skip
        execute_all(_PUT_HEAD, heads)

    def finish(self, touched: Iterable[tuple[str, str]], progress: Callable[[int, int], None]) -> None:
        """Hand the changed entities to the layer above, a slice at a time."""
        keys = sorted(touched)
        for start in range(0, len(keys), _SLICE):
            part = keys[start : start + _SLICE]
            changed = [entity for key in part if (entity := self.entity(*key)) is not None]
            self._indexer.apply(self.db, changed)
            progress(start + len(part), len(keys))

    def set_watermark(self, lineage: str, position: Position) -> None:
        self.db.execute("INSERT OR REPLACE INTO watermarks VALUES (?, ?, ?, ?, ?)", (lineage, *position))

    def set_file(self, item_type: str, item_id: str, row: FileRow | None) -> None:
        if row is None:
            self.db.execute("DELETE FROM files WHERE item_type = ? AND item_id = ?", (item_type, item_id))
        else:
            self.db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", (item_type, item_id, *row))

    def settle_files(self, stamps: Mapping[tuple[str, str], bytes], boot: str) -> None:
        """Set the stamps of files that were read and found unchanged; files written before ``boot`` count as durable."""
        rows = ((stamp, boot, *key) for key, stamp in stamps.items())
        self.db.executemany(
            "UPDATE files SET stamp = ?, boot = CASE WHEN boot = ? THEN boot ELSE '' END"
            " WHERE item_type = ? AND item_id = ? AND sha256 <> x''", rows,
        )  # fmt: skip

    def seal_files(self) -> None:
        """Mark all files written so far as durable across boots."""
        self.db.execute("UPDATE files SET boot = '' WHERE boot <> ''")

    def set_looked_at(self, stamps: Mapping[str, bytes]) -> None:
        self.db.execute("DELETE FROM looked")
        self.db.executemany("INSERT INTO looked VALUES (?, ?)", stamps.items())

    def set_meta(self, name: str, value: str) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def clear(self) -> None:
        """Empty the tables filled from records, within the current transaction, to begin a rebuild."""
        self._has_floors = None
        for name in ("watermarks", "records", "edges", "heads", "ancestors", "floors", "kept_keys"):
            self.db.execute(f"DELETE FROM {name}")  # noqa: S608 - names from the schema above
        self.db.execute("DELETE FROM meta WHERE name GLOB ?", (_CIRCLE + "*",))

    # -- what lies before a checkpoint ---------------------------------------------------------------------------------

    def floors(self) -> dict[str, int]:
        """Return, for each lineage that begins at a checkpoint, the seq from which its records are held."""
        return dict(self._sound(self.db.execute("SELECT lineage, seq FROM floors"), (str, int)))

    def set_floor(self, lineage: str, seq: int) -> None:
        self._has_floors = True
        self.db.execute("INSERT OR REPLACE INTO floors VALUES (?, ?)", (lineage, seq))

    def add_heads(self, heads: Iterable[Head]) -> None:
        self.db.executemany(_PUT_HEAD, [head._replace(parents=joined(head.parents)) for head in heads])  # type: ignore[arg-type]  # as the column holds it

    def all_heads(self) -> Iterator[Head]:
        """Yield every head, tombstones too, by type, id and version."""
        rows = self.db.execute(f"SELECT {HEAD_COLUMNS} FROM heads ORDER BY item_type, item_id, version")  # noqa: S608 - a constant
        return map(self._head, rows)

    def check_reach(self, change: Change, growth: VersionGraph) -> None:
        """Raise HistoryNeededError if the index cannot tell how ``change`` fits into the graph.

        Of the versions before a checkpoint only heads are held. A change made from another version there, or from nothing although the
        entity is known, may be old or a branch: only the full history can tell.
        """
        if not self.has_floors or self.is_rest:
            return
        record = change.entry.record
        key = (record.item_type, record.item_id)
        grown = growth.entities.get(key)
        added = grown.revs if grown is not None else {}
        if not (record.is_stub or record.after) and self.rev_of(*key, change.version) is not None:
            return  # another record of a known version
        if change.parents:
            is_reached = all(one in added or self.rev_of(*key, one) is not None for one in change.before)
        else:
            is_reached = not added and not self.heads(*key)
        if not is_reached:
            raise HistoryNeededError

    def can_merge_all(self) -> bool:
        """Return True if every entity can be merged from what the index holds."""
        try:
            for key in self.contested():
                self.check_heads(self.heads(*key), self)
        except HistoryNeededError:
            return False
        return True

    def check_heads(self, heads: Sequence[Head], history: History) -> None:
        """Raise HistoryNeededError if ``heads`` are several and their merge base lies before the floor and is not known from a checkpoint."""
        if len(heads) < 2 or not self.has_floors or self.is_rest:
            return
        from periplus.journal.state.merge import can_merge

        if not can_merge(heads, history):  # tombstones too: a later change may be an ancestor of one
            raise HistoryNeededError

    @property
    def has_floors(self) -> bool:
        found = self._has_floors if self.db.in_transaction else None  # no other process changes it then
        if found is None:
            found = self._has_floors = self.db.execute("SELECT 1 FROM floors").fetchone() is not None
        return found


def node_of(records: Sequence[IndexedRecord]) -> Node | None:
    """Return the graph node of the version that ``records`` hold."""
    if not records:
        return None
    from periplus.journal.state.merge import Node

    parents = {parent for record in records for parent in record.parents}
    return Node(tuple(sorted(parents)), max(record.rev for record in records))


def payload_of(records: Sequence[IndexedRecord], view: View) -> bytes:
    """Return the payload of the version that ``records`` hold, from the first that is not a stub."""
    return next(filter(None, map(view.payload_at, records)), b"")


def payload_in(line: bytes, record: IndexedRecord, load: Callable[[str], bytes]) -> bytes:
    """Return the payload of the version in ``line``. Raises DamageError if its payload's object is not sound."""
    found, leaf = decode_line(line)
    entry = Entry(found, record.offset, record.length, leaf)
    change = change_of(entry, record.lineage, record.segment, load, record.version)
    return change.payload if change is not None else b""


def _row(entry: Entry, version: str, lineage: str, segment: int, growth: VersionGraph) -> tuple[object, ...]:
    record = entry.record
    rev, parents = 0, ""
    if version:
        rev = growth.entities[record.item_type, record.item_id].revs[version]
        parents = joined(record.parents)
    return (
        lineage, record.seq, segment, entry.offset, entry.length, entry.leaf, record.ts, record.writer, record.session,
        record.action, record.item_type, record.item_id, version, rev, record.key, record.summary, parents,
    )  # fmt: skip


def _may_write(folder: str) -> bool:
    return os.access(folder, os.W_OK) and is_room_for_maps(folder)
