"""Problems found by an examination of a store."""

from __future__ import annotations

__all__ = ["Problem", "Severity", "byte_in"]

import re
from typing import Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple

Severity: TypeAlias = Literal["error", "warning", "note"]
_BYTE: Final = re.compile(r"\bbyte (\d+)\b")  # as in messages of the JSON decoder


class Problem(NamedTuple):
    """A problem, its place (``offset`` in bytes, −1 if it has none; ``seq`` likewise 0) and what to do."""

    severity: Severity
    what: str
    path: str = ""
    offset: int = -1
    seq: int = 0
    mend: str = ""


def byte_in(what: str) -> int:
    """Return the byte offset that a text mentions, −1 if none."""
    named = _BYTE.search(what)
    return -1 if named is None else int(named[1])
