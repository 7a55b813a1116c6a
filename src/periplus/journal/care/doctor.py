"""Examination of a store: everything is read, checked and compared with a rebuild; nothing is changed.

A problem is an ``error`` (acknowledged data is affected), a ``warning`` (derived data is affected, or something is about to fail) or a
``note`` (unusual but harmless, such as an interrupted write that a later batch voided).
"""

from __future__ import annotations

__all__ = [
    "NETWORK_SYSTEMS",
    "Examination",
    "Problem",
    "References",
    "Severity",
    "examine",
    "lies_elsewhere",
    "no_references",
    "unrepaired",
]

import functools
import hashlib
import os
import re
import shlex
import sqlite3
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import Final, TypeAlias

import msgspec

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import FormatError, PeriplusError
from periplus.base.files import leftover, open_plain, read_plain, user_of
from periplus.base.filesystem.file_systems import file_system_of, is_room_for_maps
from periplus.base.named_tuple import NamedTuple
from periplus.journal.care.file_check import check_files
from periplus.journal.care.problem import Problem, Severity, byte_in
from periplus.journal.care.rebuild_comparison import Versions, is_cramped, rebuilding
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, checkpoint_lineages, usable_checkpoints
from periplus.journal.checkpoints.format import announcement_of, decode_checkpoint
from periplus.journal.checkpoints.offline_archive import away_in, begins_at, is_gap, last_checkpointed_segment, twins
from periplus.journal.index.index_file import NEXT_SUFFIX, NullIndexer, other_indexes
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.index.tables import Index
from periplus.journal.journal import Journal
from periplus.journal.projections.external_edits import ADOPTED, EDITED
from periplus.journal.records.record import LINE_BYTES_MAX, Record, action_class
from periplus.journal.records.segment import Entry, segment_first_seq
from periplus.journal.records.stub import (
    AuditedRecord,
    SignedAudit,
    audited_by,
    audited_record,
    lost_by,
    objects_removed_by,
    signed_audit,
)
from periplus.journal.recovery.plain_files import PlainFiles, odd_places
from periplus.journal.recovery.removed_content import taken_out
from periplus.journal.recovery.signed_audits import file_with_content, key_of
from periplus.journal.state.entity import Change, Entity, change_of, entity_of_head, head_of
from periplus.journal.storage.keys import verify_signature
from periplus.journal.storage.lineage import START, Chunk, left_behind_seq, read_durable
from periplus.journal.storage.lineage_size import seen_size
from periplus.journal.storage.parking import leftovers
from periplus.journal.storage.segment_writer import POISON_SUFFIX
from periplus.journal.storage.store_joining import store_ids_in

Progress: TypeAlias = Callable[[int, int], None]
References: TypeAlias = Callable[[Entity], set[bytes]]
_LONG_HELD_S: Final = 10.0
NETWORK_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"})
_FROM_FILES: Final = frozenset({ADOPTED.name, EDITED.name})
_ORPHANS_LISTED_MAX: Final = 20
_NAMED_MAX: Final = 5
_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_JOIN: Final = "If git brought the settings of another store of this project: `periplus init --join`. Otherwise: `periplus doctor --repair`."
_REPAIR: Final = "Run `periplus doctor --repair`, with --from PATH if there is a backup or another clone."
_AWAY: Final = (
    "A checkpoint covers them. Put the archive back; or `periplus doctor --repair --from PATH` with the folder that it was moved to,"
    " a backup or another clone; or, if they are lost for good, `periplus doctor --repair --archive-lost`."
)
_AWAY_BEFORE: Final = (
    "A checkpoint covers them. Put the archive back; or `periplus doctor --repair --from PATH` with the folder that it was moved to,"
    " a backup or another clone."
)
_GONE: Final = (
    "Put the folder back; or `periplus doctor --repair --from PATH` with a backup or another clone; or, if they are lost for good,"
    " `periplus doctor --repair --archive-lost` writes again what index and checkpoints know."
)
_BEGINS: Final = "Continue: nothing is lost. To restore the previous lineage instead: `periplus doctor --repair --from PATH` with a backup of this store."
_COPY: Final = "Repeat the copy, or run `periplus sync --with` the original, or with a clone that has more."
_TWIN: Final = "`periplus doctor --repair` restores from it what was lost here, and parks it."
_REPAIRED: Final = (
    "None of the copies searched has it. With a backup, a clone or an exported file: `periplus doctor --repair --from PATH`; without one,"
    " `periplus export --damaged FILE` saves what is left."
)


