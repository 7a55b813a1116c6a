"""Exact requests of a session, rebuilt from its episodes.

A request is a function of the episodes before its answer (``tape.state``), so none is stored: the history folds the episodes and keeps the
newest few; an older one is found by folding again. The rebuilt length is compared with the length measured when the request was sent
(``measures``); a hook that changes messages on the way makes the two differ, and that is reported.

``Seen.kept`` says how much of each message was in the request before: what a provider's cache can hold, and what is new.
"""

from __future__ import annotations

__all__ = ["RECENT_MAX", "RequestHistory", "Seen", "kept_characters"]

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from periplus.agent.contracts import Message, ToolSchema
from periplus.agent.episodes import Answered, Decided, Ended, Episode, Fed, HookFailed, Noted, Requested, Resulted
from periplus.agent.execution.turn_state import Turn
from periplus.agent.tape.prefix_survival import common_length, serialised
from periplus.agent.tape.state import TapeState

RECENT_MAX: Final = 8
Key: TypeAlias = tuple[int, int]


@dataclass(slots=True, eq=False)
class Seen:
    """The request of one step. Without ``answered`` the model has not answered yet. ``tools`` is None if the session did not note them."""

    turn: int
    step: int
    tools: tuple[ToolSchema, ...] | None
    messages: tuple[Message, ...]
    before: tuple[Message, ...] | None
    tools_are_kept: bool = True
    answered: Answered | None = None
    results: dict[str, Resulted] = field(default_factory=dict)
    decided: dict[str, Decided] = field(default_factory=dict)
    then: list[Fed | HookFailed | Ended] = field(default_factory=list)

    @property
    def is_as_sent(self) -> bool | None:
        """Return whether the rebuilt length equals the measured one; None if it was not measured or the tools are not known."""
        measured = self.answered.measures.get("request_bytes") if self.answered is not None else None
        if not measured or self.tools is None:
            return None
        lines = [*map(serialised, self.tools), *map(serialised, self.messages)]
        return measured == sum(map(len, lines))

    def kept(self) -> list[int]:
        """For each message, how many of its characters were in the same place of the request before; -1: all of them."""
        if self.before is None:
            return [0] * len(self.messages)
        return kept_characters(self.before, self.messages) if self.tools_are_kept else [0] * len(self.messages)


def kept_characters(before: Sequence[Message], now: Sequence[Message]) -> list[int]:
    """Compare two requests as ``Seen.kept`` does: after the first message that differs, nothing is kept."""
    found = [0] * len(now)
    for place, (one, other) in enumerate(zip(before, now, strict=False)):
        if one is not other and serialised(one) != serialised(other):
            found[place] = common_length(one.content, other.content) if one.role == other.role else 0
            break
        found[place] = -1
    return found


class RequestHistory:
    """Requests of a session: feed it the episodes with ``take``, in order."""

    def __init__(self, recent_max: int = RECENT_MAX) -> None:
        self._state = TapeState("", 1 << 40, 1)
        self._turn = Turn()
        self._recent: OrderedDict[Key, Seen] = OrderedDict()
        self._recent_max = recent_max
        self._last: Seen | None = None
        self._tools: tuple[ToolSchema, ...] | None = None
        self._tools_of_last: tuple[ToolSchema, ...] | None = None

    def take(self, episode: Episode) -> None:
        last = self._last
        match episode:
            case Answered():
                last = self._next((episode.turn, episode.step))
                last.answered = episode
                self._last, self._tools_of_last = last, self._tools
                self._recent[last.turn, last.step] = last
                while len(self._recent) > self._recent_max:
                    self._recent.popitem(last=False)
            case Resulted() if last is not None:
                last.results[episode.call_id] = episode
            case Decided() if last is not None:
                last.decided[episode.call_id] = episode
            case Fed() | HookFailed() | Ended() if last is not None and last.turn == episode.turn:
                last.then.append(episode)
            case Noted():
                self._state.take(episode)
                note = self._state.tools
                if note is not None and (self._tools is None or episode.topic == "tools"):
                    self._tools = tuple(msgspec.convert(tool, ToolSchema) for tool in note.tools)
                self._turn.take(episode)
                return
            case _:
                pass  # other episodes show in the next request
        self._state.take(episode)
        self._turn.take(episode)

    def take_all(self, episodes: Iterable[Episode]) -> None:
        """Take episodes as ``take`` does, but rebuild only the requests that are kept: a long session is read in linear time. Those that
        came before an error of ``episodes`` are taken.
        """
        waiting: deque[Episode] = deque()
        steps = 0
        try:
            for episode in episodes:
                waiting.append(episode)
                steps += isinstance(episode, Answered)
                while steps > self._recent_max + 1:  # the first one has no request before it, and is not kept
                    first = waiting.popleft()
                    steps -= isinstance(first, Answered)
                    self._skip(first)
        finally:
            for episode in waiting:
                self.take(episode)

    def pending(self) -> Seen | None:
        """The current or next request; None if nothing is to be asked."""
        turn = self._turn
        return self._next((turn.number, turn.step + 1)) if turn.phase == "ask" else None

    def get(self, turn: int, step: int) -> Seen | None:
        """One of the newest requests, or the pending one."""
        found = self._recent.get((turn, step))
        if found is None and (turn, step) == (self._turn.number, self._turn.step + 1):
            return self.pending()
        return found

    def _skip(self, episode: Episode) -> None:
        """Take an episode without its request."""
        if isinstance(episode, Answered):
            self._last, self._tools_of_last = None, self._tools
            self._state.take(episode)
            self._turn.take(episode)
        else:
            self.take(episode)

    def _next(self, key: Key) -> Seen:
        before = self._last.messages if self._last is not None else None
        is_kept = self._last is None or self._tools == self._tools_of_last
        return Seen(*key, self._tools, tuple(self._state.messages()), before, tools_are_kept=is_kept)

    @property
    def phase(self) -> str:
        return self._turn.phase

    @classmethod
    def find(cls, episodes: Iterable[Episode], turn: int, step: int) -> Seen | None:
        """A step of any age with its answer. Costs a fold over the episodes up to it; only its request and the one before are rebuilt."""
        book = cls(1)
        waiting: list[Episode] = []  # from the last answer on
        for episode in episodes:
            found = book._recent.get((turn, step))
            if found is not None and isinstance(episode, Answered | Requested):
                return found
            if found is not None:
                book.take(episode)
                continue
            if isinstance(episode, Answered):
                is_wanted = (episode.turn, episode.step) == (turn, step)
                for one in waiting:
                    book.take(one) if is_wanted else book._skip(one)
                waiting = []
                if is_wanted:
                    book.take(episode)
                    continue
            waiting.append(episode)
        for one in waiting:
            book.take(one)
        return book.get(turn, step)
