"""JSON documents of ``related`` and ``changed``."""

from __future__ import annotations

__all__ = ["KNOWING_SCHEMAS", "ChangedFileOut", "ChangedItemOut", "ChangesOut", "LikelyFileOut", "RelatedOut"]

from typing import Final

import msgspec

from periplus.cli.common.schemas import HitOut


class LikelyFileOut(msgspec.Struct):
    """``source`` is the trail, or step ``trail#index``, that is the strongest evidence; empty if only the path is."""

    path: str
    score: int
    why: list[str]
    source: str


class RelatedOut(msgspec.Struct, tag_field="schema", tag="periplus.related/1"):
    """Each list starts with the likeliest entry. ``left_out`` counts entries beyond the limit or the budget.
    ``tests`` name what the files define (those of the task's likeliest files, where none are given), ``commands`` run them: where the code map
    is at hand.
    """

    paths: list[str]
    task: str
    files: list[LikelyFileOut]
    memory: list[HitOut]
    work: list[HitOut]
    left_out: int
    tests: list[str] = []
    commands: list[str] = []


class ChangedItemOut(msgspec.Struct):
    """The current state of an entity. ``what`` is ``created``, ``changed``, ``ended`` or ``deleted``; ``records`` counts the
    records of the change.
    """

    type: str
    id: str
    what: str
    state: str
    text: str
    by: list[str]
    ts: str
    records: int
    more: str


class ChangedFileOut(msgspec.Struct):
    """A file touched by ``times`` sessions or commits; ``source`` is the last of them."""

    path: str
    source: str
    ts: str
    times: int


class ChangesOut(msgspec.Struct, tag_field="schema", tag="periplus.changes/1"):
    """``since`` is the starting point as text: record ``since_seq`` of this lineage, time ``since_ts`` for others."""

    since: str
    since_seq: int
    since_ts: str
    items: list[ChangedItemOut]
    files: list[ChangedFileOut]
    matched: int
    left_out: int


KNOWING_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"related": RelatedOut, "changed": ChangesOut}
