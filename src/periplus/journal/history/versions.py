"""Versions of one entity: its state at a seq, and the record that set each of its fields.

A version's content is read from its record's own line, with its checksum; the index gives the line's position and the parents. If two
records hold one version (the same change made in two clones), the earliest one that still has its content is used.
"""

from __future__ import annotations

__all__ = ["Blamed", "Origin", "Versions", "blame", "entity_at", "find_ever", "said_by"]

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from periplus.base.errors import DamageError, NotFoundError, UsageError
from periplus.base.ids import typed_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal.index.record_lookup import ids_named
from periplus.journal.records.record import decode_line
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Entity, Head, MergeRules, change_of, head_of
from periplus.journal.state.merge import entity_of
from periplus.journal.state.version_graph import is_before

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.state.index_values import IndexedRecord
    from periplus.journal.state.version_cycles import Remaining

Fields = dict[str, bytes]  # canonical JSON of each top-level field; equal if and only if the values are equal


class Origin(NamedTuple):
    """The record that set a value. Not ``is_certain`` if an earlier version was redacted, is missing or cannot be read."""

    record: IndexedRecord
    is_certain: bool


class Blamed(NamedTuple):
    """A top-level field of an entity and the origin of its present value.

    There are several origins if the value was merged from several heads and none of them has it as shown; none if the record is not here.
    """

    name: str
    value: bytes
    origins: tuple[Origin, ...]
    is_cut: bool = False  # records of the entity are missing or unreadable


