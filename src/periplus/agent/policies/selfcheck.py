"""Self-check for runs without a person: "done" is accepted after verification work, not after a repeated claim.

When the model says that it is done, it is asked to verify, beginning with the open requirements. It may say so again once it has run a tool
since the question. After ``rounds`` questions it is believed.
"""

from __future__ import annotations

__all__ = ["SelfCheck"]

from collections.abc import Callable, Sequence
from typing import Final

from periplus.agent.contracts import Continue, Stop, ToolCall, ToolResult
from periplus.agent.episodes import Episode, Fed, Resulted
from periplus.agent.hooks import Hook

ROUNDS: Final = 3
_NO_WORK: Final = frozenset({"denied", "cancelled"})


class SelfCheck(Hook):
    """The self-check hook. ``requirements`` returns the open ones, in words."""

    def __init__(self, requirements: Callable[[], Sequence[str]] = tuple, *, rounds: int = ROUNDS) -> None:
        self._requirements, self._rounds = requirements, rounds
        self._asked = 0
        self._has_worked = False

    @property
    def name(self) -> str:
        return "selfcheck"

    def reset_for_turn(self) -> None:
        self._asked = 0
        self._has_worked = False

    def transform_tool_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        del call
        self._has_worked = self._has_worked or result.outcome not in _NO_WORK
        return None

    def should_continue_after_stop(self, stop: Stop) -> Continue | None:
        is_proven = self._asked > 0 and self._has_worked
        if stop.reason != "done" or is_proven or self._asked >= self._rounds:
            return None
        self._asked += 1
        self._has_worked = False
        return Continue(feedback=self._question(), source=self.name)

    def restore(self, episodes: Sequence[Episode]) -> None:
        """Count the questions that were asked, and the work since the last of them."""
        for episode in episodes:
            if isinstance(episode, Fed) and episode.source == self.name:
                self._asked += 1
                self._has_worked = False
            elif isinstance(episode, Resulted):
                self._has_worked = self._has_worked or episode.result.outcome not in _NO_WORK

    def _question(self) -> str:
        if self._asked > 1:
            return "You said so again without looking. Run something that shows it (the tests, the program, a read of what you changed)."
        open_ones = [f"- {one}" for one in self._requirements()]
        if not open_ones:
            return "Before this counts as done: verify it with a tool (the tests, the program, a read of what you changed), then say what you saw."
        listed = "\n".join(open_ones)
        return f"Before this counts as done: these requirements are still open.\n{listed}\nVerify each with a tool, then say what you saw."
