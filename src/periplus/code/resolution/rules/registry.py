"""The rules of a language by its name; loaded when a file asks for them."""

from __future__ import annotations

__all__ = ["rules_of"]

import importlib
from functools import cache
from typing import Final

from periplus.code.model import Import
from periplus.code.resolution.rules.table import UNKNOWN, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_MODULES: Final[dict[str, str]] = {
    "bash": "bash", "c": "clang", "cpp": "clang", "csharp": "csharp", "go": "go", "java": "java", "javascript": "script", "kotlin": "kotlin",
    "php": "php", "python": "python", "ruby": "ruby", "rust": "rust", "swift": "swift", "typescript": "script",
}  # fmt: skip


@cache
def rules_of(language: str) -> Rules:
    """Return the rules of ``language``; for one without rules nothing is resolved between files."""
    module = _MODULES.get(language)
    if module is None:
        return Rules(language, _nothing_imported, _nothing_free)
    rules: Rules = importlib.import_module(f"periplus.code.resolution.rules.{module}").RULES
    return rules


def _nothing_imported(_lookup: Lookup, _file: KnownFile, _one: Import) -> Outcome:
    return UNKNOWN


def _nothing_free(_lookup: Lookup, _file: KnownFile, _name: str) -> Outcome:
    return UNKNOWN
