"""Read a trail file: everything is checked when it is opened, and steps are made when they are asked for.

A ``TrailReader`` exists only for bytes that are well formed and canonical in every section. It does not check what the
hashes claim, which is the task of ``verify``. It keeps the bytes, nine bytes an entry, and no step.
"""

from __future__ import annotations

__all__ = ["TrailReader"]

from collections.abc import Iterator
from typing import NamedTuple

from periplus.base.encoding.container import KIND_TRAIL, unpack
from periplus.base.encoding.varint import read_uint
from periplus.base.errors import FormatError, NewerFormatError
from periplus.base.speed import IS_NATIVE
from periplus.trail.format import layout
from periplus.trail.format.batch_decoding import made_steps
from periplus.trail.format.identity import Identity, commit_entries, trail_identity
from periplus.trail.format.steps_section import (
    ANY_FORM,
    DIGEST_FORMS,
    TEXT_FORMS,
    check_ref,
    check_sources,
    check_steps,
    check_times,
    decode_steps,
    digest_at,
    text_at,
)
from periplus.trail.format.string_table import StringTable
from periplus.trail.model import STATUSES, Digest, Header, Status, Step, Text, TextObject, Withheld


class TrailReader:
    """Read the trail in ``data``. Raises FormatError with the byte offset of the first fault, NewerFormatError for a
    sound file of a later version of the format, and nothing else, for any bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._sections = unpack(data, KIND_TRAIL)
        for tag in layout.REQUIRED_TAGS:
            if tag not in self._sections:
                raise FormatError(f"section {tag:#04x} is missing", offset=len(data))
        header_start = self._sections[layout.TAG_HEADER][0]
        version, _ = read_uint(data, *self._sections[layout.TAG_HEADER])
        if version > layout.FORMAT_VERSION:
            raise NewerFormatError(
                f"trail format {version}; this Periplus reads {layout.FORMAT_VERSION}",
                offset=header_start,
                safe="The file is sound.",
                mend="Update Periplus.",
            )
        if version < layout.FORMAT_VERSION:
            raise FormatError(f"trail format {version} unknown", offset=header_start)
        self._strings = StringTable(data, *self._sections[layout.TAG_STRINGS])
        forms = self._strings.forms
        checked = check_steps(data, *self._sections[layout.TAG_STEPS], forms)
        refs, used = _check_header(data, *self._sections[layout.TAG_HEADER], forms, checked.entries_used)
        if used != len(forms):
            raise FormatError(f"entry {used} is never used", offset=self._strings.offset(used))
        self._checked = checked
        started_ms = check_times(data, *self._sections[layout.TAG_TIMES], checked.step_count)
        if layout.TAG_SOURCES in self._sections:
            check_sources(data, *self._sections[layout.TAG_SOURCES], checked.step_count)
        self._identity = self._read_receipts()
        self._header = _header(self._strings, refs, started_ms)
        for parent in self._header.parents:
            if isinstance(parent, Digest) and parent.algorithm != "sha256":
                raise FormatError("parent is not a trail digest", offset=header_start)
        if self.signature is not None and len(self.signature) != layout.SIGNATURE_BYTES:
            raise FormatError("signature of the wrong size", offset=self._sections[layout.TAG_SIGNATURE][0])

    @property
    def header(self) -> Header:
        return self._header

    @property
    def status(self) -> Status:
        return STATUSES[self._identity.status]

    @property
    def stored_identity(self) -> Identity:
        """Root, receipt and digest as stored in the file; ``computed_identity`` computes them from the content."""
        return self._identity

    @property
    def digest(self) -> bytes:
        """The trail digest as stored in the file."""
        return self._identity.digest

    @property
    def step_count(self) -> int:
        return self._checked.step_count

    @property
    def unknown_opcodes(self) -> dict[int, int]:
        """The opcodes that this version does not know, with the number of steps of each."""
        return dict(self._checked.unknown)

    @property
    def unknown_at(self) -> int | None:
        """The byte offset of the first step with an unknown opcode."""
        return self._checked.unknown_at

    @property
    def is_redacted(self) -> bool:
        return self._strings.is_redacted

    @property
    def secret(self) -> bytes | None:
        """The trail secret; None in a redacted file."""
        return self._strings.secret

    @property
    def strings(self) -> StringTable:
        return self._strings

    @property
    def signature(self) -> bytes | None:
        """Public key (32) and Ed25519 signature (64), or None."""
        return self.section(layout.TAG_SIGNATURE)

    @property
    def extra(self) -> dict[int, bytes]:
        """The sections with tags that this version does not know."""
        data, known = self._data, layout.KNOWN_TAGS
        return {tag: data[start:end] for tag, (start, end) in self._sections.items() if tag not in known}

    def string(self, index: int) -> str | TextObject | Digest | Withheld:
        """Return entry ``index`` of the strings, counted from 0. Raises IndexError."""
        if not 0 <= index < len(self._strings):
            raise IndexError(index)
        return self._strings.value(index)

    def text_objects(self) -> Iterator[TextObject]:
        """Yield the long texts that are kept outside the file, each once."""
        for index, form in enumerate(self._strings.forms):
            if form == layout.FORM_TEXT_OBJECT:
                value = self._strings.value(index)
                assert isinstance(value, TextObject)
                yield value

    def section(self, tag: int) -> bytes | None:
        span = self._sections.get(tag)
        return self._data[span[0] : span[1]] if span is not None else None

    def sections(self) -> dict[int, bytes]:
        """Return all sections by tag, unknown ones included."""
        return {tag: self._data[start:end] for tag, (start, end) in self._sections.items()}

    def view(self, tag: int) -> memoryview:
        """Return the bytes of a section without a copy; empty if the trail has no such section."""
        start, end = self._sections.get(tag, (0, 0))
        return memoryview(self._data)[start:end]

    def span(self, tag: int) -> tuple[int, int]:
        """Return the offsets of a section that the trail has."""
        return self._sections[tag]

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, each made when it is reached."""
        make = decode_steps if IS_NATIVE or self._checked.unknown else made_steps
        return make(
            self._data,
            self._sections[layout.TAG_STEPS],
            self._sections[layout.TAG_TIMES],
            self._sections.get(layout.TAG_SOURCES),
            self._strings,
        )

    def commitments(self) -> bytes:
        """Compute the commitments of all entries, 32 bytes each."""
        return commit_entries(self._data, *self._sections[layout.TAG_STRINGS])

    def computed_identity(self) -> Identity:
        """Compute root, receipt and digest from the content."""
        start, end = self._sections[layout.TAG_HEADER]
        return trail_identity(
            self._data[start:end],
            self._data,
            *self._sections[layout.TAG_STEPS],
            self.commitments(),
            self._identity.status,
        )

    def to_bytes(self) -> bytes:
        """Return the file, unknown sections and signature included: a checked file has only one form."""
        return self._data

    def _read_receipts(self) -> Identity:
        start, end = self._sections[layout.TAG_RECEIPTS]
        if end - start != layout.RECEIPTS_BYTES:
            raise FormatError("receipts of the wrong size", offset=start)
        status = self._data[start]
        if status >= len(STATUSES):
            raise FormatError(f"status {status} unknown", offset=start)
        at = start + 1
        root, receipt, digest = (self._data[at + 32 * part : at + 32 * part + 32] for part in range(3))
        return Identity(status, root, receipt, digest)


