"""Checks of server and tool names: plain characters, and no two that can be confused."""

from __future__ import annotations

__all__ = ["NAME_CHARS_MAX", "is_tool_name", "lookalike"]

import re
from typing import Final

NAME_CHARS_MAX: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*+(?>(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*+)*)")
_ALIKE: Final = str.maketrans({"1": "l", "i": "l", "|": "l", "0": "o", "5": "s", "-": "", "_": "", ".": "", "/": ""})


def is_tool_name(name: str) -> bool:
    """Return whether the name has only letters, digits, ``_``, ``-``, ``.`` and single ``/``, so that it cannot look like a rule or path."""
    return 0 < len(name) <= NAME_CHARS_MAX and _NAME.fullmatch(name) is not None


def lookalike(name: str) -> str:
    """Fold a name so that names which a person would confuse become equal."""
    return name.casefold().translate(_ALIKE)
