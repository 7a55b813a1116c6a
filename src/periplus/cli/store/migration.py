"""``migrate``: import a folder of the notification log (version 1) into the journal, mirror it, or go back."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.interop.version1.folder import Finding

_LISTED_MAX: Final = 10
_MEANING: Final = {
    "off": "the folder is not used",
    "dual": "the journal is primary, the folder mirrors it",
    "primary": "only the journal is read, the folder is restored from it",
}
_NEXT: Final = {
    "dual": "periplus migrate --to primary, once the older program no longer needs the folder; periplus migrate --to off goes back",
    "primary": "periplus migrate --to dual goes back",
}
_TITLES: Final = {
    "unreadable": "unreadable, left in place",
    "refused": "refused, left in place",
    "duplicate": "duplicate: names an entity of another file",
    "conflict": "changed on both sides: --take files or --take journal",
    "edited": "changed in the folder: --take files or --take journal",
    "deleted": "deleted in the journal but still a file: --take files or --take journal",
    "missing": "missing in the folder: --heal restores it",
    "kept_foreign": "kept unchanged: its type is unknown",
    "torn_line": "unreadable line of the log",
    "orphan_event": "in the log, but without a file",
    "unnamed_file": "not in the log",
    "other": "neither an entity nor a log, left in place",
}


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("--from", dest="source", metavar="DIR", help="the folder of version 1 (default: the last one used)")
    add("--to", choices=("off", "dual", "primary"), help="the new mode (default: show the current one)")
    add("--dry-run", action="store_true", help="show what would be done, change nothing")
    add("--heal", action="store_true", help="restore files that are missing in the folder")
    add("--take", choices=("files", "journal"), help="which side wins if both changed; the other version is kept aside")
    add(
        "--insist",
        "--allow-secret",
        dest="insist",
        action="store_true",
        help="take files that look as if they held a secret",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.schemas import FindingOut, MigrateOut
    from periplus.project.migration import migrate, migration_status

    if arguments.source and not arguments.to:
        raise UsageError("--from needs --to dual", safe="Nothing was changed.",
                         mend="Look first: periplus migrate --from DIR --to dual --dry-run")  # fmt: skip
    acts = arguments.to or arguments.heal or arguments.take
    with face.open(allow_secrets=arguments.insist) as project:
        if not acts:
            done = migration_status(project)
        else:
            done = migrate(
                project, arguments.to or "", source=face.path(arguments.source) if arguments.source else "",
                take=arguments.take or "", heal=arguments.heal, is_dry=arguments.dry_run,
                allow_secrets=arguments.insist, progress=face.progress("copying the folder aside"),
            )  # fmt: skip
        face.clear_progress()
        backup = os.path.join(project.root, done.backup) if done.backup else ""
    findings = [FindingOut(one.kind, one.path, one.why, one.other) for one in done.findings]
    result = MigrateOut(done.mode, done.source, backup, done.is_dry, done.counts, findings)

    def lines() -> Iterator[str]:
        paint = face.palette
        if acts and done.is_dry:
            yield f"Nothing was changed. {'This is what would be done:' if arguments.dry_run else 'The folder is not used at the moment.'}"
        yield f"mode     {paint.bold}{done.mode}{paint.end}: {_MEANING[done.mode]}"
        if not done.source:
            yield "Next: periplus migrate --from DIR --to dual --dry-run"
            return
        yield f"folder   {visible(done.source)}"
        if backup:
            yield f"backup   {visible(backup)}"
        yield from _count_lines(done.counts)
        yield from _finding_lines(done.findings)
        if arguments.dry_run:
            yield "Next: the same without --dry-run"
        elif arguments.to in _NEXT and not done.counts["conflicts"]:
            yield f"Next: {_NEXT[arguments.to]}"

    return face.emit(result, lines, 1 if done.has_problems else 0)


def _count_lines(counts: dict[str, int]) -> Iterator[str]:
    if not counts:
        return
    yield (
        f"files    {counts['candidates']:,} = {counts['entities']:,} entit{'ies' if counts['entities'] != 1 else 'y'}"
        f" + {counts['duplicates']:,} duplicate{'s' if counts['duplicates'] != 1 else ''}"
        f" + {counts['unreadable']:,} unreadable + {counts['refused']:,} refused"
    )
    done = [
        f"{counts[name]:,} {name.replace('_', ' ')}"
        for name in ("imported", "taken_in", "written", "parked")
        if counts[name]
    ]
    yield f"done     {', '.join(done) or 'nothing was to be done'}"
    if counts["history"]:
        yield f"history  {counts['history']:,} earlier version{'s' if counts['history'] != 1 else ''} that the journal of segments tells of"
    if counts["kept_foreign"]:
        yield f"whole    {counts['kept_foreign']:,} kept with all their keys, for they fit none of our types"
    yield (
        f"log      {counts['log_lines']:,} line{'s' if counts['log_lines'] != 1 else ''}, {counts['log_torn']:,} torn, {counts['log_repeated']:,} repeated,"
        f" {counts['orphan_events']:,} entit{'ies' if counts['orphan_events'] != 1 else 'y'} that no file holds"
    )


def _finding_lines(findings: list[Finding]) -> Iterator[str]:
    for kind, title in _TITLES.items():
        found = [one for one in findings if one.kind == kind]
        if found:
            yield f"{len(found):,} {title}"
        for one in found[:_LISTED_MAX]:
            other = f" (kept: {one.other})" if one.other else ""
            yield f"  {visible(one.path)}: {visible(one.why)}{visible(other)}"
        if len(found) > _LISTED_MAX:
            yield f"  and {len(found) - _LISTED_MAX:,} more: --json lists all"