class _HeaderRefs(NamedTuple):
    fixed: tuple[int, ...]  # agent, trail id, tool, tool version
    present: dict[int, int]  # flag → entry
    parents: tuple[int, ...]


_PRESENT = (
    (layout.HAS_BASE, ANY_FORM),
    (layout.HAS_MODEL, TEXT_FORMS),
    (layout.HAS_HOST, TEXT_FORMS),
    (layout.HAS_SOURCE, DIGEST_FORMS),
    (layout.HAS_TITLE, TEXT_FORMS),
)
_PRESENT_ALL = 0x1F


def _check_header(data: bytes, start: int, end: int, forms: bytes, used: int) -> tuple[_HeaderRefs, int]:
    _, at = read_uint(data, start, end)

    def ref(mask: int) -> int:
        nonlocal at, used
        number, _ = read_uint(data, at, end)
        at, used = check_ref(data, at, end, forms, used, mask)
        return number

    fixed = tuple(ref(TEXT_FORMS) for _ in range(4))
    if at >= end:
        raise FormatError("header cut off", offset=at)
    present = data[at]
    if present & ~_PRESENT_ALL:
        raise FormatError(f"header flags {present:#04x} unknown", offset=at)
    at += 1
    optional = {flag: ref(mask) for flag, mask in _PRESENT if present & flag}
    parents_at = at
    count, at = read_uint(data, at, end)
    if count > layout.PARENTS_MAX or count > end - at:
        raise FormatError(f"{count:,} parents announced, more than there is room for", offset=parents_at)
    parents = tuple(ref(DIGEST_FORMS) for _ in range(count))
    if at != end:
        raise FormatError("bytes after the header", offset=at)
    return _HeaderRefs(fixed, optional, parents), used


def _header(strings: StringTable, refs: _HeaderRefs, started_ms: int) -> Header:
    def text(flag: int) -> Text | None:
        return text_at(strings, refs.present[flag]) if flag in refs.present else None

    agent, trail_id, tool, tool_version = (text_at(strings, index) for index in refs.fixed)
    base = refs.present.get(layout.HAS_BASE)
    source = refs.present.get(layout.HAS_SOURCE)
    return Header(
        agent,
        trail_id,
        tool,
        tool_version,
        strings.value(base) if base is not None else None,
        text(layout.HAS_MODEL),
        text(layout.HAS_HOST),
        digest_at(strings, source) if source is not None else None,
        text(layout.HAS_TITLE),
        tuple(digest_at(strings, index) for index in refs.parents),
        started_ms,
    )
