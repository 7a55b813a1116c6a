"""Importing a session of Claude Code, beside nothing but the parsing of its JSON; each in a process of its own."""

from __future__ import annotations

__all__ = ["measure"]

import os
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import run_child
from bench.samples import session_file
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import create_store

_SIZE_BYTES: Final = 20_000_000
_MB: Final = 1e6


def measure(bench: Bench) -> Iterator[Row]:
    session = session_file(bench.folder, bench.size(_SIZE_BYTES, 400_000))
    bench.say(f"{session.size_bytes / _MB:.1f} MB: {session.source}")
    numbers = count()

    def into_a_store() -> dict[str, Any]:
        root = os.path.join(bench.folder, f"store{next(numbers)}", ".periplus")
        create_store(root, Files(), SystemClock())
        os.sync()
        return run_child("store", session.path, root)

    found = in_turn(
        bench.size(3, 1),
        {
            "trail": lambda: run_child("trail", session.path),
            "orjson": lambda: run_child("orjson", session.path),
            "json": lambda: run_child("json", session.path),
            "store": into_a_store,
        },
        collect=False,
    )
    rates = {name: figure([session.size_bytes / _MB / one["wall_s"] for one in found[name]]) for name in found}
    peaks = {name: figure([one["peak_bytes"] / _MB for one in found[name]]) for name in found}
    for ours, what in (("trail", "import to a trail"), ("store", "import into a store, indexed")):
        for other, name in (("orjson", "orjson.loads, each line"), ("json", "json.loads, each line")):
            yield row("import", what, "MB/s", rates[ours], name, rates[other], better="higher")
        yield row("import", f"{what}, peak memory", "MB", peaks[ours], "orjson.loads, each line", peaks["orjson"])
