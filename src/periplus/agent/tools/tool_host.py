"""Host of the local tools: one table of tools, arguments checked before anything runs, every error reported.

``run`` never raises for a mistake of the model: a refusal becomes a result, with what is safe and how to fix it.
"""

from __future__ import annotations

__all__ = ["LocalToolHost", "result_of"]

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from periplus.agent.contracts import Access, Outcome, ToolResult, ToolSchema
from periplus.agent.tools.files.change_log import Recovered, digest_of
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.text_pages.command_output import Outputs
from periplus.agent.tools.tool_table import Tool, check_arguments, schema_of
from periplus.base.errors import (
    ClaimedError,
    ConfinementError,
    NotFoundError,
    PeriplusError,
    UsageError,
    environment_failure,
)

_EVERYTHING: Final = (Access(resource="*", mode="write"),)


class LocalToolHost:
    """The tools of a table over one workspace. ``close`` ends running processes."""

    def __init__(self, work: Workspace, tools: Iterable[Tool] = ()) -> None:
        self.work = work
        self._tools: dict[str, Tool] = {}
        self._schemas: tuple[ToolSchema, ...] = ()
        self.recovered = Recovered()
        self.outputs: Outputs | None = None
        """Store of texts that are too long for an answer."""
        self.sandbox = ""
        """Description of the sandbox layer, to be shown and journaled."""
        self._on_cancel: list[Any] = []
        self._on_close: list[Any] = []
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Add a tool. Raises UsageError if the name is taken."""
        if tool.name in self._tools:
            raise UsageError(f"there are two tools named {tool.name!r}", mend="Give one of them another name.")
        self._tools[tool.name] = tool
        self._schemas = tuple(schema_of(one) for one in self._tools.values())

    def watch(self, *, on_cancel: Any = None, on_close: Any = None) -> None:
        """Register ``on_cancel`` for a cancelled turn and ``on_close`` for closing the host."""
        self._on_cancel += [on_cancel] if on_cancel else []
        self._on_close += [on_close] if on_close else []

    def schemas(self) -> Sequence[ToolSchema]:
        return self._schemas

    def accesses(self, name: str, args: Mapping[str, Any]) -> Sequence[Access]:
        """The accesses of a call; everything if they are not known, so that it runs alone."""
        tool = self._tools.get(name)
        if tool is None:
            return ()
        try:
            return tool.accesses(check_arguments(tool, args))
        except PeriplusError:
            return _EVERYTHING

    def run(self, name: str, args: Mapping[str, Any]) -> ToolResult:
        tool = self._tools.get(name)
        if tool is None:
            return ToolResult(
                outcome="failed", output=f"there is no tool {name[:80]!r}{self._suggestion(name)}", untrusted=False
            )
        try:
            return tool.run(check_arguments(tool, args))
        except PeriplusError as error:
            return result_of(error)
        except OSError as error:
            return result_of(environment_failure(error, f"run {name}"))
        except Exception as error:  # noqa: BLE001 - tools of others are rows of this table too; a defect of one is told and the run goes on
            return ToolResult(
                outcome="failed", output=f"{name} has a defect: {type(error).__name__}: {error}", untrusted=True
            )

    def plan(self, name: str, args: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The planned changes of a call; none if they are not known, or if the call would be refused."""
        tool = self._tools.get(name)
        try:
            return tool.plan(check_arguments(tool, args)) if tool is not None and tool.plan is not None else ()
        except PeriplusError:
            return ()

    def digest(self, path: str) -> str | None:
        """Digest of a file's bytes, None without a file."""
        return digest_of(self.work.read(path))

    def note_seen(self, path: str, digest: str) -> None:
        """Note that the model knows the file with this digest, from before this process."""
        self.work.note_seen(path, digest)

    def read_text(self, path: str) -> str:
        return self.work.read_text(path)

    def goes_on(self, name: str) -> bool:
        """Return whether an interrupted call of this tool continues where it was when it is run again."""
        tool = self._tools.get(name)
        return tool is not None and tool.goes_on

    def begin_turn(self, turn: str) -> None:
        """Assign later changes to ``turn``, with which they are undone; a subagent's changes belong to its parent's turn."""
        self.work.begin_turn(turn)

    def undo(self, turn: str) -> tuple[str, ...]:
        """Restore the files that ``turn`` changed; the paths. Raises ConflictError, NotFoundError, ClaimedError."""
        return self.work.undo(turn).paths

    def cancel(self) -> None:
        """Stop foreground work, from any thread: its calls return ``cancelled``."""
        for callback in self._on_cancel:
            callback()

    def close(self) -> None:
        for callback in reversed(self._on_close):
            callback()
        self.work.close()

    def _suggestion(self, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, self._tools, 1, 0.5)
        return f"; is {near[0]} meant?" if near else f"; there are {', '.join(self._tools)}"


def result_of(error: PeriplusError) -> ToolResult:
    """The result that tells the model of an error."""
    outcome: Outcome = "denied" if isinstance(error, ClaimedError | ConfinementError) else "failed"
    said = [error.wrong if not isinstance(error, NotFoundError) else str(error), error.safe, error.mend]
    return ToolResult(outcome=outcome, output="\n".join(one for one in said if one), untrusted=False)
