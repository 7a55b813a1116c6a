"""JSON documents of claims and of ``check``. Agents load this module at every edit, so it imports nothing else."""

from __future__ import annotations

__all__ = ["CheckOut", "CheckedClaimOut", "ClaimListOut", "ClaimOut", "ClaimTakenOut", "DependentsOut", "RuleOut"]

import msgspec


class ClaimOut(msgspec.Struct):
    """``mode`` is exclusive or shared. ``own``: the claim belongs to the caller. ``session`` and ``step`` are ids, or empty. ``lines`` has
    for each scope the first and the last line of its symbol now; null where it names none, or none that is known.
    """

    id: str
    mode: str
    scopes: list[str]
    holder: str
    own: bool
    text: str
    session: str
    step: str
    created: str
    expires: str
    lines: list[list[int] | None] = []


class ClaimTakenOut(msgspec.Struct, tag_field="schema", tag="periplus.claim.take/1"):
    """``new`` is false if an own claim covered the paths already and was renewed."""

    claim: ClaimOut
    new: bool
    key: str


class ClaimListOut(msgspec.Struct, tag_field="schema", tag="periplus.claim.list/1"):
    """``waiting`` are writers that wait in line, the first one first."""

    claims: list[ClaimOut]
    waiting: list[ClaimOut] = msgspec.field(default_factory=list)


class CheckedClaimOut(msgspec.Struct):
    path: str
    claim: ClaimOut


class RuleOut(msgspec.Struct):
    """A constraint or trap about ``path``. ``severity`` and ``remedy`` belong to traps; ``check`` is a command. ``moved_from`` is
    the path that it was written for, if that was moved to ``path``.
    """

    path: str
    type: str
    id: str
    text: str
    severity: str
    remedy: str
    check: str
    moved_from: str = ""


class DependentsOut(msgspec.Struct):
    """Symbols that name ``symbol``, ``other_packages`` of them in other packages and ``tests`` in tests; ``calls`` where all of them call it."""

    symbol: str
    dependents: int
    other_packages: int
    tests: int
    calls: bool


class CheckOut(msgspec.Struct, tag_field="schema", tag="periplus.check/1"):
    """``blocked``: somebody else has an exclusive claim on one of ``paths``. ``left_out`` counts rules that are not shown.
    ``outside`` are paths outside of the project. ``dependents`` has at most three symbols, the most used, where the code map is at hand.
    """

    paths: list[str]
    blocked: bool
    claims: list[CheckedClaimOut]
    rules: list[RuleOut]
    left_out: int
    outside: list[str] = []
    dependents: list[DependentsOut] = []
