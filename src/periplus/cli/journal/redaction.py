"""``redact``: remove a secret from the store, and nothing else; ``redact --find`` lists secrets."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, number, visible

if TYPE_CHECKING:
    from periplus.cli.journal.redaction_schemas import RedactOut, SecretOut
    from periplus.journal.care.redaction import Redaction
    from periplus.project.care.secret_search import FoundSecret
    from periplus.project.project import Project

_PLACES_TOLD: Final = 5
_PLACES_MAX: Final = 100
_ALL: Final = "all"
_REASON: Final = "found by redact --find"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("--secret-file", metavar="FILE|-", help="a file with the secret to remove, or - for standard input (an argument would be visible to other users)")  # fmt: skip
    add(
        "--seq",
        type=number(1),
        action="append",
        default=[],
        metavar="N",
        help="remove the content of this record (repeatable)",
    )
    add("--find", action="store_true", help="search the whole store for secrets; show the place and kind of each, never the secret, and ask on a terminal which to remove")  # fmt: skip
    add(
        "--take",
        action="append",
        default=[],
        metavar="ID",
        help="with --find: remove the secret with this id, or 'all' (repeatable)",
    )
    add("--reason", metavar="TEXT", help="the reason, kept in the journal")
    add("--dry-run", action="store_true", help="show what would be done, change nothing")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import read_secret

    if arguments.find:
        return _find(face, arguments)
    if arguments.take:
        raise UsageError("--take goes with --find", mend="Write: periplus redact --find --take ID")
    if not arguments.secret_file and not arguments.seq:
        raise UsageError("name the secret with --secret-file, or records with --seq", safe="Nothing was changed.",
                         mend="`periplus redact --find` looks for secrets; see `periplus redact --help`.")  # fmt: skip
    if not arguments.reason:
        raise UsageError("a redaction needs a reason", safe="Nothing was changed.", mend="Add --reason TEXT.")
    secret = read_secret(face.cwd, arguments.secret_file) if arguments.secret_file else ""
    with _opened(face) as project:
        done = project.redact(
            secret=secret,
            seqs=arguments.seq,
            reason=arguments.reason,
            dry_run=arguments.dry_run,
            progress=face.progress("redacting"),
        )
        own = project.journal.lineage
    face.clear_progress()
    face.emit(_result(done, is_dry=arguments.dry_run), lambda: _lines(face, done, own, is_dry=arguments.dry_run))
    return 0 if done.records or done.entities or done.objects else 1


def _opened(face: Face) -> Project:
    """Open the project so that entities with other secrets stay valid; the reason is checked as usual."""
    from periplus.memory.entities.types import check_said

    project = face.open(allow_secrets=True)
    project.journal.check_said = check_said
    return project


def _result(done: Redaction, *, is_dry: bool) -> RedactOut:
    from periplus.cli.journal.redaction_schemas import RedactOut, RemainingOut, TargetOut

    return RedactOut(
        is_dry,
        [TargetOut(one.lineage, one.seq, one.action, one.item_type, one.item_id) for one in done.records],
        [f"{kind}/{item}" for kind, item in done.entities],
        [digest.hex() for digest in done.objects],
        [RemainingOut(one.where, one.mend) for one in done.remaining],
    )


def _lines(face: Face, done: Redaction, own: str, *, is_dry: bool) -> Iterator[str]:
    paint = face.palette
    verb = "would be redacted" if is_dry else "redacted"
    found = done.records or done.entities or done.objects
    count = f"{len(done.records):,} record{'s' if len(done.records) != 1 else ''} {verb}"
    yield count if found else f"{count}: no record, object or entity contains it"
    for one in done.records:
        where = f"  in {one.lineage}, which is no longer written" if one.lineage != own else ""
        yield f"  seq {one.seq:<8} {visible(f'{one.action} {one.item_type} {one.item_id}'.strip())}{where}"
    for kind, item in done.entities:
        yield f"  {visible(kind)} {visible(item)}: {'would get' if is_dry else 'has'} a version without it"
    if done.objects:
        yield f"  {len(done.objects):,} object{'s' if len(done.objects) != 1 else ''} {'would go' if is_dry else 'removed'}"
    for left in done.remaining:
        yield f"{paint.warn}not reached{paint.end} {visible(left.where)}"
        yield f"            {visible(left.mend)}"


# -- finding them ------------------------------------------------------------------------------------------------------


def _find(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.journal.redaction_schemas import RedactFindOut, SecretOut, SecretPlaceOut
    from periplus.project.care.secret_search import find_in_store

    if arguments.secret_file or arguments.seq:
        raise UsageError(
            "--find cannot be combined with --secret-file or --seq",
            safe="Nothing was changed.",
            mend="Omit --secret-file and --seq.",
        )
    with _opened(face) as project:
        found = find_in_store(project, face.progress("looking"))
        face.clear_progress()
        rows = [
            SecretOut(
                one.id,
                one.kind,
                len(one.text),
                one.place_count,
                [SecretPlaceOut(*place) for place in one.places[:_PLACES_MAX]],
                one.can_go,
            )
            for one in found
        ]
        is_asked = (
            not arguments.take
            and found
            and not face.as_json
            and face.stdout.isatty()
            and sys.stdin is not None
            and sys.stdin.isatty()
        )
        if not face.as_json:
            for line in _found_lines(face, rows, tells_how=not is_asked and not arguments.take):
                face.out(line)
        wanted = _asked(face, found) if is_asked else _wanted(found, arguments.take)
        taken = _taken(face, project, wanted, arguments)
    face.emit(RedactFindOut(rows, taken), lambda: ())
    return 0


def _found_lines(face: Face, rows: Sequence[SecretOut], *, tells_how: bool) -> Iterator[str]:
    paint = face.palette
    if not rows:
        yield "No secret was found in records, objects, trails, contexts, entity files, index, spools, caches and copies of git remotes."
        return
    yield f"{len(rows):,} secret{'s' * (len(rows) != 1)} found (their text is not shown)"
    for row in rows:
        short = "" if row.can_go else "  (too short or too long to redact by itself: name its records with --seq)"
        yield f"{paint.warn}{row.id}{paint.end}  {row.kind}, {row.characters:,} characters, in {row.count:,} place{'s' * (row.count != 1)}{short}"
        for place in row.places[:_PLACES_TOLD]:
            yield f"          {visible(place.where)}"
        if row.count > _PLACES_TOLD:
            yield f"          and {row.count - _PLACES_TOLD:,} more (--json has {min(row.count, _PLACES_MAX)})"
    if tells_how:
        yield "To remove one: periplus redact --find --take ID (or all). First revoke the secret: once written, it may be known to others."


def _wanted(found: Sequence[FoundSecret], ids: Sequence[str]) -> list[FoundSecret]:
    from periplus.base.errors import NotFoundError

    by_id = {one.id: one for one in found}
    missing = [one for one in ids if one != _ALL and one not in by_id]
    if missing:
        raise NotFoundError(
            f"no secret with the id {missing[0]!r} was found",
            safe="Nothing was changed.",
            mend="See `periplus redact --find`.",
        )
    return [one for one in found if one.can_go and (_ALL in ids or one.id in ids)]


def _asked(face: Face, found: Sequence[FoundSecret]) -> list[FoundSecret]:
    face.stdout.flush()
    face.stderr.write("Remove which? (ids separated by spaces, all, or Enter for none) ")
    face.stderr.flush()
    return _wanted(found, sys.stdin.readline(100_000).split())


def _taken(
    face: Face, project: Project, wanted: Sequence[FoundSecret], arguments: argparse.Namespace
) -> dict[str, RedactOut]:
    taken: dict[str, RedactOut] = {}
    for one in wanted:
        done = project.redact(
            secret=one.text,
            reason=arguments.reason or _REASON,
            dry_run=arguments.dry_run,
            progress=face.progress("redacting"),
        )
        face.clear_progress()
        taken[one.id] = _result(done, is_dry=arguments.dry_run)
        if not face.as_json:
            face.out(f"{one.id}  {one.kind}")
            for line in _lines(face, done, project.journal.lineage, is_dry=arguments.dry_run):
                face.out(f"  {line}")
    return taken
