"""Memory of a project: entities of its store, episodes of its journal, lessons of its trails.

An episode is an observation of the session's entity, as ``persistence.run_log`` writes it, so a session has one history whoever writes it.
A task's checkpoint is an observation too; the newest one counts.
"""

from __future__ import annotations

__all__ = ["StoreMemory"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from periplus.agent.contracts import Consolidation, LLMClient, PageRef, TaskRef, TaskState
from periplus.agent.episodes import Episode, Noted
from periplus.agent.persistence.episode_codec import decode_episode, encode_episode, masked_episode
from periplus.agent.persistence.turn_index import TurnIndex
from periplus.agent.tape.history.turn_pages import RECORD_TOPIC
from periplus.base.errors import DamageError, NotFoundError, PeriplusError, UsageError
from periplus.base.ids import derived_id
from periplus.base.text.secrets import mask_secrets
from periplus.journal import Transaction
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.journal.records.record import record_of
from periplus.journal.state.index_values import IndexedRecord
from periplus.memory.claim_status import session_id

if TYPE_CHECKING:
    from periplus.agent.skills.command_mining import Draft
    from periplus.agent.skills.consolidation import Learned
    from periplus.project import Project

_SESSION: Final = "session"
_TASK: Final = "task"
_RUN: Final = "run"
_PREVIEW_CHARACTERS: Final = 600
_PATHS_ASKED: Final = 5
_TASKS_MAX: Final = 1_000
_SESSIONS_BESIDE: Final = 20
_EPISODES_LOOKED_AT: Final = 2_000
_ANY_SCOPE: Final = frozenset({"", "project", "session"})


class StoreMemory:
    """Satisfies ``contracts.Memory`` over an open ``project``. ``index`` may be shared with readers of turns; close what you opened."""

    def __init__(self, project: Project, index: TurnIndex | None = None) -> None:
        self._project = project
        self._index = index
        self._own: TurnIndex | None = None

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None

    @property
    def is_durable(self) -> bool:
        return True

    # -- knowledge -----------------------------------------------------------------------------------------------------

    def recall(self, query: str, k: int = 6, paths: Sequence[str] | None = None) -> Sequence[PageRef]:
        """The best ``k``, with those about one of ``paths`` first."""
        from periplus.memory.entities.types import MEMORY_TYPES, NOT_REMEMBERED
        from periplus.memory.retrieval.search import Filters
        from periplus.memory.retrieval.spelling import near_words_text

        types = tuple(name for name in MEMORY_TYPES if name not in NOT_REMEMBERED)
        question = " ".join([query, *(paths or ())[:_PATHS_ASKED]])
        if k <= 0 or not question.strip():
            return ()
        found = self._project.recall(question, limit=k, filters=Filters(types=types))
        told = f"[{near_words_text(found.near)}]\n" if found.near else ""
        return tuple(
            PageRef(handle=f"@periplus/memory/{hit.item_id}.md", kind=hit.item_type, score=hit.score / 1e6,
                    preview=f"{told}{_preview(hit.text, hit.stale)}")
            for hit in found.hits
        )  # fmt: skip

    def remember(
        self, content: str, title: str, scope: str, tags: Sequence[str] = (), paths: Sequence[str] = ()
    ) -> str:
        """Store a memory. ``scope`` is a type of memory (``decision``, ``trap``, …), or ``project`` or ``session`` for a note."""
        from periplus.memory import Memory

        if not content.strip():
            raise UsageError("there is nothing to remember", safe="Nothing was written.")
        item_type = "note" if scope in _ANY_SCOPE else scope
        text = f"{title}: {content}" if title.strip() and title not in content else content
        made = Memory(item_type, text, tags=tuple(tags), about=tuple(paths), provenance=("agent", self._session))
        return self._project.remember(made).entity.item_id

    def mark_used(self, memory_id: str) -> None:
        """Record that a memory was used. Raises NotFoundError if there is no such memory."""
        journal = self._project.journal
        journal.refresh()
        try:
            entity = journal.find(memory_id)
        except PeriplusError as error:
            raise NotFoundError(f"no memory {memory_id!r}", safe="Nothing was written.") from error

        def write(transaction: Transaction) -> None:
            payload = {"v": 1, "used": entity.item_id, "session": self._session}
            transaction.observe(payload, item_type=entity.item_type, item_id=entity.item_id, summary="used in a turn")  # type: ignore[arg-type]  # texts and a number

        journal.mutate(write, self._project.writer, project=False)

    def uses(self, memory_id: str) -> int:
        """Return how often a memory was used."""
        self._up_to_date()
        where = "item_id = ? AND +action = 'observe' AND +summary = 'used in a turn' AND item_type = ?"
        found = self._project.journal.find(memory_id)
        return len(self._project.journal.index.records(where, (found.item_id, found.item_type), 1_000_000))

    # -- episodes ------------------------------------------------------------------------------------------------------

    def append_episode(self, session: str, task: str, turn: int, record: Mapping[str, Any]) -> str:
        if turn < 1 or not session.strip():
            raise UsageError("an episode needs a session and a turn number from 1 on", safe="Nothing was written.")
        episode = Noted(turn=turn, topic=RECORD_TOPIC, data={"task": task, "record": dict(record)})
        journal = self._project.journal
        payload = encode_episode(masked_episode(episode, mask_secrets))

        def write(transaction: Transaction) -> None:
            summary = f"turn {turn} step 0: {payload['kind']}"
            transaction.observe(payload, item_type=_SESSION, item_id=session_id(session), summary=summary)

        receipt = journal.mutate(write, self._project.writer, project=False)
        return f"{receipt.lineage}/{receipt.first_seq}"

    def read_episodes(self, session: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """The newest ``limit`` episodes, oldest first. Raises DamageError."""
        return self._read(session_id(session), limit)

    def _read(self, item_id: str, limit: int) -> Sequence[Mapping[str, Any]]:
        self._up_to_date()
        if limit <= 0:
            return ()
        where = "item_type = ? AND item_id = ? AND +action = 'observe' ORDER BY ts DESC, seq DESC"
        rows = self._project.journal.index.records(where, (_SESSION, item_id), limit)
        return tuple(_mapping(self._episode(row)) for row in reversed(rows))

    def search_episodes(
        self, query: str, limit: int = 5, exclude_session: str | None = None, only_session: str | None = None
    ) -> Sequence[PageRef]:
        own = session_id(only_session) if only_session else ""
        found = self._turns().search(query, limit, session=own, but=session_id(exclude_session or ""))
        return tuple(
            PageRef(handle=f"@periplus/turns/{one.turn}.md" if own else f"@periplus/sessions/{one.session}/turns/{one.turn}.md",
                    kind="turn", preview=one.text[:_PREVIEW_CHARACTERS], score=one.score)
            for one in found
        )  # fmt: skip

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def checkpoint_task(self, state: TaskState) -> None:
        journal = self._project.journal
        text, _ = mask_secrets(msgspec.json.encode(state).decode())
        payload = {"v": 1, "task": text}

        def write(transaction: Transaction) -> None:
            summary = f"{session_id(state.session)} {state.status}"
            transaction.observe(payload, item_type=_TASK, item_id=derived_id("tsk", state.task_id), summary=summary)  # type: ignore[arg-type]  # a text and a number

        journal.mutate(write, self._project.writer, project=False)

    def load_task(self, task_id: str) -> TaskState | None:
        self._up_to_date()
        where = "item_type = ? AND item_id = ? ORDER BY ts DESC, seq DESC"
        rows = self._project.journal.index.records(where, (_TASK, derived_id("tsk", task_id)), 1)
        return self._task(rows[0]) if rows else None

    def list_session_tasks(self, session: str) -> Sequence[TaskRef]:
        self._up_to_date()
        rows = self._project.journal.index.db.execute(
            "SELECT lineage, MAX(seq) FROM records WHERE item_type = ? AND summary LIKE ? || ' %' GROUP BY item_id ORDER BY MIN(seq) LIMIT ?",
            (_TASK, session_id(session), _TASKS_MAX),
        ).fetchall()
        found = []
        for lineage, seq in rows:
            row = self._project.journal.index.records("lineage = ? AND seq = ?", (lineage, seq), 1)[0]
            state = self._task(row)
            found.append(TaskRef(task_id=state.task_id, title=state.title, status=state.status, updated=row.ts))
        return tuple(found)

    # -- learning ------------------------------------------------------------------------------------------------------

    def consolidate(self, session: str, llm: LLMClient | None = None, mode: str = "deterministic") -> Consolidation:
        """Turn the session into candidates: ``lessons`` from its sealed trails, ``skills`` from its turns. Both count new ones only."""
        if mode != "deterministic":
            raise UsageError(f"unknown mode {mode!r}", safe="Nothing was written.", mend="Known is: deterministic.")
        self._project.journal.refresh()
        trails = [
            str(run.value["trail"])
            for run in self._project.journal.entities(_RUN)
            if run.value.get("session") == session and run.value.get("trail")
        ]
        learned = self._learn_skills(session, llm)
        if not trails:
            nothing = f"no trail of session {session} is sealed"
            return Consolidation(
                skills=learned.skills, skills_rejected=learned.rejected, errors=(nothing, *learned.errors)
            )
        done = self._project.reflection.reflect(trails)
        errors = (*(f"{name}: {error}" for name, error in done.damaged), *(one.reason for one in done.skipped))
        return Consolidation(lessons=len(done.written), skills=learned.skills, skills_rejected=learned.rejected,
                             errors=(*errors, *learned.errors))  # fmt: skip

    def _learn_skills(self, session: str, llm: LLMClient | None) -> Learned:
        from periplus.agent.skills.candidates import candidate_id, propose
        from periplus.agent.skills.command_mining import runs_of
        from periplus.agent.skills.consolidation import learn_skills
        from periplus.memory.entities.types import SKILL_CANDIDATE

        project = self._project
        turns = []
        for name, item_id in [*self._sessions_beside(session), (session, session_id(session))]:
            turns += runs_of(name, self._read(item_id, _EPISODES_LOOKED_AT))

        def recorded(drafts: Sequence[tuple[Draft, str]]) -> tuple[int, int]:
            done = propose(project.journal, project.writer, drafts)
            return len(done.new), len(done.rejected)

        def is_known(draft: Draft) -> bool:
            return project.journal.get(SKILL_CANDIDATE, candidate_id(draft)) is not None

        return learn_skills(turns, session, llm, is_known, recorded)

    def _sessions_beside(self, session: str) -> list[tuple[str, str]]:
        """The last other sessions of this clone by name and id, oldest first; one without a run goes by its id."""
        self._up_to_date()
        journal = self._project.journal
        names = {
            session_id(str(run.value["session"])): str(run.value["session"])
            for run in journal.entities(_RUN)
            if run.value.get("session")
        }
        rows = journal.index.db.execute(
            "SELECT item_id FROM records WHERE item_type = ? AND action = 'observe' AND lineage = ? AND item_id != ?"
            " GROUP BY item_id ORDER BY MAX(seq) DESC LIMIT ?",
            (_SESSION, journal.lineage, session_id(session), _SESSIONS_BESIDE),
        ).fetchall()
        return [(names.get(str(item_id), str(item_id)), str(item_id)) for (item_id,) in reversed(rows)]

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _session(self) -> str:
        return self._project.writer.session

    def _turns(self) -> TurnIndex:
        if self._index is not None:
            return self._index
        if self._own is None:
            self._own = TurnIndex(self._project)
        return self._own

    def _up_to_date(self) -> None:
        journal = self._project.journal
        journal.refresh()
        journal.project()
        fill_history_if_present(journal)  # nothing is reported of records that are elsewhere

    def _payload(self, row: IndexedRecord) -> dict[str, Any]:
        import orjson

        journal = self._project.journal
        record = record_of(journal.line_at(row))
        if record.is_stub:
            raise DamageError("a record of the session was redacted", seq=row.seq, safe="Other records are untouched.")
        if record.payload_ref is not None:
            found = orjson.loads(journal.load_object(record.payload_ref.sha256))
        else:
            found = orjson.loads(bytes(record.payload))  # type: ignore[arg-type]  # an observation has a payload
        return found if isinstance(found, dict) else {}

    def _episode(self, row: IndexedRecord) -> Episode:
        return decode_episode(self._payload(row))

    def _task(self, row: IndexedRecord) -> TaskState:
        try:
            return msgspec.json.decode(str(self._payload(row).get("task", "")).encode(), type=TaskState)
        except msgspec.DecodeError as error:
            raise DamageError(f"the checkpoint of a task cannot be read: {error}", seq=row.seq,
                              safe="Other records are untouched.", mend="Run `periplus doctor`.") from error  # fmt: skip


def _preview(text: str, stale: Sequence[str]) -> str:
    preview = text[:_PREVIEW_CHARACTERS]
    return f"{preview}\n[may be out of date: {', '.join(stale)} changed since]" if stale else preview


def _mapping(episode: Episode) -> Mapping[str, Any]:
    if isinstance(episode, Noted) and episode.topic == RECORD_TOPIC:
        record = episode.data.get("record")
        return record if isinstance(record, dict) else {}
    found = msgspec.to_builtins(episode)
    return found if isinstance(found, dict) else {}
