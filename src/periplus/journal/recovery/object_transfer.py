"""Transfer of the objects that records of a lineage need: selection, source, and exclusion of redacted objects.

Objects arrive before the records that name them, and thousands of them without the writers' lock. Redactions that happen meanwhile are
checked for twice: after all objects have arrived, and under the lock when the records arrive (docs/decisions/0026-removal-of-objects.md).
"""

from __future__ import annotations

__all__ = ["UNTOUCHED", "IncomingObjects", "Lender", "ObjectCount", "References", "digest_of", "objects_of"]

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import ConflictError, DamageError, NotFoundError, RefusedError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.carriers import Carrier, FolderCarrier
from periplus.journal.records.segment import Entry
from periplus.journal.recovery.removed_content import Removed, TakenOut, taken_out
from periplus.journal.state.entity import Entity, change_of, entity_of_head, head_of
from periplus.journal.storage.lineage import Chunk

Lender: TypeAlias = Callable[[bytes], bytes]
References: TypeAlias = Callable[[Entity, Lender], set[bytes]]
UNTOUCHED: Final = "Nothing of it was taken; the copy here is unchanged."
_TRIES_MAX: Final = 4


class ObjectCount(NamedTuple):
    """Transferred objects, their bytes, objects that the source lacks too, and objects left out because the target redacted them."""

    objects: int
    size: int
    missing: int
    left_out: int


