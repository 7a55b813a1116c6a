"""Clients of model providers. Nothing here is imported before it is used."""

from __future__ import annotations

__all__ = []
