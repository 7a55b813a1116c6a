"""Events of a run, as values that faces print and ``--json`` writes, one a line.

The set is closed. Events report what happens while it happens and are not durable; durable facts are episodes.
"""

from __future__ import annotations

__all__ = [
    "AgentEnded",
    "AgentStarted",
    "AnswerCompleted",
    "AnswerRestarted",
    "ContextFolded",
    "Event",
    "FeedbackGiven",
    "HookRaised",
    "Learned",
    "PermissionAsked",
    "PermissionDecided",
    "ReasoningGrown",
    "RetryScheduled",
    "RunStarted",
    "SessionResumed",
    "Sink",
    "StepStarted",
    "TextGrown",
    "ToolEnded",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
    "encode_event",
    "event_schema",
]

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from periplus.agent.contracts import Answer, FinishReason, Outcome, StopReason, Usage


class _Base(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """``agent`` is the session of the subagent that an event belongs to, empty for the session itself."""

    turn: int
    step: int = 0
    agent: str = ""


class RunStarted(_Base, frozen=True, kw_only=True, tag="run_started"):
    """A process opens the session. ``sandbox`` is the layer that confines its commands (``none``: each needs consent), ``sandbox_about``
    describes it; ``is_trusted``: the user trusts the folder's own files.
    """

    session: str
    model: str
    mode: str
    sandbox: str
    sandbox_about: str
    is_trusted: bool


class TurnStarted(_Base, frozen=True, kw_only=True, tag="turn_started"):
    """A turn begins with the person's request."""

    request: str


class SessionResumed(_Base, frozen=True, kw_only=True, tag="session_resumed"):
    """``turn`` was interrupted; ``indeterminate`` are the calls of which nobody knows whether they ran."""

    indeterminate: tuple[str, ...] = ()


class StepStarted(_Base, frozen=True, kw_only=True, tag="step_started"):
    """The model is asked. ``messages`` and ``characters`` are those of the request."""

    messages: int
    characters: int


class TextGrown(_Base, frozen=True, kw_only=True, tag="text_grown"):
    """A piece of the answer's text, as it comes."""

    text: str


class ReasoningGrown(_Base, frozen=True, kw_only=True, tag="reasoning_grown"):
    """A piece of the model's reasoning, if the provider sends it."""

    text: str


class AnswerRestarted(_Base, frozen=True, kw_only=True, tag="answer_restarted"):
    """The answer shown so far in this step is void; it starts again."""


class RetryScheduled(_Base, frozen=True, kw_only=True, tag="retry_scheduled"):
    """The provider could not answer; the request is repeated in ``wait_ms``."""

    attempt: int
    wait_ms: int
    error: str


class AnswerCompleted(_Base, frozen=True, kw_only=True, tag="answer_completed"):
    """The model has answered. ``calls`` is the number of its calls; ``usage`` is that of this request, its ``cost`` in millionths of a
    dollar and 0 if the price is not known. ``measures`` has ``request_bytes``, ``common_bytes`` with the request before,
    ``survival_millionths``, ``first_token_ms`` and other measures.
    """

    text: str
    calls: int
    usage: Usage
    finish_reason: FinishReason
    latency_ms: int
    retries: int = 0
    measures: dict[str, int] = {}


class PermissionAsked(_Base, frozen=True, kw_only=True, tag="permission_asked"):
    """The person is asked whether a call may run."""

    call_id: str
    name: str
    args: dict[str, Any]
    reason: str


class PermissionDecided(_Base, frozen=True, kw_only=True, tag="permission_decided"):
    """The person's answer; ``always`` holds for the rest of the session."""

    call_id: str
    answer: Answer


class ToolStarted(_Base, frozen=True, kw_only=True, tag="tool_started"):
    """A call runs."""

    call_id: str
    name: str
    args: dict[str, Any]


class ToolEnded(_Base, frozen=True, kw_only=True, tag="tool_ended"):
    """``output`` is the result for the model before it is cut for the context. ``args`` belongs to a call without a ``tool_started``
    event: it was denied, could not be read, or ran before a crash.
    """

    call_id: str
    name: str
    outcome: Outcome
    output: str
    handle: str = ""
    exit_code: int | None = None
    effects: tuple[dict[str, Any], ...] = ()
    duration_ms: int = 0
    args: dict[str, Any] = {}


class AgentStarted(_Base, frozen=True, kw_only=True, tag="agent_started"):
    """A subagent begins or continues. ``agent``, ``turn`` and ``step`` are those of the caller; ``session`` is its own."""

    session: str
    name: str
    mode: str
    task: str


class AgentEnded(_Base, frozen=True, kw_only=True, tag="agent_ended"):
    """``outcome``: done, parked, cancelled, deadline, idle or failed. ``usage`` is its own with that of its subagents."""

    session: str
    name: str
    outcome: str
    steps: int
    usage: Usage


class FeedbackGiven(_Base, frozen=True, kw_only=True, tag="feedback_given"):
    """A message to the model in the middle of the turn, by the person or by a hook. ``quoted`` is text of others."""

    source: str
    text: str
    quoted: str = ""


class HookRaised(_Base, frozen=True, kw_only=True, tag="hook_raised"):
    """A hook failed. ``is_closed``: the failure refused what it had to decide."""

    hook: str
    seam: str
    error: str
    is_closed: bool


class ContextFolded(_Base, frozen=True, kw_only=True, tag="context_folded"):
    """The request was too long; the context left something out, which stays behind handles."""


class TurnEnded(_Base, frozen=True, kw_only=True, tag="turn_ended"):
    """The turn is over. ``text`` is the model's last answer; ``note`` says why it was parked. ``usage`` is that of the turn."""

    reason: StopReason
    note: str
    text: str
    usage: Usage


class Learned(_Base, frozen=True, kw_only=True, tag="learned"):
    """The session was examined at its end: counts of new candidates for a person to review. ``error``: why it could not be."""

    lessons: int = 0
    skills: int = 0
    error: str = ""


class Noticed(_Base, frozen=True, kw_only=True, tag="noticed"):
    """A problem that does not stop the run, in words for a person, once."""

    text: str


Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | SessionResumed
    | StepStarted
    | TextGrown
    | ReasoningGrown
    | AnswerRestarted
    | RetryScheduled
    | AnswerCompleted
    | PermissionAsked
    | PermissionDecided
    | ToolStarted
    | ToolEnded
    | AgentStarted
    | AgentEnded
    | FeedbackGiven
    | HookRaised
    | ContextFolded
    | TurnEnded
    | Learned
    | Noticed
)
Sink: TypeAlias = Callable[[Event], None]


_BREAKS: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


def encode_event(event: Event) -> bytes:
    """The event as one line of JSON without its line end. No character in it ends a line or moves a terminal's cursor."""
    try:
        line = msgspec.json.encode(event)
    except UnicodeEncodeError:  # an unpaired surrogate, which a model may send
        line = msgspec.json.encode(_whole(msgspec.to_builtins(event)))
    return line if line.isascii() and b"\x7f" not in line else line.decode().translate(_BREAKS).encode()


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list | tuple) else value


def event_schema() -> dict[str, Any]:
    """The JSON Schema of an event. Descriptions are docstrings as ``inspect.cleandoc`` formats them in every Python version."""
    found: dict[str, Any] = _dedented(msgspec.json.schema(Event))
    return found


def _dedented(schema: Any) -> Any:
    from inspect import cleandoc

    if isinstance(schema, dict):
        return {
            key: cleandoc(one) if key == "description" and isinstance(one, str) else _dedented(one)
            for key, one in schema.items()
        }
    return [_dedented(one) for one in schema] if isinstance(schema, list | tuple) else schema
