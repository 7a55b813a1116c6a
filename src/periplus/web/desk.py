"""Worker threads with open projects: each question of a browser is answered by one of them.

In a store of many entity files a look at them takes longer than a page may; a thread of its own does it while the pages answer.
What is written has a thread of its own, too: it may have to wait for a lock, and pages do not.

SQLite connections and open journals belong to one thread. A project that failed, or whose store is no longer the one that was opened, is
closed, and opened again for the next question: a store that was removed, replaced, damaged or repaired behind an open page is seen as
it is.
"""

from __future__ import annotations

__all__ = ["Desk"]

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from periplus.base.errors import DamageError, EnvironmentFailure, NotAStoreError, PeriplusError

if TYPE_CHECKING:
    from periplus.project import Project

T = TypeVar("T")
WORKERS: Final = 2
WAITING_MAX: Final = 64


class Desk:
    """``ask`` runs a function with a project in a worker thread. ``opening`` opens the project for one; ``on_replaced`` is called where
    another store was found than before.
    """

    def __init__(
        self, opening: Callable[[], Project], workers: int = WORKERS, on_replaced: Callable[[], None] = lambda: None
    ) -> None:
        self._opening = opening
        self._on_replaced = on_replaced
        self._workers = workers
        self._executor = ThreadPoolExecutor(workers, "web-desk")
        self._writing = ThreadPoolExecutor(1, "web-write")
        self._looker = ThreadPoolExecutor(1, "web-look")
        self._is_look_due = threading.Event()
        self._own = threading.local()
        self._waiting = 0
        self._is_closed = False

    async def ask(self, question: Callable[[Project], T], *, takes_damage: bool = False, is_write: bool = False) -> T:
        """Return the answer of ``question``. Raises what it raises, EnvironmentFailure where too many wait, and the damage of a journal
        unless the question ``takes_damage``.
        """
        if self._waiting >= WAITING_MAX:
            raise EnvironmentFailure(
                "too many requests at once", safe="Nothing was changed.", mend="Load the page again."
            )
        self._waiting += 1
        try:
            executor = self._writing if is_write else self._executor
            return await asyncio.get_running_loop().run_in_executor(executor, self._answer, question, takes_damage)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the threads, and close their projects in them. What waits is not answered any more."""
        self._is_closed = True
        barrier = threading.Barrier(self._workers)

        def end() -> None:
            barrier.wait(30)
            self._drop()

        for _ in range(self._workers):
            self._executor.submit(end)
        self._executor.shutdown()
        for alone in (self._writing, self._looker):
            alone.submit(self._drop)
            alone.shutdown()

    def _answer(self, question: Callable[[Project], T], takes_damage: bool) -> T:  # noqa: FBT001 - an executor passes no names
        if self._is_closed:
            raise EnvironmentFailure(
                "the server has ended", safe="Nothing was changed.", mend="Start it again: periplus web"
            )
        try:
            project = self._opened()
            project.look_elsewhere = self._look_soon
            if project.journal.damage is not None and not takes_damage:
                raise project.journal.damage
            answer = question(project)
        except (DamageError, EnvironmentFailure, NotAStoreError):
            self._drop()
            raise
        if project.journal.damage is not None:
            self._drop()  # the next question sees whether it was repaired
        return answer

    def _look_soon(self) -> None:
        """Have the entity files looked at, unless that is about to be done."""
        if not self._is_look_due.is_set():
            self._is_look_due.set()
            try:
                self._looker.submit(self._look)
            except RuntimeError:
                pass  # the server ends

    def _look(self) -> None:
        self._is_look_due.clear()
        try:
            self._opened().look_to_answer()
        except (PeriplusError, OSError):
            self._drop()  # the next page says what is wrong

    def _opened(self) -> Project:
        """Return the project of this thread, opened where it is not, or where another store is in its place."""
        project: Project | None = getattr(self._own, "project", None)
        if project is not None and _mark(project) != self._own.mark:
            self._drop()
            self._on_replaced()
            project = None
        if project is None:
            project = self._own.project = self._opening()
            self._own.mark = _mark(project)
        return project

    def _drop(self) -> None:
        project: Project | None = getattr(self._own, "project", None)
        self._own.project = None
        if project is not None:
            with contextlib.suppress(PeriplusError, OSError):  # the error that led here is told
                project.close()


def _mark(project: Project) -> tuple[object, ...]:
    """Return a value that changes where the store is removed, replaced, or gets other settings: only people write the settings."""
    layout = project.journal.layout
    try:
        settings, journal = os.stat(layout.config), os.stat(layout.journal)
    except OSError as error:
        return (error.errno,)
    return (settings.st_dev, settings.st_ino, settings.st_ctime_ns, settings.st_size, journal.st_dev, journal.st_ino)
