"""Repair: what is derived is built anew, what was damaged is restored from wherever a copy is; nothing is deleted.

Every file that is about to change is parked first, byte for byte, under ``parked/<time>/``. Records come back by
``periplus.journal.mending``; where a record's content is lost for good, a stub keeps its place, an audit record says
so, and the entity's content is written again from a checkpoint, an entity file or the index where one of them has
just that version: the same content from the same parents is the same version, so the graph is whole again.
"""

from __future__ import annotations

__all__ = ["repair"]

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

import msgspec

from periplus.base.canonical import JSONValue, canonical, decode_canonical
from periplus.base.digests import is_digest_text
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    FormatError,
    NotFoundError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, read_plain, write_atomic
from periplus.base.locks import LOCK_PATIENCE_S
from periplus.base.tuples import NamedTuple
from periplus.journal.checkpoint import announcement_of, decode_checkpoint
from periplus.journal.checkpointing import checkpoint_files, usable_checkpoints
from periplus.journal.copies import Copies
from periplus.journal.edits import judge, read_document
from periplus.journal.incoming import Lender, References
from periplus.journal.index_file import forget_turns
from periplus.journal.index_rows import IndexRows
from periplus.journal.journal import Journal
from periplus.journal.layout import PARKED_FOLDER
from periplus.journal.lineage import START, read_durable, write_durable
from periplus.journal.mending import Known, Mended, Restored, restore_segment
from periplus.journal.partial import MISSING_FILE, Gaps
from periplus.journal.plain import seen_size
from periplus.journal.projection import FILE_BYTES_MAX, has_file, read_stamped, render_entity
from periplus.journal.reading import Progress, no_progress
from periplus.journal.record import RECORD_VERSION, Record, decode_line, version_id
from periplus.journal.removed import taken_out
from periplus.journal.rescue import store_ids_in
from periplus.journal.segment import Entry, Header, decode_header, encode_header, scan
from periplus.journal.state import Head, change_of, entity_of_head, head_of
from periplus.journal.stated import incomplete_lineages
from periplus.journal.stub import AUDIT_RECORDS_MAX, audited_record, make_stub
from periplus.journal.tiles import LineageTree
from periplus.journal.transaction import Transaction, Writer
from periplus.journal.tree_check import check_tree
from periplus.journal.writing import POISON_SUFFIX
from periplus.journal.yard import Repair, Yard, read_whole

_PLAN: Final = "lost.json"
_PLAN_BYTES_MAX: Final = 1 << 26
_HOW: Final = {
    "copy": "restored from a copy",
    "byte": "one byte mended by its checksum",
    "stub": "its content is lost, its place is kept",
    "header": "the header is written anew",
}


class _Content(msgspec.Struct):
    """What a lost record said, as something else than the record holds it; ``payload`` is canonical JSON."""

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    payload: str


class _Plan(msgspec.Struct):
    """Records whose content was lost: named in a file before their stubs are written, audited after."""

    lineage: str
    records: list[tuple[int, str, str]]
    contents: list[_Content]


def repair(
    journal: Journal,
    writer: Writer,
    *,
    sources: Sequence[str] = (),
    references: References = lambda _entity, _lend: set(),
    progress: Progress = no_progress,
) -> list[Repair]:
    """Mend what can be mended; ``sources`` are folders that may hold copies: other clones, backups, exchange folders.

    ``references`` names the objects that an entity of a layer above refers to, which it reads from here or from a copy. What keeps a store from being opened at all
    is for ``periplus.journal.rescue``, which goes before.

    Idempotent, and a stop at any moment leaves what the next call goes on with. Raises EnvironmentFailure; DamageError where
    there is no journal to repair.
    """
    _refuse_other_store(journal)
    if journal.damage is not None and not journal.lineages():
        raise journal.damage  # the journal was taken out of its store
    done: list[Repair] = []
    yard = Yard(journal.layout, journal.files, journal.clock)
    copies = Copies([journal.layout.root, *sources], journal.objects.packing)
    rows = IndexRows(journal.layout.index)
    try:
        with journal.writing():
            for lineage in journal.lineages():
                done += _restore_lineage(journal, lineage, copies, rows, yard, progress)
    finally:
        rows.close()
    done += _restore_objects(journal, copies, yard, references, progress)
    done += _restore_checkpoints(journal, copies, yard)
    done += _tidy(journal, yard)
    if done or journal.damage is None:  # what is lost for good may be in the index only
        journal.damage = None
        journal.renew_derived()
    done += _park_statements(journal, yard)
    if journal.damage is None:
        done += _audit_lost(journal, writer)
        done += _renew_mark(journal)
        done += _renew_tiles(journal)
        done += _renew_files(journal, yard)
    return [*done, *_forget_turns(journal)]


