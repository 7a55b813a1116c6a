"""Which session the writes of a connection belong to.

An agent that was connected with its hooks has a session of its own, which the hooks tell of; a client of MCP does not say which one it
serves. Where just one open session of that agent gave a sign of late, it is that one: else its own claim would be shown to the agent as
somebody else's, and its hook would refuse its own edit. Otherwise the connection is a session by itself, begun at its first write, begun again
at the next one where somebody ended it or the store is another, and sealed when it ends.
"""

from __future__ import annotations

__all__ = ["Sessions"]

from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.project import Project

TOOL: Final = "mcp"
_SPOOL_PATIENCE_S: Final = 0.5


class Sessions:
    """Of one server. ``fixed`` is the name of the session that it was started in, if it was."""

    def __init__(self, fixed: str = "") -> None:
        self._fixed = fixed
        self._adopted: dict[str, str] = {}
        self._begun: set[str] = set()

    @property
    def begun(self) -> tuple[str, ...]:
        """The connections whose own session was begun here."""
        return tuple(sorted(self._begun))

    def name_of(self, connection: str, agent_id: str, project: Project) -> str:
        """The session of a connection, as it is now: one that was adopted and has ended is looked for anew."""
        if self._fixed or connection in self._begun or not connection:
            return self._fixed or connection
        take_in_hooks(project)
        held = self._adopted.get(connection, "")
        if not held or not _is_open(held, project):
            self._adopted[connection] = held = _only_live(agent_id, project)
        return held or connection

    def alive(self, connection: str, title: str, project: Project) -> None:
        """After a write: begin the session where it is the connection's own, or that it was told of; else say that it is alive."""
        from periplus.memory.coordination.sessions import NewSession

        name = project.writer.session
        project.journal.refresh()
        if self._fixed:
            is_due = name not in self._begun  # who ends it elsewhere knows why
        else:
            is_due = bool(name) and name == connection and not _is_open(name, project)
        if is_due:
            self._begun.add(name)
            project.work.begin_session(NewSession(name, tool=TOOL, title=title))
        else:
            project.work.seen()

    def end(self, connection: str, project: Project) -> None:
        """Seal the session of a connection that ended, if it was its own; one that was begun elsewhere goes on there."""
        if connection in self._begun and connection != self._fixed:
            self._begun.discard(connection)
            project.journal.refresh()
            if _is_open(connection, project):
                project.work.seal_session(connection)


def take_in_hooks(project: Project) -> None:
    """What the agent's hooks told since; whoever asks is not to wait long for it, and never to fail for it."""
    hooks = project.hooks
    try:
        if hooks.has_events:
            hooks.take_in(patience_s=_SPOOL_PATIENCE_S)
    except PeriplusError as error:
        hooks.note("take in", str(error))  # the events stay where they are; doctor tells


def _is_open(name: str, project: Project) -> bool:
    from periplus.memory.claim_status import session_id

    held = project.journal.get("session", session_id(name))
    return held is not None and not held.deleted and held.value.get("state") == "open"


def _only_live(agent_id: str, project: Project) -> str:
    """The name of the one open session of the agent, begun elsewhere, that gave a sign of late; empty for none and for several."""
    from periplus.base.clock import format_ms
    from periplus.memory.coordination.sessions import LIVE_S
    from periplus.memory.fulltext.links import linked

    journal = project.journal
    journal.refresh()
    since = format_ms(journal.clock.now_ms() - LIVE_S * 1000)
    names = [
        str(one.value.get("name", ""))
        for one in linked(journal, "session", "state", "open")
        if one.value.get("agent_id") == agent_id
        and one.value.get("tool") != TOOL
        and str(one.value.get("seen", "")) > since
    ]
    return names[0] if len(names) == 1 else ""
