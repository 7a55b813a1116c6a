"""Cancelling: a token that is set by whoever, never unset, and tells all who asked to be told, children's tokens too."""

from __future__ import annotations

__all__ = ["CancelToken"]

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CancelToken:
    """Set with ``cancel``, never unset. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason = ""

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self, reason: str = "") -> None:
        """Set the token and tell everybody, in the order in which they asked. Every one is told, whatever another raises.

        Set once more it tells again: who asked may not have been at what there is to stop.
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
        """Wait until the token is set, at most ``seconds``; gives whether it is."""
        return self._event.wait(seconds)

    @contextmanager
    def telling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Within the block ``callback`` is called when the token is set; at once where it is set already."""
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
        """A token that is set with this one, and can be set without it: for a subagent."""
        token = CancelToken()
        with self.telling(lambda: token.cancel(self.reason)):
            yield token
