"""JSON documents of ``review`` and ``probe``."""

from __future__ import annotations

__all__ = ["REVIEW_SCHEMAS", "DueOut", "ProbeOut", "ProbedOut", "ReviewOut"]

from typing import Final

import msgspec


class DueOut(msgspec.Struct):
    """An entity that needs attention. ``stale`` and ``moved`` are sentences, ``expired`` is a time, ``check`` is set if its last
    check failed. ``command`` confirms the entity or settles the problem, ``otherwise`` is an alternative. ``rivals`` are ids of
    entities by which other clones replaced the same entity. ``changed_late`` are fields that ``changed_by`` changed in another
    clone without knowing that the entity was superseded by ``superseded_by``. ``stuck`` says why work cannot be started,
    ``stuck_members`` lists the entities involved. ``in_conflict`` lists fields in conflict. ``unreplaced`` is the state of an
    entity whose replacement no longer exists; ``command`` then restores the entity.
    """

    type: str
    id: str
    text: str
    stale: list[str]
    moved: list[str]
    expired: str
    check: str
    command: str
    rivals: list[str] = []
    changed_late: list[str] = []
    changed_by: list[str] = []
    superseded_by: list[str] = []
    stuck: str = ""
    stuck_members: list[str] = []
    otherwise: str = ""
    in_conflict: list[str] = []
    unreplaced: str = ""


class ReviewOut(msgspec.Struct, tag_field="schema", tag="periplus.review/1"):
    """The most important first. ``cut`` says that older records are missing; failed checks and conflicts in them are not listed."""

    due: list[DueOut]
    cut: bool = False


class ProbedOut(msgspec.Struct):
    """One check. ``run`` is false without consent. ``output`` is the end of its output; ``why`` is empty if it passed."""

    type: str
    id: str
    command: str
    run: bool
    passed: bool
    why: str
    took_ms: int
    output: str


class ProbeOut(msgspec.Struct, tag_field="schema", tag="periplus.probe/1"):
    checks: list[ProbedOut]


REVIEW_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"review": ReviewOut, "probe": ProbeOut}
