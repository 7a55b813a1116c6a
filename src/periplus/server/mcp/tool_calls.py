"""Tool calls on the project, in one thread.

The project is opened at the first call and stays open. A missing store is looked for at each call; a replaced store is opened
again. A call never raises: a failure becomes an answer that says what is wrong, what is safe, and what to do next.

The writer is the agent that the client claims to be, unless the server was started with a name; for the session see ``sessions``.
"""

from __future__ import annotations

__all__ = ["Caller", "Desk", "Reply", "agent_name"]

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from periplus.base.errors import EnvironmentFailure, NotAStoreError, PeriplusError, UsageError
from periplus.base.ids import derived_id
from periplus.journal import Layout, Writer
from periplus.server.mcp.sessions import Sessions
from periplus.server.mcp.tool_results import Answer, Fitted, fit
from periplus.server.mcp.tool_wording import told_error

if TYPE_CHECKING:
    from periplus.base.errors import DamageError
    from periplus.project import Project
    from periplus.server.mcp.catalogue import Tool

_T = TypeVar("_T")
_NAME_MAX: Final = 60
_DAMAGE_TOKENS: Final = 60
_LOOKS: Final = ("list", "show", "inbox")  # read-only actions of writing tools
_BUDGET: Final = 2_000
_KNOWN_AS: Final = {
    "codex-mcp-client": "codex",
    "cursor-vscode": "cursor",
    "gemini-cli-mcp-client": "gemini",
    "visual-studio-code": "vscode",
    "visual-studio-code---insiders": "vscode",
}


def agent_name(client: str) -> str:
    """Return the name of an agent for the name of its MCP client, as its hooks and transcripts use it."""
    name = re.sub(r"[^A-Za-z0-9._/-]+", "-", client).strip("-./")[:_NAME_MAX].strip("-./")
    return _KNOWN_AS.get(name.lower(), name) or "mcp-client"


class Caller(NamedTuple):
    """``client`` is the client's own name, ``connection`` the name of the session for its writes."""

    client: str
    connection: str


class Reply(NamedTuple):
    """``data`` is None for an error."""

    text: str
    data: dict[str, Any] | None
    is_error: bool = False


