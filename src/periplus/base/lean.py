"""``msgspec`` without what it loads and this project does not use.

Where ``typing_extensions`` is installed msgspec takes it in place of ``typing``, and it loads ``inspect`` for that: a sixth of what
``periplus check`` costs. Python from 3.11 on has all of it in ``typing``. Who imports ``typing_extensions`` later gets it as ever.
"""

from __future__ import annotations

__all__ = ["load_msgspec"]

import sys
from typing import Any

_HIDDEN = "typing_extensions"


def load_msgspec() -> None:
    """Import msgspec, in a process of a command: before anything else does."""
    modules: dict[str, Any] = sys.modules
    if _HIDDEN in modules or "msgspec" in modules:
        return
    modules[_HIDDEN] = None  # the import system takes this for a module that is not there
    try:
        import msgspec  # noqa: F401 - to have it loaded
    finally:
        del modules[_HIDDEN]
