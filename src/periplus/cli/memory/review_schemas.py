"""What ``--json`` prints of ``review`` and ``probe``. See ``cli.schemas``."""

from __future__ import annotations

__all__ = ["REVIEW_SCHEMAS", "DueOut", "ProbeOut", "ProbedOut", "ReviewOut"]

from typing import Final

import msgspec


class DueOut(msgspec.Struct):
    """Something to look at: ``stale`` and ``moved`` in words, ``expired`` since when, ``check`` where its last run failed; the
    ``command`` to type when it still holds, or that settles it. ``rivals`` are the ids of what other clones put in place of what it
    supersedes. ``changed_late`` are the fields that another clone changed, ``changed_by`` whom, apart from its being superseded by
    ``superseded_by``. ``stuck`` says in words why work cannot be started, ``stuck_members`` names what that is about, ``otherwise`` another way
    to settle it. ``in_conflict`` names fields that are.
    ``superseded_by``. ``unreplaced`` is the state that it is in because something replaced it that is not there any more: ``command`` brings it back.
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
    """The weightiest first. ``cut`` says that records of before are not here, which alone may say that a check failed, or that clones said
    something apart or late.
    """

    due: list[DueOut]
    cut: bool = False


class ProbedOut(msgspec.Struct):
    """A check; ``run`` is false where nobody consented. ``output`` is the end of what it said, ``why`` is empty where it passed."""

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
