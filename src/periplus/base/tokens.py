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
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS: Final = b"0123456789"
_PRINTED: Final = bytes(range(33, 127))
_PRINTED_OR_SPACE: Final = bytes(range(32, 127))
_GAPS: Final = b"\t\n\v\f\r\x1c\x1d\x1e\x1f"  # white space but for the space


def _only(kept: bytes) -> bytes:
    """A table for translate: what is in ``kept`` stays, all else is a space."""
    return bytes(byte if byte in kept else 0x20 for byte in range(256))


_ONLY_LETTERS: Final = _only(_LETTERS)
_ONLY_DIGITS: Final = _only(_DIGITS)
_ONLY_MARKS: Final = _only(_PRINTED.translate(None, _LETTERS + _DIGITS))
_ONLY_SPACE: Final = bytes(0x73 if byte == 0x20 else 0x77 if byte in _GAPS else 0x20 for byte in range(256))


def estimate_tokens(text: str) -> int:
    """Tokens that ``text`` takes in a model's context, estimated; 0 for the empty text only."""
    quarters = _of_ascii(text.encode()) if text.isascii() else None
    if quarters is None:
        quarters = _of_pieces(text)
    return max((quarters + 3) // 4, 1 if text else 0)


def _of_ascii(data: bytes) -> int | None:
    """The same as ``_of_pieces`` kind by kind, in a fifth of the time; None where there are control characters."""
    quarters = 0
    odd = data.translate(None, _PRINTED_OR_SPACE)
    if odd or b"  " in data:
        if odd.translate(None, _GAPS):
            return None
        quarters = sum([2 + len(gap) // 4 for gap in data.translate(_ONLY_SPACE).split() if gap != b"s"])
    words = data.translate(_ONLY_LETTERS).split()
    if not data.islower():
        humped = [word for word in words if not (word.islower() or word[1:].islower())]
        if humped:
            words = [word for word in words if word.islower() or word[1:].islower()]
            quarters += sum([_of_pieces(word.decode()) for word in humped])
    long = [len(word) - 6 for word in words if len(word) > 6]
    quarters += 4 * len(words) + sum(long)
    if long and max(long) > 14:
        quarters += 2 * sum([over - 14 for over in long if over > 14])
    numbers = data.translate(_ONLY_DIGITS).split()
    if numbers:
        quarters += 4 * sum([(len(number) + 2) // 3 for number in numbers])
    marks = data.translate(_ONLY_MARKS).split()
    if marks and max(map(len, marks)) > 4:
        return quarters + sum([_of_pieces(mark.decode()) for mark in marks])
    return quarters + 2 * len(marks) + 2 * len(b"".join(marks))


def _of_pieces(text: str) -> int:
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
    return quarters
