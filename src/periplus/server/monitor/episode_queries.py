"""Queries of the page, answered from the episodes in the store, by one thread with a store of its own.

The run is not touched, because everything shown is recorded. Memory is bounded for any session: a row for each of the newest
STEPS_MAX steps, and a few of the newest requests; older ones are rebuilt from the episodes on demand.
"""

from __future__ import annotations

__all__ = ["PART_CHARACTERS", "STEPS_MAX", "Desk", "Growing"]

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.agent.contracts import Message, ToolCall
from periplus.agent.episodes import Answered, Ended, Episode, Fed, HookFailed, Resulted
from periplus.agent.observation import Ledger, RequestHistory, Seen, cost_text
from periplus.agent.persistence.stored_episodes import EpisodeFeed, StoredEpisodes
from periplus.base.errors import NotFoundError, PeriplusError, UsageError
from periplus.base.text.secrets import mask_secrets
from periplus.server.monitor.page_values import (
    CallRow,
    MessageOut,
    OutcomeOut,
    PartOut,
    SessionOut,
    StepOut,
    StepRow,
    ThenOut,
    ToolOut,
    TurnRow,
)

if TYPE_CHECKING:
    from periplus.agent.events import Event
    from periplus.project import Project

STEPS_MAX: Final = 20_000
_ROWS_AT_ONCE: Final = 500
_TURNS_SHOWN: Final = 2_000
_NAMES_MAX: Final = 8
_SAYS_CHARACTERS: Final = 120
_GROWING_CHARACTERS: Final = 8_000
_FRESH_CHARACTERS: Final = 16_000
_KEPT_CHARACTERS: Final = 1_000
_STEP_CHARACTERS: Final = 800_000
PART_CHARACTERS: Final = 200_000
_FOUND_MAX: Final = 4
_FOUND_CHARACTERS: Final = 4_000_000


