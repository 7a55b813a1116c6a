"""Memory that keeps nothing, for evaluations that must be reproducible."""

from __future__ import annotations

__all__ = ["NullMemory"]

from collections.abc import Mapping, Sequence
from typing import Any

from periplus.agent.contracts import Consolidation, LLMClient, PageRef, TaskRef, TaskState


class NullMemory:
    """Satisfies ``contracts.Memory``. It accepts everything, returns nothing, and its ids are empty."""

    @property
    def is_durable(self) -> bool:
        return False

    def recall(self, query: str, k: int = 6, paths: Sequence[str] | None = None) -> Sequence[PageRef]:
        del query, k, paths
        return ()

    def remember(
        self, content: str, title: str, scope: str, tags: Sequence[str] = (), paths: Sequence[str] = ()
    ) -> str:
        del content, title, scope, tags, paths
        return ""

    def append_episode(self, session: str, task: str, turn: int, record: Mapping[str, Any]) -> str:
        del session, task, turn, record
        return ""

    def read_episodes(self, session: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        del session, limit
        return ()

    def search_episodes(
        self, query: str, limit: int = 5, exclude_session: str | None = None, only_session: str | None = None
    ) -> Sequence[PageRef]:
        del query, limit, exclude_session, only_session
        return ()

    def checkpoint_task(self, state: TaskState) -> None:
        del state

    def load_task(self, task_id: str) -> TaskState | None:
        del task_id
        return None

    def list_session_tasks(self, session: str) -> Sequence[TaskRef]:
        del session
        return ()

    def mark_used(self, memory_id: str) -> None:
        del memory_id

    def consolidate(self, session: str, llm: LLMClient | None = None, mode: str = "deterministic") -> Consolidation:
        del session, llm, mode
        return Consolidation(errors=("this memory keeps nothing, so there is nothing to learn from",))
