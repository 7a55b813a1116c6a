"""The open store of a project: journal, writer, entity types and folder, which all parts of the project work on."""

from __future__ import annotations

__all__ = ["Closing", "ProjectStore", "declared_by"]

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, Self

from periplus.base.clock import Clock
from periplus.base.errors import NotAStoreError, PeriplusError, UsageError
from periplus.base.files import Files, read_plain
from periplus.base.filesystem.store_location import name_in, worktree_root
from periplus.journal import Journal, Layout, Writer
from periplus.journal.storage.progress import no_progress
from periplus.memory.entities.trail_packing import TRAILS_AT_REST
from periplus.memory.entities.types import check_said, memory_types
from periplus.memory.fulltext.indexer import MemoryIndexer

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.journal import Entity, IndexedRecord
    from periplus.journal.projections.external_edits import TakenIn
    from periplus.journal.recovery.removed_content import TakenOut
    from periplus.memory.entities.declared_types import DeclaredTypes
    from periplus.memory.text.word_vectors import Meaning
    from periplus.project.v1_folder.folder_keeper import Keeper, ModeFile

Progress = Callable[[int, int], None]
_CONFIG_BYTES_MAX: Final = 1 << 20
_FILES_MANY: Final = 4_000  # entity files, whose look takes some hundredths of a second
_LOOK_PAUSE_NS: Final = 1_000_000_000


class Closing(Protocol):
    """A part of the project that is opened when it is first used, and closed with the project."""

    def close(self) -> None: ...


