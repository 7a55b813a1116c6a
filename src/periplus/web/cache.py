"""Values kept between requests: bounded, shared by the worker threads, thrown away at any time."""

from __future__ import annotations

__all__ = ["Cache"]

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

T = TypeVar("T")
ENTRIES_MAX: Final = 64


class Cache:
    """Values by key, the least recently used dropped first. The key names everything that the value depends on, such as the
    number of the journal's last record.
    """

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, object] = OrderedDict()
        self._entries_max = entries_max

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of ``key``, made where it is missing; two threads may make it twice."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]  # type: ignore[return-value]  # stored under this key with this type
        made = make()
        with self._lock:
            self._values[key] = made
            self._values.move_to_end(key)
            while len(self._values) > self._entries_max:
                self._values.popitem(last=False)
        return made

    def clear(self) -> None:
        """Drop everything, as the store is another one."""
        with self._lock:
            self._values.clear()
