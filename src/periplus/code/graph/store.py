"""The tables of the graph of one view."""

from __future__ import annotations

__all__ = ["GraphStore"]

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from periplus.code.graph.encoding import (
    NAMED_FILE,
    Edge,
    FileSymbols,
    decode_edges,
    decode_symbols,
    encode_edges,
    encode_links,
    encode_symbols,
    node,
)
from periplus.code.index.database import Database, joined_path, stored_path

_KEPT_MAX: Final = 4_000
COUNTS: Final = ("proven", "likely", "named", "external", "unknown")


class _Row(NamedTuple):
    id: int
    path: str
    blob: int


class GraphStore:
    """Reads the graph of ``view``; methods that write need the transaction of the caller. What was read is kept: make a new one after
    each change by others.
    """

    def __init__(self, database: Database, view: int) -> None:
        self.database = database
        self.view = view
        self._symbols: OrderedDict[int, FileSymbols] = OrderedDict()
        self._ids: dict[str, int | None] = {}
        self._paths: dict[int, str] = {}

    # -- files ---------------------------------------------------------------------------------------------------------

    def version(self) -> str:
        """Return the version of the resolver that made the graph; empty where there is none."""
        found = self.database.execute("SELECT graph FROM view WHERE id = ?", (self.view,)).fetchone()
        return str(found[0]) if found is not None else ""

    def set_version(self, version: str) -> None:
        self.database.execute("UPDATE view SET graph = ? WHERE id = ?", (version, self.view))

    def is_touched(self) -> bool:
        """Return True where files changed that the graph does not know of."""
        return self.database.execute("SELECT 1 FROM touched WHERE view = ?", (self.view,)).fetchone() is not None

    def stale_count(self) -> int:
        found: int = self.database.execute(
            "SELECT count(*) FROM graph_file WHERE view = ? AND is_stale", (self.view,)
        ).fetchone()[0]
        return found

    def stale(self) -> list[tuple[int, str]]:
        """Return number and path of the files whose edges are out of date."""
        rows = self.database.execute(
            "SELECT g.id, f.path, g.name FROM graph_file g JOIN folder f ON f.id = g.folder WHERE g.view = ? AND g.is_stale"
            " ORDER BY f.path, g.name", (self.view,),
        )  # fmt: skip
        return [(number, joined_path(folder, name)) for number, folder, name in rows]

    def touched(self) -> list[tuple[str, bool]]:
        """Return the files that changed, and whether they were there before."""
        rows = self.database.execute(
            "SELECT f.path, t.name, t.existed FROM touched t JOIN folder f ON f.id = t.folder WHERE t.view = ?",
            (self.view,),
        )
        return sorted((joined_path(folder, name), bool(existed)) for folder, name, existed in rows)

    def row(self, path: str) -> _Row | None:
        folder, _, name = path.rpartition("/")
        found = self.database.execute(
            "SELECT g.id, g.blob FROM folder f JOIN graph_file g ON g.view = f.view AND g.folder = f.id AND g.name = ?"
            " WHERE f.view = ? AND f.path = ?",
            (stored_path(name), self.view, stored_path(folder)),
        ).fetchone()
        return _Row(found[0], path, found[1]) if found is not None else None

    def file_id(self, path: str) -> int | None:
        """Return the number of a file; None where the graph has it not."""
        if path not in self._ids:
            row = self.row(path)
            self._ids[path] = row.id if row is not None else None
        return self._ids[path]

    def path(self, number: int) -> str:
        """Return the path of the file with this number."""
        if number not in self._paths:
            folder, name = self.database.execute(
                "SELECT f.path, g.name FROM graph_file g JOIN folder f ON f.id = g.folder WHERE g.id = ?", (number,)
            ).fetchone()
            self._paths[number] = joined_path(folder, name)
        return self._paths[number]

    def files(self) -> list[tuple[int, str]]:
        """Return number and path of all files, in the order of paths."""
        rows = self.database.execute(
            "SELECT g.id, f.path, g.name FROM graph_file g JOIN folder f ON f.id = g.folder WHERE g.view = ?",
            (self.view,),
        )
        return sorted(((number, joined_path(folder, name)) for number, folder, name in rows), key=lambda one: one[1])

    def links(self) -> list[tuple[int, str, bytes | None]]:
        """Return number, path and links of all files, in the order of paths."""
        rows = self.database.execute(
            "SELECT g.id, f.path, g.name, g.links FROM graph_file g JOIN folder f ON f.id = g.folder WHERE g.view = ?",
            (self.view,),
        )
        return sorted(
            ((number, joined_path(folder, name), data) for number, folder, name, data in rows), key=lambda one: one[1]
        )

    def user_counts(self, number: int) -> dict[int, int]:
        """Return for the symbols of a file the number of other files that name them."""
        rows = self.database.execute(
            "SELECT target, count(*) FROM graph_use WHERE target >= ? AND target < ? GROUP BY target",
            (node(number, 0), node(number + 1, 0)),
        )
        return {target - node(number, 0): count for target, count in rows}

    def counts(self) -> dict[str, int]:
        """Return the number of places with an edge, by grade; those that name nothing of the project are apart."""
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in COUNTS)
        found = self.database.execute(f"SELECT {sums} FROM graph_file WHERE view = ?", (self.view,)).fetchone()  # noqa: S608 - names of our own
        return dict(zip(COUNTS, found, strict=True))

    # -- symbols and edges ---------------------------------------------------------------------------------------------

    def symbols(self, number: int) -> FileSymbols | None:
        """Return the symbols of a file; None where they have not been numbered."""
        known = self._symbols.get(number)
        if known is None:
            found = self.database.execute("SELECT symbols FROM graph_file WHERE id = ?", (number,)).fetchone()
            if found is None or found[0] is None:
                return None
            known = self._symbols[number] = decode_symbols(found[0])
            if len(self._symbols) > _KEPT_MAX:
                self._symbols.popitem(last=False)
        return known

    def edges(self, number: int) -> list[Edge]:
        """Return the edges from the symbols of a file."""
        found = self.database.execute("SELECT edges FROM graph_file WHERE id = ?", (number,)).fetchone()
        return decode_edges(found[0]) if found is not None and found[0] is not None else []

    def users(self, target: int) -> list[int]:
        """Return the numbers of the other files with edges to the node ``target``."""
        return [row[0] for row in self.database.execute("SELECT source FROM graph_use WHERE target = ?", (target,))]

    def users_of_name(self, name: str) -> tuple[int, list[int]]:
        """Return the number of ``name``, and the files with references of which only this name is known."""
        found = self.database.execute("SELECT id FROM name WHERE text = ?", (name,)).fetchone()
        if found is None:
            return -1, []
        rows = self.database.execute(
            "SELECT u.source FROM graph_use u JOIN graph_file g ON g.id = u.source AND g.view = ? WHERE u.target = ?",
            (self.view, -found[0]),
        )
        return found[0], [row[0] for row in rows]

    # -- writing -------------------------------------------------------------------------------------------------------

    def begin(self, version: str) -> None:
        """Make the graph anew: all files are stale."""
        self.database.execute(
            "DELETE FROM graph_use WHERE source IN (SELECT id FROM graph_file WHERE view = ?)", (self.view,)
        )
        self.database.execute("DELETE FROM graph_file WHERE view = ?", (self.view,))
        self.database.execute(
            "INSERT INTO graph_file (view, folder, name, blob, is_stale) SELECT e.view, e.folder, e.name, e.blob, 1 FROM entry e"
            " JOIN blob b ON b.id = e.blob JOIN folder f ON f.id = e.folder WHERE e.view = ? AND b.facts IS NOT NULL"
            " ORDER BY f.path, e.name",
            (self.view,),
        )
        self.clear_touched()
        self.set_version(version)

    def clear_touched(self) -> None:
        self.database.execute("DELETE FROM touched WHERE view = ?", (self.view,))

    def add(self, path: str, blob: int) -> None:
        folder, _, name = path.rpartition("/")
        self.database.execute(
            "INSERT INTO graph_file (view, folder, name, blob, is_stale) SELECT ?, id, ?, ?, 1 FROM folder WHERE view = ? AND path = ?",
            (self.view, stored_path(name), blob, self.view, stored_path(folder)),
        )
        self._ids.pop(path, None)

    def remove(self, row: _Row) -> None:
        self._replace_uses(row.id, self._targets(row.id, self.edges(row.id)), set())
        self.database.execute("DELETE FROM graph_file WHERE id = ?", (row.id,))
        self._ids.pop(row.path, None)
        self._symbols.pop(row.id, None)

    def replace(self, row: _Row, blob: int, symbols: FileSymbols) -> None:
        """Note that a file has another content, with these symbols; it is stale."""
        self.database.execute(
            "UPDATE graph_file SET blob = ?, symbols = ?, is_stale = 1 WHERE id = ?",
            (blob, encode_symbols(symbols), row.id),
        )
        self._symbols[row.id] = symbols

    def mark_stale(self, numbers: Iterable[int]) -> None:
        self.database.executemany("UPDATE graph_file SET is_stale = 1 WHERE id = ?", [(one,) for one in numbers])

    def asked(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over number and keys of the files that are not stale."""
        return self.database.execute("SELECT id, asked FROM graph_file WHERE view = ? AND NOT is_stale", (self.view,))

    def put(
        self, number: int, symbols: FileSymbols, edges: list[Edge], asked: bytes, counts: Mapping[str, int]
    ) -> None:
        """Write what was resolved for a file."""
        self._replace_uses(number, self._targets(number, self.edges(number)), self._targets(number, edges))
        self.database.execute(
            "UPDATE graph_file SET is_stale = 0, symbols = ?, edges = ?, asked = ?, links = ?, proven = ?, likely = ?, named = ?, external = ?,"
            " unknown = ? WHERE id = ?",
            (
                encode_symbols(symbols),
                encode_edges(edges),
                asked,
                encode_links(edges, number),
                *(counts.get(name, 0) for name in COUNTS),
                number,
            ),
        )

    def _replace_uses(self, source: int, old: set[int], new: set[int]) -> None:
        self.database.executemany(
            "DELETE FROM graph_use WHERE target = ? AND source = ?", [(one, source) for one in sorted(old - new)]
        )
        self.database.executemany("INSERT INTO graph_use VALUES (?, ?)", [(one, source) for one in sorted(new - old)])

    @staticmethod
    def _targets(number: int, edges: Iterable[Edge]) -> set[int]:
        return {
            -one.local if one.file == NAMED_FILE else node(one.file, one.local) for one in edges if one.file != number
        }
