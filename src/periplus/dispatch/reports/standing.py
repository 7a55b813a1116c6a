"""Standing of agents: how their work on past steps turned out, by kind of step, from records and git alone.

An attempt counts for the agent that made it. What follows after the merge counts too: a commit that says that it reverts the merged one,
or another assignment that was integrated for the same step, within 14 days.
"""

from __future__ import annotations

__all__ = ["REVIEWER", "UNDONE_WITHIN_MS", "Standing", "by_standing", "standings"]

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from periplus.base.clock import parse_ms
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.reports.stored import assignment_of
from periplus.interop.git_history.git_process import run_git
from periplus.journal import Journal
from periplus.memory.entities.schemas import Assignment, Attempt

UNDONE_WITHIN_MS: Final = 14 * 86_400_000
REVIEWER: Final = "reviewer"
_REVERTS: Final = re.compile(rb"This reverts commit ([0-9a-f]{7,64})")
_PASSED: Final = frozenset({"verified", "reviewed", "integrated"})
_LEFT: Final = frozenset({"failed", "timed_out"})
_COMMITS_MAX: Final = "100000"
_BEYOND: Final = "\x1f"


class Standing(NamedTuple):
    """Work of one agent on steps of one kind. ``at_first`` passed its oracle at the first submission, ``rounds`` are returns to the author.

    ``undone`` were reverted or redone within 14 days after they were integrated. Reviews are a kind of their own, of which only runs,
    tokens, money and time are counted. ``cost`` is in millionths of a dollar.
    """

    agent: str
    kind: str
    steps: int = 0
    at_first: int = 0
    verified: int = 0
    rounds: int = 0
    integrated: int = 0
    undone: int = 0
    failed: int = 0
    runs: int = 0
    tokens: int = 0
    cost: int = 0
    wall_ms: int = 0


def standings(journal: Journal, repository: str) -> list[Standing]:
    """Return the standing of each agent, by name and kind; ``repository`` is the folder of the project's git, empty without."""
    journal.refresh()
    held = [assignment_of(one.value) for one in journal.entities("assignment")]
    merged = {commit: _time_ms(one) for one in held if one.merged for commit in (one.tip, one.merged) if commit}
    reverted = _reverted(repository, merged) if repository and merged else frozenset()
    redone = _redone(held)
    found: dict[tuple[str, str], Standing] = {}

    def add(agent: str, kind: str, **more: int) -> None:
        if agent:
            before = found.get((agent, kind), Standing(agent, kind))
            found[agent, kind] = before._replace(
                **{name: getattr(before, name) + count for name, count in more.items()}
            )

    for at, one in enumerate(held):
        _count(one, add, is_undone=at in redone or not reverted.isdisjoint({one.merged, one.tip}))
    return [found[key] for key in sorted(found)]


def by_standing(found: Sequence[Standing], agents: Sequence[str], kind: str) -> list[str]:
    """Return agents in the order of their standing with steps of a kind, the best first; equals keep their order.

    The share of steps that passed at the first submission counts, less those that were undone. Few steps prove little: each
    agent is given one success and one failure more than it had (Laplace's rule of succession).
    """
    held = {one.agent: one for one in found if one.kind == kind}

    def share(agent: str) -> float:
        one = held.get(agent, Standing(agent, kind))
        return (max(0, one.at_first - one.undone) + 1) / (one.steps + 2)

    return sorted(agents, key=lambda agent: -share(agent))


# -- inside ------------------------------------------------------------------------------------------------------------


def _count(one: Assignment, add: Callable[..., None], *, is_undone: bool) -> None:
    by_work = [run for run in one.runs if run.purpose == "work"]
    earlier = dict.fromkeys(run.agent for run in by_work if run.agent != one.agent)
    for agent in earlier:  # a step that another agent has now: these gave it up
        add(agent, one.kind, steps=1, failed=1)
    is_verified = bool(one.verified) or one.state in _PASSED
    is_at_first = is_verified and one.attempt <= 1 and not any(back.why in ("oracle", "result") for back in one.returns)
    if by_work or one.state == "integrated":
        add(
            one.agent, one.kind, steps=1, at_first=int(is_at_first), verified=int(is_verified), rounds=len(one.returns),
            integrated=int(one.state == "integrated"), undone=int(is_undone), failed=int(one.state in _LEFT),
        )  # fmt: skip
    for run in one.runs:
        if run.purpose in ("work", "review"):
            add(run.agent, REVIEWER if run.purpose == "review" else one.kind, **_spent(run))


def _spent(run: Attempt) -> dict[str, int]:
    return {"runs": 1, "tokens": run.tokens_in + run.cached + run.out, "cost": run.cost, "wall_ms": run.wall_ms}


def _time_ms(one: Assignment) -> int:
    """Return the time at which an assignment was integrated, as near as records tell."""
    return parse_ms(one.updated) or 0


def _redone(held: list[Assignment]) -> frozenset[int]:
    """Return the places of assignments whose step another one was integrated for, later and within 14 days."""
    found = set()
    by_step: dict[str, list[tuple[int, int]]] = {}
    for at, one in enumerate(held):
        if one.state == "integrated" and one.step:
            by_step.setdefault(one.step, []).append((_time_ms(one), at))
    for times in by_step.values():
        times.sort()
        for (time_ms, at), (next_ms, _) in itertools.pairwise(times):
            if next_ms - time_ms <= UNDONE_WITHIN_MS:
                found.add(at)
    return frozenset(found)


def _reverted(repository: str, merged: Mapping[str, int]) -> frozenset[str]:
    """Return those of the commits ``merged``, with their times, that a later commit of any branch says to revert in time."""
    found = set()
    for committed_ms, named in _reverts(repository):
        for commit, time_ms in merged.items():
            if commit.startswith(named) and committed_ms - time_ms <= UNDONE_WITHIN_MS:
                found.add(commit)
    return frozenset(found)


def _reverts(repository: str) -> Iterator[tuple[int, str]]:
    """Yield the time and the reverted commit of each commit that reverts one."""
    done = run_git(
        repository, "log", "--all", f"--max-count={_COMMITS_MAX}", "--grep=This reverts commit", "--fixed-strings", "-z",
        f"--format=%ct{_BEYOND}%B",
    )  # fmt: skip
    if done.returncode:
        return
    for said in done.stdout.split(b"\0"):
        when, _, message = said.partition(_BEYOND.encode())
        if when.isdigit():
            yield from ((int(when) * 1000, name.decode()) for name in _REVERTS.findall(message))
