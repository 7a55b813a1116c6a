"""Patterns of prompt injection: one table, used by three screens that each react in their own way.

Theory of operation
-------------------
A model reads instruction files, skills and tool descriptions of servers before a person has seen them. Each is screened for phrases that
give orders: in instructions the phrase is replaced visibly (``perception.text_sanitizer``), a skill is withheld
(``skills.injection_screening``), a tool's description loses it and an answer has it named (``mcpclient.text_screening``). The patterns
stand only here. A row counts in all three, except for phrases that people use honestly in one of them: a tool that has to be "called before
any other" asks for too much, an instruction file that says so of a check does not.

In a pattern a blank stands for anything between two words (blanks, Markdown marks, line ends), of any length. Repetitions over more than
one character are bounded or possessive, so that the time is linear in the text. Lookalike letters are folded (``folded``, which keeps every
character in its place). No such table is complete: the guarantee is that the text is fenced and that nothing in it loosens a rule.
"""

from __future__ import annotations

__all__ = [
    "JOINERS_ASTRAY",
    "UNSEEN",
    "Order",
    "Place",
    "find_injections",
    "fold_letters",
    "is_frame",
    "joined",
    "strip_invisible",
]

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

Place: TypeAlias = Literal["instructions", "skill", "tool"]
_ALL: Final[tuple[Place, ...]] = ("instructions", "skill", "tool")

# -- what is not seen ---------------------------------------------------------------------------------------------------

UNSEEN: Final = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
"""Invisible characters, as the inside of a set of ``re``: controls, zero width, direction, tags, unpaired surrogates."""
_JOINERS: Final = r"\u200c\u200d\ufe00-\ufe0f"
_PICTURES: Final = r"\u2190-\U0001faff"
_KEYCAP: Final = r"(?<=[0-9#*])\ufe0f\u20e3"
_SIGN: Final = r"(?<=[\xa9\xae])\ufe0f"
_CHAIN: Final = rf"(?<=\ufe0f)\u200d[{_PICTURES}]"
JOINERS_ASTRAY: Final = rf"(?<![^\x00-\u052f{UNSEEN}{_JOINERS}])(?!{_KEYCAP}|{_SIGN}|{_CHAIN})[{_JOINERS}]"
"""Joiners belong to some scripts and to pictures. After a Latin, Greek or Cyrillic letter they only hide text."""


def strip_invisible(text: str) -> tuple[str, int]:
    """Remove invisible characters and count them. Line ends stay, and joiners stay after characters that may need them."""
    gone, count = 1, 0
    while gone:  # the character before a joiner may be gone now
        text, gone = _hidden().subn("", text)
        count += gone
    return text, count


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(rf"(?:[{UNSEEN}]|\r(?!\n)|{JOINERS_ASTRAY})")


# -- phrases ------------------------------------------------------------------------------------------------------------

_GAP: Final = r"[\W_]++"
_FORGET: Final = (
    r"(?:ignore|disregard|forget|override|overrule|bypass|neglect|discard|drop|(?:do not|don.?t|stop) follow(?:ing)?)"
)
_ANY: Final = r"(?:(?:all|any|each|every|everything|of|the|your|my|our|these|those|its|other|and) ){0,5}"
_OLD: Final = r"(?:previous|prior|earlier|above|preceding|former|foregoing|existing|original|other|system|developer|user.?s?|safety)"
_SAID: Final = r"(?:instruct\w*+|prompts?|rules?|directions?|directives?|messages?|guidelines?|commands?|contexts?|constraints?|policy|policies)"
_SET: Final = r"(?:(?:set|list|block|batch|round|part)s? of )?"
_NOT: Final = r"(?:do not|don.?t|never|must not|mustn.?t|without|instead of)(?: ever)?"
_IT: Final = r"(?: (?:it|this|that|these|anything))?"
_TELL: Final = rf"(?:(?:tell|inform|notify|alert|warn)(?:ing)?|(?:mention|show|reveal|disclose|report)(?:ing)?{_IT} to)"
_PERSON: Final = r"(?:the )?(?:user|person|human|operator|developer|owner)"
_FREE: Final = r"(?:dan|jailbroken|unrestricted|unfiltered|uncensored|developer mode|god mode|root)"
_KEYS: Final = r"(?:api keys?|credentials|secret keys?|private keys?|passwords?|access tokens?)"

