"""Hex listing: every byte of a trail file once, at its offset, with its meaning.

A line is ``offset bytes meaning``; bytes that do not fit continue on lines without a meaning. The bytes of all lines
together are the file. With a selection of steps the listing has those steps, their times and their sources, and of the
other sections only the beginning.
"""

from __future__ import annotations

__all__ = ["frame_lines", "hex_lines"]

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from periplus.base.clock import format_ms
from periplus.base.encoding.container import KIND_TRAIL, unpack
from periplus.base.encoding.varint import read_uint, unzigzag
from periplus.trail.format import layout
from periplus.trail.format.reader import TrailReader
from periplus.trail.listings.selection import Sieve
from periplus.trail.listings.value_text import Piece, View, line_of, shown, step_pieces, whole
from periplus.trail.model import STATUSES, Digest, TextObject, Withheld

_SECTIONS: Final = {
    layout.TAG_HEADER: "header",
    layout.TAG_STRINGS: "strings",
    layout.TAG_STEPS: "steps",
    layout.TAG_TIMES: "times",
    layout.TAG_SOURCES: "sources",
    layout.TAG_RECEIPTS: "receipts",
    layout.TAG_SIGNATURE: "signature",
}
_HEADER_OPTIONS: Final = ("base", "model", "host", "source", "title")
_BYTES_BY_WIDTH: Final = ((110, 16), (60, 8), (24, 4), (0, 2))
_COLUMNS_MAX: Final = 160  # of a line that goes to a file: its bytes are complete, their meaning may be cut


class _Item(NamedTuple):
    """Bytes ``start`` to ``end`` of the file, and their meaning."""

    start: int
    end: int
    pieces: list[Piece]


def hex_lines(reader: TrailReader, view: View, sieve: Sieve, base: int = 0) -> Iterator[str]:
    """Yield the lines, without line ends; ``base`` is the offset of the trail in the file, for a part of a
    concatenation.
    """
    data = reader.to_bytes()
    for item in _items(reader, view._replace(width=view.width or _COLUMNS_MAX), sieve):
        yield from _dumped(data, item, view, base)
    if sieve.is_choosy:
        yield line_of([("dim", f"; shown     {sieve.told()}")], view)


def frame_lines(data: bytes, start: int, end: int, told: str, view: View) -> Iterator[str]:
    """Yield the lines of bytes ``start`` to ``end`` around trails; ``told`` is their meaning."""
    yield from _dumped(data, _Item(start, end, [("name", told)]), view, 0)


def _dumped(data: bytes, item: _Item, view: View, base: int) -> Iterator[str]:
    room = 16 if view.width is None else next(size for least, size in _BYTES_BY_WIDTH if view.width >= least)
    view = view._replace(width=view.width or _COLUMNS_MAX)
    for at in range(item.start, item.end, room):
        end = min(at + room, item.end)
        digits = f"{data[at:end].hex(' '):<{3 * room - 1}}  "
        pieces = item.pieces if at == item.start else []
        yield line_of([("dim", f"{base + at:08x}  "), ("plain", digits), *pieces], view)


def _items(reader: TrailReader, view: View, sieve: Sieve) -> Iterator[_Item]:
    data = reader.to_bytes()
    yield _said(0, 4, "magic")
    yield _said(4, 5, f"container version {data[4]}")
    yield _said(5, 6, f"kind {data[5]}, a trail")
    at = 6
    is_chosen = bytearray(reader.step_count) if sieve.is_choosy else None
    for tag, (start, end) in unpack(data, KIND_TRAIL).items():
        name = _SECTIONS.get(tag, "section of a newer version")
        is_left_out = sieve.is_choosy and tag not in (layout.TAG_STEPS, layout.TAG_TIMES, layout.TAG_SOURCES)
        told = f"{tag:02x} {name}, {end - start:,} bytes" + ", not shown" * is_left_out
        yield _Item(at, start, [("name", told)])
        if not is_left_out:
            yield from _section(reader, view, sieve, tag, is_chosen)
        at = end
    yield _said(at, at + 2, "end, and the length of what follows")
    yield _said(at + 2, at + 34, "SHA-256 of all before it")


def _section(reader: TrailReader, view: View, sieve: Sieve, tag: int, is_chosen: bytearray | None) -> Iterable[_Item]:
    start, end = reader.span(tag)
    if tag == layout.TAG_HEADER:
        return _header(reader, view, start, end)
    if tag == layout.TAG_STRINGS:
        return _strings(reader, view, start, end)
    if tag == layout.TAG_STEPS:
        return _steps(reader, view, sieve, is_chosen)
    if tag == layout.TAG_TIMES:
        return _times(reader, start, end, is_chosen)
    if tag == layout.TAG_SOURCES:
        return _sources(reader, start, end, is_chosen)
    if tag == layout.TAG_RECEIPTS:
        names = ("tree root", "last receipt", "trail digest")
        status = _said(start, start + 1, f"status {STATUSES[reader.to_bytes()[start]]}")
        return [status, *(_said(start + 1 + 32 * n, start + 33 + 32 * n, name) for n, name in enumerate(names))]
    if tag == layout.TAG_SIGNATURE:
        return [_said(start, start + 32, "public key, Ed25519"), _said(start + 32, end, "signature")]
    return [_said(start, end, "not known here")] if end > start else []


