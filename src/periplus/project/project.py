"""``Project``: open a store, remember, recall, brief, import trails, prove, examine.

The layers below do the work; they meet here, so that no face needs logic of its own. Values come in as arguments:
environment, working folder and home are the faces' business.
"""

from __future__ import annotations

__all__ = ["Project"]

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from periplus.base.clock import Clock, SystemClock
from periplus.base.errors import LockTimeoutError, NotFoundError, PeriplusError, UsageError
from periplus.base.files import Files
from periplus.journal import STORE_FOLDER, Layout, Writer, find_root, project_root
from periplus.journal.storage.progress import no_progress
from periplus.project.declared_types import check_declared
from periplus.project.store import ProjectStore

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.code.queries.dependents import Dependents
    from periplus.interop import SourceFormat
    from periplus.journal import Created, Entity, IndexedRecord
    from periplus.journal.care.doctor import Examination
    from periplus.journal.care.redaction import Redaction
    from periplus.journal.checkpoints.creation import Made
    from periplus.journal.exchange.package import Packed
    from periplus.journal.history.activity import Activity
    from periplus.journal.history.cursors import Reader
    from periplus.journal.history.log import News, Page, RecordFilter
    from periplus.journal.history.undo import Undoing
    from periplus.journal.history.versions import Blamed
    from periplus.journal.proofs.proof_file import Prover
    from periplus.journal.storage.parking import Repair
    from periplus.journal.storage.store_joining import Joined
    from periplus.memory.briefing.brief import Brief
    from periplus.memory.briefing.recent_changes import ChangesSince
    from periplus.memory.code_anchors.anchors import Ground
    from periplus.memory.reflection.candidates import Accepted
    from periplus.memory.retrieval.listing import MemoryFilter, MemoryPage, MemorySort
    from periplus.memory.retrieval.recall import Recall
    from periplus.memory.retrieval.related import Related
    from periplus.memory.retrieval.search import Filters
    from periplus.memory.writing.remember import Memory, Remembered
    from periplus.project.agent_hooks.connection import ProjectConnecting
    from periplus.project.agent_hooks.hooks import ProjectHooks
    from periplus.project.care.status import Status
    from periplus.project.care.waiting import Waiting
    from periplus.project.context_store.contexts import ProjectContexts
    from periplus.project.exchange.markdown_export import MarkdownExport
    from periplus.project.exchange.sync import Synced
    from periplus.project.knowledge.code import SymbolKnowledge
    from periplus.project.knowledge.reflection import ProjectReflection
    from periplus.project.knowledge.review import ProjectReview
    from periplus.project.knowledge.work import ProjectWork
    from periplus.project.trail_store.cards import ImportedTrail
    from periplus.project.trail_store.lookup import TrailFile
    from periplus.project.trail_store.recording import Abandoned, Recording, Sealed
    from periplus.project.trail_store.session_import import KeptImports
    from periplus.project.trail_store.session_list import (
        DaySessions,
        SessionFilter,
        SessionPage,
        SessionSort,
        WeekSpent,
    )
    from periplus.project.trail_store.transcript_watch import FollowedFile
    from periplus.trail.model import Status as TrailStatus
    from periplus.trail.recording.recorder import Run

Progress = Callable[[int, int], None]
_HOOKS_PATIENCE_S: Final = 5.0


