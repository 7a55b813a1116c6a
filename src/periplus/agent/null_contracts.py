"""Null implementations of contracts, for runs without tools or a project; see also ``memories.null`` and ``policies.oracle``."""

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
    """A host without tools and files."""

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
