"""Values and protocols of the loop, which knows nothing else of ours. The messages to and from a model are in ``messages``.

A protocol here is checked by name at run time. Its behaviour is checked by the contract suite in ``tests/agent_contracts.py``, which runs
on each implementation. A null or in-memory implementation of each is product code.
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
    """A resource that a call touches. Calls whose accesses do not overlap may run in parallel.

    ``resource`` is ``file:`` and a path below the root (a folder stands for all below it), ``process:``, ``network:``, ``person:``,
    ``memory:``, ``page:`` and a handle, or ``*``, which overlaps with everything. Calls that touch memory or pages run in the thread of the
    turn, which owns the store; other reads may run in threads of their own. ``agent:`` marks a call that runs a subagent: though it writes,
    it may run beside others whose accesses it does not overlap.
    """

    resource: str
    mode: Literal["read", "write"]


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file that answers a query."""

    path: str
    text: str
    score: float


class PageRef(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded reference to one page that any backend can show. ``preview`` is raw; the tape alone fences it."""

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
    """The state of a task from which another process can continue. It has references, never the contents of files."""

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
    """Counts of what was learned from a session."""

    lessons: int = 0
    skills: int = 0
    skills_rejected: int = 0
    errors: tuple[str, ...] = ()


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a streamed answer. The last one has the whole answer in ``message``."""

    kind: Literal["text", "reasoning", "tool_call", "message"]
    text: str = ""
    message: AssistantMessage | None = None


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The turn has to end. ``note`` is one sentence for the person."""

    reason: StopReason
    note: str = ""


class Continue(msgspec.Struct, frozen=True, kw_only=True):
    """The turn has to continue though the model stopped. ``feedback`` is sent to the model; ``source`` names the sender.

    ``quoted`` is text of others (a program, a file). It is shown after the feedback, inside a fence.
    """

    feedback: str
    quoted: str = ""
    source: str = ""


class ToolDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Permission for a call. With ``ask`` a person decides; without a person the call is denied.

    ``counts_as_stuck``: repeated calls that are denied in this way count as going in circles.
    """

    allow: bool
    reason: str = ""
    ask: bool = False
    counts_as_stuck: bool = True


class ModelError(EnvironmentFailure):
    """A model that gave no answer. ``retry_after_s`` is the wait that the provider asked for; ``status`` is that of HTTP, or 0."""

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

    For other errors it may have ``is_retryable(error) -> bool`` and ``retry_after(error) -> float | None``. A client that is also
    ``Cancellable`` is cancelled when the turn is aborted; its current call then raises.
    """

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage: ...


@runtime_checkable
class StreamingClient(LLMClient, Protocol):
    """A model whose answers come in pieces."""

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]: ...


@runtime_checkable
class ToolHost(Protocol):
    """The tools of the agent. ``read_text`` raises ``NotFoundError`` if there is no such file."""

    def schemas(self) -> Sequence[ToolSchema]: ...

    def run(self, name: str, args: Mapping[str, Any]) -> ToolResult: ...

    def read_text(self, path: str) -> str: ...

    def accesses(self, name: str, args: Mapping[str, Any]) -> Sequence[Access]: ...


@runtime_checkable
class PlanningHost(ToolHost, Protocol):
    """A host whose file steps can be judged after a crash.

    ``plan`` returns what a call is going to change, as ``{path, before, after}`` like ``ToolResult.effects``, and changes nothing. It is
    empty for a call whose effects are not known in advance (a command) and for one that would be refused. ``digest`` is that of the bytes
    of a file, None without a file.
    """

    def plan(self, name: str, args: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]: ...

    def digest(self, path: str) -> str | None: ...


@runtime_checkable
class Cancellable(Protocol):
    """Work that can be cancelled. ``cancel`` comes from another thread, perhaps more than once: the current call ends with its children
    and reports ``cancelled``.
    """

    def cancel(self) -> None: ...


@runtime_checkable
class Approver(Protocol):
    """The person, or a stand-in. What "always" covers is up to the policy that asked."""

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer: ...


@runtime_checkable
class RunLog(Protocol):
    """The durable log of a session's episodes: append only, in order.

    ``append`` writes all of them or none and returns them as stored, with secrets masked; everybody uses the stored form. With
    ``durable=False`` they may be lost in a crash of the machine, though never without those that follow. ``read`` returns all episodes of
    the session in order. ``close`` ends the run (its trail is sealed); the session can be resumed.

    ``append_aside`` appends from any thread while a turn runs, for notes that are no step of the run.
    """

    def append(self, *episodes: Episode, durable: bool = True) -> Sequence[Episode]: ...

    def append_aside(self, *notes: Noted) -> Sequence[Episode]: ...

    def read(self) -> Sequence[Episode]: ...

    def close(self, reason: StopReason | None) -> None: ...


@runtime_checkable
class TurnContext(Protocol):
    """The context that the model sees: a fold over the episodes of a session.

    Everything enters through ``take``, in the order of the log, live and after a crash alike. So the same episodes give the same bytes.
    Values that do not follow from the episodes (the clock, the state of the files, recalled memory) are handed to the log as ``Noted``
    episodes, which come back through ``take`` like all others:

    * ``begin(request)`` before the request is taken: the contents of the tail;
    * ``seal(ended)`` before the end is taken: digest, verified patches, and a fold if the budget is exceeded;
    * ``make_room()`` when the model said that the request is too long: a fold; empty if nothing more can be left out.

    None of the three changes anything by itself. Results may be taken in another order than their calls; ``messages`` has them in the order
    of the calls. ``sent`` is given the request (after hooks) and returns its measures as integers.
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
    """Memory beyond a turn. If ``is_durable`` is false, a host keeps no caches and no checkpoints."""

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
    """Ground truth that does not depend on retrieval: whether the work is done, and the output of the check."""

    def verify(self) -> tuple[bool, str]: ...
