"""What the loop knows: values and protocols, and nothing else of ours. The messages to and from a model are in ``messages``.

A protocol here is checked by name at run time; what an implementation must do is checked by the contract suite in
``tests/agent_contracts.py``, which runs on each of them. A null or in-memory implementation of each is product code.
"""

from __future__ import annotations

__all__ = [
    "Access",
    "Answer",
    "Approver",
    "AssistantMessage",
    "Cancellable",
    "Consolidation",
    "ContextOverflowError",
    "Continue",
    "FinishReason",
    "Image",
    "LLMClient",
    "Memory",
    "Message",
    "ModelError",
    "Oracle",
    "Outcome",
    "PageRef",
    "PlanningHost",
    "Retriever",
    "Role",
    "RunLog",
    "Snippet",
    "Spawned",
    "Stop",
    "StopReason",
    "StreamEvent",
    "StreamingClient",
    "TaskRef",
    "TaskState",
    "TaskStatus",
    "Tier",
    "ToolCall",
    "ToolDecision",
    "ToolHost",
    "ToolResult",
    "ToolSchema",
    "TurnContext",
    "Usage",
]

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from periplus.agent.messages import (
    Answer,
    AssistantMessage,
    FinishReason,
    Image,
    Message,
    Outcome,
    Role,
    Spawned,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
)
from periplus.base.errors import EnvironmentFailure

if TYPE_CHECKING:
    from periplus.agent.episodes import Ended, Episode, Noted, Requested

TaskStatus: TypeAlias = Literal["active", "parked", "done", "abandoned"]
Tier: TypeAlias = Literal["observed", "tool", "claim"]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that a call touches: calls whose accesses do not meet may run beside each other.

    ``resource``: ``file:`` and a path below the root (a folder stands for all below it), ``process:``, ``network:``,
    ``person:``, ``memory:``, ``page:`` and a handle, or ``*``, which meets everything. What touches memory or pages runs in the
    thread of the turn, whose store it is; other reads may run in threads of their own. ``agent:`` is that of a call which runs a
    subagent: though it writes it may run beside others whose accesses it does not meet.
    """

    resource: str
    mode: Literal["read", "write"]


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file that answers a query."""

    path: str
    text: str
    score: float


class PageRef(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded reference to one page that any backend can show. ``preview`` is raw; one layer alone fences it."""

    handle: str
    kind: str
    preview: str
    score: float
    untrusted: bool = True


class TaskRef(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a list."""

    task_id: str
    title: str
    status: TaskStatus
    updated: str


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task from which another process goes on: references, never the contents of files."""

    task_id: str
    session: str
    title: str
    status: TaskStatus = "active"
    goal: str = ""
    mission: str = ""
    findings: tuple[tuple[Tier, str], ...] = ()
    requirements: tuple[tuple[str, bool], ...] = ()
    plan: tuple[tuple[str, str], ...] = ()
    open_report: str = ""
    world: tuple[tuple[str, str], ...] = ()
    active_files: tuple[str, ...] = ()
    edited_files: tuple[str, ...] = ()
    anchors: tuple[tuple[str, str], ...] = ()
    last_error: str = ""
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    resolution: str = ""


class Consolidation(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned from a session: true counts."""

    lessons: int = 0
    skills: int = 0
    skills_rejected: int = 0
    errors: tuple[str, ...] = ()


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an answer as it comes. The last one has ``message``, which is the whole of it."""

    kind: Literal["text", "reasoning", "tool_call", "message"]
    text: str = ""
    message: AssistantMessage | None = None


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The turn is to end. ``note`` is the one honest sentence that a person reads."""

    reason: StopReason
    note: str = ""


class Continue(msgspec.Struct, frozen=True, kw_only=True):
    """The turn is to go on though the model stopped; ``feedback`` is said to the model. ``source`` names who says it.

    ``quoted`` is what others said (a program, a file): it is shown behind the feedback, fenced by who renders messages.
    """

    feedback: str
    quoted: str = ""
    source: str = ""


class ToolDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a call may run. With ``ask`` a person is asked, where there is one; without one it is denied.

    ``counts_as_stuck``: a model that keeps asking for what is denied in this way goes nowhere.
    """

    allow: bool
    reason: str = ""
    ask: bool = False
    counts_as_stuck: bool = True


class ModelError(EnvironmentFailure):
    """A model that gave no answer. ``retry_after_s`` is what the provider asked for; ``status`` that of HTTP, 0 without one."""

    code = "model"

    def __init__(
        self,
        wrong: str,
        *,
        is_retryable: bool = False,
        retry_after_s: float | None = None,
        status: int = 0,
        safe: str = "",
        mend: str = "",
    ) -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s
        self.status = status


class ContextOverflowError(ModelError):
    """The request is longer than the model's window."""

    code = "overflow"


@runtime_checkable
class LLMClient(Protocol):
    """A model. It raises ModelError and ContextOverflowError.

    For errors of other kinds it may have ``is_retryable(error) -> bool`` and ``retry_after(error) -> float | None``. One
    that also is ``Cancellable`` is told when the turn is aborted; the call that it is in then raises.
    """

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage: ...


@runtime_checkable
class StreamingClient(LLMClient, Protocol):
    """A model whose answers come in pieces."""

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]: ...


