"""Memory of verifying and listing a very long trail, beyond the file itself: it is bounded by the strings, not the steps.

Each in a process of its own; what a process that only reads the file needs is taken off.
"""

from __future__ import annotations

__all__ = ["measure"]

import os
from collections.abc import Iterator
from typing import Final

from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import run_child
from periplus.trail import Digest, Header, TrailBuilder

_MB: Final = 1e6
_LEAST_MB: Final = 0.004  # a page: less cannot be told
_STRINGS: Final = 1_000


def measure(bench: Bench) -> Iterator[Row]:
    count = 1_000_000 if bench.is_full else bench.size(200_000, 2_000)
    path = os.path.join(bench.folder, "long.trail")
    with open(path, "wb") as file:
        file.write(_long_trail(count))
    size = os.path.getsize(path)
    bench.say(f"{count:,} steps of {_STRINGS:,} strings, {size / _MB:.1f} MB")
    works = ("read", "verify", "list", "hold")
    found = in_turn(
        bench.size(3, 1),
        {work: lambda work=work: run_child(f"trail-{work}", path) for work in works},
        collect=False,
    )
    bare = min(one["peak_bytes"] for one in found["read"])
    beyond = {
        work: figure([max((one["peak_bytes"] - bare) / _MB, _LEAST_MB) for one in found[work]]) for work in works[1:]
    }
    speed = {work: figure([count / one["wall_s"] for one in found[work]]) for work in works[1:]}
    for work, what in (("verify", "verified"), ("list", "listed, compact")):
        yield row(
            "scale", f"{what}, memory beyond the file", "MB", beyond[work], "all steps as objects", beyond["hold"]
        )
        yield row("scale", what, "steps/s", speed[work], "all steps as objects", speed["hold"], better="higher")


def _long_trail(count: int) -> bytes:
    builder = TrailBuilder(bytes(32))
    paths = [f"src/part_{number}/module.py" for number in range(_STRINGS)]
    results = [Digest("sha256", number.to_bytes(32, "big")) for number in range(100)]
    for number in range(count):
        builder.add(
            "FILE_READ",
            paths[number * 7 % _STRINGS],
            at_ms=1_767_225_600_000 + 40 * number,
            duration_ms=number % 90,
            result=results[number % 100],
            result_size=number % 5_000,
            source=number + 1,
        )
    return builder.finish(Header("bench", "long"))
