"""Recover the sound part of a trail that was cut off or damaged, as a whole new trail.

The steps before the first fault keep their bytes, and the texts that they name keep their places, so a kept step has
the same leaf as in the damaged trail. If no step is left, the texts are kept as comments, in the order of their first
use. A comment at the end says what the file was and what is lost; the status is ``partial``, and the digest that the
file stated, if it can still be read, is the first parent.

A byte changed within a text cannot be located, because the hashes cover the whole: if the file is not merely cut off,
``Salvage.is_exact`` is False and the comment says that the kept part may be wrong in places.
"""

from __future__ import annotations

__all__ = ["Salvage", "salvage"]

import hashlib
from array import array
from itertools import repeat
from typing import Final, NamedTuple

from periplus.base.encoding.container import CONTAINER_VERSION, KIND_TRAIL, KIND_TRAILS, MAGIC, kind_of, pack
from periplus.base.encoding.varint import append_uint, read_uint, uint_bytes, zigzag
from periplus.base.errors import FormatError
from periplus.trail.format import layout
from periplus.trail.format.concatenation import Parts, concat
from periplus.trail.format.identity import identify
from periplus.trail.format.reader import TrailReader
from periplus.trail.integrity.signature import is_signed_soundly
from periplus.trail.integrity.sound_prefix import (
    Clocks,
    Found,
    Steps,
    Strings,
    find,
    find_first,
    read_clocks,
    read_steps,
    read_strings,
)
from periplus.trail.model import STATUSES, Digest, Withheld
from periplus.trail.opcodes import BY_NAME

_FIRST: Final = 6  # offset of the first section
_UNKNOWN: Final = b"unknown"
_NOTHING: Final = "nothing of a trail is left in it"
_TEXT_FORMS: Final = (layout.FORM_TEXT, layout.FORM_TEXT_OBJECT, layout.FORM_WITHHELD)
_DIGEST_FORMS: Final = (layout.FORM_DIGEST, layout.FORM_WITHHELD)
_FIXED: Final = ("agent", "trail id", "tool", "tool version")
_OPTIONAL: Final = (
    (layout.HAS_BASE, "base", (*_TEXT_FORMS, layout.FORM_DIGEST)),
    (layout.HAS_MODEL, "model", _TEXT_FORMS),
    (layout.HAS_HOST, "host", _TEXT_FORMS),
    (layout.HAS_SOURCE, "source", _DIGEST_FORMS),
    (layout.HAS_TITLE, "title", _TEXT_FORMS),
)
_OPTIONAL_ALL: Final = sum(flag for flag, _, _ in _OPTIONAL)


class Salvage(NamedTuple):
    """``data`` is a sound trail; ``lost`` lists what it lacks, one phrase each, and is empty if nothing was wrong.

    ``wrong`` and ``offset`` are the first fault of the damaged file. ``is_exact``: as far as can be told, the file was
    only cut off, and everything kept is unchanged.
    """

    data: bytes
    lost: tuple[str, ...]
    wrong: str
    offset: int | None
    is_exact: bool


def salvage(data: bytes) -> Salvage:
    """Return the sound prefix of ``data``, a trail or a concatenation; sound parts of a concatenation are kept
    unchanged.

    Raises FormatError if nothing of a trail is left, NewerFormatError for a sound file of a later version.
    """
    if kind_of(data) == KIND_TRAILS:
        return _salvage_parts(data)
    fault = _fault(data)
    return Salvage(data, (), "", None, is_exact=True) if fault is None else _salvage_trail(data, fault)


def _fault(data: bytes) -> FormatError | None:
    """Return the fault of the trail, if it has one."""
    try:
        reader = TrailReader(data)
    except FormatError as error:
        return error
    if reader.computed_identity() != reader.stored_identity:
        offset = reader.span(layout.TAG_RECEIPTS)[0]
        return FormatError("the content of the trail does not match its digest", offset=offset)
    if reader.signature is not None and not is_signed_soundly(reader):
        return FormatError(
            "the signature does not match the public key beside it", offset=reader.span(layout.TAG_SIGNATURE)[0]
        )
    return None


# Concatenations


