"""Rendering of Markdown answers at a terminal, block by block as they arrive.

A block is held back until it is complete: a paragraph or table until the blank line after it, a list until something else
follows, fenced code until its fence closes. ``rich`` renders; without it the text is shown as it is.

A model's text is untrusted. It is made safe before it is rendered, and again afterwards, because an entity such as ``&#x202e;``
becomes a character only there. HTML is not markup here: ``Vec<T>`` stays text.
"""

from __future__ import annotations

__all__ = ["Block", "Blocks", "can_render", "render"]

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from periplus.cli.common.face import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_CHARS_MAX: Final = 20_000  # of a block that is rendered
_FENCE: Final = re.compile(r"( *)(`{3,}|~{3,})([^`]*)$")
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SGR: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_PADDING: Final = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


class Block(NamedTuple):
    """A part of an answer. ``is_raw``: too long to render, so it is shown as it arrived, in parts; ``goes_on`` marks all but the first."""

    text: str
    is_raw: bool = False
    goes_on: bool = False


class Blocks:
    """Splits a growing text into blocks."""

    def __init__(self) -> None:
        self._open = ""  # the incomplete line
        self._lines: list[str] = []
        self._size = 0  # characters in ``_lines``
        self._fence = ""  # the fence that closes the code
        self._is_list = self._is_behind_blank = False
        self._is_raw = self._goes_on = self._is_within_line = False

    def feed(self, text: str) -> Iterator[Block]:
        """Add ``text`` and return the blocks that are complete."""
        *lines, self._open = (self._open + text).split("\n")
        for line in lines:
            yield from self._take(line)
        if self._size + len(self._open) > BLOCK_CHARS_MAX:
            self._is_raw = True
            rest, self._open = self._open, ""
            yield self._cut(rest)
            self._goes_on, self._is_within_line = True, bool(rest)

    def end(self) -> Iterator[Block]:
        """Return the rest at the end of the answer."""
        rest, self._open = self._open, ""
        if rest:
            yield from self._take(rest)
        self._fence, self._is_within_line = "", False
        yield from self._flush()

    def _take(self, line: str) -> Iterator[Block]:
        if self._is_within_line:  # its beginning is on the screen already
            self._is_within_line = False
            self._keep(line)
            return
        if self._fence:
            self._keep(line)
            if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
                if not self._is_list:
                    yield from self._flush()
            return
        if not line.strip():
            if self._is_list:
                self._keep(line)
                self._is_behind_blank = True
            else:
                yield from self._flush()
            return
        is_item, fence, is_heading = _ITEM.match(line), _FENCE.match(line), _HEADING.match(line)
        if self._is_list and self._is_behind_blank and not is_item and line[0] not in " \t":
            yield from self._flush()
        if is_heading or (fence is not None and not (self._is_list and fence[1])):
            yield from self._flush()
        self._is_list = self._is_list or bool(is_item)
        self._is_behind_blank = False
        self._keep(line)
        if fence is not None:
            self._fence = fence[2]
        elif is_heading:
            yield from self._flush()

    def _keep(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _flush(self) -> Iterator[Block]:
        if any(line.strip() for line in self._lines):
            yield self._cut()
        self._lines, self._size = [], 0
        self._is_list = self._is_behind_blank = self._is_raw = self._goes_on = False

    def _cut(self, rest: str = "") -> Block:
        text = "".join(f"{line}\n" for line in self._lines) + rest
        self._lines, self._size = [], 0
        return Block(text if self._is_raw else text.rstrip(), self._is_raw, self._goes_on)


def can_render() -> bool:
    """Return whether ``rich`` is installed."""
    from importlib.util import find_spec

    try:
        return find_spec("rich") is not None and find_spec("markdown_it") is not None
    except ValueError:  # somebody removed it from ``sys.modules``
        return False


def render(text: str, width: int, *, is_coloured: bool) -> str:
    """Render Markdown to lines of at most ``width`` columns. The only escape sequences in them set colours and weights."""
    import io

    from markdown_it import MarkdownIt
    from rich.console import Console
    from rich.markdown import Heading, Markdown

    class ToTheLeft(Heading):
        LEVEL_ALIGN: ClassVar[Any] = {**Heading.LEVEL_ALIGN, "h1": "left"}

    class Document(Markdown):
        elements: ClassVar[Any] = {**Markdown.elements, "heading_open": ToTheLeft}

    document = Document("", code_theme="ansi_dark", hyperlinks=False)
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    document.parsed = parser.parse(text)
    _keep_breaks(document.parsed)
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=is_coloured, color_system="standard" if is_coloured else None, width=width, height=100,
        legacy_windows=False, force_interactive=False, markup=False, emoji=False, highlight=False, _environ={},
    )  # fmt: skip
    console.print(document)
    parts = _SGR.split(out.getvalue())
    safe = "".join(part if at % 2 else visible(part, lines=True) for at, part in enumerate(parts))
    lines = _PADDING.sub(r"\1", safe).split("\n")
    seen = [at for at, line in enumerate(lines) if _SGR.sub("", line).strip()]
    return "\n".join(lines[seen[0] : seen[-1] + 1]) if seen else ""


def _keep_breaks(tokens: Any) -> None:
    """Keep line breaks within paragraphs: models use them on purpose."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
