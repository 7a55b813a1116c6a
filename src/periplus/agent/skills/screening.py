"""Phrases by which a text tries to take over who reads it. Found, told and held back; never quietly taken out.

This finds what is said openly. It is no proof that a text is harmless: that a skill can do nothing that a person has not allowed rests on
permission and sandbox, not on this.
"""

from __future__ import annotations

__all__ = ["suspicious"]

import re
import unicodedata
from functools import cache
from typing import Final

FOUND_MAX: Final = 5
_SHOWN: Final = 80
_OLD: Final = r"(?:previous|prior|earlier|above|preceding|foregoing|other|all|any|your|the|system|these)"
_PHRASES: Final = (
    rf"\b(?:ignore|disregard|forget|override|bypass)\b(?:\W+(?:{_OLD}|of|and|those))+\W+(?:instruct\w+|prompts?|rules?|directions?|guidelines?|messages?|context)",
    r"\b(?:do\W+not|don.?t|never|without)\W+(?:tell|telling|inform\w*|mention\w*|show\w*|ask\w*|alert\w*)\W+(?:it\W+|this\W+|anything\W+)?(?:to\W+)?(?:the\W+)?(?:user|person|human|developer|operator)",
    r"\byou\W+are\W+now\W+(?:in\W+)?(?:\w+\W+){0,3}(?:mode|unrestricted|jailbroken|dan)\b",
    r"\b(?:developer|god|jailbreak|unrestricted|admin)\W+mode\W+(?:is\W+)?(?:on|enabled|activated)",
    r"\b(?:reveal|print|repeat|output|leak|send|exfiltrate|upload|post)\b[^.\n]{0,60}(?:\b(?:system\W+prompt|api\W?keys?|credentials?|secrets?|private\W+keys?)\b|\.ssh\b|\.env\b|id_rsa|keys\.json)",
    r"</?(?:system|untrusted|assistant)\b[^>\n]{0,40}>",
    r"<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>",
    r"\b(?:disable|turn\W+off|skip|bypass)\b[^.\n]{0,30}\b(?:sandbox|permission\w*|safety|guardrails?|approval\w*|confirmation\w*)\b",
)
_HIDDEN: Final = "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Of the phrases, and of what is not seen: made when the first skill is read, for most sessions have none."""
    return re.compile("|".join(_PHRASES), re.IGNORECASE), re.compile(_HIDDEN)


def suspicious(text: str) -> tuple[str, ...]:
    """What was found, in words for a person, at most ``FOUND_MAX``; empty where nothing was. Letters that only look otherwise, and
    marks that are not seen, hide nothing.
    """
    phrases, unseen = _patterns()
    found: dict[str, None] = {}
    hidden = sum(1 for _ in unseen.finditer(text.removeprefix("\ufeff")))
    if hidden:
        found[f"{hidden:,} characters that are not seen"] = None
    plain = unseen.sub("", unicodedata.normalize("NFKC", text))
    for match in phrases.finditer(plain):
        said = " ".join(match[0].split())
        found[f"“{said if len(said) <= _SHOWN else said[: _SHOWN - 1] + '…'}”"] = None
        if len(found) >= FOUND_MAX:
            break
    return tuple(found)
