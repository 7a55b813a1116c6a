"""What the native build has in C for this package; None without it. See decision 0092."""

from __future__ import annotations

__all__ = ["APPEND"]

from types import ModuleType
from typing import Final


def _found() -> ModuleType | None:
    try:
        from periplus.journal import _append  # type: ignore[attr-defined]  # made by hatch_build.py, on Linux
    except ImportError:
        return None
    module: ModuleType = _append
    return module


APPEND: Final = _found()
