"""Reader of one JSON document of any size, element by element, in memory bounded by its largest element.

The caller names the containers to open; all other values are returned whole, as the bytes of their JSON text, for a
decoder of the caller's choice. The end of an element is found by brackets and strings alone, which regular
expressions scan at nearly the speed of reading; the decoder checks its syntax, so that one invalid element does not
affect the others. The text between elements is checked strictly: a document that is cut off or invalid there ends
early, ``broken`` tells where and why, and the elements before are good.
"""

from __future__ import annotations

__all__ = ["DEPTH_MAX", "Broken", "Element", "JsonReader", "JsonWalker", "Path"]

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

from periplus.base.encoding.json_strings import CHARACTERS, end_of_characters
from periplus.base.errors import FormatError, environment_failure
from periplus.interop.readers.line_reader import BLOCK_BYTES, LINE_BYTES_MAX, open_regular

DEPTH_MAX: Final = 1000  # deeper than any decoder goes
_BOM: Final = b"\xef\xbb\xbf"
_NAMES_MAX: Final = 256

# Names of members and places in lists, from the root.
Path: TypeAlias = tuple["str | int", ...]

# What has been read is never read again with another meaning. A repeated group is an atomic group and bounded: Python below 3.11.5
# repeats groups possessively in a wrong way, and each repetition within an atomic group is kept in memory until its end.
_TIMES: Final = b"{0,1000}"
_TOKEN: Final = rb'[^"{}\[\]]++|"' + CHARACTERS + rb'"'
_LEVEL_0: Final = rb"(?>(?:" + _TOKEN + rb")" + _TIMES + rb")"
_LEVEL_1: Final = rb"(?>(?:" + _TOKEN + rb"|[{\[]" + _LEVEL_0 + rb"[}\]])" + _TIMES + rb")"
_LEVEL_2: Final = rb"(?>(?:" + _TOKEN + rb"|[{\[]" + _LEVEL_1 + rb"[}\]])" + _TIMES + rb")"
# All but what closes, is deep or long, or is farther than one match goes.
_BALANCED: Final = re.compile(_LEVEL_2, re.DOTALL)
_OPENING: Final = (b"{", b"[")
_NO_VALUE: Final = (b"", b",", b":", b"]", b"}")
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode
_BEHIND: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[^ \t\r\n,:\[\]{}\"]*+")


class Element(NamedTuple):
    """A value in an opened container: the member ``name``, or in a list the one at ``place``.

    ``path`` leads to the container, ``offset`` is that of the first byte.
    """

    path: Path
    name: str
    place: int
    offset: int
    data: bytes


class Broken(NamedTuple):
    offset: int
    reason: str


class _End(Exception):  # noqa: N818 - a way out, no error
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.broken = Broken(offset, reason)


