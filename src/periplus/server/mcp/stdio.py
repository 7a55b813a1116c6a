"""MCP over standard input and output, with one client for the life of the process.

The handshake answers the first requests while a thread loads the SDK. The first line that it leaves alone goes to the SDK, which
first gets all earlier ones, and then handles everything. The rest of the process gets other descriptors in place of standard
input and output, so that nothing else can read or print between the messages.

The server ends at the end of input, after pending answers, and at once at SIGTERM, SIGINT, or SIGHUP when the terminal is closed.
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
    """A signal ended the server during the handshake."""


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Move standard input and output to other descriptors. Meanwhile standard input is empty, and output goes to standard error."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)  # the two stay open, because a thread may still wait for a line


def connection_name() -> str:
    """Return a name for the session of a connection without one."""
    return f"mcp-{os.urandom(5).hex()}"


def serve_stdio(make_thread: Callable[[], DeskThread], connection: str, source: int, sink: int) -> None:
    """Serve until the client is gone. Raises OSError if a descriptor fails in another way than by being closed."""
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
            # Shell and kernel both send SIGHUP for a closed terminal; the second must not interrupt this.
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else handler)
        if thread is not None:
            thread.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end the server. SIGHUP is left out if the parent ignores it, so that the server outlives the terminal."""
    is_hup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if is_hup else ()))


def _stop(*_: object) -> None:
    raise Stopped


def _load() -> None:
    """Import what the first call needs. A missing package is reported by its user."""
    with suppress(ImportError):
        import periplus.project
        import periplus.server.mcp.read_tools
        import periplus.server.mcp.sdk_connection  # noqa: F401 - as above
