"""Threads that do the work of a store, so that the loop of a server never waits for a disk.

Every thread opens a store of its own, and a job stays with the thread that began it: no store and no generator is ever used by two.
A job works in *steps*, each bounded (a chunk, a batch of objects). Threads take steps in turn over the *lanes* that have something to
do; a connection has one lane in each thread, so that whoever asks for a thousand things is served as often as whoever asks for one.
A step's outcome is given to the loop, which decides whether the job goes on now, later, or not at all.
"""

from __future__ import annotations

__all__ = ["Job", "Lane", "Workers"]

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Final, Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


StoreT = TypeVar("StoreT", bound=Closable)
StepT = TypeVar("StepT")

STOP_PATIENCE_S: Final = 10.0
SEARCHES_AT_ONCE: Final = 4


class Lane:
    """What the jobs of one connection have in common. Nothing but its identity counts."""

    __slots__ = ()


class Job(Generic[StoreT, StepT]):
    """``begin(store)`` gives the steps; it runs in a worker's thread, as they do.

    ``on_step`` and ``on_end`` are called in the loop: ``on_step`` with each step's outcome, and it says whether the next may begin at
    once; ``on_end`` with None, or with what was raised. ``is_long`` where a single step may take long, or many follow
    each other. ``is_search`` where it holds much until it is done: of these each lane has one under way, all lanes SEARCHES_AT_ONCE.
    """

    def __init__(
        self,
        lane: Lane,
        begin: Callable[[StoreT], Iterator[StepT]],
        on_step: Callable[[StepT], bool],
        on_end: Callable[[BaseException | None], None],
        *,
        is_long: bool = False,
        is_search: bool = False,
    ) -> None:
        self.lane = lane
        self.is_long = is_long
        self.is_search = is_search
        self.begin = begin
        self.on_step = on_step
        self.on_end = on_end
        self.steps: Iterator[StepT] | None = None
        self.worker: _Worker[StoreT, StepT] | None = None
        self.is_waiting = False  # for leave of the loop to go on
        self.is_over = False


