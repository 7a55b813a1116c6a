"""Keeping commands in their folder and from the network: bubblewrap, else Landlock, found out by trying."""

from __future__ import annotations

__all__ = []