class IncomingObjects:
    """The objects that ``chunks`` of ``lineage``, new to ``target``, need from ``source``.

    ``returned_seqs`` are records among them that the target had lost to damage.
    """

    def __init__(
        self,
        target: FolderCarrier,
        source: Carrier,
        lineage: str,
        chunks: Callable[[], Iterable[tuple[Chunk, list[Entry]]]],
        returned_seqs: set[int],
    ) -> None:
        self.touched: set[tuple[str, str]] = set()
        self._target = target
        self._source = source
        self._lineage = lineage
        self._chunks = chunks
        self._returned_seqs = returned_seqs
        self._removed: Removed | None = None
        self._gone: TakenOut | None = None
        self._references: References | None = None

    def lend(self, digest: bytes) -> bytes:
        """Return an object from the target or else from the source."""
        try:
            return self._target.objects.get(digest)
        except (NotFoundError, DamageError):
            return self._source.object(self._lineage, digest)

    def take(self, references: References, *, dry_run: bool) -> ObjectCount:
        """Copy the objects, or with ``dry_run`` only count them. Raise RefusedError if a payload is missing or was redacted."""
        self._references = references
        for _ in range(_TRIES_MAX):
            self._gone = self._removed = None
            taken, size, missing, left_out = self._copied(references, dry_run=dry_run)
            if dry_run or not self._take_back(taken):
                return ObjectCount(len(taken), size, missing, left_out)
        raise ConflictError(f"{self._target.place}: content was redacted each time that {self._lineage} was checked",
                            safe=UNTOUCHED, mend="Repeat the command.")  # fmt: skip

    def is_judged(self) -> bool:
        """Return True if nothing was redacted in the target since the objects were checked. Call it under the writers' lock."""
        return self._gone is None or not self._gone.is_more()

    def judge_again(self) -> None:
        """Check the objects again after a redaction. Raises RefusedError as ``take`` does."""
        assert self._references is not None
        self.take(self._references, dry_run=False)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _take_back(self, taken: list[bytes]) -> bool:
        """Remove those of ``taken`` that were redacted since they were checked; return False if none was."""
        if self._gone is None:
            return False
        return self._gone.take_back(taken, self._target.objects, self._target.writing)

    def _copied(self, references: References, *, dry_run: bool) -> tuple[list[bytes], int, int, int]:
        size, missing, left_out, taken = 0, 0, 0, list[bytes]()
        for digest, is_needed in self._lacking(references):
            if not is_needed and digest in self._taken_out():
                left_out += 1
                continue
            try:
                data = self._source.object(self._lineage, digest)
            except NotFoundError as error:
                if is_needed:
                    raise RefusedError(
                        f"{self._source.place}: object {digest.hex()[:16]} that a record of {self._lineage} names is missing",
                        safe=UNTOUCHED,
                        mend="Finish the copy there, then repeat the command.",
                    ) from error
                missing += 1
                continue
            if not dry_run and not self._put(data):
                break  # all are checked again
            taken.append(digest)
            size += len(data)
        return taken, size, missing, left_out

    def _put(self, data: bytes) -> bool:
        """Store an object, unless something was redacted since the check. A redaction waits for objects that are being put, so that nothing
        redacted stays even if this process is killed.
        """
        if not self._target.is_store:  # redactions do not happen in an exchange folder, of which others may have copies
            self._target.objects.put(data)
            return True
        with self._target.objects.keeping():
            assert self._gone is not None
            if self._gone.is_more():
                return False
            self._target.objects.put(data)
        return True

    def _lacking(self, references: References) -> Iterator[tuple[bytes, bool]]:
        """Yield the objects that the new records need and the target lacks, with True for payloads, which a record cannot be without.

        Raises RefusedError for a record whose payload was redacted in the target.
        """
        seen: set[bytes] = set()
        for chunk, entries in self._chunks():
            for entry in entries:
                record = entry.record
                if record.item_type and record.item_id:
                    self.touched.add((record.item_type, record.item_id))
                for digest, is_needed in self._named_by(entry, chunk.segment, references):
                    if (
                        self._gone is None
                    ):  # before the first check; records without objects do not need a scan of all lineages
                        self._gone = TakenOut(self._target)
                    if digest not in seen and not self._target.objects.has(digest):
                        if is_needed and self._taken_out().forbids(digest, self._lineage, record.seq):
                            raise self._brings_back(record.seq, digest)
                        yield digest, is_needed
                    seen.add(digest)

    def _named_by(self, entry: Entry, segment: int, references: References) -> Iterator[tuple[bytes, bool]]:
        try:
            yield from objects_of(entry, self._lineage, segment, references, self.lend)
        except DamageError as error:
            raise RefusedError(f"{self._source.place}: record {entry.record.seq} of {self._lineage}: {error}",
                               safe=UNTOUCHED) from error  # fmt: skip

    def _taken_out(self) -> Removed:
        """Return the objects redacted in the target, according to its records and the incoming ones."""
        if self._removed is None:
            self._removed = taken_out(self._target)
            for _, entries in self._chunks():
                self._removed.add(entries, self._lineage)
        return self._removed

    def _brings_back(self, seq: int, digest: bytes) -> RefusedError:
        mend = "Redact it there too, then sync again. To bring it back, write it anew where it was redacted."
        if seq in self._returned_seqs:  # its content is that of a redacted record
            mend = f"It was lost here before that: the owner of {self._lineage} runs `periplus redact --seq {seq} --reason TEXT`, then all sync again."
        return RefusedError(
            f"{self._source.place}: record {seq} of {self._lineage} would bring back what was redacted in {self._target.place}: "
            f"object {digest.hex()[:16]}",
            safe=UNTOUCHED,
            mend=mend,
        )


def objects_of(
    entry: Entry, lineage: str, segment: int, references: References, lend: Lender
) -> Iterator[tuple[bytes, bool]]:
    """Yield the objects that a record names, with True for its payload; objects of the layer above are read through ``lend``.

    Raises DamageError for a payload that cannot be read.
    """
    ref = entry.record.payload_ref
    if ref is not None and is_digest_text(ref.sha256):
        yield bytes.fromhex(ref.sha256), True
    try:
        change = change_of(entry, lineage, segment, lambda sha256: lend(digest_of(sha256)))
    except NotFoundError:
        return  # its object was named above
    if change is not None and change.payload:
        for digest in sorted(references(entity_of_head(head_of(change, 0)), lend)):
            yield digest, False


def digest_of(sha256: str) -> bytes:
    """Return the digest as bytes. Raises DamageError if ``sha256`` is not a digest."""
    if not is_digest_text(sha256):
        raise DamageError(f"{sha256[:80]!r} is not an object digest")
    return bytes.fromhex(sha256)
