"""Screening of skills for prompt injection. Phrases are reported and the skill is withheld; nothing is removed silently.

The patterns are the rows of ``agent.prompt_injection``, which find what is said openly. A text without findings is not proven harmless:
that a skill can do nothing without a person's permission rests on permission and sandbox, not on this.
"""

from __future__ import annotations

__all__ = ["injection_phrases"]

from typing import Final

from periplus.agent.prompt_injection import find_injections, fold_letters, joined, strip_invisible

FOUND_MAX: Final = 5
_SHOWN: Final = 80


def injection_phrases(text: str) -> tuple[str, ...]:
    """Return the phrases that were found, for people to read, at most ``FOUND_MAX``; empty if there is none. Lookalike letters and
    invisible marks hide nothing.
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
