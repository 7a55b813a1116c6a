"""The index of a journal that is kept open, and what is held of it while nobody asks.

Between two looks a view stands on one snapshot of the index, for its watermarks and its rows belong together. For as long as a process
holds that snapshot, SQLite keeps what all others write behind it in the log beside the file: a server that waits for its next call for a
day has that log grow by a hundred kilobytes for each record of others, and no checkpoint makes it shorter. So whoever waits gives
the snapshot back (``rest``), and whatever is asked first takes a new one. Where the index moved on meanwhile the view begins anew.
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
    """What ``JournalReader`` is as far as that goes."""

    layout: Layout
    _owner: Owner
    _index: Index
    _is_resting = False
    _is_mutating: bool

    @property
    def index(self) -> Index:
        """The index, with the snapshot that the view stands on."""
        if self._is_resting:
            self._wake()
        return self._index

    @index.setter
    def index(self, index: Index) -> None:
        self._index, self._is_resting = index, False

    @property
    def index_path(self) -> str:
        """The path of the index's file, or the one that it would have while the index is in memory."""
        return self.index.path or self.layout.index

    def rest(self) -> None:
        """Hold nothing of the index until the next call: for who keeps a journal open and waits for something to do.

        What is asked next is answered as after ``refresh``. Within a call that writes nothing happens. Raises as ``refresh`` does of a
        closed journal, another thread or a fork.
        """
        self._owner.check()
        if not self._is_at_work():
            self._index.end()
            self._is_resting = True

    def check_idle(self) -> None:
        """Raises AtWorkError within a call that writes. A signal's handler is: closing would wait for what it interrupted."""
        self._owner.check_closing()
        if self._is_at_work():
            raise AtWorkError

    @abstractmethod
    def refresh(self, within_s: float | None = None) -> None:
        """Take in what was written since the last look."""

    # -- inside --------------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """At the begin of a call. Raises ForkedError, WrongThreadError, ClosedError."""
        self._owner.check()
        if self._is_resting:
            self._wake()

    def _wake(self) -> None:
        self._resume()
        try:
            self.refresh()
        except EnvironmentFailure:
            self._is_resting = True  # nobody takes what there was before for what there is
            raise

    def _resume(self) -> None:
        """Hold a snapshot again: what a look begins with."""
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
