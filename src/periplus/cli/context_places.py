"""What ``push``, ``pull`` and ``clone`` have in common: where the other store is, and how it is known."""

from __future__ import annotations

__all__ = ["other_store", "place_arguments", "read_token", "told_progress"]

import argparse
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, plain

if TYPE_CHECKING:
    from periplus.context.exchange import Progress
    from periplus.project.context_exchange import Other

_TOKEN_BYTES_MAX: Final = 4_096


def place_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "where",
        metavar="WHERE",
        help="a folder with a store, or unix:PATH, tcp://HOST:PORT, tls://HOST:PORT of `periplus context serve`",
    )
    add("--token-file", metavar="FILE", help="a file with the token that the server asks for")
    add(
        "--ca-file",
        metavar="FILE",
        help="the authority, in PEM, that signed the server's certificate (default: the machine's)",
    )
    add("--fingerprint", metavar="HEX", help="the SHA-256 of the server's certificate, to trust that one and no other")


def other_store(face: Face, arguments: argparse.Namespace) -> AbstractContextManager[Other]:
    from periplus.cli.inputs import check_file
    from periplus.context.address import Trust, parse_fingerprint
    from periplus.project.context_exchange import open_other

    token = read_token(face, arguments.token_file) if arguments.token_file is not None else ""
    authority = None
    if arguments.ca_file is not None:
        authority = os.path.join(face.cwd, arguments.ca_file)
        check_file(authority)
    pin = (
        parse_fingerprint(plain(arguments.fingerprint, "--fingerprint")) if arguments.fingerprint is not None else None
    )
    return open_other(
        plain(arguments.where, "WHERE"), cwd=face.cwd, writer=face.writer(), token=token, trust=Trust(authority, pin)
    )


def read_token(face: Face, name: str) -> str:
    """The text in a file without the line end behind it. Raises UsageError for none."""
    from periplus.base.errors import UsageError
    from periplus.cli.inputs import read_file

    data = read_file(os.path.join(face.cwd, name), _TOKEN_BYTES_MAX)
    try:
        token = data.decode().strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"the token in {name} is not UTF-8", safe="Nothing was changed.") from error
    if not token or len(data) > _TOKEN_BYTES_MAX:
        raise UsageError(f"{name} holds no token: {len(data):,} bytes", safe="Nothing was changed.")
    return token


def told_progress(face: Face, label: str) -> Callable[[Progress], None]:
    report = face.progress(label)
    return lambda progress: report(progress.sent, 0)
