"""Definitions of files from the index, where it has their contents: reading them there takes a fraction of the time of a parse.

Facts depend on the contents alone, so they are looked up by the digest of the contents: nothing has to be brought up to date for it.
"""

from __future__ import annotations

__all__ = ["KnownSymbols"]

import os
from typing import TYPE_CHECKING, Final

from periplus.code.symbols import Symbols, symbols_in, symbols_of

if TYPE_CHECKING:
    from periplus.code.model import Facts

_WAIT_S: Final = 0.05
_FACTS: Final = "SELECT facts FROM blob WHERE oid = ? AND language = ? AND extractor = ? AND facts IS NOT NULL"


class KnownSymbols:
    """As `symbols_of`, which answers where the file ``index`` is not there, or does not have the contents."""

    def __init__(self, index: str) -> None:
        self._index = index

    def __call__(self, path: str, data: bytes) -> Symbols:
        """Return the definitions in ``data``, the contents of a file called ``path``. Raises nothing, whatever it holds."""
        facts = self._facts(path, data) if os.path.exists(self._index) else None
        if facts is None:
            return symbols_of(path, data)
        return Symbols(facts.language, symbols_in(facts), facts.has_errors)

    def _facts(self, path: str, data: bytes) -> Facts | None:
        import sqlite3

        from periplus.code.index.parsing import extractor_version
        from periplus.code.languages.registry import language_key, row_of
        from periplus.code.listing import blob_id
        from periplus.code.model import decode_facts

        row = row_of(path)
        if row is None:
            return None
        escaped = self._index.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        try:
            db = sqlite3.connect(f"file:{escaped}?mode=ro", uri=True, timeout=_WAIT_S, isolation_level=None)
        except sqlite3.Error:
            return None
        try:
            values = (bytes.fromhex(blob_id(data)), language_key(row), extractor_version(row))
            found = db.execute(_FACTS, values).fetchone()
            facts = decode_facts(found[0]) if found is not None else None
            if facts is not None:
                facts.definitions()  # damage is found here
        except (sqlite3.Error, ValueError, IndexError, TypeError):  # damage: the file itself is asked
            return None
        else:
            return facts
        finally:
            db.close()
