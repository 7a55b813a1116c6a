"""The tape as a ``TurnContext`` for the loop: a shell over the pure state that asks the world, decides, and notes both.

Everything that it asks is handed in: files (``FileView``), knowledge about a focus (``Lookup``), facts of the tail. Each answer goes into
the log as a note and reaches the state from there.
"""

from __future__ import annotations

__all__ = ["BUDGET_TOKENS", "FOLD_TO_TOKENS", "Lookup", "Tape"]

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from periplus.agent.contracts import Memory, Message, PageRef, ToolSchema
from periplus.agent.episodes import Ended, Episode, Noted, Requested
from periplus.agent.tape.fold_plan import FileView, cut_turn, outside_changes, plan_fold, plan_seal, sealed_state
from periplus.agent.tape.prefix_survival import PrefixMeter, serialised
from periplus.agent.tape.state import TapeState
from periplus.agent.tape_notes import (
    Fact,
    FilePatch,
    FoldNote,
    Known,
    OpenNote,
    SliceNote,
    TailNote,
    ToolsNote,
    TopicNote,
    UnfoldNote,
    noted,
)
from periplus.base.errors import UsageError

BUDGET_TOKENS: Final = 48_000
FOLD_TO_TOKENS: Final = 16_000
KNOWLEDGE_MAX: Final = 6
_KEPT_SHARE: Final = 4
_MEMORIES: Final = "@periplus/memory/"


class Lookup(Protocol):
    """See ``page_table.PageTable``."""

    def lookup(self, focus: str, kind: str = "", k: int = 6, paths: Sequence[str] = ()) -> Sequence[PageRef]: ...


class Tape:
    """A ``TurnContext``. ``tools`` and ``prompt`` are the front of every request; a resumed session keeps its first prompt. Without
    ``files``, for runs that change no files, patches are not verified.
    """

    def __init__(
        self,
        prompt: str,
        tools: Sequence[ToolSchema] = (),
        *,
        session: str = "",
        files: FileView | None = None,
        pages: Lookup | None = None,
        memory: Memory | None = None,
        facts: Callable[[], Sequence[Fact]] = tuple,
        budget: int = BUDGET_TOKENS,
        fold_to: int = FOLD_TO_TOKENS,
    ) -> None:
        if not 0 < fold_to < budget:
            raise UsageError(f"a fold to {fold_to:,} tokens of a budget of {budget:,} leaves no room")
        self.state = TapeState(prompt, budget, fold_to)
        self.session = session
        self._tools = tuple(tools)
        self._files = files
        self._pages = pages
        self._memory = memory
        self._facts = facts
        self._tools_digest = hashlib.sha256(b"".join(map(serialised, self._tools))).hexdigest()
        self._meter = PrefixMeter(self._tools)

    # -- what the loop asks --------------------------------------------------------------------------------------------

    def take(self, episode: Episode) -> None:
        self.state.take(episode)

    def begin(self, request: Requested) -> Sequence[Noted]:
        state = self.state
        notes: list[Noted] = []
        if state.opened is None:
            opened = OpenNote(session=self.session, budget=state.budget, fold_to=state.fold_to, prompt=state.system)
            notes.append(noted(request.turn, opened))
        if self._tools and (state.tools is None or state.tools.digest != self._tools_digest):
            tools = tuple(msgspec.to_builtins(tool) for tool in self._tools)
            notes.append(noted(request.turn, ToolsNote(digest=self._tools_digest, tools=tools)))
        outside = outside_changes(state, self._files)
        tail = TailNote(facts=tuple(self._facts()), knowledge=self._known(request, outside), outside=tuple(outside))
        notes.append(noted(request.turn, tail))
        return notes

    def seal(self, ended: Ended) -> Sequence[Noted]:
        state = self.state
        seal = plan_seal(state, self._files)
        for handle in seal.used:
            if self._memory is not None and self._memory.is_durable and handle.startswith(_MEMORIES):
                self._memory.mark_used(handle.removeprefix(_MEMORIES).removesuffix(".md"))
        notes = [noted(ended.turn, seal, ended.step)]
        then = sealed_state(state, seal, ended)
        if then.is_over:
            last = then.turns[-1]
            keeps = last.tokens <= state.fold_to // _KEPT_SHARE
            fold = plan_fold(then, self._files, turns=ended.turn - keeps, why="budget")
            if fold is not None:
                notes.append(noted(ended.turn, fold, ended.step))
        return notes

    def make_room(self) -> Sequence[Noted]:
        state = self.state
        fold: FoldNote | None = None
        if any(turn.ended is not None for turn in state.turns):
            fold = plan_fold(state, self._files, turns=state.turn, why="overflow")
        fold = fold or cut_turn(state) or plan_fold(state, self._files, turns=state.turn, why="overflow")
        return [noted(state.turn, fold)] if fold is not None else []

    def messages(self) -> list[Message]:
        """The request, with cache marks after the prompt, the entries, the earlier turns, and the end."""
        state = self.state
        found = state.messages()
        marks = {0, len(state.batches), len(found) - 1}
        if state.turns:
            marks.add(len(found) - len(state.turns[-1].messages()) - 1)
        for place in marks:
            found[place] = msgspec.structs.replace(found[place], breakpoint=True)
        return found

    def tools(self) -> Sequence[ToolSchema]:
        return self._tools

    def sent(self, messages: Sequence[Message]) -> Mapping[str, int]:
        state = self.state
        found = self._meter.take(messages, state.turn, state.fold)
        return {
            "request_bytes": found.request_bytes,
            "previous_bytes": found.previous_bytes,
            "common_bytes": found.common_bytes,
            "survival_millionths": found.millionths,
            "is_boundary": int(found.is_boundary),
            "is_fold": int(found.is_fold),
            "tokens_estimated": state.tokens,
        }

    # -- what a person or a tool commands ------------------------------------------------------------------------------

    def change(self, note: SliceNote | TopicNote) -> Noted:
        """Return the episode that changes the working state, to be logged and then taken. Raises UsageError, NotFoundError."""
        tried = self.state.copied().topics
        if isinstance(note, SliceNote):
            tried.change(note)
        else:
            tried.switch(note)
        return noted(self.state.turn, note)

    def fold(self) -> Noted:
        """Return the episode of a requested fold, between turns. Raises UsageError if there is nothing to fold."""
        state = self.state
        if state.current is not None:
            raise UsageError("a turn is in progress", safe="Nothing was changed.", mend="Fold when it is over.")
        found = plan_fold(state, self._files, turns=state.turn, why="asked")
        if found is None:
            raise UsageError("there is nothing to fold: the tape is as short as it gets", safe="Nothing was changed.")
        return noted(state.turn, found)

    def unfold(self) -> Noted:
        """Return the episode that takes the last fold back. Raises UsageError without one."""
        if not self.state.last_fold:
            raise UsageError("there is no fold to take back", safe="Nothing was changed.")
        return noted(self.state.turn, UnfoldNote(fold=self.state.last_fold))

    @property
    def meter(self) -> PrefixMeter:
        return self._meter

    def _known(self, request: Requested, outside: Sequence[FilePatch]) -> tuple[Known, ...]:
        if self._pages is None:
            return ()
        paths = [*self.state.topics.current.active_files, *(patch.path for patch in outside)]
        return tuple(
            Known(handle=one.handle, kind=one.kind, preview=one.preview, score=round(one.score * 1000),
                  untrusted=one.untrusted)
            for one in self._pages.lookup(request.text, "", KNOWLEDGE_MAX, paths)
        )  # fmt: skip