_LOG_BYTES_LONG: Final = 128 << 20  # SQLite truncates it from 16 MiB on, unless a snapshot is held
_COUNTED: Final = ("segments", "records", "versions", "entities", "objects")


class Examination(NamedTuple):
    problems: list[Problem]
    counts: dict[str, int]

    @property
    def exit_code(self) -> int:
        """0 sound, 1 warnings only, 3 acknowledged data is affected."""
        severities = {problem.severity for problem in self.problems}
        return 3 if "error" in severities else 1 if "warning" in severities else 0


def unrepaired(problem: Problem) -> Problem:
    """Return ``problem`` with the advice that applies after a repair, instead of the advice to repair."""
    return problem._replace(mend=_REPAIRED) if problem.mend == _REPAIR else problem


def lies_elsewhere(problem: Problem) -> bool:
    """Return True if the problem is missing records that a checkpoint covers, for example an archive on another disk."""
    return problem.mend in (_AWAY, _AWAY_BEFORE)


class _Findings:
    """Facts collected while reading the records, for the later checks."""

    def __init__(self, rebuilt: Index) -> None:
        self.rebuilt = rebuilt
        self.versions = Versions(rebuilt)
        self.parents: dict[str, tuple[str, int, bool]] = {}  # the first record that names it, and whether it is ours
        self.before: set[str] = set()  # parents of versions imported from files, whose records may be elsewhere
        self.objects: set[bytes] = set()
        self.mentioned: set[bytes] = set()  # named in observations, such as the steps of a running trail
        self.removed_objects: set[str] = set()
        self.announced: dict[int, str] = {}  # seq and SHA-256 of our own lineage's checkpoints
        self.others: set[int] = set()  # seqs of other lineages' checkpoints
        self.stubs: dict[tuple[str, AuditedRecord], tuple[str, int]] = {}
        self.audited: set[tuple[str, AuditedRecord]] = set()
        self.lost: set[tuple[str, AuditedRecord]] = set()  # those lost to damage, which may come back
        self.signed: list[SignedAudit] = []  # audit records about other lineages
        self.leaves: dict[str, bytearray] = {}  # by lineage, 32 bytes a record
        self.gaps: set[str] = set()  # lineages with unreadable records
        self.away: dict[str, int] = {}  # by lineage written here: records before this seq may lie elsewhere
        self.ends: dict[str, int] = {}  # by lineage, the seq after the last record read
        self.unindexed: set[tuple[str, str]] = set()  # entities in records after the index's watermark
        self.records = 0
        self.segments = 0

    def note_announcement(self, record: Record, *, is_own: bool) -> None:
        announced = announcement_of(record)
        if announced is not None:
            self.others.add(announced.seq)
            if is_own:
                self.announced[announced.seq] = announced.sha256

    def note_observation(self, record: Record) -> None:
        if isinstance(record.payload, msgspec.Raw) and action_class(record.action) == "observation":
            self.mentioned.update(bytes.fromhex(digits.decode()) for digits in _DIGEST.findall(bytes(record.payload)))

    def note_redaction(self, entry: Entry, lineage: str, path: str) -> None:
        record = entry.record
        if record.is_stub:
            line = read_plain(path, entry.length, entry.offset)[:-1]
            self.stubs[lineage, audited_record(line, entry.leaf, record.seq)] = (path, entry.offset)
        self.audited.update((lineage, one) for one in audited_by(record, lineage))
        self.lost.update((lineage, one) for one in lost_by(record, lineage))
        of_another = signed_audit(record, lineage)
        if of_another is not None:
            self.signed.append(of_another)
        self.removed_objects.update(objects_removed_by(record, lineage))


def no_references(_: Entity) -> set[bytes]:
    """Return no references, for callers without a layer above."""
    return set()


