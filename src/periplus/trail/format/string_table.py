"""The string table of a trail: checked once, then read by index.

The table keeps the offset and the form of each entry, nine bytes, so a trail with a million strings costs the size of
the file and not a million objects. Values are made when they are asked for.
"""

from __future__ import annotations

__all__ = ["Entry", "StringTable"]

from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from periplus.base.encoding.varint import read_uint
from periplus.base.errors import FormatError
from periplus.base.speed import check_entries, record, text_at
from periplus.trail.format import layout
from periplus.trail.format.salts import entry_salt
from periplus.trail.model import DIGEST_SIZES, Digest, TextObject, Withheld

_ENTRIES_AT_ONCE: Final = 1024


class Entry(NamedTuple):
    """An entry as bytes: ``content`` follows the form (for a withheld entry it is the commitment)."""

    form: int
    content: bytes
    salt: bytes | None


class StringTable:
    """Read the strings section at ``start … end`` of ``data``. Raises FormatError with the offset of the first fault."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._end = end
        self.contents = array("Q")
        at = self._read_mode(data, start, end)
        count, after = read_uint(data, at, end)
        least = 33 if self.is_redacted else 2
        if count > layout.STRINGS_MAX or count > (end - after) // least:
            raise FormatError(f"{count:,} strings announced, more than there is room for", offset=at)
        found = check_entries(data, after, end, count, self.is_redacted)
        if found is not None:
            at, self.forms = found[0], found[1]
            self.contents.frombytes(found[2])
        else:
            forms = bytearray()
            sound_to = None if self.is_redacted else self._read_sound_entries(after, count, forms)
            if sound_to is None:
                forms.clear()
                del self.contents[:]
                at = self._read_entries(after, count, forms)
            else:
                at = sound_to
            self.forms = bytes(forms)
        if at != end:
            raise FormatError("bytes after the last string", offset=at)

    def _read_mode(self, data: bytes, start: int, end: int) -> int:
        if start >= end or data[start] not in (layout.MODE_FULL, layout.MODE_REDACTED):
            raise FormatError("mode of the strings unknown", offset=start)
        self.is_redacted = data[start] == layout.MODE_REDACTED
        self.secret: bytes | None = None
        if self.is_redacted:
            return start + 1
        at = start + 1 + layout.SECRET_BYTES
        if at > end:
            raise FormatError("trail secret cut off", offset=start + 1)
        self.secret = data[start + 1 : at]
        return at

    def _read_sound_entries(self, start: int, count: int, forms: bytearray) -> int | None:
        """Check entries like ``_read_entries``, but many at once; return None if anything is irregular.

        Of a text and of a digest only the length is read in the loop. The other checks, that texts are UTF-8 and that
        none occurs twice, cover all texts of a block at once: a byte of 0 between them keeps them apart.
        """
        data, end, contents = self._data, self._end, self.contents
        seen: set[bytes] = set()
        digests: set[bytes] = set()
        at = start
        try:
            for first in range(0, count, _ENTRIES_AT_ONCE):
                texts: list[bytes] = []
                others: list[bytes] = []
                for _ in range(min(_ENTRIES_AT_ONCE, count - first)):
                    form = data[at]
                    at += 1
                    contents.append(at)
                    forms.append(form)
                    length = data[at]
                    if form == layout.FORM_TEXT:
                        at += 1
                        if length > 127:
                            if not 0 < data[at] < 32:
                                return None
                            length += (data[at] - 1) * 128
                            at += 1
                        texts.append(data[at : at + length])
                        at += length
                    elif form == layout.FORM_DIGEST and 0 < length < 4:
                        begin = at
                        at += 21 if length == 2 else 33
                        others.append(data[begin - 1 : at])
                    else:
                        return None
                if at > end:
                    return None
                joined = b"\0".join(texts)
                if not joined.isascii():
                    joined.decode()
                digests.update(others)
                seen.update(texts)
        except (IndexError, UnicodeDecodeError):
            return None
        return at if len(seen) + len(digests) == count else None

    def _read_entries(self, start: int, count: int, forms: bytearray) -> int:
        data, end, is_redacted = self._data, self._end, self.is_redacted
        contents = self.contents
        texts: set[bytes] = set()
        others: set[bytes] = set()
        at = start
        for _ in range(count):
            entry = at
            if at >= end:
                raise FormatError("string cut off", offset=entry)
            form = data[at]
            at += 1
            if is_redacted and form != layout.FORM_WITHHELD:
                at += 32
            content = at
            if form == layout.FORM_TEXT:
                length = data[at] if at < end else 128
                at += 1
                if length > 127:
                    length, at = self._length_of_text(content, entry)
                seen, value = texts, data[at : at + length]
                at += length
                if at <= end and not value.isascii():
                    _check_utf8(value, at - length)
            else:
                at = self._skip(form, entry, at)
                seen, value = others, data[content:at] + data[entry : entry + 1]
            if at > end:
                raise FormatError("string cut off", offset=entry)
            if value in seen:
                raise FormatError("string stands twice in the table", offset=entry)
            seen.add(value)
            forms.append(form)
            contents.append(content)
        return at

    def _length_of_text(self, at: int, entry: int) -> tuple[int, int]:
        """Return the length of a text, of two bytes or more, and the offset of the text."""
        length, after = read_uint(self._data, at, self._end)
        if length > layout.INLINE_TEXT_BYTES_MAX:
            raise FormatError(f"text of {length:,} bytes inside the trail", offset=entry)
        return length, after

    def _skip(self, form: int, entry: int, at: int) -> int:
        data, end = self._data, self._end
        if at >= end:
            raise FormatError("string cut off", offset=entry)
        if form == layout.FORM_DIGEST:
            algorithm = layout.ALGORITHM_BY_CODE.get(data[at])
            if algorithm is None:
                raise FormatError(f"digest of unknown algorithm {data[at]}", offset=entry)
            return at + 1 + DIGEST_SIZES[algorithm]
        if form == layout.FORM_TEXT_OBJECT:
            length, at = read_uint(data, at + 32, end)
            if not layout.INLINE_TEXT_BYTES_MAX < length <= layout.INTEGER_MAX:
                raise FormatError(f"text object of {length:,} bytes", offset=entry)
            return at
        if form == layout.FORM_WITHHELD and self.is_redacted:
            return at + 32
        raise FormatError(f"string of form {form} unknown here", offset=entry)

    def __len__(self) -> int:
        return len(self.forms)

    def offset(self, index: int) -> int:
        """Return the offset of the content of entry ``index`` in the file."""
        return self.contents[index]

    def value(self, index: int) -> str | TextObject | Digest | Withheld:
        data = self._data
        at = self.contents[index]
        form = self.forms[index]
        if form == layout.FORM_TEXT:
            return text_at(data, at)
        if form == layout.FORM_DIGEST:
            algorithm = layout.ALGORITHM_BY_CODE[data[at]]
            return record(Digest, (algorithm, data[at + 1 : at + 1 + DIGEST_SIZES[algorithm]]))
        if form == layout.FORM_TEXT_OBJECT:
            length, _ = read_uint(data, at + 32, self._end)
            return TextObject(data[at : at + 32], length)
        return Withheld(data[at : at + 32])

    def values(self, first: int, last: int) -> list[str | TextObject | Digest | Withheld]:
        """Return the values of entries ``first`` to ``last`` or to the end of the table; a run of texts is decoded at
        once.
        """
        last = min(last, len(self.forms))
        if self.is_redacted or self.forms.count(layout.FORM_TEXT, first, last) < last - first:
            return [self.value(index) for index in range(first, last)]
        data, contents = self._data, self.contents[first : last + 1]
        if last == len(self.forms):
            contents.append(self._end + 1)
        return [
            data[at + 1 if data[at] < 128 else at + 2 : following - 1].decode() for at, following in pairwise(contents)
        ]

    def entry(self, index: int) -> Entry:
        """Return entry ``index`` as bytes, with the salt of its commitment (None for a withheld one)."""
        at = self.contents[index]
        following = self.contents[index + 1] if index + 1 < len(self.forms) else self._end
        form = self.forms[index]
        if index + 1 < len(self.forms):
            following -= 1 if not self.is_redacted or self.forms[index + 1] == layout.FORM_WITHHELD else 33
        content = self._data[at:following]
        if form == layout.FORM_WITHHELD:
            return Entry(form, content, None)
        salt = self._data[at - 32 : at] if self.secret is None else entry_salt(self.secret, index)
        return Entry(form, content, salt)

    def entries(self) -> Iterator[Entry]:
        return (self.entry(index) for index in range(len(self.forms)))


def _check_utf8(value: bytes, offset: int) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise FormatError("text is not UTF-8", offset=offset + error.start) from error
