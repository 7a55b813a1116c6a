"""Limits and sentences that several parts of the code map share."""

from __future__ import annotations

__all__ = ["HAS_OWN_PARSER", "NO_PARSERS", "SOURCE_BYTES_MAX"]

from typing import Final

SOURCE_BYTES_MAX: Final = 2 << 20
HAS_OWN_PARSER: Final = "python"
"""The language that is parsed without the extra ``code`` too, by the interpreter itself."""
NO_PARSERS: Final = "the parsers are not installed (the extra `code`)"
