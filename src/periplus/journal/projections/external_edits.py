"""Detection of changed entity files, and import of the edits that git or a person made in them.

A look costs one ``stat`` for each file: files with an unchanged stamp are not read. A file that differs is judged (``file_verdict``), new
content is written to the journal as ``import`` or ``external_edit``, and only then may the projector rewrite the file. So the only copy of
an edit is never overwritten. Version ids follow from content and parents, so an interrupted look can simply be repeated.

Files of linked worktrees are read but never written. A worktree in which git has an operation in progress is skipped: a half-finished merge
is nobody's edit.

A look at many files is expensive, and a process that answers one question should not repeat it each time. The index stores the cost of the
last look, in the clock of the current boot. Processes that only read (``look_schedule.is_due``) then leave the files alone for twenty times
as long, unless git has checked out another commit meanwhile.
"""

from __future__ import annotations

__all__ = ["ADOPTED", "EDITED", "Taken", "TakenIn", "take_in"]

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.digests import sha256
from periplus.base.errors import DamageError, EnvironmentFailure, LockTimeoutError
from periplus.base.files import TEMPORARY_SUFFIX
from periplus.base.named_tuple import NamedTuple
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.journal.projections.entity_file import has_file, is_settled, read_stamped, stamp_from
from periplus.journal.projections.file_verdict import Document, LeftAlone, Verdict, judge, unless_older
from periplus.journal.projections.git_state import Worktree, busy_with, has_moved_forward, newest_move, read_git
from periplus.journal.projections.look_schedule import FILES_COMMIT, FILES_LOOKED, LOOK_SHARE, PAUSE_NS_MAX
from periplus.journal.state.index_values import Looked
from periplus.journal.state.transaction import Transaction, Writer

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import MutableJournal

_DEAR_NS: Final = 50_000_000  # cheaper looks are not noticeable and not stored
_FEW_FILES: Final = 500  # a slow look at fewer files only means a busy machine
ADOPTED: Final = Writer("adopted from file", "")
EDITED: Final = Writer("edited in file", "")
_BATCH_BYTES_MAX: Final = 1 << 21
_BATCH_RECORDS_MAX: Final = 500
_PATIENCE_S: Final = 1.0
_SUFFIX: Final = ".json"


class Taken(NamedTuple):
    """A version that was imported from the file ``path``."""

    item_type: str
    item_id: str
    version: str
    path: str


class TakenIn(NamedTuple):
    """Result of a look. ``rewritten`` counts files that differed from the journal but held nothing new.

    ``waits`` gives the reasons why files were not examined or written; empty if all were.
    """

    adopted: tuple[Taken, ...] = ()
    edited: tuple[Taken, ...] = ()
    left: tuple[LeftAlone, ...] = ()
    rewritten: int = 0
    waits: tuple[str, ...] = ()


class _New(NamedTuple):
    document: Document
    verdict: Verdict
    path: str


