"""Export of a trail as an ATIF document, version 1.8 (Agent Trajectory Interchange Format, Harbor RFC 0001).

Theory of operation
-------------------
A prompt is a step of the user. What the agent does becomes turns: a model call with its tokens, then at most one
thought, one text, and the calls with their results. A turn ends where the next step of the trail would stand before one
that it has: a second text, a thought behind a call. A model call may also stand last, because some agents record it when
the answer is complete; such a turn ends with it. So the order of the trail's steps follows from the document.

Trails of subagents are trajectories in ``subagent_trajectories``, to which the result of the call refers. The same trail
gives the same bytes, which is how an export is verified.
"""

from __future__ import annotations

__all__ = ["AtifDocument", "atif_document"]

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from periplus.interop.exports.atif_facts import (
    EXTRA,
    EXTRA_VERSION,
    MARKS,
    MESSAGE,
    MODEL_CALL,
    REASONING,
    SCHEMA_VERSION,
)
from periplus.interop.exports.trail_source import ExportSource, Moment
from periplus.trail import BY_CODE, Digest, OperandValue, TextObject
from periplus.trail.model import TOOL_VERSION

SUBAGENT_DEPTH_MAX: Final = 8
SUBAGENTS_MAX: Final = 1000
_MILLIONTHS: Final = 1_000_000

SourceOf = Callable[[bytes], ExportSource | None]
_Table = dict[str, Any]


class AtifDocument(NamedTuple):
    """``missing`` counts the long texts and contents that were not at hand."""

    data: bytes
    steps: int
    subagents: int
    missing: int


class _Context:
    """State of one document with all its trajectories."""

    def __init__(self, source_of: SourceOf, withheld: tuple[str, ...]) -> None:
        from periplus.base.text.secrets import mask_secrets

        self._mask = mask_secrets
        self.source_of = source_of
        self.withheld = withheld
        self.subagents = 0
        self.missing = 0

    def text(self, source: ExportSource, value: OperandValue) -> str:
        if isinstance(value, TextObject) and source.object(value.sha256) is None:
            self.missing += 1
        return self.masked(source.text(value))

    def masked(self, text: str) -> str:
        return self._mask(text)[0]

    def content(self, source: ExportSource, value: OperandValue) -> str | None:
        """Return the text that a digest names, None where it is not at hand or no text."""
        data = source.content(value)
        if data is None:
            return None
        try:
            return self.masked(data.decode())
        except UnicodeDecodeError:
            return None


