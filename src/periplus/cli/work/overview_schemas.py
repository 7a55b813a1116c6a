"""The JSON document of ``periplus`` alone."""

from __future__ import annotations

__all__ = ["OVERVIEW_SCHEMAS", "GroupOut", "NextOut", "OverviewItemOut", "OverviewOut", "PlanProgressOut"]

from typing import Final

import msgspec

from periplus.cli.common.dispatch_schemas import DispatchProgressOut


class OverviewItemOut(msgspec.Struct):
    """``text`` is one line, perhaps cut; ``note`` says who sent it or why it waits; ``command`` is what to type for it."""

    type: str
    id: str
    text: str
    note: str
    command: str


class GroupOut(msgspec.Struct):
    """``count`` is the number of all; ``more`` is true if counting ended before all were counted. ``first`` are the first few,
    ``command`` lists all.
    """

    count: int
    more: bool
    first: list[OverviewItemOut]
    command: str


class PlanProgressOut(msgspec.Struct):
    id: str
    text: str
    done: int
    steps: int


class NextOut(msgspec.Struct):
    command: str
    reason: str


class OverviewOut(msgspec.Struct, tag_field="schema", tag="periplus.overview/1"):
    """``root`` is empty where no store is found: then only ``next`` says how to begin. ``waiting`` is true if a person has
    something to decide: ``questions`` to ``review``, or ``damage``. ``changes`` are those of others since ``looked``, the last
    time that ``periplus`` alone was called at a terminal under this name; the newest if ``looked`` is empty.
    """

    root: str
    name: str
    records: int
    damage: str
    waiting: bool
    next: list[NextOut]
    questions: GroupOut
    mail: GroupOut
    conflicts: GroupOut
    handoffs: GroupOut
    candidates: GroupOut
    skills: GroupOut
    review: GroupOut
    present: GroupOut
    claims: GroupOut
    at_work: GroupOut
    doing: GroupOut
    ready: GroupOut
    plans_open: GroupOut
    plans: list[PlanProgressOut]
    dispatches: list[DispatchProgressOut]
    changes: GroupOut
    looked: str


OVERVIEW_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"periplus alone": OverviewOut}
