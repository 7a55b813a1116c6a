"""The text of a web page: headings, paragraphs, lists, tables and links, without what is not for reading."""

from __future__ import annotations

__all__ = ["text_of_html"]

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

from periplus.agent.tools.web.html_tokenizer import EndTag, StartTag, html_tokens

_SKIPPED: Final = frozenset(
    {"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "canvas", "nav", "footer"}
)
_BLOCKS: Final = frozenset({
    "p", "div", "section", "article", "main", "header", "aside", "blockquote", "ul", "ol", "dl", "dt", "dd", "table", "tr",
    "form", "figure", "figcaption", "hr", "address", "details", "summary", "fieldset",
})  # fmt: skip
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_VOID: Final = frozenset(
    {"br", "img", "hr", "input", "meta", "link", "area", "base", "col", "embed", "source", "track", "wbr"}
)
_DEPTH_MAX: Final = 500
_TITLE_CHARS_MAX: Final = 500
_BLANKS: Final = re.compile(r"[ \t\r\n\f]+")


def text_of_html(html: str, base: str = "") -> tuple[str, str]:
    """The title and the text, links as ``text (address)``. Never raises: pages are broken in every way."""
    reader = _Reader(base)
    for token in html_tokens(html):
        reader.take(token)
    lines = [line.rstrip() for line in "".join(reader.out).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return _BLANKS.sub(" ", reader.title).strip(), text


class _Reader:
    """Puts the text of the tokens that it takes, in order, into ``out``."""

    def __init__(self, base: str) -> None:
        self.out: list[str] = []
        self.title = ""
        self._base = base
        self._skipped: list[str] = []
        self._is_title = False
        self._verbatim = 0
        self._link = ""
        self._link_at = 0
        self._lists: list[int] = []  # -1: bullets, else the number of the item
        self._row = ""  # the end of the last output

    def take(self, token: StartTag | EndTag | str) -> None:
        if isinstance(token, str):
            self._text(token)
        elif isinstance(token, EndTag):
            self._end(token.name)
        else:
            self._start(token.name, token.attributes)
            if token.is_closed:
                self._end(token.name)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "title":
            self._is_title = True
        if self._skipped or tag in _SKIPPED:
            if tag not in _VOID and len(self._skipped) < _DEPTH_MAX:
                self._skipped.append(tag)
            return
        if tag in _HEADINGS:
            self._break(2)
            self._put(f"{_HEADINGS[tag]} ")
        elif tag == "br":
            self._put("\n")
        elif tag == "pre":
            self._break(2)
            self._put("```\n")
            self._verbatim += 1
        elif tag == "li":
            self._item()
        elif tag in ("ul", "ol"):
            self._break(1 if self._lists else 2)
            if len(self._lists) < _DEPTH_MAX:
                self._lists.append(0 if tag == "ol" else -1)
        elif tag in ("td", "th"):
            if not self._row.endswith("\n"):
                self._put(" | ")
        elif tag == "tr":
            self._break(1)
        elif tag in _BLOCKS:
            self._break(2)
        elif tag == "a":
            self._link, self._link_at = attributes.get("href", ""), len(self.out)
        elif tag == "img" and attributes.get("alt"):
            self._put(f"[{attributes['alt']}]")

    def _end(self, tag: str) -> None:
        if tag == "title":
            self._is_title = False
        if self._skipped:
            if tag in self._skipped:
                while self._skipped.pop() != tag:
                    pass
            return
        if tag == "pre" and self._verbatim:
            self._verbatim -= 1
            self._break(1)
            self._put("```\n")
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._break(1)
        elif tag == "a" and self._link:
            self._end_link()
        elif tag in _HEADINGS or (tag in _BLOCKS and tag not in ("tr", "table")):
            self._break(2)

    def _text(self, data: str) -> None:
        if self._is_title:
            self.title = (self.title + data)[:_TITLE_CHARS_MAX]
        if self._skipped:
            return
        if self._verbatim:
            self._put(data)
            return
        text = _BLANKS.sub(" ", data)
        if not self.out or self._row.endswith(("\n", " ")):
            text = text.lstrip(" ")
        if text:
            self._put(text)

    def _item(self) -> None:
        self._break(1)
        indent = "  " * max(0, min(len(self._lists), 10) - 1)
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            self._put(f"{indent}{self._lists[-1]}. ")
        else:
            self._put(f"{indent}- ")

    def _end_link(self) -> None:
        text = "".join(self.out[self._link_at :]).strip()
        target, self._link = self._link, ""
        try:
            whole = urljoin(self._base, target)
        except ValueError:
            return
        if text and whole.startswith(("http://", "https://")) and whole != text and not target.startswith("#"):
            self._put(f" ({whole})")

    def _break(self, count: int) -> None:
        """At least ``count`` ends of lines before what follows."""
        if not self.out:
            return
        have = len(self._row) - len(self._row.rstrip("\n"))
        if have < count:
            self._put("\n" * (count - have))

    def _put(self, text: str) -> None:
        self.out.append(text)
        self._row = (self._row + text)[-4:]
