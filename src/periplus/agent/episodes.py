"""Episodes: the events of a session. The state of a session is a fold over them, and nothing else.

Each is a record of the journal before the next step is taken. They hold no live objects; a later version reads the fields that it knows.
``turn`` counts from 1 in the session, ``step`` from 1 in the turn: a step is one answer of the model with its calls.
"""

from __future__ import annotations

__all__ = [
    "RUN_TOPIC",
    "SAID_TOPIC",
    "Answered",
    "Decided",
    "Ended",
    "Episode",
    "Fed",
    "HookFailed",
    "Intended",
    "Noted",
    "Requested",
    "Resulted",
    "Resumed",
]

from typing import Any, Final, TypeAlias

import msgspec

from periplus.agent.messages import Answer, AssistantMessage, StopReason, ToolResult, Usage

RUN_TOPIC: Final = "run"
"""Topic of the note that a process writes before its first turn: model, mode, sandbox layer."""

SAID_TOPIC: Final = "said"
"""Topic of a message of the person during a turn: ``number``, to which a ``Fed`` refers, and ``text``."""


class _Base(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    turn: int
    step: int = 0


class Requested(_Base, frozen=True, kw_only=True, tag="requested"):
    """A turn begins. ``topic`` names a topic of the slice; empty keeps the present one."""

    text: str
    topic: str = ""
    at_ms: int = 0


class Noted(_Base, frozen=True, kw_only=True, tag="noted"):
    """A note of the context about the world: the tail, a seal, a fold. Only the writer of a topic reads its ``data``."""

    topic: str
    data: dict[str, Any] = {}


class Answered(_Base, frozen=True, kw_only=True, tag="answered"):
    """The model answered. ``masked`` has the ids of calls whose arguments were changed to mask a secret."""

    message: AssistantMessage
    latency_ms: int = 0
    retries: int = 0
    measures: dict[str, int] = {}
    masked: tuple[str, ...] = ()


class Decided(_Base, frozen=True, kw_only=True, tag="decided"):
    """A person was asked whether a call may run."""

    call_id: str
    answer: Answer
    reason: str = ""


class Intended(_Base, frozen=True, kw_only=True, tag="intended"):
    """A call is about to run. ``plan`` is what it is going to change, if that is known; ``is_read``: it changes nothing."""

    call_id: str
    name: str
    plan: tuple[dict[str, Any], ...] = ()
    is_read: bool = False


class Resulted(_Base, frozen=True, kw_only=True, tag="resulted"):
    """The result of a call. ``counts_as_stuck`` belongs to a denial; ``is_judged``: inferred after a crash, not observed."""

    call_id: str
    name: str
    result: ToolResult
    duration_ms: int = 0
    counts_as_stuck: bool = False
    is_judged: bool = False


class Fed(_Base, frozen=True, kw_only=True, tag="fed"):
    """A message to the model in the middle of the turn.

    ``source`` is ``person`` (steering), ``length`` (continue a cut answer), ``empty``, or the name of a hook. ``quoted`` is text of others,
    to be fenced. ``said`` is the number of the person's message (see ``SAID_TOPIC``), 0 for none.
    """

    source: str
    text: str
    quoted: str = ""
    said: int = 0


class HookFailed(_Base, frozen=True, kw_only=True, tag="hook_failed"):
    """A hook raised. ``is_closed``: the failure refused what the hook had to decide."""

    hook: str
    seam: str
    error: str
    is_closed: bool = False


class Resumed(_Base, frozen=True, kw_only=True, tag="resumed"):
    """Another process resumed the session in the middle of a turn."""

    at_ms: int = 0


class Ended(_Base, frozen=True, kw_only=True, tag="ended"):
    """The turn is over. ``text`` is the model's last answer, ``note`` the closing note of a parked turn."""

    reason: StopReason
    note: str = ""
    text: str = ""
    usage: Usage = Usage()


Episode: TypeAlias = Requested | Noted | Answered | Decided | Intended | Resulted | Fed | HookFailed | Resumed | Ended
