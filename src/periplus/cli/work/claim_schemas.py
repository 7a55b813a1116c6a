"""What ``--json`` prints of claims, and of what is to be known of paths: loaded at every edit of an agent. See ``cli.schemas``."""

from __future__ import annotations

__all__ = ["CheckOut", "CheckedClaimOut", "ClaimListOut", "ClaimOut", "ClaimTakenOut", "RuleOut"]

import msgspec


class ClaimOut(msgspec.Struct):
    """``mode`` is exclusive or shared. ``own``: who asks holds it. ``session`` and ``step`` are ids, empty where there is none."""

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


class ClaimTakenOut(msgspec.Struct, tag_field="schema", tag="periplus.claim.take/1"):
    """``new`` is false where a claim of one's own covered it already: it was renewed."""

    claim: ClaimOut
    new: bool
    key: str


class ClaimListOut(msgspec.Struct, tag_field="schema", tag="periplus.claim.list/1"):
    """``waiting`` are those who stand in line, the first first."""

    claims: list[ClaimOut]
    waiting: list[ClaimOut] = msgspec.field(default_factory=list)


class CheckedClaimOut(msgspec.Struct):
    path: str
    claim: ClaimOut


class RuleOut(msgspec.Struct):
    """A constraint or trap about ``path``; ``severity`` and ``remedy`` are a trap's, ``check`` is a command. ``moved_from`` is what it was
    written of, where that moved to ``path`` since.
    """

    path: str
    type: str
    id: str
    text: str
    severity: str
    remedy: str
    check: str
    moved_from: str = ""


class CheckOut(msgspec.Struct, tag_field="schema", tag="periplus.check/1"):
    """``blocked``: an exclusive claim of somebody else covers one of ``paths``. ``left_out`` rules are not shown. Those of ``outside`` lie
    outside of the project.
    """

    paths: list[str]
    blocked: bool
    claims: list[CheckedClaimOut]
    rules: list[RuleOut]
    left_out: int
    outside: list[str] = []
