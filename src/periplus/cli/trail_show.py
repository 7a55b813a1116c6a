"""``periplus trail show``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, number, visible
from periplus.cli.trail_inputs import guarded, named_trail, trail_readers

if TYPE_CHECKING:
    from periplus.project import TrailFile
    from periplus.trail import Form, TrailReader

_AROUND: Final = 3


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or the beginning of either), or a file")
    forms = "how much of each step, json being one document a line (default: text)"
    add("--form", choices=("text", "verbose", "compact", "json"), default="text", help=forms)
    add("--at", type=number(0), metavar="N", help=f"only step N and the {_AROUND} before and behind it")
    add("--part", type=number(1), metavar="N", help="of a concatenation, only part N, counted from 1")
    add(
        "--salvage", action="store_true", help="of a damaged trail, what is still good; what is lost is said at its end"
    )
    add("--limit", type=number(1), metavar="N", help="at most N lines")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from itertools import islice

    from periplus.base.errors import NotFoundError, PeriplusError, UsageError
    from periplus.trail import listing

    found, store = named_trail(face, arguments.trail)
    lost: tuple[str, ...] = ()
    if arguments.salvage:
        from periplus.cli.trail_salvage import salvaged

        kept = salvaged(found)
        found, lost = found._replace(data=kept.data), kept.lost
    readers = _chosen(found, trail_readers(found), arguments.part)

    def read(digest: bytes) -> bytes | None:
        try:
            return store.get(digest) if store is not None else None
        except PeriplusError:
            return None  # the listing shows the reference; doctor says what is wrong with the object

    at: int | None = arguments.at
    if at is not None and len(readers) > 1:
        raise UsageError(f"{found.name} has {len(readers)} parts", mend="Say which with --part; --at counts within it.")
    if at is not None and at >= readers[0].step_count:
        count = readers[0].step_count
        steps = f"steps 0 to {count - 1:,}" if count else "no steps"
        raise NotFoundError(f"there is no step {at:,} in {found.name}: it has {steps}", mend="Give another --at.")
    form: Form = "json" if face.as_json else arguments.form

    def lines() -> Iterator[str]:
        for part, reader in enumerate(readers, 1):
            if len(readers) > 1 and form != "json":
                yield f"; part {part:,} of {len(readers):,}"
            is_coloured = bool(face.palette.bold) and form != "json"
            yield from listing(reader, form, width=face.width, colour=is_coloured, read_text=read)

    chosen = lines() if at is None else _around(lines(), form, at)
    for line in islice(guarded(chosen, found), arguments.limit):
        face.out(line)
    if lost:
        told = "; ".join(lost)
        face.stderr.write(f"periplus: {found.name} is damaged; this is what is still good. Lost: {visible(told)}\n")
    return 3 if lost else 0


def _chosen(found: TrailFile, readers: tuple[TrailReader, ...], part: int | None) -> tuple[TrailReader, ...]:
    from periplus.base.errors import NotFoundError

    if part is None:
        return readers
    if part > len(readers):
        raise NotFoundError(
            f"there is no part {part:,} in {found.name}: it has {len(readers):,}", mend="Give another --part."
        )
    return readers[part - 1 : part]


def _around(lines: Iterator[str], form: Form, at: int) -> Iterator[str]:
    """The lines of the steps near step ``at``: a step begins with a line that begins with its number."""
    import re

    number = re.compile(r'^\{"kind":"step","index":(\d+)' if form == "json" else r"^(?:\x1b\[[0-9;]*m)*\s{0,3}(\d+)\b")
    is_near = False
    for line in lines:
        match = number.match(line)
        if match:
            is_near = abs(int(match[1]) - at) <= _AROUND
        elif form != "verbose" or line.lstrip("\x1b[0123456789m").startswith(";"):
            is_near = False
        if is_near:
            yield line
