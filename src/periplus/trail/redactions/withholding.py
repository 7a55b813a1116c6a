"""Withhold strings from a trail that is to be shared.

A redacted trail has the same digest, root and receipts as the whole one: it keeps the commitment of a withheld entry,
but neither the trail secret nor the salt of that entry, so the entry cannot be guessed either.
"""

from __future__ import annotations

__all__ = ["withhold"]

from collections.abc import Callable

from periplus.base.encoding.container import KIND_TRAIL, pack
from periplus.base.encoding.varint import append_uint
from periplus.trail.format import layout
from periplus.trail.format.concatenation import Parts, is_concatenation
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import OperandValue


def withhold(data: bytes, predicate: Callable[[int, OperandValue], bool]) -> bytes:
    """Return the trail without the entries for which ``predicate(index, value)`` is true; a signature stays valid.

    Entries that are already withheld stay withheld. Sections of a newer version are left out, because it is unknown
    what they would give away. Each part of a concatenation is redacted, with indices counted within the part. Raises
    FormatError if ``data`` is no trail.
    """
    if is_concatenation(data):
        parts = Parts(data)
        return parts.with_files([withhold(file, predicate) for file in parts.files()])
    reader = TrailReader(data)
    strings = reader.strings
    commitments = reader.commitments()
    out = bytearray((layout.MODE_REDACTED,))
    append_uint(out, len(strings))
    for index, (form, content, salt) in enumerate(strings.entries()):
        if salt is None or predicate(index, strings.value(index)):
            out.append(layout.FORM_WITHHELD)
            out += commitments[32 * index : 32 * index + 32]
        else:
            out.append(form)
            out += salt
            out += content
    sections: dict[int, bytes | bytearray] = dict(reader.sections())
    for tag in reader.extra:
        del sections[tag]
    sections[layout.TAG_STRINGS] = out
    return pack(KIND_TRAIL, sections)