class _Look:
    """State collected while examining the files."""

    def __init__(self, journal: MutableJournal) -> None:
        self.journal = journal
        self.boot = journal.files.boot_id()
        self.now_ns = time.time_ns()  # the clock of file systems
        self.rewrite: set[tuple[str, str]] = set()
        self.settled: dict[tuple[str, str], bytes] = {}
        self.looked_at: dict[str, bytes] = {}
        self.left: list[LeftAlone] = []
        self.new: list[_New] = []
        self.commit = journal.index.meta(FILES_COMMIT)
        self.is_forward = False
        self.waits: list[str] = []
        self.files = 0

    @cached_property
    def is_past_away(self) -> bool:
        """True if older records, which the index may know, are in an archive elsewhere."""
        from periplus.journal.checkpoints.offline_archive import (
            absent,
        )  # lazy: loads checkpoints, not needed by each command

        return bool(absent(self.journal))

    def main(self, folder: str) -> None:
        unindexed: set[tuple[str, str]] | None = None
        for item_type in self._types():
            stamps = self.journal.index.file_stamps(item_type, self.boot)
            for name, stamp in self._files(os.path.join(folder, item_type)):
                self.files += 1
                key = (item_type, item_id := name.removesuffix(_SUFFIX))
                known = stamps.pop(item_id, None)
                if known and known == stamp:
                    continue
                if known is None and unindexed is None:  # another process may have noted it since the look began
                    self.journal.refresh()
                    unindexed = set(self.journal.unindexed())
                if known is not None or unindexed is None or key not in unindexed:  # otherwise indexing compares it
                    self._look_at(os.path.join(folder, item_type, name), key, stamp)
            self.rewrite.update((item_type, item_id) for item_id in stamps)  # absence is never deletion

    def _look_at(self, path: str, key: tuple[str, str], stamp: bytes | None) -> None:
        data, read_at = self._read(path, key, stamp)
        if data is None:
            return
        row = self.journal.index.file_row(*key)
        if row is not None and row.sha256 == sha256(data):
            if is_settled(read_at, self.now_ns):
                self.settled[key] = read_at
        elif self._judge(path, key, data, is_forward=self.is_forward and row is not None and bool(row.sha256)):
            self.rewrite.add(key)

    def linked(self, worktree: Worktree, known: dict[str, bytes]) -> None:
        for item_type in self._types():
            folder = os.path.join(worktree.entities, item_type)
            for name, stamp in self._files(folder):
                path = os.path.join(folder, name)
                if stamp is not None and known.get(path) == stamp:
                    self.looked_at[path] = stamp
                    continue
                key = (item_type, name.removesuffix(_SUFFIX))
                data, read_at = self._read(path, key, stamp)
                if data is not None and self._judge(path, key, data) and is_settled(read_at, self.now_ns):
                    self.looked_at[path] = read_at

    def _types(self) -> list[str]:
        return sorted(name for name, kind in self.journal.types.items() if kind.is_projected)

    def _files(self, folder: str) -> Iterator[tuple[str, bytes | None]]:
        """Yield name and stamp of a type's files; the stamp is None if it is not a plain file."""
        return ((name, stamp) for name, stamp in _listed(folder) if name.endswith(_SUFFIX) and name[0] != ".")

    def _read(self, path: str, key: tuple[str, str], stamp: bytes | None) -> tuple[bytes | None, bytes]:
        if not has_file(self.journal.types, *key):
            self.left.append(LeftAlone(path, "its name is not an entity id", "Move it elsewhere."))
            return None, b""
        if stamp is None:
            self.left.append(
                LeftAlone(path, "not a plain file; it was not followed", "Check what it is, then remove it.")
            )
            return None, b""
        try:
            return read_stamped(path)
        except FileNotFoundError:
            return None, b""  # removed since it was listed; the next look handles that
        except OSError as error:
            what = f"cannot be read: {error.strerror or type(error).__name__}"
            self.left.append(LeftAlone(path, what, "Check its owner and mode."))
            return None, b""

    def _judge(self, path: str, key: tuple[str, str], data: bytes, *, is_forward: bool = False) -> bool:
        """Return True if the file holds nothing that the journal lacks."""
        verdict = judge(self.journal, *key, data, is_forward=is_forward)
        if verdict.kind != "held" and self.journal.index.is_writable:
            is_cut = self.journal.index.has_floors
            if is_cut and fill_history_if_present(self.journal):  # it may be a version from before the checkpoint
                verdict = judge(self.journal, *key, data, is_forward=is_forward)
            elif is_cut or self.is_past_away:  # reading is not refused because of a file
                verdict = unless_older(self.journal, verdict)
        if verdict.document is not None:
            self.new.append(_New(verdict.document, verdict, path))
        elif verdict.kind == "left":
            self.left.append(LeftAlone(path, verdict.what, verdict.mend))
        return verdict.kind in ("held", "torn")


def take_in(journal: MutableJournal, *, beside: Iterable[str] = (), everywhere: bool = False) -> TakenIn:
    """Examine the entity files; record new content in them, and bring the others up to date.

    ``beside`` names folders within linked worktrees whose files are examined too; ``everywhere`` means all of them. Does nothing if the
    store is damaged or read-only, except that ``everywhere`` reports what waits in a read-only store. Never raises because of a file's
    content.
    """
    journal.refresh()
    if journal.damage is None and not journal.index.is_writable and everywhere:
        return _only_told(journal)
    if journal.damage is not None or not journal.index.is_writable or journal.index.is_memory:
        return TakenIn()
    if journal.unindexed():
        journal.project()
    look = _Look(journal)
    begun = time.monotonic_ns()
    _look_around(look, beside, everywhere=everywhere)
    looked = _said_of_look(look, begun)
    adopted: tuple[Taken, ...] = ()
    edited: tuple[Taken, ...] = ()
    try:
        adopted = _record(journal, [new for new in look.new if new.verdict.kind == "adopt"], ADOPTED)
        edited = _record(journal, [new for new in look.new if new.verdict.kind == "edit"], EDITED)
    except (LockTimeoutError, EnvironmentFailure, DamageError) as error:
        look.waits.append(str(error))  # unrecorded content stays in its file
    look.rewrite.update((new.document.item_type, new.document.item_id) for new in look.new)
    index = journal.index
    is_news = bool(look.settled) or look.looked_at != index.looked_at() or look.commit != index.meta(FILES_COMMIT)
    is_news |= bool(looked) or index.meta(FILES_LOOKED) != ""
    if look.rewrite or is_news or journal.unindexed():
        done = journal.project(
            rewrite=look.rewrite,
            looked=Looked(look.settled, look.looked_at, look.commit, looked) if is_news else None,
        )
        if not done and look.rewrite:
            look.waits.append("another process is writing the files, or the folder cannot be written")
        look.left += _unwritten(journal, look)
    return TakenIn(adopted, edited, tuple(look.left), len(look.rewrite) - len(adopted) - len(edited), tuple(look.waits))


