r"""Patterns of the search tool: one small dialect, parsed here and written out for Python's ``re`` and for ripgrep.

Two engines with their own dialects would answer one question in two ways. So only what both do alike is accepted: characters, classes,
``.``, groups, ``|``, repetitions, ``^``, ``$``, ``\b`` and a leading ``(?i)``. A pattern matches within one line. Classes like ``\w`` are
ASCII, case-insensitive letters are written out as classes, and bytes that are not text match nothing. Everything else (back references,
lookaround, properties) is an error that names the place.
"""

from __future__ import annotations

__all__ = ["PATTERN_CHARS_MAX", "Pattern", "PatternError"]

from typing import Final, NamedTuple

from periplus.base.errors import UsageError

PATTERN_CHARS_MAX: Final = 1_000
_SIZE_MAX: Final = 20_000
_REPEAT_MAX: Final = 1_000
_DEPTH_MAX: Final = 40
_ESCAPED: Final = {"t": "\t", "r": "\r", "f": "\x0c", "v": "\x0b"}
_CLASSES: Final = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 9), (11, 13), (32, 32)),
}
_NO_TEXT: Final = "\\udc80-\\udcff"  # surrogateescape forms of bytes that are not UTF-8

_Ranges = tuple[tuple[int, int], ...]


class PatternError(UsageError):
    """An invalid pattern; the message names the place."""

    code = "pattern"


class _Piece(NamedTuple):
    """A part of a pattern in both dialects; ``size`` is its size with repetitions written out."""

    python: str
    rust: str
    size: int


class Pattern(NamedTuple):
    """A parsed pattern. ``literal`` is its text if it is plain text, else None."""

    text: str
    python: str
    rust: str
    literal: str | None

    @classmethod
    def parse(cls, text: str, *, is_literal: bool = False, ignores_case: bool = False) -> Pattern:
        """Parse a pattern. Raises PatternError."""
        if not 0 < len(text) <= PATTERN_CHARS_MAX:
            raise PatternError(
                f"a pattern has 1 to {PATTERN_CHARS_MAX:,} characters, not {len(text):,}", mend="Write another one."
            )
        for place, char in enumerate(text):
            if char in "\n\0" or 0xD800 <= ord(char) <= 0xDFFF:
                raise _wrong(text, place, "a pattern matches within one line of text")
        reader = _Reader(text, ignores_case=ignores_case)
        piece = reader.literal() if is_literal else reader.whole()
        is_plain = (is_literal or not set(text) & set("\\^$.|?*+()[]{}")) and not ignores_case
        return cls(text, piece.python, piece.rust, text if is_plain else None)


