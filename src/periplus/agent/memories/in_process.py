"""Memory that lasts as long as the process, for tests, demonstrations and runs without a store."""

from __future__ import annotations

__all__ = ["InProcessMemory"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from periplus.agent.contracts import Consolidation, LLMClient, PageRef, TaskRef, TaskState
from periplus.base.errors import NotFoundError, UsageError
from periplus.base.text.search_terms import query_terms, rough_stem, terms

if TYPE_CHECKING:
    from periplus.agent.skills.command_mining import Draft

_PREVIEW_CHARACTERS: Final = 600


@dataclass(slots=True)
class _Memory:
    item_id: str
    title: str
    content: str
    scope: str
    tags: tuple[str, ...]
    paths: tuple[str, ...]
    uses: int = 0
    words: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.words = _words(f"{self.title} {self.content} {' '.join(self.tags)} {' '.join(self.paths)}")


class InProcessMemory:
    """Satisfies ``contracts.Memory``. With ``is_durable`` true, hosts keep caches and checkpoints here."""

    def __init__(self, *, is_durable: bool = True) -> None:
        self._is_durable = is_durable
        self._memories: dict[str, _Memory] = {}
        self._episodes: dict[str, list[tuple[str, int, dict[str, Any]]]] = {}
        self._tasks: dict[str, TaskState] = {}
        self._moves: dict[str, int] = {}
        self.skill_candidates: dict[tuple[str, tuple[str, ...]], Draft] = {}

    @property
    def is_durable(self) -> bool:
        return self._is_durable

    def recall(self, query: str, k: int = 6, paths: Sequence[str] | None = None) -> Sequence[PageRef]:
        asked = _words(query, is_question=True)
        near = set(paths or ())
        found = []
        for at, one in enumerate(self._memories.values()):
            score = len(asked & one.words) / len(asked) if asked else 0.0
            score += 0.5 if near & set(one.paths) else 0.0
            if score > 0:
                found.append((-score, -at, one))
        return tuple(
            PageRef(handle=f"@periplus/memory/{one.item_id}.md", kind=one.scope or "note",
                    preview=_text(one)[:_PREVIEW_CHARACTERS], score=-score)
            for score, _, one in sorted(found, key=lambda row: row[:2])[: max(0, k)]
        )  # fmt: skip

    def remember(
        self, content: str, title: str, scope: str, tags: Sequence[str] = (), paths: Sequence[str] = ()
    ) -> str:
        if not content.strip():
            raise UsageError("there is nothing to remember", safe="Nothing was written.")
        for one in self._memories.values():
            if (one.content, one.title, one.scope) == (content, title, scope):
                return one.item_id
        item_id = f"not_{len(self._memories) + 1:016d}"
        self._memories[item_id] = _Memory(item_id, title, content, scope, tuple(tags), tuple(paths))
        return item_id

    def append_episode(self, session: str, task: str, turn: int, record: Mapping[str, Any]) -> str:
        kept = self._episodes.setdefault(session, [])
        kept.append((task, turn, msgspec.json.decode(msgspec.json.encode(dict(record)))))
        return f"{session}/{len(kept)}"

    def read_episodes(self, session: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        return tuple(record for _, _, record in self._episodes.get(session, ())[-limit:]) if limit > 0 else ()

    def search_episodes(
        self, query: str, limit: int = 5, exclude_session: str | None = None, only_session: str | None = None
    ) -> Sequence[PageRef]:
        asked = _words(query, is_question=True)
        found: list[tuple[float, int, PageRef]] = []
        for session, episodes in self._episodes.items():
            if session == exclude_session or (only_session is not None and session != only_session):
                continue
            for at, (_, turn, record) in enumerate(episodes):
                text = msgspec.json.encode(record).decode()
                score = len(asked & _words(text)) / len(asked) if asked else 0.0
                if score > 0:
                    page = PageRef(handle=f"@periplus/turns/{turn}.md", kind="turn", preview=text[:_PREVIEW_CHARACTERS], score=score)  # fmt: skip
                    found.append((-score, -at, page))
        return tuple(page for _, _, page in sorted(found, key=lambda row: row[:2])[: max(0, limit)])

    def checkpoint_task(self, state: TaskState) -> None:
        self._tasks[state.task_id] = state
        self._moves[state.task_id] = self._moves.get(state.task_id, 0) + 1

    def load_task(self, task_id: str) -> TaskState | None:
        return self._tasks.get(task_id)

    def list_session_tasks(self, session: str) -> Sequence[TaskRef]:
        return tuple(
            TaskRef(task_id=one.task_id, title=one.title, status=one.status, updated=str(self._moves[one.task_id]))
            for one in self._tasks.values()
            if one.session == session
        )

    def mark_used(self, memory_id: str) -> None:
        one = self._memories.get(memory_id)
        if one is None:
            raise NotFoundError(f"no memory {memory_id!r}", safe="Nothing was written.")
        one.uses += 1

    def uses(self, memory_id: str) -> int:
        """Return how often a memory was used."""
        return self._memories[memory_id].uses

    def consolidate(self, session: str, llm: LLMClient | None = None, mode: str = "deterministic") -> Consolidation:
        if mode != "deterministic":
            raise UsageError(f"unknown mode {mode!r}", safe="Nothing was written.", mend="Known is: deterministic.")
        if session not in self._episodes:
            return Consolidation(errors=(f"no episodes of session {session}",))
        from periplus.agent.skills.command_mining import runs_of
        from periplus.agent.skills.consolidation import learn_skills

        turns = [
            turn
            for name, episodes in self._episodes.items()
            for turn in runs_of(name, ({"turn": turn, **record} for _, turn, record in episodes))
        ]

        def propose(drafts: Sequence[tuple[Draft, str]]) -> tuple[int, int]:
            new = {(draft.rule, draft.commands): draft for draft, _ in drafts}
            count = len(new.keys() - self.skill_candidates.keys())
            self.skill_candidates |= {key: draft for key, draft in new.items() if key not in self.skill_candidates}
            return count, 0

        learned = learn_skills(
            turns, session, llm, lambda draft: (draft.rule, draft.commands) in self.skill_candidates, propose
        )
        nothing = "this memory keeps no trails, and lessons are drawn from trails"
        return Consolidation(skills=learned.skills, skills_rejected=learned.rejected, errors=(nothing, *learned.errors))


def _text(one: _Memory) -> str:
    return f"{one.title}\n{one.content}" if one.title else one.content


def _words(text: str, *, is_question: bool = False) -> frozenset[str]:
    return frozenset(rough_stem(term) for term in (query_terms(text) if is_question else terms(text)))
