"""Phrases by which a text tries to take over who reads it. Found, told and held back; never quietly taken out.

What is looked for are the rows of ``agent.orders``. This finds what is said openly. It is no proof that a text is harmless: that a
skill can do nothing that a person has not allowed rests on permission and sandbox, not on this.
"""

from __future__ import annotations

__all__ = ["injection_phrases"]

from typing import Final

from periplus.agent.prompt_injection import find_injections, fold_letters, joined, strip_invisible

FOUND_MAX: Final = 5
_SHOWN: Final = 80


def injection_phrases(text: str) -> tuple[str, ...]:
    """What was found, in words for a person, at most ``FOUND_MAX``; empty where nothing was. Letters that only look otherwise, and
    marks that are not seen, hide nothing.
    """
    found: dict[str, None] = {}
    _, hidden = strip_invisible(text.removeprefix("\ufeff"))
    if hidden:
        found[f"{hidden:,} characters that are not seen"] = None
    plain, _ = strip_invisible(fold_letters(text))
    for one in joined(find_injections(plain, "skill")):
        said = " ".join(plain[one.start : one.end].split())
        found[f"“{said if len(said) <= _SHOWN else said[: _SHOWN - 1] + '…'}”"] = None
        if len(found) >= FOUND_MAX:
            break
    return tuple(found)
