"""Layout of the bytes of a trail: tags, forms, wire types and limits. ``docs/formats/trail.md`` is the reference."""

from __future__ import annotations

__all__ = [
    "ALGORITHM_BY_CODE",
    "CLOCK_MS_MAX",
    "CLOCK_MS_MIN",
    "CODE_BY_ALGORITHM",
    "FORMAT_VERSION",
    "FORM_DIGEST",
    "FORM_TEXT",
    "FORM_TEXT_OBJECT",
    "FORM_WITHHELD",
    "HAS_BASE",
    "HAS_ERROR",
    "HAS_EXIT_CODE",
    "HAS_HOST",
    "HAS_MODEL",
    "HAS_NOTE",
    "HAS_RESULT",
    "HAS_SOURCE",
    "HAS_TITLE",
    "INLINE_TEXT_BYTES_MAX",
    "INTEGER_MAX",
    "KNOWN_TAGS",
    "MODE_FULL",
    "MODE_REDACTED",
    "NEVER_STEPS",
    "OPERANDS_MAX",
    "OPERAND_NUMBER_MAX",
    "OUTCOME_MASK",
    "PARENTS_MAX",
    "PARTS_MAX",
    "RECEIPTS_BYTES",
    "REQUIRED_TAGS",
    "SECRET_BYTES",
    "SIGNATURE_BYTES",
    "STEPS_MAX",
    "STEP_BYTES_MAX",
    "STRINGS_MAX",
    "TAG_DIGEST",
    "TAG_HEADER",
    "TAG_PARTS",
    "TAG_RECEIPTS",
    "TAG_SIGNATURE",
    "TAG_SOURCES",
    "TAG_STEPS",
    "TAG_STRINGS",
    "TAG_TIMES",
    "WIRE_ABSENT",
    "WIRE_ENTRY",
    "WIRE_SIGNED",
    "WIRE_UNSIGNED",
]

from typing import Final

from periplus.trail.model import DigestAlgorithm

FORMAT_VERSION: Final = 2

TAG_HEADER: Final = 1
TAG_STRINGS: Final = 2
TAG_STEPS: Final = 3
TAG_TIMES: Final = 4
TAG_SOURCES: Final = 5
TAG_RECEIPTS: Final = 6
TAG_SIGNATURE: Final = 7
TAG_PARTS: Final = 1  # of a concatenation, like TAG_DIGEST; a signature has the same tag as in a trail
TAG_DIGEST: Final = 6
REQUIRED_TAGS: Final = (TAG_HEADER, TAG_STRINGS, TAG_STEPS, TAG_TIMES, TAG_RECEIPTS)
KNOWN_TAGS: Final = frozenset({*REQUIRED_TAGS, TAG_SOURCES, TAG_SIGNATURE})

MODE_FULL: Final = 0
MODE_REDACTED: Final = 1

FORM_TEXT: Final = 0
FORM_TEXT_OBJECT: Final = 1
FORM_DIGEST: Final = 2
FORM_WITHHELD: Final = 3

CODE_BY_ALGORITHM: Final[dict[DigestAlgorithm, int]] = {"sha256": 1, "git-sha1": 2, "git-sha256": 3}
ALGORITHM_BY_CODE: Final[dict[int, DigestAlgorithm]] = {code: name for name, code in CODE_BY_ALGORITHM.items()}

WIRE_ABSENT: Final = 0
WIRE_ENTRY: Final = 1
WIRE_UNSIGNED: Final = 2
WIRE_SIGNED: Final = 3

OUTCOME_MASK: Final = 0x07
HAS_EXIT_CODE: Final = 0x08
HAS_ERROR: Final = 0x10
HAS_RESULT: Final = 0x20
HAS_NOTE: Final = 0x40

HAS_BASE: Final = 0x01
HAS_MODEL: Final = 0x02
HAS_HOST: Final = 0x04
HAS_SOURCE: Final = 0x08
HAS_TITLE: Final = 0x10

NEVER_STEPS: Final = frozenset({0xA0, 0xA1})  # TRAIL_BEGIN and TRAIL_END are the header and the footer

# Limits, checked before memory is allocated; the container limits the size of the file.
STEPS_MAX: Final = 1 << 24
STRINGS_MAX: Final = 1 << 24
STEP_BYTES_MAX: Final = 512
OPERANDS_MAX: Final = 32
PARENTS_MAX: Final = 4096
PARTS_MAX: Final = 4096
INLINE_TEXT_BYTES_MAX: Final = 4096
OPERAND_NUMBER_MAX: Final = 2**62 - 1
INTEGER_MAX: Final = 2**53 - 1  # sizes, lengths, durations, source numbers, exit codes: exact in JSON everywhere
CLOCK_MS_MIN: Final = -62_135_596_800_000  # 0001-01-01
CLOCK_MS_MAX: Final = 253_402_300_799_999  # 9999-12-31

SECRET_BYTES: Final = 32
RECEIPTS_BYTES: Final = 1 + 3 * 32
SIGNATURE_BYTES: Final = 32 + 64
