"""Tokens of JSON5 (spec.json5.org) beyond those of JSON: names, strings in either quotes, numbers, blanks and line ends."""

from __future__ import annotations

__all__ = ["BLANKS", "LINE_END", "read_name", "read_number", "read_string"]

import json
import math
import re
from typing import Final, NamedTuple

BLANKS: Final = re.compile("[ \t\r\n\v\f\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*")
LINE_END: Final = re.compile("[\n\r\u2028\u2029]|\\Z")
_STRING: Final = re.compile(
    r'"(?>(?:[^"\\\n\r]|\\(?:\r\n|.))*)"' + r"|'(?>(?:[^'\\\n\r]|\\(?:\r\n|.))*)'",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_NUMBER: Final = re.compile(
    r"([+-]?)(?:(Infinity|NaN)|0[xX]([0-9a-fA-F]+)|((?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?))"
    r"(?![\w$.])"
)
_UNICODE: Final = r"\\u[0-9a-fA-F]{4}"
_NAME: Final = re.compile(rf"(?:[$_]|[^\W\d]|{_UNICODE})(?>(?:[$\w\u200c\u200d]|{_UNICODE})*)")
_PLAIN: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_CONTINUED: Final = ("\n", "\r", "\r\n", "\u2028", "\u2029")
_NAN: Final = math.nan  # the same object each time: values are compared, and it equals nothing else


class Token(NamedTuple):
    """A value, and the place behind it."""

    value: str | int | float
    end: int


def read_string(text: str, at: int) -> Token | None:
    """Return the string at a place; None where there is none, or one with an escape that JSON5 does not know."""
    found = _STRING.match(text, at)
    if found is None:
        return None
    inner = found.group()[1:-1]
    if re.search(r"\\(?:[1-9]|0[0-9]|x(?![0-9a-fA-F]{2})|u(?![0-9a-fA-F]{4}))", re.sub(r"\\\\", "", inner)):
        return None
    return Token(_joined(_ESCAPE.sub(_unescaped, inner)), found.end())


def read_name(text: str, at: int) -> Token | None:
    """Return the name at a place, as it stands for a key without quotes."""
    found = _NAME.match(text, at)
    return Token(_joined(_ESCAPE.sub(_unescaped, found.group())), found.end()) if found is not None else None


def read_number(text: str, at: int, characters_max: int) -> Token | None:
    """Return the number at a place; None where there is none, or one of more than ``characters_max`` characters."""
    found = _NUMBER.match(text, at)
    if found is None or found.end() - at > characters_max:
        return None
    sign, word, digits, decimal = found.groups()
    value: int | float
    if word is not None:
        value = _NAN if word == "NaN" else math.inf
    elif digits is not None:
        value = int(digits, 16)
    else:
        value = json.loads(decimal) if decimal.isdigit() else float(decimal)
    return Token(-value if sign == "-" and value is not _NAN else value, found.end())


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code is not None:
        return chr(int(code, 16))
    return "" if found[3] in _CONTINUED else _PLAIN.get(found[3], found[3])


def _joined(text: str) -> str:
    """Join the halves of characters beyond the first plane."""
    if not any("\ud800" <= one <= "\udfff" for one in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
