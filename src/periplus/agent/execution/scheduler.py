"""Schedule of the calls in one answer: reads in parallel, writes one after another, in order.

A call that only reads may run beside other reads. A call that writes runs alone; one that runs a subagent may run beside reads and other
subagents. Two calls whose accesses overlap, one of them a write, keep their order; a read that overlaps no write need not wait for it. A
call whose accesses are not known overlaps with everything.
"""

from __future__ import annotations

__all__ = ["PARALLEL_MAX", "Wave", "is_bound", "is_read", "meet", "run_wave", "waves"]

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from periplus.agent.contracts import Access

PARALLEL_MAX: Final = 8
_BOUND: Final = frozenset({"memory", "page"})
T = TypeVar("T")


class Wave(NamedTuple):
    """Positions of calls that may run at once: one write, or any number of reads and subagents.

    ``is_read``: all of them only read.
    """

    places: tuple[int, ...]
    is_read: bool


def is_read(accesses: Sequence[Access]) -> bool:
    """Return whether a call with these accesses changes nothing. A call that declares none counts as a write."""
    return bool(accesses) and all(access.mode == "read" for access in accesses)


def meet(one: Access, other: Access) -> bool:
    """Return whether the order of two accesses matters: they touch the same thing, and one of them writes."""
    if one.mode == other.mode == "read":
        return False
    if "*" in (one.resource, other.resource):
        return True
    kind, _, place = one.resource.partition(":")
    other_kind, _, other_place = other.resource.partition(":")
    if kind != other_kind:
        return False
    return kind != "file" or _is_within(place, other_place) or _is_within(other_place, place)


def waves(calls: Sequence[Sequence[Access]]) -> list[Wave]:
    """Group the calls, each a list of its accesses, into waves to run one after another. Every position is in one of them."""
    made: list[tuple[list[int], bool]] = []
    wave_of: list[int] = []
    for place, accesses in enumerate(calls):
        shares = _may_share(accesses)
        earliest = 0
        for before in range(place):
            if _meet_anywhere(calls[before], accesses) or not (_may_share(accesses) or _may_share(calls[before])):
                earliest = max(earliest, wave_of[before] + 1)
        beside = [wave for wave in range(earliest, len(made)) if made[wave][1]] if shares else []
        found = beside[0] if beside else len(made)  # a write comes after all earlier calls
        if found == len(made):
            made.append(([], shares))
        made[found][0].append(place)
        wave_of.append(found)
    return [Wave(tuple(places), all(is_read(calls[place]) for place in places)) for places, _ in made]


def is_bound(accesses: Sequence[Access]) -> bool:
    """Return whether a call with these accesses has to run in the thread of the turn."""
    return any(access.resource.partition(":")[0] in _BOUND for access in accesses)


def run_wave(jobs: Sequence[Callable[[], T]], bound: Sequence[bool] = ()) -> list[T]:
    """Run the jobs and return their results in order. A single job, and those that are ``bound``, run in the caller's thread."""
    free = [place for place in range(len(jobs)) if place >= len(bound) or not bound[place]]
    if len(jobs) == 1 or not free:
        return [job() for job in jobs]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(PARALLEL_MAX, len(free)), "read") as pool:
        futures = {place: pool.submit(jobs[place]) for place in free}
        own = {place: jobs[place]() for place in range(len(jobs)) if place not in futures}
        return [own[place] if place in own else futures[place].result() for place in range(len(jobs))]


def _may_share(accesses: Sequence[Access]) -> bool:
    return is_read(accesses) or any(access.resource.startswith("agent:") for access in accesses)


def _meet_anywhere(some: Sequence[Access], others: Sequence[Access]) -> bool:
    if not some or not others:
        return True
    return any(meet(one, other) for one in some for other in others)


def _is_within(place: str, folder: str) -> bool:
    place, folder = _clean(place), _clean(folder)
    return not folder or place == folder or place.startswith(f"{folder}/")


def _clean(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/".join(parts)
