"""Symbols of the code that a text names, and the memory about them or their files."""

from __future__ import annotations

__all__ = ["about_symbols", "symbol_words"]

import re
from collections.abc import Sequence
from typing import Final

from periplus.base.text.search_terms import head_and_tail
from periplus.journal import Journal

_CHARACTERS_MAX: Final = 4_000
_WORDS_MAX: Final = 20
_ROWS_MAX: Final = 50
_OF_FILES_MAX: Final = 5
_WORD: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|#)[A-Za-z_]\w*)*")
_IS_CODE: Final = re.compile(r"\w[.:#]+\w|[a-z0-9]_+[A-Za-z0-9]|^_+[A-Za-z]|[a-z0-9][A-Z]")


def symbol_words(text: str) -> list[str]:
    """Return the words of ``text`` that look like code: ``Class.method``, ``snake_case``, ``CamelCase``; parts joined by dots."""
    found = dict.fromkeys(
        word.replace("::", ".").replace("#", ".")
        for word in _WORD.findall(head_and_tail(text, _CHARACTERS_MAX))
        if _IS_CODE.search(word)
    )
    return list(found)[:_WORDS_MAX]


def about_symbols(journal: Journal, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the memories about symbols, given as file and name (or the end of one), with what they are about: those about the symbols first, then
    a few about their files, the newest of each.
    """
    exact: dict[tuple[str, str], str] = {}
    of_files: dict[tuple[str, str], str] = {}
    others: set[tuple[str, str]] = set()  # about another symbol of the file: it stands at the file, too
    for path, name in places:
        rows = journal.index.db.execute(
            "SELECT path, item_type, item_id FROM touched WHERE item_type <> 'trail' AND (path = ? OR path > ? AND path < ?)"
            " ORDER BY ts DESC, item_id LIMIT ?",
            (path, f"{path}:", f"{path};", _ROWS_MAX),
        ).fetchall()
        for ref, item_type, item_id in rows:
            key, symbol = (str(item_type), str(item_id)), str(ref)[len(path) + 1 :]
            if not symbol:
                of_files.setdefault(key, path)
            elif f".{name}." in f".{symbol}.":
                exact.setdefault(key, str(ref))
            else:
                others.add(key)
    kept = [(key, path) for key, path in of_files.items() if key not in exact and key not in others]
    return exact | dict(kept[:_OF_FILES_MAX])
