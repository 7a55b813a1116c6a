"""The rows of the table of languages by the names of files; a row is loaded when a file asks for it."""

from __future__ import annotations

__all__ = ["LANGUAGE_NAMES", "language_key", "language_rows", "row_keyed", "row_named", "row_of"]

import importlib
import os
from typing import Final

from periplus.code.languages.table import Language

_ROWS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), ("python", "PYTHON")),
    **dict.fromkeys((".js", ".cjs", ".jsx", ".mjs"), ("script", "JAVASCRIPT")),
    **dict.fromkeys((".ts", ".cts", ".mts"), ("script", "TYPESCRIPT")),
    ".tsx": ("script", "TSX"),
    ".java": ("java", "JAVA"),
    ".go": ("go", "GO"),
    ".rs": ("rust", "RUST"),
}
LANGUAGE_NAMES: Final = ("go", "java", "javascript", "python", "rust", "typescript")


def row_of(path: str) -> Language | None:
    """Return the row for a file by its name; None where no language is known."""
    entry = _ROWS.get(os.path.splitext(path)[1].lower())
    return _load(entry) if entry is not None else None


def language_key(row: Language) -> str:
    """Return the name under which the index keeps the facts of a language; TSX has its own."""
    return row.name if row.entry in ("language", f"language_{row.name}") else f"{row.name}:{row.entry}"


def row_keyed(key: str) -> Language | None:
    """Return the row with this `language_key`."""
    return next((row for row in language_rows().values() if language_key(row) == key), None)


def row_named(name: str) -> Language | None:
    """Return the row of the language ``name``."""
    return next((row for row in language_rows().values() if row.name == name), None)


def language_rows() -> dict[str, Language]:
    """Return all rows by the extensions of their files."""
    return {extension: _load(entry) for extension, entry in _ROWS.items()}


def _load(entry: tuple[str, str]) -> Language:
    module = importlib.import_module(f"periplus.code.languages.{entry[0]}")
    row: Language = getattr(module, entry[1])
    return row
