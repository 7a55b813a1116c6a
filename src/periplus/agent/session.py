"""A session: turns one after another over one log, and recovery of a turn that a crash interrupted."""

from __future__ import annotations

__all__ = ["Parts", "Session"]

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from periplus.agent.contracts import (
    Approver,
    LLMClient,
    PlanningHost,
    RunLog,
    Stop,
    StopReason,
    ToolHost,
    ToolResult,
    TurnContext,
)
from periplus.agent.episodes import Ended, Episode, Intended, Noted, Requested, Resulted, Resumed
from periplus.agent.events import SessionResumed, Sink, TurnStarted
from periplus.agent.execution.call_checks import replace_surrogates
from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.execution.turn_state import Turn, said
from periplus.agent.hooks import Hook
from periplus.agent.loop import Limits, Run, World, end, run_turn, show_result
from periplus.base.clock import Clock, SystemClock
from periplus.base.errors import RefusedError

_UNKNOWN: Final = (
    "The process ended while this call ran. Whether it did its work is not known, and it was not repeated. "
    "Look how things stand before you repeat it."
)


class Parts(NamedTuple):
    """The parts of a session. ``context`` is new: the session gives it the episodes of the log.

    A host may also have ``cancel()`` (see ``Cancellable``); ``begin_turn(turn)``, called with the turn that changes belong to;
    ``note_seen(path, digest)``, called with what the model knew of files before the process began; and ``goes_on(name)``, which says that
    an interrupted call of that tool continues where it was when it is run again. A log may also have ``replay()``, which yields what
    ``read`` returns, and ``read_turn(turn)``, which returns the episodes of one turn.
    """

    client: LLMClient
    host: ToolHost
    context: TurnContext
    log: RunLog
    hooks: Sequence[Hook] = ()
    approver: Approver | None = None
    emit: Sink = lambda _: None
    limits: Limits = Limits()
    world: World = World()
    clock: Clock = SystemClock()


