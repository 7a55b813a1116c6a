"""Our block in a Markdown file that people and other programs write too: the text between two marker lines.

The first marker contains a digest of the text, which reveals edits. A file that is entirely ours (a skill) has such a
marker too, so that no other file is taken for ours.
"""

from __future__ import annotations

__all__ = [
    "OPEN_SEAL",
    "Block",
    "find_block",
    "is_intact",
    "is_sealed",
    "put_block",
    "remove_block",
    "sealed",
    "text_of",
]

import re
from typing import Final, NamedTuple

from periplus.base.encoding.digests import sha256
from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.editing.config_text import decode_text

BYTES_MAX: Final = 4 << 20
OPEN_SEAL: Final = "periplus:file 000000000000"
_MARK: Final = "\ufeff"
_BEGIN: Final = re.compile(r"(?:^|(?<=\ufeff))<!-- periplus:begin ([0-9a-f]{12})\b[^\n]*-->[ \t]*\r?$", re.MULTILINE)
_END: Final = re.compile(r"^<!-- periplus:end -->[ \t]*\r?$", re.MULTILINE)
_SEAL: Final = re.compile(r"periplus:file ([0-9a-f]{12})")
_SAYS: Final = "kept by `periplus connect`; write outside of it"


class Block(NamedTuple):
    """``start`` and ``end`` span the two markers and all between them; ``is_edited`` means that the text was changed."""

    start: int
    end: int
    body: str
    is_edited: bool


def text_of(data: bytes, path: str) -> str:
    """Decode a Markdown file. Raises FormatError for binary data and for files over the limit."""
    text = decode_text(data, path, bytes_max=BYTES_MAX)
    if "\0" in text:
        raise FormatError("it contains a NUL character, so it is not text", path=path, offset=data.index(0),
                          safe="Nothing was changed.")  # fmt: skip
    return text


def find_block(text: str, path: str) -> Block | None:
    """Return our block. Raises RefusedError where the markers are not one pair in order, because our part is not
    certain then.
    """
    begins, ends = list(_BEGIN.finditer(text)), list(_END.finditer(text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0].end() > ends[0].start():
        places = ", ".join(
            str(text.count("\n", 0, one.start()) + 1) for one in sorted([*begins, *ends], key=lambda m: m.start())
        )
        raise RefusedError(
            f"{path}: the marker lines of Periplus' block are not one pair (lines {places})", safe="Nothing was changed.",
            mend="Remove those lines and the text between them, then repeat the command.",
        )  # fmt: skip
    body = text[begins[0].end() + 1 : ends[0].start()].replace("\r\n", "\n")
    return Block(begins[0].start(), ends[0].end(), body, _digest(body) != begins[0][1])


def put_block(text: str, body: str, path: str) -> str:
    """Return the text with ``body`` (whole lines) as our block, in the place of the old one or at the end."""
    line = "\r\n" if "\r\n" in text else "\n"
    part = f"<!-- periplus:begin {_digest(body)} {_SAYS} -->\n{body}<!-- periplus:end -->".replace("\n", line)
    held = find_block(text, path)
    if held is not None:
        kept = "\r" if text[held.end - 1] == "\r" else ""
        return text[: held.start] + part + kept + text[held.end :]
    bare = text.removeprefix(_MARK)
    gap = "" if not bare else line if bare.endswith("\n") else line * 2
    return text + gap + part + line


def remove_block(text: str, path: str) -> str:
    """Return the text without our block and the blank line before it."""
    held = find_block(text, path)
    if held is None:
        return text
    before, after = text[: held.start], text[held.end :].removeprefix("\r\n").removeprefix("\n")
    for gap in ("\r\n\r\n", "\n\n"):
        if before.endswith(gap):
            before = before[: -len(gap) // 2]
            break
    return before + after


def sealed(text: str) -> str:
    """Return ``text``, a file that is entirely ours, with its digest in place of the single OPEN_SEAL."""
    return text.replace(OPEN_SEAL, f"periplus:file {_digest(text)}", 1)


def is_sealed(text: str) -> bool:
    """Test that a file claims to be entirely ours."""
    return _SEAL.search(text) is not None


def is_intact(text: str) -> bool:
    """Test that a file of ours is unchanged."""
    found = _SEAL.search(text)
    return found is not None and _digest(_SEAL.sub(OPEN_SEAL, text, count=1)) == found[1]


def _digest(body: str) -> str:
    return sha256(body.encode()).hex()[:12]
