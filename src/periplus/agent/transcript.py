"""The simplest context: the whole conversation in order. For evaluations, for tests, and for comparison with the tape.

It grows without bound. When the model says that a request is too long, outputs of the oldest calls are left out, half of them at a time,
with a note in their place.
"""

from __future__ import annotations

__all__ = ["TranscriptContext"]

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from periplus.agent.contracts import Message, ToolSchema
from periplus.agent.episodes import Answered, Ended, Episode, Fed, Noted, Requested, Resulted

_KEPT_CHARACTERS: Final = 200


class TranscriptContext:
    """Satisfies ``contracts.TurnContext``."""

    def __init__(self, system: str, tools: Sequence[ToolSchema]) -> None:
        self._system = Message(role="system", content=system, breakpoint=True)
        self._tools = tuple(tools)
        self._messages: list[Message] = []
        self._places: dict[str, int] = {}  # places of the outcomes of the last answer's calls
        self._turn = 0
        self._left_out = 0  # outcomes before this place are cut

    def take(self, episode: Episode) -> None:
        self._turn = episode.turn
        match episode:
            case Requested():
                self._messages.append(Message(role="user", content=episode.text))
            case Fed():
                quoted = f"\n\n<data>\n{episode.quoted}\n</data>" if episode.quoted else ""
                self._messages.append(Message(role="user", content=episode.text + quoted))
            case Answered():
                self._answer(episode)
            case Resulted():
                place = self._places[episode.call_id]
                result = episode.result
                self._messages[place] = msgspec.structs.replace(
                    self._messages[place], content=result.output, images=result.images, outcome=result.outcome
                )
            case Noted(topic="fold"):
                self._left_out = int(episode.data["before"])
            case _:
                pass  # no message for the model

    def _answer(self, episode: Answered) -> None:
        said = episode.message
        message = Message(role="assistant", content=said.content, tool_calls=said.tool_calls, reasoning=said.reasoning)
        self._messages.append(message)
        self._places = {}
        for call in said.tool_calls:
            self._places[call.id] = len(self._messages)
            self._messages.append(Message(role="tool", tool_call_id=call.id, outcome="cancelled"))

    def begin(self, request: Requested) -> Sequence[Noted]:
        del request
        return ()

    def seal(self, ended: Ended) -> Sequence[Noted]:
        del ended
        return ()

    def make_room(self) -> Sequence[Noted]:
        long = [
            place
            for place, message in enumerate(self._messages)
            if place >= self._left_out and message.role == "tool" and len(message.content) > _KEPT_CHARACTERS
        ]
        if not long:
            return ()
        return (Noted(turn=self._turn, topic="fold", data={"before": long[(len(long) - 1) // 2] + 1}),)

    def messages(self) -> Sequence[Message]:
        return (self._system, *(self._shown(place, message) for place, message in enumerate(self._messages)))

    def tools(self) -> Sequence[ToolSchema]:
        return self._tools

    def sent(self, messages: Sequence[Message]) -> Mapping[str, int]:
        return {"characters": sum(len(message.content) for message in messages)}

    def _shown(self, place: int, message: Message) -> Message:
        if place >= self._left_out or message.role != "tool" or len(message.content) <= _KEPT_CHARACTERS:
            return message
        left_out = len(message.content) - _KEPT_CHARACTERS
        content = (
            f"{message.content[:_KEPT_CHARACTERS]}\n… {left_out:,} characters left out; make the call again to see them"
        )
        return msgspec.structs.replace(message, content=content, images=())
