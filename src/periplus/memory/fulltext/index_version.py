"""The version of the memory's tables in the index, for readers that do not load the code that fills them."""

from __future__ import annotations

__all__ = ["INDEX_VERSION"]

from typing import Final

INDEX_VERSION: Final = 12
