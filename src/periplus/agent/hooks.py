"""Hooks: where policy meets the loop. The loop asks; what is allowed, redacted or continued is decided here.

There is one table of seams. A hook is an object with some of their methods (derive from ``Hook``), or a set of functions
by the seam's name (``Functions``). Hooks are called one after another, in the order in which they were registered, with values that are
theirs: what a hook does to its arguments changes nothing.

How several make one decision:

* the first block, denial or continuation wins; a denial wins over a wish to ask, whoever came first;
* any stop stops; every ``record_step_usage`` and ``after_step`` runs before the verdict;
* ``prepare_messages`` and ``transform_tool_result`` are chains.

A hook that raises, or gives what its seam does not give: a *policy* seam fails closed (nothing is allowed, sent or shown because a
rule broke), an *observing* seam fails open. Both are told to ``report``.
"""

from __future__ import annotations

__all__ = ["SEAMS", "Composite", "Functions", "Hook", "HookFailure", "Seam"]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from periplus.agent.contracts import Continue, Message, Stop, StopReason, ToolCall, ToolDecision, ToolResult, Usage
from periplus.base.errors import PeriplusError, UsageError

if TYPE_CHECKING:
    from periplus.agent.episodes import Episode

T = TypeVar("T")


class Seam(NamedTuple):
    """A seam of the loop. ``is_policy``: fails closed. ``gives`` are the types that a hook may return; None is always allowed."""

    name: str
    is_policy: bool
    gives: tuple[type, ...]
    meaning: str


SEAMS: Final[Mapping[str, Seam]] = {
    seam.name: seam
    for seam in (
        Seam("reset_for_turn", is_policy=False, gives=(), meaning="a turn of the person begins"),
        Seam("before_step", is_policy=True, gives=(Stop,), meaning="the model is about to be asked; a Stop blocks"),
        Seam("prepare_messages", is_policy=True, gives=(list, tuple), meaning="the request, as it is going to be sent"),
        Seam("record_step_usage", is_policy=True, gives=(Stop,), meaning="what an answer cost; a Stop ends the turn"),
        Seam("authorize_tool", is_policy=True, gives=(ToolDecision,), meaning="may this call run?"),
        Seam("transform_tool_result", is_policy=True, gives=(ToolResult,), meaning="what became of a call, before anybody sees it"),
        Seam("after_step", is_policy=False, gives=(Stop,), meaning="a step is done; a Stop ends the turn"),
        Seam("should_continue_after_stop", is_policy=False, gives=(Continue,), meaning="the model stopped; a Continue goes on"),
    )
}  # fmt: skip
_RESTORE: Final = "restore"
WITHHELD: Final = "[the result is withheld: {hook} failed on it, and nothing is shown that a hook could not look at]"


class Hook:
    """All seams, doing nothing. A subclass may have other public methods if ``also`` names them.

    ``restore`` is not a seam: after a crash it receives the episodes of the resumed turn, after ``reset_for_turn``, so that the hook's
    counters continue. It decides nothing.
    """

    also: ClassVar[frozenset[str]] = frozenset()

    @property
    def name(self) -> str:
        return type(self).__name__

    def reset_for_turn(self) -> None: ...

    def before_step(self, step: int) -> Stop | None: ...

    def prepare_messages(self, messages: Sequence[Message]) -> Sequence[Message] | None: ...

    def record_step_usage(self, usage: Usage) -> Stop | None: ...

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision | None: ...

    def transform_tool_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None: ...

    def after_step(self, step: int, usage: Usage, stop_reason: StopReason | None) -> Stop | None: ...

    def should_continue_after_stop(self, stop: Stop) -> Continue | None: ...

    def restore(self, episodes: Sequence[Episode]) -> None: ...


