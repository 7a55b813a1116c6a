"""Cursors: the position of each reader, so that its next look shows only new records, each once.

``cursors/<reader>.json`` holds ``{"format":1,"last_seq":{lineage: seq},"read_at":time}``. A reader is an agent's instance, a hook or a
person's terminal; it picks a name that nobody else uses. One seq would not do, since a store may hold several lineages, each with its own
seqs. Rotation and archiving change no seq and so no cursor.

A look returns durable records only, so a cursor never covers a record that a power cut can take back. It advances when the reader confirms
what it received. A record may therefore come twice, if the process died in between, but is never skipped.
"""

from __future__ import annotations

__all__ = [
    "CURSOR_FORMAT",
    "Cursor",
    "Reader",
    "check_reader_name",
    "parse_cursor",
    "read_cursor",
    "reader_names",
    "write_cursor",
]

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import DamageError, NewerFormatError, UsageError, environment_failure
from periplus.base.files import read_plain, write_atomic
from periplus.base.ids import is_id
from periplus.journal.history.log import News, news, news_by_pages
from periplus.journal.history.record_filter import RecordFilter
from periplus.journal.records.record import seal_line, unseal_line

if TYPE_CHECKING:
    from periplus.journal.history.log import GapSummary
    from periplus.journal.journal import Journal
    from periplus.journal.storage.layout import Layout

CURSOR_FORMAT: Final = 1
CURSOR_SUFFIX: Final = ".json"
NAME_CHARACTERS_MAX: Final = 64
_FILE_BYTES_MAX: Final = 1 << 20
_NAME_ALLOWED: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_SEQ_MAX: Final = 2**53


class Cursor(msgspec.Struct, frozen=True):
    """The last seq that a reader has seen of each lineage, and when its cursor last moved."""

    format: int
    last_seq: dict[str, int]
    read_at: str