class Versions:
    """The versions of an entity, read on demand. Raises DamageError if a record's line is damaged or missing.

    With ``is_rest_enough`` it does not raise: what can be read counts, together with the present heads. With ``is_index_enough`` the full
    history is not loaded either: the index may begin at a checkpoint.
    """

    def __init__(
        self, journal: Journal, item_type: str, item_id: str, *, is_rest_enough: bool = False, is_index_enough: bool = False
    ) -> None:  # fmt: skip
        self._journal = journal
        self._is_rest_enough, self._is_index_enough = is_rest_enough, is_index_enough
        self.is_cut = False  # records are missing or unreadable
        self.item_type, self.item_id = item_type, item_id
        journal.refresh()
        journal.project()
        if not is_rest_enough:
            journal.need_history()
        self.records: dict[str, list[IndexedRecord]] = {}
        for record in self._all_records():
            self.records.setdefault(record.version, []).append(record)
        self._heads: dict[str, Head] = {}
        self._fields: dict[str, Fields] = {}
        if is_rest_enough:
            heads = journal.heads_of(item_type, item_id)
            self._heads = {head.version: head for head in heads if self._has_record(head)}
            self._fields = {head.version: fields_of(head.payload) for head in heads}

    def parents(self, version: str) -> tuple[str, ...]:
        """Return the parents, held or not; empty for a version that is not held itself."""
        found = self.records.get(version)
        return found[0].parents if found is not None else ()

    def head(self, version: str) -> Head | None:
        """Return the version with its content, in the form of a head; None if it is not held."""
        if version not in self.records:
            return None
        known = self._heads.get(version)
        if known is None:
            for record in self.records[version]:
                try:
                    found = self._read(record)
                except DamageError:
                    if not self._is_rest_enough:
                        raise
                    self.is_cut = True
                    continue
                if known is None or is_before(found, known):
                    known = found
            if known is not None:
                self._heads[version] = known
        return known

    def fields(self, version: str) -> Fields:
        """Return the version's fields; empty for a tombstone, a redacted version and one that is not held."""
        known = self._fields.get(version)
        if known is None:
            head = self.head(version)
            known = self._fields[version] = fields_of(head.payload if head is not None else b"")
        return known

    def is_known(self, version: str) -> bool:
        """Return True if its content is known, or that it is a tombstone."""
        head = self.head(version)
        return head is not None and not head.is_stub

    def record_of(self, version: str) -> IndexedRecord:
        """Return the record that represents a held version."""
        head = self.head(version)
        if head is None:
            return self.records[version][0]
        return next(one for one in self.records[version] if (one.lineage, one.seq) == (head.lineage, head.seq))

    def rev_of(self, version: str) -> int:
        """Return the version's rev; 0 if it is not held."""
        return self.record_of(version).rev if version in self.records else 0

    def ancestors(self, versions: Iterable[str]) -> set[str]:
        """Return ``versions`` and all their held ancestors."""
        found: set[str] = set()
        todo = [version for version in versions if version in self.records]
        while todo:
            version = todo.pop()
            if version not in found:
                found.add(version)
                todo += [parent for parent in self.parents(version) if parent in self.records]
        return found

    def heads_among(self, held: set[str]) -> set[str]:
        """Return the heads of a graph of only these versions: those from which none of the others descends."""
        from periplus.journal.state.version_cycles import ranks

        return ranks(*self._edges(held))[1]

    def remaining(self, gone: Iterable[str]) -> Remaining:
        """Return the graph of all versions but ``gone``, from which heads can be removed one after another."""
        from periplus.journal.state.version_cycles import Remaining

        return Remaining(*self._edges(set(self.records).difference(gone)))

    def _edges(self, held: set[str]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """Return, within these versions, the parents of each, and all versions that precede it."""
        parents = {
            version: {one for one in self.parents(version) if one in held and one != version} for version in held
        }
        names = {version: set(named) for version, named in parents.items()}
        for version in held:
            for child in self._journal.index.child_versions(self.item_type, self.item_id, version):
                if child in held and child != version:
                    names[child].add(version)
        return parents, names

    def shown(self, versions: Iterable[str]) -> Entity | None:
        """Return the entity as shown by these versions as its heads; None if none of them is held."""
        heads = [head for version in sorted(versions) if (head := self.head(version)) is not None]
        return entity_of(heads, self._journal.view.rules.get(self.item_type, MergeRules()), self._journal.index)

    def _all_records(self) -> list[IndexedRecord]:
        from periplus.journal.checkpoints.partial_history import index_with_history

        needs_history = self._is_rest_enough and not self._is_index_enough
        index = index_with_history(self._journal) if needs_history else self._journal.index
        where = "item_type = ? AND item_id = ? AND version <> '' ORDER BY lineage, seq"
        try:
            return index.records(where, (self.item_type, self.item_id), -1)
        finally:
            if index is not self._journal.index:
                self.is_cut = True
                index.close()

    def _has_record(self, head: Head) -> bool:
        return any((one.lineage, one.seq) == (head.lineage, head.seq) for one in self.records.get(head.version, ()))

    def _read(self, record: IndexedRecord) -> Head:
        found, _ = decode_line(self._journal.line_at(record))
        entry = Entry(found, record.offset, record.length, record.leaf)
        change = change_of(entry, record.lineage, record.segment, self._journal.load_object, record.version)
        assert change is not None
        return head_of(change, record.rev)


def fields_of(payload: bytes) -> Fields:
    return {name: bytes(raw) for name, raw in msgspec.json.decode(payload, type=dict[str, msgspec.Raw]).items()} \
        if payload else {}  # fmt: skip


def find_ever(journal: Journal, prefix: str) -> tuple[str, str]:
    """Return type and id of the entity, live or deleted, whose id begins with ``prefix``. Raises NotFoundError, or UsageError with
    candidates.
    """
    typed, prefix = prefix, typed_id(prefix)
    journal.refresh()
    journal.project()
    try:
        found = journal.index.ids_with_prefix(prefix)
    except UnicodeEncodeError:
        found = []  # a lone surrogate, which no id contains
    if not found and prefix.strip():
        found = ids_named(journal, prefix)
    exact = [key for key in found if key[1] == prefix]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotFoundError(f"nothing has an id that begins with {typed!r}", mend="Look with `periplus log`.")
    names = ", ".join(item_id for _, item_id in found[:5])
    raise UsageError(f"{prefix!r} is the beginning of several ids: {names}", mend="Type more of the id.")


def entity_at(journal: Journal, item_type: str, item_id: str, seq: int, lineage: str = "") -> Entity:
    """Return the entity as ``lineage`` (our own by default) had it after writing ``seq``.

    It is made of the versions in the lineage's records up to ``seq`` and their ancestors in any lineage. Versions of other lineages that
    these do not descend from are not included: their arrival is not recorded, so the time is unknown.

    Raises NotFoundError for a missing seq, or if the entity did not exist then, had been deleted, or its content was redacted.
    """
    lineage = lineage or journal.lineage
    versions = Versions(journal, item_type, item_id)
    end = journal.end(lineage).next_seq - 1
    if not 1 <= seq <= end:
        raise NotFoundError(f"there is no record {seq:,}: the newest of {lineage or 'this store'} is {end:,}",
                            safe="Nothing was changed.", mend="See `periplus log`.")  # fmt: skip
    written = [r for records in versions.records.values() for r in records if r.lineage == lineage]
    held = versions.ancestors(record.version for record in written if record.seq <= seq)
    if not held:
        first = min((record.seq for record in written), default=0)
        raise NotFoundError(
            f"{item_id} did not exist at record {seq:,}",
            mend=f"Its first record there is {first:,}." if first else f"{lineage} never wrote it: see `periplus log --lineage all --id {item_id}`.",
        )  # fmt: skip
    heads = versions.heads_among(held)
    entity = versions.shown(heads)
    assert entity is not None
    if entity.deleted:
        for version in sorted(heads):
            head = versions.head(version)
            if head is not None and head.is_stub:
                of = "" if head.lineage == lineage else f" of {head.lineage}"
                raise NotFoundError(f"{item_id} at record {seq:,} cannot be shown: the content of record {head.seq:,}{of} was redacted",
                                    mend=f"For its other records see `periplus log --id {item_id}`.")  # fmt: skip
        raise NotFoundError(f"{item_id} had been deleted at record {seq:,}",
                            mend=f"Record {entity.seq:,} of {entity.lineage} deleted it; look before that.")  # fmt: skip
    return entity


def blame(journal: Journal, entity: Entity) -> list[Blamed]:
    """Return the origin of the present value of each top-level field.

    A version with a parent that has the same value did not set it; that parent is followed. Of several such parents, the one with the
    lowest rev is followed, so that the first writer is named. Unreadable versions are skipped and noted in ``is_cut``.
    """
    versions = Versions(journal, entity.item_type, entity.item_id, is_rest_enough=True)
    found = []
    for name, value in fields_of(entity.payload).items():
        found.append(Blamed(name, value, _origins(versions, entity, name, value)))
    return [one._replace(is_cut=versions.is_cut) for one in found]


def said_by(journal: Journal, entity: Entity, name: str) -> tuple[Origin, ...]:
    """Return the origins of the present value of one top-level field, as ``blame`` does, as far as records are here."""
    from periplus.journal.checkpoints.partial_history import fill_history_if_present

    value = fields_of(entity.payload).get(name)
    if value is None:
        return ()

    def found() -> tuple[Origin, ...]:
        versions = Versions(journal, entity.item_type, entity.item_id, is_rest_enough=True, is_index_enough=True)
        return _origins(versions, entity, name, value)

    origins = found()
    is_known = bool(origins) and all(one.is_certain for one in origins)
    if not is_known and journal.index.has_floors and fill_history_if_present(journal):
        return found()
    return origins


def _origins(versions: Versions, entity: Entity, name: str, value: bytes) -> tuple[Origin, ...]:
    sources = _having(versions, entity.heads, name, value)[:1]
    if sources:
        origins = {_origin(versions, sources[0], name, value)} if sources[0] in versions.records else set()
    else:  # merged from the heads that have the field
        origins = {_origin(versions, head, name, versions.fields(head)[name])
                   for head in entity.heads if head in versions.records and name in versions.fields(head)}  # fmt: skip
    return tuple(sorted(origins, key=lambda one: (one.record.lineage, one.record.seq)))


def _origin(versions: Versions, version: str, name: str, value: bytes) -> Origin:
    seen = {version}  # ends cycles, which only forged records have
    while True:
        parents = versions.parents(version)
        same = [one for one in _having(versions, parents, name, value) if one not in seen]
        if not same:
            return Origin(versions.record_of(version), all(map(versions.is_known, parents)))
        version = same[0]
        seen.add(version)


def _having(versions: Versions, candidates: Iterable[str], name: str, value: bytes) -> list[str]:
    """Return the candidates that have this value, lowest rev first, versions that are not held last."""
    found = [one for one in candidates if versions.fields(one).get(name) == value]
    return sorted(found, key=lambda one: (one not in versions.records, versions.rev_of(one), one))
