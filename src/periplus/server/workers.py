"""Threads that work on a store, so that the event loop of a server never waits for a disk.

Each thread opens a store of its own, and a job stays in the thread that began it: no store and no generator is shared. A job runs
in bounded *steps* (a chunk, a batch of objects). A thread alternates between the *lanes* that have work; a connection has one
lane in each thread, so that a client with a thousand requests gets the same share as a client with one. The result of a step goes
to the loop, which decides whether the job continues now, later, or not.
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
    """The identity that the jobs of one connection share."""

    __slots__ = ()


class Job(Generic[StoreT, StepT]):
    """``begin(store)`` returns the steps; it runs in a worker's thread, as they do.

    ``on_step`` and ``on_end`` are called in the loop: ``on_step`` with the result of each step, returning whether the next may
    start at once; ``on_end`` with None or the exception. ``is_long``: single steps may take long, or there are many.
    ``is_search``: it holds much memory until it is done; each lane runs one of these at a time, all lanes together
    SEARCHES_AT_ONCE.
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
        self.is_waiting = False  # waits for the loop to continue
        self.is_over = False


class _Ring(Generic[StoreT, StepT]):
    """Round-robin over lanes: one job of a lane, then one of the next."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Job[StoreT, StepT]]] = {}  # in turn

    def add(self, job: Job[StoreT, StepT]) -> None:
        self._lanes.setdefault(job.lane, deque()).append(job)

    def take(self, busy: Collection[Lane] = ()) -> Job[StoreT, StepT] | None:
        """Return the next wanted job of a lane that is not ``busy``."""
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
        self._searches: _Ring[StoreT, StepT] = _Ring()  # not started yet
        self._searching: dict[Lane, Job[StoreT, StepT]] = {}
        self._is_busy = False
        self._store: StoreT | None = None
        self.jobs: set[Job[StoreT, StepT]] = set()
        self.thread = threading.Thread(target=self._run, name=f"periplus-contexts-{number}", daemon=True)

    # Called in the loop.

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
        """Record the end of a search, so that another may start."""
        if self._searching.get(job.lane) is job:
            del self._searching[job.lane]
            self._next()

    def end(self, job: Job[StoreT, StepT]) -> None:
        """Cancel the job; its thread releases what it holds. ``on_end`` is not called."""
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
            self._next()  # the waiting jobs continue, whatever happens to one

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

    # Called in the thread.

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            del order  # it references a job, and so a connection
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
        except BaseException as error:  # noqa: BLE001 - the loop handles it
            return self._tell(self._ended, job, error)
        return self._tell(self._stepped, job, outcome)

    def _tell(self, what: Callable[..., None], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *values)
        except RuntimeError:
            pass  # the loop has ended


class Workers(Generic[StoreT, StepT]):
    """``count`` threads, each with a store from ``open_store``. Used from the loop only."""

    def __init__(self, open_store: Callable[[], StoreT], count: int) -> None:
        loop = asyncio.get_running_loop()
        self._workers: list[_Worker[StoreT, StepT]] = [_Worker(i, open_store, loop) for i in range(count)]
        for worker in self._workers:
            worker.thread.start()

    def submit(self, job: Job[StoreT, StepT]) -> None:
        """Give the job to the thread with the least work; the last thread is reserved for long jobs."""
        among = self._workers[-1:] if job.is_long else self._workers[:-1] or self._workers
        job.worker = min(among, key=lambda worker: len(worker.jobs))
        job.worker.add(job)

    def resume(self, job: Job[StoreT, StepT]) -> None:
        """Continue a job whose ``on_step`` returned False."""
        if job.worker is not None and job.is_waiting and not job.is_over:
            job.worker.make_ready(job)

    def searched(self, job: Job[StoreT, StepT] | None) -> None:
        """End a search whose answer only has to be sent, and free its place."""
        if job is not None and job.worker is not None:
            job.worker.searched(job)

    def end(self, job: Job[StoreT, StepT]) -> None:
        if job.worker is not None:
            job.worker.end(job)

    async def stop(self) -> None:
        """Let each thread end after its current step, and close its store."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            await asyncio.to_thread(worker.thread.join, STOP_PATIENCE_S)


def _close(steps: Iterator[object]) -> None:
    close = getattr(steps, "close", None)
    if close is not None:
        close()
