"""JSON documents of dispatched work, as commands beside ``dispatch`` show it."""

from __future__ import annotations

__all__ = ["AgentAtWorkOut", "DispatchProgressOut", "SpentOut", "StepAssignmentOut", "WaitingQuestionOut"]

import msgspec


class SpentOut(msgspec.Struct):
    """Sums over runs of agents: fresh, cached and written tokens, ``cost`` in millionths of a dollar, and time."""

    tokens_in: int
    cached: int
    out: int
    cost: int
    wall_ms: int


class StepAssignmentOut(msgspec.Struct):
    """The assignment of a step that is at work, else the newest. ``spent`` sums all assignments of the step, ``theirs`` is true
    for one that another clone carries. ``since`` is the time at which its run began, ``reason`` says why it ended.
    """

    id: str
    dispatch: str
    agent: str
    state: str
    attempt: int
    since: str
    theirs: bool
    reason: str
    branch: str
    worktree: str
    spent: SpentOut


class AgentAtWorkOut(msgspec.Struct):
    """An assignment at work: ``paths`` are what it claimed, ``theirs`` is true where another clone carries it."""

    id: str
    dispatch: str
    step: str
    text: str
    agent: str
    state: str
    attempt: int
    since: str
    paths: list[str]
    theirs: bool


class DispatchProgressOut(msgspec.Struct):
    """An open dispatch. ``supervisor`` is alive, gone (then ``resume`` is the command that goes on with it), or elsewhere: on
    another machine, or of another clone.
    """

    id: str
    text: str
    plan: str
    done: int
    steps: int
    supervisor: str
    resume: str


class WaitingQuestionOut(msgspec.Struct):
    """A question to a person. ``command`` answers it; nobody waits after ``expires``."""

    id: str
    state: str
    text: str
    options: list[str]
    asker: str
    dispatch: str
    assignment: str
    answer: str
    answered_by: str
    created: str
    expires: str
    command: str