def _forget_turns(journal: Journal) -> Iterator[Repair]:
    """A damaged file of the sessions' turns: who looks for turns next makes it anew from the journal."""
    from periplus.journal.index_check import check_file

    path = journal.layout.turns
    if os.path.exists(path) and check_file(path):
        forget_turns(path, journal.files)
        yield Repair(
            "the damaged file of the sessions' turns was taken away: it is made anew when somebody looks for one", path
        )


def _refuse_other_store(journal: Journal) -> None:
    """Headers are written anew with the store's id: not with one that none of them has."""
    found = store_ids_in(journal.layout)
    if found and found.isdisjoint(journal.stores):
        raise DamageError(
            f"the settings name store {journal.store_id}, the segments {' and '.join(sorted(found))}",
            path=journal.layout.config,
            safe="Nothing was changed.",
            mend="Restore the config.toml that this store was made with.",
        )


# -- records ---------------------------------------------------------------------------------------------------------


def _restore_lineage(
    journal: Journal, lineage: str, copies: Copies, rows: IndexRows, yard: Yard, progress: Progress
) -> Iterator[Repair]:
    reader = journal.reader(lineage)
    durable = _known_last(journal, lineage)
    known_segments = rows.segments(lineage) | copies.segments(lineage)
    present = set(reader.segments())
    segments = sorted(present | {first for first in known_segments if first <= max(durable, rows.last(lineage))})
    before: str | None = ""  # the sum that the next header names; None where it is not known
    audited = copies.audited(lineage)
    lend = _lender(journal, copies)

    def load(sha256: str) -> bytes:
        return lend(bytes.fromhex(sha256))

    for number, first in enumerate(segments):
        progress(number, len(segments))
        following = segments[number + 1] if number + 1 < len(segments) else 0
        path = reader.path_of(first)
        data = read_whole(path, around=True)
        header = encode_header(
            Header(RECORD_VERSION, RECORD_VERSION, journal.store_of(lineage), lineage, first, before or "")
        )
        last = following - 1 if following else max(durable, rows.last(lineage), first - 1)
        look = _look(data, header if before is not None else b"", first, last)
        if look.is_damaged:
            restored = restore_segment(
                data or b"",
                first=first,
                last=last if following else max(last, look.last),
                header=header,
                known=lambda seq: rows.get(lineage, seq),
                copy_of=lambda seq: _copied(lineage, seq, copies, audited, load),
                allow_stubs=lineage == journal.lineage,
            )
            if restored.mended:
                plan = _plan(journal, lineage, restored.mended, rows)
                yield from _write_restored(journal, path, data, restored, plan, yard)
            look = _look(restored.data, b"", first, last)
        before = look.sum if look.last == last or not following else None


def _copied(
    lineage: str, seq: int, copies: Copies, audited: Mapping[int, Collection[str]], load: Callable[[str], bytes]
) -> bytes | None:
    """The record's line as a copy has it; of a record that was redacted its stub, made of the line where that is all there is."""
    stubs = audited.get(seq)
    if not stubs:
        return copies.line(lineage, seq)
    for line in copies.lines(lineage, seq):
        record, leaf = decode_line(line)
        stub = line if record.is_stub else _stub_again(line, record, leaf, lineage, load)
        if stub and audited_record(stub, leaf, seq).stub in stubs:
            return stub
    return None


def _stub_again(line: bytes, record: Record, leaf: bytes, lineage: str, load: Callable[[str], bytes]) -> bytes:
    """The stub that a redaction made of the line; empty where its payload is gone: nobody can say which version it was."""
    try:
        change = change_of(Entry(record, 0, len(line) + 1, leaf), lineage, 0, load)
    except PeriplusError:
        return b""
    return make_stub(line, leaf, change.version if change is not None else "")[:-1]


def _park_statements(journal: Journal, yard: Yard) -> Iterator[Repair]:
    """What a store that was made of the rest of another remembers to be missing, once none of it is."""
    for lineage in incomplete_lineages(journal):
        gaps = Gaps(journal.layout, journal.reader(lineage), _known_last(journal, lineage))
        for chunk in journal.reader(lineage).read_from(START, salvage=True):
            gaps.take(chunk)
        if not gaps.end():
            path = os.path.join(journal.layout.lineage_folder(lineage), MISSING_FILE)
            yard.move(path)
            yield Repair("no record is missing any more: what said so is parked", path)


