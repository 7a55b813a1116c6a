"""Exchange of lineages between the clones of one project.

State is a function of the set of records held, so there is nothing to negotiate: each side gets the records that it lacks, verbatim, and
then shows the same as the other. Each lineage is written by its owner only; ``Arrival`` checks whatever comes. A refused lineage (a fork, a
changed key, damage) does not keep the others from coming. Rules kept here:

* only one sync at a time works on a store (``journal/sync.lock``); its writers wait for renames only;
* only its owner adds to a lineage that a store writes, ours included. If another place holds more of our own lineage than we do, our store
  was restored to an earlier state: we leave that lineage, start another, and take the rest of the old one back as a foreign one;
* a dry run examines the same things and writes only outside the stores.
"""

from __future__ import annotations

__all__ = ["SyncReport", "Transfer", "Unsigned", "Waiting", "is_of_another", "sync"]

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, Protocol, TypeAlias

from periplus.base.errors import (
    DamageError,
    ForkError,
    NotFoundError,
    PeriplusError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal.carriers import Carrier, FolderCarrier, SignedHead, StoreCarrier
from periplus.journal.checkpoints.offline_archive import absent, missing_segments
from periplus.journal.exchange.arrival import Arrival
from periplus.journal.exchange.rebase import Rebased, acknowledged, has_given_way, rebase
from periplus.journal.journal import Journal
from periplus.journal.recovery.lost_payloads import Returned, write_again
from periplus.journal.recovery.object_transfer import References, objects_of
from periplus.journal.recovery.removed_content import removed_objects
from periplus.journal.state.transaction import Writer
from periplus.journal.storage.lineage import START

Direction: TypeAlias = Literal["in", "out"]
Progress: TypeAlias = Callable[[int, int], None]
_PATIENCE_S: Final = 30.0
_NOTHING: Final[References] = lambda _entity, _lend: set()  # noqa: E731 - a constant


class Transfer(NamedTuple):
    """The transferred part of one lineage: records ``first_seq`` to ``last_seq``, none if ``records`` is 0.

    ``held`` is the number of its records that the receiving side has now. ``objects_missing`` are objects that neither side has,
    ``objects_left_out`` were redacted at the receiving side, ``objects_taken_out`` were removed there because these records state their
    redaction. ``refused`` is the reason if nothing was taken.
    """

    lineage: str
    direction: Direction
    records: int = 0
    first_seq: int = 0
    last_seq: int = 0
    size: int = 0
    objects: int = 0
    object_bytes: int = 0
    objects_missing: int = 0
    objects_left_out: int = 0
    held: int = 0
    refused: PeriplusError | None = None
    objects_taken_out: int = 0


class Waiting(NamedTuple):
    """A lineage that was not exchanged: its records name ``store``, which the settings of the receiving side do not list.

    The receiving side is this store for ``direction`` "in", the other one for "out".
    """

    lineage: str
    store: str
    direction: Direction


class Unsigned(NamedTuple):
    """A lineage formerly written here of which ``records`` cannot be sent: the place takes only signed records, and this store cannot sign
    them.

    The key is gone, or another store acknowledged these records, or this one did before it was restored to an earlier state.
    """

    lineage: str
    records: int


class SyncReport(NamedTuple):
    """Result of a sync.

    ``conflicts`` are type and id of entities in conflict because of incoming records. ``left`` is the lineage that this store wrote until
    other places turned out to hold more of it. ``waiting`` is what would be exchanged if the settings of both sides named the same stores,
    ``rebased`` the forks in which this store gave way. ``emptied_there`` are records of our own lineage whose content a copy of this store,
    which has its key, redacted; the owner has to redact them here. ``returned`` counts our records that were lost to damage and whose
    content ``place`` had, ``emptied_out`` those that lost their content in ``place``, a store whose entity files show it until its next
    command.
    """

    place: str
    store: str
    transfers: list[Transfer]
    conflicts: list[tuple[str, str]]
    left: str
    dry_run: bool
    waiting: tuple[Waiting, ...] = ()
    rebased: tuple[Rebased, ...] = ()
    unsigned: tuple[Unsigned, ...] = ()
    emptied_there: tuple[int, ...] = ()
    returned: int = 0
    emptied_out: int = 0

    @property
    def refusals(self) -> list[PeriplusError]:
        return [transfer.refused for transfer in self.transfers if transfer.refused is not None]


class Outlet(Carrier, Protocol):
    """A carrier that is not a folder: it takes a lineage only from its owner, and as a whole."""

    def removing(self, lineage: str) -> str:
        """Return the advice that removes an unusable copy there."""
        ...

    def has_object(self, lineage: str, digest: bytes) -> bool: ...

    def holds(self, lineage: str, segment: int, data: bytes) -> bool | None:
        """Return True if its copy of the segment is a beginning of ``data``; None if it has none."""
        ...

    def push(
        self, lineage: str, head: SignedHead, segments: Iterable[tuple[int, bytes]],
        objects: Iterable[tuple[bytes, bytes]], *, anew: bool,
    ) -> None:  # fmt: skip
        """Add these; with ``anew`` in place of everything that was there."""
        ...


def sync(
    journal: Journal,
    other: FolderCarrier | Outlet,
    *,
    references: References = _NOTHING,
    dry_run: bool = False,
    takes_only: bool = False,
    rebases: bool = False,
    writer: Writer | None = None,
    arrived: Callable[[], object] = lambda: None,
    progress: Progress = lambda _done, _total: None,
) -> SyncReport:
    """Take what ``other`` holds beside our own records, and send it ours.

    ``references`` returns the objects that an entity of a layer above needs; it reads objects through its second argument. With
    ``takes_only`` nothing is sent. With ``rebases`` this store gives way if a lineage has forked; see ``periplus.journal.exchange.rebase``.
    Content of our records that was lost to damage and that ``other`` has is written again by ``writer``. ``arrived`` is called when
    everything has come, before ours is sent.

    Raises RefusedError for a place of another store, DamageError if our own journal is damaged.
    """
    if is_of_another(other, journal):
        raise RefusedError(
            f"{other.place} is of another project: its store is {other.store_id()}, this one is {journal.store_id}",
            safe="Nothing was changed.",
            mend="To import its memory as candidates, to accept or refuse: add --candidates. If both were made for one project: "
                 "bring its config.toml here by git, then `periplus init --join`.",
        )  # fmt: skip
    if isinstance(other, FolderCarrier) and os.path.realpath(other.root) == os.path.realpath(journal.layout.root):
        raise UsageError(f"{other.place} is this very store", safe="Nothing was changed.")
    journal.refresh()
    unsound = journal.damage or journal.unnamed_store()
    if unsound is not None:
        raise unsound
    _refuse_without_past(journal)
    run = _Run(journal, other, references, dry_run=dry_run, rebases=rebases)
    held = set(journal.lineages())
    unknown = {one: store for one, store in other.of_others(journal.stores).items() if one not in held}
    run.waiting += [Waiting(one, store, "in") for one, store in sorted(unknown.items())]
    names = [one for one in other.lineages() if one not in unknown]
    for number, lineage in enumerate(names):
        run.bring(lineage)
        progress(number + 1, 2 * len(names))
    run.again(run.bring, "in")
    journal.refresh()
    journal.project()
    returned = len(run.whole_there)
    if writer is not None and not dry_run:
        returned = len(list(write_again(journal, run.whole_there)))
    if not dry_run and not takes_only:
        arrived()
        journal.settle(Writer("sync", ""))
    ours = journal.lineages() if not takes_only else []
    for number, lineage in enumerate(ours):
        run.send(lineage)
        progress(len(ours) + number + 1, 2 * len(ours))
    run.again(run.send, "out")
    conflicts = [key for key in sorted(run.touched) if (one := journal.get(*key)) is not None and one.is_in_conflict]
    return SyncReport(other.place, journal.store_id, run.transfers, conflicts, run.left, dry_run, tuple(run.waiting),
                      tuple(run.rebased), tuple(run.unsigned), run.emptied_there, returned, run.emptied_out)  # fmt: skip


def _refuse_without_past(journal: Journal) -> None:
    """Raise DamageError if segments are missing here: incoming versions might need a merge base in one, whatever the index knows."""
    missing = missing_segments(journal.layout, journal.stores)
    if missing is not None:
        raise missing
    if journal.index.has_floors and absent(journal):
        journal.need_history()


def _damage_there(other: FolderCarrier | Outlet, lineage: str, error: PeriplusError) -> PeriplusError:
    """Return ``error``; damage in an exchange folder or git remote gets another advice, since no command can be run there."""
    if type(error) is not DamageError:
        return error
    if not isinstance(other, FolderCarrier):
        if not error.wrong.startswith(f"{other.place}: {lineage}"):
            return error
        return DamageError(error.wrong, path=error.path, offset=error.offset, seq=error.seq, safe=error.safe,
                           mend=other.removing(lineage))  # fmt: skip
    if other.is_store:
        return error
    cause = error.__cause__
    found = cause if error.path is None and isinstance(cause, DamageError) else error
    folder = other.layout.lineage_folder(lineage)
    is_of_folder = found.path is not None and found.path.startswith(folder + os.sep)
    if not is_of_folder and not error.wrong.startswith(f"{other.place}: {lineage}"):
        return error
    if not is_of_folder:
        found = error  # it was found in the staged copy
    mend = f"Finish or repeat the copy there. Or remove {folder}: the next sync of a clone with these records puts them there again."
    return DamageError(found.wrong, path=found.path, offset=found.offset, seq=found.seq,
                       safe="Nothing of it was taken; the copy here is unchanged.", mend=mend)  # fmt: skip


def is_of_another(other: Carrier, journal: Journal) -> bool:
    """Return True if nothing that ``other`` holds belongs to a store of ``journal``."""
    return (
        bool(other.store_id())
        and other.store_ids().isdisjoint(journal.stores)
        and other.store_id() not in journal.stores
    )


class _Run:
    def __init__(
        self, journal: Journal, other: FolderCarrier | Outlet, references: References, *, dry_run: bool, rebases: bool
    ) -> None:
        self.transfers: list[Transfer] = []
        self.touched: set[tuple[str, str]] = set()
        self.left = ""
        self.waiting: list[Waiting] = []
        self.rebased: list[Rebased] = []
        self.unsigned: list[Unsigned] = []
        self.emptied_there: tuple[int, ...] = ()
        self.emptied_out = 0
        self.whole_there: list[Returned] = []  # content of our records that were lost to damage
        self._refused: set[str] = set()
        self._forked: set[str] = set()
        self._awaiting: list[str] = []  # lineages that wait for another one to come first
        self._replaced: set[str] = set()  # forked lineages to replace in a place where no command can be run
        self._journal = journal
        self._other = other
        self._references = references
        self._dry_run = dry_run
        self._rebases = rebases
        # A store there without these segments could not merge the records sent to it.
        self._missing_there: DamageError | None = None
        if isinstance(other, FolderCarrier) and other.is_store:
            self._missing_there = missing_segments(other.layout, journal.stores)

    def again(self, way: Callable[[str], None], direction: Direction) -> None:
        """Retry the lineages that waited for another lineage."""
        names, self._awaiting = self._awaiting, []
        for lineage in names:
            way(lineage)
        for lineage in self._awaiting:
            error = RefusedError(
                f"records of {lineage} were redacted, but the lineage with the audit record did not come along",
                safe="Nothing of it was taken; the copy held is unchanged.",
                mend="See the messages about the other lineages, then repeat the command.",
            )
            self.transfers.append(Transfer(lineage, direction, refused=error))
        self._awaiting = []

    def bring(self, lineage: str) -> None:
        transfer = self._taken(lineage)
        fork = transfer.refused if transfer is not None else None
        if self._rebases and isinstance(fork, ForkError) and fork.differs_at:
            if has_given_way(self._journal, lineage, fork.differs_at, self._other):
                if self._other.needs_heads and self._can_sign(lineage, fork.differs_at):
                    self._replaced.add(lineage)
                    return
                transfer = Transfer(lineage, "in", refused=self._left_to_others(lineage, fork))
            else:
                try:
                    self.rebased.append(self._rebase(lineage, fork.differs_at))
                except PeriplusError as error:
                    transfer = Transfer(lineage, "in", refused=error)
                    self._forked.add(lineage)
                else:
                    if self._dry_run:
                        self._forked.add(lineage)
                        return
                    transfer = self._taken(lineage)
        if transfer is not None:
            if transfer.refused is not None:
                self._refused.add(lineage)
                if isinstance(transfer.refused, ForkError):
                    self._forked.add(lineage)
            self.transfers.append(transfer)

    def _can_sign(self, lineage: str, differs_at: int) -> bool:
        """Return True if this store can sign the lineage's records at the fork in the owner's name."""
        source = StoreCarrier(self._journal, remembers=not self._dry_run)
        head = source.head(lineage)
        is_ours = lineage == source.written_lineage() or lineage in source.left or source.was_written(lineage)
        return is_ours and head is not None and head.head.size >= differs_at

    def _left_to_others(self, lineage: str, fork: ForkError) -> ForkError:
        """Return the error for a fork in which the other side gives way."""
        how = "there" if not self._other.needs_heads else f"in the clone that wrote {lineage}, its owner's"
        told = ForkError(
            f"{fork.wrong}; everything that only {self._other.place} has of it is here already",
            safe=fork.safe,
            mend=f"That side gives way: run the sync with --rebase {how}.",
        )
        told.differs_at = fork.differs_at
        return told

    def _look_for_unsigned(self, source: StoreCarrier, lineage: str) -> None:
        heads = [source.head(lineage)]
        try:
            heads.append(self._other.head(lineage))
        except PeriplusError:
            return  # already reported
        stay = self._journal.end(lineage).next_seq - 1 - max(one.head.size if one is not None else 0 for one in heads)
        if stay > 0:
            self.unsigned.append(Unsigned(lineage, stay))

    def _rebase(self, lineage: str, differs_at: int) -> Rebased:
        if self._dry_run:
            return rebase(self._journal, lineage, differs_at, dry_run=True)
        lock = Lock(os.path.join(self._journal.layout.journal, "sync.lock"))
        try:
            with lock.holding(_PATIENCE_S):
                if lineage == self._journal.lineage:
                    self.left = lineage
                stands = acknowledged(self._journal, lineage, self._other)
                return rebase(self._journal, lineage, differs_at, stands)
        finally:
            lock.close()

    def _is_held(self, version: str, lost: Collection[int]) -> bool:
        """Return True if a record has the version, or had it before it was redacted, not counting those of ours in ``lost``."""
        self._journal.need_history()  # otherwise a version from before a checkpoint would be written again, redacted or not
        own = self._journal.lineage
        found = self._journal.index.records("version = ? AND version <> ''", (version,), len(lost) + 1)
        return any(one.lineage != own or one.seq not in lost for one in found)

    def _taken(self, lineage: str) -> Transfer | None:
        return self._carried(StoreCarrier(self._journal, remembers=not self._dry_run), self._other, lineage, "in")

    def send(self, lineage: str) -> None:
        if lineage == self._other.written_lineage() or not self._journal.end(lineage).segment:
            return
        if lineage in self._forked:
            return  # reported already; it would be refused there for the same reason
        source = StoreCarrier(self._journal, remembers=not self._dry_run)
        if self._other.needs_heads and (lineage in source.left or source.was_written(lineage)):
            self._look_for_unsigned(source, lineage)
        if self._other.needs_heads and lineage != source.written_lineage() and source.head(lineage) is None:
            return  # only its owner can sign our copy
        store = self._journal.store_of(lineage)
        if not self._other.takes(store):
            self.waiting.append(Waiting(lineage, store, "out"))
            return  # a store joined here, which the settings there do not name yet
        if isinstance(self._other, FolderCarrier):
            if not self._dry_run:
                self._other.prepare(self._journal.store_id)
            if lineage in self._replaced:
                if self._dry_run:
                    return
                _remove(self._other, lineage)
            transfer = self._carried(self._other, source, lineage, "out")
            if transfer is not None:
                self.transfers.append(transfer)
        elif lineage not in self._refused and (
            lineage == source.written_lineage() or lineage in source.left or source.was_written(lineage)
        ):
            try:
                transfer = self._pushed(self._other, source, lineage)
            except PeriplusError as error:
                transfer = Transfer(lineage, "out", refused=error)
            if transfer is not None:
                self.transfers.append(transfer)

    def _carried(self, target: FolderCarrier, source: Carrier, lineage: str, direction: Direction) -> Transfer | None:
        try:
            with _staging(target, lineage, dry_run=self._dry_run) as staging:
                is_ours = isinstance(target, StoreCarrier) and lineage in (target.written_lineage(), *target.left)
                if source.needs_heads and is_ours and source.head(lineage) is None:
                    return None  # an earlier sync was interrupted; the rest is sent now
                arrival = Arrival(target, source, lineage, self._journal.stores, staging)
                if not source.segments(lineage):
                    if not is_ours:
                        self._refuse_nothing(source, lineage)
                    return None
                arrival.examine()
                if arrival.awaits_head:
                    return None  # only its owner can sign the audit record
                if arrival.awaits_audit and not self._dry_run:
                    self._awaiting.append(lineage)
                    return None
                if direction == "in" and lineage == target.written_lineage():
                    self.emptied_there = tuple(sorted(arrival.emptied_seqs))
                if arrival.new_records and lineage == target.written_lineage():
                    if direction == "out":
                        return None  # its owner is writing and is ahead of our copy
                    self._leave()
                if (
                    direction == "out"
                    and self._missing_there is not None
                    and (arrival.new_records or arrival.is_emptying)
                ):
                    raise self._missing_there
                taken = arrival.objects.take(self._references, dry_run=self._dry_run)
                if direction == "in" and lineage == target.written_lineage():
                    whole: dict[str, Returned] = {}
                    for record, change in arrival.returned():
                        if not self._is_held(change.version, arrival.returned_seqs):
                            Returned.of(record, change).join(whole)
                    self.whole_there = list(whole.values())
                if direction == "in":
                    self.touched |= arrival.objects.touched
                doomed = arrival.doomed_here()
                if not self._dry_run and lineage != target.written_lineage():
                    is_emptying = arrival.is_emptying
                    arrival.commit()
                    if direction == "out" and target.is_store:
                        self.emptied_out += len(arrival.emptied_seqs)
                    if is_emptying and direction == "in":
                        self._journal.renew_derived()
        except PeriplusError as error:
            return Transfer(lineage, direction, refused=_damage_there(self._other, lineage, error))
        last = arrival.end.next_seq - 1
        count = arrival.new_records
        gone = len(doomed if self._dry_run else doomed - arrival.doomed_here())
        return Transfer(lineage, direction, count, last - count + 1 if count else 0, last if count else 0,
                        arrival.new_bytes, *taken, held=last, objects_taken_out=gone)  # fmt: skip

    def _refuse_nothing(self, source: Carrier, lineage: str) -> None:
        """Raise DamageError for a lineage without records in an exchange place although there should be some.

        A lineage that is just being put into a folder has no head yet; a push to a git remote is complete at once.
        """
        if not source.needs_heads:
            return
        head = source.head(lineage)
        if head is None and isinstance(source, FolderCarrier):
            return
        has = "no signed head" if head is None else f"a signed head of {head.head.size:,} records"
        raise DamageError(
            f"{source.place}: {lineage} has no records there, but {has}",
            safe="Nothing of it was taken; the copy here is unchanged.",
            mend="Its owner's next `periplus sync` with it puts them there.",
        )

    def _pushed(self, outlet: Outlet, source: StoreCarrier, lineage: str) -> Transfer | None:
        """Push a lineage that this store writes or wrote; return None if a later owner has pushed more."""
        head = source.head(lineage)
        assert head is not None
        known = outlet.head(lineage)
        says_it = lineage == source.written_lineage() or lineage in self._replaced
        if not says_it and known is not None and known.head.size > head.head.size:
            return None
        size, before = head.head.size, known.head.size if known is not None else 0
        cuts: dict[int, int] = {}
        changed: list[int] = []
        is_anew = False
        for chunk in source.reader(lineage).read_from(START):
            taken = [entry for entry in chunk.entries if entry.record.seq <= size]
            if not taken:
                break
            cuts[chunk.segment] = taken[-1].offset + taken[-1].length
            data = source.fetch(lineage, chunk.segment)[: cuts[chunk.segment]]
            held = outlet.holds(lineage, chunk.segment, data)
            is_anew |= held is False  # content redacted here is still there
            is_anew |= any(
                outlet.has_object(lineage, one) and not source.objects.has(one)
                for entry in taken
                for one in removed_objects(entry, lineage)
            )
            if held is None or taken[-1].record.seq > before:
                changed.append(chunk.segment)
        wanted = sorted(cuts) if is_anew else changed
        sizes: list[int] = []

        def objects() -> Iterator[tuple[bytes, bytes]]:
            for digest in self._objects_of(outlet, source, lineage, 0 if is_anew else before, size):
                try:
                    data = source.objects.get(digest)
                except NotFoundError:
                    continue  # `periplus doctor` reports it
                sizes.append(len(data))
                yield digest, data

        if self._dry_run:
            for _ in objects():
                pass
        elif wanted:
            segments = ((segment, source.fetch(lineage, segment)[: cuts[segment]]) for segment in wanted)
            outlet.push(lineage, head, segments, objects(), anew=is_anew)
        count = max(0, size - before)
        return Transfer(lineage, "out", count, before + 1 if count else 0, size if count else 0,
                        sum(cuts[segment] for segment in wanted), len(sizes), sum(sizes), held=size)  # fmt: skip

    def _objects_of(self, outlet: Outlet, source: StoreCarrier, lineage: str, after: int, end: int) -> list[bytes]:
        found: dict[bytes, None] = {}
        for chunk in source.reader(lineage).read_from(START):
            for entry in chunk.entries:
                if after < entry.record.seq <= end:
                    for digest, _ in objects_of(entry, lineage, chunk.segment, self._references, source.objects.get):
                        if not after or not outlet.has_object(lineage, digest):
                            found[digest] = None
        return list(found)

    def _leave(self) -> None:
        self.left = self._journal.lineage
        if not self._dry_run:
            self._journal.leave_lineage()


def _remove(target: FolderCarrier, lineage: str) -> None:
    """Remove a lineage from an exchange folder, all or nothing."""
    with _staging(target, lineage, dry_run=False) as staging:
        target.files.make_folder(os.path.dirname(staging))
        target.files.replace(target.layout.lineage_folder(lineage), staging)
        target.files.sync_folder(target.layout.journal)


@contextmanager
def _staging(target: FolderCarrier, lineage: str, *, dry_run: bool) -> Iterator[str]:
    """Give a staging folder for a lineage, on the file system of the target; in a dry run elsewhere.

    Files of an interrupted arrival are removed first.
    """
    if dry_run:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    files, journal = target.files, target.layout.journal
    try:
        files.make_folder(journal)
    except OSError as error:
        raise environment_failure(error, "make", journal) from error
    lock = Lock(os.path.join(journal, "sync.lock"))
    incoming = os.path.join(journal, "incoming")
    try:
        with lock.holding(_PATIENCE_S):
            _sweep(files, incoming)
            try:
                yield os.path.join(incoming, lineage)
            except Exception:  # remove the staged files after any failure
                _sweep(files, incoming)
                raise
            _sweep(files, incoming)
    except OSError as error:
        raise environment_failure(error, "set aside in", incoming) from error
    finally:
        lock.close()


def _sweep(files: Files, incoming: str) -> None:
    if not os.path.isdir(incoming):
        return
    for folder, folders, names in os.walk(incoming, topdown=False):
        for name in names:
            files.unlink(os.path.join(folder, name))
        for name in folders:
            files.remove_folder(os.path.join(folder, name))
    files.remove_folder(incoming)
