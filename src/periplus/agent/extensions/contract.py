"""What a part beside the core brings to a session: tools, hooks, lines of the tail, pages, a piece of the prompt.

The core of a session (``assembly``) knows none of these parts. Each is a row of ``standard.STANDARD``: a function that is given the
room it works in and returns an ``Extension``. What it opens it closes with ``close``, in the reverse order of opening.
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
    """What a session begins with. ``name`` is that of the session: an old one is gone on with.

    ``environment`` and ``home`` are the face's; without ``approver`` what would be asked for is denied. ``verifies``: a run without a
    person, which is asked what it has checked before it may be done. ``hidden`` are folders of the user's that no command sees, where
    they lie outside of ``home``; ``config`` is the user's own folder of settings, empty where there is none. ``another`` opens one more
    client, of the session's model or of one that is named; ``under`` is of a subagent. ``extensions`` are the standard ones by default.
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
    """What a subagent has of the session that it works for: the front of its requests, to the byte; policy, which is the same and not
    a copy; the budget, of which its own is a part; the turn that its changes belong to. ``depth`` is 1 for a subagent, 2 for one of it.
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
    """Where an extension works. ``session`` is whole only once it has been opened: use its host and tape in calls, not while opening.

    For a subagent ``begun.under`` is what it works under; it opens every extension anew, in a thread and over a store of its own.
    ``root`` is the folder that is worked in, ``state`` a folder of the session's own below the store (made by who writes there).
    """

    project: Project
    client: LLMClient
    begun: SessionOptions
    session: RunningSession
    begin: Callable[[Project, LLMClient, SessionOptions], AbstractContextManager[RunningSession]]
    """Begins another session: that of a subagent."""
    root: str
    state: str
    brought: Sequence[Extension] = ()
    """What the openers before this one brought."""


@dataclass(frozen=True, slots=True)
class Extension:
    """What is brought. ``prompt`` joins the system prompt, which is frozen with the session: say nothing there that changes.

    ``facts`` is asked once a turn, for lines of its tail. ``pages`` are sources by the name behind ``@periplus/``. ``servers`` are for the
    MCP client, which is opened behind who brings them. ``cancel`` is called from another thread when the turn is cancelled. ``said`` are
    lines for the person, once, when the session begins: what does not count, and why.
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