class Session:
    """A session. ``turn`` runs a request to its end. If ``is_interrupted``, a turn was cut off: ``resume`` continues it, ``drop`` ends it.

    ``steer`` and ``cancel`` may be called from any thread while a turn runs.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._turn = Turn()
        self._lock = threading.Lock()
        self._speaking = (
            threading.RLock()
        )  # no turn begins or ends while a message is recorded, so that turn numbers only grow in the log
        self._token: CancelToken | None = None
        note_seen = getattr(parts.host, "note_seen", None)
        read = getattr(
            parts.log, "replay", parts.log.read
        )  # one by one if possible: a long session is too large to hold
        for episode in read():
            self._turn.take(episode)
            parts.context.take(episode)
            if note_seen is not None and isinstance(episode, Resulted):
                for effect in episode.result.effects:
                    if effect.get("after"):
                        note_seen(str(effect["path"]), str(effect["after"]))

    @property
    def is_interrupted(self) -> bool:
        return self._turn.phase != "idle"

    @property
    def unheard(self) -> tuple[str, ...]:
        """Messages of the person that the model gets before the next step of this turn or of the next one."""
        return tuple(one.text for one in self._turn.saying.waiting())

    @property
    def turns(self) -> int:
        """The number of turns that were begun."""
        return self._turn.number

    def turn(self, request: str, *, topic: str = "", token: CancelToken | None = None) -> Ended:
        """Run a request of the person to its end. Raises RefusedError if a turn was interrupted, and what the log raises."""
        self._refuse_interrupted()
        run = self._run(self._turn.number + 1, token)
        parts = self._parts
        asked = Requested(
            turn=self._turn.number + 1, text=replace_surrogates(request), topic=topic, at_ms=parts.clock.now_ms()
        )
        notes = parts.context.begin(asked)
        with self._speaking:
            run.note(asked, *notes)
        run.tell(TurnStarted, request=asked.text)
        run.hooks.reset_for_turn()
        return self._ended(run)

    def resume(self, *, token: CancelToken | None = None) -> Ended | None:
        """Continue the interrupted turn; None without one."""
        if not self.is_interrupted:
            return None
        run = self._run(self._turn.number, token)
        at = {"turn": self._turn.number, "step": self._turn.step}
        run.note(Resumed(**at, at_ms=self._parts.clock.now_ms()))
        args = {call.id: call.args for call in self._turn.open_calls}
        judged = [one for intent in self._open_intents() if (one := _judged(run, intent)) is not None]
        if judged:
            run.note(*judged)
        unknown = tuple(one.call_id for one in judged if one.result.outcome == "indeterminate")
        run.tell(SessionResumed, indeterminate=unknown)
        for one in judged:
            show_result(run, one, args.get(one.call_id, {}))
        run.hooks.reset_for_turn()
        for usage in self._turn.spent:
            run.hooks.record_step_usage(usage)
        run.hooks.restore(self._written())
        return self._ended(run)

    def drop(self) -> Ended | None:
        """End the interrupted turn as it stands; None without one."""
        if not self.is_interrupted:
            return None
        run = self._run(self._turn.number, None)
        judged = [one for intent in self._open_intents() if (one := _judged(run, intent)) is not None]
        if judged:
            run.note(*judged)
        end(run, Stop(reason="aborted", note="It was interrupted, and dropped later."))
        return self._turn.ended

    def note(self, *notes: Noted) -> None:
        """Record notes of the context that somebody ordered (a topic, a plan, a fold), then apply them.

        Call it in the thread of the turn, or between turns.
        """
        for kept in self._parts.log.append(*notes):
            self._turn.take(kept)
            self._parts.context.take(kept)

    def steer(self, text: str) -> None:
        """Send a message to the model in the middle of a turn; it gets it before its next step.

        The message is durable when this returns: a process that is killed before that step does not lose it. Raises what the log raises;
        then the message was not accepted.
        """
        with self._speaking:
            self._say(text)

    def try_steer(self, text: str) -> bool:
        """Steer if a turn is in progress, else return False."""
        with self._speaking:
            if self.is_interrupted:
                self._say(text)
                return True
            return False

    def cancel(self, reason: str = "") -> None:
        """Stop the running turn with everything that it runs."""
        with self._lock:
            token = self._token
        if token is not None:
            token.cancel(reason)

    def close(self) -> None:
        """End the run and seal its trail. The session can be resumed later."""
        ended = self._turn.ended
        reason: StopReason | None = ended.reason if ended is not None else None
        self._parts.log.close(reason)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        note = said(self._turn.number, self._turn.saying.next_number(), replace_surrogates(text))
        for kept in self._parts.log.append_aside(note):
            self._turn.take(kept)

    def _run(self, turn: int, token: CancelToken | None) -> Run:
        parts = self._parts
        token = token or CancelToken()
        with self._lock:
            self._token = token
        begin_turn = getattr(parts.host, "begin_turn", None)
        if begin_turn is not None:
            begin_turn(str(turn))
        return Run(
            client=parts.client, host=parts.host, context=parts.context, log=parts.log, hooks=parts.hooks, token=token,
            turn=self._turn, emit=parts.emit, approver=parts.approver, limits=parts.limits,
            world=parts.world, speaking=self._speaking,
        )  # fmt: skip

    def _ended(self, run: Run) -> Ended:
        try:
            return run_turn(run)
        finally:
            with self._lock:
                self._token = None

    def _written(self) -> Sequence[Episode]:
        """The episodes of the turn in progress."""
        log, turn = self._parts.log, self._turn.number
        read_turn = getattr(log, "read_turn", None)
        return read_turn(turn) if read_turn is not None else [one for one in log.read() if one.turn == turn]

    def _open_intents(self) -> list[Intended]:
        is_open = {call.id for call in self._turn.open_calls}
        return [intent for call_id, intent in self._turn.intents.items() if call_id in is_open]

    def _refuse_interrupted(self) -> None:
        if self.is_interrupted:
            raise RefusedError(
                f"turn {self._turn.number} of this session was cut off", safe="Its steps are durable.",
                mend="Resume or drop it before you begin another.",
            )  # fmt: skip


def _judged(run: Run, intent: Intended) -> Resulted | None:
    """Infer the outcome of a call whose process ended before it was recorded; None if the call has to run (again).

    A read changes nothing, and a durable call (a subagent's) continues where it was. A file step is judged by the digests of its files: if
    they are as planned, it was done; if they are as before, it was not. Any other state is indeterminate, and so is every command.
    """
    if intent.is_read or getattr(run.host, "goes_on", _never)(intent.name):
        return None
    standing: dict[str, tuple[str | None, bool, bool]] = {}
    if isinstance(run.host, PlanningHost):
        for effect in intent.plan:
            path = str(effect["path"])
            now = run.host.digest(path)
            standing[path] = (now, now == effect.get("before"), now == effect.get("after"))
    if standing and all(is_after for _, _, is_after in standing.values()):
        done = "Done. (The process ended before this could be written down; the files are as they were to be.)"
        return _resulted(intent, ToolResult(outcome="ok", output=done, untrusted=False, effects=intent.plan))
    if standing and all(is_before for _, is_before, _ in standing.values()):
        note_seen = getattr(run.host, "note_seen", None)
        for path, (now, _, _) in standing.items():
            if note_seen is not None and now is not None:
                note_seen(path, now)  # whoever made a call that could be planned had seen the file
        return None
    said = [_UNKNOWN]
    for path, (now, is_before, is_after) in sorted(standing.items()):
        state = "done" if is_after else "not done" if is_before else "gone" if now is None else "another content"
        said.append(f"{path}: {state}")
    return _resulted(intent, ToolResult(outcome="indeterminate", output="\n".join(said), untrusted=False))


def _never(_: str) -> bool:
    return False


def _resulted(intent: Intended, result: ToolResult) -> Resulted:
    return Resulted(
        turn=intent.turn, step=intent.step, call_id=intent.call_id, name=intent.name, result=result, is_judged=True
    )
