"""The way of six operations through the modules: ``python -m bench.walks``.

A walk is the order in which functions of ``periplus`` are called for the first time while one operation runs. Consecutive functions of one
module are one *stay*; a *return* is a stay in a module that the walk had left. Later calls of the same function are not counted, so that loops
do not lengthen a walk. Functions of ``periplus.base`` are left out unless ``with_base`` is set: everything calls them.
"""

from __future__ import annotations

__all__ = ["OPERATIONS", "Stay", "Walk", "main", "walked"]

import argparse
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from types import CodeType, FrameType
from typing import Final, NamedTuple

from periplus import Writer
from periplus.memory import Memory
from periplus.project import Project

_BASE: Final = "periplus.base"
_DOCTEST_SESSION: Final = "walks"


class Stay(NamedTuple):
    """Consecutive first calls within one module, as qualified names without the module."""

    module: str
    functions: tuple[str, ...]


class Walk(NamedTuple):
    """What one operation called, in order."""

    operation: str
    stays: tuple[Stay, ...]

    @property
    def modules(self) -> int:
        return len({stay.module for stay in self.stays})

    @property
    def returns(self) -> int:
        return len(self.stays) - self.modules

    @property
    def functions(self) -> int:
        return sum(len(stay.functions) for stay in self.stays)


def walked(operation: str, folder: str, *, with_base: bool = False) -> Walk:
    """Run ``operation`` (a key of ``OPERATIONS``) in a new project below ``folder`` and return its walk.

    The operation runs once before, on the same store, so that imports and a first filling of the index are no part of the walk.
    """
    with OPERATIONS[operation](folder) as run:
        run(0)
        seen: dict[CodeType, None] = {}
        modules: dict[CodeType, str] = {}

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code not in seen:
                seen[frame.f_code] = None
                modules[frame.f_code] = frame.f_globals.get("__name__", "")

        sys.setprofile(note)
        try:
            run(1)
        finally:
            sys.setprofile(None)
    stays: list[tuple[str, list[str]]] = []
    for code in seen:
        module = modules[code]
        if (
            not module.startswith("periplus.")
            or code.co_name.startswith("<")
            or (not with_base and module.startswith(_BASE))
        ):
            continue
        if not stays or stays[-1][0] != module:
            stays.append((module, []))
        stays[-1][1].append(code.co_qualname)
    return Walk(operation, tuple(Stay(module, tuple(names)) for module, names in stays))


@contextmanager
def _project(folder: str) -> Iterator[Project]:
    top = os.path.join(folder, "shop")
    os.makedirs(top)
    Project.init(top)
    with Project.open(top, Writer.named("walks")) as project:
        for number in range(3):
            project.remember(Memory("lesson", f"Lesson {number}: passwords are hashed with argon2"))
        yield project


@contextmanager
def _remember(folder: str) -> Iterator[Callable[[int], object]]:
    with _project(folder) as project:
        yield lambda turn: project.remember(
            Memory("decision", f"Decision {turn} is about the parser", tags=("parser",))
        )


@contextmanager
def _recall(folder: str) -> Iterator[Callable[[int], object]]:
    with _project(folder) as project:
        project.look()  # for edits of others: else the walk has a look in it, or not, by how long the machine took until here
        yield lambda _: project.recall("how are passwords hashed?")


@contextmanager
def _import(folder: str) -> Iterator[Callable[[int], object]]:
    def session(turn: int) -> str:
        path = os.path.join(folder, f"session-{turn}.jsonl")
        common = {"sessionId": f"s{turn}", "cwd": folder, "version": "2.0", "timestamp": "2026-11-01T10:00:00.000Z"}
        lines = [
            {"type": "user", "uuid": f"u{turn}", "message": {"role": "user", "content": "List the files."}, **common},
            {"type": "assistant", "uuid": f"a{turn}", "message": {"role": "assistant", "model": "m", "content": [
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]}, **common},
            {"type": "user", "uuid": f"r{turn}", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]}, **common},
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return path

    with _project(folder) as project:
        yield lambda turn: project.import_transcripts(session(turn))


@contextmanager
def _turn(folder: str) -> Iterator[Callable[[int], object]]:
    from bench.agent_tape import EditingSession

    session = EditingSession(folder)
    try:
        yield lambda _: session.run(1)
    finally:
        session.close()


@contextmanager
def _sync(folder: str) -> Iterator[Callable[[int], object]]:
    where = os.path.join(folder, "exchange")
    os.makedirs(where)
    with _project(folder) as project:

        def run(turn: int) -> object:
            project.remember(Memory("lesson", f"Sync {turn} follows"))
            return project.sync(where, cwd=folder, environment={"PATH": os.environ.get("PATH", os.defpath)})

        yield run


@contextmanager
def _hook(folder: str) -> Iterator[Callable[[int], object]]:
    from periplus.cli.main import main as command

    with _project(folder) as project:
        top = project.work.top or folder
    with open(os.path.join(top, "a.py"), "w", encoding="utf-8") as file:
        file.write("x = 1\n")

    def run(_: int) -> object:
        event = {"session_id": _DOCTEST_SESSION, "hook_event_name": "PreToolUse", "tool_name": "Read",
                 "tool_input": {"file_path": os.path.join(top, "a.py")}, "cwd": top}  # fmt: skip
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(json.dumps(event).encode()))
        try:
            with redirect_stdout(io.StringIO()):
                return command(["hook", "PreToolUse", "--store", top])
        finally:
            sys.stdin = before

    yield run


OPERATIONS: Final = {
    "remember": _remember,
    "recall": _recall,
    "import": _import,
    "turn": _turn,
    "sync": _sync,
    "hook": _hook,
}


def main(argv: list[str] | None = None) -> int:
    """Print the walks, as a table or with every function."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.walks", description="The way of six operations through the modules."
    )
    parser.add_argument("operation", nargs="*", choices=[*OPERATIONS, []], help="which walks (default: all)")
    parser.add_argument("--functions", action="store_true", help="name each function")
    parser.add_argument("--with-base", action="store_true", help="count functions of periplus.base, too")
    asked = parser.parse_args(argv)
    print(f"{'walk':10}{'functions':>10}{'stays':>7}{'modules':>9}{'returns':>9}")
    for operation in asked.operation or OPERATIONS:
        with tempfile.TemporaryDirectory() as folder:
            walk = walked(operation, os.path.realpath(folder), with_base=asked.with_base)
        print(f"{operation:10}{walk.functions:10}{len(walk.stays):7}{walk.modules:9}{walk.returns:9}")
        if asked.functions:
            for number, stay in enumerate(walk.stays, 1):
                print(f"  {number:3} {stay.module.removeprefix('periplus.')}: {', '.join(stay.functions)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
