"""``periplus context select``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, number, plain, visible
from periplus.cli.context.text import SHORT, atom_lines, context_argument, entry_out, fraction, molecule_out

if TYPE_CHECKING:
    from periplus.cli.context.schemas import ContextSelectOut
    from periplus.context.selection.filters import Filters
    from periplus.context.selection.search import Selection

_DAY_MS = 86_400_000


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    add = parser.add_argument
    add("--query", default="", metavar="TEXT", help="the question to answer (default: take the most relevant atoms)")
    add(
        "--budget",
        type=number(1, 100_000_000),
        default=4_000,
        metavar="TOKENS",
        help="at most this many tokens (default: 4000)",
    )
    add("--type", metavar="TYPE", help="only atoms whose type matches this one")
    add(
        "--relevance",
        type=fraction,
        default=0,
        metavar="SHARE",
        help="only atoms of this relevance or more, 0 to 1 (default: 0)",
    )
    add(
        "--since", default="", metavar="TIME", help="only what is newer: a date, RFC 3339, or an age such as 2h, 3d, 1w"
    )
    add("--max-age", type=number(0, 100_000), metavar="DAYS", help="only atoms of the last DAYS days")
    add("--source", default="", metavar="TEXT", help="only atoms from this source, or from a path below it")
    add(
        "--tag", action="append", default=[], metavar="TAG", help="only atoms with this tag (repeatable: with all tags)"
    )
    add("--matching", action="store_true", help="with --query: only atoms that contain one of its words")
    add("--explain", action="store_true", help="say why each atom is selected or not")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.context.schemas import ContextSelectOut, ReasonOut
    from periplus.context.selection.reasons import describe

    query = plain(arguments.query, "--query")
    if arguments.matching and not query:
        raise UsageError("--matching goes with --query", safe="Nothing was changed.")
    filters = _filters(arguments)
    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        found = contexts.select(
            digest, query=query, budget_tokens=arguments.budget, filters=filters, is_matching_only=arguments.matching,
            explain=arguments.explain,
        )  # fmt: skip
    result = ContextSelectOut(
        digest.hex(), query, found.budget_tokens, found.tokens, found.counter, found.considered, found.is_read_whole,
        {str(cause): count for cause, count in found.counts.items()}, [entry_out(one) for one in found.entries],
        [molecule_out(one.molecule) for one in found.molecules],
        [
            ReasonOut(one.digest.hex(), one.is_in, one.cause, describe(one), one.scored.score / 1_000_000, one.tokens)
            for one in found.reasons
        ],
    )  # fmt: skip
    face.emit(result, lambda: _lines(face, result, found))
    return 0 if result.atoms else 1


def _filters(arguments: argparse.Namespace) -> Filters:
    from periplus.base.clock import parse_ms
    from periplus.base.errors import FormatError, UsageError
    from periplus.cli.common.inputs import read_past_time
    from periplus.context.selection.filters import Filters, check_filters
    from periplus.context.types import parse

    wanted = plain(arguments.type, "--type") if arguments.type is not None else None
    if wanted is not None:
        try:
            parse(wanted)
        except FormatError as error:
            raise UsageError(f"--type {wanted[:80]!r} is not a type: {error}", safe="Nothing was changed.") from error
    filters = Filters(
        wanted, arguments.relevance, parse_ms(read_past_time(arguments.since, "--since")) if arguments.since else None,
        arguments.max_age * _DAY_MS if arguments.max_age is not None else None, plain(arguments.source, "--source"),
        tuple(plain(tag, "--tag") for tag in arguments.tag),
    )  # fmt: skip
    check_filters(filters)
    return filters


def _lines(face: Face, result: ContextSelectOut, found: Selection) -> Iterator[str]:
    paint = face.palette
    for atom in result.atoms:
        yield from atom_lines(face, atom)
    for molecule in found.molecules:
        if molecule.missing:
            kept = len(molecule.molecule.atoms) - len(molecule.missing)
            yield f"{paint.warn}a molecule is incomplete{paint.end}: {kept} of {counted(len(molecule.molecule.atoms), 'atoms')}"
    for reason in result.reasons:
        mark = f"{paint.good}in {paint.end}" if reason.taken else f"{paint.bad}out{paint.end}"
        told = reason.why.partition(": ")[2] or reason.why
        room = face.width - SHORT - 7 if face.width is not None else None
        yield f"{mark}  {paint.name}{reason.digest[:SHORT]}{paint.end}  {visible(told, max(8, room) if room is not None else None)}"
    waiting = sum(not one.is_in for one in found.near_duplicates)
    near = f", {counted(waiting, 'atoms')} left out as near duplicates" if waiting else ""
    considered = f"{counted(result.considered, 'atoms')} considered"
    yield f"{paint.dim}{result.tokens:,} of {counted(result.budget_tokens, 'tokens')} ({visible(result.counter)}), {considered}{near}{paint.end}"
