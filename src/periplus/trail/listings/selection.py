"""Selection of steps by number, opcode, outcome and path, with counts of the steps left out and the reason."""

from __future__ import annotations

__all__ = ["GLOB_CHARS_MAX", "Selection", "Sieve", "path_matcher", "paths_of"]

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.base.text.path_globs import names_match
from periplus.trail.model import Step
from periplus.trail.opcodes import BY_CODE

GLOB_CHARS_MAX: Final = 1_000
_PATH_PLACES: Final = {
    opcode.code: tuple(place for place, operand in enumerate(opcode.operands) if operand.kind == "path")
    for opcode in BY_CODE.values()
}


class Selection(NamedTuple):
    """The filters; None matches everything. ``first`` and ``end`` are like a Python slice, from 0 and half open."""

    first: int | None = None
    end: int | None = None
    opcodes: frozenset[int] | None = None
    outcomes: frozenset[str] | None = None
    paths: tuple[str, ...] = ()

    @property
    def is_choosy(self) -> bool:
        return self != Selection()


class Sieve:
    """Apply a selection to one trail of ``step_count`` steps. Raises UsageError for a glob that is too long."""

    def __init__(self, selection: Selection, step_count: int) -> None:
        self.selection = selection
        self.is_choosy = selection.is_choosy
        self.shown = 0
        self._step_count = step_count
        self._first, self._end, _ = slice(selection.first, selection.end).indices(step_count)
        self._matchers = tuple(path_matcher(glob) for glob in selection.paths)
        self._hidden = {"range": 0, "op": 0, "outcome": 0, "path": 0}
        self._seen = 0

    @classmethod
    def of_all(cls, step_count: int) -> Sieve:
        return cls(Selection(), step_count)

    def is_behind(self, index: int) -> bool:
        """Return whether neither step ``index`` nor any later one is selected."""
        return index >= self._end

    def is_in_range(self, index: int) -> bool:
        return self._first <= index < self._end

    def takes(self, index: int, step: Step) -> bool:
        """Return whether the step is selected, and count it."""
        self._seen += 1
        reason = self._reason(index, step) if self.is_choosy else ""
        if reason:
            self._hidden[reason] += 1
            return False
        self.shown += 1
        return True

    def hidden(self) -> dict[str, int]:
        """Return the number of steps left out by each filter, the first that refused; steps behind the range included."""
        return {**self._hidden, "range": self._hidden["range"] + self._step_count - self._seen}

    def told(self) -> str:
        """Return a line such as ``12 of 345 steps; left out 300 by --op, 33 by --steps``."""
        names = {"range": "--steps", "op": "--op", "outcome": "--outcome", "path": "--path"}
        parts = [f"{count:,} by {names[reason]}" for reason, count in self.hidden().items() if count]
        return f"{self.shown:,} of {self._step_count:,} steps" + ("; left out " * bool(parts)) + ", ".join(parts)

    def _reason(self, index: int, step: Step) -> str:
        wanted = self.selection
        if not self.is_in_range(index):
            return "range"
        if wanted.opcodes is not None and step.code not in wanted.opcodes:
            return "op"
        if wanted.outcomes is not None and step.outcome not in wanted.outcomes:
            return "outcome"
        if self._matchers and not any(match(path) for path in paths_of(step) for match in self._matchers):
            return "path"
        return ""


def paths_of(step: Step) -> Iterator[str]:
    """Yield the available operands of the kind ``path``."""
    for place in _PATH_PLACES.get(step.code, ()):
        value = step.operands[place] if place < len(step.operands) else None
        if isinstance(value, str):
            yield value


def path_matcher(glob: str) -> Callable[[str], bool]:
    """Return a function that tells whether a path matches ``glob``, in time bounded by the product of their lengths.

    ``*`` and ``?`` stay within a name, ``**`` stands for any folders, ``[…]`` for one of several characters. A glob
    that begins with ``/`` matches the whole path, any other the end of a path, from the beginning of a name:
    ``auth.py`` matches ``/src/auth.py``. One that ends in ``/`` matches everything below that folder.
    """
    if not 0 < len(glob) <= GLOB_CHARS_MAX:
        raise UsageError(
            f"a path pattern has 1 to {GLOB_CHARS_MAX:,} characters, not {len(glob):,}", mend="Write it shorter."
        )
    names = [name for name in glob.split("/") if name not in ("", ".")]
    if glob.endswith("/"):
        names.append("**")
    if not glob.startswith("/"):
        names.insert(0, "**")

    def match(path: str) -> bool:
        return names_match([name for name in path.split("/") if name not in ("", ".")], names)

    return match