def check_reader_name(name: str) -> str:
    """Return ``name`` if it is allowed as a file name on every file system. Raises UsageError."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not _NAME_ALLOWED.issuperset(name) or not name[0].isalnum():
        raise UsageError(
            f"{name[:80]!r} is not a valid reader name",
            safe="Nothing was changed.",
            mend=f"Use a-z, 0-9, '.', '_' and '-', a letter or digit first, at most {NAME_CHARACTERS_MAX} of them.",
        )
    return name


def reader_names(layout: Layout) -> list[str]:
    """Return the names of readers that have a cursor. Raises EnvironmentFailure."""
    try:
        names = sorted(os.listdir(layout.cursors))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise environment_failure(error, "list", layout.cursors) from error
    stems = [name.removesuffix(CURSOR_SUFFIX) for name in names if name.endswith(CURSOR_SUFFIX)]
    return [stem for stem in stems if stem and _NAME_ALLOWED.issuperset(stem) and stem[0].isalnum()]


def read_cursor(layout: Layout, name: str) -> Cursor | None:
    """Return the reader's cursor; None before its first look. Raises DamageError if the file is damaged."""
    path = _path(layout, name)
    try:
        data = read_plain(path, _FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    return parse_cursor(data, path, f"Begin anew with `periplus log --reader {name} --since-seq 0`.")


def parse_cursor(data: bytes, path: str, again: str = "") -> Cursor:
    """Parse a cursor's file. Raises DamageError with ``path`` if it is damaged; ``again`` is its advice."""
    try:
        cursor = msgspec.json.decode(data, type=Cursor)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamageError(f"not a cursor: {error}", path=path, safe="The records are untouched.", mend=again) from error
    if cursor.format > CURSOR_FORMAT:
        raise NewerFormatError(
            f"the cursor has format {cursor.format}; this Periplus reads {CURSOR_FORMAT}",
            path=path, safe="Nothing was changed.", mend="Update Periplus, then repeat the command.",
        )  # fmt: skip
    is_sealed = unseal_line(data[:-1]) is not None and data.endswith(b"\n")
    if not is_sealed and data != msgspec.json.encode(cursor) + b"\n":  # the older format, without a checksum
        raise DamageError(
            "not a cursor: its checksum does not hold", path=path, safe="The records are untouched.", mend=again
        )
    if not all(is_id(lineage) and 0 <= seq < _SEQ_MAX for lineage, seq in cursor.last_seq.items()):
        raise DamageError(
            "not a cursor: it names no lineages", path=path, safe="The records are untouched.", mend=again
        )
    return cursor


def write_cursor(journal: Journal, name: str, last_seq: Mapping[str, int]) -> None:
    """Store that the reader has seen everything up to ``last_seq``. Raises EnvironmentFailure, with the old cursor kept."""
    path = _path(journal.layout, name)
    cursor = Cursor(CURSOR_FORMAT, dict(sorted(last_seq.items())), format_ms(journal.clock.now_ms()))
    try:
        journal.files.make_folder(journal.layout.cursors)
    except OSError as error:
        raise environment_failure(error, "make", journal.layout.cursors) from error
    write_atomic(journal.files, path, seal_line(msgspec.json.encode(cursor)[:-1])[0])


class Reader:
    """A reader of a journal: ``look``, process the records, ``advance``."""

    def __init__(self, journal: Journal, name: str) -> None:
        """Raise UsageError for a name that cannot be a file name."""
        self._journal = journal
        self.name = check_reader_name(name)
        self._cursor: Cursor | None = None
        self._is_moved = False

    @property
    def seen(self) -> dict[str, int]:
        """The last seq seen of each lineage. Raises DamageError for a cursor that cannot be read."""
        if self._cursor is None:
            self._cursor = read_cursor(self._journal.layout, self.name) or Cursor(CURSOR_FORMAT, {}, "")
        return dict(self._cursor.last_seq)

    def move(self, last_seq: Mapping[str, int]) -> None:
        """Start the next look here, whatever the cursor says, even if it cannot be read."""
        try:
            seen = self.seen
        except DamageError:
            seen = {}
        self._cursor = Cursor(CURSOR_FORMAT, {**seen, **last_seq}, "")
        self._is_moved = True

    def look(
        self,
        wanted: RecordFilter | None = None,
        *,
        lineages: Sequence[str] | None = None,
        limit: int = 1_000,
        summary: GapSummary | None = None,
    ) -> News:
        """Return the records that are new since the last ``advance``, without moving the cursor.

        Raises DamageError if the reader had seen more records than there are: records are missing, or the store was replaced by an older
        copy.
        """
        seen = self._looked_from()
        lineages = self._journal.lineages() if lineages is None else lineages
        return news(self._journal, seen, wanted or RecordFilter(), lineages=lineages, limit=limit, summary=summary)

    def look_by_pages(self, wanted: RecordFilter, *, lineages: Sequence[str], limit: int) -> Iterator[News]:
        """Yield the result of ``look`` in pages; after the last page, ``advance`` with that one."""
        return news_by_pages(self._journal, self._looked_from(), wanted, lineages=lineages, limit=limit)

    def advance(self, found: News) -> None:
        """Confirm that the reader has received ``found``. Nothing is written if the cursor is already there."""
        if found.seen == self.seen and not self._is_moved:
            return
        reached = dict(found.seen)
        if not self._is_moved:  # another process with this name may have advanced further; never move back
            there = read_cursor(self._journal.layout, self.name)
            for lineage, seq in (there.last_seq if there is not None else {}).items():
                reached[lineage] = max(seq, reached.get(lineage, 0))
        write_cursor(self._journal, self.name, reached)
        self._cursor = Cursor(CURSOR_FORMAT, reached, "")
        self._is_moved = False

    def _looked_from(self) -> dict[str, int]:
        seen = self.seen
        self._journal.refresh()
        if self._journal.damage is None:
            self._check_not_ahead(seen)
        return seen

    def _check_not_ahead(self, seen: Mapping[str, int]) -> None:
        for lineage, seq in seen.items():
            end = self._journal.end(lineage).next_seq - 1
            if seq > end:
                raise DamageError(
                    f"reader {self.name} has seen record {seq:,} of {lineage}, which ends at {end:,}: records are missing, "
                    "or the store was replaced by an older copy",
                    path=os.path.relpath(_path(self._journal.layout, self.name), self._journal.layout.root),
                    safe="The cursor stays as it is.",
                    mend=f"Run `periplus doctor`; to go on from here: periplus log --reader {self.name} --since-seq {end}",
                )


def _path(layout: Layout, name: str) -> str:
    return os.path.join(layout.cursors, check_reader_name(name) + CURSOR_SUFFIX)
