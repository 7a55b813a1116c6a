"""Run logs: in memory for evaluations, in the journal of a project for work.

In the store an episode is an observation of the session's entity. Its step of a trail is written in the same batch, so that trail and
session always agree: both have the step, or neither. A run, which becomes a trail, lasts from the first episode that a process writes until
``close``; a resumed session has another run.
"""

from __future__ import annotations

__all__ = ["STATE", "MemoryLog", "StoreLog", "StoredSession", "session_runs", "session_title", "stored_sessions"]

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from periplus.agent.contracts import StopReason
from periplus.agent.episodes import Ended, Episode, Noted, Requested
from periplus.agent.persistence.episode_codec import Mask, encode_episode, masked_episode
from periplus.agent.persistence.stored_episodes import SESSION_TYPE, StoredEpisodes, turn_of
from periplus.agent.persistence.trail_steps import EpisodeSteps
from periplus.base.errors import EnvironmentFailure, FormatError, PeriplusError, RefusedError
from periplus.base.files import read_plain
from periplus.base.process.locks import Lock, holder_of
from periplus.base.text.secrets import mask_secrets
from periplus.journal import Transaction
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.journal.storage.store_identity import ReplacedError
from periplus.memory.claim_status import session_id
from periplus.memory.coordination.sessions import seen

if TYPE_CHECKING:
    from periplus.project import Project
    from periplus.project.trail_store.recording import Recording
    from periplus.trail.recording.recorder import Run

STATE: Final = "agent"  # folder of the store with files of sessions beside their episodes, one subfolder each
INLINE_BYTES_MAX: Final = 4096  # a larger episode is an object beside the journal
_LOOKED_AT: Final = 200
_CONTENT_BYTES_MAX: Final = 8 << 20
_STATUS: Final = {"done": "success", "aborted": "cancelled", "error": "error"}


_held: WeakValueDictionary[str, Lock] = (
    WeakValueDictionary()
)  # locks of this process, which may have several logs of a session


class StoredSession(NamedTuple):
    """A session in a list. ``last`` is the time of its last step; ``is_interrupted``: its last turn has no end."""

    name: str
    title: str
    model: str
    last: str
    turns: int
    is_interrupted: bool


class MemoryLog:
    """Run log in a list. The session ends with its process, unless the log is handed on."""

    def __init__(self, episodes: Sequence[Episode] = (), mask: Mask = mask_secrets) -> None:
        self.episodes = list(episodes)
        self._mask = mask

    def append(self, *episodes: Episode, durable: bool = True) -> Sequence[Episode]:
        del durable
        kept = tuple(masked_episode(episode, self._mask) for episode in episodes)
        self.episodes += kept
        return kept

    def append_aside(self, *notes: Noted) -> Sequence[Episode]:
        return self.append(*notes)

    def read(self) -> Sequence[Episode]:
        return tuple(self.episodes)

    def close(self, reason: StopReason | None) -> None:
        del reason