class Project(ProjectStore):
    """A project's store, open. Close it, or use it as a context manager."""

    @classmethod
    def open(
        cls,
        folder: str,
        writer: Writer,
        *,
        store: str | None = None,
        clock: Clock | None = None,
        allow_secrets: bool = False,
        progress: Progress | None = None,
        in_hurry: bool = False,
        embeddings: str = "",
    ) -> Self:
        """Open the store for work in ``folder``; ``in_hurry`` leaves the events of hooks to others. Raises
        NotAStoreError where there is none.
        """
        project = cls(
            find_root(folder, store),
            writer,
            clock=clock,
            allow_secrets=allow_secrets,
            progress=progress,
            embeddings=embeddings,
        )
        project.beside = (os.path.abspath(folder),)
        if not in_hurry:
            project._take_in_hooks()
        return project

    def _take_in_hooks(self) -> None:
        """Import the events of hooks before anything is read: without long waits, and without failing for them."""
        if not os.path.isdir(os.path.join(self.journal.layout.hooks, "spool")):
            return
        hooks = self.hooks
        try:
            with self.journal.objects.in_haste(_HOOKS_PATIENCE_S):
                hooks.take_in(patience_s=_HOOKS_PATIENCE_S)
        except LockTimeoutError:
            pass  # another process imports them
        except PeriplusError as error:
            hooks.note("take in", str(error))  # the events stay where they are; doctor reports it

    @staticmethod
    def init(folder: str, *, store: str | None = None, clock: Clock | None = None) -> Created:
        """Make the store of the project that ``folder`` belongs to, or just ``store``; idempotent.

        Where a branch of its git repository has the settings of a store there, this clone uses that store.
        """
        from periplus.project.store_creation import make_store

        return make_store(folder, store, clock or SystemClock())

    @staticmethod
    def join(folder: str, *, store: str | None = None) -> Joined:
        """Join the store whose records lie here with the one that the settings name; see ``join_stores``."""
        from periplus.project.store_creation import join

        return join(folder, store)

    @staticmethod
    def discard_index(folder: str, *, store: str | None = None) -> None:
        """Remove the index, which the next opening builds again from the journal. Raises OSError."""
        from periplus.journal import discard_indexes

        discard_indexes(Layout(find_root(folder, store)).index)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.root!r}, written by {self.writer.name!r}>"

    @property
    def contexts(self) -> ProjectContexts:
        """The contexts of this project; see ``periplus.project.context_store.contexts``."""
        from periplus.project.context_store.contexts import contexts_of

        return contexts_of(self)

    @property
    def code(self) -> CodeMap:
        """The code map of the worktree that is worked in; see ``periplus.code.code_map``."""
        from periplus.project.knowledge.code import code_of

        return code_of(self)

    def known_of_symbol(self, path: str, name: str = "") -> SymbolKnowledge:
        """Return memory, live claims and the last change of a symbol, or of a file."""
        from periplus.project.knowledge.code import knowledge_of

        return knowledge_of(self, path, name)

    def most_dependents(self, paths: Sequence[str]) -> tuple[Dependents, ...]:
        """Return the symbols of files (or FILE:SYMBOL) on which most depends, at most three; see ``periplus.project.knowledge.code``."""
        from periplus.project.knowledge.code import most_dependents_in

        return most_dependents_in(self, paths)

    def code_seeds(self, task: str) -> dict[str, float]:
        """Return the files that earlier work connects with ``task``, with weights, for ``code.map``."""
        from periplus.project.knowledge.code import seeds_of

        return seeds_of(self, task)

    @property
    def work(self) -> ProjectWork:
        """Plans, claims, handoffs, mail and sessions; see ``periplus.project.knowledge.work``."""
        from periplus.project.knowledge.work import ProjectWork

        return ProjectWork(self)

    @property
    def reflection(self) -> ProjectReflection:
        """Candidates from trails, and decisions on candidates; see ``periplus.project.knowledge.reflection``."""
        from periplus.project.knowledge.reflection import ProjectReflection

        return ProjectReflection(self)

    @property
    def hooks(self) -> ProjectHooks:
        """Events of agents' hooks, and answers to hooks; see ``periplus.project.agent_hooks.hooks``."""
        from periplus.project.agent_hooks.hooks import ProjectHooks

        return ProjectHooks(self)

    @property
    def connecting(self) -> ProjectConnecting:
        """Connections of agents to this project; see ``periplus.project.agent_hooks.connection``."""
        from periplus.project.agent_hooks.connection import ProjectConnecting

        return ProjectConnecting(self, self.beside)

    @property
    def reviewing(self) -> ProjectReview:
        """Stale and expired memory, confirming it, and checks; see ``periplus.project.knowledge.review``."""
        from periplus.project.knowledge.review import ProjectReview

        return ProjectReview(self)

    # -- memory ------------------------------------------------------------------------------------------------------

    def remember(self, memory: Memory, *, key: str = "") -> Remembered:
        """Write a memory; an exact duplicate is returned instead of written again. Raises UsageError,
        SecretFoundError.
        """
        self.look_if_due()
        check_declared(self, memory.item_type)
        from periplus.memory.writing.remember import remember

        return remember(self.journal, memory, self.writer, root=self.work.top, key=key)

    def recall(
        self,
        question: str,
        *,
        limit: int = 10,
        offset: int = 0,
        budget_tokens: int | None = None,
        filters: Filters | None = None,
    ) -> Recall:
        """Return the best hits for ``question``, also by words one edit away: ``limit`` from ``offset`` on. See
        ``memory.retrieval.recall``.
        """
        self.look_to_answer()
        from periplus.memory.retrieval.recall import recall
        from periplus.project.knowledge.code import memory_of_symbols
        from periplus.project.knowledge.task_brief import filters_in
        from periplus.project.knowledge.word_vectors import meaning_of

        return recall(
            self.journal,
            question,
            now_ms=self.journal.clock.now_ms(),
            ground=self.ground(),
            limit=limit,
            offset=offset,
            budget_tokens=budget_tokens,
            filters=filters_in(self, filters) if filters is not None else None,
            meaning=meaning_of(self),
            with_near=True,
            also=memory_of_symbols(self, question),
        )

    def brief(self, task: str, *, budget_tokens: int = 4_000) -> Brief:
        """Return what an agent should know before ``task``, most important first, within the budget. See
        ``memory.briefing.brief``.
        """
        from periplus.project.knowledge.task_brief import brief_for

        return brief_for(self, task, budget_tokens=budget_tokens)

    def related(
        self, paths: Sequence[str] = (), task: str = "", *, limit: int = 10, budget_tokens: int | None = None
    ) -> Related:
        """Return files likely to change, memory, sessions and commits related to files or a task; see
        ``memory.retrieval.related``.
        """
        from periplus.project.knowledge.task_brief import related_to

        return related_to(self, paths, task, limit=limit, budget_tokens=budget_tokens)

    def changed(self, since: str | int = "", *, limit: int = 50, budget_tokens: int | None = None) -> ChangesSince:
        """Return what others changed since a seq, a time or a session, by default this writer's last; see
        ``memory.briefing.recent_changes``.
        """
        from periplus.memory.briefing.recent_changes import changed_since

        self.look_if_due()
        return changed_since(self.journal, self.writer, since, limit=limit, budget_tokens=budget_tokens)

    def ground(self) -> Ground:
        """Return the worktree that is worked in, to find stale memory, with the commits that made it so."""
        from periplus.project.knowledge.grounds import ground_of

        return ground_of(self)

    def memory_page(
        self,
        wanted: MemoryFilter | None = None,
        *,
        sort: MemorySort = "newest",
        number: int = 1,
        size: int = 100,
        with_facets: bool = True,
    ) -> MemoryPage:
        """Return page ``number`` of a list of memory, with counts; see ``memory.retrieval.listing``. Raises UsageError."""
        from periplus.project.knowledge.memory_list import list_memory

        return list_memory(self, wanted, sort=sort, number=number, size=size, with_facets=with_facets)

    def show(self, reference: str) -> Entity:
        """Return the entity whose id begins with ``reference``."""
        self.look_if_due()
        self.journal.refresh()
        return self.journal.find(reference)

    def show_at(self, reference: str, seq: int, lineage: str = "") -> tuple[Entity, list[IndexedRecord]]:
        """Return the entity as our own lineage, or ``lineage``, had it after writing ``seq``, and its records until
        then.

        See ``journal.history.versions``.
        """
        from periplus.journal.history.versions import Versions, entity_at, find_ever

        self.look_if_due()
        entity = entity_at(self.journal, *find_ever(self.journal, reference), seq, lineage)
        held = Versions(self.journal, entity.item_type, entity.item_id).ancestors(entity.heads)
        return entity, [record for record in self.history(entity) if record.version in held]

    def blame(self, reference: str) -> tuple[Entity, list[Blamed]]:
        """Return the entity, and the origin of the present value of each of its fields."""
        from periplus.journal.history.versions import blame

        entity = self.show(reference)
        return entity, blame(self.journal, entity)

    def undo(
        self, *, seqs: Sequence[int] = (), session: str = "", lineage: str = "", key: str = "", dry_run: bool = False,
        progress: Progress | None = None) -> Undoing:  # fmt: skip
        """Undo records or a session; see ``journal.history.undo``."""
        from periplus.project.care.undo import undo_in_project

        return undo_in_project(self, seqs=seqs, session=session, lineage=lineage, key=key, dry_run=dry_run,
                               progress=progress)  # fmt: skip

    def log(
        self,
        wanted: RecordFilter | None = None,
        *,
        limit: int = 20,
        before: Mapping[str, int] | None = None,
        lineages: Sequence[str] | None = None,
    ) -> Page:
        """Return the newest records of our own lineage, or of ``lineages``, newest first; ``before`` continues a
        page.
        """
        from periplus.journal.history.log import RecordFilter, newest

        lineages = [self.journal.lineage] if lineages is None else lineages
        return newest(self.journal, wanted or RecordFilter(), lineages=lineages, before=before or {}, limit=limit)

    def news(
        self,
        seen: Mapping[str, int],
        wanted: RecordFilter | None = None,
        *,
        reader: Reader | None = None,
        lineages: Sequence[str] | None = None,
        limit: int = 1_000,
    ) -> News:
        """Return records after ``seen``, or since the last look of ``reader``, which then advances by itself."""
        from periplus.journal.history.log import RecordFilter, news

        lineages = self.journal.lineages() if lineages is None else lineages
        if reader is not None:
            return reader.look(wanted, lineages=lineages, limit=limit)
        return news(self.journal, seen, wanted or RecordFilter(), lineages=lineages, limit=limit)

    def activity(self, days: int = 90) -> Activity:
        """Return the records of the last days by day and by type; see ``journal.history.activity``."""
        from periplus.journal.history.activity import activity

        self.refresh_index()
        return activity(self.journal, days)

    def looked_at(self) -> dict[str, int]:
        """Return the last seq, of each lineage, that the last ``log`` could have shown."""
        return {lineage: place.next_seq - 1 for lineage, place in self.journal.index.watermarks().items()}

    def follow(
        self,
        seen: Mapping[str, int],
        wanted: RecordFilter | None = None,
        *,
        wait: Callable[[float], bool],
        lineages: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[News]:
        """Yield new records as they come; see ``journal.history.follow``."""
        from periplus.journal.history.follow import follow

        return follow(self.journal, seen, wanted, wait=wait, lineages=lineages, timeout_s=timeout_s)

    # -- trails ------------------------------------------------------------------------------------------------------

    def session_page(
        self, wanted: SessionFilter | None = None, *, sort: SessionSort = "newest", number: int = 1, size: int = 100
    ) -> SessionPage:
        """Return page ``number`` of a list of sessions, with counts and sums; see ``project.trail_store.session_list``.
        Raises UsageError.
        """
        from periplus.project.trail_store.session_list import SessionFilter, session_page

        return session_page(self, wanted or SessionFilter(), sort=sort, number=number, size=size)

    def spent_by_week(self, weeks: int = 26) -> tuple[WeekSpent, ...]:
        """Return what sessions of each agent spent in each of the last weeks, the oldest first."""
        from periplus.project.trail_store.session_list import spent_by_week

        return spent_by_week(self, weeks)

    def sessions_by_day(self, days: int = 180) -> tuple[DaySessions, ...]:
        """Return sums of the sessions that began on each of the last days, the oldest first; days without any are left out."""
        from periplus.project.trail_store.session_list import sessions_by_day

        return sessions_by_day(self, days)

    def import_transcript(
        self, path: str, *, source_format: SourceFormat | None = None, progress: Progress | None = None
    ) -> ImportedTrail:
        """Make a trail of the one session in a file; see ``import_transcripts``."""
        imported = self.import_transcripts(path, source_format=source_format, progress=progress)
        if len(imported) != 1:
            raise UsageError(f"{path} holds {len(imported)} sessions", safe="All of them were imported.")
        return imported[0]

    def import_transcripts(
        self,
        path: str,
        *,
        source_format: SourceFormat | None = None,
        progress: Progress | None = None,
        only_here: bool = False,
    ) -> list[ImportedTrail]:
        """Make trails of the sessions in an agent's file, which is not read again where it is unchanged; with
        ``only_here`` only of sessions in this project, where the file holds several. Raises FormatError for what
        is not a transcript, and changes nothing then.
        """
        from periplus.project.trail_store.session_import import import_sessions

        return import_sessions(self, path, source_format=source_format, progress=progress, only_here=only_here)

    def follow_transcripts(
        self,
        find: Callable[[], Sequence[str]],
        *,
        wait: Callable[[float], bool],
        source_format: SourceFormat | None = None,
        is_found: Callable[[str], bool] = lambda _: False,
        timeout_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> Iterator[FollowedFile]:
        """Import the files that ``find`` names, and each again when it changed; see
        ``project.trail_store.transcript_watch``. Of a file that ``is_found`` (and nobody named) only sessions of
        this project are imported.
        """
        from periplus.project.trail_store.transcript_watch import follow_files

        def take(path: str) -> list[ImportedTrail]:
            return self.import_transcripts(path, source_format=source_format, only_here=is_found(path))

        return follow_files(find, take, wait=wait, timeout_s=timeout_s, now=now)

    def import_git(
        self, repository: str, *, commits_max: int = 10_000, progress: Progress | None = None
    ) -> ImportedTrail:
        """Make a trail of a repository's history."""
        from periplus.project.trail_store.session_import import import_history

        return import_history(self, repository, commits_max=commits_max, progress=progress)

    def import_kept(self, repository: str, *, progress: Progress | None = None) -> KeptImports:
        """Make trails of the sessions that Entire and git-ai keep in the refs of a repository, as the result is
        iterated over.
        """
        from periplus.project.trail_store.session_import import KeptImports

        return KeptImports(self, repository, progress)

    def record(
        self,
        *,
        agent: str = "",
        title: str = "",
        model: str = "",
        folder: str = "",
        pid: int | None = None,
        checkpoints: bool = True,
        parents: tuple[bytes, ...] = (),
        without: Callable[[PeriplusError], None] | None = None,
    ) -> Recording:
        """Begin to record a run in the worktree that ``folder`` lies in; see
        ``periplus.project.trail_store.recording``.

        ``pid`` is the process that carries it (this one by default, 0 for none): if it ends without sealing the run,
        the next recording seals it as ``partial``. ``parents`` are digests of trails that this one continues.
        ``without`` gets the reason why the state of the files cannot be recorded; where it is None that is an error.
        """
        from periplus.project.trail_store.recording import open_recording, seal_abandoned
        from periplus.trail.recording.recorder import RunFacts

        seal_abandoned(self)
        facts = RunFacts(agent or self.writer.name, title, model, parents=parents)
        carrier = (os.getpid() if pid is None else pid) or None
        return open_recording(self, facts, folder=folder, pid=carrier, checkpoints=checkpoints, without=without)

    def recording(self, reference: str, *, checkpoints: bool = True) -> Recording:
        """Continue an open run from this process; by the beginning of its id."""
        from periplus.project.trail_store.recording import open_recording

        return open_recording(self, run_id=self._run(reference), checkpoints=checkpoints)

    def unsealed_runs(self) -> list[Run]:
        """Return the runs that are not sealed yet, the oldest first."""
        from periplus.project.trail_store.recording import unsealed

        return unsealed(self)

    def seal_run(self, reference: str, status: TrailStatus = "partial") -> Sealed:
        """End a run and make its trail; a sealed run is left unchanged."""
        from periplus.project.trail_store.recording import seal_run

        return seal_run(self, self._run(reference), status)

    def seal_abandoned(self) -> list[Abandoned]:
        """Make trails of the runs that their processes left; failures are returned, not raised."""
        from periplus.project.trail_store.recording import seal_abandoned

        return seal_abandoned(self)

    def _run(self, reference: str) -> str:
        self.journal.refresh()
        entity = self.journal.find(reference) if reference.startswith("run_") else None
        if entity is None or entity.item_type != "run":
            raise NotFoundError(f"there is no run {reference!r}", mend="See `periplus trail list`.")
        return entity.item_id

    def trail_bytes(self, reference: str, *, remains: bool = False) -> TrailFile:
        """Return a trail by file path, id, or digest (each may be cut short). Raises NotFoundError, DamageError.

        ``remains``: where its object is damaged, the bytes that can still be read, for ``salvage``.
        """
        from periplus.project.trail_store.lookup import trail_bytes

        return trail_bytes(self, reference, remains=remains)

    def sign_trail(self, data: bytes) -> bytes:
        """Return the trail, or the concatenation, with a signature by this store's key. Raises FormatError for
        anything else.
        """
        from periplus.journal.storage.keys import sign
        from periplus.trail import sign_with

        lineage = self.journal.lineage
        return sign_with(data, self.public_key(), lambda message: sign(self.journal.layout, lineage, message))

    def trail_secret(self, source_sha256: bytes) -> bytes:
        """Return the secret of a trail made of a source with that SHA-256: the same source has the same bytes in this
        store.
        """
        from periplus.project.trail_store.keys import trail_secret

        return trail_secret(self, source_sha256)

    # -- proofs and care ---------------------------------------------------------------------------------------------

    def prover(self, progress: Progress | None = None) -> Prover:
        """Return the maker of proofs and signed heads of this store's own records; see
        ``periplus.journal.proofs.proof_file``.
        """
        from periplus.journal.proofs.proof_file import Prover

        return Prover(self.journal, progress or no_progress)

    def prove(self, seq: int) -> bytes:
        """Return a proof that a record stands in this journal, which a stranger checks without the store."""
        return self.prover().record(seq)

    def prove_consistency(self, first: int, second: int | None = None) -> bytes:
        """Return a proof that the journal of ``second`` records (all by default) begins with that of ``first``."""
        return self.prover().growth(first, second)

    def public_key(self) -> bytes:
        """Return the key that checks heads signed by our own lineage."""
        from periplus.journal.storage.keys import public_key

        return public_key(self.journal.layout, self.journal.lineage)

    @staticmethod
    def rescue(
        folder: str, *, store: str | None = None, sources: Sequence[str] = (), clock: Clock | None = None
    ) -> list[Repair]:
        """Make a store that can be opened again, and repair its plain files; see
        ``periplus.journal.recovery.store_rescue``.
        """
        from periplus.journal.recovery.store_rescue import rescue

        root = os.path.abspath(store) if store is not None else os.path.join(project_root(folder), STORE_FOLDER)
        if store is not None and os.path.isdir(os.path.join(root, STORE_FOLDER)):
            root = os.path.join(root, STORE_FOLDER)
        from periplus.project.v1_folder.migration_archive import rescue_migration

        files, clock = Files(), clock or SystemClock()
        return [*rescue(root, files, clock, sources=sources), *rescue_migration(root, files, clock, sources)]

    def export(self, path: str, *, damaged: bool = False, progress: Progress | None = None) -> Packed:
        """Write the whole store to a new file, with ``damaged`` what is left of it; see
        ``periplus.journal.exchange.package``.
        """
        from periplus.project.exchange.store_package import export

        def examine() -> Examination:
            return self.examine(progress, derived=False)

        return export(self, path, examine=examine, damaged=damaged, progress=progress)

    def export_markdown(self, folder: str, *, force: bool = False, progress: Progress | None = None) -> MarkdownExport:
        """Write the memory as a folder of Markdown, for people; see ``periplus.project.exchange.markdown_export``."""
        from periplus.project.exchange.markdown_export import export_markdown

        return export_markdown(self, folder, force=force, progress=progress or no_progress)

    @classmethod
    def import_from(
        cls, path: str, folder: str, *, dry_run: bool = False, damaged: bool = False, clock: Clock | None = None,
        progress: Progress | None = None,
    ) -> Packed:  # fmt: skip
        """Make the store of ``folder`` from a file that ``export`` wrote, once all of it is verified.

        The remains of a damaged store become one with ``damaged`` only: it lacks what the file lists.
        """
        from periplus.project.exchange.store_package import import_from

        def examine(root: str, files: Files) -> Examination:
            with cls(root, Writer("import", ""), clock=clock, files=files, has_files=not dry_run) as project:
                return project.examine(progress, derived=False)

        return import_from(
            path, folder, examine=examine, dry_run=dry_run, damaged=damaged, clock=clock, progress=progress
        )

    def repair(
        self, *, sources: Sequence[str] = (), archive_lost: bool = False, progress: Progress | None = None
    ) -> list[Repair]:
        """Repair what can be repaired; see ``periplus.journal.care.repair``."""
        from periplus.project.care.repair import repair

        return repair(self, sources, progress or no_progress, archive_lost=archive_lost)

    def compact(self, progress: Progress | None = None) -> Made | None:
        """Make a checkpoint now; None where nothing came since the last. See
        ``periplus.journal.checkpoints.creation``.

        Waits for another process that makes one. Raises LockTimeoutError where that takes long.
        """
        from periplus.journal.checkpoints.creation import PATIENCE_S, make_checkpoint

        return make_checkpoint(self.journal, self.writer, progress or no_progress, patience_s=PATIENCE_S)

    def examine(
        self, progress: Progress | None = None, *, derived: bool = True, tell: Callable[[str], None] = lambda _: None
    ) -> Examination:
        """Check the whole store, trails included; without ``derived`` only what cannot be rebuilt; see
        ``periplus.journal.care.doctor``.
        """
        from periplus.project.care.examination import examine

        return examine(self, progress or no_progress, derived=derived, tell=tell)

    def redact(
        self,
        *,
        secret: str = "",
        seqs: Sequence[int] = (),
        reason: str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Redaction:
        """Take a secret out of the store; see ``periplus.journal.care.redaction``."""
        from periplus.project.care.redaction import redact_project

        return redact_project(self, secret=secret, seqs=seqs, reason=reason, dry_run=dry_run, progress=progress)

    # -- other clones and other projects -------------------------------------------------------------------------------

    def sync(
        self,
        where: str,
        *,
        cwd: str,
        environment: Mapping[str, str],
        dry_run: bool = False,
        candidates: bool = False,
        rebase: bool = False,
        progress: Progress | None = None,
    ) -> Synced:
        """Exchange lineages with another clone, a folder or a git repository; see ``periplus.project.exchange.sync``."""
        from periplus.project.exchange.sync import sync_project

        return sync_project(self, where, cwd=cwd, environment=environment, dry_run=dry_run, candidates=candidates,
                            rebase=rebase, progress=progress)  # fmt: skip

    def inbox(self, *, with_decided: bool = False) -> list[Entity]:
        """Return the open candidates of other projects and of reflection."""
        from periplus.memory.reflection.candidates import inbox

        return inbox(self.journal, with_decided=with_decided)

    def accept(self, reference: str) -> Accepted:
        """Accept a candidate. Raises NotFoundError, ConflictError."""
        from periplus.memory.reflection.candidates import accept

        return accept(self.journal, reference, self.writer)

    def refuse(self, reference: str) -> Entity:
        """Reject a candidate. Raises NotFoundError, ConflictError."""
        from periplus.memory.reflection.candidates import refuse

        return refuse(self.journal, reference, self.writer)

    def waiting(self, reader: str = "", *, with_review: bool = True) -> Waiting:
        """Return what waits for this writer, work in progress, and changes since ``reader`` looked; see
        ``periplus.project.care.waiting``.
        """
        from periplus.project.care.waiting import waiting_of

        return waiting_of(self, reader, with_review=with_review)

    def note_look(self, reader: str) -> None:
        """Store that ``reader`` has seen all changes until now. Raises EnvironmentFailure."""
        from periplus.project.care.waiting import note_look

        note_look(self, reader)

    def status(self) -> Status:
        """Return the contents of the store and its apparent soundness."""
        from periplus.project.care.status import status_of

        return status_of(self)