def _unwritten(journal: MutableJournal, look: _Look) -> Iterator[LeftAlone]:
    """Yield the files that could not be written and are not reported yet; their content is in the journal and in the index."""
    told = {one.path for one in look.left}
    for key in sorted(look.rewrite):
        path = journal.layout.entity_file(*key)
        reason = journal.unwritten.get(path)
        if reason is not None and path not in told:
            mend = "Check owner and mode of it and of its folder; the next command writes it."
            if reason == os.strerror(errno.ENOTDIR):
                mend = "Remove what is in the place of its folder, or let `periplus doctor --repair` park it."
            yield LeftAlone(path, f"cannot be written: {reason}", mend)


def _only_told(journal: MutableJournal) -> TakenIn:
    look = _Look(journal)
    _look_around(look, (), everywhere=True)
    if look.new:
        more = f", and {len(look.new) - 1:,} more" if len(look.new) > 1 else ""
        look.waits.append(
            f"{look.new[0].path}{more}: it has changes that the journal does not have; the journal's version is used, because this user may not write the store"
        )
    return TakenIn((), (), tuple(look.left), 0, tuple(look.waits))


def _said_of_look(look: _Look, begun: int) -> str:
    """Return when an expensive look is due again, as stored in the index; empty if it was cheap."""
    ended = time.monotonic_ns()
    if ended - begun < _DEAR_NS or look.files < _FEW_FILES:
        return ""
    return f"{look.boot} {ended + min((ended - begun) * LOOK_SHARE, PAUSE_NS_MAX)}"


def _look_around(look: _Look, beside: Iterable[str], *, everywhere: bool) -> None:
    layout = look.journal.layout
    git = read_git(layout.root)
    busy = busy_with(git.main.git_folder) if git is not None else ""
    if busy:
        look.waits.append(f"git has {busy} in progress: the entity files stay as they are until it is done")
    else:
        if git is not None:
            look.is_forward = has_moved_forward(git.main.git_folder, look.commit)
            look.commit = newest_move(git.main.git_folder)
        look.main(layout.entities)
    known = look.journal.index.looked_at()
    places = [os.path.abspath(folder) + os.sep for folder in beside]
    for worktree in git.linked if git is not None else ():
        is_wanted = everywhere or any(place.startswith(worktree.folder + os.sep) for place in places)
        busy = busy_with(worktree.git_folder) if is_wanted else ""
        if busy:
            look.waits.append(f"git has {busy} in progress in {worktree.folder}: its entity files are not looked at")
        if is_wanted and not busy:
            look.linked(worktree, known)
        else:
            inside = worktree.entities + os.sep
            look.looked_at.update({path: stamp for path, stamp in known.items() if path.startswith(inside)})


def _listed(folder: str) -> list[tuple[str, bytes | None]]:
    """Return name and stamp of the files in a folder that is not a link; empty if there is none."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    found: list[tuple[str, bytes | None]] = []
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name.endswith(TEMPORARY_SUFFIX):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # removed since it was listed
                found.append((entry.name, stamp_from(status) if stat.S_ISREG(status.st_mode) else None))
    finally:
        os.close(fd)
    return found


def _record(journal: MutableJournal, found: list[_New], writer: Writer) -> tuple[Taken, ...]:
    """Write the versions in batches; versions that another process wrote meanwhile are left out."""
    taken: list[Taken] = []
    for batch in _batches(found):
        written: list[Taken] = []

        def write(transaction: Transaction, batch: list[_New] = batch, written: list[Taken] = written) -> None:
            for document, verdict, path in batch:
                one = Taken(document.item_type, document.item_id, verdict.version, path)
                if journal.holds(*one[:3]) or any(one.version == other.version for other in written):
                    continue
                action = "import" if verdict.kind == "adopt" else "external_edit"
                summary = (
                    f"{document.item_type}: {'adopted from its file' if action == 'import' else 'edited in its file'}"
                )
                transaction.place(
                    action,
                    document.item_type,
                    document.item_id,
                    document.value,
                    verdict.parents,
                    after=verdict.after,
                    summary=summary,
                    is_of_before=verdict.kind == "adopt",
                )
                written.append(one)

        journal.mutate(write, writer, project=False, patience_s=_PATIENCE_S)
        taken += written
    return tuple(taken)


def _batches(found: list[_New]) -> Iterator[list[_New]]:
    batch: list[_New] = []
    size = 0
    for new in found:
        if batch and (len(batch) >= _BATCH_RECORDS_MAX or size + len(new.document.payload) > _BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(new)
        size += len(new.document.payload)
    if batch:
        yield batch
