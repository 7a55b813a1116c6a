"""The interface of a world: one method for each kind of step, whose result is a ``StepResult``.

A world receives local paths and checks them itself; no text of a step becomes an option or, except the text of a
command, input of a shell. A step that reaches beyond a folder of files (models, the web, other agents, remotes) is not
repeated: ``observe`` receives it and performs nothing.
"""

from __future__ import annotations

__all__ = ["PERFORMED", "DryWorld", "World", "judge_pattern", "perform"]

from collections.abc import Callable
from typing import Final, Protocol

from periplus.base.errors import ConfinementError
from periplus.base.filesystem.confined_folder import judge_path
from periplus.trail.model import Digest
from periplus.trail.replay.capability import Action, CommandForm
from periplus.trail.replay.values import EVERY, Call, Fate, FileKind, ReadContent, StepResult


class World(Protocol):
    """Methods return a StepResult for every request, refusals included; they raise only when the machine fails."""

    name: str
    reaches: frozenset[Action]
    """What of the actions every command of this world can do, so that it cannot be judged step by step: the network."""

    def read_file(self, path: str, lines: str) -> StepResult: ...
    def write_file(self, path: str, content: Digest, kind: FileKind = "kept") -> StepResult: ...
    def edit_file(self, path: str, old: str, new: str, *, is_every: bool) -> StepResult: ...
    def delete_file(self, path: str) -> StepResult: ...
    def move_file(self, source: str, target: str) -> StepResult: ...
    def list_files(self, path: str) -> StepResult: ...
    def search(self, pattern: str, path: str) -> StepResult: ...
    def run_command(self, command: str, cwd: str, form: CommandForm) -> StepResult: ...
    def run_tests(self, target: str, command: str, expected: int | None, form: CommandForm) -> StepResult: ...
    def commit(self, message: str, commit: Digest | None) -> StepResult: ...
    def checkpoint(self, state: Digest) -> StepResult: ...

    def take_over(self, state: Digest) -> StepResult:
        """Make the files those of a commit, which a checkout or a merge made, not a step."""
        ...

    def observe(self, call: Call) -> StepResult: ...

    def foresee(self, call: Call) -> dict[str, str]:
        """Return the changes that a call is about to make, as names and values from which ``fate`` can tell whether
        they happened.
        """
        ...

    def fate(self, call: Call, foreseen: dict[str, str]) -> Fate:
        """Return whether a call with an intent and no outcome was carried out."""
        ...

    def recall(self, call: Call) -> StepResult:
        """Return the StepResult of a call that ``fate`` reports as done."""
        ...


def perform(world: World, call: Call, form: CommandForm) -> StepResult:
    """Pass the call to the method of its kind."""
    method = _METHODS.get(call.op)
    return method(world, call, form) if method is not None else world.observe(call)


def _write(world: World, call: Call, _form: CommandForm) -> StepResult:
    content = call.digest(1)
    assert content is not None  # the reader checked the table, and a withheld operand is skipped before
    return world.write_file(call.text(0), content, call.kind)


def _checkpoint(world: World, call: Call, _form: CommandForm) -> StepResult:
    state = call.digest(0)
    assert state is not None
    return world.take_over(state) if call.is_taking_over else world.checkpoint(state)


_METHODS: Final[dict[str, Callable[[World, Call, CommandForm], StepResult]]] = {
    "FILE_READ": lambda world, call, _: world.read_file(call.text(0), call.text(1)),
    "FILE_WRITE": _write,
    "FILE_EDIT": lambda world, call, _: world.edit_file(
        call.text(0), call.text(1), call.text(2), is_every=EVERY in call.notes
    ),
    "FILE_DELETE": lambda world, call, _: world.delete_file(call.text(0)),
    "FILE_MOVE": lambda world, call, _: world.move_file(call.text(0), call.text(1)),
    "FILE_LIST": lambda world, call, _: world.list_files(call.text(0)),
    "SEARCH_CODE": lambda world, call, _: world.search(call.text(0), call.text(1) or "."),
    "COMMAND_RUN": lambda world, call, form: world.run_command(call.text(0), call.text(1) or ".", form),
    "TEST_RUN": lambda world, call, form: world.run_tests(call.text(0), call.note, call.number(1), form),
    "GIT_COMMIT": lambda world, call, _: world.commit(call.text(1), call.digest(2)),
    "CHECKPOINT": _checkpoint,
}


