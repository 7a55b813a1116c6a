"""Processes of an assignment: the agent at work, its reviewer, the project's setup and its oracle.

A job is described by records and files alone, so that whoever goes on after a killed supervisor starts the same job.
"""

from __future__ import annotations

__all__ = ["GRACE_S", "Jobs"]

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import UsageError, environment_failure
from periplus.base.files import write_atomic
from periplus.dispatch.adapters import Adapter, Sought, Start
from periplus.dispatch.adapters.environment import COMMON, program_folders
from periplus.dispatch.places import RESULT_FILE
from periplus.dispatch.processes import Launch
from periplus.dispatch.supervision.preparation import bring_folders, placed_paths, prepare
from periplus.dispatch.supervision.prompts import prompt_of
from periplus.dispatch.supervision.workplace import Workplace, shape
from periplus.journal import Entity

if TYPE_CHECKING:
    from periplus.agent.sandbox import Confinement
    from periplus.memory.entities.schemas import Assignment, Attempt

GRACE_S: Final = 10.0
OUTPUT_BYTES_MAX: Final = 32 << 20
_ORACLE_NAMES: Final = (*(name for name in COMMON if name != "HOME"), "VIRTUAL_ENV")
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - what the sandbox mounts over
PROMPT_FILE: Final = "prompt.md"


