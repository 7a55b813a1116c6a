"""Traces of a removed text: the forms in which it, or a hash of it, may occur in other strings.

A text is searched for literally, as one line, within JSON, within JSON within JSON, in URLs and HTML, with every
character escaped, in hexadecimal, base32, base64 and base85, and by the hashes that anybody could compute from a guess;
all without regard to case. A string that breaks off in the middle of the text is a trace as well, because titles and
shortened outputs are made that way.
"""

from __future__ import annotations

__all__ = ["Traces", "digests_of"]

import base64
import hashlib
import html
import json
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Final

from periplus.trail.model import Digest

_CODED_BYTES_MIN: Final = 6  # shorter codes occur in hexadecimal or base64 by chance
_GROUPED_BYTES_MIN: Final = 8  # likewise for base85
_CUT_CHARS_MIN: Final = 12  # a cut string is a trace if it has this much of the beginning
_ELLIPSES: Final = ("…", "...", "[")


class Traces:
    """The traces of ``texts``; forms that occur in none of the strings ``among`` are not searched for again."""

    def __init__(self, texts: Iterable[str], among: Iterable[str]) -> None:
        wanted = [text for text in dict.fromkeys(texts) if text.strip()]
        everything = "\0".join(among).lower()
        self._all = list(dict.fromkeys(form.lower() for text in wanted for form in _forms(text)))
        self._forms = [form for form in self._all if form in everything]
        self._cuts = [
            (form, head)
            for text in wanted
            for form in dict.fromkeys((text.lower(), " ".join(text.lower().split())))
            if len(form) > _CUT_CHARS_MIN and (head := form[:_CUT_CHARS_MIN]) in everything
        ]

    def are_in(self, text: str) -> bool:
        text = text.lower()
        return any(form in text for form in self._forms) or any(_is_cut(text, form, head) for form, head in self._cuts)

    def are_in_content(self, text: str) -> bool:
        """Search like ``are_in``, in a text that is none of the strings: a file, a result, a long text."""
        text = text.lower()
        return any(form in text for form in self._all)


def _is_cut(text: str, form: str, head: str) -> bool:
    """Return whether the beginning of ``form`` occurs in ``text``, followed by nothing or by an ellipsis."""
    at = text.find(head)
    while at >= 0:
        same = len(head)
        while same < len(form) and text[at + same : at + same + 1] == form[same]:
            same += 1
        rest = text[at + same :].lstrip()
        if not rest or rest.startswith(_ELLIPSES):
            return True
        at = text.find(head, at + 1)
    return False


def _forms(text: str) -> Iterator[str]:
    line = " ".join(text.split())
    for plain in dict.fromkeys((text, text.strip(), line)):
        yield plain
        for is_ascii in (False, True):
            once = json.dumps(plain, ensure_ascii=is_ascii)[1:-1]
            yield once
            yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]
        yield urllib.parse.quote(plain)
        yield urllib.parse.quote(plain, safe="")
        yield urllib.parse.quote_plus(plain)
        yield html.escape(plain)
        data = plain.encode("utf-8", "surrogatepass")
        if len(data) >= _CODED_BYTES_MIN:
            yield from _escapes(plain, data)
            yield from (data.hex(separator) for separator in (" ", ":"))
            yield data.hex()
            yield base64.b32encode(data).decode().rstrip("=")[: len(data) * 8 // 5]
            for coded in (base64.b85encode(data), base64.a85encode(data)) if len(data) >= _GROUPED_BYTES_MIN else ():
                yield coded[
                    : len(data) // 4 * 5
                ].decode()  # four bytes a group; the last group may include following bytes
            yield from _base64(data)
    for digest in _hashes(text):
        yield digest.hex()
        yield base64.b64encode(digest).decode().rstrip("=")
        yield base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _escapes(text: str, data: bytes) -> Iterator[str]:
    """Yield the text with every character as an escape of JSON, of Python, of a URL, of HTML."""
    units = text.encode("utf-16-be", "surrogatepass")
    yield "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    yield "".join(f"\\x{byte:02x}" for byte in data)
    yield "".join(f"%{byte:02x}" for byte in data)
    yield "".join(f"&#{ord(char)};" for char in text)
    yield "".join(f"&#x{ord(char):x};" for char in text)


def _base64(data: bytes) -> Iterator[str]:
    """Yield ``data`` as it occurs in base64 of a longer text, at each alignment, without the characters that its
    neighbours affect.
    """
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + data).decode()
        first = (0, 2, 3)[shift]
        last = len(coded) - (0, 3, 2)[(shift + len(data)) % 3]
        middle = coded[first:last]
        if len(middle) >= _CODED_BYTES_MIN:
            yield middle
            yield middle.replace("+", "-").replace("/", "_")


def _hashes(text: str) -> Iterator[bytes]:
    for data in _contents(text):
        yield hashlib.sha256(data).digest()
        yield hashlib.sha384(data).digest()
        yield hashlib.sha512(data).digest()
        yield hashlib.sha1(data, usedforsecurity=False).digest()
        yield hashlib.md5(data, usedforsecurity=False).digest()
        yield hashlib.sha256(b"\x00" + data).digest()  # a commitment without its salt


def _contents(text: str) -> dict[bytes, None]:
    """Return the files that hold just the text, with and without a line end."""
    texts = (text, text + "\n", text.strip(), text.strip() + "\n")
    return dict.fromkeys(one.encode("utf-8", "surrogatepass") for one in texts)


def digests_of(texts: Iterable[str]) -> frozenset[Digest]:
    """Return the digests by which a trail may name a file, a result or a git blob that is just one of ``texts``."""
    found = set()
    for text in texts:
        for data in _contents(text):
            blob = b"blob %d\0" % len(data) + data
            found.add(Digest("sha256", hashlib.sha256(data).digest()))
            found.add(Digest("git-sha1", hashlib.sha1(blob, usedforsecurity=False).digest()))
            found.add(Digest("git-sha256", hashlib.sha256(blob).digest()))
    return frozenset(found)
