"""Work that strace kills or fails at a system call, each time in a new process that is forked from a warm one.

``python traced_children.py`` loads everything once. For each request, a line of JSON on its standard input, it forks; the
child waits until strace has it, works, and ends. So strace counts the calls of the work alone, from 1, and no process
pays for an interpreter's start. ``Children`` is how a test asks.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import pkgutil
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

WAIT_S = 120
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, ctypes.c_ulong(-1)


class Done(NamedTuple):
    """As of ``subprocess``: the child's exit code, negative where a signal ended it, and what it said."""

    returncode: int
    stdout: bytes
    stderr: bytes


class NotTracedError(Exception):
    """strace could not take the child over; says what strace says."""


class Children:
    """The warm process, and what is asked of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip

    def run(self, work: str, *arguments: str, log: str, options: list[str]) -> Done:
        """Do ``work`` in a child of its own, under strace with ``options``, which writes the calls to ``log``."""
        request = {"work": work, "arguments": arguments, "log": log, "options": options}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], WAIT_S)
        assert ready, f"no answer in {WAIT_S} s: {request}"
        answer = json.loads(self._process.stdout.readline())
        if "not_traced" in answer:
            raise NotTracedError(answer["not_traced"])
        return Done(answer["returncode"], answer["stdout"].encode(), answer["stderr"].encode())

    def close(self) -> None:
        """End the warm process, and the child that it may still wait for."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


# -- what the children do --------------------------------------------------------------------------------------------


def say(what: bytes) -> None:
    with contextlib.suppress(OSError):  # the injected error met our own word
        os.write(1, what)


def mutation(root: str, key: str) -> None:
    from support import WRITER, open_journal
    from test_journal_damage import three

    with open_journal(root) as journal:
        journal.mutate(three, WRITER, key=key)
        say(b"ack\n")


def operation(folder: str, name: str) -> None:
    from periplus.base.files import Files
    from test_fault_matrix import OPERATIONS, Place

    (chosen,) = [one for one in OPERATIONS if one.name == name]
    for step in chosen.steps:
        step(Place(Path(folder)), Files())
        say(b"ack\n")


WORKS = {"mutation": mutation, "operation": operation}


def work(request: dict) -> None:
    from periplus.base.errors import PeriplusError

    try:
        WORKS[request["work"]](*request["arguments"])
    except (PeriplusError, sqlite3.DatabaseError) as error:  # the command line throws a damaged index away, and repeats
        say(f"refused {type(error).__name__}\n".encode())
    os._exit(0)


# -- the warm process ------------------------------------------------------------------------------------------------


def load() -> None:
    """All that the works import late: a child's calls are those of its work."""
    for name in ("encodings.ascii", "orjson", "tomllib", "zipfile", "zlib", "test_fault_matrix", "test_journal_damage"):
        importlib.import_module(name)
    for name in ("periplus.base", "periplus.journal", "periplus.project"):
        for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def forked(request: dict, go: mmap.mmap, said: list[int]) -> int:
    """The pid of a child that begins its work when ``go`` says so. It waits without a call that anybody counts."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.dup2(said[0], 1)
        os.dup2(said[1], 2)
        os.closerange(3, max(said) + 1)
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)  # strace is no parent of ours
        while not go[0]:
            time.sleep(0.0005)  # between two looks at what the parent says: a call that no test counts
        work(request)
    except BaseException:  # noqa: BLE001 - a child says what went wrong and ends here, whatever it was
        traceback.print_exc()
    finally:
        os._exit(1)


def traced(request: dict) -> dict:
    go = mmap.mmap(-1, mmap.PAGESIZE)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = forked(request, go, [out.fileno(), err.fileno()])
        strace = subprocess.Popen(
            ["strace", "-f", "-o", request["log"], *request["options"], "-p", str(pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        said = b""
        for line in (
            strace.stderr
        ):  # it may warn of something first; that it has the child is said when that has been stopped, not before
            said += line
            if line.rstrip().endswith(b"attached"):
                break
        is_traced = said.rstrip().endswith(b"attached")
        if not is_traced:
            os.kill(pid, signal.SIGKILL)
        go[0] = 1
        _, status = os.waitpid(pid, 0)
        more = strace.communicate()[1]
        go.close()
        if not is_traced:
            return {"not_traced": (said + more).decode(errors="replace")}
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"returncode": os.waitstatus_to_exitcode(status), "stdout": texts[0], "stderr": texts[1]}


def main() -> None:
    sys.path[:0] = sys.argv[1:]
    load()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(traced(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