class Jobs:
    """Starts the jobs of one dispatch."""

    def __init__(self, workplace: Workplace) -> None:
        self._at = workplace

    def adapter(self, name: str) -> Adapter:
        """Return the adapter of an agent. Raises UsageError for one that nobody has set up."""
        found = self._at.options.adapters.get(name)
        if found is None:
            known = ", ".join(sorted(self._at.options.adapters))
            raise UsageError(f"there is no agent {name!r}", safe="Nothing was started.", mend=f"Known are: {known}.")
        return found

    def start(self, assignment: Entity) -> None:
        """Start the present job of an assignment; one that was started is left alone. Raises PeriplusError where it cannot be."""
        value = shape(assignment)
        run = value.runs[-1]
        folder = self._at.run_folder(run.id)
        if folder.standing() != "absent":
            return
        is_agent = run.purpose in ("work", "review")
        self._make_place(value, run)
        folder.start(self._agent(assignment, value, run) if is_agent else self._check(value, run))

    def session_for(self, value: Assignment, agent: str, purpose: str) -> str:
        """Return the session for the next run: that of the agent's last run where it can go on with it, else a new one."""
        adapter = self.adapter(agent)
        last = next(
            (run for run in reversed(value.runs) if run.agent == agent and run.purpose == purpose and run.session), None
        )
        if last is not None and adapter.can_resume:
            sought = Sought(last.session, self.folder_of(value, last), self._at.options.environment)
            # One that was killed at its beginning has kept nothing to go on with.
            if adapter.transcripts(sought) or (last.trail and not adapter.connects):
                return last.session
        return str(uuid.uuid4())

    def folder_of(self, value: Assignment, run: Attempt) -> str:
        """Return the worktree that a job works in: reviews and the merge queue have one of their own."""
        if run.purpose == "review":
            return self._at.places.review(value.worktree)
        if run.purpose == "queue":
            return self._at.places.queue(self._at.dispatch_id)
        return self._at.worktree(value)

    def _make_place(self, value: Assignment, run: Attempt) -> None:
        """Make the folder of a job where it is missing: an agent may have deleted its worktree, or a person the queue's."""
        path = self.folder_of(value, run)
        if run.purpose == "work":
            prepare(self._at, value, self.adapter(run.agent))
        elif run.purpose == "review":
            self._at.repository.add_worktree(path, "", value.tip)
        elif run.purpose == "queue":
            self._at.repository.add_worktree(path, "", value.merged)
            bring_folders(self._at, path)
        else:
            self._at.repository.add_worktree(path, value.branch, value.base)

    def _agent(self, assignment: Entity, value: Assignment, run: Attempt) -> Launch:
        adapter, order, options = self.adapter(run.agent), self._at.order, self._at.options
        worktree = self.folder_of(value, run)
        folder = self._at.places.run(run.id)
        resume = run.session if _goes_on(value, run) else ""
        start = Start(
            worktree=worktree, run_folder=folder, run=run.id, session=run.session, resume=resume, prompt_path=os.path.join(folder, PROMPT_FILE),
            environment=options.environment, model=order.model or self._model(adapter, value, run), agent=self._at.holder(value.step, run.agent).name,
            email=self._at.email, excludes=self._at.repository.exclude_file(worktree, placed_paths(self._at, worktree, adapter)),
            command=options.command, cents=order.limits.cents, tokens=order.limits.tokens,
        )  # fmt: skip
        command = adapter.start(start)
        remove_result(worktree)
        prompt = prompt_of(self._at, assignment, run, is_resumed=bool(resume)).encode()
        if command.prompt == "file":
            _make_folder(folder)
            write_atomic(self._at.journal.files, start.prompt_path, prompt, mode=0o600)
            prompt = b""
        return Launch(
            command.argv, worktree, command.environment, prompt, float(order.limits.wall_s), GRACE_S, OUTPUT_BYTES_MAX
        )

    def _model(self, adapter: Adapter, value: Assignment, run: Attempt) -> str:
        """Return the agent's name for the class of models that the role asks for."""
        role = self._at.options.roles.get("reviewer" if run.purpose == "review" else value.kind)
        return adapter.models.get(role.model, "") if role is not None else ""

    def _check(self, value: Assignment, run: Attempt) -> Launch:
        words = self._at.order.setup if run.purpose == "setup" else self._at.order.oracle
        return self.command(words, self.folder_of(value, run), run.id, is_setup=run.purpose == "setup")

    def command(self, words: Sequence[str], worktree: str, run_id: str, *, is_setup: bool = False) -> Launch:
        """Return the launch of a command in a worktree: of a check in the sandbox, of the setup as the person would run it."""
        order, person = self._at.order, self._at.options.environment
        scratch = os.path.join(self._at.places.run(run_id), "tmp")
        _make_folder(scratch)
        environment = {name: person[name] for name in _ORACLE_NAMES if name in person}
        environment |= {
            "PATH": os.pathsep.join(program_folders(person)),
            "HOME": scratch,
            "TMPDIR": scratch,
            "TERM": "dumb",
            "CI": "1",
        }
        if is_setup:  # it fetches what the project depends on, as the person would
            environment |= {"HOME": self._at.options.home}
            return Launch(
                tuple(words), worktree, environment, b"", float(order.limits.oracle_s), GRACE_S, OUTPUT_BYTES_MAX
            )
        argv = self._at.sandbox.wrap(words, worktree, self._confinement(worktree, scratch))
        return Launch(tuple(argv), worktree, environment, b"", float(order.limits.oracle_s), GRACE_S, OUTPUT_BYTES_MAX)

    def _confinement(self, worktree: str, scratch: str) -> Confinement:
        from periplus.agent.sandbox import Confinement

        options = self._at.options
        links = [os.path.realpath(os.path.join(self._at.project.folder, name)) for name in self._at.linked()]
        return Confinement.of(
            worktree, scratch, options.home, kept=[self._at.repository.common, *links, *_tool_folders(options.environment, options.home, self._at.order.oracle)],
            hidden=[options.config],
        )  # fmt: skip


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise environment_failure(error, "make", path) from error


def remove_result(worktree: str) -> None:
    """Remove the answer of an earlier run, and whatever else has its name."""
    path = os.path.join(worktree, RESULT_FILE)
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError as error:
        raise environment_failure(error, "remove", path) from error


def _goes_on(value: Assignment, run: Attempt) -> bool:
    """Return True where the session of a run was that of an earlier one."""
    return bool(run.session) and any(one.session == run.session for one in value.runs if one.id != run.id)


def _tool_folders(environment: Mapping[str, str], home: str, words: Sequence[str]) -> list[str]:
    """Return folders of programs that a check needs and that the sandbox would hide: those of PATH and that of its own program, with
    their virtual environments, below the home folder or a folder of temporary files.
    """
    folders = [*program_folders(environment), *(os.path.dirname(word) for word in words[:1] if os.path.isabs(word))]
    hidden = tuple(f"{os.path.realpath(one)}/" for one in (home, *_TEMPORARY) if one)
    found = []
    for folder in folders:
        path = os.path.realpath(folder)
        if path.startswith(hidden) and os.path.isdir(path):
            is_environment = os.path.exists(os.path.join(os.path.dirname(path), "pyvenv.cfg"))
            found.append(os.path.dirname(path) if is_environment else path)
    return found
