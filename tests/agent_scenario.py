"""The table of scenarios: each row names what must hold, and is a function over a scene, or points to a test that shows it elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Scenario(NamedTuple):
    """``wire``: the wire format of the provider that it speaks with. ``test``: the id of the test that shows it, where that is elsewhere."""

    name: str
    holds: str
    run: Callable | None = None
    wire: str = ""
    test: str = ""


SCENARIOS: dict[str, Scenario] = {}


def scenario(holds, wire=""):
    """A row: the function's name, said with blanks, is that of the scenario."""

    def add(run):
        _add(Scenario(run.__name__.replace("_", " "), holds, run, wire))
        return run

    return add


def shown_by(name, holds, test, wire=""):
    """A row that a test elsewhere shows: ``test`` is its id, as ``file::function``."""
    _add(Scenario(name, holds, None, wire, test))


def _add(row):
    assert row.name not in SCENARIOS, row.name
    SCENARIOS[row.name] = row
