"""Contract of extensions: the tools, hooks, tail lines, pages and prompt text that a part beside the core brings to a session.

The core of a session (``assembly``) knows none of these parts. Each is a row of ``extensions.standard.STANDARD``: a function that takes an
``ExtensionContext`` and returns an ``Extension``. An extension is closed with ``close``, in the reverse order of opening.
"""

from __future__ import annotations

__all__ = ["Extension", "ExtensionContext", "Opener", "ParentSession", "RunningSession", "SessionOptions"]

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from periplus.agent.loop import World
from periplus.base.clock import Clock, SystemClock

if TYPE_CHECKING:
    from periplus.agent.contracts import Approver, LLMClient, ToolSchema
    from periplus.agent.episodes import Ended, Noted
    from periplus.agent.events import Sink
    from periplus.agent.execution.cancellation import CancelToken
    from periplus.agent.hooks import Hook
    from periplus.agent.mcpclient.server_entry import ServerRow
    from periplus.agent.persistence.run_log import StoreLog
    from periplus.agent.policies.budget import Budget
    from periplus.agent.policies.permission import Permission
    from periplus.agent.sandbox import Sandbox
    from periplus.agent.settings import Settings
    from periplus.agent.tape import Tape
    from periplus.agent.tape_notes import Fact, SliceNote, TopicNote
    from periplus.agent.tools.dialogue_tools import Asker
    from periplus.agent.tools.files.read_restrictions import ReadRestrictions
    from periplus.agent.tools.files.workspace import Guard, SharedWork
    from periplus.agent.tools.text_pages.page_source import PageSource
    from periplus.agent.tools.tool_host import LocalToolHost
    from periplus.agent.tools.tool_table import Tool
    from periplus.project import Project


class SessionOptions(NamedTuple):
    """The options of a session. ``name`` names the session; an existing one is continued.

    ``environment`` and ``home`` are the face's. Without ``approver``, calls that need consent are denied. ``verifies``: a run without a
    person, which has to verify its work before it is done. ``hidden`` are folders of the user that no command sees, outside of ``home``;
    ``config`` is the user's settings folder, empty without one. ``another`` opens one more client, for the session's model or a named one;
    ``under`` is set for a subagent. ``extensions`` are the standard ones by default.
    """

    settings: Settings
    name: str
    title: str
    environment: Mapping[str, str]
    home: str
    model: str
    agent: str = "periplus"
    approver: Approver | None = None
    asker: Asker | None = None
    emit: Sink = lambda _: None
    sandbox: Sandbox | None = None
    verifies: bool = False
    hooks: Sequence[Hook] = ()
    hidden: Sequence[str] = ()
    clock: Clock = SystemClock()
    config: str = ""
    extensions: Sequence[Opener] | None = None
    world: World = World()
    another: Callable[[str], LLMClient] | None = None
    under: ParentSession | None = None


class RunningSession(Protocol):
    """The part of a session that its extensions use; ``assembly.AgentSession`` implements it."""

    sandbox: Sandbox
    permission: Permission
    budget: Budget
    host: LocalToolHost
    tape: Tape
    log: StoreLog
    brought: Sequence[Extension]

    @property
    def is_interrupted(self) -> bool: ...

    @property
    def turns(self) -> int: ...

    @property
    def unread(self) -> ReadRestrictions: ...

    def turn(self, request: str, *, token: CancelToken | None = None) -> Ended: ...

    def resume(self, *, token: CancelToken | None = None) -> Ended | None: ...

    def note(self, note: SliceNote | TopicNote) -> None: ...

    def witness(self, *notes: Noted) -> None: ...


@dataclass(frozen=True, slots=True)
class ParentSession:
    """The parts of its parent that a subagent uses: the front of its requests, byte for byte; the same policy object; the budget, of which
    its own is a part; the turn that its changes belong to. ``depth`` is 1 for a subagent, 2 for a subagent of a subagent.
    """

    session: RunningSession
    prompt: str
    tools: Sequence[ToolSchema]
    permission: Permission
    budget: Budget
    work: SharedWork
    guard: Guard
    depth: int


@dataclass(frozen=True, slots=True)
class ExtensionContext:
    """The surroundings of an extension. ``session`` is complete only after opening: use its host and tape in calls, not while opening.

    For a subagent ``options.under`` is its parent; it opens every extension again, in its own thread and over its own store. ``root`` is the
    working folder, ``state`` a folder of the session below the store, created by the first writer.
    """

    project: Project
    client: LLMClient
    options: SessionOptions
    session: RunningSession
    begin: Callable[[Project, LLMClient, SessionOptions], AbstractContextManager[RunningSession]]
    """Begin the session of a subagent."""
    root: str
    state: str
    brought: Sequence[Extension] = ()
    """Extensions that were opened before this one."""


@dataclass(frozen=True, slots=True)
class Extension:
    """The contributions of one extension. ``prompt`` joins the system prompt, which is frozen with the session, so it must not change.

    ``facts`` is called once a turn for lines of its tail. ``pages`` are page sources by their name below ``@periplus/``. ``servers`` are
    for the MCP client, which is opened after the extensions that bring them. ``cancel`` is called from another thread when the turn is
    cancelled. ``said`` are lines for the person when the session begins: what is ignored, and why.
    """

    tools: Sequence[Tool] = ()
    hooks: Sequence[Hook] = ()
    facts: Callable[[], Sequence[Fact]] | None = None
    prompt: str = ""
    pages: Mapping[str, PageSource] = field(default_factory=dict)
    servers: Sequence[ServerRow] = ()
    cancel: Callable[[], None] | None = None
    close: Callable[[], None] | None = None
    said: Sequence[str] = ()


Opener: TypeAlias = Callable[[ExtensionContext], Extension | None]
