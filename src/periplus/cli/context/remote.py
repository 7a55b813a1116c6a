"""Arguments and connection shared by ``context push``, ``pull`` and ``clone``."""

from __future__ import annotations

__all__ = ["next_merge", "other_store", "place_arguments", "read_token", "told_progress"]

import argparse
import os
import shlex
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, plain, visible

if TYPE_CHECKING:
    from periplus.context.remotes.transfer import Progress
    from periplus.project.context_store.exchange import Other

_TOKEN_BYTES_MAX: Final = 4_096


def place_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "where",
        metavar="WHERE",
        help="a folder with a store, or unix:PATH, tcp://HOST:PORT, tls://HOST:PORT of `periplus context serve`",
    )
    add("--token-file", metavar="FILE", help="a file with the token for the server")
    add(
        "--ca-file",
        metavar="FILE",
        help="the certificate authority of the server, in PEM (default: those of this machine)",
    )
    add("--fingerprint", metavar="HEX", help="trust only the server certificate with this SHA-256")


def other_store(face: Face, arguments: argparse.Namespace) -> AbstractContextManager[Other]:
    from periplus.cli.common.inputs import check_file
    from periplus.context.remotes.address import Trust, parse_fingerprint
    from periplus.project.context_store.exchange import open_other

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
    """Return the text of a file without its final newline.

    Raises UsageError if it is empty or contains unprintable characters, RefusedError if other users can read the file.
    """
    from periplus.base.errors import RefusedError, UsageError
    from periplus.cli.common.inputs import read_file

    path = os.path.join(face.cwd, name)
    data = read_file(path, _TOKEN_BYTES_MAX)
    try:
        token = data.decode().strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"the token in {name} is not UTF-8", safe="Nothing was changed.") from error
    if not token or len(data) > _TOKEN_BYTES_MAX:
        raise UsageError(f"{name} holds no token: {len(data):,} bytes", safe="Nothing was changed.")
    status = os.stat(path)
    if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise RefusedError(
            f"the token in {name} may be read by others than its owner: its mode is {stat.S_IMODE(status.st_mode):04o}",
            safe="Nothing was changed.",
            mend=f"Run `chmod 600 {shlex.quote(name)}`, and make a new token if others use this machine.",
        )
    if not token.isprintable():
        raise UsageError(
            f"the token in {name} has a character that cannot be printed, or a second line", safe="Nothing was changed."
        )
    return token


def next_merge(ref: str, context: str, *, is_apart_here: bool) -> str:
    """Return the command that merges ``context`` into our ref; if clones moved the ref apart here, that has to be merged first."""
    return f"periplus context merge{'' if is_apart_here else f' {context}'} --ref {visible(ref)}"


def told_progress(face: Face, label: str) -> Callable[[Progress], None]:
    report = face.progress(label)
    return lambda progress: report(progress.sent, 0)
