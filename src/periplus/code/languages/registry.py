"""The rows of the table of languages by the names of files, and by the interpreter that a script names; a row is loaded when a file asks
for it.
"""

from __future__ import annotations

__all__ = ["LANGUAGE_NAMES", "language_key", "language_rows", "row_keyed", "row_named", "row_of"]

import importlib
import os
import re
from typing import Final

from periplus.code.languages.table import Language

_ROWS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), ("python", "PYTHON")),
    **dict.fromkeys((".js", ".cjs", ".jsx", ".mjs"), ("script", "JAVASCRIPT")),
    **dict.fromkeys((".ts", ".cts", ".mts"), ("script", "TYPESCRIPT")),
    ".tsx": ("script", "TSX"),
    ".java": ("java", "JAVA"),
    **dict.fromkeys((".kt", ".kts"), ("kotlin", "KOTLIN")),
    **dict.fromkeys((".cs", ".csx"), ("csharp", "CSHARP")),
    ".go": ("go", "GO"),
    **dict.fromkeys((".sh", ".bash", ".bats", ".ksh", ".zsh"), ("bash", "BASH")),
    ".rs": ("rust", "RUST"),
    ".swift": ("swift", "SWIFT"),
    **dict.fromkeys((".rb", ".rake", ".gemspec", ".ru", ".rbw", ".podspec", ".jbuilder", ".thor"), ("ruby", "RUBY")),
    ".c": ("clang", "C"),
    ".h": ("clang", "HEADER"),
    **dict.fromkeys(
        (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tpp", ".tcc", ".txx"), ("clang", "CPP")
    ),
    **dict.fromkeys((".php", ".phtml", ".php5", ".php7", ".php8", ".phpt"), ("php", "PHP")),
}
# By the whole name of a file, in lower case, where its extension tells nothing.
_FILENAMES: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ".bashrc .bash_profile .bash_aliases .bash_logout .profile .zshrc .zprofile .zshenv".split(), ("bash", "BASH")
    ),
    **dict.fromkeys(
        "rakefile gemfile guardfile capfile vagrantfile podfile fastfile brewfile dangerfile thorfile".split(),
        ("ruby", "RUBY"),
    ),
}
_INTERPRETERS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys("bash sh dash ash ksh zsh bats".split(), ("bash", "BASH")),
    "node": ("script", "JAVASCRIPT"),
    "php": ("php", "PHP"),
    "python": ("python", "PYTHON"),
    "swift": ("swift", "SWIFT"),
    **dict.fromkeys(("ruby", "jruby", "rake"), ("ruby", "RUBY")),
}
_SHEBANG: Final = re.compile(
    rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*(?:\S*/)?)?([A-Za-z_+-]+)[\d.]*(?:[ \t\r\n]|$)"
)
_SHEBANG_BYTES_MAX: Final = 200
LANGUAGE_NAMES: Final = (
    "bash", "c", "cpp", "csharp", "go", "java", "javascript", "kotlin", "php", "python", "ruby", "rust", "swift", "typescript",
)  # fmt: skip


def row_of(path: str, head: bytes = b"") -> Language | None:
    """Return the row for a file by its name or, for a name without extension, by the interpreter in its first bytes ``head``; None where no
    language is known.
    """
    name = os.path.basename(path)
    extension = os.path.splitext(name)[1].lower()
    entry = _ROWS.get(extension) or _FILENAMES.get(name.lower())
    if entry is None and not extension and head.startswith(b"#!"):
        match = _SHEBANG.match(head[:_SHEBANG_BYTES_MAX])
        entry = _INTERPRETERS.get(match[1].decode("ascii")) if match is not None else None
    return _load(entry) if entry is not None else None


def language_key(row: Language) -> str:
    """Return the name under which the index keeps the facts of a language; TSX and headers of C have their own."""
    if row.choose is not None:
        return f"{row.name}:{row.extensions[0]}"
    return row.name if row.entry in ("language", f"language_{row.name}") else f"{row.name}:{row.entry}"


def row_keyed(key: str) -> Language | None:
    """Return the row with this `language_key`."""
    name = key.partition(":")[0]
    entries = sorted(
        {*_ROWS.values()}, key=lambda entry: (entry[1].lower() != name, entry)
    )  # seldom is more than one loaded
    return next((row for row in map(_load, entries) if language_key(row) == key), None)


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
