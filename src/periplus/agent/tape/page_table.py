"""Page table: one façade over code, memory, and turns of this and other sessions, which selects the tail's knowledge."""

from __future__ import annotations

__all__ = ["KINDS", "PageTable"]

from collections.abc import Callable, Sequence
from typing import Final

from periplus.agent.contracts import Memory, PageRef, Retriever
from periplus.base.errors import UsageError

KINDS: Final = ("memory", "code", "turn")
_WEIGHTS: Final = {"memory": 1.0, "code": 0.8, "turn": 0.7}
_CODE_CHARACTERS: Final = 600


class PageTable:
    """``session`` is the asking one: its own turns are on the tape already and are not found again."""

    def __init__(self, memory: Memory | None = None, retriever: Retriever | None = None, session: str = "") -> None:
        self._memory = memory
        self._retriever = retriever
        self._session = session

    def lookup(self, focus: str, kind: str = "", k: int = 6, paths: Sequence[str] = ()) -> Sequence[PageRef]:
        """The best ``k`` pages for ``focus``, of one kind or of all; ``paths`` are the files worked on. Raises UsageError.

        Each backend's scores are relative to its best; the order is total, so equal answers give the same order.
        """
        if kind and kind not in KINDS:
            raise UsageError(f"unknown kind of page {kind!r}", mend=f"Known are: {', '.join(KINDS)}.")
        asked: dict[str, Callable[[], Sequence[PageRef]]] = {
            "memory": lambda: self._memory.recall(focus, k, paths) if self._memory is not None else (),
            "code": lambda: self._code(focus, k),
            "turn": lambda: self._turns(focus, k),
        }
        found: list[tuple[float, str, PageRef]] = []
        for name in KINDS:
            if kind in ("", name):
                pages = asked[name]()
                best = max((page.score for page in pages), default=0.0)
                found += [(-_WEIGHTS[name] * page.score / best, page.handle, page) for page in pages if best > 0]
        return tuple(page for _, _, page in sorted(found, key=lambda row: row[:2])[: max(0, k)])

    def _code(self, focus: str, k: int) -> Sequence[PageRef]:
        if self._retriever is None:
            return ()
        return [
            PageRef(handle=one.path, kind="code", preview=one.text[:_CODE_CHARACTERS], score=one.score)
            for one in self._retriever.retrieve(focus, k)
        ]

    def _turns(self, focus: str, k: int) -> Sequence[PageRef]:
        if self._memory is None:
            return ()
        return self._memory.search_episodes(focus, k, exclude_session=self._session or None)
