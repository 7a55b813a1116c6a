"""Importing a session of Claude Code, beside nothing but the parsing of its JSON; each in a process of its own.

The importer is measured in both its forms, plain Python and native.
"""

from __future__ import annotations

__all__ = ["measure"]

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final

from bench.codec import forms
from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import Form, run_child
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

    def into_a_store(form: Form) -> dict[str, Any]:
        root = os.path.join(bench.folder, f"store{next(numbers)}", ".periplus")
        create_store(root, Files(), SystemClock())
        os.sync()
        return run_child("store", session.path, root, form=form)

    sides: dict[str, Callable[[], dict[str, Any]]] = {
        "orjson": lambda: run_child("orjson", session.path),
        "json": lambda: run_child("json", session.path),
    }
    ours: list[tuple[str, str]] = []
    for form in forms(bench):
        suffix = "" if form == "plain" else f", {form}"
        sides[f"import to a trail{suffix}"] = partial(run_child, "trail", session.path, form=form)
        sides[f"import into a store, indexed{suffix}"] = partial(into_a_store, form)
        ours += [("import to a trail", suffix), ("import into a store, indexed", suffix)]
    found = in_turn(bench.size(3, 1), sides, collect=False)
    rates = {name: figure([session.size_bytes / _MB / one["wall_s"] for one in found[name]]) for name in found}
    peaks = {name: figure([one["peak_bytes"] / _MB for one in found[name]]) for name in found}
    for what, suffix in ours:
        side = f"{what}{suffix}"
        for other, name in (("orjson", "orjson.loads, each line"), ("json", "json.loads, each line")):
            yield row("import", side, "MB/s", rates[side], name, rates[other], better="higher")
        peak = f"{what}, peak memory{suffix}"
        yield row("import", peak, "MB", peaks[side], "orjson.loads, each line", peaks["orjson"])