def _known_last(journal: Journal, lineage: str) -> int:
    """The last record that must be there, as far as anything but the records says so."""
    mark = read_durable(journal.layout.durable)
    marked = mark.seq if mark is not None and mark.lineage == lineage else 0
    return max(marked, seen_size(journal.layout, lineage))


class _Look(NamedTuple):
    """What a segment looks like: its last sound seq, and the sum of that record (or of the header)."""

    is_damaged: bool
    last: int
    sum: str


def _look(data: bytes | None, header: bytes, first: int, last: int) -> _Look:
    """``last`` is the seq that the segment should reach; ``header`` what it should begin with, empty where unknown."""
    if data is None:
        return _Look(True, 0, "")
    try:
        found, start = decode_header(data)
    except FormatError:
        start = data.find(b"\n") + 1
        found = None
    read = scan(data[start:], base=start, next_seq=first, durable_seq=last, salvage=True)
    entries = [entry for entry in read.entries if entry.record.seq <= last] if last >= first else read.entries
    reached = entries[-1].record.seq if entries else first - 1
    is_damaged = found is None or not data.startswith(header) or bool(read.damages) or reached < last
    end = entries[-1].leaf[:8].hex() if entries else data[start - 19 : start - 3].decode("ascii", "replace")
    return _Look(is_damaged, reached, end)


def _write_restored(
    journal: Journal, path: str, old: bytes | None, restored: Restored, plan: _Plan, yard: Yard
) -> Iterator[Repair]:
    if old is not None:
        yard.park(path)
    if plan.records:
        yard.write(_PLAN, msgspec.json.encode(plan))
    write_atomic(journal.files, path, restored.data)
    for one in restored.mended:
        yield Repair(_HOW[one.how], path, one.seq)


def _plan(journal: Journal, lineage: str, mended: Iterable[Mended], rows: IndexRows) -> _Plan:
    plan = _Plan(lineage, [], [])
    lost: dict[str, Known] = {}
    for one in mended:
        if one.how == "stub":
            plan.records.append(audited_record(one.line, one.leaf, one.seq))
            row = rows.get(lineage, one.seq)
            if row is not None and row.version and row.action != "delete":
                lost[row.version] = row
    kept = _payloads_in_checkpoints(journal, lost.keys()) if lost else {}
    for version, row in lost.items():
        for payload in (rows.payload(version), _payload_in_file(journal, row), kept.get(version, b"")):
            if payload and version == version_id(
                row.item_type, row.item_id, deleted=False, payload=payload, parents=row.parents
            ):
                plan.contents.append(_Content(row.item_type, row.item_id, version, row.parents, payload.decode()))
                break
    return plan


def _payloads_in_checkpoints(journal: Journal, versions: Collection[str]) -> dict[str, bytes]:
    """What checkpoints hold of ``versions``, announced or not: whether it is that version its id tells."""
    found: dict[str, bytes] = {}
    for _, path in checkpoint_files(journal):
        try:
            with open(path, "rb") as file:
                for line in decode_checkpoint(file, journal.load_object):
                    if isinstance(line, Head) and line.version in versions:
                        found[line.version] = line.payload
        except (OSError, PeriplusError):
            continue  # what came before the damage is kept
    return found