def atif_document(
    source: ExportSource, *, source_of: SourceOf = lambda _digest: None, withheld: tuple[str, ...] = ()
) -> AtifDocument:
    """Return the document of a single trail. ``source_of`` returns the trail of a subagent by its digest, ``withheld``
    names the fields that were taken out of it before.
    """
    import orjson

    context = _Context(source_of, withheld)
    root = _trajectory(context, source, 0)
    root["extra"][EXTRA] |= {"subagents": context.subagents, "missing": context.missing}
    data = orjson.dumps(root, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return AtifDocument(data, len(root["steps"]), context.subagents, context.missing)


def _trajectory(context: _Context, source: ExportSource, depth: int) -> _Table:
    reader = source.readers[0]
    header = reader.header

    def told(value: OperandValue) -> str | None:
        return context.text(source, value) if value is not None else None

    turns = _Turns(context, source, depth)
    for moment in source.moments():
        turns.add(moment)
    facts = {
        "version": EXTRA_VERSION,
        "program": f"periplus {TOOL_VERSION}",
        "digest": source.digest.hex(),
        "status": reader.status,
        "steps": reader.step_count,
        "started_ms": header.started_ms or None,
        "tool": told(header.tool),
        "base": told(header.base),
        "host": told(header.host),
        "title": told(header.title),
        "withheld": list(context.withheld) or None,
    }
    agent = {
        "name": told(header.agent),
        "version": told(header.tool_version) or "unknown",
        "model_name": told(header.model),
    }
    return _kept({
        "schema_version": SCHEMA_VERSION,
        "session_id": told(header.trail_id) or source.digest.hex()[:16],
        "trajectory_id": source.digest.hex(),
        "agent": _kept(agent),
        "steps": turns.steps,
        "final_metrics": turns.totals(),
        "extra": {EXTRA: _kept(facts)},
        "subagent_trajectories": turns.subagents or None,
    })  # fmt: skip


class _Turns:
    """Steps of one trajectory in their making."""

    def __init__(self, context: _Context, source: ExportSource, depth: int) -> None:
        self.steps: list[_Table] = []
        self.subagents: list[_Table] = []
        self._context = context
        self._source = source
        self._depth = depth
        self._turn: _Table | None = None  # the agent's step that may take more
        self._base_ms = 0
        self._fresh = self._cached = self._out = self._cost = 0
        self._has_usage = self._has_cost = False
        self._refs: dict[bytes, _Table | None] = {}

    def add(self, moment: Moment) -> None:
        op = moment.op
        if op == "PROMPT":
            step = self._begin(moment, "user")
            step["message"] = self._text(moment, 0)
            self._note(step, MESSAGE, self._facts(moment))
            self._turn = None
        elif op in MARKS:
            step = self._begin(moment, "system")
            step["message"] = f"{op} {self._text(moment, len(moment.step.operands) - 1)}".rstrip()
            self._note(step, MESSAGE, {"op": op, **self._arguments(moment), **self._facts(moment)})
            self._turn = None
        elif op == "MODEL_CALL":
            self._model_call(moment)
        elif op == "COMMENT":
            step = self._open(moment, ("reasoning_content", "message", "tool_calls"))
            step["reasoning_content"] = self._text(moment, 0)
            self._note(step, REASONING, self._facts(moment))
        elif op == "SAY":
            step = self._open(moment, ("message", "tool_calls"))
            step["message"] = self._text(moment, 0)
            self._note(step, MESSAGE, self._facts(moment), is_needed=not step["message"])
        else:
            self._call(self._open(moment, ()), moment)

    def totals(self) -> _Table:
        """Return the sums of this trajectory, those of its subagents not included."""
        usage = {
            "total_prompt_tokens": self._fresh + self._cached,
            "total_completion_tokens": self._out,
            "total_cached_tokens": self._cached,
        }
        cost = {"total_cost_usd": self._cost / _MILLIONTHS} if self._has_cost else {}
        for step in self.steps:
            step.setdefault("message", "")
        return {**(usage if self._has_usage else {}), **cost, "total_steps": len(self.steps)}

    # Steps of the document

    def _begin(self, moment: Moment, kind: str) -> _Table:
        step: _Table = {"step_id": len(self.steps) + 1}
        stamp = _stamp(moment.at_ms)
        if stamp is not None:
            step["timestamp"] = stamp
        step["source"] = kind
        self._base_ms = moment.at_ms
        self.steps.append(step)
        return step

    def _open(self, moment: Moment, behind: tuple[str, ...]) -> _Table:
        """Return the turn that the step belongs to: a new one where the current one has a field of ``behind``."""
        turn = self._turn
        if turn is None or any(name in turn for name in behind):
            turn = self._turn = self._begin(moment, "agent")
        return turn

    def _model_call(self, moment: Moment) -> None:
        turn = self._turn
        is_last = turn is not None and "metrics" not in turn
        if turn is None or not is_last:
            turn = self._turn = self._begin(moment, "agent")
        model = self._text(moment, 0)
        fresh, cached, out = (_number(moment, place) for place in (1, 2, 3))
        cost = moment.operand(4)
        self._fresh, self._cached, self._out = self._fresh + fresh, self._cached + cached, self._out + out
        self._has_usage = True
        turn["model_name"] = model
        turn["llm_call_count"] = 1
        turn["metrics"] = {"prompt_tokens": fresh + cached, "completion_tokens": out, "cached_tokens": cached}
        if isinstance(cost, int):
            self._cost += cost
            self._has_cost = True
            turn["metrics"]["cost_usd"] = cost / _MILLIONTHS
        facts = self._facts(moment)
        self._note(turn, MODEL_CALL, {**facts, "is_last": True} if is_last else facts)
        if is_last:
            self._turn = None

    def _call(self, step: _Table, moment: Moment) -> None:
        call_id = f"step-{moment.number + 1}"
        facts = self._facts(moment)
        ending: _Table = {name: facts.pop(name) for name in ("outcome", "exit_code", "error", "result", "result_size")
                  if name in facts}  # fmt: skip
        call = {"tool_call_id": call_id, "function_name": moment.op.lower(), **self._arguments(moment)}
        if moment.op == "TOOL_CALL":
            call |= self._tool(moment)
        unplaced = {name: call.pop(name) for name in ("digests", "server", "text") if name in call}
        call["extra"] = {EXTRA: {"op": moment.op, **unplaced, **facts}}
        step.setdefault("tool_calls", []).append(call)
        result = self._result(moment, call_id, ending)
        if result is not None:
            step.setdefault("observation", {"results": []})["results"].append(result)

    def _tool(self, moment: Moment) -> _Table:
        """Return name and arguments of a call without an opcode of its own, and its server and a text that is no object."""
        import orjson

        text = self._text(moment, 2)
        try:
            arguments = orjson.loads(text)
            is_same = isinstance(arguments, dict) and orjson.dumps(arguments).decode() == text
        except ValueError:
            arguments, is_same = None, False
        found: _Table = {"function_name": self._text(moment, 1)}
        found["arguments"] = arguments if isinstance(arguments, dict) else {}
        if not is_same:
            found["text"] = text
        server = self._text(moment, 0)
        return {**found, "server": server} if server else found

    def _arguments(self, moment: Moment) -> _Table:
        """Return the operands by name, and the names of those that are digests."""
        row = BY_CODE.get(moment.step.code)
        arguments: _Table = {}
        digests = []
        for place, value in enumerate(moment.step.operands):
            if value is None:
                continue
            name = row.operands[place].name if row is not None else f"operand_{place}"
            if isinstance(value, Digest):
                content = self._context.content(self._source, value) if moment.op == "FILE_WRITE" else None
                if content is None:
                    digests.append(name)
                    self._context.missing += moment.op == "FILE_WRITE"
                arguments[name] = self._text(moment, place) if content is None else content
            else:
                arguments[name] = int(value) if isinstance(value, int) else self._text(moment, place)
        return {"arguments": arguments, "digests": digests} if digests else {"arguments": arguments}

    def _result(self, moment: Moment, call_id: str, ending: _Table) -> _Table | None:
        """Return the result of a call, None where nothing is known of it."""
        step = moment.step
        reference = self._reference(moment)
        if step.outcome == "unknown" and len(ending) <= 1 and step.duration_ms is None and reference is None:
            return None
        result: _Table = {"source_call_id": call_id}
        content = self._context.content(self._source, step.result) if isinstance(step.result, Digest) else None
        if content is not None:
            result["content"] = content
        elif "error" in ending:
            result["content"] = ending["error"]
        if reference is not None:
            result["subagent_trajectory_ref"] = [reference]
        if ending:
            result["extra"] = {EXTRA: ending}
        return result

    def _reference(self, moment: Moment) -> _Table | None:
        digest = moment.operand(2) if moment.op == "AGENT_SPAWN" else None
        if not isinstance(digest, Digest):
            return None
        if digest.value not in self._refs:
            self._refs[digest.value] = self._embedded(digest.value)
        return self._refs[digest.value]

    def _embedded(self, digest: bytes) -> _Table | None:
        context = self._context
        if self._depth >= SUBAGENT_DEPTH_MAX or context.subagents >= SUBAGENTS_MAX:
            return None
        source = context.source_of(digest)
        if source is None or len(source.readers) > 1:
            return None
        context.subagents += 1
        made = _trajectory(context, source, self._depth + 1)
        self.subagents.append(made)
        return {"trajectory_id": made["trajectory_id"], "session_id": made["session_id"]}

    # Values

    def _text(self, moment: Moment, place: int) -> str:
        return self._context.text(self._source, moment.operand(place) if place >= 0 else None)

    def _facts(self, moment: Moment) -> _Table:
        """Return what is known of a step beside its operands, without the usual values."""
        step = moment.step
        facts: _Table = {
            "after_ms": moment.at_ms - self._base_ms or None,
            "duration_ms": step.duration_ms,
            "outcome": step.outcome if step.outcome != "ok" else None,
            "exit_code": step.exit_code,
            "error": self._context.text(self._source, step.error) if step.error is not None else None,
            "note": self._context.text(self._source, step.note) if step.note is not None else None,
        }
        if step.result is not None:
            facts["result"] = self._context.text(self._source, step.result)
            facts["result_size"] = step.result_size
        return _kept(facts)

    def _note(self, step: _Table, name: str, facts: _Table, *, is_needed: bool = False) -> None:
        if facts or is_needed:
            step.setdefault("extra", {EXTRA: {}})[EXTRA][name] = facts


def _kept(table: _Table) -> _Table:
    return {name: value for name, value in table.items() if value is not None}


def _number(moment: Moment, place: int) -> int:
    value = moment.operand(place)
    return int(value) if isinstance(value, int) else 0


def _stamp(at_ms: int) -> str | None:
    from datetime import UTC, datetime, timedelta

    if not at_ms:
        return None
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
