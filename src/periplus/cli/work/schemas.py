"""JSON documents of plans, claims, handoffs, mail and sessions."""

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

from periplus.cli.common.dispatch_schemas import (
    AgentAtWorkOut,
    DispatchProgressOut,
    SpentOut,
    StepAssignmentOut,
    WaitingQuestionOut,
)
from periplus.cli.common.schemas import ChangedOut, StuckOut
from periplus.cli.work.claim_schemas import CheckOut, ClaimListOut, ClaimOut, ClaimTakenOut


class PlanOut(msgspec.Struct):
    """``counts`` is the number of its steps by state, where requested; ``spent`` is what agents that a dispatch had do it cost."""

    id: str
    state: str
    text: str
    priority: int
    rationale: str
    counts: dict[str, int]
    spent: SpentOut | None = None


class StepOut(msgspec.Struct):
    """``waits_for`` are ids of unfinished work that has to be done first; ``place`` is its number in the plan. ``assignment`` is
    null for a step that no dispatch has given to an agent.
    """

    id: str
    plan: str
    place: int
    state: str
    text: str
    priority: int
    assignee: str
    reason: str
    waits_for: list[str]
    assignment: StepAssignmentOut | None = None


class PlanMadeOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.made/1"):
    """``steps`` are the new steps."""

    plan: PlanOut
    steps: list[StepOut]
    key: str


class PlanListOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.list/1"):
    plans: list[PlanOut]


class PlanShowOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.show/1"):
    plan: PlanOut
    steps: list[StepOut]


class PlanReadyOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.ready/1"):
    """Steps that can be started. If there are none, ``left`` counts the open steps by reason, and ``stuck`` is work that nobody can start."""

    steps: list[StepOut]
    left: dict[str, int] = {}
    stuck: list[StuckOut] = []


class PlanNextOut(msgspec.Struct, tag_field="schema", tag="periplus.plan.next/1"):
    """The step that was taken, with its claim; null if none can be started, with ``left`` and ``stuck`` as in ``plan ready``."""

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
    """``thread`` is the id of the first message of the thread, ``ref`` the id of what it is about."""

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
    """Oldest first: for ``send`` and ``answer`` the new message, for ``read`` the whole thread. ``questions`` are those that
    agents ask a person; for ``answer`` the one that was answered.
    """

    messages: list[MessageOut]
    questions: list[WaitingQuestionOut] = []


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
    """Somebody who works here now; ``session`` is null for a claim outside of a session."""

    name: str
    session: SessionOut | None
    claims: list[ClaimOut]


class WhoOut(msgspec.Struct, tag_field="schema", tag="periplus.who/1"):
    """``agents`` are assignments at work, ``dispatches`` those that are open, ``questions`` wait for a person's answer."""

    present: list[PresentOut]
    agents: list[AgentAtWorkOut] = []
    dispatches: list[DispatchProgressOut] = []
    questions: list[WaitingQuestionOut] = []


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
