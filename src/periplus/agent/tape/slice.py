"""The slice: the working state that is carried from turn to turn, one for each topic of a session.

Only episodes write it, and every field is bounded (``slice_fields``). Topics are begun, parked, resumed and ended by explicit command; they
are never guessed from a request. Fields with the lifetime of the session are shared by its topics.
"""

from __future__ import annotations

__all__ = ["MAIN_TOPIC", "Slice", "Topics", "slice_of_task"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from periplus.agent.contracts import TaskRef, TaskState, TaskStatus, Tier
from periplus.agent.tape.slice_fields import field_named
from periplus.agent.tape_notes import FilePatch, SliceNote, TopicNote
from periplus.base.errors import NotFoundError, UsageError

T = TypeVar("T")

MAIN_TOPIC: Final = "main"
TOPICS_MAX: Final = 50
_ANY: Final = object()
_ENDED: Final[tuple[TaskStatus, ...]] = ("done", "abandoned")
_STATES: Final[Mapping[str, TaskStatus]] = {"park": "parked", "done": "done", "abandon": "abandoned"}


@dataclass(slots=True)
class Slice:
    """The state of one topic. Keyed fields keep the order in which their keys were added."""

    topic: str
    title: str = ""
    status: TaskStatus = "active"
    goal: str = ""
    mission: str = ""
    requirements: dict[str, bool] = field(default_factory=dict)
    plan: dict[str, str] = field(default_factory=dict)
    findings: dict[str, Tier] = field(default_factory=dict)
    world: dict[str, str] = field(default_factory=dict)
    active_files: dict[str, None] = field(default_factory=dict)
    edited_files: dict[str, None] = field(default_factory=dict)
    anchors: dict[str, str] = field(default_factory=dict)
    open_report: str = ""
    last_error: str = ""
    turn: int = 0

    def change(self, note: SliceNote) -> None:
        """Apply a note. Raises UsageError if the field does not accept it."""
        row = field_named(note.field)
        if row.producer != "slice":
            raise UsageError(f"{note.field} is not set by hand", safe="Nothing was changed.")
        value = _bounded(note.value, row.characters_max)
        if note.field == "mission":
            self.mission = "" if note.op == "remove" else value
        elif note.field == "requirements":
            if note.op == "remove":
                self.requirements.pop(value, None)
            else:
                held = note.op == "done" if note.op in ("done", "undone") else self.requirements.get(value, False)
                _put(self.requirements, value, held, row.items_max, ended=True)
        elif note.field == "plan":
            self._plan(note, value, row.items_max)
        elif note.field == "findings":
            if note.op == "remove":
                self.findings.pop(value, None)
            else:
                _put(self.findings, value, note.tier, row.items_max)
        elif note.op == "remove":
            self.world.pop(note.name, None)
        else:
            _put(self.world, note.name or value, value, row.items_max)

    def _plan(self, note: SliceNote, value: str, items_max: int) -> None:
        """Change the plan. ``set`` without a name clears it; a step is named by its text, ``value`` is its state."""
        if note.op == "set" and not note.name:
            self.plan.clear()
        elif note.op == "remove":
            self.plan.pop(note.name, None)
        else:
            name = _bounded(note.name or value, field_named("plan").characters_max)
            state = {"done": "done", "undone": "open"}.get(note.op, value if note.name else "open") or "open"
            _put(self.plan, name, state, items_max, ended="done")

    def touch(self, path: str) -> None:
        """Note that a call read or wrote a file."""
        _latest(self.active_files, path, field_named("active_files").items_max)

    def edited(self, patch: FilePatch) -> None:
        self.touch(patch.path)
        _latest(self.edited_files, patch.path, field_named("edited_files").items_max)
        hunk = patch.diff.partition("\n")[0]
        if hunk:
            _put(self.anchors, patch.path, hunk, field_named("anchors").items_max)

    def task(self, session: str, skills: tuple[str, ...] = (), resolution: str = "") -> TaskState:
        """The state from which another process can continue: references, never file contents."""
        return TaskState(
            task_id=f"{session}/{self.topic}",
            session=session,
            title=self.title or self.goal[:80],
            status=self.status,
            goal=self.goal,
            mission=self.mission,
            findings=tuple((tier, text) for text, tier in self.findings.items()),
            requirements=tuple(self.requirements.items()),
            plan=tuple(self.plan.items()),
            open_report=self.open_report,
            world=tuple(self.world.items()),
            active_files=tuple(self.active_files),
            edited_files=tuple(self.edited_files),
            anchors=tuple(self.anchors.items()),
            last_error=self.last_error,
            skills=skills,
            resolution=resolution,
        )


def slice_of_task(state: TaskState) -> Slice:
    """The slice at the time of a task's checkpoint."""
    return Slice(
        state.task_id.rpartition("/")[2],
        state.title,
        state.status,
        state.goal,
        state.mission,
        dict(state.requirements),
        dict(state.plan),
        {text: tier for tier, text in state.findings},
        dict(state.world),
        dict.fromkeys(state.active_files),
        dict.fromkeys(state.edited_files),
        dict(state.anchors),
        state.open_report,
        state.last_error,
    )


class Topics:
    """The topics of a session, the current one among them, and their shared fields."""

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {MAIN_TOPIC: Slice(MAIN_TOPIC)}
        self.rules: dict[str, None] = {}
        self.skills: dict[str, None] = {}
        self._current = MAIN_TOPIC

    @property
    def current(self) -> Slice:
        return self.slices[self._current]

    def change(self, note: SliceNote) -> None:
        """Apply a note. Raises UsageError, and changes nothing then."""
        if note.field not in ("rules", "skills"):
            self.current.change(note)
            return
        row = field_named(note.field)
        held = self.rules if note.field == "rules" else self.skills
        value = _bounded(note.value, row.characters_max)
        if note.op == "remove":
            held.pop(value, None)
        else:
            _put(held, value, None, row.items_max, ended=True)  # none is: a rule is never dropped for another

    def switch(self, note: TopicNote) -> None:
        """Switch topics. Raises UsageError for a new topic that exists, NotFoundError for an unknown one."""
        if note.action == "new":
            if note.topic in self.slices or not note.topic.strip():
                raise UsageError(f"a topic {note.topic!r} cannot be begun: it exists already, or has no name",
                                 safe="Nothing was changed.", mend="Take another name, or switch to it.")  # fmt: skip
            self._make_room()
            self._park()
            self.slices[note.topic] = Slice(note.topic, note.title)
            self._current = note.topic
            return
        held = self.slices.get(note.topic)
        if held is None:
            raise NotFoundError(f"no topic {note.topic!r} in this session",
                                mend=f"There are: {', '.join(self.slices)}.")  # fmt: skip
        if note.action == "switch":
            if note.topic != self._current:
                self._park()
            held.status = "active"
            self._current = note.topic
            return
        held.status = _STATES[note.action]
        if note.topic == self._current:
            self._go_on()

    def refs(self) -> list[TaskRef]:
        return [
            TaskRef(task_id=one.topic, title=one.title or one.goal[:80], status=one.status, updated=f"turn {one.turn}")
            for one in self.slices.values()
        ]

    def _park(self) -> None:
        if self.current.status == "active":
            self.current.status = "parked"

    def _go_on(self) -> None:
        """Leave the current topic for the main one, which always exists."""
        if self._current != MAIN_TOPIC:
            self._current = MAIN_TOPIC
            self.current.status = "active"

    def _make_room(self) -> None:
        for name, one in list(self.slices.items()):
            if len(self.slices) < TOPICS_MAX:
                return
            if one.status in _ENDED and name not in (MAIN_TOPIC, self._current):
                del self.slices[name]
        if len(self.slices) >= TOPICS_MAX:
            raise UsageError(f"{TOPICS_MAX} topics are open in this session", safe="Nothing was changed.",
                             mend="End one that is done.")  # fmt: skip


def _bounded(text: str, characters_max: int) -> str:
    if len(text) > characters_max:
        raise UsageError(f"{len(text):,} characters for what takes {characters_max:,}", safe="Nothing was changed.",
                         mend="Say it shorter, or put it into a file and name that.")  # fmt: skip
    return text.strip()


def _put(held: dict[str, T], key: str, value: T, items_max: int, *, ended: object = _ANY) -> None:
    """Set a key, which keeps its place. If there are too many, the oldest that is ``ended`` goes; raises UsageError if none is."""
    if key not in held and len(held) >= items_max:
        gone = next((name for name, one in held.items() if ended is _ANY or one == ended), None)
        if gone is None:
            raise UsageError(f"{items_max} are open, and none of them may be lost", safe="Nothing was changed.",
                             mend="Mark one as done, or remove it.")  # fmt: skip
        del held[gone]
    held[key] = value


def _latest(held: dict[str, None], key: str, items_max: int) -> None:
    """Move a key to the end, the place of the newest."""
    held.pop(key, None)
    _put(held, key, None, items_max)
