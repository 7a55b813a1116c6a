"""The fence: the one way to mark text of others as data, and the one way to leave something out.

In a message of the person or the host, text of others (files, memory, tools, other agents) stands between ``<data from="…">`` and
``</data>``. Nothing inside can end it, since the beginning of such a mark is spelled differently there. Tool output stands in messages of
the role ``tool``, which no text can leave, and needs no second fence.
"""

from __future__ import annotations

__all__ = ["cut_lines", "cut_text", "fence", "left_out", "one_line", "plain_name"]

import re
from typing import Final

_MARK: Final = re.compile(r"<(/?)(data\b|context\b|/)", re.IGNORECASE)
_NAME: Final = re.compile(r"[\"<>\x00-\x1f\x7f]")


def fence(text: str, source: str) -> str:
    """Mark ``text`` as data from ``source``. Equal text and source give equal bytes."""
    inside = _MARK.sub(lambda match: f"<\u200b{match[1]}{match[2]}", text)
    return f'<data from="{plain_name(source)}">\n{inside.rstrip(chr(10))}\n</data>'


def plain_name(name: str) -> str:
    """A name chosen by others (a path, a branch) in a form that is safe outside of a fence."""
    return _NAME.sub(" ", name)


def left_out(count: int, what: str, call: str) -> str:
    """The line in place of a cut: how much was left out, and the call that shows it."""
    return f"… {count:,} {what} left out; {call}"


def cut_text(text: str, characters_max: int, handle: str) -> str:
    """``text``, or its beginning with a note of how much is left out and the call that shows all of it."""
    if len(text) <= characters_max:
        return text
    kept = text[:characters_max]
    at = max(kept.rfind("\n"), kept.rfind(" "))
    kept = kept[:at] if at > characters_max // 2 else kept
    return f"{kept.rstrip()}\n{left_out(len(text) - len(kept.rstrip()), 'characters', f'read(path={handle!r})')}"


def cut_lines(text: str, head: int, tail: int, handle: str) -> str:
    """The first and last lines of a long ``text``, with a note of how many are left out and the call that shows them."""
    lines = text.split("\n")
    if len(lines) <= head + tail + 1:
        return text
    gone = len(lines) - head - tail
    note = left_out(gone, "lines", f"read(path={handle!r}, start={head + 1})")
    return "\n".join([*lines[:head], note, *(lines[-tail:] if tail else ())])


def one_line(text: str, characters_max: int) -> str:
    """``text`` as one cut line; only for names of things that can be read in full elsewhere."""
    line = " ".join(text.split())
    return line if len(line) <= characters_max else line[: characters_max - 1].rstrip() + "…"
