"""Deadlines of a subagent: a limit on its whole time, and one on the time without any progress.

A thread waits for the earlier of the two and sets the token of the subagent, which stops its model, its tools and their processes. Both
clocks stand still while a person is asked.
"""

from __future__ import annotations

__all__ = ["Late", "Watch"]

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self, TypeAlias

from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.loop import World

Late: TypeAlias = Literal["", "deadline", "idle"]


class Watch:
    """Sets ``token`` after ``deadline_s``, or when ``heard`` was not called for ``idle_s``; ``late`` says which it was."""

    def __init__(self, world: World, token: CancelToken, *, deadline_s: float, idle_s: float) -> None:
        self._world, self._token = world, token
        self._deadline_s, self._idle_s = deadline_s, idle_s
        self._lock = threading.Lock()
        self._over = CancelToken()
        self._asking = 0
        self._asked_s = 0.0
        self._begun_s = self._heard_s = world.monotonic_s()
        self._thread = threading.Thread(target=self._watch, name="watch of a subagent", daemon=True)
        self.late: Late = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.cancel()
        self._thread.join()

    @property
    def is_stopped(self) -> bool:
        """Return whether the subagent was told to stop, by anybody."""
        return self._token.is_cancelled

    def heard(self) -> None:
        """Note a sign of progress."""
        with self._lock:
            self._heard_s = self._world.monotonic_s()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Stop the clocks while a person is asked."""
        with self._lock:
            if not self._asking:
                self._asked_s = self._world.monotonic_s()
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    now_s = self._world.monotonic_s()
                    self._begun_s += now_s - self._asked_s
                    self._heard_s = now_s

    def left(self) -> tuple[float, Late]:
        """The seconds until the next deadline, and which one it is; a full span while a person is asked."""
        with self._lock:
            now_s = self._world.monotonic_s()
            if self._asking:
                return self._idle_s, ""
            total, idle = self._begun_s + self._deadline_s - now_s, self._heard_s + self._idle_s - now_s
            return (total, "deadline") if total <= idle else (idle, "idle")

    def _watch(self) -> None:
        while not self._over.is_cancelled:
            left_s, late = self.left()
            if late and left_s <= 0:
                self.late = late
                self._token.cancel(
                    "it reached its time limit" if late == "deadline" else "it showed no progress for too long"
                )
                return
            self._world.wait(self._over, left_s)
