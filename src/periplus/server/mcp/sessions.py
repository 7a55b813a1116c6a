"""The session to which the writes of a connection belong.

An agent with connected hooks has a session of its own, which its hooks report, but an MCP client does not say which one it
serves. If exactly one open session of that agent was active recently, the connection belongs to it; otherwise the agent's own
claim would look like somebody else's, and its hook would refuse its own edit. In all other cases the connection is a session of
its own: begun at its first write, begun again after it was ended elsewhere or the store was replaced, and sealed at its end.
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
    """The sessions of one server. ``fixed`` is the name of the session that the server was started in, if any."""

    def __init__(self, fixed: str = "") -> None:
        self._fixed = fixed
        self._adopted: dict[str, str] = {}
        self._begun: set[str] = set()

    @property
    def begun(self) -> tuple[str, ...]:
        """Connections whose own session was begun here."""
        return tuple(sorted(self._begun))

    def name_of(self, connection: str, agent_id: str, project: Project) -> str:
        """Return the current session of a connection. An adopted session that has ended is looked up again."""
        if self._fixed or connection in self._begun or not connection:
            return self._fixed or connection
        take_in_hooks(project)
        held = self._adopted.get(connection, "")
        if not held or not _is_open(held, project):
            self._adopted[connection] = held = _only_live(agent_id, project)
        return held or connection

    def alive(self, connection: str, title: str, project: Project) -> None:
        """After a write, begin the session if it is the connection's own or the one it was told; otherwise refresh it."""
        from periplus.memory.coordination.sessions import NewSession

        name = project.writer.session
        project.journal.refresh()
        if self._fixed:
            is_due = name not in self._begun  # it was ended elsewhere on purpose
        else:
            is_due = bool(name) and name == connection and not _is_open(name, project)
        if is_due:
            self._begun.add(name)
            project.work.begin_session(NewSession(name, tool=TOOL, title=title))
        else:
            project.work.seen()

    def end(self, connection: str, project: Project) -> None:
        """Seal the connection's own session; a session that was begun elsewhere continues."""
        if connection in self._begun and connection != self._fixed:
            self._begun.discard(connection)
            project.journal.refresh()
            if _is_open(connection, project):
                project.work.seal_session(connection)


def take_in_hooks(project: Project) -> None:
    """Take in the events of the agent's hooks, without a long wait and without failing."""
    hooks = project.hooks
    try:
        if hooks.has_events:
            hooks.take_in(patience_s=_SPOOL_PATIENCE_S)
    except PeriplusError as error:
        hooks.note("take in", str(error))  # the events stay in the spool; doctor reports it


def _is_open(name: str, project: Project) -> bool:
    from periplus.memory.claim_status import session_id

    held = project.journal.get("session", session_id(name))
    return held is not None and not held.deleted and held.value.get("state") == "open"


def _only_live(agent_id: str, project: Project) -> str:
    """Return the agent's only open session from elsewhere that was active recently; empty for none or several."""
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
