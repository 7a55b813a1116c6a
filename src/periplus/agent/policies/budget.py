"""Budget of one turn in tokens and money, with those of its subagents. It starts again with each turn."""

from __future__ import annotations

__all__ = ["Budget", "Spending"]

import threading
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from periplus.agent.contracts import Spawned, Stop, Usage
from periplus.agent.episodes import Episode, Resulted
from periplus.agent.hooks import Hook


class Spending(NamedTuple):
    """Spent tokens and money. ``tokens`` are prompt tokens paid in full plus all output tokens; ``cost`` as in ``Usage``."""

    tokens: int
    cost: int


class Budget(Hook):
    """Limits of ``tokens`` and ``cost`` in a turn; None is no limit. Tokens from the provider's cache count a tenth.

    If a price is not known, a limit of money alone has no effect; ``is_blind`` says so.
    """

    also: ClassVar[frozenset[str]] = frozenset({"add", "child", "over"})

    def __init__(self, *, tokens: int | None = None, cost: int | None = None, parent: Budget | None = None) -> None:
        self._tokens, self._cost = tokens, cost
        self._parent = parent
        self._lock = threading.Lock()
        self._spent = Usage()
        self.is_blind = False

    @property
    def spent(self) -> Spending:
        with self._lock:
            spent = self._spent
        return Spending(spent.fresh + spent.cached // 10 + spent.completion_tokens, spent.cost)

    def child(self, *, tokens: int | None = None, cost: int | None = None) -> Budget:
        """The budget of a subagent: its spending counts here too, and its own limits apply as well."""
        return Budget(tokens=tokens, cost=cost, parent=self)

    def reset_for_turn(self) -> None:
        with self._lock:
            self._spent = Usage()

    def record_step_usage(self, usage: Usage) -> Stop | None:
        self.add(usage)
        return self.over()

    def before_step(self, step: int) -> Stop | None:
        """Stop if the budget is spent, perhaps by a subagent."""
        del step
        return self.over()

    def restore(self, episodes: Sequence[Episode]) -> None:
        """Count the spending of subagents that have reported; resumed ones report it themselves."""
        for episode in episodes:
            if isinstance(episode, Resulted) and isinstance(episode.result.spawned, Spawned):
                self.add(episode.result.spawned.usage)

    def add(self, usage: Usage) -> None:
        with self._lock:
            self._spent += usage
            self.is_blind = self._cost is not None and not self._spent.cost and self._spent.prompt_tokens > 0
        if self._parent is not None:
            self._parent.add(usage)

    def over(self) -> Stop | None:
        spent = self.spent
        if self._tokens is not None and spent.tokens >= self._tokens:
            return Stop(reason="budget", note=f"{spent.tokens:,} of {self._tokens:,} tokens are used.")
        if self._cost is not None and spent.cost >= self._cost:
            note = f"{spent.cost / 1_000_000:.2f} of {self._cost / 1_000_000:.2f} are spent."
            return Stop(reason="budget", note=note)
        return self._parent.over() if self._parent is not None else None
