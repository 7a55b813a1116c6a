"""State of a tape: a fold over the episodes of a session, without a clock, files or decisions of its own.

Theory of operation
-------------------
A request is made of three parts, in this order::

    system │ entries, in batches: one message a fold │ turns in place: tail, answers, results │ the turn in progress
    frozen │ frozen once written                     │ as they were sent                      │ only grows

A turn that ends stays where it is, word for word: so the first request of the next turn *begins with the whole* of the last request of this
one. When the tape exceeds its budget, a fold turns the oldest turns into entries and adds them after the existing ones, which stay
unchanged. When even the entries are too many, a fold *of the whole* condenses them into an outline, the commitments word for word, and live
files as they are now. Between two folds nothing in front changes; at a fold of turns nothing before the first turn in place changes.

``take`` gets every episode in order and raises for none that was logged: a note that cannot be applied (the field is full) changes nothing,
at any time. So the same episodes give the same bytes.

Rules kept here, and tested: an entry never changes once written; base and later patches of a file give its bytes; taking a fold back
restores what was there before; rules and open commitments stand word for word after every fold.
"""

from __future__ import annotations

__all__ = ["Batch", "TapeState"]

import copy
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from periplus.agent.contracts import Message, Usage
from periplus.agent.episodes import Answered, Ended, Episode, Fed, Noted, Requested, Resulted
from periplus.agent.tape.entries import Entry, render
from periplus.agent.tape.fold_steps import Bases, condensed, entries_of, recent
from periplus.agent.tape.placed_turns import PlacedTurn
from periplus.agent.tape.sections import commitments, sections
from periplus.agent.tape.shown_instructions import Instructions
from periplus.agent.tape.slice import Topics
from periplus.agent.tape_notes import (
    FilePatch,
    FoldNote,
    InstructionsNote,
    OpenNote,
    SealNote,
    SliceNote,
    TailNote,
    ToolsNote,
    TopicNote,
    note_in,
)
from periplus.agent.tape_notes import UnfoldNote as Unfold
from periplus.agent.tools.dialogue_tools import notes_of_plan
from periplus.base.errors import NotFoundError, UsageError
from periplus.base.text.token_estimate import estimate_tokens

KNOWN_FILES_MAX: Final = 64
_PLAN_TOOL: Final = "plan"
_PATH_NAMES: Final = ("path", "file", "file_path")


class Batch(NamedTuple):
    """The result of one fold: its entries, and the one message that they form."""

    entries: tuple[Entry, ...]
    message: Message
    tokens: int


class _Before(NamedTuple):
    """The parts that a fold replaced."""

    fold: int
    batches: tuple[Batch, ...]
    turns: tuple[PlacedTurn, ...]
    cuts: tuple[int, ...]
    bases: Bases
    shown: dict[str, str]


