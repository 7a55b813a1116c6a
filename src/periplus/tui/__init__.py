"""A session with the agent at a terminal: one input line, with the output scrolling above it."""

from __future__ import annotations

__all__ = []