class _Ring(Generic[StoreT, StepT]):
    """Jobs in turn: one of a lane, then one of the next that has any."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Job[StoreT, StepT]]] = {}  # as they come in turn

    def add(self, job: Job[StoreT, StepT]) -> None:
        self._lanes.setdefault(job.lane, deque()).append(job)

    def take(self, busy: Collection[Lane] = ()) -> Job[StoreT, StepT] | None:
        """The next one that is still wanted, of a lane that is not ``busy``."""
        for lane in list(self._lanes):
            if lane in busy:
                continue
            jobs = self._lanes.pop(lane)
            while jobs and jobs[0].is_over:
                jobs.popleft()
            if not jobs:
                continue
            job = jobs.popleft()
            if jobs:
                self._lanes[lane] = jobs
            return job
        return None


class _Worker(Generic[StoreT, StepT]):
    def __init__(self, number: int, open_store: Callable[[], StoreT], loop: asyncio.AbstractEventLoop) -> None:
        self._open_store = open_store
        self._loop = loop
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._ready: _Ring[StoreT, StepT] = _Ring()
        self._searches: _Ring[StoreT, StepT] = _Ring()  # that have not begun
        self._searching: dict[Lane, Job[StoreT, StepT]] = {}
        self._is_busy = False
        self._store: StoreT | None = None
        self.jobs: set[Job[StoreT, StepT]] = set()
        self.thread = threading.Thread(target=self._run, name=f"periplus-contexts-{number}", daemon=True)

    # In the loop.

    def add(self, job: Job[StoreT, StepT]) -> None:
        self.jobs.add(job)
        if job.is_search:
            self._searches.add(job)
            self._next()
        else:
            self.make_ready(job)

    def make_ready(self, job: Job[StoreT, StepT]) -> None:
        job.is_waiting = False
        self._ready.add(job)
        self._next()

    def searched(self, job: Job[StoreT, StepT]) -> None:
        """It has what it searched for, or is over: another may begin."""
        if self._searching.get(job.lane) is job:
            del self._searching[job.lane]
            self._next()

    def end(self, job: Job[StoreT, StepT]) -> None:
        """The job is not wanted any more; what it holds is let go in its own thread. ``on_end`` is not called."""
        if job.is_over:
            return
        job.is_over = True
        self.jobs.discard(job)
        steps = job.steps
        if steps is not None:
            self._orders.put(lambda: _close(steps))
        self.searched(job)

    def stop(self) -> None:
        for job in list(self.jobs):
            self.end(job)
        self._orders.put(None)

    def _next(self) -> None:
        while len(self._searching) < SEARCHES_AT_ONCE and (search := self._searches.take(self._searching)) is not None:
            self._searching[search.lane] = search
            self._ready.add(search)
        if not self._is_busy and (job := self._ready.take()) is not None:
            self._is_busy = True
            self._orders.put(lambda: self._step(job))

    def _stepped(self, job: Job[StoreT, StepT], outcome: StepT) -> None:
        self._is_busy = False
        try:
            if not job.is_over:
                job.is_waiting = True
                if job.on_step(outcome) and job.is_waiting and not job.is_over:
                    self.make_ready(job)
        finally:
            self._next()  # whatever becomes of one job, those that wait have their turn

    def _ended(self, job: Job[StoreT, StepT], error: BaseException | None) -> None:
        self._is_busy = False
        try:
            if not job.is_over:
                job.is_over = True
                self.jobs.discard(job)
                job.on_end(error)
        finally:
            self.searched(job)
            self._next()

    # In the thread.

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            del order  # it holds a job, and so a connection
        if self._store is not None:
            self._store.close()

    def _step(self, job: Job[StoreT, StepT]) -> None:
        try:
            if self._store is None:
                self._store = self._open_store()
            if job.steps is None:
                job.steps = job.begin(self._store)
                if job.is_over:
                    _close(job.steps)
                    return self._tell(self._ended, job, None)
            outcome = next(job.steps)
        except StopIteration:
            return self._tell(self._ended, job, None)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the loop answers for it
            return self._tell(self._ended, job, error)
        return self._tell(self._stepped, job, outcome)

    def _tell(self, what: Callable[..., None], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *values)
        except RuntimeError:
            pass  # the loop has ended: nobody is left to be told


class Workers(Generic[StoreT, StepT]):
    """``count`` threads, each with a store of ``open_store``. Used from the loop alone."""

    def __init__(self, open_store: Callable[[], StoreT], count: int) -> None:
        loop = asyncio.get_running_loop()
        self._workers: list[_Worker[StoreT, StepT]] = [_Worker(i, open_store, loop) for i in range(count)]
        for worker in self._workers:
            worker.thread.start()

    def submit(self, job: Job[StoreT, StepT]) -> None:
        """Give it to whoever has least to do; the last thread is for what may take long, so that it is waited for by its like."""
        among = self._workers[-1:] if job.is_long else self._workers[:-1] or self._workers
        job.worker = min(among, key=lambda worker: len(worker.jobs))
        job.worker.add(job)

    def resume(self, job: Job[StoreT, StepT]) -> None:
        """Let a job whose ``on_step`` said no go on."""
        if job.worker is not None and job.is_waiting and not job.is_over:
            job.worker.make_ready(job)

    def searched(self, job: Job[StoreT, StepT] | None) -> None:
        """A search has come to its end, and only its answer is to be sent: its place is another's."""
        if job is not None and job.worker is not None:
            job.worker.searched(job)

    def end(self, job: Job[StoreT, StepT]) -> None:
        if job.worker is not None:
            job.worker.end(job)

    async def stop(self) -> None:
        """Every thread ends after the step that it is in, and closes its store."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            await asyncio.to_thread(worker.thread.join, STOP_PATIENCE_S)


def _close(steps: Iterator[object]) -> None:
    close = getattr(steps, "close", None)
    if close is not None:
        close()
