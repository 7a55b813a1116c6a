"""Limits and sentences that several parts of the code map share."""

from __future__ import annotations

__all__ = ["NO_PARSERS", "SOURCE_BYTES_MAX"]

from typing import Final

SOURCE_BYTES_MAX: Final = 2 << 20
NO_PARSERS: Final = "the parsers are not installed (the extra `code`)"
