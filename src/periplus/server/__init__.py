"""Servers over a project's store: the context protocol over TCP and Unix sockets."""

from __future__ import annotations

__all__ = []