def _salvage_parts(data: bytes) -> Salvage:
    fault = _fault_of_parts(data)
    if fault is None:
        return Salvage(data, (), "", None, is_exact=True)
    kept: list[bytes] = []
    lost: list[str] = []
    is_exact = True
    announced, spans = _part_spans(data)
    for number, (start, end) in enumerate(spans, 1):
        file = data[start:end]
        try:
            bad = _fault(file)
            one = Salvage(file, (), "", None, is_exact=True) if bad is None else _salvage_trail(file, bad)
        except FormatError as error:
            lost.append(f"part {number}, all of it: {error.wrong}")
            continue
        kept.append(one.data)
        lost += [f"part {number}: {what}" for what in one.lost]
        is_exact = is_exact and one.is_exact
    if not kept:
        raise FormatError(_NOTHING, offset=fault.offset)
    if announced > len(spans):
        lost.append(f"{announced - len(spans):,} of {announced:,} parts")
    lost.append("the signature of the concatenation, if it had one")
    return Salvage(concat(kept), tuple(lost), fault.wrong, fault.offset, is_exact)


def _fault_of_parts(data: bytes) -> FormatError | None:
    try:
        parts = Parts(data)
        for at, file in enumerate(parts.files()):
            bad = _fault(file)
            if bad is not None:
                return FormatError(f"part {at + 1}: {bad.wrong}", offset=parts.offset(at) + (bad.offset or 0))
        parts.readers()
        if parts.signature is not None and not is_signed_soundly(parts):
            return FormatError(
                "the signature does not match the public key beside it", offset=parts.span(layout.TAG_SIGNATURE)[0]
            )
    except FormatError as error:
        return error
    return None