def _payload_in_file(journal: Journal, row: Known) -> bytes:
    """What the entity's file says, if it can be read; whether it is the version wanted its id tells."""
    import json

    if not has_file(journal.types, row.item_type, row.item_id):
        return b""
    try:
        document = json.loads(read_plain(journal.layout.entity_file(row.item_type, row.item_id), FILE_BYTES_MAX))
        return canonical(document["entity"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError, UsageError):
        return b""


# -- what was lost ---------------------------------------------------------------------------------------------------


def _audit_lost(journal: Journal, writer: Writer) -> Iterator[Repair]:
    """Audit the stubs of this repair and of those that were stopped; then write the lost content that something holds."""
    for path, plan in _plans(journal):
        if plan.lineage == journal.lineage and journal.damage is None:
            parts = [plan.records[at : at + AUDIT_RECORDS_MAX] for at in range(0, len(plan.records), AUDIT_RECORDS_MAX)]

            def write(transaction: Transaction, parts: list[list[tuple[int, str, str]]] = parts) -> None:
                for part in parts:
                    payload: dict[str, JSONValue] = {
                        "lineage": journal.lineage,
                        "objects": [],
                        "reason": "lost to damage",
                        "records": [list(one) for one in part],
                    }
                    transaction.meta(
                        "redact", payload, summary=f"{len(part)} record{'s' if len(part) != 1 else ''} lost to damage"
                    )

            journal.mutate(write, writer)
            yield from _write_contents(journal, writer, plan)
            journal.files.replace(path, path.removesuffix(".json") + ".audited.json")
            yield Repair(
                f"{len(plan.records)} record{'s' if len(plan.records) != 1 else ''} whose content is lost: written down as such",
                path,
            )


def _write_contents(journal: Journal, writer: Writer, plan: _Plan) -> Iterator[Repair]:
    """The lost content once more: a version of the same content from the same parents is the same version."""
    for content in plan.contents:
        if content.item_type not in journal.types:
            continue
        value = decode_canonical(content.payload.encode())
        assert isinstance(value, dict)

        def write(transaction: Transaction, content: _Content = content, value: dict[str, JSONValue] = value) -> None:
            transaction.place(
                "import", content.item_type, content.item_id, value, content.parents, summary="restored after damage"
            )

        receipt = journal.mutate(write, writer, key=f"restore {content.version}")
        if not receipt.repeated:
            yield Repair("the content of a lost record is written again", "", receipt.first_seq)


def _plans(journal: Journal) -> list[tuple[str, _Plan]]:
    yard = os.path.join(journal.layout.root, PARKED_FOLDER)
    found = []
    for folder in sorted(os.listdir(yard)) if os.path.isdir(yard) else []:
        for name in sorted(os.listdir(os.path.join(yard, folder))):
            if name.startswith("lost") and name.endswith(".json") and not name.endswith(".audited.json"):
                path = os.path.join(yard, folder, name)
                try:
                    found.append((path, msgspec.json.decode(read_plain(path, _PLAN_BYTES_MAX), type=_Plan)))
                except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                    continue  # its stubs were never written: the file comes first, whole
    return found


# -- objects and the rest ----------------------------------------------------------------------------------------------


def _restore_objects(
    journal: Journal, copies: Copies, yard: Yard, references: References, progress: Progress
) -> Iterator[Repair]:
    looked_at: set[bytes] = set()
    lend = _lender(journal, copies)
    removed = taken_out(journal)
    for wanted in chain([set(journal.objects.digests())], _named_objects(journal, references, lend)):
        for number, digest in enumerate(sorted(wanted - looked_at)):
            progress(number, len(wanted))
            if journal.objects.check(digest) is None or (digest in removed and not journal.objects.has(digest)):
                continue
            data, how = copies.object(digest), "restored from a copy"
            if data is None:
                data, how = journal.objects.mended(digest), "mended: one byte of its file had changed"
            if data is None:
                continue
            path = journal.objects.path_of(digest)
            if os.path.exists(path):
                yard.park(path)
            journal.objects.put(data)
            yield Repair(f"the object is {how}", path)
        looked_at |= wanted


def _restore_checkpoints(journal: Journal, copies: Copies, yard: Yard) -> Iterator[Repair]:
    """A checkpoint that is not what was announced gives way; a copy's takes its place, if it is."""
    usable = {one.path for one in usable_checkpoints(journal)}
    announced = {}
    for _, entry in _readable(journal, journal.lineage) if journal.lineage else ():
        found = announcement_of(entry.record)
        if found is not None:
            announced[found.seq] = found.sha256
    for seq, path in checkpoint_files(journal):
        if path in usable or seq not in announced:
            continue
        yard.move(path)
        data = copies.checkpoint(os.path.basename(path), announced[seq])
        if data is not None:
            write_atomic(journal.files, path, data)
        yield Repair(f"the checkpoint is {'restored from a copy' if data is not None else 'parked'}", path)


def _lender(journal: Journal, copies: Copies) -> Lender:
    def lend(digest: bytes) -> bytes:
        try:
            return journal.objects.get(digest)
        except (NotFoundError, DamageError):
            data = copies.object(digest)
            if data is None:
                raise
            return data

    return lend


def _named_objects(journal: Journal, references: References, lend: Lender) -> Iterator[set[bytes]]:
    """The objects that records name as their payload; then those that entities name, for which these must be there."""
    yield _payloads_named(journal)
    found: set[bytes] = set()
    for lineage in journal.lineages():
        for segment, entry in _readable(journal, lineage):
            try:
                change = change_of(entry, lineage, segment, journal.load_object)
                if change is not None:
                    found |= references(entity_of_head(head_of(change, 0)), lend)
            except PeriplusError:
                continue  # its payload is nowhere: doctor names it
    yield found


def _payloads_named(journal: Journal) -> set[bytes]:
    refs = [entry.record.payload_ref for lineage in journal.lineages() for _, entry in _readable(journal, lineage)]
    return {bytes.fromhex(ref.sha256) for ref in refs if ref is not None and is_digest_text(ref.sha256)}


def _readable(journal: Journal, lineage: str) -> Iterator[tuple[int, Entry]]:
    try:
        yield from journal.entries(lineage, salvage=True)
    except PeriplusError:
        return  # what cannot be read names nothing; it was told of before


# -- what is derived -----------------------------------------------------------------------------------------------------


def _renew_mark(journal: Journal) -> Iterator[Repair]:
    """Where the durable mark is gone or torn: sync what is there, and state it."""
    path, end = journal.layout.durable, journal.end()
    if not journal.lineage or not journal.syncs or end.next_seq == 1:
        return
    mark = read_durable(path)
    if mark is None or mark.lineage != journal.lineage:
        segment = journal.reader(journal.lineage).path_of(end.segment)
        leaf = journal.reader(journal.lineage).leaf_at(end)
        if not leaf or os.path.exists(segment + POISON_SUFFIX):
            return  # nothing since the last roll; or a sync failed, and what the system says since is not to be believed
        try:
            with journal.writing(), _opened(journal.files, segment, os.O_RDWR) as fd:
                journal.files.sync_data(fd)
                with _opened(journal.files, path, os.O_WRONLY | os.O_CREAT) as mark_fd:
                    write_durable(journal.files, mark_fd, journal.lineage, end, leaf)
        except OSError as error:
            raise environment_failure(error, "sync", segment) from error
        yield Repair("the durable mark is written anew", path)


@contextmanager
def _opened(files: Files, path: str, flags: int) -> Iterator[int]:
    fd = files.open(path, flags)
    try:
        yield fd
    finally:
        files.close(fd)


def _renew_tiles(journal: Journal) -> Iterator[Repair]:
    for lineage in journal.lineages():
        folder = journal.layout.tree_folder(lineage)
        if not os.path.isdir(folder):
            continue
        leaves = b"".join([entry.leaf for _, entry in _readable(journal, lineage)])
        wrong = [one for one in check_tree(journal, lineage, leaves) if os.path.dirname(one.path) == folder]
        if not wrong or any(one.is_error for one in wrong):
            continue  # with an error it is the records that are wrong
        for name in sorted(os.listdir(folder)):
            journal.files.unlink(os.path.join(folder, name))
        LineageTree(journal, lineage).refresh(at_least=journal.end(lineage).next_seq - 1)
        yield Repair("the tiles are made anew from the records", folder)


def _renew_files(journal: Journal, yard: Yard) -> Iterator[Repair]:
    """Entity files that nobody can read give way; what is missing then is written like all that is derived."""
    rewrite = []
    for entity in journal.entities():
        key = (entity.item_type, entity.item_id)
        if not has_file(journal.types, *key):
            continue
        path = journal.layout.entity_file(*key)
        try:
            data = read_stamped(path)[0]
        except FileNotFoundError:
            rewrite.append(key)
            continue
        except OSError:
            continue  # what is no file gave way already; what may not be read is told by doctor
        if data == render_entity(entity):
            continue
        if judge(journal, *key, data).kind == "left" and not _is_document(data, *key):
            yard.move(path)
            yield Repair("an entity file that cannot be read is parked and written anew", path)
        rewrite.append(key)
    if rewrite:
        journal.project(patience_s=LOCK_PATIENCE_S, rewrite=rewrite)


def _is_document(data: bytes, item_type: str, item_id: str) -> bool:
    try:
        read_document(data, item_type, item_id)
    except FormatError:
        return False
    return True


def _tidy(journal: Journal, yard: Yard) -> Iterator[Repair]:
    layout = journal.layout
    with journal.writing():
        for folder, folders, names in os.walk(layout.root):
            if folder == layout.root and PARKED_FOLDER in folders:
                folders.remove(PARKED_FOLDER)
            for name in sorted(names):
                if name.endswith(TEMPORARY_SUFFIX):
                    path = os.path.join(folder, name)
                    try:
                        yard.move(path)
                    except EnvironmentFailure as error:
                        if not isinstance(error.__cause__, FileNotFoundError):
                            raise
                        continue  # it was of a write that has ended since it was listed
                    yield Repair("a temporary file of a write that did not end is parked", path)
    for name in sorted(os.listdir(layout.keys)) if os.path.isdir(layout.keys) else []:
        path = os.path.join(layout.keys, name)
        if ".public" not in name and os.stat(path).st_mode & 0o077:
            os.chmod(path, 0o600)
            yield Repair("a private key is for its owner only again", path)
