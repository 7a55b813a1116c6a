"""Everything that a supervisor works with, and the values of one dispatch as they are now."""

from __future__ import annotations

__all__ = ["Fields", "SupervisorOptions", "Workplace", "shape"]

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError, PeriplusError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.handover.work_prompt import RoleText
from periplus.dispatch.places import Places
from periplus.dispatch.processes import RunFolder
from periplus.journal import Entity, Writer
from periplus.memory.coordination.assignments import assignments_of, change_assignment
from periplus.memory.coordination.dispatches import NewQuestion, change_dispatch
from periplus.memory.entities.schemas import Assignment, Attempt, Dispatch

if TYPE_CHECKING:
    from periplus.agent.sandbox import Sandbox
    from periplus.dispatch.adapters import Adapter
    from periplus.dispatch.repository import Repository
    from periplus.dispatch.roles.role_files import Role
    from periplus.project import Project
    from periplus.project.agent_hooks.connection import Connecting

LESSON_CONFIDENCE: Final = 60
NO_EMAIL: Final = "periplus@localhost"
Fields: TypeAlias = Mapping[str, JSONValue]
_READ_AGAIN_S: Final = 5.0
NAME_TAIL: Final = 8  # characters of a step's id in the name of who does it


class SupervisorOptions(NamedTuple):
    """``state`` and ``config`` are the user's folders of Periplus, ``command`` the words that start it. ``environment`` is the
    person's: adapters say which of it an agent gets.
    """

    state: str
    environment: Mapping[str, str]
    home: str
    config: str
    command: tuple[str, ...]
    adapters: Mapping[str, Adapter]
    roles: Mapping[str, Role] = {}
    is_mac: bool = False


