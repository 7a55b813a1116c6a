"""Load msgspec without ``typing_extensions``, which takes 9 ms of the 60 that a hook has.

msgspec takes it in place of ``typing`` where it is installed, and it loads ``inspect``. Python from 3.11 on has all of it in ``typing``.
Who imports it later gets it as ever.
"""

from __future__ import annotations

__all__ = ["load_msgspec"]

import sys
from typing import Any


def load_msgspec() -> None:
    """Import msgspec, in a process of a command: before anything else does."""
    modules: dict[str, Any] = sys.modules
    if "typing_extensions" in modules or "msgspec" in modules:
        return
    modules["typing_extensions"] = None  # the import system takes that for a module that is not there
    try:
        import msgspec  # noqa: F401 - to have it loaded
    finally:
        del modules["typing_extensions"]