class Functions(Hook):
    """A hook made of functions, by the names of their seams. Raises UsageError for an unknown name."""

    def __init__(self, name: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._name = name
        for seam, function in functions.items():
            _known(name, seam)
            setattr(self, seam, function)

    @property
    def name(self) -> str:
        return self._name


class HookFailure(NamedTuple):
    """A hook that failed. ``is_closed``: the failure refused what the hook had to decide."""

    hook: str
    seam: str
    error: str
    is_closed: bool


class _Failed(NamedTuple):
    hook: str
    error: str


class Composite(Hook):
    """Several hooks as one. Raises UsageError if one has a public method that is not a seam."""

    def __init__(self, hooks: Sequence[Hook] = (), report: Callable[[HookFailure], None] = lambda _: None) -> None:
        self.hooks = tuple(hooks)
        self.report = report
        for hook in self.hooks:
            _check(hook)
        self._asked = {name: [hook for hook in self.hooks if _does(hook, name)] for name in SEAMS}

    def reset_for_turn(self) -> None:
        for hook in self._asked["reset_for_turn"]:
            self._ask(hook, "reset_for_turn")

    def before_step(self, step: int) -> Stop | None:
        for hook in self._asked["before_step"]:
            verdict = _stop(self._ask(hook, "before_step", step))
            if verdict is not None:
                return verdict
        return None

    def prepare_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Run the chain over the messages. Raises PeriplusError if a hook failed, since nothing may be sent then."""
        for hook in self._asked["prepare_messages"]:
            given = self._ask(hook, "prepare_messages", _copied(tuple(messages)))
            if isinstance(given, _Failed):
                raise PeriplusError(f"the hook {given.hook} failed on the request, so it was not sent: {given.error}")
            messages = messages if given is None else tuple(given)
        return messages

    def record_step_usage(self, usage: Usage) -> Stop | None:
        verdicts = [_stop(self._ask(hook, "record_step_usage", usage)) for hook in self._asked["record_step_usage"]]
        return next((verdict for verdict in verdicts if verdict is not None), None)

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision:
        asking: ToolDecision | None = None
        for hook in self._asked["authorize_tool"]:
            decision: ToolDecision | _Failed | None = self._ask(hook, "authorize_tool", name, _copied(dict(args)))
            if isinstance(decision, _Failed):
                why = f"the rule {decision.hook} failed, so nothing is allowed by it: {decision.error}"
                return ToolDecision(allow=False, reason=why)
            if decision is None:
                continue
            if not decision.allow and not decision.ask:
                return decision
            if decision.ask and asking is None:
                asking = decision
        return asking or ToolDecision(allow=True)

    def transform_tool_result(self, call: ToolCall, result: ToolResult) -> ToolResult:
        for hook in self._asked["transform_tool_result"]:
            given = self._ask(hook, "transform_tool_result", _copied(call), _copied(result))
            if isinstance(given, _Failed):
                outcome = result.outcome if result.outcome != "ok" else "failed"
                return ToolResult(outcome=outcome, output=WITHHELD.format(hook=given.hook), effects=result.effects)
            result = result if given is None else given
        return result

    def after_step(self, step: int, usage: Usage, stop_reason: StopReason | None) -> Stop | None:
        verdicts = [self._ask(hook, "after_step", step, usage, stop_reason) for hook in self._asked["after_step"]]
        return next((verdict for verdict in verdicts if isinstance(verdict, Stop)), None)

    def should_continue_after_stop(self, stop: Stop) -> Continue | None:
        for hook in self._asked["should_continue_after_stop"]:
            verdict = self._ask(hook, "should_continue_after_stop", stop)
            if isinstance(verdict, Continue):
                if verdict.source:
                    return verdict
                return Continue(feedback=verdict.feedback, quoted=verdict.quoted, source=hook.name)
        return None

    def restore(self, episodes: Sequence[Episode]) -> None:
        """Restore all hooks. A hook that cannot restore its counters begins anew, and that is reported."""
        for hook in self.hooks:
            try:
                getattr(hook, _RESTORE, _nothing)(tuple(episodes))
            except Exception as error:  # noqa: BLE001 - as for a seam that observes
                self.report(HookFailure(hook.name, _RESTORE, f"{type(error).__name__}: {error}", is_closed=False))

    def _ask(self, hook: Hook, name: str, *values: Any) -> Any:
        """Call one hook; ``_Failed`` if a policy hook failed, None if an observing one did."""
        seam = SEAMS[name]
        try:
            given = getattr(hook, name)(*values)
            _check_given(seam, given)
        except Exception as error:  # noqa: BLE001 - whatever a hook raises must neither end the run nor open a door
            told = f"{type(error).__name__}: {error}"
            self.report(HookFailure(hook.name, name, told, seam.is_policy))
            return _Failed(hook.name, told) if seam.is_policy else None
        return given


def _check_given(seam: Seam, given: object) -> None:
    if given is None:
        return
    if not isinstance(given, seam.gives):
        raise TypeError(f"{seam.name} gave {type(given).__name__}")
    if isinstance(given, list | tuple) and not all(isinstance(message, Message) for message in given):
        raise TypeError(f"{seam.name} gave something that is not a message")


def _does(hook: Hook, name: str) -> bool:
    """Return whether the hook implements this seam; the others are not called."""
    if name in getattr(hook, "__dict__", ()):
        return True
    own = getattr(type(hook), name, None)
    return own is not None and own is not getattr(Hook, name)


def _stop(verdict: Any) -> Stop | None:
    if isinstance(verdict, _Failed):
        return Stop(reason="error", note=f"The rule {verdict.hook} failed, so the turn did not go on: {verdict.error}")
    return verdict if isinstance(verdict, Stop) else None


def _nothing(_: object) -> None:
    pass


def _copied(value: T) -> T:
    """A copy down to the last dict: arguments and effects are the only parts of values that could be changed."""
    import copy

    return copy.deepcopy(value)


def _check(hook: Hook) -> None:
    also: frozenset[str] = getattr(hook, "also", frozenset())
    public = [name for name in dir(type(hook)) if not name.startswith("_") and callable(getattr(type(hook), name))]
    for name in public:
        if name not in also and name != _RESTORE:
            _known(type(hook).__name__, name)
    if not any(name in SEAMS for name in public):
        raise UsageError(
            f"{type(hook).__name__} is not a hook: it has none of the seams", mend=f"They are: {', '.join(SEAMS)}."
        )


def _known(hook: str, name: str) -> None:
    if name in SEAMS:
        return
    import difflib

    near = difflib.get_close_matches(name, SEAMS, 1)
    meant = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"{hook}: {name} is not a seam of the loop",
        mend=f"{meant}The seams are: {', '.join(SEAMS)}. Name other methods in the class's `also`.",
    )
