"""Plugin of pytest for a tree with mutants: selects tests, logs each test, and records what a test reaches.

Each line of the log is a JSON object: ``begin`` at the start of a test, ``id`` at its end, ``file`` for the import of a
test file, ``key`` for a fixture that several tests share. Under pytest-xdist each worker has a log of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

try:
    import mutants_probe as probe
except ImportError:  # a tree that is not instrumented
    probe = None  # type: ignore[assignment]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants-log", help="the folder for the log of each process")
    parser.addoption("--mutants-plan", help="a JSON list of test ids: these only, in this order")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", default=None):
        config.pluginmanager.register(_Log(config))


class _Log:
    def __init__(self, config: pytest.Config) -> None:
        self._path = os.path.join(config.getoption("--mutants-log"), f"{os.getpid()}.jsonl")
        self._plan = config.getoption("--mutants-plan")
        self._count = 0
        self._keys: dict[int, list[str]] = {}  # of the fixtures that are shared
        self._outcome = "passed"

    def _say(self, **row: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    @contextmanager
    def _recording(self, row: dict[str, Any]) -> Iterator[None]:
        """Adds to ``row`` its key, seconds and functions; what was recorded before goes on afterwards."""
        self._count += 1
        row["key"], begun = f"{os.getpid()}.{self._count}", time.perf_counter()
        before, key = (set(probe.REACHED), probe._recorder[1]) if probe else (set(), "")  # noqa: SLF001
        if probe:
            probe.REACHED.clear()
            probe.record(row["key"])
        try:
            yield
        finally:
            row["s"] = round(time.perf_counter() - begun, 4)
            if probe:
                row["functions"] = sorted(probe.REACHED)
                probe.REACHED.clear()
                probe.REACHED.update(before)
                probe.record(key)
            self._say(**row)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._plan:
            with open(self._plan, encoding="utf-8") as file:
                order = {name: number for number, name in enumerate(json.load(file))}
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
            items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        with self._recording({"file": collector.nodeid}):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        row: dict[str, Any] = {"fixture": fixturedef.argname}
        with self._recording(row):
            self._keys.setdefault(id(fixturedef), []).append(row["key"])
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._outcome = "passed"
        self._say(begin=item.nodeid)
        row: dict[str, Any] = {"id": item.nodeid}
        with self._recording(row):
            result = yield
            shared = getattr(item, "_fixtureinfo", None)
            found = [one for several in shared.name2fixturedefs.values() for one in several] if shared else []
            row["fixtures"] = [key for one in found for key in self._keys.get(id(one), ())]
            row["marks"] = sorted({mark.name for mark in item.iter_markers()})
            row["outcome"] = self._outcome
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" and self._outcome != "failed":
            self._outcome = report.outcome
