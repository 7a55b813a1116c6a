"""Timeline of a trail: its steps as items, a window of them at a time.

A call's step has its outcome, and the digest and size of its result; the text of a result, of a written file and of a
long message is shown where the store keeps it. A file that is written whole is compared with what the trail wrote to
it before, where nothing else in the trail changed it in between.
"""

from __future__ import annotations

__all__ = ["STEPS_MAX", "item_of", "step_item", "timeline"]

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from periplus.base.errors import NotFoundError
from periplus.interop.exports.trail_source import ExportSource, Moment, text_of
from periplus.trail import Digest, OperandValue, TextObject, Withheld
from periplus.trail.listings.value_text import named_operands
from periplus.web.sessions.diffs import diff_of
from periplus.web.sessions.memory_calls import memory_call, memory_command
from periplus.web.sessions.plans import DONE, plan_steps, pretty_json
from periplus.web.sessions.texts import Texts
from periplus.web.sessions.values import Diff, Item, Kind, Limits, Passage, Result, Usage

STEPS_MAX: Final = 200
_NOTE_CHARACTERS_MAX: Final = 300
_CHANGES: Final = frozenset({"FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_MOVE"})
_Maker: TypeAlias = Callable[[Item, Moment, Texts], Item]


class _Written:
    """What the trail wrote to each file, as long as no edit came after it."""

    def __init__(self) -> None:
        self._digests: dict[str, Digest] = {}

    def note(self, moment: Moment, source: ExportSource) -> Digest | None:
        """Take note of a change; return what the file held before, where that is known."""
        path = source.path(moment.operand(0))
        before = self._digests.pop(path, None)
        content = moment.operand(1)
        if moment.op == "FILE_WRITE" and isinstance(content, Digest):
            self._digests[path] = content
        elif moment.op == "FILE_MOVE" and before is not None:
            self._digests[source.path(content)] = before
        return before


def timeline(source: ExportSource, limits: Limits, first: int = 0, end: int | None = None) -> Iterator[Item]:
    """Yield the items of steps ``first`` to ``end``, not included; steps before them are only counted."""
    texts, written = Texts(source, limits), _Written()
    for moment in source.moments():
        if end is not None and moment.number >= end:
            return
        before = written.note(moment, source) if moment.op in _CHANGES else None
        if moment.number >= first:
            yield item_of(moment, texts, before)


def step_item(source: ExportSource, number: int, limits: Limits) -> Item:
    """Return one step. Raises NotFoundError."""
    found = next(timeline(source, limits, number, number + 1), None)
    if found is None:
        count = source.step_count
        steps = f"steps 0 to {count - 1:,}" if count else "no steps"
        raise NotFoundError(
            f"there is no step {number:,} in this session: it has {steps}", mend="Choose another number."
        )
    return found


def item_of(moment: Moment, texts: Texts, before: Digest | None = None) -> Item:
    """Return a step as an item; ``before`` is what a written file held."""
    step = moment.step
    note = texts.line(step.note, _NOTE_CHARACTERS_MAX) if step.note is not None else ""
    item = Item(
        moment.number, "other", moment.op, "", at_ms=moment.at_ms, duration_ms=step.duration_ms, outcome=step.outcome,
        exit_code=step.exit_code, error=texts.passage(step.error, "error"), note=note,
        result=_result(moment, texts),
    )  # fmt: skip
    if moment.op == "FILE_WRITE":
        return _write(item, moment, texts, before)
    return _MAKERS.get(moment.op, _other)(item, moment, texts)


def _result(moment: Moment, texts: Texts) -> Result | None:
    value, size = moment.step.result, moment.step.result_size
    if value is None:
        return None
    if isinstance(value, Withheld):
        return Result("", size, Passage("result", "", missing="withheld"))
    return Result(text_of(value), size, texts.content(value, "result"))


def _passages(*found: Passage | None) -> tuple[Passage, ...]:
    return tuple(one for one in found if one is not None)


def _said(kind: Kind) -> _Maker:
    def make(item: Item, moment: Moment, texts: Texts) -> Item:
        text = moment.operand(0)
        return item._replace(kind=kind, head=texts.line(text), passages=_passages(texts.passage(text)))

    return make


