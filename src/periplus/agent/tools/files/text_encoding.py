"""Files as text, and back to the same bytes: encodings, byte order marks, line ends.

A file is text if some encoding decodes its bytes and encodes them back unchanged; any other file is binary. Inside, lines end in `` `` and
nothing else; the original line ends are stored beside the text, so that an edit of one line keeps the ends of the others, in files with
mixed line ends too.
"""

from __future__ import annotations

__all__ = ["SNIFF_BYTES", "BinaryFileError", "Lines", "Text", "decode", "encode", "is_binary", "split_ends"]

import codecs
from dataclasses import dataclass
from typing import Final, NamedTuple

from periplus.base.errors import UsageError

SNIFF_BYTES: Final = 8192
_MARKS: Final = (  # the longer first: UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PLAIN_CONTROLS: Final = frozenset(b"\t\n\x0b\x0c\r\x1b\x08")


class BinaryFileError(UsageError):
    """The bytes are not text in any of the tried encodings."""

    code = "binary"


@dataclass(frozen=True, slots=True)
class Lines:
    r"""A text with `` `` for every line end, and the original ends (`` ``, ``\r `` or ``\r``) in order."""

    text: str
    ends: tuple[str, ...]

    def joined(self) -> str:
        """The text with its original line ends."""
        if not self.ends:
            return self.text
        pieces = self.text.split("\n")
        assert len(pieces) == len(self.ends) + 1
        return "".join([piece + end for piece, end in zip(pieces, self.ends, strict=False)]) + pieces[-1]


class Text(NamedTuple):
    """A file as text. ``mark`` is its byte order mark."""

    lines: Lines
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def about(self) -> str:
        """Unusual properties in a few words; empty for UTF-8 with plain line ends."""
        said = []
        if self.encoding != "utf-8" or self.mark:
            said.append(self.encoding + (" with a byte order mark" if self.mark else ""))
        kinds = sorted(set(self.lines.ends))
        if kinds and kinds != ["\n"]:
            said.append(
                "mixed line ends" if len(kinds) > 1 else "CRLF line ends" if kinds == ["\r\n"] else "CR line ends"
            )
        return ", ".join(said)


def is_binary(head: bytes) -> bool:
    """Return whether the first ``SNIFF_BYTES`` of a file show that it is not text."""
    head = head[:SNIFF_BYTES]
    if any(head.startswith(mark) for mark, _ in _MARKS):
        return False
    if b"\0" in head:
        return not _bare_utf16(head)
    return _controls(head) > len(head) // 20


def decode(data: bytes) -> Text:
    """Decode a file. Raises BinaryFileError if it is not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _exactly(data[len(mark) :], encoding)
            if text is not None:
                return Text(split_ends(text), encoding, mark)
    encodings = [_bare_utf16(data[:SNIFF_BYTES])] if b"\0" in data else ["utf-8", *_single_byte(data)]
    for encoding in encodings:
        text = _exactly(data, encoding) if encoding else None
        if text is not None:
            return Text(split_ends(text), encoding)
    raise BinaryFileError("it is binary, not text")


def encode(text: Text) -> bytes:
    """The bytes of the file. Raises UsageError if its encoding lacks a character."""
    joined = text.lines.joined()
    try:
        return text.mark + joined.encode(text.encoding)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the file is {text.encoding}, which cannot hold {joined[error.start]!r}",
            safe="Nothing was changed.", mend="Write that character in another way, or write the whole file again.",
        ) from error  # fmt: skip


def split_ends(text: str) -> Lines:
    """Split off the line ends. A lone carriage return ends a line only if the text has no line feed."""
    if "\r" not in text:
        return Lines(text, ("\n",) * text.count("\n"))
    if "\n" not in text:
        return Lines(text.replace("\r", "\n"), ("\r",) * text.count("\r"))
    pieces = text.split("\n")
    ends = tuple("\r\n" if piece.endswith("\r") else "\n" for piece in pieces[:-1])
    bodies = [piece.removesuffix("\r") for piece in pieces[:-1]]
    return Lines("\n".join([*bodies, pieces[-1]]), ends)


def _exactly(data: bytes, encoding: str) -> str | None:
    """The text, if encoding it again gives the same bytes."""
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except UnicodeError:
        return None


def _bare_utf16(head: bytes) -> str:
    """Detect UTF-16 without a mark by the positions of zero bytes; empty if it is not that."""
    half = max(1, len(head) // 2)
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if len(head) < 4 or max(even, odd) < half * 0.4 or min(even, odd) > half * 0.02:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def _single_byte(data: bytes) -> list[str]:
    """Encodings for text without another match: Latin-1 accepts any bytes, so it is tried only for what looks like text."""
    return ["latin-1"] if _controls(data[:SNIFF_BYTES]) <= len(data[:SNIFF_BYTES]) // 50 else []


_OTHER_CONTROLS: Final = bytes(byte for byte in (*range(32), 127) if byte not in _PLAIN_CONTROLS)


def _controls(data: bytes) -> int:
    return len(data) - len(data.translate(None, _OTHER_CONTROLS))
