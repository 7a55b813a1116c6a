"""The tool ``code``: Python in the sandbox, with tools as functions.

The printed output of the program is the result; only the program sees what a function returned. Functions talk to the host over two pipes,
one line of JSON for each call and each answer. A call from within is authorised like any call; without an authoriser only reads are
allowed.
"""

from __future__ import annotations

__all__ = ["Authorize", "code_tool"]

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from periplus.agent.contracts import Access, Outcome, ToolResult
from periplus.agent.tools.shell.commands import Shell
from periplus.agent.tools.shell.processes import Process
from periplus.agent.tools.text_pages.command_output import shorten
from periplus.agent.tools.tool_host import LocalToolHost
from periplus.agent.tools.tool_table import Arguments, Parameter, Tool

Authorize: TypeAlias = Callable[[str, Mapping[str, Any]], str]
"""Called for each inner call; returns the reason for a refusal, empty to allow it."""

READING: Final = ("read", "list", "search", "recall")
CHANGING: Final = ("edit", "write", "shell", "web_fetch", "remember")
DEADLINE_S: Final = 60.0
DEADLINE_S_MAX: Final = 600.0
CALLS_MAX: Final = 1_000
LINE_BYTES_MAX: Final = 8 << 20
_PARAMETERS: Final = (
    Parameter("source", "text", required=True, most=200_000),
    Parameter("deadline_s", "number", f"default {DEADLINE_S:.0f}", least=1, most=int(DEADLINE_S_MAX)),
)


def code_tool(host: LocalToolHost, shell: Shell, authorize: Authorize | None = None) -> Tool:
    names = (*READING, *(CHANGING if authorize is not None else ()))
    said = ", ".join(name for name in names if name in {schema.name for schema in host.schemas()})
    return Tool(
        "code", f"Run Python in the sandbox; the tools {said} are functions there that give their output. Prints are shown.",
        _PARAMETERS, lambda args: _run(host, shell, authorize, names, args), lambda _: (Access(resource="*", mode="write"),),
    )  # fmt: skip


def _run(
    host: LocalToolHost, shell: Shell, authorize: Authorize | None, names: tuple[str, ...], args: Arguments
) -> ToolResult:
    with shell.work.turnstile.held(shell.work):
        return _watched(host, shell, authorize, names, args)


def _watched(
    host: LocalToolHost, shell: Shell, authorize: Authorize | None, names: tuple[str, ...], args: Arguments
) -> ToolResult:
    from periplus.agent.tools.shell import code_child

    known = [schema.name for schema in host.schemas() if schema.name in names]
    child = str(code_child.__file__)
    asks, their_ask = os.pipe()
    their_answer, answers = os.pipe()
    server = _Server(host, authorize, known, asks, answers)
    cancels = shell.processes.cancels
    shell.watch.before()
    try:
        server.send({"source": args.text("source"), "names": {name: server.fields(name) for name in known}})
        try:
            process = shell.start(
                [sys.executable, "-I", child, str(their_answer), str(their_ask)], ".", f"code: {args.text('source')[:200]}",
                passed=(their_answer, their_ask), kept=(sys.prefix, sys.base_prefix, os.path.dirname(child)),
            )  # fmt: skip
        finally:
            os.close(their_answer)
            os.close(their_ask)
        seconds = args.number("deadline_s", DEADLINE_S)

        def watch() -> None:
            try:
                if not shell.processes.in_foreground(process, seconds, cancels):
                    process.stop("its time is over")
            finally:
                server.stop()

        watcher = threading.Thread(target=watch, name="the time of a program")
        watcher.start()
        try:
            server.serve()
        finally:
            watcher.join()
    finally:
        server.close()
    return shell.changed(process, _told(process, server))


def _told(process: Process, server: _Server) -> ToolResult:
    handle = process.output.handle
    shown = shorten(process.output.text(), handle)
    how = f"{process.stopped_by}, " if process.stopped_by else ""
    outcome: Outcome = "ok" if process.exit_code == 0 else "failed"
    return ToolResult(
        outcome="cancelled" if process.stopped_by == "cancelled" else outcome,
        output=f"{how}exit {process.exit_code} in {process.seconds:.1f} s, {server.calls} calls\n{shown}", handle=handle,
        exit_code=process.exit_code, effects=tuple(server.effects),
    )  # fmt: skip


class _Server:
    """Answers the calls of one program, one after the other, until ``stop``, in the thread that owns the store."""

    def __init__(
        self, host: LocalToolHost, authorize: Authorize | None, names: list[str], asks: int, answers: int
    ) -> None:
        self._host, self._authorize, self._names = host, authorize, names
        self._asks, self._answers = asks, answers
        self._is_serving = False
        self._stop_read, self._stop_write = os.pipe()
        self.calls = 0
        self.effects: list[dict[str, Any]] = []

    def fields(self, name: str) -> list[str]:
        """The argument names of a tool, in order."""
        schema = next(one for one in self._host.schemas() if one.name == name)
        return list(schema.parameters["properties"])

    def stop(self) -> None:
        """Stop waiting for calls; from any thread."""
        os.write(self._stop_write, b".")

    def close(self) -> None:
        for fd in (self._asks, self._answers, self._stop_read, self._stop_write):
            os.close(fd)

    def serve(self) -> None:
        self._is_serving = True
        held = b""
        while (line := self._line(held)) is not None:
            row, held = line
            try:
                self.send(self._answer(row))
            except OSError:
                break  # the program has ended

    def _line(self, held: bytes) -> tuple[bytes | None, bytes] | None:
        """The next line (None if it is too long) and the data after it; None when no more is expected."""
        import select

        is_too_long = False
        while b"\n" not in held:
            ready, _, _ = select.select([self._asks, self._stop_read], [], [])
            if self._stop_read in ready:
                return None
            piece = os.read(self._asks, 1 << 16)
            if not piece:
                return None
            if len(held) > LINE_BYTES_MAX:
                held, is_too_long = b"", True  # from here on only its end matters
            held += piece
        row, _, rest = held.partition(b"\n")
        return None if is_too_long else row, rest

    def _answer(self, row: bytes | None) -> dict[str, Any]:
        if row is None:
            return {"outcome": "failed", "output": f"a call of over {LINE_BYTES_MAX >> 20} MB"}
        try:
            asked = json.loads(row)
            name, args = str(asked["name"]), dict(asked["args"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return {"outcome": "failed", "output": f"no call: {error}"}
        self.calls += 1
        if self.calls > CALLS_MAX:
            return {"outcome": "denied", "output": f"over {CALLS_MAX:,} calls from one program"}
        if name not in self._names:
            return {"outcome": "denied", "output": f"{name[:80]} cannot be called from a program"}
        why_not = self._authorize(name, args) if self._authorize is not None else ""
        if why_not:
            return {"outcome": "denied", "output": why_not}
        result = self._host.run(name, args)
        self.effects += result.effects
        return {"outcome": result.outcome, "output": result.output, "exit_code": result.exit_code}

    def send(self, value: Mapping[str, Any]) -> None:
        """Send an answer, in a thread of its own if the pipe is too small, since the program may not be reading yet."""
        data = memoryview(json.dumps(value).encode() + b"\n")
        if not self._is_serving:
            threading.Thread(target=_write, args=(os.dup(self._answers), data), daemon=True).start()
        else:
            _write(os.dup(self._answers), data)


def _write(fd: int, data: memoryview) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass  # the program has ended: its exit code says how
    finally:
        os.close(fd)
