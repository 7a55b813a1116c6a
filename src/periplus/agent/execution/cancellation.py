"""Cancellation tokens: set once, never unset, with callbacks and child tokens."""

from __future__ import annotations

__all__ = ["CancelToken"]

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CancelToken:
    """A cancellation token, set with ``cancel``. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason = ""

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self, reason: str = "") -> None:
        """Set the token and call all callbacks in order, whatever any of them raises.

        Called again, it repeats the callbacks: the first time, some work may not have begun yet.
        """
        with self._lock:
            if not self._event.is_set():
                self.reason = reason
                self._event.set()
            callbacks = list(self._callbacks)
        failed: list[Exception] = []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the others have to be told too; it is raised below
                failed.append(error)
        if failed:
            raise failed[0]

    def wait(self, seconds: float) -> bool:
        """Wait until the token is set, for at most ``seconds``. Return whether it is set."""
        return self._event.wait(seconds)

    @contextmanager
    def telling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` when the token is set during the block, at once where it is set already."""
        with self._lock:
            is_set = self._event.is_set()
            self._callbacks.append(callback)
        try:
            if is_set:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)

    @contextmanager
    def child(self) -> Iterator[CancelToken]:
        """A token that is set with this one and can be set alone, for a subagent."""
        token = CancelToken()
        with self.telling(lambda: token.cancel(self.reason)):
            yield token
