"""Redaction: removal of a secret from the store. Seqs, versions, tree and proofs stay as they are.

The order makes every interruption harmless, and the same call continues an interrupted one:

1. entities that contain the secret now get a version without it, so that their other content is kept. If an entity has several heads, each
   head with the secret gets one, and they stay concurrent as before;
2. an audit record names each record whose content will be removed, with writer and reason; it is durable before anything is removed;
3. the newest segment is rolled, so that no other process has a file open for writing that is about to be replaced;
4. each segment, live or archived, is rewritten with stubs (``periplus.journal.records.stub``) under its old name;
   bytes without effect (interrupted writes, parked segments) are overwritten if they hold the secret;
5. objects that hold it are removed, and checkpoints and index are made anew, the index beside the old one, which others use meanwhile
   (``periplus.journal.index.rebuild``);
6. everything in the store is searched once more, and places that still hold the secret are reported.

Only lineages that this store wrote are rewritten: its own, and those that it left (copied, moved, restored, or in a fork that gave way) and
still has the key of. For a left lineage, a record of our own states what was removed, signed with that lineage's key
(``periplus.journal.recovery.signed_audits``). Copies in other clones and in git's history are listed, not touched.
"""

from __future__ import annotations

__all__ = [
    "REASON_CHARACTERS_MAX",
    "Redaction",
    "Remaining",
    "Target",
    "files_below",
    "redact",
    "segment_again",
]

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Final

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import (
    ConflictError,
    DamageError,
    LockTimeoutError,
    NotFoundError,
    PeriplusError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.journal.care.text_removal import Needle
from periplus.journal.checkpoints.checkpoint_files import PATIENCE_S, remove_checkpoints
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.checkpoints.offline_archive import check_all_here
from periplus.journal.index.rebuild import renewing
from periplus.journal.journal import Journal
from periplus.journal.records.record import Record
from periplus.journal.records.segment import Entry, decode_header, scan, segment_first_seq
from periplus.journal.records.stub import (
    AUDIT_RECORDS_MAX,
    AuditedRecord,
    SignedAudit,
    audit_message,
    audited_by,
    audited_record,
    lost_by,
    make_stub,
    signed_audit,
)
from periplus.journal.recovery.removed_content import TakenOut, removed_objects
from periplus.journal.recovery.segment_restoration import PREPARED_MAX
from periplus.journal.recovery.signed_audits import audits_elsewhere, key_of, segments_of_readers
from periplus.journal.state.entity import Entity, change_of, entity_of_head
from periplus.journal.state.transaction import Said, Transaction, Writer
from periplus.journal.storage.keys import is_left_with_key, sign_as_left
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, START, Chunk, LineageReader
from periplus.journal.storage.progress import Progress, no_progress
from periplus.objects.object_forms import digits_of, is_packed
from periplus.objects.store import ObjectStore

REASON_CHARACTERS_MAX: Final = 500


class Target(NamedTuple):
    """A record whose content is or was removed."""

    lineage: str
    seq: int
    action: str
    item_type: str
    item_id: str


_LEFT: Final = "Written here before this store was copied, moved, restored or gave way in a fork, and the key to redact it with is not here:"


_KEPT: Final = "It is in a part that a redacted record keeps: an id, a field of a later version, or the rest of an earlier redaction. It cannot be taken out."


_TRIES_MAX: Final = 4
_UNFINISHED: Final = (
    "The redaction is recorded in the journal, and no entity holds the text any more; some files still do."
)
_AGAIN: Final = "Somebody wrote it meanwhile: repeat the same command."


class Remaining(NamedTuple):
    """A place where the secret still is, and advice to a person."""

    where: str
    mend: str


class Redaction(NamedTuple):
    """The result of a redaction, or with ``dry_run`` its plan."""

    records: list[Target]
    entities: list[tuple[str, str]]
    objects: list[bytes]
    remaining: list[Remaining]


class _Cleaned(NamedTuple):
    """The content of an entity without the secret, replacing all its ``heads``, or only ``head`` if there are several."""

    item_type: str
    item_id: str
    value: dict[str, JSONValue]
    heads: tuple[str, ...]
    head: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.item_type, self.item_id


class _Found(NamedTuple):
    lineage: str
    entry: Entry
    segment: int
    version: str
    audited: AuditedRecord  # its entry in an audit record
    is_audited: bool


class _Plan(NamedTuple):
    """Objects, records and entities that hold the secret. ``left`` are the left lineages that can be redacted."""

    objects: frozenset[bytes]
    found: list[_Found]
    left: list[str]
    entities: list[_Cleaned]


def redact(
    journal: Journal,
    writer: Writer,
    *,
    secret: str = "",
    seqs: Sequence[int] = (),
    reason: str,
    dry_run: bool = False,
    rewrite: Callable[[Entity, frozenset[bytes]], dict[str, JSONValue] | None] = lambda _entity, _objects: None,
    renewed: Mapping[bytes, bytes] = MappingProxyType({}),
    progress: Progress = no_progress,
) -> Redaction:
    """Remove ``secret``, or the content of our own records ``seqs``, from the store; see the module's docstring.

    ``rewrite(entity, objects)`` returns the new payload of an entity of a layer above that depends on objects with the secret, or None. It
    may add replaced objects to ``renewed`` by their digests; the audit record passes this on to other clones. An entity with several heads
    is passed head by head. Raises UsageError for a text that is too short or a reason that repeats it, NotFoundError for a missing seq,
    RefusedError if a record to be redacted is an entity's present version.
    """
    needle = Needle(secret) if secret else None
    _check(journal, needle, seqs, reason)
    journal.project(patience_s=5.0)
    check_all_here(journal.layout, journal.stores)
    for _ in range(_TRIES_MAX):
        plan = _planned(journal, needle, seqs, rewrite, progress)
        targets = [_target(one) for one in plan.found]
        keys = list(dict.fromkeys(one.key for one in plan.entities))
        if dry_run:
            planned = _rewritten(journal, plan.left, keys)
            remaining = _elsewhere(journal, needle, plan.objects, planned)
            return Redaction(targets, keys, sorted(plan.objects), remaining)
        if journal.copied_from and (plan.found or plan.objects):
            journal.roll()  # begins a new lineage, for the audit record about the one before
        if not plan.entities or _clean(journal, writer, plan.entities):
            break
    else:
        raise ConflictError("the entities that hold it were changed by others at each attempt",
                            safe="Nothing was removed.", mend="Repeat the command.")  # fmt: skip
    doomed = plan.objects | _payloads([one.entry for one in plan.found]) | _removed_before(plan.found)
    if doomed:
        doomed -= _named_objects(journal, plan.found)
    _audit(journal, writer, [one for one in plan.found if not one.is_audited], doomed, renewed, reason)
    with renewing(journal):  # the index holds positions and content of records
        is_past = (
            bool(plan.found or plan.objects or plan.entities) or needle is None or _is_in_checkpoints(journal, needle)
        )
        try:
            had_checkpoints = _take_out(journal, plan.found, plan.left, needle, progress, is_past=is_past)
        except LockTimeoutError as error:
            error.safe, error.mend = _UNFINISHED, "Repeat the same command when that process is done."
            raise
    if had_checkpoints:
        try:
            make_checkpoint(journal, writer, progress, patience_s=PATIENCE_S)
        except LockTimeoutError:
            pass  # another process is making one, without the removed content
    return Redaction(targets, keys, sorted(plan.objects), _elsewhere(journal, needle, frozenset()))


def _planned(
    journal: Journal, needle: Needle | None, seqs: Sequence[int],
    rewrite: Callable[[Entity, frozenset[bytes]], dict[str, JSONValue] | None], progress: Progress,
) -> _Plan:  # fmt: skip
    journal.refresh()
    objects = frozenset(_objects_with(journal, needle, progress)) if needle is not None else frozenset[bytes]()
    lost: list[_Found] = []
    found = _find(journal, journal.lineage, needle, seqs, objects, progress, lost) if journal.lineage else []
    missing = set(seqs) - {one.entry.record.seq for one in found}
    if missing:
        last = journal.durable_seq
        raise NotFoundError(
            f"there is no record {min(missing)}; this clone wrote 1 to {last}", mend="See `periplus log`."
        )
    left = _left_with_keys(journal)
    if needle is not None:
        for lineage in left:
            found += _find(journal, lineage, needle, (), objects, progress, lost)
    versions = {one.version for one in found} - {""}
    named = {(one.lineage, one.entry.record.seq) for one in found}  # other clones may still have the lost content
    found += [one for one in lost if one.version in versions and (one.lineage, one.entry.record.seq) not in named]
    return _Plan(objects, found, left, _entities_to_clean(journal, needle, objects, found, rewrite))


def _check(journal: Journal, needle: Needle | None, seqs: Sequence[int], reason: str) -> None:
    if needle is None and not seqs:
        raise UsageError("nothing to redact: neither a text nor a record is named", safe="Nothing was changed.")
    if not reason.strip() or len(reason) > REASON_CHARACTERS_MAX:
        raise UsageError(
            f"a redaction is recorded with its reason, of 1 to {REASON_CHARACTERS_MAX} characters",
            safe="Nothing was changed.",
        )
    if journal.check_said is not None:
        journal.check_said(Said("summary", reason, "redact"))
    canonical(reason)  # raises early if it could not be stored
    if needle is not None and needle.text in reason:
        raise UsageError("the reason repeats the secret, and it stays in the journal", safe="Nothing was changed.")
    journal.refresh()
    if journal.damage is not None:
        raise journal.damage
    if not journal.lineage and not journal.copied_from:
        raise NotFoundError("this clone has written nothing yet", safe="Nothing was changed.")


def _left_with_keys(journal: Journal) -> list[str]:
    """Return the lineages written here before whose key is here, so that they can be redacted."""
    left = dict.fromkeys((*journal.own.left, journal.own.previous) if journal.own is not None else ())
    if journal.copied_from:
        left[journal.copied_from] = None
    held = journal.lineages()
    return [one for one in left if one in held and is_left_with_key(journal.layout, one)]


def _target(one: _Found) -> Target:
    record = one.entry.record
    return Target(one.lineage, record.seq, record.action, record.item_type, record.item_id)


# -- finding ---------------------------------------------------------------------------------------------------------


def _objects_with(journal: Journal, needle: Needle, progress: Progress) -> Iterator[bytes]:
    held = list(journal.objects.digests())
    for number, digest in enumerate(held):
        progress(number, len(held))
        try:
            if needle.is_in(journal.objects.get(digest)):
                yield digest
        except PeriplusError:
            continue  # damaged and unreadable; doctor reports it


def _find(
    journal: Journal,
    lineage: str,
    needle: Needle | None,
    seqs: Sequence[int],
    objects: frozenset[bytes],
    progress: Progress,
    lost: list[_Found],
) -> list[_Found]:
    """Return the records of ``lineage`` that hold the secret; ``lost`` gets its stubs of records lost to damage."""
    wanted = set(seqs)
    stubs: list[_Found] = []
    given_up: set[AuditedRecord] = set()
    found: list[_Found] = []
    audited: set[AuditedRecord] = set()
    reader = journal.reader(lineage)
    segments = len(reader.segments())
    for number, chunk in enumerate(reader.read_from(START, salvage=True)):
        progress(number, segments)
        data = segment_again(reader, chunk)
        is_here = needle is not None and needle.is_in(data)
        for entry in chunk.entries:
            record = entry.record
            (given_up if lost_by(record, lineage) else audited).update(audited_by(record, lineage))
            if record.is_stub:
                stub = data[entry.offset : entry.offset + entry.length - 1]
                audit = audited_record(stub, entry.leaf, record.seq)
                stubs.append(_Found(lineage, entry, chunk.segment, record.version, audit, is_audited=False))
            ref = record.payload_ref
            holds = (
                record.seq in wanted
                or (ref is not None and is_digest_text(ref.sha256) and bytes.fromhex(ref.sha256) in objects)
                or (is_here and needle is not None and needle.is_in(data[entry.offset : entry.offset + entry.length]))
            )
            if holds and not (record.is_stub and record.seq not in wanted):
                change = change_of(entry, lineage, chunk.segment, journal.load_object)
                version = change.version if change is not None else ""
                line = data[entry.offset : entry.offset + entry.length - 1]
                stub = line if record.is_stub else make_stub(line, entry.leaf, version, _masking(needle))[:-1]
                audit = audited_record(stub, entry.leaf, record.seq)
                found.append(_Found(lineage, entry, chunk.segment, version, audit, is_audited=False))
    if (found or stubs) and lineage != journal.lineage:
        held = segments_of_readers(journal.lineages(), journal.reader)
        audited |= audits_elsewhere(held, lineage, key_of(journal.layout, lineage))
    lost_places = {(one.seq, one.leaf) for one in given_up} - {(one.seq, one.leaf) for one in audited}
    lost += [one for one in stubs if (one.audited.seq, one.audited.leaf) in lost_places]
    return [one._replace(is_audited=one.audited in audited) for one in found]


def segment_again(reader: LineageReader, chunk: Chunk) -> bytes:
    """Return the bytes of a segment that was just read; it may have moved to the archive since."""
    try:
        return read_plain(chunk.path, SEGMENT_READ_MAX)
    except FileNotFoundError:
        pass
    path = reader.path_of(chunk.segment)
    try:
        return read_plain(path, SEGMENT_READ_MAX)
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _masking(needle: Needle | None) -> Callable[[str], str]:
    return needle.masked_text if needle is not None else str


def _entities_to_clean(
    journal: Journal, needle: Needle | None, objects: frozenset[bytes], found: Iterable[_Found],
    rewrite: Callable[[Entity, frozenset[bytes]], dict[str, JSONValue] | None],
) -> list[_Cleaned]:  # fmt: skip
    versions = {one.version: one.entry.record for one in found if one.version}
    result = []
    for entity in journal.entities():
        named = [versions[version] for version in entity.heads if version in versions]
        heads = [entity]
        if len(entity.heads) > 1:  # the merged view differs from the heads
            held = journal.heads_of(entity.item_type, entity.item_id)
            heads = [entity_of_head(head) for head in held if not head.deleted]
        for one in heads:
            told = rewrite(one, objects)
            holds = needle is not None and needle.is_in(one.payload)
            if told is None and not holds and not (named and one is entity):
                continue
            if needle is None and named and told is None:
                raise _refused_now(entity, named[0])
            value: JSONValue = told if told is not None else one.value
            value = needle.masked(value) if needle is not None else value
            assert isinstance(value, dict)
            if needle is not None and needle.is_in(canonical(value)):
                raise RefusedError(
                    f"{entity.item_type} {entity.item_id} would still hold the text when masked",
                    safe="Nothing was changed.",
                    mend="Write a version of it without the text, then repeat the command.",
                )
            result.append(_Cleaned(*_key(entity), value, entity.heads, "" if one is entity else one.version))
        if needle is None and named and len(entity.heads) > 1:
            raise _refused_now(entity, named[0])
    return result


def _key(entity: Entity) -> tuple[str, str]:
    return entity.item_type, entity.item_id


def _refused_now(entity: Entity, record: Record) -> RefusedError:
    return RefusedError(
        f"record {record.seq} is the present version of {entity.item_type} {entity.item_id}",
        safe="Nothing was changed.",
        mend="Name the secret instead: the rest of the entity is kept. Or first undo the record (`periplus undo --seq SEQ`).",
    )


def _named_objects(journal: Journal, found: Iterable[_Found]) -> set[bytes]:
    """Return the payload objects of all records but those ``found``."""
    targets = {(one.lineage, one.entry.record.seq) for one in found}
    return _payloads(
        entry
        for lineage in journal.lineages()
        for _, entry in journal.entries(lineage, salvage=True)
        if (lineage, entry.record.seq) not in targets
    )


def _removed_before(found: Iterable[_Found]) -> set[bytes]:
    """Return the objects that audit records among ``found`` name as removed."""
    return {digest for one in found for digest in removed_objects(one.entry, one.lineage)}


def _payloads(entries: Iterable[Entry]) -> set[bytes]:
    refs = (entry.record.payload_ref for entry in entries)
    return {bytes.fromhex(ref.sha256) for ref in refs if ref is not None and is_digest_text(ref.sha256)}


def _is_in_checkpoints(journal: Journal, needle: Needle) -> bool:
    """Return True if a checkpoint or a temporary file of one may hold it though no record does, as after an interrupted call."""
    folder = journal.layout.checkpoints
    paths = files_below(folder) if os.path.isdir(folder) else ()
    return any(not os.access(path, os.R_OK) or needle.is_in_file(path) for path in paths)


def _take_out(
    journal: Journal, found: list[_Found], left: Iterable[str], needle: Needle | None, progress: Progress, *, is_past: bool
) -> bool:  # fmt: skip
    """Rewrite or remove everything that holds the secret; return True if there were checkpoints, which are removed if ``is_past``."""
    had_checkpoints = False
    if found or needle is not None:
        had_checkpoints = is_past and remove_checkpoints(journal.layout, journal.files)
        if journal.lineage:
            journal.roll()
        for lineage in filter(None, (journal.lineage, *left)):
            of_it = {one.entry.record.seq: one for one in found if one.lineage == lineage}
            _rewrite_segments(journal, lineage, of_it, needle, progress)
    gone = TakenOut(journal)
    gone.remove(sorted(gone.now()), journal.objects, journal.writing)  # including those of an interrupted call
    if had_checkpoints:  # one may have been made while segments were rewritten
        remove_checkpoints(journal.layout, journal.files)
    return had_checkpoints


# -- changing --------------------------------------------------------------------------------------------------------


def _clean(journal: Journal, writer: Writer, entities: Iterable[_Cleaned]) -> bool:
    """Write the entities without the secret; return False and write nothing if one was changed meanwhile, so that the change is kept."""
    is_another = False

    def write(transaction: Transaction) -> None:
        nonlocal is_another
        for one in entities:
            held = transaction.get(*one.key)
            is_another |= not one.head and (held is None or {*held.heads} != {*one.heads})
        for one in entities if not is_another else ():
            if one.head:
                transaction.place("update", *one.key, one.value, (one.head,), summary="content redacted")
            else:
                transaction.put(*one.key, one.value, summary="content redacted")

    journal.mutate(write, writer)
    return not is_another


def _audit(
    journal: Journal, writer: Writer, found: list[_Found], objects: frozenset[bytes], renewed: Mapping[bytes, bytes], reason: str
) -> None:  # fmt: skip
    names = sorted(digest.hex() for digest in objects)
    ways = sorted((old.hex(), new.hex()) for old, new in renewed.items())
    if not found and not names:
        return
    named: dict[str, dict[AuditedRecord, None]] = {journal.lineage: {}}
    signed: list[SignedAudit] = []
    for one in found:
        records = named.setdefault(one.lineage, {})
        records[one.audited] = None
        # An audit record that is itself redacted: its entries are repeated, or their stubs would become invalid.
        records.update(dict.fromkeys(audited_by(one.entry.record, one.lineage)))
        of_another = signed_audit(one.entry.record, one.lineage)
        signed += [of_another] if of_another is not None else []
    ours = list(named.pop(journal.lineage))
    for lineage, audited in named.items():
        for part in _parts(list(audited)):
            signature = sign_as_left(journal.layout, lineage, audit_message(lineage, part))
            signed.append(SignedAudit(lineage, part, signature))

    def write(transaction: Transaction) -> None:
        for lineage, part, signature in signed:
            said: dict[str, JSONValue] = {
                "lineage": lineage, "records": [list(one) for one in part], "reason": reason, "signature": signature.hex(),
            }  # fmt: skip
            transaction.meta("redact", said, summary=f"{_count(part)} of {lineage}, which was left, redacted: {reason}")
        for start in range(0, max(len(ours), len(names), len(ways)), AUDIT_RECORDS_MAX):
            part = ours[start : start + AUDIT_RECORDS_MAX]
            payload: dict[str, JSONValue] = {
                "lineage": journal.lineage,
                "records": [list(one) for one in part],
                "objects": list[JSONValue](names[start : start + AUDIT_RECORDS_MAX]),
                "reason": reason,
            }
            if anew := dict[str, JSONValue](ways[start : start + AUDIT_RECORDS_MAX]):
                payload["renewed"] = anew
            transaction.meta("redact", payload, summary=f"{_count(part)} redacted: {reason}")

    journal.mutate(write, writer)


def _parts(records: list[AuditedRecord]) -> Iterator[list[AuditedRecord]]:
    for start in range(0, len(records), AUDIT_RECORDS_MAX):
        yield records[start : start + AUDIT_RECORDS_MAX]


def _count(part: Sequence[AuditedRecord]) -> str:
    return f"{len(part)} record{'s' if len(part) != 1 else ''}"


def _rewrite_segments(
    journal: Journal, lineage: str, targets: dict[int, _Found], needle: Needle | None, progress: Progress
) -> None:
    """Rewrite every file of a lineage, live and archived: each is prepared without the writers' lock and written under it.

    Files are locked one at a time, since a history has too many for others to wait. Writers in between use the newest segment, which holds
    no target.
    """
    folder, done = journal.layout.lineage_folder(lineage), set[str]()
    while True:
        paths = sorted(files_below(folder))
        progress(len(done), len(paths))
        path = next((path for path in paths if path not in done), None)
        if path is None:
            return
        is_rewritten = any(_rewritten_file(journal, path, targets, needle) for _ in range(PREPARED_MAX - 1))
        if not is_rewritten:
            with journal.writing():
                _rewritten_file(journal, path, targets, needle, is_locked=True)
        done.add(path)


def _rewritten_file(
    journal: Journal, path: str, targets: dict[int, _Found], needle: Needle | None, *, is_locked: bool = False
) -> bool:
    """Rewrite one file; return False if it changed meanwhile, which the lock prevents. A missing file was moved and is met at its new path."""
    try:
        data = read_plain(path, SEGMENT_READ_MAX + 1)
        if len(data) > SEGMENT_READ_MAX:
            raise DamageError(f"a file over {SEGMENT_READ_MAX:,} bytes", path=path, safe="It was not touched.")
        is_segment = segment_first_seq(os.path.basename(path)) is not None
        changed = _stubbed(data, targets, needle) if is_segment else needle.blotted(data) if needle else data
        if changed == data:
            return True
        with nullcontext() if is_locked else journal.writing():
            is_as_it_was = is_locked or read_plain(path, SEGMENT_READ_MAX + 1) == data
            if is_as_it_was:
                write_atomic(journal.files, path, changed)
    except FileNotFoundError:
        is_as_it_was = True
    return is_as_it_was


def _stubbed(data: bytes, targets: dict[int, _Found], needle: Needle | None) -> bytes:
    """Return the bytes of a segment with stubs for the targets, and the secret overwritten between the records."""
    header, start = decode_header(data)
    seqs = range(header.first_seq, header.first_seq + data.count(b"\n"))  # the seqs it can hold
    if not (needle is not None and needle.is_in(data)) and not any(seq in seqs for seq in targets):
        return data
    read = scan(data[start:], base=start, next_seq=header.first_seq, salvage=True)
    parts = [data[:start]]
    at = start
    for entry in read.entries:
        between, line = data[at : entry.offset], data[entry.offset : entry.offset + entry.length]
        parts.append(needle.blotted(between) if needle is not None else between)
        one = targets.get(entry.record.seq)
        if one is not None and one.entry.leaf == entry.leaf and not entry.record.is_stub:
            line = make_stub(line[:-1], entry.leaf, one.version, _masking(needle))
        parts.append(line)
        at = entry.offset + entry.length
    parts.append(needle.blotted(data[at:]) if needle is not None else data[at:])
    return b"".join(parts)


# -- what is left ----------------------------------------------------------------------------------------------------


def files_below(folder: str) -> Iterator[str]:
    """Yield the paths of all files in ``folder``. Raises EnvironmentFailure for a folder that cannot be listed."""

    def refuse(error: OSError) -> None:
        if isinstance(error, FileNotFoundError) and error.filename != folder:
            return  # removed meanwhile, as git does with folders of its cache while packing
        raise environment_failure(error, "list", error.filename)

    for at, _, names in os.walk(folder, onerror=refuse):
        yield from (os.path.join(at, name) for name in names)


def _rewritten(journal: Journal, left: Iterable[str], entities: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the prefixes of the paths that a redaction rewrites or makes anew."""
    layout = journal.layout
    written = [layout.lineage_folder(lineage) + os.sep for lineage in (journal.lineage, *left) if lineage]
    return *written, layout.checkpoints + os.sep, layout.index, *(layout.entity_file(*key) for key in entities)


def _elsewhere(
    journal: Journal, needle: Needle | None, doomed: frozenset[bytes], planned: tuple[str, ...] = ()
) -> list[Remaining]:
    """Return every file of the store that holds the secret, except objects ``doomed`` and paths ``planned``, which are about to be removed."""
    if needle is None:
        return []
    remaining: list[Remaining] = []
    layout = journal.layout
    left = {*journal.own.left, journal.own.previous} - {""} if journal.own is not None else set[str]()
    rewritten = _rewritten(journal, _left_with_keys(journal), ())
    foreign = {layout.lineage_folder(name): name for name in journal.lineages() if name != journal.lineage}
    came_since: bool | None = None
    for path in sorted(files_below(layout.root)):
        if path.startswith((layout.objects + os.sep, *planned)):
            continue
        if not needle.is_in_file(path) and not _is_in_packed(journal, needle, path):
            continue
        owner = next((name for folder, name in foreign.items() if path.startswith(folder + os.sep)), "")
        is_index = path.startswith(layout.index)
        if path.startswith((*rewritten, layout.entities + os.sep)) and not is_index and came_since is None:
            came = [] if planned else _find(journal, journal.lineage, needle, (), doomed, no_progress, [])
            came_since = any(not needle.is_in(one.entry.record.item_id.encode()) for one in came)
        mend = (
            "Derived from the records: it is removed with them."
            if is_index
            else _AGAIN
            if came_since and path.startswith((*rewritten, layout.entities + os.sep))
            else _KEPT
            if path.startswith(rewritten)
            else f"{_LEFT} `periplus redact` where lineage {owner} is still written, if anywhere, then `periplus sync` here."
            if owner in left
            else f"Written by the clone of lineage {owner}: run `periplus redact` there, then `periplus sync` here."
            if owner
            else "Not a file that a redaction rewrites: edit or remove it."
        )
        remaining.append(Remaining(path, mend))
    # Objects last: files left by hooks become objects, perhaps meanwhile.
    return [*_objects_left(journal, needle, doomed), *remaining]


def _objects_left(journal: Journal, needle: Needle, doomed: frozenset[bytes]) -> Iterator[Remaining]:
    others: set[bytes] | None = None
    for digest in _objects_with(journal, needle, no_progress):
        if digest in doomed:
            continue
        if others is None:
            names = (name for name in journal.lineages() if name != journal.lineage)
            others = _payloads(entry for name in names for _, entry in journal.entries(name, salvage=True))
        mend = "A record of another clone names it: redact there, then sync." if digest in others else _AGAIN
        yield Remaining(journal.objects.path_of(digest), mend)


def _is_in_packed(journal: Journal, needle: Needle, path: str) -> bool:
    """Return True if this is a packed object outside the object store (kept by an agent's session, or parked) that holds the secret."""
    folder, name = os.path.split(path)
    digits = os.path.basename(folder) + digits_of(name)
    if not is_packed(name) or not is_digest_text(digits):
        return False
    store = ObjectStore(os.path.dirname(folder), journal.files, packing=journal.objects.packing)
    try:
        return needle.is_in(store.remains(bytes.fromhex(digits)))
    except PeriplusError:
        return False  # removed since it was listed, or unreadable
