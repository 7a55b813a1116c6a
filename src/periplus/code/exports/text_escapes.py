r"""Characters that a format cannot hold, written as ``\u`` and four hexadecimal digits. Two texts never become one.

A path that is not UTF-8 has lone surrogates (PEP 383), which no UTF-8 text holds; XML 1.0 (section 2.2) and diagrams have no
control characters. The backslashes directly before ``u`` or such a character are doubled, so that an odd number of them before
``u`` marks an escape. All other backslashes stay as they are: those of a namespace in PHP, for example.
"""

from __future__ import annotations

__all__ = ["LABEL_CHARACTERS_MAX", "label_text", "plain_text", "unicode_text", "xml_text"]

import re
from typing import Final

LABEL_CHARACTERS_MAX: Final = 120
_SURROGATES: Final = "\ud800-\udfff"
_NOT_IN_XML: Final = f"\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff{_SURROGATES}"
_NOT_PLAIN: Final = f"\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff{_SURROGATES}"


def _pattern(characters: str) -> re.Pattern[str]:
    # The look-behind starts a match only where a run of backslashes begins: a run is read once, however long it is.
    return re.compile(rf"(?<!\\)(?:(\\*)([{characters}])|(\\+)(?=u))")


_UNICODE: Final = _pattern(_SURROGATES)
_XML: Final = _pattern(_NOT_IN_XML)
_PLAIN: Final = _pattern(_NOT_PLAIN)


def unicode_text(text: str) -> str:
    """Return ``text`` without lone surrogates."""
    return text if _needs_none(text) else _UNICODE.sub(_escape, text)


def xml_text(text: str) -> str:
    """Return ``text`` without characters that XML 1.0 excludes; markup is not escaped."""
    return text if _needs_none(text) else _XML.sub(_escape, text)


def plain_text(text: str) -> str:
    """Return ``text`` as one line without control characters."""
    return text if _needs_none(text) else _PLAIN.sub(_escape, text)


def _needs_none(text: str) -> bool:
    return text.isprintable() and "\\" not in text


def label_text(text: str) -> str:
    """Return ``text`` as ``plain_text`` does, without the middle of one that is too long to be drawn."""
    plain = plain_text(text)
    if len(plain) <= LABEL_CHARACTERS_MAX:
        return plain
    half = LABEL_CHARACTERS_MAX // 2
    return f"{plain[:half]}…{plain[-half:]}"


def _escape(found: re.Match[str]) -> str:
    before, character, backslashes = found.groups()
    return f"{before}{before}\\u{ord(character):04x}" if character else backslashes * 2
