"""Paging of long output through the program in ``PAGER``, or ``less``, or ``more``.

No shell is involved, and output to a pipe or a file is not paged. If no pager starts, the lines are written directly.
"""

from __future__ import annotations

__all__ = ["page"]

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, columns, visible

if TYPE_CHECKING:
    from subprocess import Popen

_PAGERS: Final = ("less", "more")
_ESCAPE: Final = "\x1b"
# Exit if the output fits one screen, show colours, do not clear the screen: as git sets it.
_ENVIRONMENT: Final = {"LESS": "FRX", "LV": "-c"}


def page(face: Face, lines: Iterable[str], *, is_wanted: bool = True) -> None:
    """Write the lines, through a pager if they are more than the terminal has rows."""
    stream = iter(lines)
    rows = face.height
    if not is_wanted or rows is None or face.environment.get("TERM") == "dumb":
        _write(face, stream)
        return
    held: list[str] = []
    for line in stream:
        held.append(line)
        rows -= _rows_of(line, face.width or 80)
        if rows < 1:  # the last row is for the prompt
            break
    pager = _start(face) if rows < 1 else None
    if pager is None:
        _write(face, held)
        _write(face, stream)
        return
    _feed(pager, held, stream)


def _write(face: Face, lines: Iterable[str]) -> None:
    for line in lines:
        face.out(line)


def _rows_of(line: str, width: int) -> int:
    if _ESCAPE in line:
        import re

        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return max(1, -(-columns(line) // width))


def _start(face: Face) -> Popen[bytes] | None:
    import subprocess

    environment = {**_ENVIRONMENT, **face.environment}
    for command in _commands(face):
        face.stdout.flush()
        try:
            return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - the words of PAGER, and no shell
        except OSError as error:
            face.stderr.write(f"periplus: the pager {visible(command[0], 60)} does not start: {error.strerror}\n")
    return None


def _commands(face: Face) -> Iterator[list[str]]:
    """Yield the pagers to try. An empty ``PAGER``, or ``cat``, means none."""
    import shlex
    import shutil

    named = _named(face.environment)
    if named is not None:
        try:
            words = shlex.split(named)
        except ValueError:
            words = [named]
        if not words or words == ["cat"]:
            return
        if shutil.which(words[0], path=face.environment.get("PATH")):
            yield words
        else:
            face.stderr.write(f"periplus: PAGER names {visible(words[0], 60)}, and there is no such program\n")
    for name in _PAGERS:
        if shutil.which(name, path=face.environment.get("PATH")):
            yield [name]


def _named(environment: Mapping[str, str]) -> str | None:
    return environment.get("PERIPLUS_PAGER", environment.get("PAGER"))


def _feed(pager: Popen[bytes], held: list[str], rest: Iterator[str]) -> None:
    """Write lines to the pager until there are no more or it exits."""
    import signal

    # Ctrl-C belongs to the pager, where it stops a search; so we ignore it, and the pager gets the default handler.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    assert pager.stdin is not None
    try:
        try:
            for line in held:
                pager.stdin.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            for line in rest:
                pager.stdin.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            pager.stdin.close()
        except BrokenPipeError:  # the person quit early
            with suppress(BrokenPipeError):
                pager.stdin.close()  # drop what is still buffered
        finally:
            pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