def _path(kind: Kind) -> _Maker:
    def make(item: Item, moment: Moment, texts: Texts) -> Item:
        detail = moment.operand(1)
        return item._replace(
            kind=kind, head=texts.path(moment.operand(0)), detail=texts.line(detail) if detail is not None else ""
        )

    return make


def _line(kind: Kind) -> _Maker:
    """Make items of steps whose first operand may be long: the first line is shown, the rest is folded."""

    def make(item: Item, moment: Moment, texts: Texts) -> Item:
        head, detail = moment.operand(0), moment.operand(1)
        line = texts.line(head)
        return item._replace(
            kind=kind, head=line, detail=texts.path(detail) if detail is not None else "",
            passages=_rest(texts.passage(head), line),
        )  # fmt: skip

    return make


def _rest(passage: Passage | None, line: str) -> tuple[Passage, ...]:
    """Return the passage where the line does not say all of it."""
    if passage is None or (not passage.left_out and passage.text.strip() == line) or (passage.missing and line):
        return ()
    return (passage,)


def _write(item: Item, moment: Moment, texts: Texts, before: Digest | None) -> Item:
    source, content = texts.source, moment.operand(1)
    item = item._replace(kind="edit", head=texts.path(moment.operand(0)), detail="written whole")
    if isinstance(content, Withheld):
        return item._replace(passages=(Passage("content", "", missing="withheld"),))
    data = source.content(content)
    if data is None:
        return item._replace(passages=(Passage("content", "", missing="not here", sha256=text_of(content)),))
    if b"\0" in data:
        return item._replace(passages=(Passage("content", "", missing=f"{len(data):,} bytes that are no text"),))
    old = source.content(before) if before is not None else None
    return item._replace(
        diff=diff_of((old or b"").decode("utf-8", "replace"), data.decode("utf-8", "replace"), texts.limits)
    )


def _edit(item: Item, moment: Moment, texts: Texts) -> Item:
    old, new = moment.operand(1), moment.operand(2)
    item = item._replace(kind="edit", head=texts.path(moment.operand(0)))
    shown = [_whole(texts, value) for value in (old, new)]
    if shown[0] is None or shown[1] is None:
        return item._replace(passages=_passages(texts.passage(old, "old"), texts.passage(new, "new")))
    diff: Diff = diff_of(shown[0], shown[1], texts.limits)
    return item._replace(diff=diff)


def _whole(texts: Texts, value: OperandValue) -> str | None:
    """Return the whole of a text; None where it is withheld or not available."""
    if isinstance(value, Withheld):
        return None
    if isinstance(value, TextObject):
        data = texts.source.object(value.sha256)
        return None if data is None else data.decode("utf-8", "replace")
    return text_of(value)


def _delete(item: Item, moment: Moment, texts: Texts) -> Item:
    return item._replace(kind="edit", head=texts.path(moment.operand(0)), detail="deleted")


def _move(item: Item, moment: Moment, texts: Texts) -> Item:
    paths = [texts.path(moment.operand(place)) for place in (0, 1)]
    return item._replace(kind="edit", head=paths[0], detail=f"moved to {paths[1]}")


def _test(item: Item, moment: Moment, texts: Texts) -> Item:
    passed = moment.operand(1)
    detail = f"{int(passed):,} passed" if isinstance(passed, int) else ""
    target = moment.operand(0)
    line = texts.line(target)
    return item._replace(kind="test", head=line, detail=detail, passages=_rest(texts.passage(target), line))


def _command(item: Item, moment: Moment, texts: Texts) -> Item:
    command, folder = moment.operand(0), moment.operand(1)
    line = texts.line(command)
    where = texts.path(folder) if folder is not None else ""
    kind: Kind = "memory" if isinstance(command, str) and memory_command(command) else "command"
    return item._replace(kind=kind, head=line, detail="" if where == texts.source.root else where,
                         passages=_rest(texts.passage(command, "command"), line))  # fmt: skip


