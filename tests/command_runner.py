"""Runs the command line within the test's own process: a tenth of the time of a process for each command.

Arguments, standard input, environment and working directory go in; exit code, standard output and standard error come
out. The streams are real descriptors, so that what writes past ``sys.stdout`` and what child processes write is caught
as well. Tests of what only a process has (signals, limits, terminals, closed streams, start-up) use ``Shell.start``.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import tempfile
import time
from typing import NamedTuple

PROGRAM = os.path.join(os.path.dirname(sys.executable), "periplus")
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGWINCH)


class Outcome(NamedTuple):
    code: int
    out: bytes
    err: bytes


def run_command(words, *, stdin=b"", environment=None, cwd=None) -> Outcome:
    """Run ``periplus`` with ``words`` in this process as ``cli.entry`` does; all that it changed is put back."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(buffering=0)) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        stack.enter_context(_surroundings(os.environ if environment is None else environment, cwd or os.getcwd()))
        stack.enter_context(_streams(files))
        stack.enter_context(_signals())
        code = _run([os.fsdecode(word) for word in words])
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in files[1:]]
    return Outcome(code, *said)


def _run(words):
    from periplus.cli import main

    sys.argv = [PROGRAM, *words]
    try:
        main._prepare_streams()
        return main.main(words)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)


@contextlib.contextmanager
def _surroundings(environment, cwd):
    environ, folder, argv, mask, thresholds = (
        dict(os.environ),
        os.getcwd(),
        sys.argv,
        os.umask(0o077),
        gc.get_threshold(),
    )
    os.umask(mask)
    try:
        _set_environment(environment)
        os.chdir(cwd)
        yield
    finally:
        os.chdir(folder)
        _set_environment(environ)
        sys.argv = argv
        os.umask(mask)
        gc.set_threshold(*thresholds)


def _set_environment(environment):
    wanted = {os.fspath(name): os.fspath(value) for name, value in environment.items()}
    has_zone = wanted.get("TZ") != os.environ.get("TZ")
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)
    if has_zone:
        time.tzset()


@contextlib.contextmanager
def _streams(files):
    kept = [os.dup(number) for number in range(3)]
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        made = [
            io.TextIOWrapper(open(number, mode, closefd=False), encoding="utf-8", errors=errors, write_through=number == 2)  # noqa: SIM115
            for number, mode, errors in ((0, "rb", "surrogateescape"), (1, "wb", "surrogateescape"), (2, "wb", "backslashreplace"))
        ]  # fmt: skip
        sys.stdin, sys.stdout, sys.stderr = made
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextlib.contextmanager
def _signals():
    handlers = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
