"""``periplus context serve``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from typing import TYPE_CHECKING, Any

from periplus.cli.common.face import Face, plain, visible
from periplus.cli.context.remote import read_token
from periplus.journal.storage.layout import CONTEXT_SOCKET

if TYPE_CHECKING:
    from periplus.context.remotes.address import Address
    from periplus.context.stores.library import ContextLibrary
    from periplus.server.listeners import Endpoint


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--socket",
        metavar="PATH",
        help=f"the Unix socket to listen on (default: {CONTEXT_SOCKET} in the store)",
    )
    add(
        "--tcp",
        metavar="HOST:PORT",
        help="also listen on TCP; other machines need a token and a certificate; port 0 picks a free port",
    )
    add("--token-file", metavar="FILE", help="a file with the token that TCP clients must send")
    add("--tls-cert", metavar="FILE", help="the TLS certificate for TCP, in PEM")
    add("--tls-key", metavar="FILE", help="the private key of the certificate, in PEM")
    add("--read-only", action="store_true", help="refuse pushes and moves of refs")
    add("--stats", action="store_true", help="print the statistics of the server that runs on the socket, and exit")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    import asyncio

    from periplus.cli.context.schemas import ContextServeOut
    from periplus.project import Project
    from periplus.project.context_store.library import ProjectLibrary
    from periplus.server.context_server import ContextServer, serve

    with face.open() as project:
        root = project.root
    path = (
        os.path.join(face.cwd, plain(arguments.socket, "--socket"))
        if arguments.socket is not None
        else os.path.join(root, CONTEXT_SOCKET)
    )
    if arguments.stats:
        return _stats(face, path)
    endpoints = _endpoints(face, arguments, path)
    writer = face.writer()

    def open_store() -> ContextLibrary:
        return ProjectLibrary(Project(root, writer), owns=True)

    def on_error(error: BaseException) -> None:
        face.stderr.write(f"periplus: {visible(f'{type(error).__name__}: {error}')}\n")
        face.stderr.flush()

    server = ContextServer(open_store, endpoints, can_push=not arguments.read_only, on_error=on_error)
    asyncio.run(serve(server, lambda addresses: _ready(face, addresses)))
    stats = server.document()
    face.emit(ContextServeOut("", stats), lambda: ["Stopped", *_told(stats, "")])
    return 0


def _endpoints(face: Face, arguments: argparse.Namespace, path: str) -> list[Endpoint]:
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import check_file
    from periplus.server.listeners import Endpoint

    if arguments.tcp is None:
        for name in ("token_file", "tls_cert", "tls_key"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} is for --tcp", safe="Nothing was changed.")
        return [Endpoint(path=path)]
    host, colon, port = plain(arguments.tcp, "--tcp").rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port[:6]) > 65_535:
        raise UsageError(f"--tcp {arguments.tcp[:80]!r} is not HOST:PORT", safe="Nothing was changed.")
    files = []
    for name in (arguments.tls_cert, arguments.tls_key):
        files.append(os.path.join(face.cwd, name) if name is not None else None)
        if name is not None:
            check_file(files[-1] or "")
    token = read_token(face, arguments.token_file) if arguments.token_file is not None else None
    tcp = Endpoint(host=host.strip("[]"), port=int(port), token=token, certificate_file=files[0], key_file=files[1])
    return [tcp, Endpoint(path=path)]  # first what may be refused, before anything is changed


def _ready(face: Face, addresses: list[Address]) -> None:
    from periplus.cli.context.schemas import ContextServeOut

    for address in addresses:
        face.emit(ContextServeOut(str(address)), lambda address=address: [f"Listening on {visible(str(address))}"])  # type: ignore[misc]  # a default that binds
    face.stdout.flush()


def _stats(face: Face, path: str) -> int:
    from periplus.cli.context.schemas import ContextServeOut
    from periplus.context.remotes.address import Address
    from periplus.server.context_server import fetch_stats

    address = Address("unix", path=path)
    if not os.path.exists(path):
        face.emit(
            ContextServeOut("", {}), lambda: [f"No server listens on {visible(path)}", "Next: periplus context serve"]
        )
        return 1
    stats = fetch_stats(address)
    face.emit(ContextServeOut(str(address), stats), lambda: _told(stats, ""))
    return 0


def _told(value: dict[str, Any], before: str) -> list[str]:
    lines = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            lines += _told(inner, f"{before}{name} ")
        elif name != "schema":
            shown = f"{inner:,}" if isinstance(inner, int) else str(inner)
            lines.append(f"{before}{name}: {visible(shown)}".replace("_", " "))
    return lines
