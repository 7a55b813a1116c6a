"""What a server says, made fit to be looked at: its texts are of a stranger who may want to be taken for somebody else.

Theory of operation
-------------------
A description is read by the model before anybody has asked for anything, so it is the place of choice for orders to the model. There
a phrase that gives orders is taken out, and said to be. An answer is data that was asked for, perhaps a page *about* such phrases: it
stays as it is, and the phrases are named in front of it. From both goes what no eye sees (control characters, marks of writing
direction, tags, zero width), with a mark where it stood; what models take for the frame of a conversation is broken up.

A tool is known by a digest over what of it the model is shown, and what its calls are scheduled by.
"""

from __future__ import annotations

__all__ = [
    "ABOUT_CHARS_MAX",
    "Screened",
    "clean",
    "digest_of_tool",
    "orders_in",
    "screen_about",
    "screen_schema",
]

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from periplus.agent.mcpclient.names import NAME_CHARS_MAX

ABOUT_CHARS_MAX: Final = 4_000
_LOOKED_AT_MAX: Final = 200_000
_DEPTH_MAX: Final = 24
_TAKEN_OUT: Final = "⟨left out: it reads like an order to the model⟩"
# One expression for all that is not seen. Each repetition is possessive: the time is linear in the text.
_UNSEEN: Final = re.compile(
    r"(?:\x1b\[[0-?]{0,64}+[ -/]{0,8}+[@-~]"  # codes of terminals
    r"|\x1b\][^\x07\x1b\n]{0,2048}+(?:\x07|\x1b\\)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff])++"
)
_JOINERS: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")  # parts of scripts and of pictures, where one stands alone
_FRAME: Final = re.compile(
    r"<\|(?=[a-z_]{2,32}+\|>)|<(?=/?(?:system|assistant|user|tool_result|data|context)\b)", re.IGNORECASE
)
_GAP: Final = r"[\s\W_]{1,12}+"
_ORDERS: Final = (
    ("forget what you were told", r"\b(?:ignore|disregard|forget|override|bypass) (?:(?:all|any|the|your|these|those|of|every) ){0,4}(?:previous|prior|above|earlier|preceding|former|system|other|foregoing)(?: \w{1,20}+){0,2} (?:instruction|prompt|rule|direction|message|guideline|command|context)s?\b"),
    ("forget what you were told", r"\b(?:ignore|disregard|forget) (?:everything|all|anything) (?:above|before|previous|you|that)\b"),
    ("keep it from the person", r"\b(?:do not|don.?t|never|must not|without) (?:ever )?(?:tell|telling|inform|informing|mention|mentioning|notify|notifying|reveal|revealing|show|showing|ask|asking|disclose|disclosing|alert|alerting)(?: \w{1,16}+){0,3} (?:user|person|human|operator|developer)\b"),
    ("be another", r"\b(?:you are now|from now on you|act as if you|pretend to be|new (?:system )?instructions?)\b"),
    ("a frame of importance", r"<\s{0,3}/?\s{0,3}(?:important|system|instructions?|secret|critical)\s{0,3}>"),
    ("call this first", r"\b(?:you must|always|you need to|be sure to|before (?:using|calling|you)) (?:\w{1,16}+ ){0,4}(?:call|invoke|use|run|read|execute) (?:this|these|the following|that|it)\b(?: \w{1,16}+){0,6} (?:first|before|every|any other|all other|each)\b"),
    ("hand over secrets", r"(?:~|\$HOME|/home/\w{1,32}+|/root)/\.(?:ssh|aws|config|netrc|gnupg|kube|cursor|claude)\b|\bid_(?:rsa|ed25519|ecdsa)\b"),
    ("hand over secrets", r"\b(?:send|post|upload|forward|exfiltrate|leak|include|pass|print|reveal|repeat) (?:\w{1,16}+ ){0,5}(?:api keys?|passwords?|secrets?|credentials?|private keys?|access tokens?|system prompt|conversation history)\b"),
)  # fmt: skip
_TOLD: Final = ("annotations", "description", "inputSchema", "name", "title")
_KEPT: Final = frozenset({"$ref", "$defs"})


class Screened(NamedTuple):
    """A text as it may be shown; ``unseen`` counts the characters that were taken out, ``orders`` names the phrases."""

    text: str
    unseen: int = 0
    orders: tuple[str, ...] = ()


@cache
def _orders() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern.replace(" ", _GAP), re.IGNORECASE)) for name, pattern in _ORDERS)


def clean(text: str) -> tuple[str, int]:
    """``text`` without what is not seen, a mark where several stood, and how many they were."""
    count = 0

    def mark(match: re.Match[str]) -> str:
        nonlocal count
        found = match[0]
        if len(found) == 1 and found in _JOINERS and match.start() and not match.string[match.start() - 1].isascii():
            return found
        if found.strip("\r") == "":
            return ""  # ends of lines as others write them
        count += len(found)
        return f"⟨{len(found):,} unseen character{'s' * (len(found) != 1)}⟩"

    cleaned = _UNSEEN.sub(mark, text)
    return _FRAME.sub(lambda match: match[0][0] + " " + match[0][1:], cleaned), count


def orders_in(text: str) -> tuple[str, ...]:
    """The kinds of orders to a model that stand in the first 200,000 characters of ``text``."""
    plain = _UNSEEN.sub("", unicodedata.normalize("NFKC", text[:_LOOKED_AT_MAX]))
    return tuple(dict.fromkeys(name for name, pattern in _orders() if pattern.search(plain)))


def screen_about(text: str, most: int = ABOUT_CHARS_MAX) -> Screened:
    """What a server says of itself, in plain letters, without orders, cut at ``most`` characters with how much was left out."""
    left = max(0, len(text) - 4 * most)
    plain = unicodedata.normalize("NFKC", text[: 4 * most])
    hidden = _UNSEEN.sub("", plain)
    orders = [name for name, pattern in _orders() if pattern.search(hidden)]
    cleaned, unseen = clean(plain)
    if orders:
        for _, pattern in _orders():
            cleaned = pattern.sub(_TAKEN_OUT, cleaned)
        if orders_in(cleaned.replace(_TAKEN_OUT, "")) or _TAKEN_OUT not in cleaned:
            cleaned = _TAKEN_OUT  # put together of pieces: nothing of it is shown
    cleaned = "\n".join(line.rstrip() for line in cleaned.strip().split("\n"))
    if len(cleaned) > most or left:
        cut = cleaned[:most].rstrip()
        cleaned = f"{cut}\n… {len(cleaned) - len(cut) + left:,} characters left out"
    return Screened(cleaned, unseen, tuple(dict.fromkeys(orders)))


def screen_schema(schema: Any, depth: int = 0) -> Any:
    """A JSON Schema with its texts screened and without what is no part of a call; what is nested too deep is left out."""
    if depth > _DEPTH_MAX:
        return {}
    if isinstance(schema, Mapping):
        return {
            clean(str(name))[0][:NAME_CHARS_MAX]: screen_schema(value, depth + 1)
            for name, value in schema.items()
            if name in _KEPT or not str(name).startswith(("$", "x-"))
        }
    if isinstance(schema, list | tuple):
        return [screen_schema(one, depth + 1) for one in schema]
    return screen_about(schema, 1_000).text if isinstance(schema, str) else schema


def digest_of_tool(document: Mapping[str, Any]) -> str:
    """SHA-256 over what the model is shown of a tool and what its calls are scheduled by, whatever the order of its fields."""
    import hashlib

    told = {name: document.get(name) for name in _TOLD}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
