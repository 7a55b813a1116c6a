"""Result lists of any length, spooled to an unnamed file until the result is complete.

As with short results, nothing is printed before everything was read and checked against the journal; memory use stays at a few
megabytes.
"""

from __future__ import annotations

__all__ = ["Aside", "emit_with", "read_log", "read_news"]

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from periplus.cli.common.face import Face, safe_json

if TYPE_CHECKING:
    from periplus.cli.common.schemas import RecordOut
    from periplus.journal import IndexedRecord
    from periplus.journal.history.cursors import Reader
    from periplus.journal.history.log import Gap, News, RecordFilter
    from periplus.project import Project

MEMORY_BYTES_MAX: Final = 4 << 20  # beyond this size the data goes to disk
_ROWS_AT_ONCE: Final = 1_000
StructT = TypeVar("StructT", bound=msgspec.Struct)


class Aside(Generic[StructT]):
    """A list of structs of one kind in an unnamed file. Raises EnvironmentFailure."""

    def __init__(self, kind: type[StructT]) -> None:
        from tempfile import SpooledTemporaryFile

        self._file = SpooledTemporaryFile(max_size=MEMORY_BYTES_MAX)  # noqa: SIM115 - it stands until the result is told
        self._kind = kind
        self._count = 0

    def add(self, rows: Iterable[StructT]) -> None:
        from periplus.base.errors import environment_failure

        try:
            for row in rows:
                self._file.write(msgspec.json.encode(row) + b"\n")
                self._count += 1
        except OSError as error:
            raise environment_failure(error, "write", "a temporary file") from error

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[StructT]:
        decoder = msgspec.json.Decoder(self._kind)
        return map(decoder.decode, self.texts())

    def texts(self) -> Iterator[bytes]:
        """Yield each struct as JSON. Only one iterator over the list may be active."""
        self._file.seek(0)
        for line in self._file:
            yield line[:-1]


def emit_with(
    face: Face, result: msgspec.Struct, field: str, rows: Aside[StructT], lines: Callable[[], Iterable[str]]
) -> None:
    """Print ``result`` as ``Face.emit`` does, with ``rows`` in its empty list ``field``; then close ``rows``."""
    try:
        if face.as_json:
            _emit_json(face, result, field, rows)
        else:
            for line in lines():
                face.out(line)
    finally:
        rows.close()


def _emit_json(face: Face, result: msgspec.Struct, field: str, rows: Aside[StructT]) -> None:
    text = safe_json(msgspec.json.encode(result).decode())
    head, found, rest = text.partition(f'"{field}":[]')  # unambiguous: within a string its quotes would be escaped
    assert found
    face.out(f'{head}"{field}":[', end="")
    for number, row in enumerate(rows.texts()):
        face.out("," * bool(number) + safe_json(row.decode()), end="")
    face.out(f"]{rest}")


def read_log(
    project: Project,
    wanted: RecordFilter,
    lineages: Sequence[str],
    before: Mapping[str, int],
    limit: int,
    *,
    is_folding: bool,
) -> tuple[Aside[RecordOut], dict[str, int], list[Gap]]:
    """Return the newest records as rows to show, the start of the next page, and the gaps."""
    from periplus.cli.common.schemas import RecordOut
    from periplus.journal.history.log import newest_by_pages

    rows = Aside(RecordOut)
    following: dict[str, int] = {}
    gaps: list[Gap] = []

    def records() -> Iterator[IndexedRecord]:
        nonlocal following
        for page in newest_by_pages(project.journal, wanted, lineages=lineages, before=before, limit=limit):
            following = page.before
            gaps.extend(page.gaps)
            yield from page.records

    _fill(project, rows, records(), is_folding=is_folding)
    return rows, following, _in_order(gaps, lineages)


def read_news(
    project: Project, wanted: RecordFilter, lineages: Sequence[str], seen: Mapping[str, int], reader: Reader | None, limit: int,
    *, is_folding: bool,
) -> tuple[Aside[RecordOut], News]:  # fmt: skip
    """Return new records as rows to show, and the look they belong to, without its records."""
    from periplus.cli.common.schemas import RecordOut
    from periplus.journal.history.log import News, news_by_pages

    rows = Aside(RecordOut)
    found = News([], dict(seen), (), more=False)
    if reader is not None:
        pages = reader.look_by_pages(wanted, lineages=lineages, limit=limit)
    else:
        pages = news_by_pages(project.journal, seen, wanted, lineages=lineages, limit=limit)

    def records() -> Iterator[IndexedRecord]:
        nonlocal found
        for page in pages:
            found = News([], page.seen, (*found.gaps, *page.gaps), page.more)
            yield from page.records

    _fill(project, rows, records(), is_folding=is_folding)
    return rows, found._replace(gaps=tuple(_in_order(found.gaps, lineages)))


def _fill(project: Project, rows: Aside[RecordOut], records: Iterable[IndexedRecord], *, is_folding: bool) -> None:
    from itertools import islice

    from periplus.cli.journal.log_folds import each, folds, rows_out

    shown = folds(records) if is_folding else each(records)
    while some := list(islice(shown, _ROWS_AT_ONCE)):
        rows.add(rows_out(project.journal, some))


def _in_order(gaps: Iterable[Gap], lineages: Sequence[str]) -> list[Gap]:
    """Sort by lineage and seq, as many of each lineage as one look returns."""
    from periplus.journal.history.log import GAPS_MAX

    found: list[Gap] = []
    for lineage in lineages:
        found += sorted((gap for gap in gaps if gap.lineage == lineage), key=lambda gap: gap.first)[:GAPS_MAX]
    return found
