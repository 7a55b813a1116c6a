"""Long work beside the pages, such as a full check of the store: one job at a time, its progress and result kept."""

from __future__ import annotations

__all__ = ["Background", "Job"]

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError, RefusedError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.project import Project

WAITING_MAX: Final = 4
KEPT_MAX: Final = 16
Work = Callable[["Project", Callable[[int, int], None]], object]


class Job(NamedTuple):
    """A job as it stands: ``done`` of ``total`` while it runs, ``result`` or ``error`` when it has ended (``ended_s``)."""

    name: str
    is_running: bool
    done: int = 0
    total: int = 0
    result: object = None
    error: PeriplusError | None = None
    started_s: float = 0.0
    ended_s: float = 0.0


class Background:
    """Runs jobs one after another in a thread with a project of its own, opened for each job."""

    def __init__(self, opening: Callable[[], Project], on_change: Callable[[], None] = lambda: None) -> None:
        self._opening = opening
        self._on_change = on_change
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._executor = ThreadPoolExecutor(1, "web-background")

    def job(self, name: str) -> Job | None:
        """Return the last job of this name."""
        with self._lock:
            return self._jobs.get(name)

    def start(self, name: str, work: Work) -> Job:
        """Start a job, unless one of its name runs. Raises RefusedError where too many wait."""
        with self._lock:
            held = self._jobs.get(name)
            if held is not None and held.is_running:
                return held
            if sum(one.is_running for one in self._jobs.values()) >= WAITING_MAX:
                raise RefusedError(
                    "too much long work is under way", safe="Nothing was started.", mend="Try again when it has ended."
                )
            job = self._jobs[name] = Job(name, True, started_s=time.time())
            self._jobs.move_to_end(name)
            while len(self._jobs) > KEPT_MAX:
                ended = next((key for key, one in self._jobs.items() if not one.is_running), None)
                if ended is None:
                    break
                del self._jobs[ended]
        self._executor.submit(self._run, name, work)
        return job

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, name: str, work: Work) -> None:
        def progress(done: int, total: int) -> None:
            self._change(name, done=done, total=total)

        try:
            with self._opening() as project:
                result = work(project, progress)
            self._change(name, is_running=False, result=result, ended_s=time.time())
        except PeriplusError as error:
            self._change(name, is_running=False, error=error, ended_s=time.time())
        except Exception as error:  # noqa: BLE001 - a defect ends the job, not the thread; the page says so
            wrapped = PeriplusError(f"a defect of Periplus: {type(error).__name__}: {error}")
            self._change(name, is_running=False, error=wrapped, ended_s=time.time())
        self._on_change()

    def _change(self, name: str, **fields: object) -> None:
        with self._lock:
            held = self._jobs.get(name)
            if held is not None:
                self._jobs[name] = held._replace(**fields)  # type: ignore[arg-type]  # names of fields, from this module alone