def _part_spans(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the announced number of parts, and the spans of those that begin in the file."""
    spans: list[tuple[int, int]] = []
    count = 0
    try:
        _, at = read_uint(data, _FIRST + 1, len(data))
        count, at = read_uint(data, at, len(data))
        while len(spans) < min(count, layout.PARTS_MAX):
            length, at = read_uint(data, at, len(data))
            spans.append((at, min(at + length, len(data))))
            at += length
    except FormatError:
        pass  # the parts before the fault are left
    return count, spans


# A trail


def _salvage_trail(data: bytes, fault: FormatError) -> Salvage:
    nothing = FormatError(_NOTHING, offset=fault.offset)
    if kind_of(data) == KIND_TRAILS or (data[:4] != MAGIC and data[_FIRST : _FIRST + 1] != bytes((layout.TAG_HEADER,))):
        raise FormatError("not a trail of Periplus", offset=0)
    head_at = find_first(data, _FIRST)
    refs = _read_header(data, head_at)
    strings_at = find(data, layout.TAG_STRINGS, head_at, refs.end if refs is not None else None)
    strings = read_strings(data, strings_at) if strings_at is not None else None
    if strings is None:
        raise nothing
    steps_at = find(data, layout.TAG_STEPS, strings_at, strings.end)
    steps = read_steps(data, steps_at, strings)
    clocks = read_clocks(data, steps_at, steps)
    lost = _lost_of(strings, steps, clocks)
    known = _known_refs(refs, strings, lost)
    digest = _stated_digest(data, clocks)
    if digest is None:
        lost.append("the digest of the whole")
    lost.append("the signature and sections of a newer version, if it had any")
    is_exact = digest is None and _runs_out(data)
    writer = _Writer(strings, steps, clocks)
    if steps.announced < 0:
        writer.keep_texts()
        if not writer.step_count:
            raise nothing
    writer.comment(_said(data, fault, lost, is_exact=is_exact))
    return Salvage(writer.sealed(known, digest), tuple(lost), fault.wrong, fault.offset, is_exact)


def _lost_of(strings: Strings, steps: Steps, clocks: Clocks) -> list[str]:
    lost = []
    kept = len(strings.table)
    if kept < strings.announced:
        lost.append(f"{strings.announced - kept:,} of {strings.announced:,} strings")
    if steps.announced < 0:
        lost.append("every step; the texts are kept as comments")
    elif steps.kept < steps.announced:
        lost.append(f"{steps.announced - steps.kept:,} of {steps.announced:,} steps, from step {steps.kept:,}")
    if clocks.timed < steps.kept:
        lost.append(f"the times of {steps.kept - clocks.timed:,} steps")
    if clocks.sourced is not None and clocks.sourced < steps.kept:
        lost.append(f"the sources of {steps.kept - clocks.sourced:,} steps")
    return lost


def _stated_digest(data: bytes, clocks: Clocks) -> bytes | None:
    for end in clocks.ends:
        found = find_first(data, end) if data[end : end + 1] == bytes((layout.TAG_RECEIPTS,)) else None
        if found is not None and not found.is_cut and found.end - found.start == layout.RECEIPTS_BYTES:
            return data[found.end - 32 : found.end]
    return None


def _runs_out(data: bytes) -> bool:
    """Return whether the sections are in order up to the end of the file, so that only its end is missing."""
    if data[:_FIRST] != MAGIC + bytes((CONTAINER_VERSION, KIND_TRAIL)):
        return False
    at, previous = _FIRST, -1
    while at < len(data):
        found = find_first(data, at)
        if found is None or not previous < data[at] < 0xFF:
            return False
        if found.is_cut:
            return True
        at, previous = found.end, data[at]
    return True


def _said(data: bytes, fault: FormatError, lost: list[str], *, is_exact: bool) -> bytes:
    said = [
        f"Salvaged from a damaged trail of {len(data):,} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}.",
        f"First fault at byte {fault.offset or 0:,}: {fault.wrong}.",
        f"Lost: {'; '.join(lost)}.",
    ]
    if not is_exact:
        said.append("What was kept may be wrong in places, for the digest does not say where it was changed.")
    return " ".join(said).encode()


# The header


class _Refs(NamedTuple):
    fixed: tuple[int | None, ...]
    optional: dict[int, int]
    parents: tuple[int, ...]
    end: int


def _read_header(data: bytes, found: Found | None) -> _Refs | None:
    """Return the refs of the header; None if it is malformed."""
    if found is None:
        return None

    at = found.start

    def read(count: int) -> tuple[int, ...]:
        nonlocal at
        refs: list[int] = []
        for _ in range(count):
            ref, at = read_uint(data, at, len(data))
            refs.append(ref)
        return tuple(refs)

    try:
        (version,) = read(1)
        fixed = read(len(_FIXED))
        present = data[at]
        at += 1
        flags = [flag for flag, _, _ in _OPTIONAL if present & flag]
        optional = dict(zip(flags, read(len(flags)), strict=True))
        (count,) = read(1)
        if version != layout.FORMAT_VERSION or present & ~_OPTIONAL_ALL or count > layout.PARENTS_MAX:
            return None
        return _Refs(fixed, optional, read(count), at)
    except (FormatError, IndexError):
        return None


def _known_refs(refs: _Refs | None, strings: Strings, lost: list[str]) -> _Refs:
    """Return the refs whose entries are among the sound strings and have a permitted form."""
    if refs is None:
        lost.append("the header")
        return _Refs((None,) * len(_FIXED), {}, (), 0)
    forms = strings.table.forms

    def known(name: str, ref: int, allowed: tuple[int, ...]) -> int | None:
        if ref < len(forms) and forms[ref] in allowed:
            return ref
        lost.append(f"of the header: {name}")
        return None

    fixed = tuple(
        known(name, ref, _TEXT_FORMS) for name, ref in zip(_FIXED, refs.fixed, strict=True) if ref is not None
    )
    optional = {
        flag: ref
        for flag, name, allowed in _OPTIONAL
        if flag in refs.optional and (ref := known(name, refs.optional[flag], allowed)) is not None
    }
    parents = (known("a parent", ref, _DIGEST_FORMS) for ref in refs.parents)
    return _Refs(fixed, optional, tuple(ref for ref in parents if ref is not None), 0)


# Writing


class _Writer:
    """The kept entries and steps, in their places, and what is added behind them."""

    def __init__(self, strings: Strings, steps: Steps, clocks: Clocks) -> None:
        self.step_count = steps.kept
        self._table = strings.table
        self._section = strings.section
        self._prefix = strings.section[: 1 if self._table.is_redacted else 1 + layout.SECRET_BYTES]
        self._seed = hashlib.sha256(strings.section).digest()
        self._steps = bytearray(steps.body)
        self._clocks = clocks
        self._source = clocks.last_source
        used = steps.entries_used
        self._entries = bytearray(strings.section[self._start(0) : self._start(used)])
        self._count = used
        self._places = array("q", range(used))  # new place of each entry of the damaged file, or -1
        self._places.extend(repeat(-1, len(self._table) - used))
        self._added: dict[bytes, int] = {}

    def keep_texts(self) -> None:
        """Add a comment for each text, if there are no steps."""
        for index, form in enumerate(self._table.forms):
            if form in (layout.FORM_TEXT, layout.FORM_TEXT_OBJECT):
                self._add_comment(self._keep(index))

    def comment(self, text: bytes) -> None:
        self._add_comment(self._text(text))

    def sealed(self, refs: _Refs, digest: bytes | None) -> bytes:
        """Return the trail; ``digest`` is that of the damaged one."""
        header = self._header(refs, digest)
        strings = self._prefix + uint_bytes(self._count) + self._entries
        steps = uint_bytes(self.step_count) + self._steps
        sections: dict[int, bytes | bytearray] = {
            layout.TAG_HEADER: header,
            layout.TAG_STRINGS: strings,
            layout.TAG_STEPS: steps,
            layout.TAG_TIMES: self._clocks.times,
            layout.TAG_RECEIPTS: identify(header, strings, steps, STATUSES.index("partial")).receipts_section(),
        }
        if self._clocks.sources:
            sections[layout.TAG_SOURCES] = self._clocks.sources
        data = pack(KIND_TRAIL, sections)
        TrailReader(data)  # invariant: the result can be read
        return data

    def _header(self, refs: _Refs, digest: bytes | None) -> bytes:
        out = bytearray((layout.FORMAT_VERSION,))
        for ref in refs.fixed:
            append_uint(out, self._text(_UNKNOWN) if ref is None else self._keep(ref))
        out.append(sum(refs.optional))
        for flag, _, _ in _OPTIONAL:
            if flag in refs.optional:
                append_uint(out, self._keep(refs.optional[flag]))
        parents = [] if digest is None else [self._digest(digest)]
        parents += [self._keep(ref) for ref in refs.parents[: layout.PARENTS_MAX - 1] if self._may_be_parent(ref)]
        append_uint(out, len(parents))
        for parent in parents:
            append_uint(out, parent)
        return bytes(out)

    def _may_be_parent(self, index: int) -> bool:
        value = self._table.value(index)
        return isinstance(value, Withheld) or (isinstance(value, Digest) and value.algorithm == "sha256")

    def _add_comment(self, entry: int) -> None:
        operand = uint_bytes(entry << 2 | layout.WIRE_ENTRY)
        self._steps += bytes((BY_NAME["COMMENT"].code, 2 + len(operand), 0, 1)) + operand
        self._clocks.times.extend(b"\0\0")
        if self._clocks.sources:
            append_uint(self._clocks.sources, zigzag(-self._source))
            self._source = 0
        self.step_count += 1

    def _keep(self, index: int) -> int:
        """Return the new place of an entry of the damaged file."""
        place = self._places[index]
        if place < 0:
            place = self._places[index] = self._place(self._section[self._start(index) : self._start(index + 1)])
        return place

    def _start(self, index: int) -> int:
        """Return the offset of entry ``index`` in the sound strings."""
        table = self._table
        if index == len(table):
            return len(self._section)
        has_salt = table.is_redacted and table.forms[index] != layout.FORM_WITHHELD
        return table.offset(index) - (33 if has_salt else 1)

    def _text(self, text: bytes) -> int:
        shown = text[: layout.INLINE_TEXT_BYTES_MAX].decode(errors="ignore")
        data = shown.encode()
        return self._add(layout.FORM_TEXT, shown, uint_bytes(len(data)) + data)

    def _digest(self, sha256: bytes) -> int:
        content = bytes((layout.CODE_BY_ALGORITHM["sha256"],)) + sha256
        return self._add(layout.FORM_DIGEST, Digest("sha256", sha256), content)

    def _add(self, form: int, value: str | Digest, content: bytes) -> int:
        """Return the place of an entry, reusing an equal one of the damaged file, because entries must be distinct."""
        known = self._added.get(content)
        if known is not None:
            return known
        table = self._table
        for index in range(len(table)):
            if table.forms[index] == form and table.value(index) == value:
                return self._keep(index)
        salt = hashlib.sha256(self._seed + content).digest() if table.is_redacted else b""
        self._added[content] = place = self._place(bytes((form,)) + salt + content)
        return place

    def _place(self, entry: bytes) -> int:
        self._entries += entry
        self._count += 1
        return self._count - 1
