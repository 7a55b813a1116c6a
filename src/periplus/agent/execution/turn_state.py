"""The turn in progress: a fold over its episodes, from which the loop sees what comes next.

So a turn that a crash cut off needs nothing of its own: its episodes are read, and the loop goes on where they end.

What the person says meanwhile is *noted* under a number of its own when it is accepted (``said``), whatever the turn is at; when the model
is told, the ``Fed`` episode bears that number. What was noted and not fed still waits, in this turn or in the next one: it is heard once.
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
    """Words that the model has not heard; ``number`` counts from 1 in the session."""

    number: int
    text: str


def said(turn: int, number: int, text: str) -> Noted:
    """Words of the person as they are noted."""
    return Noted(turn=turn, topic=SAID_TOPIC, data={"number": number, "text": text})


class _Saying:
    """The words that wait; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, str] = {}
        self._last = 0

    def next_number(self) -> int:
        """A number that no words have. One is given once, also where nothing came of the words that it was for."""
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
                pass  # says nothing of words that wait

    def waiting(self) -> Sequence[Waiting]:
        """What the model is to hear next, in the order in which it was said."""
        with self._lock:
            return [Waiting(*one) for one in self._waiting.items()]


class Turn:
    """Give it every episode of the session with ``take``, in order; what the person says is taken from any thread."""

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
        """What comes next: the model is asked, its calls are run, or its last word is weighed."""
        if self.number == 0 or self.ended is not None:
            return "idle"
        if self.answered is None or self._is_fed:
            return "ask"
        if not self.answered.message.tool_calls:
            return "settle"
        return "act" if self.open_calls else "ask"

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer of which no outcome is known, as they were asked for."""
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
                pass  # the others say nothing of what comes next

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
