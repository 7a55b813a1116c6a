"""Read the sound part of a damaged trail's sections: the longest prefix that the readers of the format accept.

A section is looked for where the section before it ends, by its length or by its content, so one wrong length does not
lose everything behind it. Strings and steps are walked by their own lengths and then given to ``StringTable`` and
``check_steps``, which report the first fault; everything before it is kept.
"""

from __future__ import annotations

__all__ = ["Clocks", "Found", "Steps", "Strings", "find", "find_first", "read_clocks", "read_steps", "read_strings"]

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

from periplus.base.encoding.varint import append_uint, read_uint, uint_bytes, unzigzag, zigzag
from periplus.base.errors import FormatError
from periplus.trail.format import layout
from periplus.trail.format.steps_section import check_steps
from periplus.trail.format.string_table import StringTable
from periplus.trail.model import DIGEST_SIZES

_ADDED_MAX: Final = 16  # strings and steps that a salvaged trail has in addition to those kept
_LENGTH_BYTES_MAX: Final = 10


class Found(NamedTuple):
    """The content of a section: it ends, by its length, at ``end``, or at the end of the file if it ``is_cut``."""

    start: int
    end: int
    is_cut: bool


class Strings(NamedTuple):
    """``section`` is a sound strings section, which ``table`` reads; in the damaged file it ends at ``end``."""

    table: StringTable
    section: bytes
    announced: int
    end: int


class Steps(NamedTuple):
    """``body`` holds ``kept`` steps; ``announced`` is -1 if there is no steps section."""

    body: bytes
    kept: int
    announced: int
    entries_used: int
    end: int


class Clocks(NamedTuple):
    """Sound times and sources for the steps asked for. ``timed`` and ``sourced`` count the steps whose own the file
    had.
    """

    times: bytearray
    timed: int
    sources: bytearray
    sourced: int | None
    last_source: int
    ends: tuple[int, ...]


# Sections


def find_first(data: bytes, at: int) -> Found | None:
    """Return the section at ``at``, with any tag, because the tag may be damaged."""
    try:
        length, start = read_uint(data, at + 1, len(data))
    except FormatError:
        return Found(len(data), len(data), is_cut=True) if len(data) - at <= _LENGTH_BYTES_MAX else None
    return Found(start, min(start + length, len(data)), is_cut=start + length > len(data))


def find(data: bytes, tag: int, before: Found | None, content_end: int | None) -> Found | None:
    """Return the section with ``tag`` behind the section ``before``, whose content ended at ``content_end`` (None:
    unknown).

    If length and content of ``before`` agree, a section begins there even if its tag differs: the tag is then the
    damage.
    """
    if before is None:
        return None
    if not before.is_cut:
        is_sure = before.end == content_end and tag in layout.REQUIRED_TAGS
        if before.end < len(data) and (data[before.end] == tag or is_sure):
            return find_first(data, before.end)
    if content_end is not None and content_end < len(data) and data[content_end] == tag:
        return find_first(data, content_end)
    return None


def _limit(data: bytes, found: Found) -> int:
    """Return the last possible end of the content: its stated length, if another section or the end of the file follows
    there.
    """
    if found.is_cut or found.end >= len(data) or data[found.end] in (*layout.KNOWN_TAGS, 0xFF):
        return found.end
    return len(data)


# Strings and steps


def read_strings(data: bytes, found: Found) -> Strings | None:
    """Return the sound strings, or None if not even their number can be read."""
    start = found.start
    is_redacted = data[start : start + 1] == bytes((layout.MODE_REDACTED,))
    secret_end = start + 1 if is_redacted else start + 1 + layout.SECRET_BYTES
    try:
        announced, first = read_uint(data, secret_end, len(data))
    except FormatError:
        return None
    prefix = bytes((layout.MODE_REDACTED if is_redacted else layout.MODE_FULL,)) + data[start + 1 : secret_end]
    ends = array("Q", [first])
    limit = _limit(data, found)
    while len(ends) <= min(announced, layout.STRINGS_MAX - _ADDED_MAX):
        end = _entry_end(data, ends[-1], limit, is_redacted=is_redacted)
        if end is None:
            break
        ends.append(end)

    def section(count: int) -> bytes:
        return prefix + uint_bytes(count) + data[first : ends[count]]

    def check(count: int) -> None:
        whole = section(count)
        StringTable(whole, 0, len(whole))

    count = _longest(ends, lambda count: first - len(prefix) - len(uint_bytes(count)), check)
    whole = section(count)
    return Strings(StringTable(whole, 0, len(whole)), whole, announced, ends[-1])