_FRAME: Final = "a frame of a conversation"
_FORGOTTEN: Final = "forget what you were told"
_HIDING: Final = "keep it from the person"
_OTHER: Final = "be another"
_SECRETS: Final = "hand over secrets"
_LOOSE: Final = "loosen what guards"
_TABLE: Final[tuple[tuple[str, str, tuple[Place, ...]], ...]] = (
    (_FORGOTTEN, rf"\b{_FORGET} {_ANY}{_OLD} (?:{_OLD} ){{0,2}}{_SET}{_ANY}{_SAID}\b", _ALL),
    (_FORGOTTEN, rf"\b{_FORGET} {_ANY}{_SAID} {_ANY}(?:{_OLD}|before|given|(?:that )?(?:came|were)|(?:that )?you (?:were|have been))\b", _ALL),
    (_FORGOTTEN, rf"\b{_FORGET} (?:everything|all|anything|what) (?:(?:that|which|has|was|were|came|you|been|is|said|told|written|stands) ){{0,5}}(?:above|before|previously|earlier|told|so far)\b", _ALL),
    (_FORGOTTEN, rf"\b{_FORGET} {_ANY}your (?:own )?(?:instructions?|prompts?|rules?|guidelines?|directives?|constraints?)\b", _ALL),
    (_FORGOTTEN, rf"\b{_FORGET} {_ANY}{_OLD}(?: \w{{1,20}}+){{0,2}} {_SAID}\b", ("skill", "tool")),
    (_FORGOTTEN, rf"\b{_FORGET} (?:(?:{_OLD}|all|any|each|every|of|the|your|these|those|and) ){{1,8}}{_SAID}", ("skill",)),  # without a word for earlier text
    (_FORGOTTEN, rf"\b{_FORGET} (?:everything|all|anything) (?:above|before|previous|you|that)\b", ("tool",)),
    (_FORGOTTEN, r"\b(?:new|updated|real|actual|true|revised) (?:system (?:prompt|instructions?|message)|instructions? (?:from|by) (?:the )?(?:system|developer|user|admin(?:istrator)?|anthropic|openai|google))", _ALL),
    (_HIDING, rf"\b{_NOT} {_TELL} {_PERSON}\b", _ALL),
    (_HIDING, rf"\b(?:keep|hide) (?:(?:this|it|that|these|all) ){{0,2}}(?:(?:secret|hidden) )?from {_PERSON}\b", _ALL),
    (_HIDING, rf"\b{_NOT} (?:tell|inform|mention|notify|reveal|show|ask|disclos|alert)\w*+(?: \w{{1,16}}+){{0,4}} (?:user|person|human|developer|operator)\b", ("skill", "tool")),
    (_OTHER, rf"\b(?:you are|you.re|act as|behave as|pretend to be|become) (?:now |from now on )?(?:(?:an?|in) )?{_FREE}\b", _ALL),
    (_OTHER, r"\byou are now (?:in )?(?:\w{1,20}+ ){0,3}(?:mode|unrestricted|jailbroken|dan)\b", _ALL),
    (_OTHER, r"\b(?:god|jailbreak|unrestricted) mode (?:is )?(?:on|enabled|activated)", _ALL),
    (_OTHER, r"\b(?:developer|admin) mode (?:is )?(?:on|enabled|activated)", ("skill",)),
    (_OTHER, r"\b(?:you are now|from now on you|act as if you|pretend to be|new (?:system )?instructions?)\b", ("tool",)),
    (_FRAME, r"<\s{0,3}/?\s{0,3}(?:system|assistant|human|untrusted|function_calls?|tool_calls?|invoke|im_start|im_end)\b[^>\n]{0,60}>", _ALL),
    (_FRAME, r"<\|[^|<>\n]{1,40}\|>|\[/?inst\]|<</?sys>>", _ALL),
    (_FRAME, r"(?m:^)[\x20\t>#*_-]{0,8}(?:system|assistant|human)[*_]{0,2}[\x20\t]{0,3}:(?=[*_\s])", ("instructions",)),
    (_FRAME, r"<\s{0,3}/?\s{0,3}(?:important|system|instructions?|secret|critical)\s{0,3}>", ("tool",)),
    ("call this first", r"\b(?:you must|always|you need to|be sure to|before (?:using|calling|you)) (?:\w{1,16}+ ){0,4}(?:call|invoke|use|run|read|execute) (?:this|these|the following|that|it)\b(?: \w{1,16}+){0,6} (?:first|before|every|any other|all other|each)\b", ("tool",)),
    (_SECRETS, r"\b(?:reveal|print|show|output|repeat|leak|send|give|tell me) (?:(?:me|us|all|the|your|of|its|whole|full|hidden|entire|verbatim) ){0,5}(?:system (?:prompt|message|instructions?)|initial (?:prompt|instructions?))\b", _ALL),
    (_SECRETS, rf"\b(?:reveal|leak|send|exfiltrate|upload|post|forward) (?:(?:me|us|all|any|the|your|of|its|user.?s?) ){{0,5}}{_KEYS}", _ALL),
    (_SECRETS, r"\b(?:reveal|print|repeat|output|leak|send|exfiltrate|upload|post)\b[^.\n]{0,60}(?:\b(?:system prompt|api[\W_]?keys?|credentials?|secrets?|private keys?)\b|\.ssh\b|\.env\b|id_rsa|keys\.json)", ("skill",)),
    (_SECRETS, r"(?:~|\$home|/home/\w{1,32}+|/root)/\.(?:ssh|aws|config|netrc|gnupg|kube|cursor|claude)\b|\bid_(?:rsa|ed25519|ecdsa)\b", ("tool",)),
    (_SECRETS, r"\b(?:send|post|upload|forward|exfiltrate|leak|include|pass|print|reveal|repeat) (?:\w{1,16}+ ){0,5}(?:api keys?|passwords?|secrets?|credentials?|private keys?|access tokens?|system prompt|conversation history)\b", ("tool",)),
    (_LOOSE, r"\b(?:disable|turn off|switch off|bypass|circumvent|evade|skip) (?:(?:the|all|any|your|every|these) ){0,3}(?:safety|sandbox|permissions?|guardrails?|guards?|confirmations?|approvals?|safeguards?)\b", _ALL),
    (_LOOSE, r"\b(?:disable|turn off|skip|bypass)\b[^.\n]{0,30}\b(?:sandbox|permission\w*+|safety|guardrails?|approval\w*+|confirmation\w*+)\b", ("skill",)),
)  # fmt: skip
_LOOK: Final[Mapping[str, str]] = {
    "a": "аαɑ", "b": "вьƅβ", "c": "сϲ", "d": "ԁꭰ", "e": "еε", "f": "ғ", "g": "ɡ", "h": "һн", "i": "іιı", "j": "ј", "k": "кκ", "l": "ӏ", "m": "мμ",
    "n": "пη", "o": "оοσ", "p": "рρ", "q": "ԛ", "r": "г", "s": "ѕ", "t": "тτ", "u": "υս", "v": "ѵν", "w": "ԝω", "x": "хχ", "y": "уγ", "z": "ᴢζ",
}  # fmt: skip