class JsonWalker:
    """Iterates over the elements of the containers in ``opened``, and of the root, of the document that ``read``
    returns piece by piece, like the method of a file.

    ``opened`` holds paths, with ``"*"`` for any place in a list: ``("messages",)`` opens the member ``messages`` of
    the root, ``("samples", "*", "messages")`` that of every sample, if ``("samples",)`` and ``("samples", "*")`` are
    opened too. Other values there are returned whole.

    ``names`` are those of the root's members so far, including one whose value is cut off. After the last element
    ``broken`` is None for a complete document. Raises FormatError for an element over ``LINE_BYTES_MAX``.
    """

    def __init__(self, read: Callable[[int], bytes], path: str, opened: Iterable[tuple[str, ...]] = ()) -> None:
        self.path = path
        self.names: list[str] = []
        self.broken: Broken | None = None
        self._opened = frozenset(opened) | {()}
        self._read = read
        self._buffer = b""
        self._at = 0
        self._base = 0  # the offset of the buffer's first byte

    def __iter__(self) -> Iterator[Element]:
        try:
            yield from self._document()
        except _End as end:
            self.broken = end.broken

    # Opened containers, and the text between their elements

    def _document(self) -> Iterator[Element]:
        first = self._peek()
        if first in _NO_VALUE:
            raise _End(self._place(), "nothing in it")
        if first in _OPENING:
            yield from self._container((), (), first)
        else:
            yield self._element((), "", 0, first)
        if self._peek() != b"":
            raise _End(self._place(), "more behind the end of the document")

    def _container(self, path: Path, pattern: tuple[str, ...], first: bytes) -> Iterator[Element]:
        """Yield the elements of the opened container that begins here."""
        self._at += 1
        is_list = first == b"["
        closing = b"]" if is_list else b"}"
        found = self._peek()
        if found == closing:
            self._at += 1
            return
        name, place = "", 0
        while True:
            if not is_list:
                name = self._name(path)
                if self._peek() != b":":
                    raise self._wrong("a colon")
                self._at += 1
            found = self._peek()
            if found in _NO_VALUE:
                raise self._wrong("a value")
            inner = (*pattern, "*" if is_list else name)
            if found in _OPENING and inner in self._opened:
                yield from self._container((*path, place if is_list else name), inner, found)
            else:
                yield self._element(path, name, place, found)
            place += 1
            found = self._peek()
            if found == closing:
                self._at += 1
                return
            if found != b",":
                raise self._wrong("a comma or the end of the list" if is_list else "a comma or the end")
            self._at += 1
            self._peek()

    def _element(self, path: Path, name: str, place: int, first: bytes) -> Element:
        """Return the whole value that begins here."""
        offset = self._base + self._at
        end = self._end_of_value(first)
        data = self._buffer[self._at : end]
        self._at = end
        return Element(path, name, place, offset, data)

    def _name(self, path: Path) -> str:
        import orjson

        if self._peek() != b'"':
            raise self._wrong("a name")
        end = self._end_of_value(b'"')
        try:
            name: str = orjson.loads(self._buffer[self._at : end])
        except ValueError:
            raise self._wrong("a name") from None
        self._at = end
        if not path and len(self.names) < _NAMES_MAX:
            self.names.append(name)
        return name

    def _wrong(self, wanted: str) -> _End:
        found = self._peek()
        return _End(self._place(), f"{wanted} was expected" if found else "the file ends within the document")

    # Where values end

    def _end_of_value(self, first: bytes) -> int:
        """Return the place in the buffer after the value that begins at ``_at``, once all of it is read."""
        if first == b'"' or first in _OPENING:
            end = self._quick_end()
            if end:
                return end
        if first == b'"':
            return self._end_of_text(self._at)
        if first in _OPENING:
            return self._end_of_container()
        while True:
            end = _SCALAR.match(self._buffer, self._at).end()  # type: ignore[union-attr]  # it matches nothing as well
            if end < len(self._buffer) or not self._grow():
                return end

    def _quick_end(self) -> int:
        """Return the same for a valid, usually nested value that is completely in the buffer; else 0. A decoder that
        keeps nothing scans it thirty times as fast as a pattern, and tells where more text follows.
        """
        try:
            _skip(memoryview(self._buffer)[self._at :])
        except msgspec.DecodeError as error:
            match = _BEHIND.search(str(error))
            if match is None:
                return 0
            end = self._at + int(match.group(1)) - 1  # it has read one byte of the text after it
        except RecursionError:
            return 0
        else:
            end = len(self._buffer)
        while self._buffer[end - 1] in b" \t\r\n":
            end -= 1
        return end

    def _end_of_container(self) -> int:
        at, depth = self._at + 1, 1
        while True:
            begin = at
            at = _BALANCED.match(self._buffer, at).end()  # type: ignore[union-attr]  # it matches nothing as well
            found = self._buffer[at : at + 1]
            if at > begin and found:
                continue
            if found in (b"}", b"]"):
                at += 1
                depth -= 1
                if depth == 0:
                    return at
            elif found in _OPENING:
                at += 1
                depth += 1
                if depth > DEPTH_MAX:
                    raise _End(self._base + at, "nested too deep")
            elif found == b'"':  # long, or the buffer ends within it
                at = self._end_of_text(at)
            else:
                before = self._base + at
                self._need()
                at = before - self._base

    def _end_of_text(self, at: int) -> int:
        """Return the place in the buffer after the string that begins at ``at``, once all of it is read."""
        at += 1
        while True:
            end = end_of_characters(self._buffer, at)
            if self._buffer[end : end + 1] == b'"':
                return end + 1
            before = self._base + end
            self._need()
            at = before - self._base

    # The window on the file

    def _peek(self) -> bytes:
        """Return the next byte that is no white space; empty at the end of the file."""
        while True:
            self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]  # matches nothing as well
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._more():
                return b""

    def _place(self) -> int:
        return self._base + self._at

    def _need(self) -> None:
        if not self._grow():
            raise _End(self._base + len(self._buffer), "the file ends within the document")

    def _grow(self) -> bool:
        """Read more of the value that begins at ``_at``. False at the end of the file."""
        if len(self._buffer) - self._at > LINE_BYTES_MAX:
            raise FormatError(
                f"an element of the document has over {LINE_BYTES_MAX >> 20} MiB",
                path=self.path,
                offset=self._place(),
                safe="Nothing was imported.",
                mend="No agent writes such a record; is it the right file?",
            )
        return self._more(max(BLOCK_BYTES, len(self._buffer) - self._at))

    def _more(self, size: int = BLOCK_BYTES) -> bool:
        block = self._read(size)
        if not block:
            return False
        is_first = self._base == 0 and not self._buffer
        self._base += self._at
        self._buffer = self._buffer[self._at :] + block
        self._at = len(_BOM) if is_first and block.startswith(_BOM) else 0
        return True


class JsonReader:
    """Reader of the document in a file: iterates like ``JsonWalker``. After the last element ``digest`` is the
    SHA-256 of all bytes of the file, ``size`` their number. Raises EnvironmentFailure where the file cannot be read.
    """

    def __init__(
        self,
        path: str,
        opened: Iterable[tuple[str, ...]] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.path = path
        self.digest = b""
        self.size = 0
        self._opened = tuple(opened)
        self._progress = progress
        self._walker = JsonWalker(lambda _: b"", path)

    @property
    def broken(self) -> Broken | None:
        return self._walker.broken

    def __iter__(self) -> Iterator[Element]:
        sha256 = hashlib.sha256()
        with open_regular(self.path) as fd:
            size = os.fstat(fd).st_size

            def read(most: int) -> bytes:
                try:
                    block = os.read(fd, most)
                except OSError as error:
                    raise environment_failure(error, "read", self.path) from error
                sha256.update(block)
                self.size += len(block)
                if self._progress is not None and block:
                    self._progress(self.size, max(size, self.size))
                return block

            self._walker = JsonWalker(read, self.path, self._opened)
            yield from self._walker
            while read(BLOCK_BYTES):  # the digest is that of the whole file
                pass
        self.digest = sha256.digest()
