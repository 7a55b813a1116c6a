"""Evidence for gates: artifacts that agents handed in, and what the supervisor ran and looked at itself."""

from __future__ import annotations

__all__ = ["Changed", "CommandRun", "Evidence", "Handed", "Place", "is_in_trace", "trace_places"]

import re
from typing import Final, NamedTuple

from periplus.dispatch.loops.artifacts import Artifact

NEAR_LINES: Final = 20
"""A trace names the line of a call; the cause stands in the same function, mostly within this many lines."""
_TRACE_MAX: Final = 1_000_000
_SIGN: Final = r"[^\s:\"'()\[\],<>]"
_TRACE: Final = re.compile(
    rf"File \"(?P<python>[^\"\n]{{1,400}})\", line (?P<python_line>[0-9]{{1,8}})"
    rf"|(?<!{_SIGN})(?P<path>(?>{_SIGN}{{1,400}}))(?::|\()(?P<line>[0-9]{{1,8}})(?=[:,)\]\s]|$)",
    re.MULTILINE,
)


class Handed(NamedTuple):
    """An artifact of a phase, parsed by ``parse_artifact`` or ``review_of``. ``agent`` names who handed it in: two sessions of one program
    that know nothing of each other are two agents.
    """

    phase: str
    agent: str
    artifact: Artifact


class CommandRun(NamedTuple):
    """A command that the supervisor ran in a phase, on the commit ``tip``; ``exit_code`` None where it was stopped at its limit."""

    phase: str
    argv: tuple[str, ...]
    exit_code: int | None
    output: str = ""
    tip: str = ""


class Place(NamedTuple):
    """A place that the supervisor looked for in the worktree."""

    path: str
    line: int
    exists: bool


class Changed(NamedTuple):
    """Lines of a file that the diff under discussion added or changed, both inclusive; ``first`` 0 for a file without lines."""

    path: str
    first: int
    last: int


class Evidence(NamedTuple):
    """All evidence of a loop so far. ``changed`` is its diff; ``oracle`` the plan's check, empty where there is none; ``author`` the agent
    whose work is reviewed; ``agents`` the number of agents apart that were asked for, 0 for that of the table. ``tip`` is the commit that
    stands now, ``tip_before`` the one with which the phase began. Artifacts are in the order in which they were handed in.
    """

    artifacts: tuple[Handed, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    places: tuple[Place, ...] = ()
    changed: tuple[Changed, ...] = ()
    oracle: tuple[str, ...] = ()
    author: str = ""
    agents: int = 0
    tip: str = ""
    tip_before: str = ""

    def has_place(self, path: str, line: int) -> bool:
        return Place(path, line, exists=True) in self.places

    def ran(self, phase: str, argv: tuple[str, ...]) -> CommandRun | None:
        """Return the last run of a command in a phase."""
        return next((one for one in reversed(self.commands) if one.phase == phase and one.argv == argv), None)

    def is_changed(self, path: str, line: int) -> bool:
        return any(one.path == path and one.first <= line <= one.last for one in self.changed)


def trace_places(output: str) -> frozenset[tuple[str, int]]:
    """Return the places that a command's output names, as compilers, test runners and interpreters write them."""
    found = set()
    for match in _TRACE.finditer(output[-_TRACE_MAX:]):
        path, line = match["python"] or match["path"], match["python_line"] or match["line"]
        found.add((path.removeprefix("./"), int(line)))
    return frozenset(found)


def is_in_trace(output: str, path: str, line: int) -> bool:
    """Test whether a trace passes the file close to the line. A trace may name the file by a longer path, or by its base name only."""
    return any(_is_same(named, path) and abs(at - line) <= NEAR_LINES for named, at in trace_places(output))


def _is_same(named: str, path: str) -> bool:
    return named == path or named.endswith(f"/{path}") or ("/" not in named and path.endswith(f"/{named}"))
