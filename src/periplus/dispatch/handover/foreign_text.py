"""Text of others, made plain: no control characters, no terminal codes, no secrets, and no more of it than was asked for."""

from __future__ import annotations

__all__ = ["READ_CHARACTERS_MAX", "Keeps", "code_span", "plain_line", "plain_text"]

import re
from typing import Final, Literal, TypeAlias

from periplus.agent.prompt_injection import strip_invisible
from periplus.base.text.secrets import mask_secrets

Keeps: TypeAlias = Literal["head", "tail"]

READ_CHARACTERS_MAX: Final = 2_000_000
"""Characters that are looked at. A secret that is split by this limit lies far outside of what any prompt has room for."""
_CODES: Final = re.compile(r"\x1b(?:\[[0-?]{0,64}+[ -/]{0,8}+[@-~]|\][^\x07\x1b\n]{0,2048}+(?:\x07|\x1b\\)?)")
_MARK: Final = re.compile(r"<(?=/?(?:data|context)\b)", re.IGNORECASE)  # of the fence, see agent.tape.fence
_LINE_END: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def plain_text(text: str, *, keeps: Keeps = "head") -> tuple[str, int]:
    """Return ``text`` without terminal codes, control and invisible characters and with secrets masked, and the number of secrets.

    Of a longer text the first or last READ_CHARACTERS_MAX characters are taken.
    """
    if len(text) > READ_CHARACTERS_MAX:
        text = text[:READ_CHARACTERS_MAX] if keeps == "head" else text[-READ_CHARACTERS_MAX:]
    seen, _ = strip_invisible(_LINE_END.sub("\n", _CODES.sub("", text)))
    return mask_secrets(seen)


def plain_line(text: str, characters_max: int) -> str:
    """Return ``text`` as one plain line of at most ``characters_max`` characters, which may stand outside of a fence: it opens and ends
    none.
    """
    plain, _ = plain_text(text[: 8 * characters_max + 8_192])  # far more than is kept: a secret is masked whole
    line = _MARK.sub("< ", " ".join(plain.split()))
    return line if len(line) <= characters_max else line[: characters_max - 1].rstrip() + "…"


def code_span(text: str, characters_max: int = 200) -> str:
    """Return a name as a code span of Markdown that the name cannot end."""
    return f"`{plain_line(text, characters_max).replace('`', chr(39))}`"
