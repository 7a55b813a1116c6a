"""What a shell would do with a text: its grammar, its words, and one judgement of what would run, be written and be set."""

from __future__ import annotations

__all__ = []
