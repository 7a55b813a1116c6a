"""Steps of an ATIF document as steps of a trail.

A document that our own export wrote says in ``extra`` of which steps of the trail it was made, and gives just these
again. Where it says what no trail can hold, and in documents of other programs, calls are read by their names like those
of every other agent.
"""

from __future__ import annotations

__all__ = ["StepImporter"]

from collections import deque
from typing import Final

from periplus.interop.conversion.conversation import Chat, blocks_of
from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.exports.atif_facts import EXTRA, MARKS, MESSAGE, MODEL_CALL, REASONING
from periplus.interop.importers.atif.facts import StepFacts, facts_of, operands_of
from periplus.interop.readers.json_values import (
    Moment,
    decode_table,
    integer_of,
    json_text,
    list_of,
    natural_of,
    optional_text,
    table_of,
    text_of,
)
from periplus.trail.format.layout import CLOCK_MS_MAX, CLOCK_MS_MIN
from periplus.trail.model import Digest, OperandValue, Status

_MILLIONTHS: Final = 1_000_000
_COST_MAX: Final = 1e9
_FIELDS: Final = frozenset({
    "extra", "is_copied_context", "llm_call_count", "message", "metrics", "model_name", "observation", "reasoning_content",
    "reasoning_effort", "source", "step_id", "timestamp", "tool_calls",
})  # fmt: skip
_CALL_FIELDS: Final = frozenset({"arguments", "extra", "function_name", "tool_call_id"})
_RESULT_FIELDS: Final = frozenset({"content", "extra", "source_call_id", "subagent_trajectory_ref"})
_ENDING: Final = ("outcome", "exit_code", "error", "result", "result_size")
_KINDS: Final = {"audio": "a sound", "image": "an image"}
_COUNTED: Final = {"PROMPT": "prompts", "SAY": "says", "COMMENT": "comments", "LABEL": "labels"}

_Table = dict[str, object]


