"""Text of a project made harmless before a model reads it as its instructions: pure, in time that grows with its length.

Two things are taken out, in the open and counted. *Hidden characters*: what no editor shows (zero width, direction, tags, controls), by
which words are put where a person who reviews the file sees none. *Phrases that speak to an agent as its master*: to forget what it was
told, to be somebody else, to keep something from the person, to pretend that a message of another role begins. No list of phrases is
complete. What holds is that the text is fenced and that no text loosens a rule; this takes away what is most often tried.
"""

from __future__ import annotations

__all__ = ["NEUTRALISED", "Harmless", "made_harmless"]

import re
from typing import Final, NamedTuple

NEUTRALISED: Final = "[neutralised]"
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
    "|(?<![\u2190-\U0001faff\ufe0f])\u200d|\u200d(?![\u2190-\U0001faff])"  # which joins pictures, and else hides
)
_GAP: Final = r"[\s*_`~\"'“”’>#,.:;-]{1,12}"
_ALL: Final = rf"(?:(?:all|any|each|every|everything|of|the|your|my|our|these|those|its|other){_GAP}){{0,4}}"
_OLD: Final = (
    r"(?:previous|prior|earlier|above|preceding|former|foregoing|existing|original|system|developer|user'?s?|safety)"
)
_SAID: Final = r"(?:instructions?|prompts?|rules?|directions?|directives?|messages?|guidelines?|commands?|context|constraints?|policy|policies)"
_FORGET: Final = r"(?:ignore|disregard|forget|override|overrule|bypass|neglect|discard|drop|do\s{1,3}not\s{1,3}follow|don'?t\s{1,3}follow|stop\s{1,3}following)"
_KEEP: Final = r"(?:tell|inform|notify|alert|warn|mention(?:\s{1,3}(?:this|it))?\s{1,3}to|show(?:\s{1,3}(?:this|it))?\s{1,3}to|reveal(?:\s{1,3}(?:this|it))?\s{1,3}to)"
_PERSON: Final = r"(?:the\s{1,3})?(?:user|person|human|operator|developer|owner)"
_NOT: Final = r"(?:do\s{1,3}not|don'?t|never|must\s{1,3}not|without|instead\s{1,3}of)"
_PHRASES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_FORGET}{_GAP}{_ALL}{_OLD}{_GAP}(?:{_OLD}{_GAP}){{0,2}}{_SAID}\b",
        rf"\b{_FORGET}{_GAP}{_ALL}{_SAID}(?:{_GAP}{_ALL}(?:{_OLD}|before|given|that\s{{1,3}}(?:came|were)|you\s{{1,3}}(?:were|have\s{{1,3}}been)))",
        rf"\b{_FORGET}{_GAP}(?:everything|all|anything|what){_GAP}(?:(?:that|which|has|was|were|came|you|been|is|said|told|written|stands){_GAP}){{0,5}}(?:above|before|previously|earlier|told|so\s{{1,3}}far)\b",
        rf"\b(?:you\s{{1,3}}are|you're|act\s{{1,3}}as|behave\s{{1,3}}as|pretend\s{{1,3}}to\s{{1,3}}be|become){_GAP}(?:now\s{{1,3}}|from\s{{1,3}}now\s{{1,3}}on\s{{1,3}})?(?:an?\s{{1,3}}|in\s{{1,3}})?(?:dan\b|jailbroken|unrestricted|unfiltered|uncensored|developer\s{{1,3}}mode|god\s{{1,3}}mode|root\b)",
        r"\b(?:new|updated|real|actual|true|revised)\s{1,3}(?:system\s{1,3}(?:prompt|instructions?|message)|instructions?\s{1,3}(?:from|by)\s{1,3}(?:the\s{1,3})?(?:system|developer|user|admin(?:istrator)?|anthropic|openai|google))",
        rf"\b{_NOT}{_GAP}(?:{_KEEP}|telling|informing|notifying|warning|alerting){_GAP}{_PERSON}\b",
        rf"\b(?:keep|hide){_GAP}(?:(?:this|it|that|these|all){_GAP}){{0,2}}(?:secret\s{{1,3}}|hidden\s{{1,3}})?from{_GAP}{_PERSON}\b",
        r"\b(?:reveal|print|show|output|repeat|leak|send|give|tell\s{1,3}me)\s{1,3}(?:(?:me|us|all|the|your|of|its|whole|full|hidden|entire|verbatim)\s{1,3}){0,5}(?:system\s{1,3}(?:prompt|message|instructions?)|initial\s{1,3}(?:prompt|instructions?))\b",
        r"\b(?:reveal|leak|send|exfiltrate|upload|post)\s{1,3}(?:(?:me|us|all|any|the|your|of|its|user'?s?)\s{1,3}){0,5}(?:api\s{1,3}keys?|credentials|secret\s{1,3}keys?|private\s{1,3}keys?|passwords?|access\s{1,3}tokens?)",
        r"<\s{0,3}/?\s{0,3}(?:system|assistant|human|untrusted|function_calls?|tool_calls?|invoke|im_start|im_end)\b[^<>\n]{0,60}>",
        r"<\|[^|<>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>",
        r"(?m:^)[ \t>#*_-]{0,8}(?:system|assistant|human)[*_]{0,2}[ \t]{0,3}:(?=[*_\s])",
        r"\b(?:disable|turn\s{1,3}off|switch\s{1,3}off|bypass|circumvent|evade|skip)\s{1,3}(?:(?:the|all|any|your|every|these)\s{1,3}){0,3}(?:safety|sandbox|permissions?|permission\s{1,3}(?:checks?|prompts?|rules?)|guardrails?|guards?|confirmations?|approvals?|safeguards?)\b",
    )
)  # fmt: skip


_FORBIDDEN: Final = re.compile(r"(?:\bnever|\bnot|n't|\bavoid|\bno)[\s*_`,:]{1,6}$", re.IGNORECASE)
"""What stands before a phrase that forbids what it says: "never send credentials" is a good rule."""
_BEFORE: Final = 16


class Harmless(NamedTuple):
    """``phrases`` and ``hidden`` count what was taken out."""

    text: str
    phrases: int
    hidden: int


def made_harmless(text: str) -> Harmless:
    """The text, each phrase replaced by ``NEUTRALISED``, hidden characters gone. The same text gives the same."""
    text, hidden = _HIDDEN.subn("", text)
    if not text.isascii():
        text = "\n".join(_unmasked(line) for line in text.split("\n"))
    phrases = 0
    for pattern in _PHRASES:
        pieces, at = [], 0
        for match in pattern.finditer(text):
            if not _FORBIDDEN.search(text[max(0, match.start() - _BEFORE) : match.start()]):
                pieces += [text[at : match.start()], NEUTRALISED]
                at = match.end()
        phrases += len(pieces) // 2
        text = "".join([*pieces, text[at:]])
    return Harmless(text, phrases, hidden)


def _unmasked(line: str) -> str:
    """The line; in its plain letters where these say a phrase that letters which only look otherwise hid."""
    if line.isascii():
        return line
    import unicodedata

    plain = unicodedata.normalize("NFKC", line)
    return plain if plain != line and any(pattern.search(plain) for pattern in _PHRASES) else line
