"""Blocks of hook output in a person's prompt, in the wrapping of each client. Pure; imports nothing, because hooks
use it.
"""

from __future__ import annotations

__all__ = ["strip_hook_blocks"]

from typing import Final

# Tags of Gemini CLI, Qwen Code and Cline; of Codex; of versions of Claude Code.
_TAGS: Final = ("hook_context", "hook_prompt", "user-prompt-submit-hook", "session-start-hook")
_TAG_CHARS_MAX: Final = 400
_INDENT_MAX: Final = 8


def strip_hook_blocks(text: str) -> tuple[str, int]:
    """Remove the blocks of hooks; return the text and their number. A block begins a line and is closed: a tag
    mentioned within a sentence stays.
    """
    count = 0
    for tag in _TAGS:
        if f"</{tag}>" in text:
            text, found = _without(text, tag)
            count += found
    return (text.strip() if count else text), count


def _without(text: str, tag: str) -> tuple[str, int]:
    opening, closing = f"<{tag}", f"</{tag}>"
    kept: list[str] = []
    at = look = count = 0
    end = -1
    while (start := text.find(opening, look)) >= 0:
        if end < start:
            end = text.find(closing, start)
        if end < 0:
            break
        look = start + len(opening)
        head = text.find(">", look, min(end, look + _TAG_CHARS_MAX))
        before = text[max(at, start - _INDENT_MAX) : start].rstrip(" \t")
        if head < 0 or text[look] not in "> \t" or (before and not before.endswith("\n")):
            continue
        kept.append(text[at:start])
        at = look = end + len(closing)
        count += 1
    return "".join(kept) + text[at:], count