class StoreLog:
    """The episodes of session ``name`` in the store of ``project``, with a live trail beside them.

    ``name`` is that of the agent's session, as in ``memory.sessions``. Raises RefusedError if another live process runs this session. A
    lock is held from before the first episode is read; otherwise one of two processes could continue from what the other has done, and
    repeat it.
    """

    def __init__(
        self,
        project: Project,
        name: str,
        *,
        title: str = "",
        model: str = "",
        agent: str = "",
        checkpoints: bool = True,
        mask: Mask = mask_secrets,
        without: Callable[[PeriplusError], None] | None = None,
    ) -> None:
        """Open the log. ``without`` is called with the reason if the state of the files cannot be recorded; without it that is an error."""
        self._project = project
        self._name = name
        self._facts = {"title": title, "model": model, "agent": agent}
        self._checkpoints, self._without = checkpoints, without
        self._mask = mask
        self._recording: Recording | None = None
        self.trail_id = ""  # trail of the last run that ended
        self._stored = StoredEpisodes(project, name)
        self._trailing = EpisodeSteps(model, self._content, self._stored.read_turn)
        self.item_id = self._stored.item_id
        self._refuse_second()
        self._lock: Lock | None = self._taken()

    @property
    def run_id(self) -> str:
        """The run that is being recorded; empty before the first episode and after ``close``."""
        return self._recording.id if self._recording is not None else ""

    def append(self, *episodes: Episode, durable: bool = True) -> Sequence[Episode]:
        kept = tuple(masked_episode(episode, self._mask) for episode in episodes)
        if not kept:
            return kept
        if self._recording is not None and isinstance(kept[0], Requested):
            seen(self._project.journal, self._project.writer)
        beside = self._observing(kept)
        steps = [step for episode in kept for step in self._trailing.steps(episode)]
        with self._where_it_was():
            if steps:
                self._open().add_beside(steps, beside)
            else:
                self._project.journal.mutate(beside, self._project.writer, durable=durable, project=False)
        if isinstance(kept[-1], Ended):
            self._project.journal.rest()  # the person may think for long about what to say next
        return kept

    def append_aside(self, *notes: Noted) -> Sequence[Episode]:
        """Append through a second connection, since a store's handles belong to one thread."""
        from periplus.project import Project

        kept = tuple(masked_episode(note, self._mask) for note in notes)
        held = self._project
        with (
            self._where_it_was(),
            Project(held.root, held.writer, clock=held.journal.clock, files=held.journal.files) as project,
        ):
            if (project.journal.store_id, project.journal.lineage) != (held.journal.store_id, held.journal.lineage):
                raise self._of_another_store()
            project.journal.mutate(self._observing(kept), project.writer, project=False)
        return kept

    def read(self) -> Sequence[Episode]:
        """Return all episodes, in order. Raises DamageError."""
        return list(self.replay())

    def replay(self) -> Iterator[Episode]:
        """Yield all episodes one by one. Raises DamageError."""
        return self._stored.read()

    def read_turn(self, turn: int) -> Sequence[Episode]:
        """Read the episodes of one turn without reading those before it."""
        return self._stored.read_turn(turn)

    def close(self, reason: StopReason | None) -> None:
        """Seal the trail of this run and end the session, which releases its claims. ``reason`` is why the last turn ended, None if it did
        not.
        """
        recording, self._recording = self._recording, None
        try:
            if recording is not None:
                with self._where_it_was():
                    self._seal(recording, reason)
        finally:
            self._lock = None  # released with the last log of this process that uses it

    # -- inside --------------------------------------------------------------------------------------------------------

    def _seal(self, recording: Recording, reason: StopReason | None) -> None:
        from periplus.memory.coordination.sessions import seal_session

        if self._checkpoints:
            try:
                recording.checkpoint()
            except (EnvironmentFailure, FormatError) as error:
                if self._without is None:
                    raise
                self._without(error)
        sealed = recording.seal(_STATUS.get(reason or "", "partial"))  # type: ignore[arg-type]  # the table gives statuses
        self.trail_id = sealed.entity.item_id
        seal_session(self._project.journal, self._project.writer, self._name)

    @contextmanager
    def _where_it_was(self) -> Iterator[None]:
        """Translate errors of a folder that was moved or removed while the session ran; the store is not damaged."""
        root = self._project.journal.layout.root
        try:
            yield
        except PeriplusError as error:
            if isinstance(error, ReplacedError) and os.path.isdir(self._project.journal.layout.journal):
                raise self._of_another_store() from error
            if os.path.isdir(root):
                raise
            raise EnvironmentFailure(f"the store is no longer at {root}", safe="Every step that was reported as done is in that store, wherever it is now.",
                                     mend="Continue where it is now: periplus run --resume.") from error  # fmt: skip

    def _of_another_store(self) -> EnvironmentFailure:
        import shlex

        return EnvironmentFailure(
            f"{self._project.root} is no longer the store that this session was begun in",
            safe="Every step that was reported as done is in that store, wherever it is now; nothing was written into this one.",
            mend=f"Put it back, then continue: periplus run --resume {shlex.quote(self._name)}. Or begin a new session in this one.",
        )

    def _observing(self, kept: Sequence[Episode]) -> Callable[[Transaction], None]:
        """Return the function that writes the episodes."""
        payloads = [encode_episode(episode) for episode in kept]

        def observe(transaction: Transaction) -> None:
            for episode, payload in zip(kept, payloads, strict=True):
                summary = f"turn {episode.turn} step {episode.step}: {payload['kind']}"
                transaction.observe(payload, item_type=SESSION_TYPE, item_id=self.item_id, summary=summary,
                                    inline_bytes_max=INLINE_BYTES_MAX)  # fmt: skip

        return observe

    def _open(self) -> Recording:
        """Begin the run with the first step: the session is opened, and the trail continues the earlier ones."""
        if self._recording is None:
            self._lock = self._lock or self._taken()
            from periplus.memory.coordination.sessions import NewSession, begin_session
            from periplus.project.trail_store.recording import seal_abandoned

            facts, project = self._facts, self._project
            title = self._mask(facts["title"])[0]
            seal_abandoned(project)
            before = [run.digest for run in session_runs(project, self._name) if run.digest]
            begin_session(project.journal, project.writer, NewSession(self._name, facts["model"], "periplus", title))
            self._recording = project.record(
                agent=facts["agent"], title=title, model=facts["model"], checkpoints=self._checkpoints,
                parents=tuple(bytes.fromhex(digest) for digest in before[-1:]), without=self._without,
            )  # fmt: skip
        return self._recording

    def _refuse_second(self) -> None:
        from periplus.base.process.process_marks import is_gone

        for run in session_runs(self._project, self._name):
            mark = run.process
            if run.state == "sealed" or mark is None or mark.pid == os.getpid():
                continue
            if not is_gone(mark, self._project.journal.files):
                raise self._refusal(str(mark.pid))

    def _refusal(self, process: str) -> RefusedError:
        return RefusedError(f"session {self._name} is being run by process {process}", safe="Nothing was written.",
                            mend="End that one first, or begin another session.")  # fmt: skip

    def _taken(self) -> Lock | None:
        """Take the lock of the session; None in a read-only store, where nobody runs one."""
        journal = self._project.journal
        path = os.path.join(os.path.realpath(journal.layout.root), STATE, self.item_id, "lock")
        lock = _held.get(path)
        if lock is not None:
            return lock
        lock = Lock(path)
        try:
            for folder in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path)):
                journal.files.make_folder(folder, 0o755 if folder.endswith(STATE) else 0o700)
            is_ours = lock.try_take()
        except (OSError, EnvironmentFailure):
            return None
        if not is_ours:
            holder = holder_of(path)
            raise self._refusal(holder.text.partition(" ")[0] if holder is not None else "that has just ended")
        _held[path] = lock
        return lock

    def _content(self, path: str, digest: str) -> bytes | None:
        """Content of a file, if its digest is ``digest``."""
        import hashlib

        try:
            data = read_plain(os.path.join(self._project.top, path), _CONTENT_BYTES_MAX + 1)
        except OSError:
            return None
        return data if len(data) <= _CONTENT_BYTES_MAX and hashlib.sha256(data).hexdigest() == digest else None