class StepImporter:
    """Takes the steps of one trajectory. ``children`` are the digests of its subagents' trails by trajectory id."""

    def __init__(self, intake: Intake, children: dict[str, bytes], totals: _Table, *, is_exact: bool) -> None:
        self.title: str | None = None
        self._intake = intake
        self._chat = Chat(intake)
        self._children = children
        self._totals = totals
        self._is_exact = is_exact
        self._has_usage = False
        self._moment = Moment()

    def feed(self, number: int, data: bytes) -> bool:
        record = decode_table(data)
        if record is None:
            return False
        intake = self._intake
        intake.source = number
        intake.note_time(self._moment.read(record.get("timestamp")))
        self._check(record, _FIELDS, "step")
        kind = text_of(record.get("source"))
        if record.get("is_copied_context") is True:
            intake.skip("step copied from another trajectory")
        elif kind not in ("agent", "system", "user"):
            intake.note_unknown(f"source: {kind or 'none'}")
        elif self._is_exact:
            self._exact(record, kind)
        else:
            self._step(record, kind)
        return True

    def finish(self) -> Status:
        if not self._has_usage and not self._is_exact:
            usage = {name: self._totals.get(f"total_{name}") for name in
                     ("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd")}  # fmt: skip
            if any(natural_of(usage[name]) for name in ("prompt_tokens", "completion_tokens")):
                self._intake.source = self._intake.source or 1
                self._usage(None, usage, {}, self._intake.at_ms)
        return self._chat.finish()

    @staticmethod
    def clock(value: object) -> int | None:
        """Return a time that a trail can hold."""
        number = integer_of(value)
        return number if number is not None and CLOCK_MS_MIN <= number <= CLOCK_MS_MAX else None

    def _check(self, table: _Table, known: frozenset[str], what: str) -> None:
        for name in table:
            if name not in known:
                self._intake.note_unknown(f"{what}: {name}")

    # Documents of any program

    def _step(self, record: _Table, kind: str) -> None:
        chat, intake = self._chat, self._intake
        text, others = _content(record.get("message"))
        for other in others:
            intake.skip(f"content: {other}")
        calls: list[_Table] = []
        if kind == "user":
            kinds = sorted({_KINDS.get(other, "other content") for other in others})
            chat.prompt(text, f"with {' and '.join(kinds)}" if kinds else None)
        elif kind == "system":
            intake.skip("system message")
        else:
            calls = [table_of(item) for item in list_of(record.get("tool_calls"))]
            metrics = record.get("metrics")
            if isinstance(metrics, dict):
                self._has_usage = True
                self._usage(record.get("model_name"), metrics, {}, intake.at_ms)
            if text_of(record.get("reasoning_content")).strip():
                chat.think(text_of(record.get("reasoning_content")))
            if text.strip():
                chat.say(text)
        results = [table_of(item) for item in list_of(table_of(record.get("observation")).get("results"))]
        self._calls(calls, results)

    def _usage(self, name: object, metrics: _Table, facts: _Table, at_ms: int | None) -> None:
        """Add a model call; prompt tokens include those from the cache."""
        intake = self._intake
        model = optional_text(name) or intake.model or "unknown"
        if self._is_exact:
            model = name if isinstance(name, str) else model
        else:
            intake.model = intake.model or model
        given, out = natural_of(metrics.get("prompt_tokens")), natural_of(metrics.get("completion_tokens"))
        cached = min(given, natural_of(metrics.get("cached_tokens")))
        cost = metrics.get("cost_usd")
        is_cost = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 <= cost <= _COST_MAX
        known = facts_of(intake, facts)
        intake.at_ms = at_ms
        call = intake.hold_model(model)
        call.steps[0] = call.steps[0]._replace(note=known.note)
        call.exit_code, call.error, call.duration_ms = known.exit_code, known.error, known.duration_ms
        call.result, call.result_size = known.result, known.result_size
        intake.release_model(
            call, given - cached, cached, out, round(cost * _MILLIONTHS) if is_cost else None,  # type: ignore[operator]  # a number
            outcome=known.outcome,
        )  # fmt: skip

    def _calls(self, calls: list[_Table], results: list[_Table]) -> None:
        intake, waiting = self._intake, self._chat.calls
        ids = [text_of(call.get("tool_call_id")) or f"{intake.source}-{at}" for at, call in enumerate(calls)]
        owned: dict[str, deque[_Table]] = {}
        for at, result in enumerate(results):
            self._check(result, _RESULT_FIELDS, "result")
            owned.setdefault(self._owner(ids, results, at), deque()).append(result)
        at_ms = intake.at_ms
        for call_id, call in zip(ids, calls, strict=True):
            self._check(call, _CALL_FIELDS, "call")
            mine = owned.get(call_id)
            first = mine.popleft() if mine else None
            waiting.add(call_id, intake.call(self._planned(call, first or {})))
            if first is not None:
                intake.at_ms = None  # a result in the step of its call has no time of its own
                self._result(first, call_id)
                intake.at_ms = at_ms
        for owner, left in owned.items():
            for result in left:
                if owner:
                    self._result(result, owner)
                else:
                    self._event(result)

    @staticmethod
    def _owner(ids: list[str], results: list[_Table], at: int) -> str:
        """Return the id of the call of a result, which may be left out where there is no doubt."""
        named = text_of(results[at].get("source_call_id"))
        if named or not ids:
            return named
        return ids[at] if len(ids) == len(results) else ids[0] if len(ids) == len(results) == 1 else ""

    def _planned(self, call: _Table, result: _Table) -> list[Planned]:
        intake = self._intake
        name, arguments = text_of(call.get("function_name")), call.get("arguments")
        steps = plan_call(intake, name, arguments, intake.cwd)
        child = self._child(result)
        if child is not None:
            if steps[0].op != "AGENT_SPAWN":
                return [Planned("AGENT_SPAWN", [intake.mask(name), json_text(arguments, intake.mask), child])]
            steps[0].operands[2] = child
        return steps

    def _child(self, result: _Table) -> Digest | None:
        """Return the trail of the subagent to which a result refers, where the document has it."""
        for item in list_of(result.get("subagent_trajectory_ref")):
            reference = table_of(item)
            found = self._children.get(text_of(reference.get("trajectory_id")))
            if found is not None:
                return Digest("sha256", found)
            self._intake.skip("subagent in another file")
        return None

    def _event(self, result: _Table) -> None:
        """Add a subagent that no call began, such as one that sums up a long session; other results are counted."""
        intake = self._intake
        child = self._child(result)
        if child is None:
            intake.skip("result without its call")
            return
        call = intake.call([Planned("AGENT_SPAWN", ["agent", "", child])])
        text, _ = _content(result.get("content"))
        at_ms, intake.at_ms = intake.at_ms, None
        intake.resolve(call, "ok", text or None)
        intake.at_ms = at_ms

    def _result(self, result: _Table, call_id: str) -> None:
        intake = self._intake
        call = self._chat.calls.claim(call_id)
        if call is None:
            intake.skip("result without its call")
            return
        content, extra = result.get("content"), table_of(result.get("extra"))
        text, others = _content(content)
        for other in others:
            intake.skip(f"content: {other}")
        exit_code = integer_of(extra.get("exit_code"))
        is_failed = extra.get("is_error") is True or exit_code not in (None, 0)
        intake.resolve(
            call, "failed" if is_failed else "ok", text if content is not None else None, exit_code=exit_code,
            is_exact=isinstance(content, str),
        )  # fmt: skip

    # Documents of our own export

    def _exact(self, record: _Table, kind: str) -> None:
        intake = self._intake
        notes = table_of(table_of(record.get("extra")).get(EXTRA))
        said, base_ms = table_of(notes.get(MESSAGE)), intake.at_ms
        text, _ = _content(record.get("message"))
        if kind == "user":
            masked = intake.mask(text)
            self._restored("PROMPT", [masked], said, base_ms)
            if self.title is None:
                intake.note_prompt(masked)
            return
        if kind == "system":
            op = text_of(said.get("op"))
            operands = operands_of(intake, op, table_of(said.get("arguments")), said) if op in MARKS else None
            if operands is None:
                intake.skip("system message")
            else:
                self._restored(op, operands, said, base_ms)
            return
        model_call = table_of(notes.get(MODEL_CALL))
        metrics, is_last = record.get("metrics"), model_call.get("is_last") is True
        if isinstance(metrics, dict) and not is_last:
            self._model(record, metrics, model_call, base_ms)
        if isinstance(record.get("reasoning_content"), str):
            thought = intake.mask(text_of(record.get("reasoning_content")))
            self._restored("COMMENT", [thought], table_of(notes.get(REASONING)), base_ms)
        if text or MESSAGE in notes:
            self._restored("SAY", [intake.mask(text)], said, base_ms)
        self._exact_calls(record, base_ms)
        if isinstance(metrics, dict) and is_last:
            self._model(record, metrics, model_call, base_ms)

    def _model(self, record: _Table, metrics: _Table, facts: _Table, base_ms: int | None) -> None:
        self._usage(record.get("model_name"), metrics, facts, self._at(facts, base_ms))

    def _exact_calls(self, record: _Table, base_ms: int | None) -> None:
        intake = self._intake
        results = {text_of(table_of(item).get("source_call_id")): table_of(item)
                   for item in list_of(table_of(record.get("observation")).get("results"))}  # fmt: skip
        for item in list_of(record.get("tool_calls")):
            call = table_of(item)
            facts = table_of(table_of(call.get("extra")).get(EXTRA))
            result = results.get(text_of(call.get("tool_call_id")))
            ending = (
                table_of(table_of((result or {}).get("extra")).get(EXTRA))
                if result is not None
                else {"outcome": "unknown"}
            )
            op, operands = text_of(facts.get("op")), self._operands(call, facts)
            if operands is None:
                intake.at_ms = self._at(facts, base_ms)
                self._calls([call], [result] if result is not None else [])
                continue
            child = self._child(result or {}) if op == "AGENT_SPAWN" else None
            if child is not None:
                operands[2] = child
            intake.count("tools")
            intake.count("tools_paired", int(ending.get("outcome") != "unknown"))
            intake.note_files(op, operands)
            self._restored(
                op, operands, {**facts, **{name: ending[name] for name in _ENDING if name in ending}}, base_ms
            )

    def _operands(self, call: _Table, facts: _Table) -> list[OperandValue] | None:
        intake, op = self._intake, text_of(facts.get("op"))
        arguments = call.get("arguments")
        if op != "TOOL_CALL":
            return operands_of(intake, op, table_of(arguments), facts)
        text = facts.get("text")
        given = intake.mask(text) if isinstance(text, str) else json_text(arguments, intake.mask)
        return [intake.mask(text_of(facts.get("server"))), intake.mask(text_of(call.get("function_name"))), given]

    def _restored(self, op: str, operands: list[OperandValue], table: _Table, base_ms: int | None) -> None:
        """Add a step with all that the document knows of it."""
        intake = self._intake
        facts: StepFacts = facts_of(intake, table)
        intake.at_ms = self._at(table, base_ms)
        if op in _COUNTED:
            intake.count(_COUNTED[op])
        call = intake.hold([Planned(op, operands, facts.note)])
        call.outcome, call.exit_code, call.error = facts.outcome, facts.exit_code, facts.error
        call.result, call.result_size, call.duration_ms = facts.result, facts.result_size, facts.duration_ms
        intake.release(call)

    def _at(self, table: _Table, base_ms: int | None) -> int | None:
        if base_ms is None:
            return None
        at_ms = self.clock(base_ms + (integer_of(table.get("after_ms")) or 0))
        if at_ms is not None:
            self._intake.note_time(at_ms)
        return at_ms


def _content(content: object) -> tuple[str, list[str]]:
    """Return the text of a message or a result, and the kinds of its other parts."""
    if isinstance(content, str):
        return content, []
    texts, others = [], []
    for block in blocks_of(content):
        if isinstance(block.get("text"), str):
            texts.append(text_of(block.get("text")))
        else:
            others.append(text_of(block.get("type")) or "none")
    return "\n".join(texts), others
