"""Models: clients that answer requests. Nothing here is imported before it is used."""

from __future__ import annotations

__all__ = []
