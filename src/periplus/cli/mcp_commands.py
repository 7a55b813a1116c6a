"""``periplus mcp``: the project's memory for any client of the Model Context Protocol."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, number, plain

if TYPE_CHECKING:
    from periplus.journal import Writer
    from periplus.project import Project
    from periplus.server.mcp.desk import Desk

PORT: Final = 7378
_PORT_MAX: Final = 65_535
_TOKEN_MIN: Final = 16


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("--http", action="store_true", help="serve HTTP on the loopback interface (default: standard input and output)")
    add("--port", type=number(0, _PORT_MAX), default=PORT, metavar="N",
        help=f"of --http; 0 takes any that is free (default: {PORT})")  # fmt: skip
    add("--token-file", metavar="FILE",
        help="of --http: a file with the token that clients have to send (or set PERIPLUS_MCP_TOKEN)")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from importlib.util import find_spec

    from periplus.base.errors import UsageError

    if not arguments.http and (arguments.token_file is not None or arguments.port != PORT):
        name = "--token-file" if arguments.token_file is not None else "--port"
        raise UsageError(f"{name} is for --http", safe="Nothing was changed.")
    if find_spec("mcp") is None:
        from periplus.server.mcp.sdk import missing_sdk

        raise missing_sdk(ModuleNotFoundError("mcp", name="mcp"))
    desk = _desk(face, arguments)
    return _http(face, arguments, desk) if arguments.http else _stdio(desk)


def _desk(face: Face, arguments: argparse.Namespace) -> Desk:
    from periplus.project import Project
    from periplus.server.mcp.desk import Desk

    def open_project(writer: Writer) -> Project:
        return Project.open(face.cwd, writer, store=face.store)

    def on_error(error: BaseException) -> None:
        import traceback

        face.stderr.write("periplus: a defect of Periplus:\n" + "".join(traceback.format_exception(error)))
        face.stderr.flush()

    name = plain(arguments.writer or face.environment.get("PERIPLUS_AGENT", ""), "--as")
    session = plain(face.environment.get("PERIPLUS_SESSION", ""), "PERIPLUS_SESSION")
    return Desk(open_project, host=os.uname().nodename, name=name[:100], session=session[:100], on_error=on_error)


def _stdio(desk: Desk) -> int:
    from periplus.server.mcp.sdk import DeskThread, connection_name
    from periplus.server.mcp.stdio import claimed_streams, serve_stdio

    thread = DeskThread(desk)
    try:
        with claimed_streams() as (source, sink):
            serve_stdio(thread, connection_name(), source, sink)
    finally:
        thread.close()
    return 0


def _http(face: Face, arguments: argparse.Namespace, desk: Desk) -> int:
    from periplus.cli.mcp_schemas import McpOut
    from periplus.server.mcp.http import serve_http
    from periplus.server.mcp.sdk import Answers, DeskThread, connection_name, make_server

    token = _token(face, arguments)
    thread = DeskThread(desk)

    def ready(url: str) -> None:
        face.emit(McpOut(url, bool(token)), lambda: [f"Listening on {url}{' (with a token)' if token else ''}"])
        face.stdout.flush()

    try:
        serve_http(make_server(Answers(thread, connection_name())), arguments.port, ready, token=token)
    finally:
        thread.close()
    return 0


def _token(face: Face, arguments: argparse.Namespace) -> str:
    from periplus.base.errors import UsageError
    from periplus.cli.context_places import read_token

    if arguments.token_file is not None:
        token = read_token(face, arguments.token_file)
    else:
        token = face.environment.get("PERIPLUS_MCP_TOKEN", "")
    if token and (len(token) < _TOKEN_MIN or not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError(f"the token is no {_TOKEN_MIN} or more printable ASCII characters", safe="Nothing was changed.",
                         mend="Make one: openssl rand -hex 32")  # fmt: skip
    return token
