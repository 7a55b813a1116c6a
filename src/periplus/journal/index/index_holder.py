"""The open index of a journal, and the release of its snapshot while the journal is idle.

Between two looks a view uses one snapshot of the index, because its watermarks and rows belong together. As long as a process holds the
snapshot, SQLite keeps all later writes in the log beside the file: during a day of waiting, the log grows by about a hundred kilobytes for
each record that others write, and no checkpoint shortens it. So an idle process releases the snapshot (``rest``), and the next question
takes a new one. If the index has changed meanwhile, the view begins anew.
"""

from __future__ import annotations

__all__ = ["IndexHolder"]

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from periplus.base.errors import EnvironmentFailure
from periplus.journal.index.connection import AtWorkError

if TYPE_CHECKING:
    from periplus.journal.index.connection import Owner
    from periplus.journal.index.tables import Index
    from periplus.journal.storage.layout import Layout


class IndexHolder(ABC):
    """The part of ``JournalReader`` that holds the index."""

    layout: Layout
    _owner: Owner
    _index: Index
    _is_resting = False
    _is_mutating: bool

    @property
    def index(self) -> Index:
        """The index, with the snapshot that the view uses."""
        if self._is_resting:
            self._wake()
        return self._index

    @index.setter
    def index(self, index: Index) -> None:
        self._index, self._is_resting = index, False

    @property
    def index_path(self) -> str:
        """The path of the index's file, or the path it would have while the index is in memory."""
        return self.index.path or self.layout.index

    def rest(self) -> None:
        """Release the index until the next call, for processes that keep a journal open and wait.

        The next question is answered as after ``refresh``. Does nothing within a call that writes. Raises as ``refresh`` does for a closed
        journal, another thread or a fork.
        """
        self._owner.check()
        if not self._is_at_work():
            self._index.end()
            self._is_resting = True

    def check_idle(self) -> None:
        """Raise AtWorkError within a call that writes. A signal handler runs within one: closing would wait for the interrupted call."""
        self._owner.check_closing()
        if self._is_at_work():
            raise AtWorkError

    @abstractmethod
    def refresh(self, within_s: float | None = None) -> None:
        """Take in what was written since the last look."""

    # -- inside --------------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Begin a call. Raises ForkedError, WrongThreadError, ClosedError."""
        self._owner.check()
        if self._is_resting:
            self._wake()

    def _wake(self) -> None:
        self._resume()
        try:
            self.refresh()
        except EnvironmentFailure:
            self._is_resting = True  # the old state must not be taken for the current one
            raise

    def _resume(self) -> None:
        """Take a snapshot again, at the beginning of a look."""
        if self._is_resting:
            self._is_resting = False
            if not self._index.resumes():
                self._forget()

    def _is_at_work(self) -> bool:
        locks = [getattr(self, used) for used in ("_lock", "_projector") if used in self.__dict__]
        return self._is_mutating or any(lock.is_held for lock in locks)

    @abstractmethod
    def _forget(self) -> None:
        """Begin a new view at the index's watermarks."""

    def _read_anew(self) -> None:
        self._forget()
        self.refresh()
