"""One step of a session as values: the request that the model saw, its answer, and what became of its calls."""

from __future__ import annotations

__all__ = ["PART_CHARACTERS", "Call", "Outcome", "Part", "Sent", "Step", "Text", "Then", "Tool", "part_of", "step_of"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.agent.contracts import Message, ToolCall
    from periplus.agent.episodes import Ended, Fed, HookFailed
    from periplus.agent.observation import CallMetrics, Seen

FRESH_CHARACTERS: Final = 16_000
KEPT_CHARACTERS: Final = 1_000
STEP_CHARACTERS: Final = 800_000
MESSAGES_SHOWN: Final = 60
PART_CHARACTERS: Final = 200_000
_EFFECTS_SHOWN: Final = 100


class Text(NamedTuple):
    """The beginning of a text: ``kept`` was in the request before, ``fresh`` was not; ``left`` characters follow. ``what`` and ``place``
    name it for the rest.
    """

    kept: str
    fresh: str
    left: int
    what: str
    place: int

    @property
    def start(self) -> int:
        return len(self.kept) + len(self.fresh)


class Call(NamedTuple):
    id: str
    name: str
    args: Text


class Sent(NamedTuple):
    """A message of the request. ``is_kept``: all of it was in the request before."""

    role: str
    outcome: str
    answers: str
    text: Text
    is_kept: bool
    is_new: bool
    calls: tuple[Call, ...]
    images: tuple[str, ...]
    reasoning: int


class Outcome(NamedTuple):
    """The result of a call; ``outcome`` is empty while it runs."""

    call: Call
    outcome: str
    text: Text
    handle: str
    duration_ms: int
    decided: str
    effects: tuple[str, ...]


class Tool(NamedTuple):
    name: str
    description: str
    parameters: str


class Then(NamedTuple):
    """An event after the step: a message to the model, a failed hook, the end of the turn."""

    what: str
    text: str


class Step(NamedTuple):
    """``as_sent`` is False where the rebuilt request is not as long as the one that was sent, None where that is not known.

    ``messages`` are those numbered ``first`` (counted from 0) and following, of ``total``; ``kept`` of the total were in the request before.
    """

    turn: int
    step: int
    metrics: CallMetrics | None
    tools: tuple[Tool, ...] | None
    tools_kept: bool
    as_sent: bool | None
    is_first: bool
    messages: tuple[Sent, ...]
    first: int
    total: int
    kept: int
    answer: Text
    reasoning: int
    outcomes: tuple[Outcome, ...]
    then: tuple[Then, ...]

    @property
    def kept_shown(self) -> int:
        """The number of the first of ``messages`` that were in the request before."""
        return sum(one.is_kept for one in self.messages)


class Part(NamedTuple):
    """A piece of a long text, with ``left`` characters after it."""

    text: str
    start: int
    left: int


def step_of(seen: Seen, metrics: CallMetrics | None, earlier: int = 0) -> Step:
    """Return a step, its texts cut so that all of it has at most STEP_CHARACTERS. Of its request it has MESSAGES_SHOWN messages: the last
    ones, or those that many times ``earlier``.
    """
    room = [STEP_CHARACTERS]
    kept = seen.kept()
    answered = seen.answered
    total = len(seen.messages)
    end = max(0, total - MESSAGES_SHOWN * earlier)
    first = max(0, end - MESSAGES_SHOWN)
    asked = [sum(len(one.tool_calls) for one in seen.messages[:first])]
    messages = tuple(
        _sent(place, seen.messages[place], kept[place], room, asked, is_first=seen.before is None)
        for place in range(first, end)
    )
    answer = answered.message if answered is not None else None
    tools = None
    if seen.tools is not None:
        tools = tuple(Tool(one.name, one.description, _json(one.parameters)) for one in seen.tools)
    return Step(
        seen.turn, seen.step, metrics if answered is not None else None, tools, seen.tools_are_kept, seen.is_as_sent,
        seen.before is None, messages, first, total, sum(one == -1 for one in kept), _text(answer.content if answer else "", 0, FRESH_CHARACTERS, "answer", 0),
        len(answer.reasoning) if answer else 0,
        tuple(_outcome(seen, call, place, room) for place, call in enumerate(answer.tool_calls if answer else ())),
        tuple(_then(one) for one in seen.then),
    )  # fmt: skip


def part_of(seen: Seen, what: str, place: int, start: int) -> Part:
    """Return a piece of a text of a step: of ``message`` number ``place``, of the ``args`` of its answer's calls, of the args of calls
    ``asked`` before, of the ``answer``, or of an ``output``. Raises NotFoundError, UsageError.
    """
    calls = seen.answered.message.tool_calls if seen.answered is not None else ()
    texts: Sequence[str]
    match what:
        case "message":
            texts = [one.content for one in seen.messages[place : place + 1]]
        case "args":
            texts = [_args(call) for call in calls[place : place + 1]]
        case "asked":
            every = [call for one in seen.messages for call in one.tool_calls]
            texts = [_args(call) for call in every[place : place + 1]]
        case "output":
            found = [seen.results.get(call.id) for call in calls[place : place + 1]]
            texts = [one.result.output for one in found if one is not None]
        case "answer":
            texts = [seen.answered.message.content] if seen.answered is not None and not place else []
        case _:
            raise UsageError(f"a step has no {what[:40]!r}")
    if not texts:
        raise NotFoundError(f"step {seen.turn}.{seen.step} has no {what} {place}")
    text = texts[0][start : start + PART_CHARACTERS]
    return Part(text, start, max(0, len(texts[0]) - start - len(text)))


def _text(text: str, kept: int, most: int, what: str, place: int) -> Text:
    shown = text[: max(0, most)]
    return Text(shown[:kept], shown[kept:], len(text) - len(shown), what, place)


def _json(value: object) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _args(call: ToolCall) -> str:
    return call.raw or _json(call.args)


def _within(room: list[int], text: str, kept: int, most: int, what: str, place: int) -> Text:
    found = _text(text, kept, min(most, room[0]), what, place)
    room[0] -= found.start
    return found


def _call(call: ToolCall, what: str, place: int, room: list[int]) -> Call:
    return Call(call.id, call.name, _within(room, _args(call), 0, FRESH_CHARACTERS, what, place))


def _sent(place: int, message: Message, kept: int, room: list[int], asked: list[int], *, is_first: bool) -> Sent:
    """Return the beginning of an old message, or more of a new one, within the room of the step."""
    most = KEPT_CHARACTERS if kept == -1 else kept + FRESH_CHARACTERS
    text = _within(room, message.content, len(message.content) if kept == -1 else kept, most, "message", place)
    first = asked[0]
    asked[0] += len(message.tool_calls)
    return Sent(
        message.role, message.outcome if message.outcome != "ok" else "", message.tool_call_id, text, kept == -1, not kept and not is_first,
        tuple(_call(call, "asked", first + at, room) for at, call in enumerate(message.tool_calls)),
        tuple(f"{image.media_type}, {len(image.data):,} bytes" for image in message.images), len(message.reasoning),
    )  # fmt: skip


def _outcome(seen: Seen, call: ToolCall, place: int, room: list[int]) -> Outcome:
    found, decided = seen.results.get(call.id), seen.decided.get(call.id)
    text = _within(room, found.result.output if found else "", 0, FRESH_CHARACTERS, "output", place)
    result = found.result if found is not None else None
    return Outcome(
        _call(call, "args", place, room), result.outcome if result else "", text, result.handle if result else "",
        found.duration_ms if found else 0, f"{decided.answer}: {decided.reason}" if decided is not None else "",
        tuple(str(one.get("path")) for one in result.effects[:_EFFECTS_SHOWN]) if result else (),
    )  # fmt: skip


def _then(episode: Fed | HookFailed | Ended) -> Then:
    from periplus.agent.episodes import Ended, Fed, HookFailed

    match episode:
        case Fed():
            return Then(f"said by {episode.source}", f"{episode.text}\n{episode.quoted}".strip()[:FRESH_CHARACTERS])
        case HookFailed():
            return Then(f"the hook {episode.hook} failed at {episode.seam}", episode.error[:FRESH_CHARACTERS])
        case Ended():
            return Then(f"the turn ended: {episode.reason}", episode.note[:FRESH_CHARACTERS])
