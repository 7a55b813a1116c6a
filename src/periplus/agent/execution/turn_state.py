"""State of the turn in progress: a fold over its episodes, which tells the loop what comes next.

So an interrupted turn needs no state of its own: its episodes are read, and the loop continues where they end.

A message of the person is *noted* with its own number when it is accepted (``said``), at any point of the turn; when the model gets it, the
``Fed`` episode has that number. A message that was noted and not fed waits, in this turn or for the next one. It is delivered once.
"""

from __future__ import annotations

__all__ = ["Phase", "Turn", "Waiting", "said"]

import threading
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from periplus.agent.contracts import Spawned, StopReason, ToolCall, Usage
from periplus.agent.episodes import SAID_TOPIC, Answered, Ended, Episode, Fed, Intended, Noted, Requested, Resulted

Phase: TypeAlias = Literal["idle", "ask", "act", "settle"]


class Waiting(NamedTuple):
    """A message that the model has not been given; ``number`` counts from 1 in the session."""

    number: int
    text: str


def said(turn: int, number: int, text: str) -> Noted:
    """The note of a message of the person."""
    return Noted(turn=turn, topic=SAID_TOPIC, data={"number": number, "text": text})


class _Saying:
    """The waiting messages, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, str] = {}
        self._last = 0

    def next_number(self) -> int:
        """A new message number. Each is given once, even if its message is never recorded."""
        with self._lock:
            self._last += 1
            return self._last

    def take(self, episode: Episode) -> None:
        match episode:
            case Noted(topic=topic, data={"number": int(number), "text": str(text)}) if topic == SAID_TOPIC:
                with self._lock:
                    self._last = max(self._last, number)
                    self._waiting[number] = text
            case Fed() if episode.said:
                with self._lock:
                    self._waiting.pop(episode.said, None)
            case _:
                pass  # has no effect on waiting messages

    def waiting(self) -> Sequence[Waiting]:
        """The messages that the model gets next, in order."""
        with self._lock:
            return [Waiting(*one) for one in self._waiting.items()]


class Turn:
    """State of the turn; feed it every episode of the session with ``take``, in order. Messages of the person are taken from any thread."""

    def __init__(self) -> None:
        self.saying = _Saying()
        self.number = 0
        self.ended: Ended | None = None
        self._begin(0)

    def _begin(self, number: int) -> None:
        self.number = number
        self.step = 0
        self.usage = Usage()
        self.answered: Answered | None = None
        self.intents: dict[str, Intended] = {}
        self.results: dict[str, Resulted] = {}
        self.spent: list[Usage] = []
        self.length_stops = 0
        self.empty_answers = 0
        self.denied_steps = 0
        self.text = ""
        self._is_fed = False

    @property
    def phase(self) -> Phase:
        """The next phase: ask the model, run its calls, or check its last answer."""
        if self.number == 0 or self.ended is not None:
            return "idle"
        if self.answered is None or self._is_fed:
            return "ask"
        if not self.answered.message.tool_calls:
            return "settle"
        return "act" if self.open_calls else "ask"

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer without an outcome, in order."""
        calls = self.answered.message.tool_calls if self.answered is not None else ()
        return tuple(call for call in calls if call.id not in self.results)

    def take(self, episode: Episode) -> None:
        self.saying.take(episode)
        match episode:
            case Requested():
                self.ended = None
                self._begin(episode.turn)
            case Answered():
                self._answer(episode)
            case Intended():
                self.intents[episode.call_id] = episode
            case Resulted():
                self.results[episode.call_id] = episode
                if isinstance(episode.result.spawned, Spawned):
                    self.usage += episode.result.spawned.usage
                if not self.open_calls:
                    is_stuck = all(one.counts_as_stuck for one in self.results.values())
                    self.denied_steps = self.denied_steps + 1 if is_stuck else 0
            case Fed():
                self._is_fed = not self.open_calls
            case Ended():
                self.ended = episode
            case _:
                pass  # other episodes do not affect what comes next

    def _answer(self, episode: Answered) -> None:
        message = episode.message
        self.text = self.text + message.content if self.length_stops else message.content
        self.length_stops = self.length_stops + 1 if message.finish_reason == "length" else 0
        is_empty = not message.content.strip() and not message.tool_calls
        self.empty_answers = self.empty_answers + 1 if is_empty else 0
        self.answered, self.step = episode, episode.step
        self.intents, self.results, self._is_fed = {}, {}, False
        self.spent.append(message.usage)
        self.usage += message.usage

    def ends_as(self, reason: StopReason, note: str) -> Ended:
        return Ended(turn=self.number, step=self.step, reason=reason, note=note, text=self.text, usage=self.usage)