def session_runs(project: Project, name: str = "") -> list[Run]:
    """The runs of a session that this clone began, or of all sessions, oldest first."""
    from periplus.trail.recording.recorder import RUN_TYPE, run_of

    journal = project.journal
    journal.refresh()
    runs = [run_of(one) for one in journal.entities(RUN_TYPE) if one.value.get("session")]
    mine = [run for run in runs if run.lineage == journal.lineage and (not name or run.session == name)]
    return sorted(mine, key=lambda run: run.first_seq)


def session_title(project: Project, name: str) -> str:
    """The title of the session's last run; empty without one."""
    return next((run.facts.title for run in reversed(session_runs(project, name)) if run.facts.title), "")


def stored_sessions(project: Project) -> list[StoredSession]:
    """The agent's sessions in this project, the latest first; those without any record here are left out."""
    journal = project.journal
    runs = {run.session: run for run in session_runs(project)}  # the last run of each session
    journal.project()
    fill_history_if_present(journal)
    where = "item_type = ? AND item_id = ? AND action = 'observe' AND lineage = ? ORDER BY seq DESC"
    found: list[tuple[int, StoredSession]] = []
    for name, run in runs.items():
        rows = journal.index.records(where, (SESSION_TYPE, session_id(name), journal.lineage), _LOOKED_AT)
        if rows:  # a session of another agent has none
            kinds = [row.summary.rpartition(": ")[2] for row in rows]
            last = next((kind for kind in kinds if kind != "noted"), "")  # notes of the context follow the end
            one = StoredSession(
                name, run.facts.title, run.facts.model, rows[0].ts, turn_of(rows[0].summary), last != "ended"
            )
            found.append((rows[0].seq, one))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]