class Growing:
    """The answer in progress, from the events of the run. It never makes the run wait or fail."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[str] = deque()
        self._characters = 0

    def take(self, event: Event) -> None:
        if event.agent:
            return  # of a subagent, which has its own session
        kind = event.__struct_config__.tag
        with self._lock:
            if kind in ("step_started", "answer_completed", "answer_restarted", "turn_ended"):
                self._pieces.clear()
                self._characters = 0
            elif kind == "text_grown":
                text: str = event.text  # type: ignore[union-attr]  # it is a TextGrown
                self._pieces.append(text[-2 * _GROWING_CHARACTERS :])
                self._characters += len(self._pieces[-1])
                while self._characters - len(self._pieces[0]) >= 2 * _GROWING_CHARACTERS:
                    self._characters -= len(self._pieces.popleft())

    def text(self) -> str:
        """The end of the text, up to the last complete word: a secret is masked only when complete, and before the text is cut."""
        with self._lock:
            text = "".join(self._pieces)
        whole = text[: max(text.rfind(" "), text.rfind("\n")) + 1]
        return mask_secrets(whole)[0][-_GROWING_CHARACTERS:]


class Desk:
    """``is_live``: a run of this process writes the session, and ``growing`` gets its events."""

    def __init__(
        self, opening: Callable[[], Project], session: str, *, title: str = "", model: str = "", is_live: bool = False
    ) -> None:
        self.session, self._title, self._model = session, mask_secrets(title)[0], model
        self.is_live = is_live
        self.growing = Growing()
        self._opening = opening
        self._project: Project | None = None
        self._feed: EpisodeFeed | None = None
        self._ledger = Ledger()
        self._book = RequestHistory()
        self._rows: dict[int, StepRow] = {}
        self._found: OrderedDict[tuple[int, int], Seen] = OrderedDict()
        self._problem = ""
        self._told = ""
        self._version = 0

    def close(self) -> None:
        if self._project is not None:
            self._project.close()
            self._project = None

    def refresh(self) -> int:
        """Read what was added; return the version of the current state."""
        count = 0
        try:
            for episode in self._episodes():
                self._take(episode)
                count += 1
        except PeriplusError as error:  # the page shows it; the store may be intact again at the next query
            is_new, self._problem = self._problem != str(error), str(error)
            count += is_new
        else:
            count += bool(self._problem)
            self._problem = ""
        if self._project is not None:
            self._project.journal.rest()
        growing = self.growing.text()
        if count or growing != self._told:
            self._told = growing
            self._version += 1
        return self._version

    def _episodes(self) -> Iterator[Episode]:
        if self._project is None:
            self._project = self._opening()
        if self._feed is None:
            self._feed = EpisodeFeed(self._project, self.session)
        return self._feed.read()

    def _take(self, episode: Episode) -> None:
        self._ledger.take(episode)
        self._book.take(episode)
        if isinstance(episode, Answered):
            message = episode.message
            names = tuple(call.name[:40] for call in message.tool_calls[:_NAMES_MAX])
            says = " ".join(message.content[: 4 * _SAYS_CHARACTERS].split())[:_SAYS_CHARACTERS]
            number = len(self._ledger.calls) - 1
            self._rows[number] = StepRow(metrics=self._ledger.calls[-1], tools=names, says=says)
            self._rows.pop(number - STEPS_MAX, None)
        elif isinstance(episode, Resulted) and episode.result.outcome != "ok" and self._rows:
            number = len(self._ledger.calls) - 1
            row = self._rows[number]
            self._rows[number] = msgspec.structs.replace(row, failed=row.failed + 1)

    # -- the list ------------------------------------------------------------------------------------------------------

    def overview(self, first: int = 0) -> SessionOut:
        """Return the list of steps. ``first`` is the number of the first step that the page does not have."""
        ledger = self._ledger
        end = len(ledger.calls)
        begin = min(max(first, end - STEPS_MAX, 0), end)
        until = min(begin + _ROWS_AT_ONCE, end)
        pending = self._book.pending()
        turns = ledger.turns[-_TURNS_SHOWN:]
        sums = ledger.totals
        return SessionOut(
            version=self._version, session=self.session, title=self._title, model=self._model, is_live=self.is_live,
            phase=self._book.phase, pending=(pending.turn, pending.step) if pending is not None else None, growing=self._told,
            totals=sums, cost=cost_text(sums.cost, sums.unpriced, sums.calls), survival=ledger.survival,
            survival_at_folds=ledger.survival_at_folds, folds=ledger.folds,
            turns=[TurnRow(turn=one.turn, request=one.request, reason=one.reason or "", totals=one.totals,
                           cost=cost_text(one.totals.cost, one.totals.unpriced, one.totals.calls), steps=one.totals.calls)
                   for one in turns],
            turns_left_out=len(ledger.turns) - len(turns), first=begin,
            steps=[self._rows[number] for number in range(begin, until)], left=end - until, problem=self._problem,
        )  # fmt: skip

    # -- a step --------------------------------------------------------------------------------------------------------

    def step(self, turn: int, step: int) -> StepOut:
        """Return one step. Raises NotFoundError, DamageError."""
        seen = self._seen(turn, step)
        left = [_STEP_CHARACTERS]
        answered = seen.answered
        kept = seen.kept()
        messages = [_message(place, one, kept[place], left) for place, one in enumerate(seen.messages)]
        answer = answered.message if answered is not None else None
        said, said_left = _cut(answer.content if answer else "", _FRESH_CHARACTERS)
        number = next((one for one in reversed(self._ledger.calls) if (one.turn, one.step) == (turn, step)), None)
        tools = None
        if seen.tools is not None:
            tools = [
                ToolOut(name=one.name, description=one.description, parameters=_json(one.parameters))
                for one in seen.tools
            ]
        return StepOut(
            turn=turn, step=step, metrics=number if answered is not None else None, tools=tools, tools_kept=seen.tools_are_kept,
            as_sent=seen.is_as_sent, messages=messages, answer=said, answer_left=said_left,
            reasoning=len(answer.reasoning) if answer else 0,
            outcomes=[_outcome(seen, call, left) for call in (answer.tool_calls if answer else ())],
            then=[ThenOut(what=what, text=text) for what, text in map(_then, seen.then)],
        )  # fmt: skip

    def part(self, turn: int, step: int, what: str, place: int, start: int) -> PartOut:
        """Return a piece of a text of a step: of ``message`` number ``place``, of its calls' ``args``, of the ``answer``, or of
        an ``output``.

        Raises NotFoundError, UsageError, DamageError.
        """
        seen = self._seen(turn, step)
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
                texts = [seen.answered.message.content] if seen.answered is not None else []
            case _:
                raise UsageError(f"a step has no {what!r}")
        if not texts:
            raise NotFoundError(f"step {turn}.{step} has no {what} {place}")
        text = texts[0][start : start + PART_CHARACTERS]
        return PartOut(text=text, left=max(0, len(texts[0]) - start - len(text)))

    def _seen(self, turn: int, step: int) -> Seen:
        seen = self._book.get(turn, step) or self._found.get((turn, step))
        if seen is None and self._project is not None:
            seen = RequestHistory.find(StoredEpisodes(self._project, self.session).read(), turn, step)
            if seen is not None and seen.answered is not None:
                self._keep(seen)
        if seen is None:
            raise NotFoundError(f"session {self.session} has no step {turn}.{step}")
        return seen

    def _keep(self, seen: Seen) -> None:
        if sum(len(one.content) for one in seen.messages) <= _FOUND_CHARACTERS:
            self._found[seen.turn, seen.step] = seen
            while len(self._found) > _FOUND_MAX:
                self._found.popitem(last=False)


def _cut(text: str, most: int) -> tuple[str, int]:
    return text[:most], max(0, len(text) - most)


def _json(value: object) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _args(call: ToolCall) -> str:
    return call.raw or _json(call.args)


def _call(call: ToolCall, budget: list[int]) -> CallRow:
    text, left = _cut(_args(call), min(_FRESH_CHARACTERS, budget[0]))
    budget[0] -= len(text)
    return CallRow(id=call.id, name=call.name, args=text, left=left)


def _message(place: int, message: Message, kept: int, budget: list[int]) -> MessageOut:
    """Return the beginning of an old message, or more of a new one, within the room of the step."""
    most = _KEPT_CHARACTERS if kept == -1 else kept + _FRESH_CHARACTERS
    text, left = _cut(message.content, min(most, budget[0]))
    budget[0] -= len(text)
    return MessageOut(
        place=place, role=message.role, outcome=message.outcome, answers=message.tool_call_id, text=text, left=left, kept=kept,
        calls=[_call(call, budget) for call in message.tool_calls],
        images=[f"{image.media_type}, {len(image.data):,} bytes" for image in message.images], reasoning=len(message.reasoning),
    )  # fmt: skip


def _outcome(seen: Seen, call: ToolCall, budget: list[int]) -> OutcomeOut:
    found, decided = seen.results.get(call.id), seen.decided.get(call.id)
    text, left = _cut(found.result.output if found else "", min(_FRESH_CHARACTERS, budget[0]))
    budget[0] -= len(text)
    result = found.result if found is not None else None
    return OutcomeOut(
        call=_call(call, budget), outcome=result.outcome if result else "", text=text, left=left,
        handle=result.handle if result else "", duration_ms=found.duration_ms if found else 0,
        decided=f"{decided.answer}: {decided.reason}" if decided is not None else "",
        effects=[str(one.get("path")) for one in result.effects[:100]] if result else [],
    )  # fmt: skip


def _then(episode: Fed | HookFailed | Ended) -> tuple[str, str]:
    match episode:
        case Fed():
            return f"said by {episode.source}", _cut(f"{episode.text}\n{episode.quoted}".strip(), _FRESH_CHARACTERS)[0]
        case HookFailed():
            return f"the hook {episode.hook} failed at {episode.seam}", episode.error
        case Ended():
            return f"the turn ended: {episode.reason}", episode.note
