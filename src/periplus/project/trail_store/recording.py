"""Record a run of this project: its steps as they happen, the state of the files, and the seal of a run that was
left.

A run that begins in a git worktree has the commit it began from in its header, and a CHECKPOINT with the tree of the
files at its beginning and its end, so that ``trail verify --effects`` can tell whether its steps give those files.
"""

from __future__ import annotations

__all__ = [
    "IDLE_MS_MAX",
    "Abandoned",
    "Recording",
    "Sealed",
    "SoFar",
    "open_recording",
    "run_so_far",
    "seal_abandoned",
    "seal_run",
    "unsealed",
]

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from periplus.base.encoding.digests import sha256
from periplus.base.errors import EnvironmentFailure, FormatError, NotFoundError, PeriplusError, UsageError
from periplus.base.ids import derived_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.process_marks import is_gone, process_mark
from periplus.base.text.secrets import mask_secrets
from periplus.journal import Entity, Transaction
from periplus.project.trail_store.cards import card_of_run
from periplus.project.trail_store.fleet_records import fleet_observers
from periplus.project.trail_store.withholding import Withholding
from periplus.project.worktree import Worktree, WorktreeState, base_entries, standing_of, worktree_of
from periplus.trail.checkpoints.file_states import encode_file_states
from periplus.trail.checkpoints.git_tree import SUBMODULE, TreeEntry, blob_id, tree_id
from periplus.trail.model import Digest, Status, Step
from periplus.trail.opcodes import BY_NAME
from periplus.trail.recording.live_step import LiveStep, StepMaker
from periplus.trail.recording.recorder import RUN_TYPE, Acknowledged, Ended, Recorder, Run, RunFacts, run_of

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

IDLE_MS_MAX: Final = 24 * 3_600_000
_KEPT_FILE_BYTES_MAX: Final = 1 << 20
_KEPT_BYTES_MAX: Final = 64 << 20
_CHECKPOINT: Final = BY_NAME["CHECKPOINT"].code
_CANCELLED: Final = frozenset({"CancelledError", "GeneratorExit", "KeyboardInterrupt"})


class Sealed(NamedTuple):
    """``entity`` announces the trail; ``changed`` is False where the run was sealed already."""

    run: Run
    entity: Entity
    changed: bool


class Abandoned(NamedTuple):
    """A run that its process left; ``trouble`` says why it could not be sealed."""

    run: Run
    sealed: Sealed | None
    trouble: PeriplusError | None