def _said(start: int, end: int, text: str) -> _Item:
    return _Item(start, end, [("plain", text)])


def _header(reader: TrailReader, view: View, start: int, end: int) -> Iterator[_Item]:
    data = reader.to_bytes()
    version, at = read_uint(data, start, end)
    yield _said(start, at, f"format {version}")
    present = 0
    for name in ("agent", "trail id", "tool", "tool version", "", *_HEADER_OPTIONS):
        if not name:
            present = data[at]
            names = ", ".join(option for bit, option in enumerate(_HEADER_OPTIONS) if present >> bit & 1)
            yield _said(at, at + 1, f"present: {names or 'none'}")
            at += 1
            continue
        if name in _HEADER_OPTIONS and not present >> _HEADER_OPTIONS.index(name) & 1:
            continue
        ref, after = read_uint(data, at, end)
        yield _said(at, after, f"{name} = entry {ref}: {_entry(reader, view, ref)}")
        at = after
    count, after = read_uint(data, at, end)
    yield _said(at, after, f"parents: {count:,}")
    at = after
    for _ in range(count):
        ref, after = read_uint(data, at, end)
        yield _said(at, after, f"parent = entry {ref}: {_entry(reader, view, ref)}")
        at = after


def _strings(reader: TrailReader, view: View, start: int, end: int) -> Iterator[_Item]:
    data, strings = reader.to_bytes(), reader.strings
    at = start + 1
    if strings.is_redacted:
        yield _said(start, at, "mode 1, redacted: entries have their salts")
    else:
        yield _said(start, at, "mode 0, whole")
        yield _said(
            at,
            at + layout.SECRET_BYTES,
            "trail secret: with it, the strings that a redacted copy withholds can be guessed",
        )
        at += layout.SECRET_BYTES
    count, after = read_uint(data, at, end)
    yield _said(at, after, f"{count:,} entries")
    at = after
    for index in range(count):
        is_open = strings.is_redacted and strings.forms[index] != layout.FORM_WITHHELD
        if index + 1 < count:
            ahead = 33 if strings.is_redacted and strings.forms[index + 1] != layout.FORM_WITHHELD else 1
            after = strings.offset(index + 1) - ahead
        else:
            after = end
        salt = "salt, " * is_open
        yield _said(at, after, f"entry {index}: {salt}{_entry(reader, view, index)}")
        at = after


def _entry(reader: TrailReader, view: View, index: int) -> str:
    value = reader.string(index)
    if isinstance(value, Withheld):
        return "withheld, its commitment"
    if isinstance(value, Digest):
        return f"digest {whole(value)}"
    return ("long text " if isinstance(value, TextObject) else "text ") + shown(value, view, is_quoted=True)


def _steps(reader: TrailReader, view: View, sieve: Sieve, is_chosen: bytearray | None) -> Iterator[_Item]:
    data = reader.to_bytes()
    start, end = reader.span(layout.TAG_STEPS)
    count, at = read_uint(data, start, end)
    yield _said(start, at, f"{count:,} steps")
    for index, step in enumerate(reader.steps()):
        if sieve.is_behind(index):
            return
        length, body = read_uint(data, at + 1, end)
        if sieve.takes(index, step):
            if is_chosen is not None:
                is_chosen[index] = 1
            yield _Item(at, body + length, [("dim", f"step {index}: "), *step_pieces(step, view, 0)])
        at = body + length


def _times(reader: TrailReader, start: int, end: int, is_chosen: bytearray | None) -> Iterator[_Item]:
    data = reader.to_bytes()
    started, at = read_uint(data, start, end)
    yield _said(start, at, f"began {format_ms(unzigzag(started))}")
    for index in range(reader.step_count):
        delta, middle = read_uint(data, at, end)
        duration, after = read_uint(data, middle, end)
        if is_chosen is None or is_chosen[index]:
            took = f"took {duration - 1:,} ms" if duration else "how long is not known"
            yield _said(at, after, f"step {index}: {unzigzag(delta):+,} ms, {took}")
        at = after


def _sources(reader: TrailReader, start: int, end: int, is_chosen: bytearray | None) -> Iterator[_Item]:
    data = reader.to_bytes()
    at = start
    source = 0
    for index in range(reader.step_count):
        delta, after = read_uint(data, at, end)
        source += unzigzag(delta)
        if is_chosen is None or is_chosen[index]:
            yield _said(at, after, f"step {index}: " + (f"record {source:,}" if source else "no record"))
        at = after