PERFORMED: Final = frozenset(_METHODS)  # opcodes that a world carries out; it only observes others


def judge_pattern(path: str) -> tuple[str, ...]:
    """Check a path like ``judge_path``; it may contain ``*`` and ``?``."""
    judge_path(path.replace("*", "x").replace("?", "x"))
    return tuple(name for name in path.split("/") if name != ".")


class DryWorld:
    """Report what would happen and do nothing. Paths are checked as in a folder; the files are unknown."""

    name = "dry"
    reaches: frozenset[Action] = frozenset()

    def __init__(self, read_content: ReadContent) -> None:
        self._read_content = read_content

    def read_file(self, path: str, lines: str) -> StepResult:
        return _would(f"read {path}" + (f", lines {lines}" if lines else ""), path)

    def write_file(self, path: str, content: Digest, kind: FileKind = "kept") -> StepResult:
        if kind in ("link", "submodule"):
            return _would(f"note {path}, a {kind}, which a replay does not create", path)
        data = self._read_content(content)
        size = f"{len(data):,} bytes" if data is not None else "bytes that are not available"
        return _would(f"write {path}: {size}", path)

    def edit_file(self, path: str, old: str, new: str, *, is_every: bool) -> StepResult:
        places = "every occurrence of " if is_every else ""
        return _would(f"edit {path}: {places}{_lines(old)} by {_lines(new)}", path)

    def delete_file(self, path: str) -> StepResult:
        return _would(f"delete {path}", path)

    def move_file(self, source: str, target: str) -> StepResult:
        return _would(f"move {source} to {target}", source, target)

    def list_files(self, path: str) -> StepResult:
        try:
            judge_pattern(path)
        except ConfinementError as error:
            return StepResult.denied(str(error))
        return _would(f"list {path}")

    def search(self, pattern: str, path: str) -> StepResult:
        return _would(f"search {path} for {pattern}", path)

    def run_command(self, command: str, cwd: str, form: CommandForm) -> StepResult:
        return _would(f"run {'by a shell' if form == 'shell' else 'without a shell'}: {command}", cwd)

    def run_tests(self, target: str, command: str, expected: int | None, form: CommandForm) -> StepResult:
        del form
        counted = f", expecting {expected:,} to pass" if expected is not None else ""
        return _would(f"run the tests {target}{counted}" + (f": {command}" if command else ""))

    def commit(self, message: str, commit: Digest | None) -> StepResult:
        del commit
        return _would(f"commit all changes: {message}")

    def checkpoint(self, state: Digest) -> StepResult:
        return _would(f"compare all files with {state.value.hex()[:12]}")

    def take_over(self, state: Digest) -> StepResult:
        return _would(f"take over the files of {state.value.hex()[:12]}")

    def observe(self, call: Call) -> StepResult:
        del call
        return StepResult.skipped("a replay never performs it")

    def foresee(self, call: Call) -> dict[str, str]:
        del call
        return {}

    def fate(self, call: Call, foreseen: dict[str, str]) -> Fate:
        del call, foreseen
        return "not_done"

    def recall(self, call: Call) -> StepResult:
        raise AssertionError(call)  # this world never does anything


def _would(what: str, *paths: str) -> StepResult:
    for path in paths:
        try:
            judge_path(path)
        except ConfinementError as error:
            return StepResult.denied(str(error))
    return StepResult("would", "unknown", detail=f"would {what}")


def _lines(text: str) -> str:
    count = text.count("\n") + bool(text and not text.endswith("\n"))
    return f"{count:,} line{'s' * (count != 1)}"
