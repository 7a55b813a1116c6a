"""``periplus trail show``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, columns, number, visible
from periplus.cli.trail.inputs import guarded, named_trail, trail_readers
from periplus.cli.trail.step_selection import add_filters, selection_of

if TYPE_CHECKING:
    from periplus.project import TrailFile
    from periplus.trail import Form, Selection, Sieve, TrailReader

_AROUND: Final = 3
_FULL_BYTES: Final = 1 << 40  # more than any text has
_SGR: Final = "\x1b["


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or a prefix of either), or a file")
    forms = "how much of each step: hex has every byte at its offset, json is one document a line (default: text)"
    add("--form", choices=("text", "hex", "verbose", "compact", "json"), default="text", help=forms)
    add("--at", type=number(0), metavar="N", help=f"only step N, with {_AROUND} steps before and after it")
    add("--part", type=number(1), metavar="N", help="in a concatenation: only part N, counted from 1")
    add("--salvage", action="store_true", help="of a damaged trail, show the intact part, and at the end what is lost")
    add("--limit", type=number(1), metavar="N", help="show at most N lines")
    add("--full", action="store_true", help="cut nothing: whole lines, and long texts to their end")
    pager = "do not page a long listing (default: use PAGER, or less)"
    add("--no-pager", action="store_true", help=pager)
    add_filters(parser)


class _Part(NamedTuple):
    place: int  # from 1
    reader: TrailReader
    sieve: Sieve


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from itertools import islice

    from periplus.cli.common.pager import page
    from periplus.trail import Sieve

    selection = _selection(arguments)
    found, store = named_trail(face, arguments.trail, remains=arguments.salvage)
    if found.data[:1] == b"\xa0":
        if arguments.form == "hex" and not face.as_json:
            return _flux_hex(face, found, arguments, selection)
        from periplus.cli.trail.conversion.versions import as_version_2

        found = as_version_2(found)
    lost: tuple[str, ...] = ()
    if arguments.salvage:
        from periplus.cli.trail.salvage import salvaged

        kept = salvaged(found)
        found, lost = found._replace(data=kept.data), kept.lost
    readers = trail_readers(found)
    numbers = _chosen(found, readers, arguments)
    parts = [_Part(one, readers[one - 1], Sieve(selection, readers[one - 1].step_count)) for one in numbers]

    def read(digest: bytes) -> bytes | None:
        from periplus.base.errors import PeriplusError

        try:
            return store.get(digest) if store is not None else None
        except PeriplusError:
            return None  # the listing shows the reference; doctor explains the damage

    form: Form = "json" if face.as_json else arguments.form
    lines = _lines(
        face, found, parts, len(readers), form, read, is_bare=arguments.at is not None, is_full=arguments.full
    )
    shown = guarded(lines, found)
    if face.width is not None and form != "json" and not arguments.full:
        shown = _with_cuts(shown, face.width, arguments.limit)
    else:
        shown = islice(shown, arguments.limit)
    page(face, shown, is_wanted=not arguments.no_pager and not face.as_json)
    if lost:
        told = "; ".join(lost)
        mend = " Next: periplus doctor --repair, or import the session again." if found.name.startswith("trl_") else ""
        face.stderr.write(
            f"periplus: {found.name} is damaged; only the intact part is shown. Lost: {visible(told)}.{mend}\n"
        )
        return 3
    has_found = not selection.is_choosy or any(part.sieve.shown for part in parts)
    return 0 if has_found else 1


def _with_cuts(lines: Iterator[str], width: int, limit: int | None) -> Iterator[str]:
    """Yield the lines, at most ``limit``, and at the end how to see what was cut: for people at a terminal."""
    cut = 0
    for count, line in enumerate(lines):
        if count == limit:
            yield visible("; omit --limit for what follows", width)
            break
        cut += _is_cut(line, width)
        yield line
    if cut:
        yield visible(f"; --full shows {cut:,} cut line{'s' * (cut != 1)} whole", width)


def _is_cut(line: str, width: int) -> bool:
    """Return whether the line ends where the terminal does, or has the beginning of a long text."""
    if "…" not in line:
        return False
    if _SGR in line:
        import re

        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return (line.endswith("…") and columns(line) >= width - 1) or '…" <object sha256:' in line


def _flux_hex(face: Face, found: TrailFile, arguments: argparse.Namespace, selection: Selection) -> int:
    """List the bytes of version 1. All other forms show its conversion to version 2."""
    from itertools import islice

    from periplus.base.errors import UsageError
    from periplus.cli.common.pager import page
    from periplus.cli.trail.conversion.versions import flux_reader
    from periplus.trail.listings.value_text import View
    from periplus.trail.v1.hex_listing import flux_hex_lines

    if selection.is_choosy or arguments.part is not None or arguments.at is not None:
        raise UsageError(
            "the hex form of version 1 always lists every step", mend="Omit the selection of steps, or the form."
        )
    view = View(face.width, bool(face.palette.bold))
    lines = flux_hex_lines(flux_reader(found), found.data, view)
    page(face, islice(lines, arguments.limit), is_wanted=not arguments.no_pager)
    return 0


def _selection(arguments: argparse.Namespace) -> Selection:
    from periplus.base.errors import UsageError
    from periplus.trail import Selection

    selection = selection_of(arguments)
    at: int | None = arguments.at
    if at is None:
        return selection
    if selection.is_choosy:
        raise UsageError("--at cannot be combined with another selection of steps", mend="Use --steps A:B instead.")
    return Selection(max(0, at - _AROUND), at + _AROUND + 1)


def _chosen(found: TrailFile, readers: tuple[TrailReader, ...], arguments: argparse.Namespace) -> list[int]:
    """Return the selected parts, counted from 1. Raises UsageError if the selection does not exist."""
    from periplus.base.errors import NotFoundError, UsageError

    part, at = arguments.part, arguments.at
    if part is not None and part > len(readers):
        raise NotFoundError(
            f"there is no part {part:,} in {found.name}: it has {len(readers):,}", mend="Choose another --part."
        )
    numbers = [part] if part is not None else list(range(1, len(readers) + 1))
    named = "--at" if at is not None else "--steps"
    if len(numbers) > 1 and (at is not None or arguments.steps is not None):
        raise UsageError(
            f"{found.name} has {len(readers)} parts", mend=f"Choose one with --part; {named} counts within it."
        )
    if at is not None and at >= readers[numbers[0] - 1].step_count:
        count = readers[numbers[0] - 1].step_count
        steps = f"steps 0 to {count - 1:,}" if count else "no steps"
        raise NotFoundError(f"there is no step {at:,} in {found.name}: it has {steps}", mend="Choose another --at.")
    return numbers


def _lines(
    face: Face,
    found: TrailFile,
    parts: list[_Part],
    count: int,
    form: Form,
    read: Callable[[bytes], bytes | None],
    *,
    is_bare: bool,
    is_full: bool,
) -> Iterator[str]:
    from periplus.trail import Parts, listing
    from periplus.trail.listings.hex_listing import frame_lines
    from periplus.trail.listings.value_text import PREVIEW_BYTES, View

    width = None if is_full else face.width
    whole = Parts(found.data) if count > 1 else None
    is_coloured = bool(face.palette.bold) and form != "json"
    view, at = View(width, is_coloured), 0
    for place, reader, sieve in parts:
        base = whole.offset(place - 1) if whole is not None else 0
        if len(parts) > 1 and form != "json":
            yield f"; part {place:,} of {count:,}"
        if form == "hex" and len(parts) == count and not sieve.is_choosy:
            yield from frame_lines(found.data, at, base, f"concatenation, up to its part {place:,}", view)
            at = base + len(reader.to_bytes())
        yield from listing(
            reader,
            form,
            width=width,
            colour=is_coloured,
            read_text=read,
            preview_bytes=_FULL_BYTES if is_full else PREVIEW_BYTES,
            sieve=sieve,
            is_bare=is_bare,
            base=base,
        )
    if form == "hex" and at:
        yield from frame_lines(found.data, at, len(found.data), "concatenation, behind its last part", view)
