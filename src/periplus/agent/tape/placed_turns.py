"""A turn in place: its messages as they were sent, and the data from which a fold makes entries."""

from __future__ import annotations

__all__ = ["PlacedTurn", "StepInPlace"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from periplus.agent.contracts import Message, ToolCall, ToolResult
from periplus.agent.episodes import Answered, Ended, Fed, Requested, Resulted
from periplus.agent.tape.entries import call_handle
from periplus.agent.tape.fence import cut_text, fence, left_out, one_line
from periplus.agent.tape.instruction_text import instructions_text
from periplus.agent.tape.sections import tail_text
from periplus.agent.tape_notes import FilePatch, InstructionFile, InstructionsNote, SealNote, SliceNote, TailNote
from periplus.base.text.token_estimate import estimate_tokens

_CUT_CHARACTERS: Final = 400
_IMAGE_TOKENS: Final = 1_200
_CALL_TOKENS: Final = 12
_COMMANDS_TOLD: Final = 6
_COMMAND_NAMES: Final = ("command", "cmd", "code")


@dataclass(slots=True, eq=False)
class StepInPlace:
    """An answer of the model with the results of its calls."""

    number: int
    answer: Message
    results: dict[str, Message] = field(default_factory=dict)
    exits: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    fed: list[Message] = field(default_factory=list)

    def messages(self, turn: int, *, is_cut: bool, is_over: bool) -> list[Message]:
        found = [self.answer]
        for place, call in enumerate(self.answer.tool_calls, 1):
            result = self.results.get(call.id)
            if result is not None:
                found.append(_short(result, call_handle(turn, self.number, place)) if is_cut else result)
            elif is_over:
                text = "The turn was stopped before this call ran."
                found.append(Message(role="tool", content=text, tool_call_id=call.id, outcome="cancelled"))
        return found + self.fed


@dataclass(slots=True, eq=False)
class PlacedTurn:
    """A turn, from its tail on. ``cut_before`` is the step before which results are behind handles."""

    request: Requested
    changed: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()
    untold: tuple[FilePatch, ...] = ()
    note: TailNote = field(default_factory=TailNote)
    steps: list[StepInPlace] = field(default_factory=list)
    fed: list[Message] = field(default_factory=list)
    seal: SealNote | None = None
    ended: Ended | None = None
    cut_before: int = 0
    findings: list[SliceNote] = field(default_factory=list)
    effects: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By path, the digests before the first and after the last call that changed it; empty: no file."""
    instructions: tuple[InstructionFile, ...] = ()
    """Instruction files that are shown anywhere in this turn."""
    tail: Message = field(init=False)
    _instructed: tuple[str, ...] = ()
    _over: list[Message] | None = None
    _counted: int = 0
    _uncounted: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        self.take_tail(self.note)

    @property
    def number(self) -> int:
        return self.request.turn

    @property
    def tokens(self) -> int:
        """Estimated tokens of its messages, counted on demand: in a resumed session most turns were folded since and are never counted."""
        if self._uncounted:
            self._counted += sum(_tokens(message) for message in self._uncounted)
            self._uncounted = ()
        return self._counted

    def take_tail(self, note: TailNote) -> None:
        """Set the tail, before the first answer."""
        self.note = note
        text = tail_text(self.request, note, (*self.untold, *note.outside), self.changed, self.gone, self._instructed)
        self.tail = Message(role="user", content=text)
        self._counted, self._uncounted = 0, (self.tail, *self.fed)

    def take_instructions(self, note: InstructionsNote) -> None:
        """Add instructions to the tail before the first answer, later after the results of the last answer."""
        self.instructions += note.files
        text = instructions_text(note.files, is_trusted=note.is_trusted)
        if not self.steps:
            self._instructed += (text,)
            self.take_tail(self.note)
            return
        message = Message(role="user", content=f"<context>\n{text}\n</context>")
        self.steps[-1].fed.append(message)
        self._uncounted += (message,)

    def take_answer(self, episode: Answered) -> None:
        said = episode.message
        message = Message(role="assistant", content=said.content, tool_calls=said.tool_calls, reasoning=said.reasoning)
        step = StepInPlace(episode.step, message)
        self._uncounted += (message,)
        self.steps.append(step)

    def take_result(self, episode: Resulted) -> None:
        for step in reversed(self.steps):
            if step.number == episode.step:
                result = episode.result
                message = _result_message(episode.call_id, result)
                step.results[episode.call_id] = message
                step.exits[episode.call_id] = (result.outcome, result.exit_code)
                self._uncounted += (message,)
                return

    def take_effects(self, result: ToolResult) -> None:
        for effect in result.effects:
            path, before, after = str(effect["path"]), str(effect.get("before") or ""), str(effect.get("after") or "")
            self.effects[path] = (self.effects.get(path, (before, ""))[0], after)

    def take_fed(self, episode: Fed) -> None:
        quoted = f"\n{fence(episode.quoted, episode.source)}" if episode.quoted else ""
        text = episode.text + quoted
        message = Message(role="user", content=text)
        if self.steps:
            self.steps[-1].fed.append(message)
        else:
            self.fed.append(message)
        self._uncounted += (message,)

    def end(self, episode: Ended) -> None:
        self.ended = episode
        self._over = None

    def cut(self, before: int) -> None:
        """Put the outputs of calls before that step behind handles; 0 shows them again."""
        self.cut_before = before
        self._over = None
        self._counted, self._uncounted = 0, tuple(self.messages())

    def messages(self) -> Sequence[Message]:
        if self._over is not None:
            return self._over
        found = [self.tail, *self.fed]
        for step in self.steps:
            found += step.messages(self.number, is_cut=step.number < self.cut_before, is_over=self.ended is not None)
        if self.ended is not None:
            self._over = found
        return found

    # Contents of a digest

    def did(self) -> str:
        """The calls of the turn counted by tool, with its last commands and how they ended."""
        counts: dict[str, int] = {}
        commands: list[str] = []
        failed = 0
        for step in self.steps:
            for call in step.answer.tool_calls:
                counts[call.name] = counts.get(call.name, 0) + 1
                outcome, code = step.exits.get(call.id, ("cancelled", None))
                failed += outcome != "ok"
                command = _command_of(call)
                if command:
                    ended = f"exit {code}" if code is not None else outcome
                    commands.append(f"`{one_line(command, 90)}` {ended}")
        parts = [", ".join(f"{name} {count}x" if count > 1 else name for name, count in counts.items())]
        if failed:
            parts.append(f"{failed} did not succeed")
        if len(commands) > _COMMANDS_TOLD:
            parts.append(f"{len(commands) - _COMMANDS_TOLD} commands before the last {_COMMANDS_TOLD}")
        parts += commands[-_COMMANDS_TOLD:]
        if self.seal is not None and self.seal.patches:
            parts.append("changed " + ", ".join(_changed(patch) for patch in self.seal.patches))
        return "; ".join(part for part in parts if part)

    def said(self) -> str:
        if self.ended is None:
            return ""
        note = f"\n[{self.ended.note}]" if self.ended.note else ""
        return self.ended.text + note


def _result_message(call_id: str, result: ToolResult) -> Message:
    content = result.output if result.outcome == "ok" else f"[{result.outcome}] {result.output}".rstrip()
    return Message(role="tool", content=content, images=result.images, tool_call_id=call_id, outcome=result.outcome)


def _short(message: Message, handle: str) -> Message:
    if len(message.content) <= _CUT_CHARACTERS + 200 and not message.images:
        return message
    text = cut_text(message.content, _CUT_CHARACTERS, handle)
    if message.images:
        text = f"{text}\n{left_out(len(message.images), 'pictures', f'read(path={handle!r})')}"
    return msgspec.structs.replace(message, content=text, images=())


def _command_of(call: ToolCall) -> str:
    for name in _COMMAND_NAMES:
        value = call.args.get(name)
        if isinstance(value, str):
            return value
    return ""


def _changed(patch: FilePatch) -> str:
    if not patch.after:
        return f"{patch.path} (removed)"
    return (
        f"{patch.path} (new, +{patch.added})" if not patch.before else f"{patch.path} (+{patch.added} -{patch.removed})"
    )


def _tokens(message: Message) -> int:
    calls = sum(
        _CALL_TOKENS + estimate_tokens(call.raw or msgspec.json.encode(call.args).decode())
        for call in message.tool_calls
    )
    return 4 + estimate_tokens(message.content) + calls + _IMAGE_TOKENS * len(message.images)
