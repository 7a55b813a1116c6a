"""What ``--json`` prints of plans, claims, handoffs, mail and sessions. See ``cli.schemas``."""

from __future__ import annotations

__all__ = [
    "WORK_SCHEMAS",
    "HandoffListOut",
    "HandoffOneOut",
    "HandoffOut",
    "MailOut",
    "MessageOut",
    "PlanListOut",
    "PlanMadeOut",
    "PlanNextOut",
    "PlanOut",
    "PlanReadyOut",
    "PlanShowOut",
    "PresentOut",
    "SessionOneOut",
    "SessionOut",
    "StepOut",
    "WhoOut",
]

from typing import Final

import msgspec

from periplus.cli.common.schemas import ChangedOut, StuckOut
from periplus.cli.work.claim_schemas import CheckOut, ClaimListOut, ClaimOut, ClaimTakenOut


class PlanOut(msgspec.Struct):
    """``counts`` are of its steps by state, where they were asked for."""

    id: str
    state: str
    text: str
    priority: int
    rationale: str
    counts: dict[str, int]


class StepOut(msgspec.Struct):
    """``waits_for`` are the ids of what has to be done before and is not; ``place`` is its number in the plan."""

    id: str
    plan: str
    place: int
    state: str
    text: str
    priority: int
    assignee: str
    reason: str
    waits_for: list[str]


class PlanMadeOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.made/1"):
    """``steps`` are those that were written now."""

    plan: PlanOut
    steps: list[StepOut]
    key: str


class PlanListOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.list/1"):
    plans: list[PlanOut]


class PlanShowOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.show/1"):
    plan: PlanOut
    steps: list[StepOut]


class PlanReadyOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.ready/1"):
    """Where nothing can be started, ``left`` counts the open steps by what they wait for, and ``stuck`` is what waits for ever."""

    steps: list[StepOut]
    left: dict[str, int] = {}
    stuck: list[StuckOut] = []


class PlanNextOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.next/1"):
    """The step that was taken, with its claim; null where nothing can be started now, with ``left`` and ``stuck`` as of ``plan ready``."""

    step: StepOut | None
    claim: ClaimOut | None
    key: str
    left: dict[str, int] = {}
    stuck: list[StuckOut] = []


class HandoffOut(msgspec.Struct):
    id: str
    state: str
    text: str
    author: str
    recipient: str
    files: list[str]
    tests: str
    unfinished: list[str]
    plan: str
    trail: str
    accepted_by: str
    created: str


class HandoffOneOut(msgspec.Struct, tag_field="schema", tag="periplus.handoff/1"):
    handoff: HandoffOut


class HandoffListOut(msgspec.Struct, tag_field="schema", tag="periplus.handoff.list/1"):
    handoffs: list[HandoffOut]


class MessageOut(msgspec.Struct):
    """``thread`` is the id of the first message of its thread, ``ref`` of what it is about."""

    id: str
    state: str
    sender: str
    recipient: str
    text: str
    thread: str
    ref: str
    needs_answer: bool
    created: str


class MailOut(msgspec.Struct, tag_field="schema", tag="periplus.inbox.mail/1"):
    """Of ``send`` and ``answer`` the one that was written, of ``read`` its whole thread; oldest first."""

    messages: list[MessageOut]


class SessionOut(msgspec.Struct):
    id: str
    state: str
    name: str
    agent: str
    model: str
    tool: str
    title: str
    started: str
    seen: str
    ended: str


class SessionOneOut(msgspec.Struct, tag_field="schema", tag="periplus.session/1"):
    session: SessionOut


class PresentOut(msgspec.Struct):
    """Somebody who works here now; ``session`` is null for who claims something outside of one."""

    name: str
    session: SessionOut | None
    claims: list[ClaimOut]


class WhoOut(msgspec.Struct, tag_field="schema", tag="periplus.who/1"):
    present: list[PresentOut]


WORK_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "claim take": ClaimTakenOut,
    "claim list": ClaimListOut,
    "check": CheckOut,
    "plan make, plan add": PlanMadeOut,
    "plan list": PlanListOut,
    "plan show": PlanShowOut,
    "plan ready": PlanReadyOut,
    "plan next": PlanNextOut,
    "handoff write, handoff accept": HandoffOneOut,
    "handoff list": HandoffListOut,
    "inbox mail, inbox send, inbox read, inbox answer": MailOut,
    "session begin, session end": SessionOneOut,
    "who": WhoOut,
    "claim release, confirm, plan done, plan block, plan drop, handoff close, set, state, evolve, merge, split, link": ChangedOut,
}
