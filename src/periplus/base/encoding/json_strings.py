"""End of a JSON string in incomplete data (RFC 8259, section 7)."""

from __future__ import annotations

__all__ = ["CHARACTERS", "end_of_characters"]

import re
from typing import Final

CHARACTERS: Final = rb'(?>[^"\\]*+(?:\\.[^"\\]*+){0,1000})'
"""Characters of a text as a pattern, with ``re.DOTALL``; at most 1,000 escapes, for each repetition in an atomic group takes memory."""
_CHARACTERS: Final = re.compile(CHARACTERS, re.DOTALL)


def end_of_characters(data: bytes, at: int) -> int:
    """Return the place of the closing quote of the string whose characters begin at ``at``. In incomplete data return
    the place at which to resume: the end of the data, or its last byte where that is a backslash.
    """
    while True:
        found = _CHARACTERS.match(data, at)
        assert found is not None, "it matches nothing as well"
        at = found.end()
        if len(data) - at <= 1 or data[at] == 0x22:
            return at
