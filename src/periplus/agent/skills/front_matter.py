"""Front matter of a skill's file: the subset of YAML that is used there, and nothing else.

    ---
    name: pdf-forms
    description: >-
      Fills in forms. Use it when a PDF
      has fields.
    metadata:
      author: ada
      version: "1.0"
    allowed-tools: [read, edit]
    ---
    # How to …

Supported are plain and quoted texts, texts over several lines (``|`` and ``>``, or indented lines), lists in brackets or with dashes, and
one nested level of names. Anchors, tags, references and braces are errors, since their meaning to other programs is not guessed.
"""

from __future__ import annotations

__all__ = ["Front", "Value", "parse_front"]

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.base.errors import FormatError

Value: TypeAlias = str | tuple[str, ...] | dict[str, str]

HEAD_LINES_MAX: Final = 200
_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,63})[ \t]*:(?:[ \t]+(.*))?$")
_BLOCK: Final = re.compile(r"([|>])([+-]?)[ \t]*(?:#.*)?$")
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_NOT_OURS: Final = "&*!{}%@`"


class Front(NamedTuple):
    """Front matter: ``values`` by name, ``lines`` with the line of each (from 1), and the text after it."""

    values: Mapping[str, Value]
    lines: Mapping[str, int]
    body: str


def parse_front(text: str, path: str) -> Front:
    """Parse front matter and text of a file. Raises FormatError with the wrong line."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise FormatError("it does not begin with front matter between two lines of ---", path=path, line=1,
                          mend="Write --- in the first line, then name: and description:, then --- again.")  # fmt: skip
    end = next((at for at, line in enumerate(lines[: HEAD_LINES_MAX + 1]) if at and line.rstrip() == _FENCE), 0)
    if not end:
        raise FormatError(f"its front matter has no end within {HEAD_LINES_MAX} lines", path=path, line=len(lines[:HEAD_LINES_MAX]),
                          mend="Write a line of --- after the front matter.")  # fmt: skip
    values, places = _Reader(lines[:end], path).read()
    return Front(values, places, "\n".join(lines[end + 1 :]).strip("\n"))


class _Reader:
    """Reads the lines of the front matter in order; ``at`` is the current one."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        self._lines, self._path, self.at = lines, path, 1

    def read(self) -> tuple[dict[str, Value], dict[str, int]]:
        values: dict[str, Value] = {}
        places: dict[str, int] = {}
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if not line.strip() or line.lstrip().startswith("#"):
                self.at += 1
                continue
            if line[0] in " \t":
                raise self._wrong("it is indented deeper than anything it could belong to")
            match = _KEY.match(line)
            if match is None:
                raise self._wrong(f"{line.strip()[:60]!r} is not a line of the form name: value")
            name = match[1]
            if name in values:
                raise self._wrong(f"{name} is given twice")
            places[name] = self.at + 1
            values[name] = self._value((match[2] or "").strip())
        return values, places

    def _value(self, text: str) -> Value:
        """Read the value after a name's colon, and the lines below that belong to it."""
        block = _BLOCK.match(text)
        if block is not None:
            return self._block(is_folded=block[1] == ">", keeps_end=block[2] == "+")
        if text and not text.startswith("#"):
            if text.startswith("["):
                return self._brackets(text)
            found = self._scalar(text)
            more = self._further_in()
            if more and text[0] in "\"'":
                raise self._wrong("a quoted text ends in the line in which it begins", back=len(more))
            return " ".join([found, *(self._comment_off(line.strip()) for line in more)]).strip()
        self.at += 1
        if self._next_begins_with("-"):
            return self._dashes()
        return self._names()

    def _scalar(self, text: str) -> str:
        """Read the text of one line and move ``at`` past it."""
        if text[0] in "\"'":
            found = self._quoted(text)
        elif text[0] in _NOT_OURS:
            raise self._wrong(
                f"it begins with {text[0]!r}, which means something else in YAML", mend="Put the text in quotes."
            )
        else:
            found = self._comment_off(text)
        self.at += 1
        return found

    def _quoted(self, text: str) -> str:
        quote = text[0]
        pieces: list[str] = []
        at = 1
        while at < len(text):
            char = text[at]
            if quote == "'" and text.startswith("''", at):
                at += 1  # a quote is written twice
            elif char == quote:
                break
            elif quote == '"' and char == "\\":
                at += 1
                if at >= len(text) or text[at] not in _ESCAPES:
                    raise self._wrong("a backslash in quotes begins an unknown escape")
                char = _ESCAPES[text[at]]
            pieces.append(char)
            at += 1
        if at >= len(text):
            raise self._wrong("a quoted text has no end in its line")
        if text[at + 1 :].strip() and not text[at + 1 :].lstrip().startswith("#"):
            raise self._wrong("there is more after a quoted text")
        return "".join(pieces)

    def _comment_off(self, text: str) -> str:
        return re.split(r"[ \t]#", text, maxsplit=1)[0].rstrip()

    def _brackets(self, text: str) -> tuple[str, ...]:
        inside, closed, rest = text[1:].rpartition("]")
        if not closed or (rest.strip() and not rest.lstrip().startswith("#")) or "[" in inside:
            raise self._wrong("a list in brackets ends in its line, and holds texts only")
        items = [one.strip() for one in inside.split(",")] if inside.strip() else []
        found = tuple(self._quoted(one) if one[:1] in ("'", '"') else one for one in items)
        self.at += 1
        return tuple(one for one in found if one)

    def _dashes(self) -> tuple[str, ...]:
        found = []
        while self._next_begins_with("-"):
            text = self._lines[self.at].strip()[1:].strip()
            if not text:
                raise self._wrong("a dash with nothing after it")
            found.append(self._scalar(text))
        return tuple(found)

    def _names(self) -> Value:
        found: dict[str, str] = {}
        while self.at < len(self._lines) and self._lines[self.at][:1] in (" ", "\t"):
            line = self._lines[self.at].strip()
            if not line or line.startswith("#"):
                self.at += 1
                continue
            match = _KEY.match(line)
            if match is None:
                raise self._wrong(f"{line[:60]!r} is not a line of the form name: value")
            value = (match[2] or "").strip()
            if _BLOCK.match(value) or not value:
                raise self._wrong(f"{match[1]} holds more than a text, which no head needs this far in")
            found[match[1]] = self._scalar(value)
        return found or ""

    def _block(self, *, is_folded: bool, keeps_end: bool) -> str:
        self.at += 1
        rows = self._rows_further_in()
        depth = min((len(row) - len(row.lstrip()) for row in rows if row.strip()), default=0)
        cut = [row[depth:].rstrip() for row in rows]
        while cut and not cut[-1]:
            cut.pop()
        if not is_folded:
            return "\n".join(cut) + ("\n" if keeps_end else "")
        return "\n".join(" ".join(part) for part in _paragraphs(cut))

    def _further_in(self) -> list[str]:
        """The indented lines below, which continue a plain text."""
        return [row for row in self._rows_further_in() if row.strip()]

    def _rows_further_in(self) -> list[str]:
        found = []
        while self.at < len(self._lines) and (
            self._lines[self.at][:1] in (" ", "\t") or not self._lines[self.at].strip()
        ):
            found.append(self._lines[self.at])
            self.at += 1
        return found

    def _next_begins_with(self, mark: str) -> bool:
        return self.at < len(self._lines) and self._lines[self.at].lstrip()[:2] in (mark, mark + " ")

    def _wrong(self, what: str, *, mend: str = "", back: int = 0) -> FormatError:
        return FormatError(what, path=self._path, line=self.at + 1 - back, mend=mend)


def _paragraphs(rows: Sequence[str]) -> list[list[str]]:
    """Fold lines: consecutive lines become one, an empty line starts the next."""
    found: list[list[str]] = [[]]
    for row in rows:
        if row:
            found[-1].append(row)
        elif found[-1]:
            found.append([])
    return [part for part in found if part]
