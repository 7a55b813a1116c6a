"""An estimate of model tokens that needs no vocabulary.

Calibrated by kind of byte: ASCII letters come in words, of which an identifier has one for each hump (about 4.2 bytes a
token in prose and code, fewer in long words and in capitals), digits three a token, punctuation and symbols mostly alone or in
pairs, other scripts by their UTF-8 bytes (CJK about 3 bytes a token), and what UTF-8 needs four bytes for (emoji) about 3 tokens
a character. The estimate leans high, so that a budget kept by it is mostly kept in truth. How far it is off, measured against two
common byte-pair vocabularies, stands in ``context.counters`` and is held by a test there.
"""

from __future__ import annotations

__all__ = ["estimate_tokens"]

import re
from typing import Final

_PIECE: Final = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[0-9]+|\s+|[^\x00-\x7f]+|[!-/:-@\[-`{-~]+|[\x00-\x1f\x7f]+"
)
_RULES: Final = "-=#*_~/."  # of which lines are drawn


def estimate_tokens(text: str) -> int:
    """Tokens that ``text`` takes in a model's context, estimated; 0 for the empty text only."""
    quarters = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        length = len(piece)
        first, last = piece[0], piece[-1]
        if first.isspace():
            quarters += 0 if piece == " " else 2 + length // 4
        elif not first.isascii():
            astral = len(piece.encode("utf-16-le", "replace")) // 2 - length
            quarters += (len(piece.encode("utf-8", "replace")) * 4 + 2) // 3 + 7 * astral
        elif last.islower():
            quarters += 4 + max(0, length - 6) + 2 * max(0, length - 20)
        elif last.isupper():
            quarters += 4 + 2 * max(0, length - 5)
        elif last.isdigit():
            quarters += 4 * ((length + 2) // 3)
        elif length > 4 and first in _RULES and piece.count(first) == length:
            quarters += 4 + length // 2
        else:
            quarters += 2 + 2 * length
    return max((quarters + 3) // 4, 1 if text else 0)