def _commit(item: Item, moment: Moment, texts: Texts) -> Item:
    message, commit = moment.operand(1), moment.operand(2)
    name = commit.value.hex() if isinstance(commit, Digest) else ""
    line = texts.line(message)
    return item._replace(kind="commit", head=line, detail=texts.line(moment.operand(0)), commit=name,
                         passages=_rest(texts.passage(message), line))  # fmt: skip


def _push(item: Item, moment: Moment, texts: Texts) -> Item:
    remote = moment.operand(1)
    return item._replace(kind="commit", head=f"pushed {texts.line(moment.operand(0))}",
                         detail=f"to {texts.line(remote)}" if remote is not None else "")  # fmt: skip


def _call(item: Item, moment: Moment, texts: Texts) -> Item:
    server, name = (texts.line(moment.operand(place)) for place in (0, 1))
    arguments = texts.passage(moment.operand(2), "arguments")
    if (whole := _whole(texts, moment.operand(2))) is not None and arguments is not None:
        arguments = texts.cut(pretty_json(whole), "arguments")
    kind: Kind = "memory" if memory_call(server, name) else "call"
    return item._replace(kind=kind, head=name, detail=server, passages=_passages(arguments))


def _model(item: Item, moment: Moment, texts: Texts) -> Item:
    counts = [value if isinstance(value := moment.operand(place), int) else 0 for place in (1, 2, 3, 4)]
    return item._replace(kind="model", head=texts.line(moment.operand(0)), usage=Usage(*counts))


def _spawn(item: Item, moment: Moment, texts: Texts) -> Item:
    task, trail = moment.operand(1), moment.operand(2)
    child = trail.value.hex() if isinstance(trail, Digest) else ""
    line = texts.line(task)
    return item._replace(kind="agent", head=line, detail=texts.line(moment.operand(0)), child=child,
                         passages=_rest(texts.passage(task, "task"), line))  # fmt: skip


def _plan(item: Item, moment: Moment, texts: Texts) -> Item:
    plan = _whole(texts, moment.operand(0))
    steps = plan_steps(plan) if plan is not None else ()
    if steps:
        done = sum(step.state in DONE for step in steps)
        return item._replace(kind="plan", head=f"{len(steps):,} steps, {done:,} completed", plan=steps)
    if plan is None:
        return item._replace(kind="plan", head="a plan", passages=_passages(texts.passage(moment.operand(0))))
    return item._replace(kind="plan", head="a plan", passages=(texts.cut(pretty_json(plan)),))


def _ask(item: Item, moment: Moment, texts: Texts) -> Item:
    question, answer = moment.operand(0), moment.operand(1)
    line = texts.line(question)
    return item._replace(kind="question", head=line,
                         passages=(*_rest(texts.passage(question), line), *_passages(texts.passage(answer, "answer"))))  # fmt: skip


def _state(item: Item, moment: Moment, texts: Texts) -> Item:
    return item._replace(kind="state", head=texts.line(moment.operand(0)))


def _other(item: Item, moment: Moment, texts: Texts) -> Item:
    """Make an item of a step that has no form of its own: its operands by name."""
    named = [(name, value) for name, value in named_operands(moment.step) if value is not None]
    lines = [f"{name} {texts.line(value)}" for name, value in named]
    return item._replace(head=", ".join(lines))


_MAKERS: Final[dict[str, _Maker]] = {
    "PROMPT": _said("prompt"),
    "SAY": _said("words"),
    "COMMENT": _said("thought"),
    "LABEL": _line("branch"),
    "FILE_READ": _path("read"),
    "FILE_LIST": _path("read"),
    "SEARCH_CODE": _line("search"),
    "WEB_SEARCH": _line("web"),
    "WEB_FETCH": _line("web"),
    "FILE_EDIT": _edit,
    "FILE_DELETE": _delete,
    "FILE_MOVE": _move,
    "TEST_RUN": _test,
    "COMMAND_RUN": _command,
    "GIT_COMMIT": _commit,
    "GIT_PUSH": _push,
    "TOOL_CALL": _call,
    "MODEL_CALL": _model,
    "AGENT_SPAWN": _spawn,
    "PLAN_UPDATE": _plan,
    "ASK": _ask,
    "CHECKPOINT": _state,
}
