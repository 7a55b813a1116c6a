"""Rows of contents: facts, names, definitions, mentions. Each content is written once."""

from __future__ import annotations

__all__ = ["BlobRows"]

from collections.abc import Iterable, Sequence
from typing import Final

from periplus.code.index.database import Database
from periplus.code.index.parsing import Row
from periplus.code.search.name_match import folded

_NAMES_KEPT_MAX: Final = 400_000


class BlobRows:
    """Writes rows within the transaction of the caller."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: dict[str, int] = {}
        self._defined: set[int] = set()

    def known(self, oid: bytes, language: str, extractor: str) -> tuple[int, str] | None:
        """Return number and state of a content that is in the index."""
        found: tuple[int, str] | None = self._database.execute(
            "SELECT id, state FROM blob WHERE oid = ? AND language = ? AND extractor = ?", (oid, language, extractor)
        ).fetchone()
        return found

    def add(self, rows: Sequence[Row]) -> list[int]:
        """Write ``rows``; return the number of each."""
        numbers: list[int] = []
        definitions: list[tuple[object, ...]] = []
        mentions: list[tuple[object, ...]] = []
        packages: list[tuple[object, ...]] = []
        for row in rows:
            known = self.known(row.oid, row.language, row.extractor) if row.oid else None
            if known is not None:
                numbers.append(known[0])
                continue
            blob = self._database.execute(
                "INSERT INTO blob (oid, language, extractor, state, why, size, lines, symbols, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    row.oid,
                    row.language,
                    row.extractor,
                    row.state,
                    row.why,
                    row.size,
                    row.lines,
                    len(row.definitions),
                    row.facts or None,
                ),
            ).lastrowid
            assert blob is not None
            numbers.append(blob)
            definitions += [
                (self._name(name, is_defined=True), blob, number, flags) for name, number, flags in row.definitions
            ]
            mentions += [(self._name(name), blob) for name in row.mentions]
            if row.package:
                packages.append((self._name(row.package), blob))
        self._insert("INSERT OR IGNORE INTO definition VALUES (?, ?, ?, ?)", definitions)
        self._insert("INSERT OR IGNORE INTO mention VALUES (?, ?)", mentions)
        self._insert("INSERT OR IGNORE INTO package VALUES (?, ?)", packages)
        return numbers

    def remove(self, blobs: Iterable[int]) -> None:
        """Remove contents that no view has any more."""
        rows: list[tuple[object, ...]] = [(blob,) for blob in blobs]
        if not rows:
            return
        database = self._database
        database.execute("CREATE TEMP TABLE IF NOT EXISTS gone (blob INTEGER PRIMARY KEY)")
        database.execute("DELETE FROM gone")
        database.executemany("INSERT OR IGNORE INTO gone VALUES (?)", rows)
        for table in ("definition", "mention", "package"):
            database.execute(f"DELETE FROM {table} WHERE blob IN (SELECT blob FROM gone)")  # noqa: S608 - names of our own
        database.execute("DELETE FROM blob WHERE id IN (SELECT blob FROM gone)")

    def _insert(self, query: str, rows: list[tuple[object, ...]]) -> None:
        rows.sort()  # neighbours in the tree are written together
        self._database.executemany(query, rows)

    def _name(self, text: str, *, is_defined: bool = False) -> int:
        number = self._names.get(text)
        if number is None:
            found = self._database.execute("SELECT id, is_defined FROM name WHERE text = ?", (text,)).fetchone()
            if found is None:
                number = self._database.execute(
                    "INSERT INTO name (text, folded, is_defined) VALUES (?, ?, ?)",
                    (text, folded(text) if is_defined else "", int(is_defined)),
                ).lastrowid
                assert number is not None
                if is_defined:
                    self._defined.add(number)
            else:
                number = found[0]
                if found[1]:
                    self._defined.add(number)
            if len(self._names) >= _NAMES_KEPT_MAX:
                self._names.clear()
                self._defined.clear()
            self._names[text] = number
        if is_defined and number not in self._defined:
            self._database.execute(
                "UPDATE name SET is_defined = 1, folded = ? WHERE id = ? AND NOT is_defined", (folded(text), number)
            )
            self._defined.add(number)
        return number
