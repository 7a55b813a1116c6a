"""Estimate of model tokens without a vocabulary.

Calibrated by kind of byte: ASCII letters form words, of which an identifier has one for each hump (about 4.2 bytes
per token in prose and code, fewer in long words and in capitals), digits three to a token, punctuation and symbols
mostly alone or in pairs, other scripts by their UTF-8 bytes (CJK about 3 bytes per token), and characters of four
UTF-8 bytes (emoji) about 3 tokens each. The estimate is rather too high, so that a budget kept by it is mostly kept
in fact. Its error, measured against two common byte-pair vocabularies, is given in ``context.selection.token_counters`` and checked
by a test.
"""

from __future__ import annotations

__all__ = ["estimate_tokens"]

import re
from binascii import unhexlify
from typing import Final

_PIECE: Final = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[0-9]+|\s+|[^\x00-\x7f]+|[!-/:-@\[-`{-~]+|[\x00-\x1f\x7f]+"
)
_RULES: Final = "-=#*_~/."  # characters of ruled lines
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS: Final = b"0123456789"
_PRINTED: Final = bytes(range(33, 127))
_PRINTED_OR_SPACE: Final = bytes(range(32, 127))
_GAPS: Final = b"\t\n\v\f\r\x1c\x1d\x1e\x1f"  # white space except the space


_ONLY_SPACE: Final = bytes(0x73 if byte == 0x20 else 0x77 if byte in _GAPS else 0x20 for byte in range(256))
_LOWER, _UPPER, _DIGIT, _MARK = 1, 2, 4, 8


def _kind(byte: int) -> int:
    if byte in _LETTERS:
        return _LOWER if byte >= 0x61 else _UPPER
    return _DIGIT if byte in _DIGITS else _MARK if byte in _PRINTED else 0


_KINDS: Final = bytes(b"0123456789"[_kind(byte)] for byte in range(256))
_AT_ONCE_BYTES_MAX: Final = 4_096  # an even number; longer text is cut
_ONES: Final = int.from_bytes(b"\x11" * (_AT_ONCE_BYTES_MAX // 2), "big")
_APART: Final = "\x7f"  # stands for non-ASCII text: neither joins a piece nor is joined by one
_OTHER: Final = re.compile(r"[^\x00-\x7f]+")
_OTHER_SPACE: Final = re.compile(r"[^\S\x00-\x7f]")
_RUN_OF_MARKS: Final = re.compile(rb"[!-/:-@\[-`{-~]{5,}")
_NUMBERS_LONG: Final = 8  # times three digits


def estimate_tokens(text: str) -> int:
    """Estimate the tokens that ``text`` takes in a model's context; 0 for the empty text only."""
    quarters = _of_ascii(text.encode()) if text.isascii() else _of_mixed(text)
    if quarters is None:
        quarters = _of_pieces(text)
    return max((quarters + 3) // 4, 1 if text else 0)


def _of_mixed(text: str) -> int | None:
    """Compute the same as ``_of_pieces``: runs of non-ASCII characters are pieces of their own, unless they are white
    space.
    """
    if _APART in text or _OTHER_SPACE.search(text):
        return None
    quarters = _of_ascii(_OTHER.sub(_APART, text).encode(), _APART.encode())
    return None if quarters is None else quarters + sum(map(_of_other, _OTHER.findall(text)))


def _of_other(piece: str) -> int:
    astral = len(piece.encode("utf-16-le", "replace")) // 2 - len(piece)
    return (len(piece.encode("utf-8", "replace")) * 4 + 2) // 3 + 7 * astral


def _of_ascii(data: bytes, apart: bytes = b"") -> int | None:
    """Compute the same as ``_of_pieces``, for all pieces at once; None where there are other bytes, except ``apart``,
    which counts nothing.

    The kinds of the bytes are the digits of one number, the first byte's the highest, so that ``>> 4`` aligns each
    byte with the one before it. In a number of ones, one for each byte that continues the piece of the byte before,
    five ones in a row mean that five bytes of the piece come before: the number of such places is the excess length
    of the pieces.
    """
    if len(data) > _AT_ONCE_BYTES_MAX:
        return _of_long(data, apart)
    quarters = 0
    odd = data.translate(None, _PRINTED_OR_SPACE + apart)
    if odd or b"  " in data:
        if odd.translate(None, _GAPS):
            return None
        quarters = sum([2 + len(gap) // 4 for gap in data.translate(_ONLY_SPACE).split() if gap != b"s"])
    if len(data) & 1:
        data += b" "
    kinds = int.from_bytes(unhexlify(data.translate(_KINDS)), "big")
    lower, upper = kinds & _ONES, kinds >> 1 & _ONES
    digits, marks = kinds >> 2 & _ONES, kinds >> 3 & _ONES
    quarters += 4 * (lower.bit_count() - (lower & lower >> 4).bit_count())
    on = lower & (lower | upper) >> 4
    two = on & on >> 4
    six = two & two >> 8 & two >> 16
    if six:
        quarters += six.bit_count()
        twelve = six & six >> 24
        if twelve:
            quarters += 2 * (twelve & six >> 48 & two >> 72).bit_count()
    if upper:
        quarters += _of_capitals(upper ^ (upper & lower << 4))
    if marks:
        on = marks & marks >> 4
        two = on & on >> 4
        quarters += 4 * marks.bit_count() - 2 * on.bit_count()
        if two & two >> 8:
            for run in _RUN_OF_MARKS.findall(data):
                quarters += _of_pieces(run.decode()) - 2 - 2 * len(run)
    if digits:
        on = digits & digits >> 4
        counted = digits ^ on
        quarters += 4 * counted.bit_count()
        third = on & on >> 4 & on >> 8  # each third digit of a number counts, beginning with the first
        for _ in range(_NUMBERS_LONG if third else 0):
            counted = counted >> 12 & third
            if not counted:
                return quarters
            quarters += 4 * counted.bit_count()
        return None if third else quarters
    return quarters


def _of_long(data: bytes, apart: bytes) -> int | None:
    """Compute the same in parts, each of which begins with white space, so that no piece is cut; None where there is
    no white space.
    """
    quarters = start = 0
    while len(data) - start > _AT_ONCE_BYTES_MAX:
        part = data[start : start + _AT_ONCE_BYTES_MAX]
        part = part[: max(part.rfind(b" "), part.rfind(b"\n"), 0)].rstrip(b" " + _GAPS)
        found = _of_ascii(part, apart) if part else None
        if found is None:
            return None
        quarters += found
        start += len(part)
    found = _of_ascii(data[start:], apart)
    return None if found is None else quarters + found


def _of_capitals(capitals: int) -> int:
    """Count capitals that no small letter follows."""
    on = capitals & capitals >> 4
    two = on & on >> 4
    return 4 * (capitals.bit_count() - on.bit_count()) + 2 * (two & two >> 8 & on >> 16).bit_count()


def _of_pieces(text: str) -> int:
    quarters = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        length = len(piece)
        first, last = piece[0], piece[-1]
        if first.isspace():
            quarters += 0 if piece == " " else 2 + length // 4
        elif not first.isascii():
            quarters += _of_other(piece)
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
