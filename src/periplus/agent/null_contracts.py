"""The contracts with nothing behind them: for runs without tools, without a project to look into; see also ``memories.null``, ``policies.oracle``."""

from __future__ import annotations

__all__ = ["NullRetriever", "NullToolHost"]

from collections.abc import Mapping, Sequence
from typing import Any

from periplus.agent.contracts import Access, Snippet, ToolResult, ToolSchema
from periplus.base.errors import NotFoundError


class NullRetriever:
    """Finds nothing."""

    def retrieve(self, query: str, k: int = 6) -> Sequence[Snippet]:
        del query, k
        return ()


class NullToolHost:
    """There are no tools and no files."""

    def schemas(self) -> Sequence[ToolSchema]:
        return ()

    def run(self, name: str, args: Mapping[str, Any]) -> ToolResult:
        del args
        return ToolResult(
            outcome="failed", output=f"There is no tool {name!r}; this session has no tools.", untrusted=False
        )

    def read_text(self, path: str) -> str:
        raise NotFoundError(f"no file {path}")

    def accesses(self, name: str, args: Mapping[str, Any]) -> Sequence[Access]:
        del name, args
        return ()