class Desk:
    """Runs tool calls. ``open_project`` opens the store for a writer. ``name`` and ``session`` are those of the server's start,
    if given; ``on_error`` gets defects, whose details clients do not see.
    """

    def __init__(
        self, open_project: Callable[[Writer], Project], *, host: str, name: str = "", session: str = "",
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:  # fmt: skip
        self._open_project = open_project
        self._host = host
        self._name = name
        self._sessions = Sessions(session)
        self._on_error = on_error
        self._project: Project | None = None
        self._place: tuple[int, ...] = ()
        self._callers: dict[str, Caller] = {}

    def call(self, caller: Caller, tool: str, arguments: object) -> Reply:
        """Return the answer of a tool, within the token budget of its arguments."""
        from periplus.server.mcp.tool_arguments import read_arguments

        try:
            row = _row(tool)
            given = read_arguments(row.arguments, arguments)
            run = row.load()

            def answer(project: Project) -> Reply:
                found = run(project, given)
                if not row.is_read_only and getattr(given, "action", "") not in _LOOKS:
                    self._alive(caller, project)
                return _reply(found, getattr(given, "budget", _BUDGET), project)

            return self.within(caller, answer)
        except Exception as error:  # noqa: BLE001 - the client gets an answer, and the server continues
            return Reply(told_error(self.told(error)), None, is_error=True)

    def within(self, caller: Caller, work: Callable[[Project], _T]) -> _T:
        """Run ``work`` on the project in the caller's name. Raises its errors; a damaged index is rebuilt."""
        try:
            return self._within(caller, work)
        finally:
            if self._project is not None:
                self._project.journal.rest()  # the next call may be hours away

    def _within(self, caller: Caller, work: Callable[[Project], _T]) -> _T:
        try:
            return work(self._opened(caller))
        except EnvironmentFailure as error:
            from periplus.journal.storage.store_identity import ReplacedError

            if isinstance(error, ReplacedError):
                self._let_go()  # reported; the next call opens the store again
            raise
        except Exception as error:  # SQLite may not be imported; only its error is handled here
            sqlite3 = sys.modules.get("sqlite3")
            if sqlite3 is None or not isinstance(error, sqlite3.DatabaseError):
                raise
            said, project = str(error), self._project
            if project is None:
                raise
            if isinstance(error, sqlite3.OperationalError) and "malformed" not in said and "no such" not in said:
                raise
        # The index is derived and is rebuilt. A repeated write is recognized as a duplicate.
        self._let_go()
        project.discard_index(os.path.dirname(project.root), store=project.root)
        return work(self._opened(caller))

    def _alive(self, caller: Caller, project: Project) -> None:
        self._callers[caller.connection] = caller
        try:
            self._sessions.alive(caller.connection, caller.client, project)
        except PeriplusError as error:  # the write is done; refreshing the session can wait for the next call
            self.told(error)

    def leave(self, connection: str) -> None:
        """End a connection: seal what it began and release its claims."""
        caller = self._callers.pop(connection, None)
        if caller is None:
            return
        try:
            self.within(caller, lambda project: self._sessions.end(connection, project))
        except Exception as error:  # noqa: BLE001 - nobody is left to tell, and its claims expire
            self.told(error)

    def close(self) -> None:
        for connection in self._sessions.begun:
            self.leave(connection)
        self._let_go()

    def _writer(self, caller: Caller, session: str) -> Writer:
        name = self._name or agent_name(caller.client)
        return Writer(name, derived_id("who", name, self._host), session[:100], os.getpid())

    def told(self, error: BaseException) -> PeriplusError:
        """Convert ``error`` to the answer for the client; details of a defect go to ``on_error``."""
        if isinstance(error, PeriplusError):
            if isinstance(error, NotAStoreError) and not error.mend:
                error.mend = "Run `periplus init` in the project's folder, then call again."
            return error
        if isinstance(error, RecursionError):
            return UsageError("the input is nested too deeply", safe="Nothing was changed.")
        if isinstance(error, MemoryError):
            return EnvironmentFailure("the system has no memory left", safe="No acknowledged write is lost.")
        sqlite3 = sys.modules.get("sqlite3")
        if sqlite3 is not None and isinstance(error, sqlite3.Error):
            from periplus.journal.index.connection import index_failure

            return index_failure(error, "Repeat the call.")
        if isinstance(error, OSError):
            place = f" ({error.filename})" if error.filename else ""
            wrong = f"the system refused: {error.strerror or error}{place}"
            return EnvironmentFailure(wrong, safe="No acknowledged write is lost.")
        if self._on_error is not None:
            self._on_error(error)
        return PeriplusError(f"a defect of Periplus: {type(error).__name__}", safe="Acknowledged writes are kept.",
                             mend="Its details are in the server's error output.")  # fmt: skip

    def _opened(self, caller: Caller) -> Project:
        writer = self._writer(caller, "")
        if self._project is not None and self._place != _place_of(self._project.root):
            self._let_go()
        if self._project is None:
            self._project = self._open_project(writer)
            self._place = _place_of(self._project.root)
        project = self._project
        project.writer = writer
        project.writer = self._writer(caller, self._sessions.name_of(caller.connection, writer.id, project))
        return project

    def _let_go(self) -> None:
        project, self._project = self._project, None
        if project is not None:
            project.close()


def _row(tool: str) -> Tool:
    from periplus.server.mcp.catalogue import TOOLS

    row = next((row for row in TOOLS if row.name == tool), None)
    if row is None:
        names = ", ".join(row.name for row in TOOLS)
        raise UsageError(f"unknown tool {tool[:60]!r}", mend=f"Tools: {names}.")
    return row


def _place_of(root: str) -> tuple[int, ...]:
    """Identify the store's folder and its configuration, which declares types; empty if there is no store."""
    try:
        found = os.stat(root)
    except OSError:
        return ()
    try:
        config = os.stat(Layout(root).config)
    except OSError:
        return found.st_dev, found.st_ino
    return found.st_dev, found.st_ino, config.st_ino, config.st_mtime_ns, config.st_size


def _reply(answer: Answer, budget: int, project: Project) -> Reply:
    damage = project.journal.damage
    fitted: Fitted = fit(answer, budget - _DAMAGE_TOKENS if damage is not None else budget)
    text, data = fitted
    if damage is not None:
        note = _told_of(damage)
        text, data = f"{text}\n{note}", {**data, "damage": note}
    return Reply(_clean(text), _clean_data(data))


def _told_of(damage: DamageError) -> str:
    from periplus.journal.index.overlay import UnmergedError

    if isinstance(damage, UnmergedError):
        return f"Older records are missing, so some entities are shown as in conflict: {damage.wrong[:100]}. See `periplus status`."
    return f"The store is damaged; only its intact part is shown: {str(damage)[:100]}. Run `periplus doctor`."


def _clean(text: str) -> str:
    """Replace bytes that are not text, as in file names, so that any encoder accepts the text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _clean_data(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _clean_value(inner) for name, inner in value.items()}


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return _clean_data(value)
    if isinstance(value, (list, tuple)):
        return [_clean_value(inner) for inner in value]
    return value
