"""Policies: hooks that decide how far a turn may go. The loop does not know them."""

from __future__ import annotations

__all__ = []
