"""A view brought up to date with its worktree, before each answer.

1. The files are listed (`code.listing`): where nothing changed since the last look, that is all.
2. Under the lock of the index, what changed is noted. A content that the index has is joined without reading it: a switch of
   branches costs no parsing.
3. What is new is parsed, what somebody edits first, until the budget is spent. The rest stays noted as waiting: the answer says so, and
   the caller may have another process go on.

Parsing happens in this process for a few small files, else in workers. A note in a file says which contents are being parsed here: where
a process died of one, the next one leaves it to a worker.
"""

from __future__ import annotations

__all__ = ["Freshness", "Refresher"]

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from periplus.base.errors import EnvironmentFailure, LockTimeoutError
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.code.index.blob_rows import BlobRows
from periplus.code.index.database import Database
from periplus.code.index.file_reader import FileReader
from periplus.code.index.parsing import (
    HEAD_BYTES,
    Job,
    Row,
    contents_of,
    extractor_for,
    language_of_contents,
    row_of_contents,
)
from periplus.code.index.view_rows import Change, ViewRows
from periplus.code.languages.registry import language_key, row_of
from periplus.code.listing import Listing, is_settled, list_files
from periplus.code.listing.attributes import ATTRIBUTES_NAME, Attributes
from periplus.code.listing.classification import state_of_path

Progress = Callable[[int, int], None]
LISTING_S_MIN: Final = 2.0
LOCAL_FILES_MAX: Final = 24
LOCAL_BYTES_MAX: Final = 400_000
_ROWS_PER_WRITE: Final = 400
_ATTRIBUTE_FILES_MAX: Final = 1_000
_BLOBS_SPARE: Final = 5_000
_ADDED_PER_COUNT: Final = 100


class Freshness(NamedTuple):
    """How far an answer is up to date. ``waiting`` files changed and are not parsed yet; ``parsed`` were, for this answer. ``why`` says what
    the listing of files lacks, if anything; ``is_behind`` where the changes could not even be noted, because another process writes.
    ``has_graph`` is False where a question about many symbols was answered without the graph, perhaps not in full.
    """

    waiting: int = 0
    parsed: int = 0
    changed: int = 0
    why: str = ""
    is_behind: bool = False
    has_graph: bool = True