class _Reader:
    def __init__(self, text: str, *, ignores_case: bool) -> None:
        self._text, self._ignores_case = text, ignores_case
        self._at = 0

    def literal(self) -> _Piece:
        return _joined([self._char(char) for char in self._text])

    def whole(self) -> _Piece:
        if self._text.startswith("(?i)"):
            self._ignores_case = True
            self._at = 4
        piece = self._branches(0)
        if self._at < len(self._text):
            raise self._error("a ) that nothing opens")
        return piece

    def _branches(self, depth: int) -> _Piece:
        if depth > _DEPTH_MAX:
            raise self._error(f"groups over {_DEPTH_MAX} deep")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        return _Piece(
            "|".join(one.python for one in branches), "|".join(one.rust for one in branches),
            sum(one.size for one in branches),
        )  # fmt: skip

    def _sequence(self, depth: int) -> _Piece:
        pieces = []
        while (char := self._peek()) not in ("", "|", ")"):
            pieces.append(self._repeated(self._atom(char, depth)))
        return _joined(pieces)

    def _atom(self, char: str, depth: int) -> _Piece:
        start = self._at
        self._at += 1
        if char == "(":
            if self._text.startswith("?:", self._at):
                self._at += 2
            elif self._peek() == "?":
                raise self._error("(?…) other than (?:…), and (?i) in front, is not known here")
            inner = self._branches(depth + 1)
            if self._peek() != ")":
                self._at = start
                raise self._error("a ( that nothing closes")
            self._at += 1
            return _Piece(f"(?:{inner.python})", f"(?:{inner.rust})", inner.size)
        if char == "[":
            return self._class(start)
        if char == ".":
            return _class_piece((), is_negated=True)
        if char == "^":
            return _Piece("^", "^", 1)
        if char == "$":
            return _Piece(r"(?:\r?\Z)", r"(?:\r?$)", 1)
        if char == "\\":
            return self._escape()
        if char in "*+?" or (char == "{" and self._bounds(start) is not None):
            self._at = start
            raise self._error("there is nothing before it to repeat")
        return self._char(char)

    def _escape(self) -> _Piece:
        char = self._peek()
        self._at += 1
        if char == "b":
            return _Piece(r"\b", r"(?-u:\b)", 1)
        if char.lower() in _CLASSES and char:
            return _class_piece(_CLASSES[char.lower()], is_negated=char.isupper())
        self._at -= 1
        return self._char(self._escaped_char())

    def _escaped_char(self) -> str:
        char = self._peek()
        if not char:
            raise self._error("a \\ at the end")
        self._at += 1
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char in "xu":
            digits = self._text[self._at : self._at + (2 if char == "x" else 4)]
            if len(digits) == (2 if char == "x" else 4) and all(one in "0123456789abcdefABCDEF" for one in digits):
                code = int(digits, 16)
                if code not in (0, 10) and not 0xD800 <= code <= 0xDFFF:
                    self._at += len(digits)
                    return chr(code)
        if char.isalnum():
            self._at -= 2
            raise self._error(f"\\{char} is not known here")
        return char

    def _repeated(self, atom: _Piece) -> _Piece:
        char = self._peek()
        start = self._at
        if char and char in "*+?":
            self._at += 1
            mark, most = char, 2
        elif char == "{" and (bounds := self._bounds(start)) is not None:
            least, top, self._at = bounds
            if max(least, top) > _REPEAT_MAX or (0 <= top < least):
                self._at = start
                raise self._error(f"repetitions are {{least,most}}, at most {_REPEAT_MAX:,}")
            mark = self._text[start : self._at].replace("{,", "{0,")
            most = max(least, top, 1)
        else:
            return atom
        if self._peek() == "?":
            self._at += 1
        if (following := self._peek()) and following in "*+?":
            raise self._error("a repetition of a repetition: put the inner one in (?:…)")
        size = atom.size * most
        if size > _SIZE_MAX:
            raise self._error(f"its repetitions come to over {_SIZE_MAX:,}")
        return _Piece(f"(?:{atom.python}){mark}", f"(?:{atom.rust}){mark}", size)

    def _bounds(self, start: int) -> tuple[int, int, int] | None:
        """Least, most (-1: no limit) and the end of ``{…}``; None if it is only a brace."""
        end = self._text.find("}", start, start + 12)
        inner = self._text[start + 1 : end] if end > 0 else ""
        least, comma, most = inner.partition(",")
        if not all(one.isascii() and (one.isdigit() or not one) for one in (least, most)) or not (least or most):
            return None
        return int(least or 0), (int(most) if most else -1) if comma else int(least), end + 1

    def _class(self, start: int) -> _Piece:
        is_negated = self._peek() == "^"
        self._at += is_negated
        ranges: list[tuple[int, int]] = []
        is_first = True
        while (char := self._peek()) != "]" or is_first:
            is_first = False
            if not char:
                self._at = start
                raise self._error("a [ that nothing closes")
            if char == "[" or self._text[self._at : self._at + 2] in ("&&", "--", "~~"):
                raise self._error(f"{char} within [ ]: write \\{char}")
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in tuple(_CLASSES):
                ranges += _CLASSES[self._text[self._at + 1]]
                self._at += 2
                continue
            low = self._class_char()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._class_char()
                if high < low:
                    raise self._error("a range whose end comes before its start")
                ranges.append((low, high))
            else:
                ranges.append((low, low))
        self._at += 1
        return _class_piece(tuple(self._folded(ranges)), is_negated=is_negated)

    def _class_char(self) -> int:
        char = self._peek()
        self._at += 1
        return ord(self._escaped_char() if char == "\\" else char)

    def _char(self, char: str) -> _Piece:
        ranges = self._folded([(ord(char), ord(char))])
        return _class_piece(tuple(ranges), is_negated=False)

    def _folded(self, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Add the other case of each letter if case is ignored; long ranges beyond ASCII stay case-sensitive."""
        if not self._ignores_case:
            return ranges
        more = []
        for low, high in ranges:
            for code in range(low, min(high, low + 512) + 1):
                others = (chr(code).lower(), chr(code).upper())
                more += [(ord(other), ord(other)) for other in others if len(other) == 1]
        return sorted({*ranges, *more})

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _error(self, why: str) -> PatternError:
        return _wrong(self._text, self._at, why)


def _wrong(text: str, place: int, why: str) -> PatternError:
    shown = text if len(text) <= 80 else text[:80] + "…"
    return PatternError(
        f"the pattern {shown!r}, character {place + 1}: {why}",
        mend="Fix it, or set literal=true to search for the text as it is.",
    )


def _joined(pieces: list[_Piece]) -> _Piece:
    return _Piece(
        "".join(one.python for one in pieces), "".join(one.rust for one in pieces), sum(one.size for one in pieces)
    )


def _class_piece(ranges: _Ranges, *, is_negated: bool) -> _Piece:
    inner = "".join(_char_text(low) if low == high else f"{_char_text(low)}-{_char_text(high)}" for low, high in ranges)
    if is_negated:
        return _Piece(f"[^\\n{inner}{_NO_TEXT}]", f"[^\\n{inner}]", 1)
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _Piece(inner, inner, 1)
    return _Piece(f"[{inner}]", f"[{inner}]", 1)


def _char_text(code: int) -> str:
    """A character as both dialects write it, inside a class and outside."""
    char = chr(code)
    if char.isascii():
        return char if char.isalnum() else f"\\x{code:02x}"
    return char