class Recording:
    """A run that is being recorded. As a context manager it is sealed at the end: ``success``, ``error`` where an
    exception came out of it, ``cancelled`` where it was interrupted.
    """

    def __init__(
        self, project: ProjectStore, recorder: Recorder, run: Run, maker: StepMaker, worktree: Worktree | None
    ) -> None:
        self._project = project
        self._recorder = recorder
        self._maker = maker
        self._worktree = worktree
        self._base: dict[str, TreeEntry] | None = None
        self._withholding = Withholding(project)
        self._contents: dict[bytes, bytes | None] = {}  # by blob: the object that was kept, if any
        self.run = run

    @property
    def id(self) -> str:
        return self.run.id

    def step(self, op: str, *, key: str = "", **values: object) -> int:
        """Record a step and return its index in the run; it is durable then. See ``StepMaker.make`` for the values.

        For a ``key`` that the run has seen, the step with that key is returned. Raises UsageError for what is not a
        step, RefusedError for a run that has ended; the run stays as it was.
        """
        return self.add(op, values, key=key).place

    def add(self, op: str, values: Mapping[str, object], *, key: str = "") -> Acknowledged:
        """As ``step``; also returns the seq of the record."""
        return self._recorder.step(self.id, self._made(op, values), key=key)

    def add_beside(
        self, steps: Sequence[tuple[str, Mapping[str, object]]], beside: Callable[[Transaction], None]
    ) -> None:
        """Record steps, each an opcode and its values, in one batch with what ``beside`` writes: all or nothing."""
        self._recorder.steps_beside(self.id, [self._made(op, values) for op, values in steps], beside)

    def checkpoint(self, *, key: str = "", looked: WorktreeState | None = None) -> Acknowledged | None:
        """Record the present state of the worktree's files (or the state ``looked``); None outside git."""
        if self._worktree is None:
            return None
        now_ms = self._project.journal.clock.now_ms()
        looked = looked or self._worktree.look()
        kept = self._keep_standing(looked)
        result = Digest("sha256", kept[0]) if kept is not None else None
        state = Digest(self._worktree.algorithm, looked.tree)
        step = Step(_CHECKPOINT, (state,), result=result, result_size=kept[1] if kept is not None else 0)
        return self._recorder.step(self.id, LiveStep(step, now_ms), key=key)

    def seal(self, status: Status = "success") -> Sealed:
        """End the run and make its trail. Idempotent."""
        return _sealed(self._project, self._recorder, self.id, status)

    def detach(self) -> None:
        """Let the run continue without this process: it stays open until it is sealed, or was left for a day."""
        self._recorder.detach(self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        status = _status_of(kind, error)
        try:
            if self._recorder.run(self.id).state == "open":
                self.checkpoint()
            self.seal(status)
        except PeriplusError as trouble:
            if error is None:
                raise
            error.add_note(f"and run {self.id} could not be sealed: {trouble}")

    # How

    def _made(self, op: str, values: Mapping[str, object]) -> LiveStep:
        opcode = BY_NAME.get(op.upper())
        own = dict(values)
        for operand in opcode.operands if opcode is not None else ():
            value = own.get(operand.name)
            if operand.kind == "path" and isinstance(value, str):
                own[operand.name] = self._path(value)
        return self._maker.make(op, own, self._project.journal.clock.now_ms())

    def _path(self, path: str) -> str:
        """Return a path from the top of the worktree (else of the project); other paths unchanged."""
        if "\0" in path:
            return path  # it names nothing
        top = self._worktree.top if self._worktree is not None else os.path.realpath(self._project.folder)
        full = os.path.join(self.run.facts.cwd or top, path)
        for candidate in (
            os.path.normpath(full),
            os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full)),
        ):
            inside = os.path.relpath(candidate, top)
            if not inside.startswith(".."):
                return inside
        return path

    def _base_files(self) -> dict[str, TreeEntry]:
        if self._base is None:
            base = self.run.facts.base
            assert self._worktree is not None
            self._base = (base_entries(self._worktree.top, base.value) or {}) if base is not None else {}
        return self._base

    def _keep_standing(self, looked: WorktreeState) -> tuple[bytes, int] | None:
        """Keep the state of the files as an object: ``(SHA-256, size)``; None where it would reveal a secret."""
        assert self._worktree is not None
        base = self._base_files()
        standing = standing_of(looked, tree_id(base, self._worktree.algorithm), base)
        names = [*standing.changed, *standing.removed, *(standing.ignored or ())]
        if mask_secrets("\n".join(names))[1]:
            return None
        room = _KEPT_BYTES_MAX
        for path, entry in standing.changed.items():
            digest, size = self._keep_content(path, entry, room)
            room -= size
            if digest is not None:
                standing.contents[path] = digest
        data = encode_file_states(standing)
        return (self._withholding.put(data), len(data)) if data is not None else None

    def _keep_content(self, path: str, entry: TreeEntry, room: int) -> tuple[bytes | None, int]:
        if entry.mode == SUBMODULE:
            return None, 0
        if entry.blob in self._contents:
            return self._contents[entry.blob], 0
        assert self._worktree is not None
        try:
            size = os.lstat(os.path.join(self._worktree.top, path)).st_size
            if size > min(room, _KEPT_FILE_BYTES_MAX):
                return None, 0
            data = self._worktree.content(path)
        except OSError:
            return None, 0  # it was removed meanwhile: its state is known, its content is not
        if blob_id(data, self._worktree.algorithm) != entry.blob:
            return None, 0
        digest = None
        if self._maker.masked_bytes(data) is data:
            digest = self._withholding.put_wanted(data)
        self._contents[entry.blob] = digest
        return digest, len(data)


class SoFar(NamedTuple):
    """A run with the trail of its steps until now, and the long texts of that trail by their SHA-256."""

    run: Run
    data: bytes
    objects: dict[bytes, bytes]


def open_recording(
    project: ProjectStore,
    facts: RunFacts | None = None,
    *,
    run_id: str = "",
    folder: str = "",
    pid: int | None = None,
    checkpoints: bool = True,
    without: Callable[[PeriplusError], None] | None = None,
) -> Recording:
    """Begin a run with ``facts``, or continue ``run_id``. ``pid`` is the process whose end leaves the run unfinished.

    The files are read before the run begins. Where that fails (a broken repository, no git) ``without`` gets the
    reason and the run goes on without their state; where ``without`` is None that is the error, and nothing was
    recorded.
    """
    maker = StepMaker(mask_secrets, Withholding(project).put)
    recorder = _recorder(project, maker)
    if facts is None:
        run = recorder.run(run_id)
        worktree = worktree_of(run.facts.cwd or project.folder) if checkpoints else None
        return Recording(project, recorder, run, maker, worktree)
    worktree = worktree_of(folder or project.folder) if checkpoints else None
    base, looked = facts.base, None
    if worktree is not None:
        try:
            base = base or _base(worktree)
            looked = worktree.look()
        except (EnvironmentFailure, FormatError) as error:
            if without is None:
                error.safe = "Nothing was recorded."
                error.mend = f"{error.mend} Or record without the state of the files: --no-checkpoints.".strip()
                raise
            without(error)
            worktree, base = None, facts.base
    facts = facts._replace(base=base, cwd=facts.cwd or os.path.realpath(folder or project.folder))
    mark = process_mark(pid, project.journal.files) if pid is not None else None
    recording = Recording(project, recorder, recorder.begin(facts, mark), maker, worktree)
    recording.checkpoint(looked=looked)
    return recording


