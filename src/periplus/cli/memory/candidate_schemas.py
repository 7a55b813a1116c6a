"""JSON documents of ``inbox``, ``reflect`` and ``candidates``."""

from __future__ import annotations

__all__ = [
    "INBOX_SCHEMAS",
    "CandidateDecidedOut",
    "CandidateOut",
    "CandidateShownOut",
    "CandidatesOut",
    "DecidedOut",
    "InboxOut",
    "NearOut",
    "ProposedOut",
    "ReflectOut",
    "SeenOut",
    "UnreadTrailOut",
]

from typing import Final

import msgspec

from periplus.cli.common.dispatch_schemas import WaitingQuestionOut
from periplus.cli.common.schemas import SkippedOut


class SeenOut(msgspec.Struct):
    """A step that supports a candidate: trail id, ``#``, index; and its text."""

    ref: str
    quote: str


class CandidateOut(msgspec.Struct):
    """``origin`` is other_project or reflection. For another project, ``type``, ``source_id`` and ``version`` are those of its
    own entity, ``sender`` and ``recipient`` those of a message. For reflection, ``rule``, ``why`` and ``evidence`` are its
    reasons. ``accepted_as`` is the id of the entity in this store.
    """

    id: str
    state: str
    store: str
    lineage: str
    type: str
    source_id: str
    version: str
    text: str
    accepted_as: str
    origin: str = "other_project"
    confidence: int = 100
    rule: str = ""
    why: str = ""
    remedy: str = ""
    reason: str = ""
    about: list[str] = []
    evidence: list[SeenOut] = []
    created: str = ""
    sender: str = ""
    recipient: str = ""


class CandidatesOut(msgspec.Struct, tag_field="schema", tag="periplus.candidates/1"):
    candidates: list[CandidateOut]


class CandidateShownOut(msgspec.Struct, tag_field="schema", tag="periplus.candidates.show/1"):
    candidate: CandidateOut


class CandidateDecidedOut(msgspec.Struct, tag_field="schema", tag="periplus.candidates.decided/1"):
    """``state`` is accepted or rejected; ``id`` is the entity in this store, or the rejected candidate. ``new`` is false if the
    same was known already.
    """

    state: str
    type: str
    id: str
    new: bool


class ProposedOut(msgspec.Struct):
    """A candidate that was written, or with --dry-run would be. ``new`` is false if an open candidate got a higher confidence."""

    id: str
    type: str
    rule: str
    text: str
    why: str
    confidence: int
    remedy: str
    about: list[str]
    evidence: list[SeenOut]
    new: bool
    accepted_as: str


class NearOut(msgspec.Struct):
    """A proposal that was dropped, because ``id`` (memory or a candidate) says nearly the same."""

    text: str
    id: str


class UnreadTrailOut(msgspec.Struct):
    id: str
    wrong: str


class ReflectOut(msgspec.Struct, tag_field="schema", tag="periplus.reflect/1"):
    """``known`` counts proposals that are open or decided already; ``damaged`` are trails that could not be read."""

    dry_run: bool
    trails: int
    candidates: list[ProposedOut]
    known: int
    near: list[NearOut]
    skipped: list[SkippedOut]
    damaged: list[UnreadTrailOut]


class InboxOut(msgspec.Struct, tag_field="schema", tag="periplus.inbox/1"):
    """``questions`` are those that agents ask a person."""

    candidates: list[CandidateOut]
    questions: list[WaitingQuestionOut] = []


class DecidedOut(msgspec.Struct, tag_field="schema", tag="periplus.inbox.decided/1"):
    """``state`` is accepted or rejected; ``id`` is the entity in this store, or the rejected candidate. ``new`` is false if the
    same was known already.
    """

    state: str
    type: str
    id: str
    new: bool


INBOX_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "inbox list": InboxOut,
    "inbox accept, inbox refuse": DecidedOut,
    "reflect": ReflectOut,
    "candidates list": CandidatesOut,
    "candidates show": CandidateShownOut,
    "candidates accept, candidates refuse": CandidateDecidedOut,
}
