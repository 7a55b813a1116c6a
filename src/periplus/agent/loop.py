"""The loop: context → model → authorise → schedule → outcomes, until done, parked, or continued by a hook.

It knows contracts only. Every step is an episode: written to the log first, then folded into the turn (what comes next) and into the
context (what the model sees), both of which know nothing else. That is why ``run_turn`` has no state of its own to lose: it
looks at what comes next and does it, whether the process has just begun or has been at it for an hour.

Nothing that a model or a tool does ends the loop by an exception: what cannot be run is answered, what breaks is an outcome, and
where nothing is left to do the turn is *parked* with one honest note. What does come out as an exception is the log that cannot be
written, for a step that is not durable must not be followed by another.
"""

from __future__ import annotations

__all__ = ["Limits", "Run", "World", "run_turn"]

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

from periplus.agent.contracts import (
    Access,
    Approver,
    AssistantMessage,
    ContextOverflowError,
    LLMClient,
    Message,
    ModelError,
    PlanningHost,
    RunLog,
    Stop,
    StreamingClient,
    ToolCall,
    ToolDecision,
    ToolHost,
    ToolResult,
    ToolSchema,
    TurnContext,
)
from periplus.agent.episodes import Answered, Decided, Ended, Episode, Fed, HookFailed, Intended, Resulted
from periplus.agent.events import (
    AnswerCompleted,
    AnswerRestarted,
    ContextFolded,
    Event,
    FeedbackGiven,
    HookRaised,
    PermissionAsked,
    PermissionDecided,
    ReasoningGrown,
    RetryScheduled,
    Sink,
    StepStarted,
    TextGrown,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from periplus.agent.execution.call_checks import (
    CALLING,
    Calling,
    bounded_result,
    replace_surrogates,
    unknown_tool,
    with_valid_calls,
)
from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.execution.loop_messages import CONTINUE, DENIED, EMPTY, NOBODY, closing_note, error_text
from periplus.agent.execution.retry import Gone, Retrying, with_retries
from periplus.agent.execution.scheduler import is_bound, is_read, run_wave, waves
from periplus.agent.execution.turn_state import Turn
from periplus.agent.hooks import Composite, Hook, HookFailure

_CONTINUABLE: Final = frozenset({"done", "length", "stuck"})


def _chance() -> float:
    return int.from_bytes(os.urandom(4)) / 2**32


class Limits(NamedTuple):
    """Limits of a turn, whatever the hooks decide."""

    steps: int = 200
    lengths: int = 3
    empty_answers: int = 2
    denied_steps: int = 5
    folds: int = 3


class World(NamedTuple):
    """Time and randomness. ``wait`` waits for so many seconds or until the token is set, and returns whether it is set."""

    monotonic_s: Callable[[], float] = time.monotonic
    random: Callable[[], float] = _chance
    wait: Callable[[CancelToken, float], bool] = CancelToken.wait


class Run:
    """The parts and the state of one turn."""

    def __init__(
        self,
        *,
        client: LLMClient,
        host: ToolHost,
        context: TurnContext,
        log: RunLog,
        hooks: Sequence[Hook],
        token: CancelToken,
        turn: Turn,
        emit: Sink = lambda _: None,
        approver: Approver | None = None,
        limits: Limits | None = None,
        world: World | None = None,
        speaking: AbstractContextManager[object] | None = None,
    ) -> None:
        self.client, self.host, self.context, self.log = client, host, context, log
        self.hooks, self.token = Composite(hooks, self._hook_failed), token
        self.turn, self.emit, self.approver = turn, emit, approver
        self.limits, self.world = limits or Limits(), world or World()
        self.speaking = speaking or nullcontext()  # held while messages of the person are recorded
        self.raw: dict[str, ToolCall] = {}  # the calls of the last answer as they were before secrets were masked

    # -- what is written down ------------------------------------------------------------------------------------------

    def note(self, *episodes: Episode, durable: bool = True) -> Sequence[Episode]:
        """Append the episodes durably, then fold them into turn and context. Returns them as stored, without secrets."""
        kept = self.log.append(*episodes, durable=durable)
        for one in kept:
            self.turn.take(one)
            self.context.take(one)
        return kept

    def tell(self, event: Callable[..., Event], **fields: object) -> None:
        self.emit(event(turn=self.turn.number, step=self.turn.step, **fields))

    def feed(self, source: str, text: str, quoted: str = "", said: int = 0) -> None:
        """Send a message to the model in the middle of the turn."""
        at = {"turn": self.turn.number, "step": self.turn.step}
        for one in self.note(
            Fed(**at, source=source, text=replace_surrogates(text), quoted=replace_surrogates(quoted), said=said)
        ):
            if isinstance(one, Fed):
                self.tell(FeedbackGiven, source=source, text=one.text, quoted=one.quoted)

    def steer(self) -> bool:
        """Pass on what the person said meanwhile. Return whether there was anything."""
        waiting = self.turn.saying.waiting()
        for number, text in waiting:
            self.feed("person", text, said=number)
        return bool(waiting)

    def _hook_failed(self, failure: HookFailure) -> None:
        hook, seam, error, is_closed = failure
        at = {"turn": self.turn.number, "step": self.turn.step}
        self.note(HookFailed(**at, hook=hook, seam=seam, error=error, is_closed=is_closed))
        self.tell(HookRaised, hook=hook, seam=seam, error=error, is_closed=is_closed)


def run_turn(run: Run) -> Ended:
    """Run the turn in progress from its present state to its end."""
    turn = run.turn
    while turn.ended is None:
        stop: Stop | None = None
        match turn.phase:
            case "ask":
                run.steer()
                stop = _may_not_step(run) or ask(run)
            case "act":
                stop = _after_step(run, act(run))
            case "settle":
                stop = _after_step(run, settle(run))
        if run.token.is_cancelled and (stop is None or stop.reason != "done"):
            stop = Stop(reason="aborted")
        if stop is not None and not _goes_on(run, stop):
            with run.speaking:  # what the person said until now belongs to this turn, anything later to the next
                if not _may_hear(run, stop) or not run.turn.saying.waiting():
                    end(run, stop)
                    continue
            run.steer()
    return turn.ended


def _may_not_step(run: Run) -> Stop | None:
    if run.turn.step >= run.limits.steps:
        return Stop(reason="steps")
    return run.hooks.before_step(run.turn.step + 1)


def _after_step(run: Run, stop: Stop | None) -> Stop | None:
    """Ask the hooks about the finished step. They may stop a turn that would continue or be done."""
    with run.token.telling(getattr(run.host, "cancel", _nothing)):  # a hook may run a check
        verdict = run.hooks.after_step(run.turn.step, run.turn.usage, stop.reason if stop else None)
    return verdict or stop if stop is None or stop.reason == "done" else stop


def _goes_on(run: Run, stop: Stop) -> bool:
    """Return whether the turn continues: for words of the person first, then for a hook. No hook overrides a limit or an error."""
    if not _may_hear(run, stop):
        return False
    if run.steer():
        return True
    with run.token.telling(getattr(run.host, "cancel", _nothing)):
        go_on = run.hooks.should_continue_after_stop(stop)
    if go_on is not None and run.token.wait(0):  # the check was stopped with the turn
        end(run, Stop(reason="aborted"))
    elif go_on is not None:
        run.feed(go_on.source, go_on.feedback, go_on.quoted)
    return go_on is not None


def _may_hear(run: Run, stop: Stop) -> bool:
    return stop.reason in _CONTINUABLE and run.turn.phase != "act" and not run.token.is_cancelled


def end(run: Run, stop: Stop) -> None:
    """Close the turn: give every open call an outcome, and write the closing note."""
    turn = run.turn
    why = f"Not run: the turn ended first ({stop.reason})."
    left = [_resulted(run, call, ToolResult(outcome="cancelled", output=why)) for call in turn.open_calls]
    if left:
        run.note(*left)
    ended = turn.ends_as(stop.reason, closing_note(stop, turn.step, run.token.reason))
    run.note(ended, *run.context.seal(ended))
    run.tell(TurnEnded, reason=ended.reason, note=ended.note, text=ended.text, usage=ended.usage)


# -- the model ---------------------------------------------------------------------------------------------------------


def ask(run: Run) -> Stop | None:
    """Get one answer of the model and make it durable. The hooks see its cost before its calls run."""
    for _ in range(run.limits.folds + 1):
        try:
            answered = _answer(run)
        except ContextOverflowError as error:
            notes = run.context.make_room()
            if not notes:
                return Stop(reason="overflow", note=error_text(error))
            run.note(*notes)
            run.tell(ContextFolded)
            continue
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the turn ends by it and the session does not
            return Stop(reason="aborted" if run.token.is_cancelled else "error", note=error_text(error))
        if isinstance(answered, Gone):
            return Stop(reason="aborted")
        run.raw = {call.id: call for call in answered.message.tool_calls}
        run.note(answered)
        message = answered.message
        run.tell(
            AnswerCompleted, text=message.content, calls=len(message.tool_calls), usage=message.usage,
            finish_reason=message.finish_reason, latency_ms=answered.latency_ms, retries=answered.retries,
            measures=answered.measures,
        )  # fmt: skip
        return run.hooks.record_step_usage(message.usage)
    return Stop(reason="overflow")


def _answer(run: Run) -> Answered | Gone:
    messages = run.hooks.prepare_messages(run.context.messages())
    tools = run.context.tools()
    measures = run.context.sent(messages)
    step = run.turn.step + 1
    size = sum(len(message.content) for message in messages)
    run.emit(StepStarted(turn=run.turn.number, step=step, messages=len(messages), characters=size))
    begun_s = run.world.monotonic_s()
    first_s: list[float] = []
    retrying = Retrying(
        run.world.random, functools.partial(run.world.wait, run.token), functools.partial(_report_retry, run)
    )
    with run.token.telling(getattr(run.client, "cancel", _nothing)):
        got = with_retries(run.client, functools.partial(_complete, run, messages, tools, first_s), retrying)
    if isinstance(got, Gone):
        return got
    message, retries = got
    latency_ms = round(1000 * (run.world.monotonic_s() - begun_s))
    first = {"first_token_ms": round(1000 * (first_s[0] - begun_s))} if first_s else {}
    return Answered(
        turn=run.turn.number, step=step, message=with_valid_calls(message, step), latency_ms=latency_ms, retries=retries,
        measures={**measures, **first},
    )  # fmt: skip


def _complete(
    run: Run, messages: Sequence[Message], tools: Sequence[ToolSchema], first_s: list[float]
) -> AssistantMessage:
    """Try once. ``first_s`` receives the time of the first token if the client streams."""
    _refuse_stopped(run.token)
    first_s.clear()
    if not isinstance(run.client, StreamingClient):
        return run.client.complete(messages, tools)
    answer: AssistantMessage | None = None
    stream = run.client.stream(messages, tools)
    try:
        for piece in stream:
            if not first_s and piece.message is None:
                first_s.append(run.world.monotonic_s())
            if piece.kind == "text":
                run.tell(TextGrown, text=piece.text)
            elif piece.kind == "reasoning":
                run.tell(ReasoningGrown, text=piece.text)
            answer = piece.message or answer
            if answer is None:
                _refuse_stopped(run.token)
    finally:
        getattr(stream, "close", _nothing)()
    if answer is None:
        raise ModelError("the stream ended before the answer did", is_retryable=True)
    return answer


def _refuse_stopped(token: CancelToken) -> None:
    if token.is_cancelled:
        raise ModelError("the turn was stopped")


def _report_retry(run: Run, attempt: int, wait_s: float, error: Exception) -> None:
    if isinstance(run.client, StreamingClient):
        run.tell(AnswerRestarted)
    run.tell(RetryScheduled, attempt=attempt, wait_ms=round(1000 * wait_s), error=error_text(error))


def settle(run: Run) -> Stop | None:
    """Handle an answer without calls: the turn is done, or something else stopped it."""
    turn = run.turn
    assert turn.answered is not None
    stopped = _stopped(run, turn.answered.message)
    if stopped is not None:
        return stopped
    if turn.answered.message.finish_reason == "length":
        run.feed("length", CONTINUE)
        return None
    if turn.empty_answers:
        run.feed("empty", EMPTY)
        return None
    return Stop(reason="done")


def _stopped(run: Run, message: AssistantMessage) -> Stop | None:
    """Return the reason why this answer ends the turn, with or without calls."""
    if message.finish_reason == "filter":
        return Stop(reason="filter", note="The provider's filter stopped the answer.")
    if message.finish_reason == "refusal":
        return Stop(reason="filter", note="The model refused.")
    if message.finish_reason == "error":
        return Stop(reason="error", note="The model's answer broke off with an error.")
    if run.turn.length_stops > run.limits.lengths:
        return Stop(reason="length")
    if run.turn.empty_answers > run.limits.empty_answers:
        return Stop(reason="stuck", note="The model kept giving empty answers.")
    return None


# -- the tools ---------------------------------------------------------------------------------------------------------


def act(run: Run) -> Stop | None:
    """Run the calls of the last answer that have no outcome yet."""
    turn = run.turn
    assert turn.answered is not None
    stopped = _stopped(run, turn.answered.message)
    if stopped is not None:
        return stopped
    calls, refused = [], []
    for call in turn.open_calls:
        asked_for = run.raw.get(call.id, call)
        refusal = _refused(run, asked_for)
        if refusal is not None:
            refused.append(refusal)
        else:
            calls.append(asked_for)
        if run.token.is_cancelled:
            return Stop(reason="aborted")
    if refused:
        _finish(run, refused, has_started=False)
    accesses = [_accesses(run, call) for call in calls]
    for wave in waves(accesses):
        if run.token.is_cancelled:
            return Stop(reason="aborted")
        _run_wave(run, [calls[place] for place in wave.places], [accesses[place] for place in wave.places])
    if turn.denied_steps >= run.limits.denied_steps:
        return Stop(reason="stuck", note="The model kept requesting calls that are denied.")
    return None


def _refused(run: Run, call: ToolCall) -> Resulted | None:
    """Return the outcome of a call that cannot run: unreadable, of an unknown tool, with a lost secret, or not allowed."""
    if call.problem:
        return _resulted(run, call, ToolResult(outcome="failed", output=f"Not run: {call.problem}"))
    names = [schema.name for schema in run.host.schemas()]
    if call.name not in names:
        return _resulted(run, call, ToolResult(outcome="failed", output=unknown_tool(call.name, names)))
    answered = run.turn.answered
    if answered is not None and call.id in answered.masked and call.id not in run.raw:
        why = "Not run: the process ended, and a secret in the arguments was not kept. Ask for it again."
        return _resulted(run, call, ToolResult(outcome="cancelled", output=why))
    decision = run.hooks.authorize_tool(call.name, call.args)
    if decision.ask:
        decision = _asked(run, call, decision)
    if decision.allow:
        return None
    denied = ToolResult(outcome="denied", output=f"{DENIED}{decision.reason or 'no rule allows it'}", untrusted=False)
    return _resulted(run, call, denied, counts_as_stuck=decision.counts_as_stuck)


def _asked(run: Run, call: ToolCall, decision: ToolDecision) -> ToolDecision:
    """Ask the person for the decision; deny it if there is nobody to ask."""
    if run.approver is None:
        return ToolDecision(allow=False, reason=f"{decision.reason or 'a person would have to allow it'}{NOBODY}")
    run.tell(PermissionAsked, call_id=call.id, name=call.name, args=call.args, reason=decision.reason)
    answer = run.approver.approve(call, decision)
    at = {"turn": run.turn.number, "step": run.turn.step}
    run.note(Decided(**at, call_id=call.id, answer=answer, reason=decision.reason))
    run.tell(PermissionDecided, call_id=call.id, answer=answer)
    if answer == "no":
        return ToolDecision(allow=False, reason="the person said no")
    return ToolDecision(allow=True)


def _run_wave(run: Run, calls: Sequence[ToolCall], accesses: Sequence[Sequence[Access]]) -> None:
    """Write the intents, run the calls, write the outcomes: each durable before the next. The intent of a read may be lost."""
    intents = [
        Intended(
            turn=run.turn.number, step=run.turn.step, call_id=call.id, name=call.name,
            plan=() if is_read(touched) else _plan(run, call), is_read=is_read(touched),
        )
        for call, touched in zip(calls, accesses, strict=True)
    ]  # fmt: skip
    run.note(*intents, durable=not all(one.is_read for one in intents))
    kept = {call.id: call for call in run.turn.open_calls}
    for call in calls:
        run.tell(ToolStarted, call_id=call.id, name=call.name, args=kept[call.id].args)
    with run.token.telling(getattr(run.host, "cancel", _nothing)):
        done = run_wave([functools.partial(_timed, run, call) for call in calls], [is_bound(one) for one in accesses])
    _finish(run, [_resulted(run, call, result, took_ms) for call, (result, took_ms) in zip(calls, done, strict=True)])


def _finish(run: Run, outcomes: Sequence[Resulted], *, has_started: bool = True) -> None:
    """Pass the outcomes through the hooks, make them durable, then show them."""
    calls = {call.id: call for call in run.turn.open_calls}
    shown = []
    for one in outcomes:
        call = run.raw.get(one.call_id, calls[one.call_id])
        result = bounded_result(run.hooks.transform_tool_result(call, one.result))
        shown.append(Resulted(**{name: getattr(one, name) for name in one.__struct_fields__} | {"result": result}))
    for kept in run.note(*shown):
        if isinstance(kept, Resulted):
            show_result(run, kept, {} if has_started else calls[kept.call_id].args)


def show_result(run: Run, one: Resulted, args: Mapping[str, Any]) -> None:
    """Show a result. ``args`` belongs to a call whose start was not reported."""
    result = one.result
    run.tell(
        ToolEnded, call_id=one.call_id, name=one.name, outcome=result.outcome, output=result.output,
        handle=result.handle, exit_code=result.exit_code, effects=result.effects, duration_ms=one.duration_ms,
        args=dict(args),
    )  # fmt: skip


def _timed(run: Run, call: ToolCall) -> tuple[ToolResult, int]:
    begun_s = run.world.monotonic_s()
    asked = run.turn.answered.message.tool_calls if run.turn.answered is not None else ()
    place = next((place for place, one in enumerate(asked, 1) if one.id == call.id), 0)
    now = CALLING.set(Calling(call.name, run.turn.number, run.turn.step, place, run.token))
    try:
        result = run.host.run(call.name, call.args)
        if not isinstance(result, ToolResult):
            raise TypeError(f"it gave {type(result).__name__}")  # noqa: TRY301 - a broken tool is told of in one way
    except Exception as error:  # noqa: BLE001 - what a tool raises is its outcome, and the model can do something about it
        outcome = ToolResult(outcome="cancelled" if run.token.is_cancelled else "failed", output=error_text(error))
        return outcome, round(1000 * (run.world.monotonic_s() - begun_s))
    finally:
        CALLING.reset(now)
    return result, round(1000 * (run.world.monotonic_s() - begun_s))


def _accesses(run: Run, call: ToolCall) -> Sequence[Access]:
    """Return the accesses of a call; an empty list if the host fails, so that the call runs alone."""
    try:
        return run.host.accesses(call.name, call.args)
    except Exception:  # noqa: BLE001 - bad arguments: the call itself says what is wrong with them
        return ()


def _plan(run: Run, call: ToolCall) -> tuple[dict[str, object], ...]:
    if not isinstance(run.host, PlanningHost):
        return ()
    try:
        return tuple(dict(one) for one in run.host.plan(call.name, call.args))
    except Exception:  # noqa: BLE001 - a plan is for after a crash only; what is wrong the call itself says
        return ()


def _resulted(
    run: Run, call: ToolCall, result: ToolResult, took_ms: int = 0, *, counts_as_stuck: bool = False
) -> Resulted:
    return Resulted(
        turn=run.turn.number, step=run.turn.step, call_id=call.id, name=call.name, result=result, duration_ms=took_ms,
        counts_as_stuck=counts_as_stuck,
    )  # fmt: skip


def _nothing() -> None:
    pass
