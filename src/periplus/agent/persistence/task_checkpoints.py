"""Checkpoints of a session's tasks, from which another process or session can continue without reading the conversation.

A task is a topic of a session. Its state is distilled from the slice: references, never file contents. The session itself does not need it,
being a fold over its episodes; so a checkpoint that a crash prevented is written at the end of the next turn.
"""

from __future__ import annotations

__all__ = ["TaskKeeper"]

from typing import Final

import msgspec

from periplus.agent.contracts import Memory, TaskState
from periplus.agent.tape.slice import MAIN_TOPIC, Slice, Topics

_EMPTY: Final[TaskState] = TaskState(task_id="", session="", title="")


class TaskKeeper:
    """Writes the changed tasks of ``session`` into ``memory``."""

    def __init__(self, memory: Memory, session: str) -> None:
        self._memory, self._session = memory, session
        self._written: dict[str, TaskState] = {}

    def keep(self, topics: Topics) -> int:
        """Write the changed tasks and return their number; 0 if the memory is not durable."""
        if not self._memory.is_durable:
            return 0
        count = 0
        for one in topics.slices.values():
            if one.topic == MAIN_TOPIC and not one.turn and one is not topics.current:
                continue  # the main topic of a session that began with another
            state = one.task(self._session)
            before = self._before(state.task_id)
            skills = tuple(topics.skills) if one is topics.current else before.skills
            state = msgspec.structs.replace(state, skills=skills, resolution=_resolution(one))
            if state != before:
                self._memory.checkpoint_task(state)
                self._written[state.task_id] = state
                count += 1
        return count

    def _before(self, task_id: str) -> TaskState:
        if task_id not in self._written:
            self._written[task_id] = self._memory.load_task(task_id) or _EMPTY
        return self._written[task_id]


def _resolution(one: Slice) -> str:
    """The resolution of an ended task."""
    if one.status not in ("done", "abandoned"):
        return ""
    still = sum(not is_done for is_done in one.requirements.values())
    return f"{one.status} in turn {one.turn}" + (f", with {still} requirements open" if still else "")