class Workplace:
    """A dispatch with the store, git, folders and agents that it uses."""

    def __init__(
        self, project: Project, dispatch: str, options: SupervisorOptions, repository: Repository, sandbox: Sandbox,
        told: Callable[[Entity], None],
    ) -> None:  # fmt: skip
        self.project, self.dispatch_id, self.options = project, dispatch, options
        self.repository, self.sandbox, self.told = repository, sandbox, told
        self.journal, self.writer = project.journal, project.writer
        self.places = Places.of(options.state, project.root)
        self.notes: list[str] = []
        self._held: list[Entity] = []
        self._read_at = (-1, 0.0)

    @property
    def entity(self) -> Entity:
        held = self.journal.get("dispatch", self.dispatch_id)
        if held is None:
            raise NotFoundError(f"there is no dispatch {self.dispatch_id}")
        return held

    @property
    def order(self) -> Dispatch:
        """The dispatch as it is now."""
        return msgspec.convert(self.entity.value, Dispatch)

    def assignments(self) -> list[Entity]:
        """Return the assignments in the order in which they were made; they are read again where something was written since, or
        after a moment, as another clone may have sent something.
        """
        self.journal.refresh()
        seq, now_s = self.journal.end().next_seq, time.monotonic()
        if seq != self._read_at[0] or now_s - self._read_at[1] > _READ_AGAIN_S:
            self._held = assignments_of(self.journal, self.dispatch_id)
            self._read_at = (seq, now_s)
        return list(self._held)

    def again(self, assignment: Entity) -> Entity:
        """Return an assignment as it is now."""
        held = self.journal.get("assignment", assignment.item_id)
        assert held is not None
        return held

    def change(
        self, assignment: Entity, fields: Fields | None = None, *, state: str = "", reason: str = "", question: NewQuestion | None = None
    ) -> Entity:  # fmt: skip
        """Write a change of an assignment in one batch, and tell of it."""
        changed = change_assignment(
            self.journal, self.writer, assignment, state=state, reason=reason, fields=fields, question=question
        )
        self.told(changed)
        return changed

    def worktree(self, assignment: Assignment) -> str:
        return self.places.worktree(assignment.worktree)

    def run_folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.places.run(run_id), self.journal.files)

    def holder(self, step: str, agent: str) -> Writer:
        """Return the writer under whose name an agent does a step; it holds the claim."""
        return Writer.named(f"{agent}-{step[-NAME_TAIL:]}")

    def begin_run(
        self, assignment: Entity, purpose: str, agent: str, fields: Fields | None = None, *, state: str = "", session: str = ""
    ) -> Entity:  # fmt: skip
        """Write that a job begins, with ``fields`` of what led to it in the same batch. It is started after that, so that it is
        known to whoever goes on.
        """
        value = shape(assignment, fields)
        run_id = new_id("job")
        attempt: dict[str, JSONValue] = {
            "id": run_id,
            "agent": agent,
            "purpose": purpose,
            "started": self.now(),
            "session": session,
        }
        runs: list[JSONValue] = [*_built(value.runs), {name: held for name, held in attempt.items() if held}]
        return self.change(assignment, {**(fields or {}), "run": run_id, "runs": runs}, state=state)

    def end_run(self, assignment: Entity, **fields: JSONValue) -> dict[str, JSONValue]:
        """Return the fields of an assignment whose present job has ended with ``fields``, and the sums over all jobs."""
        value = shape(assignment)
        last = msgspec.structs.replace(value.runs[-1], ended=self.now(), **fields)
        runs = (*value.runs[:-1], last)
        sums: dict[str, JSONValue] = {
            name: sum(getattr(run, name) for run in runs) for name in ("tokens_in", "cached", "out", "cost", "wall_ms")
        }
        return {"runs": _built(runs), **sums}

    def make_durable(self) -> None:
        """Flush what agents wrote with git to the disk: theirs does not, and records and merges are to be built upon it."""
        if not self.journal.files.sync_everything(self.repository.common):
            os.sync()

    def now(self) -> str:
        return format_ms(self.journal.clock.now_ms())

    def linked(self) -> list[str]:
        """Return the folders of the checkout that worktrees get as links: those that are there."""
        return self._there(self.order.links)

    def copied(self) -> list[str]:
        """Return the folders of the checkout that worktrees get as copies: those that are there."""
        return self._there(self.order.copies)

    def _there(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if os.path.lexists(os.path.join(self.project.folder, name))]

    @cached_property
    def email(self) -> str:
        """The address under which agents commit: that of the person's git."""
        return self.repository.setting("user.email") or NO_EMAIL

    def connecting(self, worktree: str) -> Connecting:
        """Return what connects agents with the store in a worktree."""
        from periplus.dispatch.adapters.environment import program_folders
        from periplus.project.agent_hooks.connection import Machine

        options = self.options
        environment, home = options.environment, options.home
        config = environment.get("XDG_CONFIG_HOME", "") or os.path.join(home, ".config")
        codex = environment.get("CODEX_HOME", "") or os.path.join(home, ".codex")
        machine = Machine(
            home, config, codex, options.is_mac, program_folders(environment), options.command, environment
        )
        return self.project.connecting.here(machine, start=worktree)

    def role(self, name: str) -> RoleText | None:
        """Return the text of a role; None where there is no role of that name."""
        role = self.options.roles.get(name)
        return RoleText(role.name, role.text, role.is_advice) if role is not None else None

    def base_of(self, value: Assignment, tip: str) -> str:
        """Return the commit from which work on ``tip`` differs by itself: what it merged of the target is not its own."""
        target = self.repository.tip(self.order.branch)
        return (tip and target and self.repository.merge_base(tip, target)) or value.base

    def remark(self, text: str) -> None:
        """Note what a person should know of the whole dispatch, once."""
        if text not in self.notes:
            self.notes.append(text)

    def discard(self, path: str) -> None:
        """Remove a worktree that has no work in it; where that cannot be done it is noted."""
        try:
            self.repository.remove_worktree(path, keep_branch=True, force=True)
        except PeriplusError as error:
            self.remark(f"{path} was not removed: {error}")

    def stop(self, reason: str) -> None:
        """End the dispatch: its assignments are cancelled, their work stays."""
        change_dispatch(self.journal, self.writer, self.dispatch_id, state="stopped", reason=reason)

    def keep_lessons(self, value: Assignment) -> None:
        """Propose what an agent learned as memory: candidates for a person to accept."""
        if not value.lessons:
            return
        from periplus.memory.reflection.proposal import Proposal, Seen
        from periplus.memory.reflection.proposal_records import record_proposals

        trail = next((run.trail for run in reversed(value.runs) if run.trail), "")
        seen = (Seen(trail, 0),) if trail else ()
        proposals = [
            Proposal(
                "handed in",
                "lesson",
                ("handed in", text),
                text,
                f"{value.agent} handed it in with {value.step}",
                seen,
                LESSON_CONFIDENCE,
            )
            for text in value.lessons
        ]
        record_proposals(self.journal, proposals, self.writer)


def shape(assignment: Entity, fields: Fields | None = None) -> Assignment:
    """Return the payload of an assignment as its shape; with ``fields`` as it will be with those."""
    return msgspec.convert({**assignment.value, **(fields or {})}, Assignment)


def _built(runs: Sequence[Attempt]) -> list[JSONValue]:
    built: list[JSONValue] = msgspec.to_builtins(list(runs))
    return built