class ProjectStore:
    """The open store of a project. Close it, or use it as a context manager."""

    def __init__(
        self,
        root: str,
        writer: Writer,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        allow_secrets: bool = False,
        progress: Progress | None = None,
        embeddings: str = "",
        has_files: bool = True,
    ) -> None:
        """``root`` is the ``.periplus`` folder, ``embeddings`` a model of word vectors, if the user has one; without
        ``has_files`` entities get no files. Raises what opening a journal raises.
        """
        from periplus.objects.store import ObjectStore

        self.root = root
        self.folder = os.path.dirname(root)
        self.beside: tuple[str, ...] = ()
        self._look_due_ns = 0
        self.look_elsewhere: Callable[[], None] | None = None  # called instead of a costly look by a reader
        self.opened_contexts: Closing | None = None
        self.opened_code: CodeMap | None = None
        self._taken_out: TakenOut | None = None
        self.embeddings = embeddings
        self.opened_meaning: list[Meaning | PeriplusError] = []
        self.writer = writer
        files = files or Files()
        self.declared = declared_by(Layout(root).config)
        self.types = memory_types(allow_secrets=allow_secrets)
        objects = ObjectStore(os.path.join(root, "objects"), files, packing=TRAILS_AT_REST)
        hidden: frozenset[str] = frozenset()
        if self.declared is not None:
            self.types |= self.declared.entity_types(allow_secrets=allow_secrets)
            hidden = frozenset(row.name for row in self.declared.rows.values() if not row.is_recalled)
        if not has_files:
            self.types = {name: one._replace(is_projected=False) for name, one in self.types.items()}
        mode: ModeFile | None = None
        if os.path.lexists(os.path.join(root, "migration", "mode.json")):
            from periplus.project.v1_folder.folder_keeper import read_mode

            mode = read_mode(root)  # anything that raises comes before what has to be closed
        self.keeper: Keeper | None = None
        self.journal = Journal(
            root,
            self.types,
            indexer=MemoryIndexer(objects.get, hidden),
            files=files,
            clock=clock,
            progress=progress or no_progress,
        )
        if not allow_secrets:
            self.journal.check_said = check_said
        if mode is not None:
            self.keep(mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; what was acknowledged is kept. Raises UsageError within a call that writes, as in a signal's handler."""
        self.journal.check_idle()
        if self.opened_contexts is not None:
            self.opened_contexts.close()
        if self.opened_code is not None:
            self.opened_code.close()
        self.journal.close()

    @property
    def taken_out(self) -> TakenOut:
        """Objects that redactions took out of the store: one reader for all callers, which reads only new records."""
        if self._taken_out is None:
            from periplus.journal.recovery.removed_content import TakenOut

            self._taken_out = TakenOut(self.journal)
        return self._taken_out

    def look(self, *, everywhere: bool = False) -> TakenIn:
        """Read what git or a person changed in the entity files; with ``everywhere`` in all linked worktrees too.

        Other methods do this themselves, though in a store of many files not at every call: it costs a ``stat`` for
        each file, and may take a twentieth of the time.
        """
        from periplus.journal.projections.external_edits import take_in
        from periplus.journal.projections.look_schedule import LOOK_SHARE

        begun = time.monotonic_ns()
        found = take_in(self.journal, beside=self.beside, everywhere=everywhere)
        ended = time.monotonic_ns()
        self._look_due_ns = ended + (ended - begun) * LOOK_SHARE
        return found

    def look_if_due(self) -> None:
        """Look, unless the last look is so recent that another would cost more than its share of time. A server has its
        costly looks done by another thread (``look_elsewhere``), so that no reader waits for them.
        """
        if time.monotonic_ns() < self._look_due_ns:
            return
        if self.look_elsewhere is not None and self._is_look_costly():
            self._look_due_ns = time.monotonic_ns() + _LOOK_PAUSE_NS
            self.look_elsewhere()
        else:
            self.look()

    def _is_look_costly(self) -> bool:
        found = self.journal.index.db.execute("SELECT 1 FROM files LIMIT 1 OFFSET ?", (_FILES_MANY,))
        return found.fetchone() is not None

    def look_to_answer(self) -> None:
        """As ``look_if_due``; a process that has not looked yet counts the last look of any process."""
        from periplus.journal.projections.look_schedule import is_due

        if self._look_due_ns or is_due(self.journal):
            self.look_if_due()

    def refresh_index(self) -> None:
        """Take in what was written, into the index as far as it can be written; readers of its tables see the rest as
        ``journal.unindexed``.
        """
        self.journal.refresh()
        if self.journal.index.is_writable and self.journal.unindexed():
            self.journal.project()

    # -- the folder of the notification log, where one was migrated ----------------------------------------------------

    def keep(self, mode: ModeFile) -> None:
        """Keep the v1 folder as its mode says: now, and after each mutation."""
        from periplus.project.v1_folder.folder_keeper import Keeper

        self.keeper = Keeper(self.journal, self.types, mode, self.writer)
        self.journal.after_mutation = self.keeper.after_change
        self.keeper.after_change()

    def hold(self) -> None:
        """Leave the v1 folder to the caller, until ``keep`` is called again."""
        self.journal.after_mutation = None

    # -- places ------------------------------------------------------------------------------------------------------

    @property
    def top(self) -> str:
        """The top of the worktree that the project was opened for work in, or the project's folder."""
        folder, beside = self.folder, self.beside
        try:
            return worktree_root(folder, beside[0]) if beside else folder
        except NotAStoreError:  # of a clone that was moved: a named store is used all the same
            return folder

    def path(self, path: str, *, cwd: str = "") -> str:
        """Return a path as the project names it: from its folder. Raises UsageError for one that lies outside of it."""
        if not path or "\0" in path:
            raise UsageError(
                f"the path {path!r} is empty or not a path", safe="Nothing was changed.", mend="Name a path."
            )
        whole = os.path.normpath(os.path.join(self.folder_for(cwd), path))
        inside = name_in(self.folder, whole)
        if inside is None:
            raise UsageError(f"{path!r} lies outside of the project", safe="Nothing was changed.",
                             mend="Name a path within it.")  # fmt: skip
        return inside

    def folder_for(self, cwd: str) -> str:
        """Return the folder that typed paths start from: ``cwd``, or the project's folder for a caller outside of the
        project.
        """
        folder = self.folder
        if not cwd or cwd == folder or cwd.startswith(folder + os.sep) or worktree_root(folder, cwd) != folder:
            return cwd or folder
        return folder

    # -- entities ----------------------------------------------------------------------------------------------------

    def history(self, entity: Entity) -> list[IndexedRecord]:
        """Return the records of one entity, newest first. Older ones may not be here: ``journal.index.has_floors``
        then.
        """
        from periplus.journal.history.log import of_entity

        return of_entity(self.journal, entity.item_type, entity.item_id)

    def trails(self) -> Iterator[Entity]:
        """Return every trail's entity, the newest run first."""
        self.journal.refresh()
        return iter(
            sorted(
                self.journal.entities("trail"),
                key=lambda trail: (str(trail.value.get("started")), trail.item_id),
                reverse=True,
            )
        )


def declared_by(config: str) -> DeclaredTypes | None:
    """Return the types that the ``config.toml`` at ``config`` declares; None where it has none, as most do."""
    try:
        if b"types" not in read_plain(config, _CONFIG_BYTES_MAX):
            return None
    except (OSError, PeriplusError):
        return None  # opening the store reports what is wrong with it
    from periplus.memory.entities.declared_types import read_declared

    return read_declared(config)