class Order(NamedTuple):
    """An injection phrase of this kind at ``text[start:end]``."""

    kind: str
    start: int
    end: int


def find_injections(text: str, place: Place) -> list[Order]:
    """Find injection phrases in a text without invisible characters, by the rows of the table. Phrases of different rows may overlap."""
    seen = _folded(text)
    return [Order(kind, *one.span()) for kind, pattern in _patterns(place) for one in pattern.finditer(seen)]


def is_frame(order: Order) -> bool:
    """Return whether the phrase imitates a conversation frame, which nobody writes in order to forbid it."""
    return order.kind == _FRAME


def joined(orders: Iterable[Order]) -> list[Order]:
    """Merge overlapping phrases by their positions."""
    found: list[Order] = []
    for one in sorted(orders, key=lambda order: (order.start, -order.end)):
        if found and one.start < found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def fold_letters(text: str) -> str:
    """Replace compatibility forms of letters (wide, mathematical, ligatures) by plain letters."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _folded(text: str) -> str:
    """Fold to small letters, with lookalikes and accented letters replaced; the length stays the same."""
    if not text.isascii():
        text = text.translate({ord(one): _letter(one) for one in set(text) if one > "\x7f"})
    return text.lower()


def _letter(one: str) -> str:
    base = unicodedata.normalize("NFD", one)[0].lower()
    return _looks().get(base, base if base.isascii() and base.isalpha() else one)


@cache
def _looks() -> Mapping[str, str]:
    return {one: letter for letter, others in _LOOK.items() for one in others}


@cache
def _patterns(place: Place) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compile the patterns of a place at first use: most sessions have no skills and no servers."""
    return tuple((kind, re.compile(pattern.replace(" ", _GAP))) for kind, pattern, places in _TABLE if place in places)
