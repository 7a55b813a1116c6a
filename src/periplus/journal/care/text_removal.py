r"""Search for a text and its removal, in all spellings that JSON allows. Pure, except for reading the files to search.

Within quotes, JSON may write a character as itself or escaped (RFC 8259 §7), and writers differ: by default Python writes ``\u00fc`` for
"ü", PHP ``\/`` for "/", others ``\u002b`` for "+". Our own JSON is canonical, but foreign texts are kept as they came: files of a migrated
store, arguments of tools, JSON within JSON within JSON, where each level doubles the backslashes.
"""

from __future__ import annotations

__all__ = ["MASK", "SECRET_BYTES_MAX", "SECRET_BYTES_MIN", "Needle"]

import re
from functools import cache
from typing import Final

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import UsageError
from periplus.base.files import read_plain

SECRET_BYTES_MIN: Final = 4
SECRET_BYTES_MAX: Final = 64 * 1024
MASK: Final = "[redacted]"
_PIECE_BYTES: Final = 1 << 22
_ESCAPED_BYTES_MAX: Final = 26  # for one character: two surrogates of six bytes, each with seven more backslashes
_SHORT: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_OFTEN_ESCAPED: Final = frozenset("\"\\/<>&'+`=\x7f")  # beside control and non-ASCII characters


class Needle:
    """The forms in which a text may appear in a file: plain, and as JSON writers encode it."""

    def __init__(self, secret: str) -> None:
        plain = secret.encode()
        if not SECRET_BYTES_MIN <= len(plain) <= SECRET_BYTES_MAX:
            raise UsageError(
                f"the text to redact has {len(plain):,} bytes; between {SECRET_BYTES_MIN} and {SECRET_BYTES_MAX:,} can be redacted",
                safe="Nothing was changed.",
                mend="A shorter one would stand in half of all records: name those records with --seq.",
            )
        self.text = secret
        once = canonical(secret)[1:-1].decode()
        line = " ".join(secret.split())  # as in a summary
        self._texts = tuple(
            dict.fromkeys(text for text in (secret, once, line) if len(text.encode()) >= SECRET_BYTES_MIN)
        )
        forms = [form for text in self._texts for form in (text.encode(), canonical(text)[1:-1])]
        self._forms = tuple(dict.fromkeys(forms))
        self._bytes_max = max(map(len, self._forms))
        self._in_text: re.Pattern[str] | None = None
        self._in_bytes: re.Pattern[bytes] | None = None
        if any(map(_is_escaped_by_some, secret)):
            pattern = "|".join("".join(map(_spellings, text)) for text in dict.fromkeys((secret, line)) if text)
            self._in_text, self._in_bytes = re.compile(pattern), re.compile(pattern.encode())
            self._bytes_max = max(self._bytes_max, _ESCAPED_BYTES_MAX * len(secret))
        self._anchor = max(_unescaped(secret), key=len).encode()  # stands in every form

    def is_in(self, data: bytes) -> bool:
        if any(form in data for form in self._forms):
            return True
        if self._in_bytes is None or b"\\" not in data or self._anchor not in data:
            return False
        return self._in_bytes.search(data) is not None

    def is_in_file(self, path: str) -> bool:
        """Return True if a file of any size holds the secret; False if it was removed since it was listed."""
        offset = 0
        try:
            while piece := read_plain(path, _PIECE_BYTES + self._bytes_max - 1, offset):
                if self.is_in(piece):
                    return True
                offset += _PIECE_BYTES
        except OSError:
            return False
        return False

    def blotted(self, data: bytes) -> bytes:
        """Return ``data`` with the secret overwritten, in the same length."""
        for form in self._forms:
            data = data.replace(form, b"x" * len(form))
        return data if self._in_bytes is None else self._in_bytes.sub(lambda found: b"x" * len(found[0]), data)

    def masked_text(self, text: str) -> str:
        for one in self._texts:
            text = text.replace(one, MASK)
        return text if self._in_text is None else self._in_text.sub(MASK, text)

    def masked(self, value: JSONValue) -> JSONValue:
        """Return ``value`` with a mark in place of the secret, in keys too."""
        if isinstance(value, str):
            return self.masked_text(value)
        if isinstance(value, dict):
            return {str(self.masked(key)): self.masked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.masked(item) for item in value]
        return value


def _is_escaped_by_some(character: str) -> bool:
    return not " " <= character <= "~" or character in _OFTEN_ESCAPED


def _unescaped(text: str) -> list[str]:
    """Return the parts of ``text`` that every writer leaves unescaped; at least one, perhaps empty."""
    return "".join("\0" if _is_escaped_by_some(one) else one for one in text).split("\0")


@cache
def _spellings(character: str) -> str:
    """Return a pattern for the spellings of a character in JSON, nested as deeply as is common."""
    plain = re.escape(character)
    if not _is_escaped_by_some(character):
        return plain
    if character in _SHORT:
        return rf"(?:{plain}|\\{{1,8}}(?:{_SHORT[character]}|{_code(character)}))"
    if character in '"/':
        return rf"(?:\\{{0,8}}{plain}|\\{{1,8}}{_code(character)})"
    if character == "\\":
        return rf"(?:\\{{1,8}}{_code(character)}|\\{{1,8}})"
    units = character.encode("utf-16-be", "surrogatepass")
    halves = [units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in range(0, len(units), 2)]
    escaped = "".join(r"\\{1,8}" + _code(half) for half in halves)
    return f"(?:{plain}|{escaped})"


def _code(unit: str) -> str:
    return "u" + "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(unit):04x}")
