"""Values named on the command line: files to read, public keys, times, permission rules."""

from __future__ import annotations

__all__ = [
    "check_file",
    "check_target",
    "read_file",
    "read_past_time",
    "read_public_key",
    "read_secret",
    "read_time",
    "sessions_of",
    "typed_rules",
]

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, UsageError, environment_failure

_KEY_BYTES: Final = 32
_KEY_TEXT_MAX: Final = 200
_SECRET_BYTES_MAX: Final = 64 * 1024

if TYPE_CHECKING:
    from periplus.interop import FoundSession


def check_file(path: str) -> None:
    """Raise NotFoundError if there is nothing at ``path``, UsageError if it is not a file."""
    if os.path.isfile(path):
        return
    safe = "Nothing was changed."
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder, not a file", safe=safe, mend="Name a file in it.")
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no file {path}", safe=safe, mend="Check the name.") from error
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    raise UsageError(f"{path} is a device or a pipe, not a file", safe=safe, mend="Save its content to a file.")


def check_target(path: str) -> None:
    """Raise UsageError if a file cannot be written at ``path``: a folder, a missing parent, or a device or pipe, which replacing
    would remove for the whole system.
    """
    safe = "Nothing was written."
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder, not a file", safe=safe, mend="Name a file in it.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is a device or a pipe, not a file", safe=safe, mend="Name a file.")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise UsageError(
            f"there is no folder {os.path.dirname(path)}", safe=safe, mend="Create it first, or name another folder."
        )


def read_file(path: str, most: int) -> bytes:
    """Return the bytes of a file, at most ``most`` + 1, so that the caller notices a longer one."""
    check_file(path)
    try:
        with open(path, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def read_public_key(text: str) -> bytes:
    """Parse an Ed25519 public key: 64 hexadecimal digits, or a file of them. Raises UsageError."""
    if os.path.isfile(text):
        text = read_file(text, _KEY_TEXT_MAX).decode("ascii", "replace").strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise UsageError(f"not a public key: {text[:80]!r}", mend="A key is 64 hexadecimal digits, or a file of them.")
    return key


def read_secret(cwd: str, name: str) -> str:
    """Return the text of a file or of standard input, without the newline that editors and ``echo`` add."""
    import sys

    if name == "-":
        if sys.stdin.isatty() and sys.stderr.isatty():
            sys.stderr.write("(reading the text from the terminal; Ctrl-D ends it)\n")
        data = sys.stdin.buffer.read(_SECRET_BYTES_MAX + 2)
    else:
        data = read_file(os.path.join(cwd, name), _SECRET_BYTES_MAX + 1)
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UsageError("the text to redact is not UTF-8", safe="Nothing was changed.") from error
    if not text:
        raise UsageError("the text to redact is empty", safe="Nothing was changed.")
    return text


def read_time(text: str, option: str, *, also: str = "") -> str:
    """Parse a date or an RFC 3339 time into the store's format. Raises UsageError."""
    from periplus.base.clock import format_ms, parse_ms

    found = parse_ms(text)
    if found is None:
        raise UsageError(
            f"{option} {text[:60]!r} is not a time", safe="Nothing was changed.",
            mend=f"Write a date like 2026-01-31, or a time like 2026-01-31T09:30:00Z{also}.",
        )  # fmt: skip
    return format_ms(found)


def read_past_time(text: str, option: str) -> str:
    """Parse what ``read_time`` accepts, or an age: 30m, 2h, 3d, 1w. Raises UsageError."""
    from periplus.base.clock import SystemClock, format_ms, parse_past_ms

    found = parse_past_ms(text, SystemClock().now_ms())
    return read_time(text, option, also=", or an age: 30m, 2h, 3d, 1w") if found is None else format_ms(found)


def sessions_of(root: str, home: str, environment: Mapping[str, str]) -> list[FoundSession]:
    """Return the agents' sessions under ``home`` for the project of the store ``root``, in any of its worktrees, the newest first."""
    from periplus.interop import find_sessions
    from periplus.journal.projections.git_state import project_folders

    return find_sessions(home, *project_folders(root), codex=environment.get("CODEX_HOME", ""))


def typed_rules(effect: str, typed: Sequence[str] | None) -> Iterator[str]:
    """Yield the rules of an option in the form of settings. Raises UsageError that names the option and its value."""
    from periplus.agent.policies.permission import parse_rule

    for rule in typed or ():
        try:
            parse_rule(f"{effect} {rule}")
        except UsageError as error:
            raise UsageError(f"--{effect} {rule[:60]!r} is not a permission rule", safe="Nothing was run.",
                             mend=f"Write a tool, optionally with an argument in parentheses: --{effect} 'shell(git status)'") from error  # fmt: skip
        yield f"{effect} {rule}"
