"""The agent at a terminal: one line to write in, everything else scrolls by."""

from __future__ import annotations

__all__ = []
