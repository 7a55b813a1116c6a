"""Parts of SVG pictures: text that is visible and fits, local links, numbers in few digits.

Pictures carry no inline style and no ids, so several fit on one page under a strict content security policy: looks come from
classes. Text is escaped, and characters that would change how its neighbours are shown become marked symbols.
"""

from __future__ import annotations

__all__ = ["attribute", "css_class", "fitting", "local_address", "number", "plain_line", "text_width"]

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from periplus.web.rendering.text import visible

if TYPE_CHECKING:
    from markupsafe import Markup

_LINE_CHARACTERS_MAX: Final = 2_000
_CLASS: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")
_NARROW: Final = frozenset("iljtfrI.,:;'`|!()[]{}/\\ ")
_BROAD: Final = frozenset("mwMW@%—…→")
# Widths at a font size of 1, somewhat over those of common sans-serif fonts.
_NARROW_WIDTH, _WIDTH, _CAPITAL_WIDTH, _BROAD_WIDTH, _FULL_WIDTH = 0.36, 0.58, 0.68, 0.9, 1.02
_BREAKS: Final = {ord("\t"): "␉", ord("\n"): "⏎"}


def plain_line(text: str) -> str:
    """Return ``text`` as one line in which hidden characters are marked symbols."""
    return visible(text[:_LINE_CHARACTERS_MAX]).translate(_BREAKS)


def attribute(text: str) -> Markup:
    """Return ``text`` as one line for an attribute or an element."""
    from markupsafe import escape

    return escape(plain_line(text))


def text_width(text: str, size: float) -> float:
    """Return about how wide ``text`` is at the font size ``size``, in the same unit."""
    total = 0.0
    for one in text:
        if one in _NARROW:
            total += _NARROW_WIDTH
        elif one in _BROAD:
            total += _BROAD_WIDTH
        elif one > "\u1100":
            total += _FULL_WIDTH if unicodedata.east_asian_width(one) in "WF" else _CAPITAL_WIDTH
        else:
            total += _CAPITAL_WIDTH if one.isupper() else _WIDTH
    return total * size


def fitting(text: str, size: float, width: float) -> str:
    """Return ``text`` as one visible line cut to ``width``, with an ellipsis where it was cut; empty where not even two characters fit."""
    text = plain_line(text)
    if text_width(text, size) <= width:
        return text
    room = width - text_width("…", size)
    kept = 0
    for one in text:
        room -= text_width(one, size)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept].rstrip()}…" if kept >= 2 else ""


def local_address(address: str) -> str:
    """Return ``address`` where it stays on this site, else nothing."""
    is_local = address.startswith(("/", "?", "#")) and not address.startswith(("//", "/\\"))
    return address if is_local and not any(one < " " for one in address) else ""


def css_class(name: str) -> str:
    """Return ``name``, which must be a plain word: classes are no place for a stranger's text. Raises ValueError."""
    if _CLASS.fullmatch(name) is None:
        raise ValueError(f"no name of a class: {name!r}")
    return name


def number(value: float) -> str:
    """Return a coordinate in at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
