"""Layout of the record of a context: its sections and their limits."""

from __future__ import annotations

__all__ = [
    "ATOMS",
    "ATOM_ROW",
    "BASE",
    "DEPTH_MAX",
    "HERE",
    "INDEX",
    "INLINE_BYTES_MAX",
    "INLINE_DIGESTS_MAX",
    "KNOWN",
    "LIVE_MAX",
    "MERGED",
    "METADATA",
    "MOLECULES",
    "NUMBERS",
    "RECORD_BYTES_MAX",
    "RECORD_VERSION",
    "REMOVED",
    "ROOT",
    "ROW",
    "ROWS",
    "ROWS_INLINE_MAX",
]

from typing import Final

RECORD_VERSION: Final = 1
RECORD_BYTES_MAX: Final = 96 << 10  # metadata, the three lists in their longest forms, merged contexts
INLINE_BYTES_MAX: Final = 8_192
INLINE_DIGESTS_MAX: Final = 128
ROWS_INLINE_MAX: Final = 64
DEPTH_MAX: Final = (1 << 53) - 1
LIVE_MAX: Final = (1 << 53) - 1

# Sections. A list that is not empty has one of its three forms (in the record, rows, object of rows).
NUMBERS: Final = 0
BASE: Final = 1
MERGED: Final = 2
ROOT: Final = 3
METADATA: Final = 4
REMOVED: Final = 0x10
MOLECULES: Final = 0x20
ATOMS: Final = 0x30
HERE, ROWS, INDEX = 0, 1, 2
KNOWN: Final = frozenset({0, 1, 2, 3, 4, *range(0x10, 0x13), *range(0x20, 0x23), *range(0x30, 0x33)})
ATOM_ROW: Final = 32 + 4 + 8 + 32 + 32
ROW: Final = 64