def examine(
    journal: Journal,
    *,
    references: References = no_references,
    read: Collection[bytes] = (),
    progress: Progress = lambda _done, _total: None,
    derived: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Examination:
    """Check the whole store.

    ``references`` returns the objects that an entity of a layer above refers to, and adds those it has read to ``read``, which are not read
    again. Without ``derived``, index and entity files are not checked; their problems are never errors. ``tell`` is called for work without
    progress.
    """
    journal.project()
    unnamed = journal.unnamed_store()
    if unnamed is not None:  # other problems would only follow from the settings
        return Examination(
            [Problem("error", unnamed.wrong, unnamed.path or "", mend=unnamed.mend)], dict.fromkeys(_COUNTED, 0)
        )
    with rebuilding(journal) as rebuilt:
        try:
            return _examine(journal, _Findings(rebuilt), references, read, progress, derived=derived, tell=tell)
        except sqlite3.Error as error:
            if not is_cramped(rebuilt, error):
                raise
    with closing(Index(None, "", NullIndexer(), journal.view)) as rebuilt:
        return _examine(journal, _Findings(rebuilt), references, read, progress, derived=derived, tell=tell)


def _examine(
    journal: Journal,
    found: _Findings,
    references: References,
    read: Collection[bytes],
    progress: Progress,
    *,
    derived: bool,
    tell: Callable[[str], None],
) -> Examination:
    problems: list[Problem] = []
    for lineage in journal.lineages():
        problems += _check_lineage(journal, lineage, found, references, progress)
    problems += _check_trees(journal, found)
    problems += [*_check_marks(journal), *_check_copy(journal, found)]
    problems += _check_checkpoints(journal, found)
    problems += _check_versions(found)
    problems += _check_stubs(journal, found)
    served = journal.index if found.away else found.rebuilt  # a checkpoint covers the missing records
    if found.away:
        found.versions.also(served)
    problems += _check_objects(journal, found, read, progress)
    is_whole = journal.damage is None and not any(problem.severity == "error" for problem in problems)
    live = sum(not entity.deleted for entity in served.entities())
    if derived:
        problems += _check_index(journal, found, progress, tell, is_whole=is_whole)
        problems += check_files(journal, served, live, found.versions, progress, is_whole=is_whole)
    problems += _check_surroundings(journal)
    plain = [*_check_plain(journal)]
    told = {(one.path, one.what) for one in plain}
    problems = [one for one in problems if (one.path, one.what) not in told] + plain
    problems += _check_lock(journal)
    problems = _with_damage(journal, problems)
    counts = {
        "segments": found.segments,
        "records": found.records,
        "versions": len(found.versions),
        "entities": live,
        "objects": sum(1 for _ in journal.objects.digests()),
    }
    order: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
    return Examination(sorted(problems, key=lambda problem: order[problem.severity]), counts)


def _check_beginning(
    journal: Journal, lineage: str, segments: list[int], found: _Findings, *, is_expected: bool
) -> Iterator[Problem]:
    folder, is_own = journal.layout.lineage_folder(lineage), lineage == journal.lineage
    if not segments and is_expected:
        is_stood_for = is_own and last_checkpointed_segment(journal) > 0
        yield Problem("error", "every segment is missing", folder, 0, 1, _GONE if is_stood_for else _REPAIR)
    if segments and segments[0] != 1:
        found.gaps.add(lineage)
        away = begins_at(journal, lineage)
        if away:
            found.away[lineage] = away
        yield Problem("error", f"the segments before seq {segments[0]} are missing", folder, 0, 1,
                      _REPAIR if not away else _AWAY if is_own else _AWAY_BEFORE)  # fmt: skip


def _check_lineage(
    journal: Journal, lineage: str, found: _Findings, references: References, progress: Progress
) -> Iterator[Problem]:
    reader = journal.reader(lineage)
    mark = read_durable(journal.layout.durable)
    is_marked = mark is not None and mark.lineage == lineage == journal.lineage  # a copied mark is about another file
    durable_seq = max(mark.seq if mark is not None and is_marked else 0, seen_size(journal.layout, lineage))
    noted = journal.own.left.get(lineage, 0) if journal.own is not None else 0
    durable_seq = max(durable_seq, left_behind_seq(journal.layout.durable, reader, noted) if not is_marked else 0)
    is_ours = lineage in (journal.lineage, journal.copied_from)  # all versions it names were held when it was written
    segments = reader.segments()
    yield from _check_beginning(journal, lineage, segments, found, is_expected=durable_seq > 0)
    for path in twins(reader):
        yield Problem("warning", "the segment is here and in the archive: the one here is read", path, mend=_TWIN)
    found.leaves[lineage] = bytearray()
    watermark = _watermark(journal, lineage)
    found.rebuilt.begin_write()
    try:
        for number, chunk in enumerate(reader.read_from(START, durable_seq, salvage=True)):
            progress(number, len(segments))
            found.segments += 1
            if chunk.damages:
                found.gaps.add(lineage)
                away = away_in(journal, chunk.damages) if lineage == journal.lineage else 0
                if away > found.away.get(lineage, 0):
                    found.away[lineage] = away
            away = found.away.get(lineage, 0)
            yield from _chunk_problems(chunk, away, functools.partial(_said_of, journal, lineage, chunk.segment))
            changes = []
            for entry in chunk.entries:
                change, problem = _change(journal, lineage, chunk, entry)
                if problem is not None:
                    yield problem
                if is_marked and mark is not None and entry.record.seq == mark.seq and entry.leaf.hex() != mark.leaf:
                    yield Problem("error", "the last durable record differs from the one acknowledged", chunk.path,
                                  entry.offset, entry.record.seq, _REPAIR)  # fmt: skip
                found.ends[lineage] = entry.record.seq + 1
                if change is not None:
                    if entry.record.seq >= watermark:
                        found.unindexed.add((entry.record.item_type, entry.record.item_id))
                    found.objects |= references(
                        entity_of_head(head_of(change, 0))
                    )  # of every version, since all are kept
                    found.versions.add(change.version)
                    for parent in (one for one in dict.fromkeys(change.parents) if one not in found.versions):
                        found.parents.setdefault(parent, (chunk.path, entry.record.seq, is_ours))
                    if entry.record.writer in _FROM_FILES:
                        found.before.update(change.parents)
                found.note_redaction(entry, lineage, chunk.path)
                found.note_announcement(entry.record, is_own=lineage == journal.lineage)
                if entry.record.payload_ref is not None and is_digest_text(entry.record.payload_ref.sha256):
                    found.objects.add(bytes.fromhex(entry.record.payload_ref.sha256))
                found.note_observation(entry.record)
                changes.append((entry, change))
            found.leaves[lineage] += b"".join([entry.leaf for entry in chunk.entries])
            found.records += len(changes)
            found.rebuilt.apply(changes, lineage, chunk.segment)
            found.versions.applied()
    except PeriplusError as error:
        yield Problem("error", str(error), getattr(error, "path", None) or reader.folder)
    finally:
        if found.rebuilt.db.in_transaction:  # otherwise SQLite ended it for lack of space
            found.rebuilt.commit()


def _with_damage(journal: Journal, problems: list[Problem]) -> list[Problem]:
    """Add the damage that blocks writing, if no check reported an error: records that only the index knows."""
    damage = journal.damage
    if damage is None or any(problem.severity == "error" for problem in problems):
        return problems
    mend = _REPAIR if damage.mend.startswith("Run `periplus doctor`") else damage.mend  # doctor is already running
    told = Problem("error", damage.wrong, damage.path or "", _offset_of(damage), damage.seq or 0, mend)
    return [*(one for one in problems if (one.what, one.path) != (told.what, told.path)), told]


def _offset_of(error: PeriplusError) -> int:
    """Return the byte offset in an error, −1 if it has none."""
    offset = getattr(error, "offset", None)
    return byte_in(str(error)) if offset is None else int(offset)


def _change(journal: Journal, lineage: str, chunk: Chunk, entry: Entry) -> tuple[Change | None, Problem | None]:
    try:
        return change_of(entry, lineage, chunk.segment, journal.load_object), None
    except PeriplusError as error:
        ref = entry.record.payload_ref
        where = f"object {ref.sha256[:12]}: " if ref is not None else ""
        return None, Problem("error", f"{where}{error}", chunk.path, entry.offset, entry.record.seq)


def _said_of(journal: Journal, lineage: str, segment: int, first: int, last: int) -> str:
    """Return, as text, the entities of records ``first`` to ``last`` (0: to the end) of a segment, as far as the index knows them."""
    rows = IndexRows(journal.index_path)
    try:
        found = rows.entities(lineage, segment, (first, last or rows.last(lineage)), _NAMED_MAX + 1)
    finally:
        rows.close()
    others = " and others" if len(found) > _NAMED_MAX else ""
    return f" ({', '.join(found[:_NAMED_MAX])}{others})" if found else ""


def _chunk_problems(chunk: Chunk, away: int, said_of: Callable[[int, int], str]) -> Iterator[Problem]:
    """Yield the problems of a chunk. Missing records before seq ``away`` may lie elsewhere."""
    for damage in chunk.damages:
        lost = f"records {damage.first_seq} to {damage.last_seq} cannot be read"
        if damage.first_seq == damage.last_seq:
            lost = f"record {damage.first_seq} cannot be read"
        if damage.first_seq > damage.last_seq:
            lost = f"records from {damage.first_seq} cannot be read"
        if damage.first_seq > damage.last_seq and not damage.offset:  # the header
            lost = "which records precede it is not certain"
        else:
            lost += said_of(damage.first_seq, damage.last_seq)
        yield Problem(
            "error", f"damage to acknowledged data: {damage.reason}; {lost}", chunk.path, damage.offset,
            damage.first_seq, _AWAY if is_gap(damage) and damage.last_seq < away else _REPAIR,
        )  # fmt: skip
    for offset, length in chunk.voided:
        yield Problem("note", f"{length:,} bytes of an unfinished write, voided by the next batch", chunk.path, offset)
    if chunk.tail is not None:
        yield Problem(
            "note", f"{chunk.tail.length:,} bytes of an unfinished write at the end ({chunk.tail.reason}); "
            "never acknowledged, the next write voids them", chunk.path, chunk.tail.offset,
        )  # fmt: skip


def _check_marks(journal: Journal) -> Iterator[Problem]:
    layout = journal.layout
    if not os.path.lexists(layout.durable) and journal.syncs and journal.lineage and journal.end().next_seq > 1:
        yield Problem("note", "the durable mark is missing; the records' own marks are used", layout.durable, -1, 0,
                      "The next write renews it.")  # fmt: skip
    if os.path.exists(layout.durable) and read_durable(layout.durable) is None:
        yield Problem("warning", "the durable mark is torn; the records' own marks are used", layout.durable, 0, 0,
                      "The next write renews it.")  # fmt: skip
    for lineage in journal.lineages():
        reader = journal.reader(lineage)
        for name in sorted(os.listdir(reader.folder)):
            if name.endswith(POISON_SUFFIX):
                first = segment_first_seq(name.removesuffix(POISON_SUFFIX)) or 0
                is_left = any(segment > first for segment in reader.segments())
                then = "was begun" if is_left else "is begun by the next write"
                yield Problem("note" if is_left else "warning", "a sync of this segment failed: nothing is written to it any more, a new "
                              f"one {then}", os.path.join(reader.folder, name), mend="Check the disk.")  # fmt: skip


def _check_copy(journal: Journal, found: _Findings) -> Iterator[Problem]:
    """Check a copied store against the size its original had, from the copied mark until the first write, then from the note that this
    made.
    """
    mark = read_durable(journal.layout.durable)
    had = dict(journal.own.left) if journal.own is not None else {}
    if mark is not None and mark.lineage == journal.copied_from:
        had[mark.lineage] = mark.seq
    for lineage, records in had.items():
        last = found.ends.get(lineage, 1) - 1
        is_gone = last == 0 and lineage in journal.lineages()  # all its segments, reported as missing
        if last < records and not is_gone and lineage not in found.gaps:
            yield Problem("warning", f"this copy ends with record {last:,} of {lineage}, its original had {records:,}: the copy is incomplete",
                          journal.layout.lineage_folder(lineage), -1, last + 1, _COPY)  # fmt: skip


def _check_trees(journal: Journal, found: _Findings) -> Iterator[Problem]:
    """Check tiles and heads seen against the records read, also for lineages without records."""
    from periplus.journal.proofs.heads import awaited
    from periplus.journal.proofs.tile_check import check_tree

    if journal.damage is not None:
        return  # missing records are reported already
    for lineage in sorted(found.leaves.keys() | set(awaited(journal))):
        if lineage in found.gaps and found.ends.get(lineage, 1) > seen_size(journal.layout, lineage):
            continue  # not truncated; unreadable records are reported already
        for one in check_tree(journal, lineage, found.leaves.get(lineage, b"")):
            severity: Severity = "error" if one.is_error else "warning"
            yield Problem(
                severity, one.what, one.path, one.offset, mend=one.mend if lineage in found.leaves else _REPAIR
            )


def _check_checkpoints(journal: Journal, found: _Findings) -> Iterator[Problem]:
    usable = {one.path for one in usable_checkpoints(journal, checkpoint_lineages(journal))}
    for seq, path in checkpoint_files(journal):
        if path in usable:
            continue
        if seq in found.announced:
            if _has_digest(path, found.announced[seq]):
                yield Problem("warning", f"the checkpoint at seq {seq:,} is intact and cannot be used: records that it builds on are missing",
                              path, mend="Keep it: `periplus doctor --repair` restores their content from it.") if found.gaps else Problem(
                    "note", f"the checkpoint at seq {seq:,} cannot be used: a repair moved the records that it builds on", path,
                    mend="The next one replaces it; `periplus doctor --compact` makes one now.")  # fmt: skip
                continue
            what, offset = _checkpoint_damage(journal, path)
            instead = "; the one before it is used" if usable else ""
            mend = "Remove it, then make another with `periplus doctor --compact`."
            yield Problem("warning", f"the checkpoint at seq {seq:,} is damaged: {what}{instead}", path, offset,
                          mend="Keep it until the missing records are back." if found.gaps else mend)  # fmt: skip
        elif seq in found.others:
            yield Problem("note", f"a checkpoint at seq {seq:,} of a lineage that is not written here: it is not used, this "
                          "store makes its own", path)  # fmt: skip
        elif seq >= found.away.get(journal.lineage, 0):  # otherwise its announcement is not here
            yield Problem("note", f"a checkpoint at seq {seq:,} that was never announced: it is not used", path)


def _has_digest(path: str, sha256: str) -> bool:
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _checkpoint_damage(journal: Journal, path: str) -> tuple[str, int]:
    """Return what is wrong with a checkpoint that differs from its announcement, and the offset of that line."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            for _ in decode_checkpoint(iter(lambda: file.readline(2 * LINE_BYTES_MAX), b""), journal.load_object):
                pass
    except FormatError as error:
        return error.wrong, _offset_of(error)
    except (OSError, PeriplusError) as error:
        return str(error), -1
    return "not the one that was announced", -1


def _check_versions(found: _Findings) -> Iterator[Problem]:
    for version, (path, seq, is_ours) in found.parents.items():
        if version in found.versions:
            continue
        if version in found.before:
            yield Problem("note", f"version {version[:12]} is missing: its successor was imported from a file", path, -1, seq,
                          "`periplus sync` with the place it comes from brings its history.")  # fmt: skip
        elif not is_ours:
            yield Problem("note", f"version {version[:12]}, a parent in another clone, has not arrived yet", path, -1, seq,
                          "`periplus sync` with the clone that wrote it, or with a place that has it, brings it.")  # fmt: skip
        elif not found.away:  # otherwise the missing records are reported already
            yield Problem("error", f"version {version[:12]} is a parent, but no record holds it", path, -1, seq)


def _check_stubs(journal: Journal, found: _Findings) -> Iterator[Problem]:
    stopped = {one for one in journal.lineages() if os.path.lexists(journal.layout.emptying_file(one))}
    for lineage in sorted(stopped):
        yield Problem("warning", "a sync was interrupted while it removed content redacted elsewhere: some of it may still be here",
                      journal.layout.emptying_file(lineage), mend="Repeat the sync: it continues.")  # fmt: skip
    audited = found.audited | _audited_elsewhere(journal, found)
    for key, (path, offset) in found.stubs.items():
        if key not in audited and key[0] not in stopped:
            yield Problem("error", "a record without its content that no audit record names", path, offset, key[1].seq,
                          _REPAIR)  # fmt: skip
    if not journal.index.is_past:  # otherwise a redaction is in progress
        yield from _not_taken_out(journal, found, audited - found.lost, stopped)


def _not_taken_out(
    journal: Journal, found: _Findings, audited: set[tuple[str, AuditedRecord]], stopped: set[str]
) -> Iterator[Problem]:
    """Yield redacted records that still have their content here: an older version ignored the audit record, or a redaction was interrupted."""
    stubs = {(lineage, one.seq) for lineage, one in found.stubs}
    held = {
        (lineage, one.seq)
        for lineage, one in audited
        if found.leaves.get(lineage, b"")[32 * (one.seq - 1) : 32 * one.seq] == bytes.fromhex(one.leaf)
    }
    for lineage, seq in sorted(held - stubs):
        if lineage in stopped or lineage in found.gaps:
            continue
        path = file_with_content(journal.reader(lineage), seq)
        if not path:
            continue  # redacted meanwhile
        is_own = lineage == journal.lineage
        mend = (
            "Repeat `periplus redact`." if is_own else
            "`periplus sync` with a clone that redacted it removes it here, or repeat `periplus redact`."
        )  # fmt: skip
        yield Problem("warning", "a record that was redacted still has its content here", path, -1, seq, mend)


def _audited_elsewhere(journal: Journal, found: _Findings) -> set[tuple[str, AuditedRecord]]:
    keys = {name: key_of(journal.layout, name) for name in {one.lineage for one in found.signed}}
    return {
        (one.lineage, record)
        for one in found.signed
        if verify_signature(keys[one.lineage], one.signature, one.message)
        for record in one.records
    }


def _check_objects(
    journal: Journal, found: _Findings, read: Collection[bytes], progress: Progress
) -> Iterator[Problem]:
    store = journal.objects
    gone = set(taken_out(journal)) if found.removed_objects else set[bytes]()
    wanted = found.objects - gone
    held = list(store.digests())
    for number, digest in enumerate(held):
        progress(number, len(held))
        if digest in read and store.is_in_one_file(digest):
            continue
        trouble = store.check(digest)
        if trouble is not None:
            severity: Severity = "error" if digest in wanted else "warning"
            yield Problem(severity, f"object is damaged: {trouble}", store.path_of(digest), mend=_REPAIR)
    missing = wanted - set(held)
    for digest in sorted(missing):
        yield Problem("error", "an object that a record names is missing", store.path_of(digest), mend=_REPAIR)
    # While the index is marked, a redaction is in progress and will remove them.
    for digest in sorted(gone.intersection(held)) if not journal.index.is_past else ():
        yield Problem("warning", "an object that was redacted is here again", store.path_of(digest),
                      mend="Repeat `periplus redact`: it removes it.")  # fmt: skip
    orphans = sorted(set(held) - wanted - gone - found.mentioned)
    for digest in orphans[:_ORPHANS_LISTED_MAX]:
        yield Problem("note", "an object that nothing names (left by an interrupted write)", store.path_of(digest))
    if len(orphans) > _ORPHANS_LISTED_MAX:
        yield Problem("note", f"{len(orphans) - _ORPHANS_LISTED_MAX} more objects that nothing names")


def _watermark(journal: Journal, lineage: str) -> int:
    """Return the seq of the first record that the index lacks; damage of the index is reported later."""
    import sqlite3

    try:
        mark = journal.index.watermarks().get(lineage)
    except sqlite3.Error:
        return 1
    return mark.next_seq if mark is not None else 1


def _check_index(
    journal: Journal, found: _Findings, progress: Progress, tell: Callable[[str], None], *, is_whole: bool
) -> Iterator[Problem]:
    """Check the index against the records, if these are complete; see ``care.index_check``."""
    from periplus.journal.care.index_check import check_file, check_index

    path, mend = journal.index_path, "Delete the file: the next command rebuilds it from the journal."
    if is_whole and checkpoint_files(journal):  # all records are here, so checkpoints add nothing
        mend += " If it is reported again, move `journal/checkpoints/` away with it: the journal has their content."
    if journal.index.is_past:
        yield Problem("note", "a redaction is in progress or was interrupted: the index is rebuilt after it", path,
                      mend="That process finishes it, or else the next command.")  # fmt: skip
        return
    state = check_index(journal, found.rebuilt, found.ends, found.unindexed, progress, is_whole=is_whole, tell=tell)
    for what in state.differences:
        yield Problem("warning", f"the index is damaged: {what}", path, mend=mend)
    if state.behind:
        yield Problem("note", f"the index lacks the latest changes of {state.behind} entities; readers use the "
                      "records themselves", path, mend="The next write updates it.")  # fmt: skip
    turns = journal.layout.turns
    if os.path.exists(turns) and (what := check_file(turns)):
        yield Problem("warning", f"the file of the sessions' turns is damaged: {what}", turns,
                      mend="Delete the file: the next search for turns rebuilds it from the journal.")  # fmt: skip


def _check_modes(root: str) -> Iterator[Problem]:
    """Yield one problem for all files that anybody on the machine may change."""
    paths = (os.path.join(folder, name) for folder, folders, names in os.walk(root) for name in (*folders, *names))
    open_to_all = []
    for path in (root, *paths):
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue  # removed since it was listed
        if not stat.S_ISLNK(mode) and mode & stat.S_IWOTH:
            open_to_all.append(path)
    if open_to_all:
        more = f", and {len(open_to_all) - 1:,} more" if len(open_to_all) > 1 else ""
        yield Problem(
            "warning",
            f"anybody on this machine may write to it{more}",
            open_to_all[0],
            mend=f"chmod -R o-w {shlex.quote(root)}",
        )


def _check_surroundings(journal: Journal) -> Iterator[Problem]:
    layout = journal.layout
    yield from _check_modes(layout.root)
    for path in leftovers(layout.root):
        with leftover(path) as is_left:
            if not is_left:
                continue
        yield Problem("note", "a temporary file of an interrupted write; it is not used", path)
    path = journal.index_path
    if os.path.exists(path + NEXT_SUFFIX):
        yield Problem("note", "an unfinished index, being built or left by an interrupted rebuild; it is not used",
                      path + NEXT_SUFFIX, mend="The next rebuild removes it, as by `periplus doctor --repair`.")  # fmt: skip
    for other in other_indexes(path):
        yield Problem("note", "an index of another version of periplus; this one has its own", other,
                      mend="A checkpoint removes it after 30 days without a write.")  # fmt: skip
    log = path + "-wal"
    try:
        size = os.path.getsize(log)
    except OSError:
        size = 0  # SQLite removes it when the last connection closes
    if size > _LOG_BYTES_LONG:
        yield Problem("note", f"the log of the index has {size / 1e6:,.0f} MB: a process that has the store open holds an old state of it; it "
                      "shrinks when that process ends or reads again", log)  # fmt: skip
    for name in sorted(os.listdir(layout.keys)) if os.access(layout.keys, os.R_OK) else []:
        path = os.path.join(layout.keys, name)
        if ".public" not in name and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            yield Problem("warning", "a private key that others can read", path, mend=f"chmod 600 {shlex.quote(path)}")
    kind = file_system_of(layout.root)
    if kind in NETWORK_SYSTEMS:
        yield Problem("warning", f"the store lies on a network file system ({kind}): locks may not hold between machines",
                      layout.root)  # fmt: skip
    if not is_room_for_maps(layout.root):
        yield Problem("note", f"the disk ({kind or 'of an unknown kind'}) is nearly full: index and files of entities are not updated until it "
                      "has room again, and commands on a large store take longer", layout.root, mend="Free some space.")  # fmt: skip
    if journal.copied_from:
        yield Problem("note", f"this store was copied, moved or restored: the next write begins a new lineage; {journal.copied_from} "
                      "stays as it is", layout.lineage)  # fmt: skip
    if journal.own is not None and journal.own.previous:
        yield Problem("note", f"this store was copied, moved or restored: since {journal.own.created} it writes a lineage of its own, "
                      f"before that it was {journal.own.previous}", layout.lineage)  # fmt: skip


def _check_plain(journal: Journal) -> Iterator[Problem]:
    """Check for misplaced files, and the files that are neither records nor derived from them."""
    root = journal.layout.root
    for name, what in odd_places(root):
        yield Problem("warning", what, os.path.join(root, name), mend=_REPAIR)
    found = store_ids_in(journal.layout)
    if found and found.isdisjoint(journal.stores):
        yield Problem("error", f"the settings name store {journal.store_id}, the segments {' and '.join(sorted(found))}",
                      journal.layout.config, mend=_JOIN)  # fmt: skip
    for one in PlainFiles(root, journal.stores).suspects():
        mend = _REPAIR
        if one.is_denied:
            user = user_of(os.path.join(root, one.name))
            mend = f"Run it as {user}." if user else "Check its mode."
        if one.name.startswith("cursors/"):
            reader = os.path.basename(one.name).removesuffix(".json")
            mend = f"`periplus log --reader {reader} --since-seq 0` resets it: all records count as new then."
        path = os.path.join(root, one.name)
        if path == journal.layout.lineage and not os.path.lexists(path):
            mend = _BEGINS
        yield Problem("warning", one.what, path, byte_in(one.what), mend=mend)


def _check_lock(journal: Journal) -> Iterator[Problem]:
    """Report locks held for too long, which block writing or storing of objects."""
    from periplus.base.process.locks import holder_of
    from periplus.objects.redaction_barrier import KEEPING_PATIENCE_S, door_of

    for path, what, long_s in (
        (journal.layout.lock, "the writers' lock is held by {}: nobody else can write", _LONG_HELD_S),
        (
            door_of(journal.layout.objects),
            "objects are being removed by {}: nobody else can store any",
            KEEPING_PATIENCE_S,
        ),
    ):
        holder = holder_of(path)
        if holder is not None and journal.clock.now_ms() - holder.since_ms > long_s * 1000:
            yield Problem("warning", what.format(holder.text), path, mend="Check that process; the lock ends with it.")