def _entry_end(data: bytes, at: int, limit: int, *, is_redacted: bool) -> int | None:
    """Return the end of the entry at ``at``, or None if there is no entry."""
    if at >= limit:
        return None
    form = data[at]
    at += 33 if is_redacted and form != layout.FORM_WITHHELD else 1
    try:
        if form == layout.FORM_TEXT:
            length, at = read_uint(data, at, limit)
            at += length
        elif form == layout.FORM_TEXT_OBJECT:
            _, at = read_uint(data, at + 32, limit)
        elif form == layout.FORM_DIGEST and at < limit and data[at] in layout.ALGORITHM_BY_CODE:
            at += 1 + DIGEST_SIZES[layout.ALGORITHM_BY_CODE[data[at]]]
        elif form == layout.FORM_WITHHELD and is_redacted:
            at += 32
        else:
            return None
    except FormatError:
        return None
    return at if at <= limit else None


def read_steps(data: bytes, found: Found | None, strings: Strings) -> Steps:
    """Return the sound steps: those before the first that is malformed or names a lost string."""
    if found is None:
        return Steps(b"", 0, -1, 0, 0)
    try:
        announced, first = read_uint(data, found.start, len(data))
    except FormatError:
        return Steps(b"", 0, -1, 0, 0)
    ends = array("Q", [first])
    limit = _limit(data, found)
    while len(ends) <= min(announced, layout.STEPS_MAX - _ADDED_MAX):
        try:
            length, body = read_uint(data, ends[-1] + 1, limit)
        except FormatError:
            break
        if not 2 <= length <= layout.STEP_BYTES_MAX or body + length > limit:
            break
        ends.append(body + length)
    forms = strings.table.forms
    used = 0

    def check(count: int) -> None:
        nonlocal used
        section = uint_bytes(count) + data[first : ends[count]]
        used = check_steps(section, 0, len(section), forms).entries_used

    count = _longest(ends, lambda count: first - len(uint_bytes(count)), check)
    return Steps(data[first : ends[count]], count, announced, used, ends[-1])


def _longest(ends: array[int], shift: Callable[[int], int], check: Callable[[int], None]) -> int:
    """Return the greatest number of items that ``check`` accepts; item *n* lies between ``ends[n]`` and ``ends[n +
    1]``.

    ``shift(count)`` is the distance from an offset in the bytes that ``check`` reads to the same place in the file.
    """
    count = len(ends) - 1
    while True:
        try:
            check(count)
        except FormatError as error:
            if not count:
                raise
            place = (error.offset or 0) + shift(count)
            count = min(max(bisect_right(ends, place) - 1, 0), count - 1)
        else:
            return count


# Times and sources


def read_clocks(data: bytes, steps_at: Found | None, steps: Steps) -> Clocks:
    """Return times and sources of the kept steps; a step whose own are lost gets the time of the step before and no
    source.
    """
    times_at = find(data, layout.TAG_TIMES, steps_at, steps.end)
    times, timed, times_end = _times(data, times_at, steps.kept)
    sources_at = find(data, layout.TAG_SOURCES, times_at, times_end)
    sources, sourced, last_source, sources_end = _sources(data, sources_at, steps.kept)
    found = [one.end for one in (sources_at, times_at) if one is not None and not one.is_cut]
    ends = (*found, *(end for end in (sources_end, times_end) if end is not None))
    return Clocks(times, timed, sources, None if sources_at is None else sourced, last_source, ends)


def _times(data: bytes, found: Found | None, count: int) -> tuple[bytearray, int, int | None]:
    nothing = bytearray(b"\0") + bytes(2 * count), 0, None
    if found is None:
        return nothing
    done = 0
    try:
        number, at = read_uint(data, found.start, found.end)
        now = unzigzag(number)
        if not layout.CLOCK_MS_MIN <= now <= layout.CLOCK_MS_MAX:
            return nothing
    except FormatError:
        return nothing
    out = bytearray(uint_bytes(number))
    try:
        while done < count:
            delta, after = read_uint(data, at, found.end)
            duration, after = read_uint(data, after, found.end)
            now += unzigzag(delta)
            if not layout.CLOCK_MS_MIN <= now <= layout.CLOCK_MS_MAX or duration > layout.INTEGER_MAX + 1:
                break
            out += data[at:after]
            at, done = after, done + 1
    except FormatError:
        pass  # everything before it is sound
    return out + bytes(2 * (count - done)), done, at


def _sources(data: bytes, found: Found | None, count: int) -> tuple[bytearray, int, int, int | None]:
    out = bytearray()
    if found is None:
        return out, 0, 0, None
    at, done, source, has_any = found.start, 0, 0, False
    try:
        while done < count:
            delta, after = read_uint(data, at, found.end)
            if not 0 <= source + unzigzag(delta) <= layout.INTEGER_MAX:
                break
            source += unzigzag(delta)
            has_any = has_any or source > 0
            out += data[at:after]
            at, done = after, done + 1
    except FormatError:
        pass  # as for the times
    if done < count:
        append_uint(out, zigzag(-source))
        out += bytes(count - done - 1)
        source = 0
    return out if has_any else bytearray(), done, source, at
