"""Conversation model shared by most importers: prompts, answers, thoughts, tool calls and results as steps."""

from __future__ import annotations

__all__ = ["Chat", "LineConversation", "blocks_of", "enter_branch", "read_conversation", "text_of_blocks"]

from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.interop.conversion.branches import BranchTracker
from periplus.interop.conversion.intake import Call, Intake
from periplus.interop.conversion.open_calls import OpenCalls
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_values import Moment, decode_table, table_of, text_of
from periplus.trail.model import Digest, Outcome, Status

if TYPE_CHECKING:
    from periplus.interop.conversion.source import Source
    from periplus.interop.model import Imported


class Chat:
    """Turns a conversation into steps; ``status`` is the known end of the run."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.calls = OpenCalls()
        self.status: Status = "success"
        self.first_prompt: str | None = None

    def prompt(self, text: str, note: str | None = None) -> None:
        intake = self.intake
        text = intake.typed(text)
        if not text.strip() and note is None:
            intake.skip("user: nothing in it")
            return
        masked = intake.mask(text)
        intake.count("prompts")
        intake.step("PROMPT", masked, note=note)
        intake.note_prompt(masked)
        self.status = "success"
        if self.first_prompt is None:
            self.first_prompt = masked

    def say(self, text: str) -> None:
        self._tell("SAY", "says", text)

    def think(self, text: str, note: str | None = None) -> None:
        self._tell("COMMENT", "comments", text, note)

    def block(self, block: dict[str, object], call_kind: str, arguments: str) -> bool:
        """Add a text, a thought or a call of the model; return False for a block of another kind."""
        kind = text_of(block.get("type"))
        if kind == "text":
            self.say(text_of(block.get("text")))
        elif kind == "thinking":
            self.think(text_of(block.get("thinking")))
        elif kind == call_kind:
            self.call(text_of(block.get("id")), text_of(block.get("name")), block.get(arguments))
        else:
            return False
        return True

    def label(self, text: str) -> None:
        self.intake.count("labels")
        self.intake.step("LABEL", self.intake.mask(text))

    def _tell(self, op: str, counted: str, text: str, note: str | None = None) -> None:
        if not text.strip():
            self.intake.skip("block: empty")
            return
        self.status = "success"
        self.intake.count(counted)
        self.intake.step(op, self.intake.mask(text), note=note)

    def call(self, call_id: str, name: str, arguments: object, server: str = "") -> Call:
        self.status = "success"
        call = self.intake.call(plan_call(self.intake, name, arguments, self.intake.cwd, server))
        self.calls.add(call_id, call)
        return call

    def result(
        self, call_id: str, outcome: Outcome, text: str, exit_code: int | None = None, *, is_exact: bool = True
    ) -> None:
        call = self.calls.claim(call_id)
        if call is None:
            self.intake.skip("result without its call")
            return
        if outcome == "ok" and exit_code:
            outcome = "failed"
        self.intake.resolve(call, outcome, text, exit_code=exit_code, is_exact=is_exact)

    def usage(self, model: str | None, fresh: int, cached: int, out: int) -> None:
        """Add a model call with its tokens: fresh input, cached input, output."""
        self.intake.source = self.intake.source or 1  # a session's sum may come before its records
        self.intake.model = model or self.intake.model
        call = self.intake.hold_model(model or self.intake.model or "unknown")
        self.intake.release_model(call, fresh, cached, out)

    def interrupt(self) -> None:
        self.status = "cancelled"
        self.calls.cancel()

    def finish(self) -> Status:
        return self.intake.ending(self.status, is_waiting=self.calls.is_waiting)


class LineConversation:
    """Importer of a conversation with a JSON object a line; a format implements ``_record``."""

    base: Digest | None = None

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._chat = Chat(intake)
        self._moment = Moment()

    def feed(self, number: int, line: bytes) -> bool:
        records = self._records(line)
        if records:
            self._intake.source = number
        for record in records:
            self._intake.note_time(self._moment.read(record.get("timestamp")))
            self._record(record)
        return bool(records)

    def finish(self) -> Status:
        return self._chat.finish()

    def _records(self, line: bytes) -> list[dict[str, object]]:
        record = decode_table(line)
        return [record] if record is not None else []

    def _record(self, record: dict[str, object]) -> None:
        """Enter one record; each agent has its own kinds of records."""
        raise NotImplementedError  # abstract: a subclass without it is a fault of ours


def read_conversation(source: Source, kind: type[LineConversation], name: str) -> Iterator[Imported]:
    """Import the one session in a file of the format ``name``."""
    intake = source.intake()
    importer = kind(intake)
    digest, status = source.read_lines(importer, intake)
    yield source.trail(intake, name, digest, status, base=importer.base)


def enter_branch(chat: Chat, lanes: BranchTracker, uuid: str, parent_uuid: object) -> None:
    """Enter the branch of a message before its steps are made, with a LABEL where the branch changes.

    The second message with the same parent begins a branch. ``uuid`` is empty for a message without a name, which
    never begins one.
    """
    parent = lanes.find(parent_uuid)
    lane = lanes.place(parent, is_side=False, side_id="", continuer=uuid or None)
    label = lanes.enter(lane)
    if label is not None:
        chat.label(label)
    if uuid:
        lanes.note(uuid, 0, lane, parent, chat.intake.planned_count, is_step=True)


def blocks_of(content: object) -> list[dict[str, object]]:
    """Return a content as a list of blocks; it may be a text, a block or a list of them."""
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [{"type": "text", "text": item} if isinstance(item, str) else table_of(item) for item in items]


def text_of_blocks(content: object) -> str:
    return "\n".join(filter(None, (text_of(block.get("text")) for block in blocks_of(content))))
