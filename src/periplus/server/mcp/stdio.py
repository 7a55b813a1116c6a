"""MCP over standard input and output, one client for the life of the process.

The front answers the first requests while a thread loads the SDK; the first line that the front leaves alone is the SDK's, which is told
all that was said before and from then on hears everything. Standard input and output are taken away from the rest of the process, so
that nothing which prints or reads gets between the lines.

The end of the input ends the server, once what was asked is answered; so do SIGTERM, SIGINT and, when a terminal is closed, SIGHUP, at once.
"""

from __future__ import annotations

__all__ = ["Stopped", "claimed_streams", "connection_name", "serve_stdio"]

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from periplus.server.mcp.handshake import Front
from periplus.server.mcp.message_lines import LineReader, write_all

if TYPE_CHECKING:
    from periplus.server.mcp.sdk_server import DeskThread


class Stopped(BaseException):
    """A signal that ends the server, while the front was listening."""


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of their own for standard input and output; in their places stand nothing, and standard error, until the end."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)  # the two are left open: a thread may still wait for a line


def connection_name() -> str:
    """A name for the session of a connection that has none."""
    return f"mcp-{os.urandom(5).hex()}"


def serve_stdio(make_thread: Callable[[], DeskThread], connection: str, source: int, sink: int) -> None:
    """Serve until the client is gone. Raises OSError where its descriptors fail otherwise than by being closed."""
    before = {number: signal.signal(number, _stop) for number in _stop_signals()}
    lines, front = LineReader(source), Front()
    loading: threading.Thread | None = None
    thread: DeskThread | None = None
    try:
        while True:
            line = lines.read()
            if line is None:
                return
            answer = front.answer(line.data) if line.is_whole else None
            if answer is None:
                break
            write_all(sink, answer)
            if loading is None:
                loading = threading.Thread(target=_load, daemon=True, name="load the SDK")
                loading.start()
        if loading is not None:
            loading.join()  # two threads must not import the same package at once
        from periplus.server.mcp.sdk_connection import hand_over

        thread = make_thread()
        hand_over(thread, connection, lines, sink, front, line, _stop_signals())
    except (Stopped, BrokenPipeError, ConnectionResetError):
        return
    finally:
        for number, handler in before.items():
            # A shell and the kernel say both that a terminal was closed: the second must not cut this short.
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else handler)
        if thread is not None:
            thread.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_signals() -> tuple[signal.Signals, ...]:
    """Those that say that the server is to end; SIGHUP is none where whoever started it wants it to outlive the terminal."""
    is_hup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if is_hup else ()))


def _stop(*_: object) -> None:
    raise Stopped


def _load() -> None:
    """What the first call will want. Who needs what cannot be had says so."""
    with suppress(ImportError):
        import periplus.project
        import periplus.server.mcp.read_tools
        import periplus.server.mcp.sdk_connection  # noqa: F401
