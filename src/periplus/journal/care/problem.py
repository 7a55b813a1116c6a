"""What an examination of a store finds."""

from __future__ import annotations

__all__ = ["Problem", "Severity", "byte_in"]

import re
from typing import Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple

Severity: TypeAlias = Literal["error", "warning", "note"]
_BYTE: Final = re.compile(r"\bbyte (\d+)\b")  # as the decoder of JSON says where it stopped


class Problem(NamedTuple):
    """What is wrong, where (``offset`` in bytes, −1 where it has none; ``seq`` 0 likewise) and what to do."""

    severity: Severity
    what: str
    path: str = ""
    offset: int = -1
    seq: int = 0
    mend: str = ""


def byte_in(what: str) -> int:
    """The byte that a text speaks of, −1 where it speaks of none."""
    named = _BYTE.search(what)
    return -1 if named is None else int(named[1])