@runtime_checkable
class ToolHost(Protocol):
    """What the agent can do. ``read_text`` raises ``NotFoundError`` where there is no such file."""

    def schemas(self) -> Sequence[ToolSchema]: ...

    def run(self, name: str, args: Mapping[str, Any]) -> ToolResult: ...

    def read_text(self, path: str) -> str: ...

    def accesses(self, name: str, args: Mapping[str, Any]) -> Sequence[Access]: ...


@runtime_checkable
class PlanningHost(ToolHost, Protocol):
    """A host whose file steps can be judged after a crash.

    ``plan`` gives what a call is going to change, ``{path, before, after}`` as in ``ToolResult.effects``, and changes nothing;
    it is empty for a call whose effects cannot be told before (a command), and for one that would be refused. ``digest`` is that of
    the bytes of a file, None where there is none.
    """

    def plan(self, name: str, args: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]: ...

    def digest(self, path: str) -> str | None: ...


@runtime_checkable
class Cancellable(Protocol):
    """``cancel`` is called from another thread, perhaps more than once: what runs now ends, its children with it, and says
    ``cancelled``.
    """

    def cancel(self) -> None: ...


@runtime_checkable
class Approver(Protocol):
    """The person, or who stands for one. What "always" binds is the affair of the policy that asked."""

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer: ...


@runtime_checkable
class RunLog(Protocol):
    """Where the episodes of a session become durable: append only, in order.

    ``append`` writes all of them or none and gives them as they are kept, which is what everybody goes on with: secrets are
    masked. With ``durable=False`` they may be lost with the machine, though never without those behind them. ``read`` gives
    all that the session has, in order. ``close`` ends the run (its trail is sealed); the session can be taken up again.

    ``append_aside`` is ``append`` for any thread, beside whatever that of the turn is at: for notes that are no step of the run.
    """

    def append(self, *episodes: Episode, durable: bool = True) -> Sequence[Episode]: ...

    def append_aside(self, *notes: Noted) -> Sequence[Episode]: ...

    def read(self) -> Sequence[Episode]: ...

    def close(self, reason: StopReason | None) -> None: ...


@runtime_checkable
class TurnContext(Protocol):
    """What the model sees: a fold over the episodes of a session.

    Everything enters by ``take``, in the order of the log, live and after a crash alike; so the same episodes give the same
    bytes. What is not a function of the episodes (the clock, the state of the files, what memory recalled) is handed to the log
    as ``Noted`` episodes, which come back by ``take`` like all others:

    * ``begin(request)`` before the request is taken: what the tail shall say;
    * ``seal(ended)`` before the end is taken: digest, patches as verified, and a fold where the budget is passed;
    * ``make_room()`` when the model said that the request is too long: a fold; empty where nothing is left to leave out.

    None of the three changes anything by itself. Results may be taken in another order than that of their calls;
    ``messages`` has them in the order of the calls. ``sent`` is told what a request was (after hooks) and gives what there is to
    measure of it, in integers.
    """

    def take(self, episode: Episode) -> None: ...

    def begin(self, request: Requested) -> Sequence[Noted]: ...

    def seal(self, ended: Ended) -> Sequence[Noted]: ...

    def make_room(self) -> Sequence[Noted]: ...

    def messages(self) -> Sequence[Message]: ...

    def tools(self) -> Sequence[ToolSchema]: ...

    def sent(self, messages: Sequence[Message]) -> Mapping[str, int]: ...


@runtime_checkable
class Retriever(Protocol):
    """Finds pieces of files."""

    def retrieve(self, query: str, k: int = 6) -> Sequence[Snippet]: ...


@runtime_checkable
class Memory(Protocol):
    """What outlives a turn. Where ``is_durable`` is false a host keeps no caches and no checkpoints."""

    @property
    def is_durable(self) -> bool: ...

    def recall(self, query: str, k: int = 6, paths: Sequence[str] | None = None) -> Sequence[PageRef]: ...

    def remember(
        self, content: str, title: str, scope: str, tags: Sequence[str] = (), paths: Sequence[str] = ()
    ) -> str: ...

    def append_episode(self, session: str, task: str, turn: int, record: Mapping[str, Any]) -> str: ...

    def read_episodes(self, session: str, limit: int = 100) -> Sequence[Mapping[str, Any]]: ...

    def search_episodes(
        self, query: str, limit: int = 5, exclude_session: str | None = None, only_session: str | None = None
    ) -> Sequence[PageRef]: ...

    def checkpoint_task(self, state: TaskState) -> None: ...

    def load_task(self, task_id: str) -> TaskState | None: ...

    def list_session_tasks(self, session: str) -> Sequence[TaskRef]: ...

    def mark_used(self, memory_id: str) -> None: ...

    def consolidate(self, session: str, llm: LLMClient | None = None, mode: str = "deterministic") -> Consolidation: ...


@runtime_checkable
class Oracle(Protocol):
    """Ground truth that does not depend on what was retrieved: is the work done, and what did the check say?"""

    def verify(self) -> tuple[bool, str]: ...