class Refresher:
    """Brings the view of ``root`` up to date. ``environment`` is that of git."""

    def __init__(self, database: Database, root: str, environment: Mapping[str, str]) -> None:
        self._database = database
        self._root = root
        self._environment = environment
        self._blobs = BlobRows(database)
        self.view = ViewRows(database, root)

    def refresh(
        self, budget_s: float, *, workers: int = 0, progress: Progress | None = None, is_hurried: bool = False
    ) -> Freshness:
        """Bring the view up to date, for at most about ``budget_s`` seconds. ``is_hurried`` leaves it as it is where that takes more than a
        look and the parsing of a few files: no process is started for it.
        """
        deadline = time.monotonic() + budget_s
        view = self.view
        view.load()
        try:
            listing = list_files(
                self._root,
                self._environment,
                view.indexes,
                seconds_max=budget_s if is_hurried else max(LISTING_S_MIN, budget_s),
            )
        except EnvironmentFailure as error:
            if view.id < 0:
                raise
            return Freshness(view.waiting_count(), why=str(error), is_behind=True)
        changed, gone = view.changes(listing)
        outdated = view.outdated_languages()
        waiting = view.waiting_count() if view.id >= 0 else 0
        if not changed and not gone and not outdated and not waiting and view.id >= 0:
            return Freshness(why=listing.why)
        if is_hurried and (view.id < 0 or outdated or len(changed) + waiting > LOCAL_FILES_MAX):
            return Freshness(max(waiting, len(changed)), changed=len(changed), why=listing.why, is_behind=True)
        lock = Lock(f"{self._database.path}.lock", is_guard=False)
        try:
            with lock.holding(max(0.0, deadline - time.monotonic())):
                return self._locked(listing, deadline, workers, progress)
        except LockTimeoutError:
            return Freshness(
                waiting=max(waiting, len(changed)),
                changed=len(changed),
                why=listing.why,
                is_behind=bool(changed or gone),
            )

    def _locked(self, listing: Listing, deadline: float, workers: int, progress: Progress | None) -> Freshness:
        view = self.view
        changed = self._note(listing)
        jobs = view.waiting()
        if not jobs:
            return Freshness(changed=changed, why=listing.why)
        parsed = self._parse(jobs, listing, deadline, workers, progress)
        return Freshness(max(0, len(jobs) - parsed), parsed, changed, listing.why)

    def _note(self, listing: Listing) -> int:
        """Write what the listing says; return the number of files that changed."""
        view = self.view
        with self._database.write():
            view.begin()
            changed, gone = view.changes(listing)
            outdated = view.outdated_languages()
            view.reparse(outdated)
            if any(_is_attributes(path) for path in (*gone, *(change.path for change in changed))):
                changed = view.with_all(changed, gone)  # whatever they say may concern any file
            attributes = self._attributes(listing)
            for change in changed:
                self._put(change, attributes)
            view.remove(gone)
            view.finish(listing, time.time_ns() // 1_000_000, is_changed=bool(changed or gone or outdated))
        return len(changed) + len(gone)

    def _put(self, change: Change, attributes: Attributes) -> None:
        view, path = self.view, change.path
        if change.is_gone:
            view.put(path, change, "gone", None)
            return
        row = row_of(path, self._head(path))
        size = int(change.stamp.partition(",")[0]) if change.stamp else None
        told = attributes.of(path)
        state = state_of_path(path, size, row.name if row is not None else "", told)
        if state or row is None:
            view.put(path, change, state, None)
            return
        is_own = told.is_generated is False
        known = None
        if change.oid and change.stamp is None:
            known = self._blobs.known(change.oid, language_key(row), extractor_for(row, is_own=is_own))
        view.note_language(row)
        if known is not None:
            view.put(path, change, "known", known[0])
        else:
            view.put(path, change, "waiting_own" if is_own else "waiting", None)

    def _head(self, path: str) -> bytes:
        """Return the first bytes of a file whose name tells no language and has no extension: of a script perhaps."""
        if "." in path.rpartition("/")[2] or row_of(path) is not None:
            return b""
        with FileReader(self._root) as reader:
            return reader.head(path, HEAD_BYTES)

    def _attributes(self, listing: Listing) -> Attributes:
        """Return the attributes of files."""
        paths = [path for path in (*(listing.base or ()), *listing.dirty) if _is_attributes(path)]
        if listing.base is None:
            paths += self.view.paths_named(ATTRIBUTES_NAME)
        files: dict[str, bytes] = {}
        if paths:
            with FileReader(self._root) as reader:
                for path in sorted(set(paths))[:_ATTRIBUTE_FILES_MAX]:
                    with contextlib.suppress(OSError):
                        files[path] = reader.read(path, 1 << 20) or b""
        return Attributes(files)

    # -- parsing -------------------------------------------------------------------------------------------------------

    def _parse(
        self,
        jobs: list[tuple[str, str | None, bool]],
        listing: Listing,
        deadline: float,
        workers: int,
        progress: Progress | None,
    ) -> int:
        """Parse ``jobs`` until ``deadline``; return how many were."""
        stamps = {path: stamp for path, stamp, _ in jobs}
        work = [Job(path, listing.algorithm, is_own) for path, _, is_own in jobs]
        done = 0
        batch: list[tuple[Job, Row]] = []
        for job, row in self._rows(work, stamps, deadline, workers):
            batch.append((job, row))
            if len(batch) >= _ROWS_PER_WRITE:
                done += self._write(batch, stamps)
                batch = []
                if progress is not None:
                    progress(done, len(jobs))
        done += self._write(batch, stamps)
        if progress is not None and done:
            progress(done, len(jobs))
        self._collect(done)
        return done

    def _rows(
        self, work: list[Job], stamps: Mapping[str, str | None], deadline: float, workers: int
    ) -> Iterator[tuple[Job, Row]]:
        known_size = sum(int((stamps[job.path] or "20000").partition(",")[0]) for job in work[: LOCAL_FILES_MAX + 1])
        if len(work) > LOCAL_FILES_MAX or known_size > LOCAL_BYTES_MAX or self._has_died():
            from periplus.code.index.worker_pool import parse_files

            yield from parse_files(self._root, work, workers=workers, deadline=deadline)
            self._attempt(())
            return
        self._attempt(work)
        with FileReader(self._root) as reader:
            for job in work:
                contents = contents_of(reader, job)
                row = language_of_contents(contents, job)
                key = (language_key(row), extractor_for(row, is_own=job.is_own)) if row is not None else ("", "")
                known = self._blobs.known(contents.oid, *key) if contents.oid and row is not None else None
                if known is not None:
                    yield job, Row(contents.oid, *key, known[1])
                else:
                    yield job, row_of_contents(contents, job)
                if time.monotonic() > deadline:
                    break
        self._attempt(())

    def _write(self, batch: Sequence[tuple[Job, Row]], stamps: Mapping[str, str | None]) -> int:
        """Write the rows of files; a file that is not there any more is left to the next look."""
        if not batch:
            return 0
        now = time.time_ns()
        with self._database.write():
            kept = [(job, row) for job, row in batch if row.oid]
            numbers = self._blobs.add([row for _, row in kept])
            for (job, _row), number in zip(kept, numbers, strict=True):
                stamp = stamps[job.path]
                if stamp is not None and not is_settled(_as_stamp(stamp), now):
                    stamp += "?"  # a later change might leave the same stamp: it is read again at the next look
                self.view.parsed(job.path, "known", number, stamp)
            for job, row in batch:
                if not row.oid:
                    self.view.parsed(job.path, row.state, None, stamps[job.path])
        return len(batch)

    def _collect(self, added: int) -> None:
        """Remove contents that no view has, when they are more than those that one has. Counting them takes longer than parsing a file, so
        it is done once for every _ADDED_PER_COUNT contents; ``added`` is at least the number of those that this look wrote.
        """
        newest = self._database.execute("SELECT max(id) FROM blob").fetchone()[0] or 0
        if newest % _ADDED_PER_COUNT >= added:
            return
        total = self._database.execute("SELECT count(*) FROM blob").fetchone()[0]
        used = self._database.execute(
            "SELECT count(*) FROM (SELECT blob FROM entry WHERE blob IS NOT NULL UNION SELECT blob FROM graph_file)"
        ).fetchone()[0]
        if total <= 2 * used + _BLOBS_SPARE:
            return
        with self._database.write():
            rows = self._database.execute(
                "SELECT id FROM blob WHERE id NOT IN (SELECT blob FROM entry WHERE blob IS NOT NULL UNION SELECT blob FROM graph_file)"
                " ORDER BY id LIMIT ?",
                (total - used,),
            ).fetchall()
            self._blobs.remove(row[0] for row in rows)

    # -- the note of what is being parsed here -------------------------------------------------------------------------

    def _has_died(self) -> bool:
        """Return True where a process ended while it parsed."""
        return os.path.exists(f"{self._database.path}.parsing")

    def _attempt(self, work: Sequence[Job]) -> None:
        note = f"{self._database.path}.parsing"
        if work:
            with open(note, "wb") as file:
                file.write(msgspec.json.encode([os.getpid(), *(ascii(job.path) for job in work)]))
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(note)


def _is_attributes(path: str) -> bool:
    return path == ATTRIBUTES_NAME or path.endswith(f"/{ATTRIBUTES_NAME}")


def _as_stamp(text: str) -> tuple[int, int, int, int]:
    size, mtime, ctime, inode = map(int, text.rstrip("?").split(","))
    return size, mtime, ctime, inode
