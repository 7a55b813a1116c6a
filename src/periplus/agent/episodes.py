"""Episodes: what a session is made of. A session is a fold over them; nothing else of it is state.

Each is a record of the journal before the next step is taken. They say what happened and hold no live thing; a reader of a
later version finds the fields that it knows. ``turn`` counts from 1 in the session, ``step`` from 1 in the turn: a step is one
answer of the model with the calls that it asks for.
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
"""The topic of what a process notes before its first turn: the model, the mode, the layer that confines commands."""

SAID_TOPIC: Final = "said"
"""The topic of what the person says while a turn runs, as it is accepted: ``number``, which a ``Fed`` names, and ``text``."""


class _Base(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    turn: int
    step: int = 0


class Requested(_Base, frozen=True, kw_only=True, tag="requested"):
    """A turn begins. ``topic`` is of the slice: empty goes on with the present one."""

    text: str
    topic: str = ""
    at_ms: int = 0


class Noted(_Base, frozen=True, kw_only=True, tag="noted"):
    """What the context made of the world and has to find again: the tail, a seal, a fold. ``data`` is its own affair."""

    topic: str
    data: dict[str, Any] = {}


class Answered(_Base, frozen=True, kw_only=True, tag="answered"):
    """The model answered. ``masked`` are the ids of calls that are not as they were: a secret was taken out of their arguments."""

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
    """A call is about to run. ``plan`` is what it is going to change, where that can be told; ``is_read``: nothing."""

    call_id: str
    name: str
    plan: tuple[dict[str, Any], ...] = ()
    is_read: bool = False


class Resulted(_Base, frozen=True, kw_only=True, tag="resulted"):
    """What became of a call. ``counts_as_stuck`` is of a denial; ``is_judged``: found out after a crash, not seen."""

    call_id: str
    name: str
    result: ToolResult
    duration_ms: int = 0
    counts_as_stuck: bool = False
    is_judged: bool = False


class Fed(_Base, frozen=True, kw_only=True, tag="fed"):
    """Something was said to the model in the middle of the turn.

    ``source``: ``person`` (who steers), ``length`` (go on where you stopped), ``empty``, or the name of a hook. ``quoted`` is what
    others said, to be fenced. ``said`` is the number of the person's words that these are (see ``SAID_TOPIC``), 0 for none.
    """

    source: str
    text: str
    quoted: str = ""
    said: int = 0


class HookFailed(_Base, frozen=True, kw_only=True, tag="hook_failed"):
    """A hook raised. ``is_closed``: what it had to decide was refused because of that."""

    hook: str
    seam: str
    error: str
    is_closed: bool = False


class Resumed(_Base, frozen=True, kw_only=True, tag="resumed"):
    """Another process took the session up in the middle of a turn."""

    at_ms: int = 0


class Ended(_Base, frozen=True, kw_only=True, tag="ended"):
    """The turn is over: ``text`` is the model's last word, ``note`` the closing note where it was parked."""

    reason: StopReason
    note: str = ""
    text: str = ""
    usage: Usage = Usage()


Episode: TypeAlias = Requested | Noted | Answered | Decided | Intended | Resulted | Fed | HookFailed | Resumed | Ended
