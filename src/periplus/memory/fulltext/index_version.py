"""The version of the tables that the memory keeps in the index: for who reads a row of them without loading what makes them."""

from __future__ import annotations

__all__ = ["INDEX_VERSION"]

from typing import Final

INDEX_VERSION: Final = 11