@dataclass(slots=True)
class TapeState:
    """State of the tape; feed it episodes with ``take``. ``system`` is used until the session's own ``OpenNote`` arrives."""

    system: str
    budget: int
    fold_to: int
    batches: tuple[Batch, ...] = ()
    turns: list[PlacedTurn] = field(default_factory=list)
    topics: Topics = field(default_factory=Topics)
    opened: OpenNote | None = None
    tools: ToolsNote | None = None
    turn: int = 0
    fold: int = 0
    known: dict[str, str] = field(default_factory=dict)
    """Files that we changed, the newest last, with the digest that we last saw."""
    usage: Usage = field(default_factory=Usage)
    fold_above: int = 0
    """Size that the tape has to reach for the next fold after one was taken back."""
    bases: Bases = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    instructions: Instructions = field(default_factory=Instructions)
    _untold: tuple[FilePatch, ...] = ()
    _before: _Before | None = None

    # -- the fold ------------------------------------------------------------------------------------------------------

    def take(self, episode: Episode) -> None:
        match episode:
            case Noted():
                self._take_note(episode)
            case Requested():
                self._begin(episode)
            case Answered():
                self.usage += episode.message.usage
                if self.current is not None:
                    self.current.take_answer(episode)
            case Resulted():
                self._take_result(episode)
            case Fed():
                self._take_fed(episode)
            case Ended():
                self._end(episode)
            case _:
                pass  # Decided, Intended, HookFailed, Resumed: the results tell their outcome

    @property
    def current(self) -> PlacedTurn | None:
        """The turn in progress."""
        return self.turns[-1] if self.turns and self.turns[-1].ended is None else None

    @property
    def tokens(self) -> int:
        """Estimated tokens of the whole request without tool schemas."""
        own = sum(batch.tokens for batch in self.batches) + sum(turn.tokens for turn in self.turns)
        return estimate_tokens(self.system) + own

    @property
    def is_over(self) -> bool:
        return self.tokens > max(self.budget, self.fold_above)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for batch in self.batches for entry in batch.entries)

    @property
    def last_fold(self) -> int:
        """The fold that can be taken back; 0 for none."""
        return self._before.fold if self._before is not None else 0

    def messages(self) -> list[Message]:
        """The request, without cache marks."""
        found = [Message(role="system", content=self.system), *(batch.message for batch in self.batches)]
        for turn in self.turns:
            found += turn.messages()
        return found

    def copied(self) -> TapeState:
        """An independent copy, to see the effect of an episode."""
        other = copy.copy(self)
        other.turns = [copy.copy(turn) for turn in self.turns]
        other.topics = copy.deepcopy(self.topics)
        other.instructions = self.instructions.copied()
        other.known, other.bases, other.shown = dict(self.known), dict(self.bases), dict(self.shown)
        return other

    # -- episodes ------------------------------------------------------------------------------------------------------

    def _begin(self, episode: Requested) -> None:
        current = self.current
        if current is not None:  # it never ended: a crash, and a new request instead of a resumption
            self._end(Ended(turn=current.number, reason="aborted", note="It was broken off."))
        topics = self.topics
        if episode.topic and episode.topic != topics.current.topic:
            action = "switch" if episode.topic in topics.slices else "new"
            self._switch(TopicNote(action=action, topic=episode.topic))  # type: ignore[arg-type]  # one of the two
        self.turn = episode.turn
        now = topics.current
        now.turn = episode.turn
        now.goal = now.goal or episode.text[:500]
        found = sections(topics)
        changed = {name: text for name, text in found.items() if self.shown.get(name) != text}
        gone = [name for name in self.shown if name not in found]
        self.shown = found
        untold, self._untold = self._untold, ()
        self.turns.append(PlacedTurn(episode, changed, gone, untold))

    def _take_tail(self, note: TailNote, turn: int) -> None:
        current = self.current
        if current is None or current.number != turn or current.steps:
            return  # its request is missing (a truncated log), or an answer exists: the tail cannot change after it
        for patch in note.outside:
            self._learn(patch)
        current.take_tail(note)

    def _take_seal(self, note: SealNote, turn: int) -> None:
        last = self.turns[-1] if self.turns else None
        if last is None or last.number != turn or last.ended is None:
            return
        last.seal = note
        for patch in (*note.patches, *note.outside):
            self._learn(patch)
            self.topics.current.edited(patch)
        self._untold = note.outside

    def _take_result(self, episode: Resulted) -> None:
        turn = self.current
        if turn is None:
            return
        turn.take_result(episode)
        turn.take_effects(episode.result)
        now = self.topics.current
        result = episode.result
        if result.outcome in ("failed", "indeterminate"):
            now.last_error = f"{episode.name}: {result.output[:500]}"
        elif result.outcome == "ok" and now.last_error.startswith(f"{episode.name}: "):
            now.last_error = ""
        for effect in result.effects:
            now.touch(str(effect["path"]))
            self.instructions.enter_file(str(effect["path"]))
        for step in turn.steps[-1:]:
            for call in step.answer.tool_calls:
                path = next((call.args[name] for name in _PATH_NAMES if isinstance(call.args.get(name), str)), "")
                if call.id != episode.call_id or result.outcome != "ok":
                    continue
                self.instructions.enter(call.name, call.args)
                if path and not path.startswith("@"):
                    now.touch(path)
                if call.name == _PLAN_TOOL:
                    for note in notes_of_plan(call.args):  # the call itself is the record of what it changes
                        self._change(note)

    def _take_fed(self, episode: Fed) -> None:
        if self.current is not None:
            self.current.take_fed(episode)
        if episode.source == "oracle":
            self.topics.current.open_report = (episode.quoted or episode.text)[:4_000]

    def _end(self, episode: Ended) -> None:
        turn = self.current
        if turn is None:
            return
        turn.end(episode)
        if episode.reason == "done":
            self.topics.current.open_report = ""

    def _learn(self, patch: FilePatch) -> None:
        self.known.pop(patch.path, None)
        if patch.after:
            self.known[patch.path] = patch.after
        while len(self.known) > KNOWN_FILES_MAX:
            del self.known[next(iter(self.known))]

    # -- notes ---------------------------------------------------------------------------------------------------------

    def _take_note(self, episode: Noted) -> None:
        match note_in(episode):
            case OpenNote() as note:
                self.opened = note
                self.system = note.prompt or self.system
                self.budget, self.fold_to = note.budget or self.budget, note.fold_to or self.fold_to
            case ToolsNote() as note:
                self.tools = note
            case TailNote() as note:
                self._take_tail(note, episode.turn)
            case InstructionsNote() as note:
                self._instruct(note, episode.turn)
            case SealNote() as note:
                self._take_seal(note, episode.turn)
            case FoldNote() as note:
                self.fold = note.fold
                self._fold(note)
            case Unfold() as note:
                self._unfold(note)
            case SliceNote() as note:
                self._change(note)
            case TopicNote() as note:
                self._switch(note)

    def _instruct(self, note: InstructionsNote, turn: int) -> None:
        current = self.current
        # A truncated log may lack its turn.
        if current is not None and current.number == turn:
            self.instructions.take(note)
            current.take_instructions(note)

    def _change(self, note: SliceNote) -> None:
        try:
            self.topics.change(note)
        except UsageError:
            return  # it was not checked before it was logged; it has no effect, now as then
        if note.field == "findings" and note.op != "remove" and self.current is not None:
            self.current.findings.append(note)

    def _switch(self, note: TopicNote) -> None:
        try:
            self.topics.switch(note)
        except (UsageError, NotFoundError):
            return  # as above
        self.shown = {name: text for name, text in self.shown.items() if name in ("rules", "skills")}

    # -- folds ---------------------------------------------------------------------------------------------------------

    def _fold(self, note: FoldNote) -> None:
        cuts = tuple(turn.cut_before for turn in self.turns)
        self._before = _Before(note.fold, self.batches, tuple(self.turns), cuts, dict(self.bases), dict(self.shown))
        self.fold_above = 0
        if note.step:
            if self.current is not None:
                self.current.cut(note.step)
            return
        sealed = [turn for turn in self.turns if turn.number <= note.turns and turn.ended is not None]
        self.turns = [turn for turn in self.turns if turn not in sealed]
        holds = commitments(self.topics)
        turn = sealed[-1].number if sealed else self.turn
        told = self.instructions.entries(turn, None if note.whole else sealed, self.turns)
        if note.whole:
            self.bases = {}
            added = (*told, *condensed(self.entries, sealed, note, self.bases, holds, self.turn))
            self.batches = ()
        else:
            added = entries_of(sealed, note, self.bases, (*told, *recent(self.entries, holds, turn)))
        if added:
            text, tokens = render(added)
            self.batches = (*self.batches, Batch(added, Message(role="user", content=text), tokens + 4))
        self.shown = sections(self.topics)

    def _unfold(self, note: Unfold) -> None:
        before = self._before
        if before is None or before.fold != note.fold:
            return  # another fold followed: it was refused before it was logged, and has no effect now
        since = [turn for turn in self.turns if all(turn is not held for held in before.turns)]
        self.batches, self.bases = before.batches, before.bases
        for turn, cut in zip(before.turns, before.cuts, strict=True):
            if turn.cut_before != cut:
                turn.cut(cut)
        self.turns = [*before.turns, *since]
        self._before = None
        self.fold_above = self.tokens * 5 // 4
