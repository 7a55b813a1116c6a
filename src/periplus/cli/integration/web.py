"""``periplus web``: show the project in a browser."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, number
from periplus.cli.integration.web_schemas import WebOut

if TYPE_CHECKING:
    from periplus.project import Project

_PORT_MAX: Final = 65_535


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("--port", type=number(0, _PORT_MAX), default=0, metavar="N", help="the port on 127.0.0.1 (default: a free one)")
    add(
        "--socket",
        metavar="PATH",
        help="listen on a Unix socket instead, which this user alone may use (default: a port)",
    )
    add(
        "--read-only",
        action="store_true",
        help="refuse everything that would change the store (default: writes as --as)",
    )
    add("--open", action="store_true", help="open the address in the browser of this machine (default: print it)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.web.server import missing_extra

    missing = missing_extra()
    if missing is not None:
        raise missing
    if arguments.socket and arguments.port:
        raise UsageError("--port and --socket exclude each other", safe="Nothing was changed.")
    if arguments.socket and arguments.open:
        raise UsageError("no browser opens a Unix socket", safe="Nothing was changed.", mend="Leave out --open.")
    return _serve(face, arguments)


def _serve(face: Face, arguments: argparse.Namespace) -> int:
    from periplus import __version__
    from periplus.base.filesystem.store_location import find_root
    from periplus.journal import Writer
    from periplus.web.server import WebOptions, WebServer

    writer = face.writer()
    if not writer.session:
        writer = Writer.named(writer.name, session=f"web-{os.urandom(5).hex()}")
    root = find_root(face.cwd, face.store)  # once: where it is removed, no store of a folder above takes its place
    is_first = True

    def opening() -> Project:
        from periplus.project import Project

        embeddings = os.path.expanduser(face.environment.get("PERIPLUS_EMBEDDINGS", ""))
        return Project.open(face.cwd, writer, store=root, embeddings=embeddings)

    def told(url: str) -> None:
        nonlocal is_first
        if is_first:
            _say(face, url, arguments.socket or "")
            if arguments.open:
                import webbrowser

                webbrowser.open(url)
        elif not face.as_json:
            face.tell_terminal(f"a browser has entered; for another one: {url}")
        is_first = False

    def on_defect(error: BaseException) -> None:
        import traceback

        face.stderr.write("periplus: a defect of Periplus:\n" + "".join(traceback.format_exception(error)))
        face.stderr.flush()

    opening().close()  # what is wrong with the store is said here, before anybody waits for a page
    options = WebOptions(
        opening, root, writer, __version__, face.environment, face.home, face.cwd, told, on_defect,
        arguments.port, os.path.abspath(face.path(arguments.socket)) if arguments.socket else "", arguments.read_only,
    )  # fmt: skip
    WebServer(options).serve()
    return 0


def _say(face: Face, url: str, socket_path: str) -> None:
    if socket_path:
        where = f"The page listens on {socket_path}. Forward a port to it, and open this address at that port:"
    else:
        where = "The page, for one browser, until Ctrl-C:"
    face.emit(WebOut(url, socket_path), lambda: [where, url])
    face.stdout.flush()
