"""The agent runtime: a loop that knows contracts only, policy in hooks, and a context that is an append-only tape."""

from __future__ import annotations

__all__ = []
