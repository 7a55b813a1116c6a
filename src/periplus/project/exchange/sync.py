"""Sync as a person asks for it: resolve the name of a carrier, choose the objects that go along, gather other
projects' memory.
"""

from __future__ import annotations

__all__ = ["Synced", "sync_project"]

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files
from periplus.base.filesystem.store_location import require_settings_file
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal import STORE_FOLDER, Journal
from periplus.journal.carriers import FolderCarrier, GitCarrier, is_folder_carrier, open_folder, resolve_remote
from periplus.journal.exchange.sync import SyncReport, Transfer, is_of_another, sync
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import new_settings_text
from periplus.journal.storage.tree_head import read_peer, write_peer
from periplus.memory import memory_types
from periplus.memory.coordination.claims import Clash, clashes
from periplus.memory.coordination.stuck_work import Stuck, stuck_work
from periplus.memory.reflection.candidates import Recorded, record_candidates
from periplus.memory.succession.late_changes import LateChange, late_changes
from periplus.memory.succession.successors import CompetingSuccessors, rivalries
from periplus.project.exchange.named_objects import exchanged_objects

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

Progress = Callable[[int, int], None]
_REMOTE_PATIENCE_S: Final = 60.0  # a sync with a remote takes as long as the network does


class Synced(NamedTuple):
    """``recorded`` is None for a clone of this project. ``rivalries`` are competing successors, ``late`` late changes
    to superseded entities, ``stuck`` is work that nobody can start, ``clashes`` are conflicting claims of separate
    clones.
    """

    report: SyncReport
    recorded: Recorded | None
    rivalries: tuple[CompetingSuccessors, ...] = ()
    late: tuple[LateChange, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    clashes: tuple[Clash, ...] = ()


def sync_project(
    project: ProjectStore,
    where: str,
    *,
    cwd: str,
    environment: Mapping[str, str],
    dry_run: bool = False,
    candidates: bool = False,
    rebase: bool = False,
    progress: Progress | None = None,
) -> Synced:
    """Exchange with the store, the exchange folder or the git repository that ``where`` names, seen from ``cwd``.

    With ``candidates`` the memory of another project is recorded as candidates. With ``rebase`` this clone gives way
    where a lineage has forked. ``environment`` is for git. Raises UsageError for an unknown name, and what
    ``periplus.journal.exchange.sync.sync`` raises.
    """
    tell = progress or (lambda _done, _total: None)
    with _carrier(project, where, cwd, environment, dry_run=dry_run) as other:
        if candidates and is_of_another(other, project.journal):
            return _foreign(project, other, dry_run=dry_run, progress=tell)

        def exchange() -> SyncReport:
            return sync(project.journal, other, references=exchanged_objects, dry_run=dry_run, rebases=rebase, writer=project.writer,
                        arrived=lambda: _renew_refs(project), progress=tell)  # fmt: skip

        try:
            report = exchange()
        except (DamageError, EnvironmentFailure):
            if not _is_renewed(other):
                raise
            report = exchange()
        else:
            if report.refusals and _is_renewed(other):
                report = exchange()
    is_new = not dry_run and (bool(report.rebased) or any(one.records for one in report.transfers))
    if not is_new:
        return Synced(report, None)
    journal = project.journal
    return Synced(
        report, None, tuple(rivalries(journal)), tuple(late_changes(journal)), tuple(stuck_work(journal)),
        tuple(clashes(journal, journal.clock.now_ms())),
    )  # fmt: skip


def _renew_refs(project: ProjectStore) -> None:
    from periplus.project.context_store.renewal import renew_refs

    renew_refs(project)


def _is_renewed(other: FolderCarrier | GitCarrier) -> bool:
    """Return True where our copy of a remote was broken and was made again."""
    if not isinstance(other, GitCarrier) or not other.discard_if_spoilt():
        return False
    other.connect()
    return True


def _connect(carrier: GitCarrier) -> None:
    """Connect to a remote; a broken copy of it is made again."""
    try:
        carrier.connect()
    except (DamageError, EnvironmentFailure):
        if not carrier.discard_if_spoilt():
            raise
        carrier.connect()


def _foreign(project: ProjectStore, other: FolderCarrier | GitCarrier, *, dry_run: bool, progress: Progress) -> Synced:
    """Record the memory of another project, gathered in a temporary store."""
    store = other.store_id()
    journal = project.journal
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(os.path.join(folder, ".periplus"))
        os.makedirs(layout.journal)
        with open(layout.config, "w", encoding="utf-8") as file:
            file.write(new_settings_text(store, sorted(other.store_ids() - {store})))
        for lineage in other.lineages():
            pinned = read_peer(journal.layout, lineage)
            if pinned is not None:
                write_peer(layout, Files(), pinned)
        with Journal(layout.root, memory_types(allow_secrets=True)) as theirs:
            report = sync(theirs, other, takes_only=True, progress=progress)
            recorded = record_candidates(journal, store, theirs.entities(), project.writer, dry_run=dry_run)
            for lineage in theirs.lineages() if not dry_run else ():
                seen = read_peer(layout, lineage)
                if seen is not None and seen != read_peer(journal.layout, lineage):
                    write_peer(journal.layout, journal.files, seen)
    transfers = [_as_read(one) for one in report.transfers]
    return Synced(report._replace(transfers=transfers, conflicts=[], dry_run=dry_run), recorded)


def _as_read(transfer: Transfer) -> Transfer:
    """Return the transfer without records: nothing of another project's records stays here, only refusals are
    reported.
    """
    return Transfer(transfer.lineage, transfer.direction, held=transfer.held, refused=transfer.refused)


@contextmanager
def _carrier(
    project: ProjectStore, where: str, cwd: str, environment: Mapping[str, str], *, dry_run: bool
) -> Iterator[FolderCarrier | GitCarrier]:
    path = os.path.join(cwd, where)
    is_there = os.path.isdir(path)
    is_carrier = is_there and is_folder_carrier(path)
    for place in (path, os.path.join(path, STORE_FOLDER)) if not is_carrier else ():
        require_settings_file(
            place
        )  # otherwise the carrier's files would lie beside the clone's store, in its repository
    if is_carrier or (is_there and not _is_repository(path)):
        yield open_folder(path, project.journal.files, project.journal.objects.packing)
    else:
        url, settings = _address(project, where, path, environment)
        if url is None:
            yield open_folder(path, project.journal.files, project.journal.objects.packing)
            return
        name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        with _cache_of(project, name, is_for_once=dry_run) as cache:
            carrier = GitCarrier(
                url, cache, place=where, stores=project.journal.stores, environment=environment,
                clock=project.journal.clock, settings=settings,
            )  # fmt: skip
            _connect(carrier)
            yield carrier


@contextmanager
def _cache_of(project: ProjectStore, name: str, *, is_for_once: bool) -> Iterator[str]:
    """Hold git's copy of a remote. One sync at a time works on it: it fetches, commits and pushes, and another push
    in between would look like another writer of our lineage.
    """
    if is_for_once:
        with tempfile.TemporaryDirectory() as aside:
            yield os.path.join(aside, f"{name}.git")
        return
    folder = os.path.join(project.root, "remotes")
    try:
        project.journal.files.make_folder(folder)
    except OSError as error:
        raise environment_failure(error, "make the folder", folder) from error
    lock = Lock(os.path.join(folder, f"{name}.lock"))
    try:
        with lock.holding(_REMOTE_PATIENCE_S):
            yield os.path.join(folder, f"{name}.git")
    finally:
        lock.close()


def _address(
    project: ProjectStore, where: str, path: str, environment: Mapping[str, str]
) -> tuple[str | None, list[tuple[str, str]]]:
    """Return ``(URL, settings)``; no URL for a path at which an exchange folder is to be made."""
    if os.path.isdir(path):
        return os.path.abspath(path), []
    try:
        return resolve_remote(where, project.folder, environment)
    except EnvironmentFailure:  # no git; a path from here or from the root cannot be the name of a remote
        if where.startswith((os.sep, f".{os.sep}", f"..{os.sep}")) and not os.path.lexists(path):
            return None, []
        raise
    except UsageError as error:
        file = _file_on_the_way(path) if os.sep in where or os.path.isfile(path) else ""
        if file:
            raise UsageError(
                f"{file} is a file, not a folder", safe="Nothing was changed.", mend="Name a folder or a git remote."
            ) from None
        if os.sep in where and not where.startswith("-"):
            return None, []
        if where[:1] != "-" and ":" not in where and not os.path.lexists(path):
            import shlex

            error.mend += (
                f" For a new exchange folder in this one: periplus sync --with {shlex.quote(f'.{os.sep}{where}')}"
            )
        raise


def _file_on_the_way(path: str) -> str:
    """Return ``path``, or its nearest existing parent, where that is not a folder; empty where it is one."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path if os.path.exists(path) and not os.path.isdir(path) else ""


def _is_repository(path: str) -> bool:
    bare = all(os.path.exists(os.path.join(path, name)) for name in ("HEAD", "objects", "refs"))
    return bare or os.path.exists(os.path.join(path, ".git"))
