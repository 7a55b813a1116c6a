"""How many tokens a text takes: one protocol, and the counters that ship.

A budget is kept exactly *under the chosen counter*; how far a counter is from a model's truth is the counter's own affair, and
each says it.
"""

from __future__ import annotations

__all__ = ["ESTIMATE", "EstimateCounter", "TokenCounter"]

from typing import Final, Protocol

from periplus.base.tokens import estimate_tokens


class TokenCounter(Protocol):
    """Counts the tokens of one text by itself: never negative, the same number for the same text."""

    @property
    def name(self) -> str:
        """What people are told that was counted with."""
        ...

    @property
    def request_tokens(self) -> int:
        """What a request takes beyond the texts in it, 0 where the counter does not know; taken off a budget once."""
        ...

    def count(self, text: str, /) -> int: ...


class EstimateCounter:
    """The estimate by kinds of bytes (``base.tokens``), which needs no vocabulary."""

    name: Final = "estimate"
    request_tokens: Final = 0

    def count(self, text: str, /) -> int:
        return estimate_tokens(text)


ESTIMATE: Final[TokenCounter] = EstimateCounter()
