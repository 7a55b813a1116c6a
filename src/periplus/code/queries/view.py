"""One view at one moment, with everything that a question needs."""

from __future__ import annotations

__all__ = ["CodeView", "SymbolId", "symbol_key", "utf8_text"]

from functools import cached_property
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.index.database import Database, joined_path, stored_path
from periplus.code.index.file_reader import FileReader
from periplus.code.index.view_sources import ViewSources
from periplus.code.limits import SOURCE_BYTES_MAX
from periplus.code.model import Definition
from periplus.code.resolution.sources import KnownFile

if TYPE_CHECKING:
    from periplus.code.graph.reading import GraphReading
    from periplus.code.resolution.resolver import Resolver

_TEXTS_KEPT_MAX: Final = 64


def utf8_text(text: str) -> str:
    """Return ``text`` with replacement characters for what is no UTF-8: no name in the index has such."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


class SymbolId(NamedTuple):
    """A symbol by path and qualified name, or a file (an empty name). Equals of one name in a file (overloads) are one symbol here;
    ``ordinal`` tells them apart where it matters.
    """

    path: str
    name: str = ""
    ordinal: int = 0

    def __str__(self) -> str:
        return symbol_key(self.path, self.name, self.ordinal)


def symbol_key(path: str, name: str, ordinal: int = 0) -> str:
    """Return the name that anchors, claims and commands use: ``path:Class.method``, with ``#2`` for the second of one name."""
    return f"{path}:{name}{f'#{ordinal + 1}' if ordinal else ''}" if name else path


class CodeView:
    """A view as of the last refresh."""

    def __init__(self, database: Database, view: int, root: str) -> None:
        self.database = database
        self.id = view
        self.root = root
        self.sources = ViewSources(database, view, root)
        self._lines: dict[str, list[str]] = {}
        self._texts: dict[str, bytes] = {}

    @cached_property
    def graph(self) -> GraphReading | None:
        """Return the graph; None where it is not up to date. It is right for the state of the index in which it is first asked for."""
        from periplus.code.graph.reading import GraphReading

        graph = GraphReading(self.database, self.id)
        return graph if graph.is_current() else None

    @cached_property
    def resolver(self) -> Resolver:
        from periplus.code.resolution.resolver import Resolver

        return Resolver(self.sources)

    def file(self, path: str) -> KnownFile | None:
        return self.sources.file(path)

    def definition(self, symbol: SymbolId) -> tuple[KnownFile, int, Definition] | None:
        """Return the file, number and definition of ``symbol``; None where it is not there."""
        file = self.file(symbol.path)
        if file is None:
            return None
        numbers = file.qualified.get(symbol.name, [])
        if symbol.ordinal >= len(numbers):
            return None
        number = numbers[symbol.ordinal]
        return file, number, file.definitions[number]

    def symbol_at(self, file: KnownFile, number: int) -> SymbolId:
        """Return the symbol with the number ``number``; below 0 the file."""
        if number < 0:
            return SymbolId(file.path)
        return SymbolId(file.path, file.definitions[number].qualified)

    def state(self, path: str) -> tuple[str, str]:
        """Return the parse state of a file, and its language where that is known."""
        folder, _, name = path.rpartition("/")
        found = self.database.execute(
            "SELECT coalesce(b.state, e.state), coalesce(b.language, '') FROM folder f JOIN entry e ON e.view = f.view AND e.folder = f.id"
            " AND e.name = ? LEFT JOIN blob b ON b.id = e.blob WHERE f.view = ? AND f.path = ?",
            (stored_path(name), self.id, stored_path(folder)),
        ).fetchone()
        return (found[0], found[1].partition(":")[0]) if found is not None else ("gone", "")

    def failures(self) -> tuple[tuple[str, str], ...]:
        """Return path and reason of the files whose parsing failed."""
        rows = self.database.execute(
            "SELECT f.path, e.name, coalesce(b.why, '') FROM entry e JOIN folder f ON f.id = e.folder LEFT JOIN blob b ON b.id = e.blob"
            " WHERE e.view = ? AND (b.state = 'failed' OR e.state = 'failed') LIMIT 100",
            (self.id,),
        )
        return tuple(sorted((joined_path(folder, name), why) for folder, name, why in rows))

    def untracked(self) -> list[str]:
        """Return the paths of the files that git does not have."""
        rows = self.database.execute(
            "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder"
            " WHERE e.view = ? AND e.stamp IS NOT NULL AND e.oid IS NULL",
            (self.id,),
        )
        return sorted(joined_path(folder, name) for folder, name in rows)

    def text(self, path: str) -> bytes:
        """Return the contents of a file of the worktree; empty where it cannot be read."""
        if path not in self._texts:
            if len(self._texts) >= _TEXTS_KEPT_MAX:
                self._texts.clear()
            try:
                with FileReader(self.root) as reader:
                    self._texts[path] = reader.read(path, SOURCE_BYTES_MAX) or b""
            except OSError:
                self._texts[path] = b""
        return self._texts[path]

    def line(self, path: str, number: int) -> str:
        """Return a line of a file without its indentation, as it is now; empty where it is not there."""
        lines = self._lines.get(path)
        if lines is None:
            lines = self._lines[path] = self.text(path).decode("utf-8", "replace").split("\n")
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""
