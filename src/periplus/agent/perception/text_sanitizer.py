"""Sanitizing of project text before a model reads it as instructions: pure, in time linear in its length.

Two things are removed, visibly and counted. *Hidden characters*, which no editor shows (zero width, direction, tags, controls) and which
can hide words from a reviewer. *Phrases that give orders to an agent*: the rows of ``prompt_injection``. No list of phrases is complete;
the guarantee is that the text is fenced and that no text loosens a rule. This removes the most common attempts.
"""

from __future__ import annotations

__all__ = ["NEUTRALISED", "SanitizedText", "sanitized_text"]

import re
from typing import Final, NamedTuple

from periplus.agent.prompt_injection import Order, find_injections, fold_letters, is_frame, joined, strip_invisible

NEUTRALISED: Final = "[neutralised]"
_JOINING: Final = re.compile("\u200c|(?<![\u2190-\U0001faff\ufe0f])\u200d|\u200d(?![\u2190-\U0001faff])")
"""Joiners of scripts that are rare in such files; only joiners of pictures stay."""
_FORBIDDEN: Final = re.compile(r"(?:\bnever|\bnot|n't|\bavoid|\bno)[\s*_`,:]{1,6}$", re.IGNORECASE)
"""Words before a phrase that forbid it: "never send credentials" is a good rule."""
_BEFORE: Final = 16


class SanitizedText(NamedTuple):
    """A sanitized text; ``phrases`` and ``hidden`` count what was removed."""

    text: str
    phrases: int
    hidden: int


def sanitized_text(text: str) -> SanitizedText:
    """Replace each phrase by ``NEUTRALISED`` and remove hidden characters. Equal texts give equal results."""
    text, joining = _JOINING.subn("", text)
    text, hidden = strip_invisible(text)
    orders = _orders(text)
    plain = fold_letters(text)
    if plain != text:  # plain letters only if other forms of letters hid something
        in_plain = _orders(plain)
        if len(in_plain) > len(orders):
            text, orders = plain, in_plain
    pieces, at = [], 0
    for one in orders:
        pieces += [text[at : one.start], NEUTRALISED]
        at = one.end
    return SanitizedText("".join([*pieces, text[at:]]), len(orders), hidden + joining)


def _orders(text: str) -> list[Order]:
    return joined(one for one in find_injections(text, "instructions") if is_frame(one) or not _is_forbidden(text, one))


def _is_forbidden(text: str, order: Order) -> bool:
    return _FORBIDDEN.search(text[max(0, order.start - _BEFORE) : order.start]) is not None
