"""Policies: hooks that decide how far a turn may go. The loop knows none of them."""

from __future__ import annotations

__all__ = []