def _base(worktree: Worktree) -> Digest:
    """Return the commit that a run begins from, or the empty tree before the first commit."""
    return worktree.commit() or Digest(worktree.algorithm, tree_id({}, worktree.algorithm))


def seal_run(project: ProjectStore, run_id: str, status: Status) -> Sealed:
    """End a run, whoever began it in this clone, and make its trail."""
    return _sealed(project, _recorder(project), run_id, status)


def unsealed(project: ProjectStore) -> list[Run]:
    """Return the runs that have no trail yet, the oldest first."""
    project.journal.refresh()
    runs = [run_of(one) for one in project.journal.entities(RUN_TYPE) if one.value.get("state") != "sealed"]
    return sorted(runs, key=lambda run: (run.started_ms, run.id))


def run_so_far(project: ProjectStore, run_id: str) -> SoFar:
    """Return the steps that a run without a trail has by now, as a trail; nothing is written. Raises NotFoundError."""
    recorder = _recorder(project)
    run = recorder.run(run_id)
    objects: dict[bytes, bytes] = {}

    def put(data: bytes) -> bytes:
        name = sha256(data)
        objects[name] = data
        return name

    return SoFar(run, recorder.so_far(run, put), objects)


def seal_abandoned(project: ProjectStore) -> list[Abandoned]:
    """Seal runs that were left: as ``partial`` the open runs whose process is gone or that had no step for a day; and
    those that ended and were never sealed. Runs of other clones are left to them.
    """
    own = project.journal.own
    mine = {own.lineage, own.previous} if own is not None else set()
    found: list[Abandoned] = []
    recorder: Recorder | None = None
    for run in unsealed(project):
        if run.lineage not in mine:
            continue
        recorder = recorder or _recorder(project)
        try:
            if run.state == "open" and not _is_left(project, recorder, run):
                continue
            found.append(Abandoned(run, _sealed(project, recorder, run.id, "partial"), None))
        except NotFoundError:
            continue  # nothing was done in it
        except PeriplusError as error:
            found.append(Abandoned(run, None, error))
    return found


def _is_left(project: ProjectStore, recorder: Recorder, run: Run) -> bool:
    if run.process is not None and is_gone(run.process, project.journal.files):
        return True
    return project.journal.clock.now_ms() - recorder.last_ms(run) > IDLE_MS_MAX


def _recorder(project: ProjectStore, maker: StepMaker | None = None) -> Recorder:
    maker = maker or StepMaker(mask_secrets, Withholding(project).put)
    return Recorder(project.journal, project.writer, maker, lambda ended: _announced(project, ended), fleet_observers())


def _sealed(project: ProjectStore, recorder: Recorder, run_id: str, status: Status) -> Sealed:
    held = recorder.run(run_id)
    if held.format:
        return _sealed_of_hooks(project, held, status)
    with project.journal.objects.keeping():  # its steps are read, its trail kept and announced
        run, changed = recorder.seal(run_id, status)
    entity = project.journal.get("trail", run.trail)
    if entity is None:
        raise UsageError(f"the trail of run {run_id} was taken out of memory", mend="See `periplus log`.")
    return Sealed(run, entity, changed)


def _sealed_of_hooks(project: ProjectStore, run: Run, status: Status) -> Sealed:
    from periplus.project.trail_store.session_runs import seal_session_run

    if run.state != "sealed":
        entity, trouble = seal_session_run(project, run, is_over=True, status=status)
        if entity is None:
            raise trouble or NotFoundError(f"nothing was done in run {run.id}", safe="It was taken away.")
        return Sealed(run, entity, changed=True)
    held = project.journal.get("trail", run.trail)
    if held is None:
        raise UsageError(f"the trail of run {run.id} was taken out of memory", mend="See `periplus log`.")
    return Sealed(run, held, changed=False)


def _announced(project: ProjectStore, ended: Ended) -> tuple[str, Callable[[Transaction], None]]:
    """Keep the trail; returns the id of its entity and the function that writes it."""
    run = ended.run
    card = card_of_run(ended)
    item_id = derived_id("trl", "recording", run.id, "")
    Withholding(project).put_trail(card, ended.data, project.journal.get("trail", item_id))

    def write(transaction: Transaction) -> None:
        held = transaction.get("trail", item_id)
        if held is None or held.deleted or held.value != card:
            transaction.put("trail", item_id, card, action="create", summary=f"trail: {card['title'] or run.id}")

    return item_id, write


def _status_of(kind: type[BaseException] | None, error: BaseException | None) -> Status:
    if kind is None:
        return "success"
    if isinstance(error, SystemExit):
        return "success" if error.code in (None, 0) else "error"
    return "cancelled" if any(one.__name__ in _CANCELLED for one in kind.__mro__) else "error"
