"""Analysis of shell commands without running them: grammar, words, and a judgement of effects."""

from __future__ import annotations

__all__ = []
