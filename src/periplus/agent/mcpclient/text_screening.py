"""Screening of text from MCP servers, which are not trusted and may pose as somebody else.

Theory of operation
-------------------
The model reads a description before anybody has asked for anything, so descriptions are the best place for a prompt injection. There,
phrases that give orders (``agent.prompt_injection``) are removed, and that is reported. An answer is requested data, perhaps a page *about*
such phrases: it stays as it is, and the phrases are named in front of it. Invisible characters (control characters, writing direction
marks, tags, zero width) are removed from both, with a mark in their place; text that imitates conversation frames is broken up.

A tool is identified by a digest over the text that the model is shown and the fields by which its calls are scheduled.
"""

from __future__ import annotations

__all__ = [
    "ABOUT_CHARS_MAX",
    "Screened",
    "clean",
    "digest_of_tool",
    "injection_kinds",
    "screen_about",
    "screen_schema",
]

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from periplus.agent.mcpclient.tool_names import NAME_CHARS_MAX
from periplus.agent.prompt_injection import (
    JOINERS_ASTRAY,
    UNSEEN,
    find_injections,
    fold_letters,
    joined,
    strip_invisible,
)

ABOUT_CHARS_MAX: Final = 4_000
_LOOKED_AT_MAX: Final = 200_000
_DEPTH_MAX: Final = 24
_TAKEN_OUT: Final = "⟨left out: it reads like an order to the model⟩"
# One expression for all invisible text. Each repetition is possessive, or atomic and bounded: the time is linear in the text, and the
# memory does not grow with the length of a run.
_UNSEEN: Final = re.compile(
    r"(?>(?:\x1b\[[0-?]{0,64}+[ -/]{0,8}+[@-~]"  # terminal escape codes
    r"|\x1b\][^\x07\x1b\n]{0,2048}+(?:\x07|\x1b\\)"
    rf"|[{UNSEEN}\r]|{JOINERS_ASTRAY}){{1,1000}})"
)
_FRAME: Final = re.compile(
    r"<\|(?=[a-z_]{2,32}+\|>)|<(?=/?(?:system|assistant|user|tool_result|data|context)\b)", re.IGNORECASE
)
_TOLD: Final = ("annotations", "description", "inputSchema", "name", "title")
_KEPT: Final = frozenset({"$ref", "$defs"})


class Screened(NamedTuple):
    """A text that may be shown. ``unseen`` counts the characters that were removed, ``orders`` names the phrases."""

    text: str
    unseen: int = 0
    orders: tuple[str, ...] = ()


def clean(text: str) -> tuple[str, int]:
    """Remove invisible characters, leaving a mark where several stood. Returns the text and their count."""
    parts, count, at = [], 0, 0
    for begin, end in _unseen_runs(text):
        parts.append(text[at:begin])
        if text[begin:end].strip("\r"):  # otherwise line ends of other systems
            count += end - begin
            parts.append(f"⟨{end - begin:,} unseen character{'s' * (end - begin != 1)}⟩")
        at = end
    parts.append(text[at:])
    return _FRAME.sub(lambda match: match[0][0] + " " + match[0][1:], "".join(parts)), count


def _unseen_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of invisible characters."""
    begin = end = 0
    for match in _UNSEEN.finditer(text):
        if match.start() > end:
            if end > begin:
                yield begin, end
            begin = match.start()
        end = match.end()
    if end > begin:
        yield begin, end


def injection_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of injection phrases in the first 200,000 characters of ``text``."""
    plain, _ = strip_invisible(_UNSEEN.sub("", fold_letters(text[:_LOOKED_AT_MAX])))
    return tuple(dict.fromkeys(one.kind for one in find_injections(plain, "tool")))


def screen_about(text: str, most: int = ABOUT_CHARS_MAX) -> Screened:
    """Screen a description: plain letters, injections removed, cut at ``most`` characters with a note of how much was left out."""
    left = max(0, len(text) - 4 * most)
    plain = fold_letters(text[: 4 * most])
    orders = injection_kinds(plain)
    cleaned, unseen = clean(plain)
    if orders:
        for one in reversed(joined(find_injections(cleaned, "tool"))):
            cleaned = cleaned[: one.start] + _TAKEN_OUT + cleaned[one.end :]
        if injection_kinds(cleaned.replace(_TAKEN_OUT, "")) or _TAKEN_OUT not in cleaned:
            cleaned = _TAKEN_OUT  # an injection made of several pieces: show nothing
    cleaned = "\n".join(line.rstrip() for line in cleaned.strip().split("\n"))
    if len(cleaned) > most or left:
        cut = cleaned[:most].rstrip()
        cleaned = f"{cut}\n… {len(cleaned) - len(cut) + left:,} characters left out"
    return Screened(cleaned, unseen, orders)


def screen_schema(schema: Any, depth: int = 0) -> Any:
    """Screen the texts of a JSON Schema and drop everything that does not describe a call or is nested too deep."""
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
    """SHA-256 over what the model is shown of a tool and the fields by which its calls are scheduled, whatever the order of its fields."""
    import hashlib

    told = {name: document.get(name) for name in _TOLD}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
