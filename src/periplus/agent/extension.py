"""What a part beside the core brings to a session: tools, hooks, lines of the tail, pages, a piece of the prompt.

The core of a session (``assembly``) knows none of these parts. Each is a row of ``standard.STANDARD``: a function that is given the
room it works in and returns an ``Extension``. What it opens it closes with ``close``, in the reverse order of opening.
"""

from __future__ import annotations

__all__ = ["Extension", "Opener", "Room", "Under"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from periplus.agent.assembly import AgentSession, Begun
    from periplus.agent.contracts import LLMClient, ToolSchema
    from periplus.agent.hooks import Hook
    from periplus.agent.mcpclient.rows import ServerRow
    from periplus.agent.policies.budget import Budget
    from periplus.agent.policies.permission import Permission
    from periplus.agent.tape.notes import Fact
    from periplus.agent.tools.pages import PageSource
    from periplus.agent.tools.table import Tool
    from periplus.agent.tools.workspace import Guard, SharedWork
    from periplus.project import Project


@dataclass(frozen=True, slots=True)
class Under:
    """What a subagent has of the session that it works for: the front of its requests, to the byte; policy, which is the same and not
    a copy; the budget, of which its own is a part; the turn that its changes belong to. ``depth`` is 1 for a subagent, 2 for one of it.
    """

    session: AgentSession
    prompt: str
    tools: Sequence[ToolSchema]
    permission: Permission
    budget: Budget
    work: SharedWork
    guard: Guard
    depth: int


@dataclass(frozen=True, slots=True)
class Room:
    """Where an extension works. ``session`` is whole only once it has been opened: use its host and tape in calls, not while opening.

    For a subagent ``begun.under`` is what it works under; it opens every extension anew, in a thread and over a store of its own.
    ``root`` is the folder that is worked in, ``state`` a folder of the session's own below the store (made by who writes there).
    """

    project: Project
    client: LLMClient
    begun: Begun
    session: AgentSession
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


Opener: TypeAlias = Callable[[Room], Extension | None]
