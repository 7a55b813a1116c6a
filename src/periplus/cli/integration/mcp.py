"""``periplus mcp``: serve the project's memory to clients of the Model Context Protocol."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, number, plain

if TYPE_CHECKING:
    from periplus.journal import Writer
    from periplus.project import Project
    from periplus.server.mcp.sdk_server import DeskThread
    from periplus.server.mcp.tool_calls import Desk

PORT: Final = 7378
_PORT_MAX: Final = 65_535
_TOKEN_MIN: Final = 16


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("--http", action="store_true", help="serve HTTP on loopback (default: standard input and output)")
    add("--port", type=number(0, _PORT_MAX), default=PORT, metavar="N",
        help=f"with --http: the port; 0 picks a free one (default: {PORT})")  # fmt: skip
    add("--token-file", metavar="FILE",
        help="with --http: a file with the token that clients must send (or set PERIPLUS_MCP_TOKEN)")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from importlib.util import find_spec

    from periplus.base.errors import UsageError

    if not arguments.http and (arguments.token_file is not None or arguments.port != PORT):
        name = "--token-file" if arguments.token_file is not None else "--port"
        raise UsageError(f"{name} is for --http", safe="Nothing was changed.")
    if find_spec("mcp") is None:
        from periplus.server.mcp.sdk_server import missing_sdk

        raise missing_sdk(ModuleNotFoundError("mcp", name="mcp"))
    name = plain(arguments.writer or face.environment.get("PERIPLUS_AGENT", ""), "--as")[:100]
    session = plain(face.environment.get("PERIPLUS_SESSION", ""), "PERIPLUS_SESSION")[:100]
    if arguments.http:
        return _http(face, arguments, partial(_desk, face, name, session))
    if sys.stdin is not None and sys.stdin.isatty():
        face.tell_terminal("MCP over standard input: an agent starts this (see `periplus connect`); Ctrl-D ends it")
    return _stdio(partial(_desk, face, name, session))


def _desk(face: Face, name: str, session: str) -> Desk:
    from periplus.server.mcp.tool_calls import Desk

    def open_project(writer: Writer) -> Project:
        from periplus.project import Project

        embeddings = os.path.expanduser(face.environment.get("PERIPLUS_EMBEDDINGS", ""))
        return Project.open(face.cwd, writer, store=face.store, embeddings=embeddings)

    def on_error(error: BaseException) -> None:
        import traceback

        face.stderr.write("periplus: a defect of Periplus:\n" + "".join(traceback.format_exception(error)))
        face.stderr.flush()

    return Desk(open_project, host=os.uname().nodename, name=name, session=session, on_error=on_error)


def _stdio(make_desk: Callable[[], Desk]) -> int:
    """Serve on standard input and output. Project and SDK are loaded when a call needs more than the handshake."""
    from periplus.server.mcp.stdio import claimed_streams, connection_name, serve_stdio

    def make_thread() -> DeskThread:
        from periplus.server.mcp.sdk_server import DeskThread

        return DeskThread(make_desk())

    with claimed_streams() as (source, sink):
        serve_stdio(make_thread, connection_name(), source, sink)
    return 0


def _http(face: Face, arguments: argparse.Namespace, make_desk: Callable[[], Desk]) -> int:
    from periplus.cli.integration.mcp_schemas import McpOut
    from periplus.server.mcp.http import serve_http
    from periplus.server.mcp.sdk_server import Answers, DeskThread, make_server
    from periplus.server.mcp.stdio import connection_name

    token = _token(face, arguments)
    thread = DeskThread(make_desk())

    def ready(url: str) -> None:
        face.emit(McpOut(url, bool(token)), lambda: [f"Listening on {url}{' (with a token)' if token else ''}"])
        face.stdout.flush()

    try:
        answers = Answers(thread, connection_name())
        serve_http(make_server(answers), arguments.port, ready, token=token, on_end=answers.leave)
    finally:
        thread.close()
    return 0


def _token(face: Face, arguments: argparse.Namespace) -> str:
    from periplus.base.errors import UsageError
    from periplus.cli.context.remote import read_token

    if arguments.token_file is not None:
        token = read_token(face, arguments.token_file)
    else:
        token = face.environment.get("PERIPLUS_MCP_TOKEN", "")
    if token and (len(token) < _TOKEN_MIN or not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError(f"the token needs {_TOKEN_MIN} or more printable ASCII characters", safe="Nothing was changed.",
                         mend="Generate one: openssl rand -hex 32")  # fmt: skip
    return token
