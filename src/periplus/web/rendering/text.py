"""Texts of strangers made visible and harmless: control and bidirectional characters, addresses, times, sizes."""

from __future__ import annotations

__all__ = ["bytes_text", "count_text", "duration_text", "money_text", "prose", "tokens_text", "visible"]

import re
import urllib.parse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markupsafe import Markup

# Controls without tab and line break, marks of direction (Unicode Standard Annex 9), invisible characters, line separators, and code points
# that are none: what could hide or reorder the text around them. The joiner U+200D stays, as emoji are made with it.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`]{1,2000}")
_TRAILING: Final = ".,;:!?)]}'\""
PROSE_CHARACTERS_MAX: Final = 200_000


def visible(text: str) -> str:
    """Return the text with hidden characters as symbols (␀) or code points ([U+202E])."""
    return _HIDDEN.sub(_shown, text) if _HIDDEN.search(text) else text


def prose(text: object) -> Markup:
    """Return text of several lines as markup: escaped, visible, with its addresses leading to a page that shows them first."""
    from markupsafe import Markup, escape

    whole = str(text)
    shown = visible(whole[:PROSE_CHARACTERS_MAX])
    parts: list[Markup] = []
    at = 0
    for match in _ADDRESS.finditer(shown):
        address = match.group().rstrip(_TRAILING)
        parts.append(escape(shown[at : match.start()]))
        target = "/leave?" + urllib.parse.urlencode({"to": address})
        parts.append(Markup('<a class="leaving" href="{}">{}</a>').format(target, address))
        at = match.start() + len(address)
    parts.append(escape(shown[at:]))
    if len(whole) > PROSE_CHARACTERS_MAX:
        parts.append(
            Markup(' <span class="cut">… {:,} more characters</span>').format(len(whole) - PROSE_CHARACTERS_MAX)
        )
    return Markup("").join(parts)


def bytes_text(size: int) -> str:
    """Return a size in bytes as a person reads it: ``1.4 MB``."""
    amount, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1_000 or unit == "TB":
            break
        amount /= 1_000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 record``, ``2,000 records``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def tokens_text(tokens: int) -> str:
    """Return a number of tokens: ``950``, ``13.2k``, ``4.1M``."""
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def money_text(millionths: int) -> str:
    """Return an amount in millionths of a dollar: ``$0.12``; parts of a cent as ``$0.0004``."""
    dollars = millionths / 1_000_000
    return f"${dollars:,.2f}" if dollars >= 0.01 or not millionths else f"${dollars:.4f}"


def duration_text(milliseconds: int) -> str:
    """Return a duration: ``340 ms``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1_000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60} min"


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"
