"""``review``, ``confirm``, ``probe``: list memory that needs attention, confirm it, run its checks."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.changes import changed, check_typed
from periplus.cli.common.face import Face, number, visible

if TYPE_CHECKING:
    from periplus.project.knowledge.review import CheckRun

_TIMEOUT_S: Final = 300
_TOLD: Final = 50
_OUTPUT_LINES: Final = 10
_OUTPUT_CHARACTERS: Final = 4_000


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command == "confirm":
        add("ids", nargs="+", metavar="ID", help="an id, or a unique prefix of it (several: all or none)")
        add("--about", action="append", default=[], metavar="PATH", help="its new anchor, if the old one is not found: a file, lines (FILE:10-20) or a symbol (FILE:NAME); repeatable")  # fmt: skip
        add("--expires", metavar="TIME", help="for a note: when it expires now, a date or RFC 3339")
        add(
            "--key",
            default="",
            metavar="KEY",
            help="repeat a write with an unknown outcome under its key; it is written at most once",
        )
    elif command == "review":
        add("--limit", type=number(1), metavar="N",
            help=f"at most N, the most important first (default: {_TOLD}; all with --json)")  # fmt: skip
    elif command == "probe":
        add("ids", nargs="*", metavar="ID", help="which constraints and traps (default: all that are active)")
        add(
            "--allow-commands",
            action="store_true",
            help="run the commands in the project's folder, as you, without network",
        )
        add("--allow-network", action="store_true", help="also allow network access")
        add("--timeout", type=number(1, 86_400), default=_TIMEOUT_S, metavar="SECONDS",
            help=f"limit for each check (default: {_TIMEOUT_S})")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    return {"review": _review, "confirm": _confirm, "probe": _probe}[arguments.command](face, arguments)


def _review(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.review_schemas import DueOut, ReviewOut

    with face.open() as project:
        due = project.reviewing.due(face.progress("checking memory"))
        is_cut = project.reviewing.is_past_away()
        face.warn(project.journal.damage)
    face.clear_progress()
    count = len(due)
    if arguments.limit or not face.as_json:
        due = due[: arguments.limit or _TOLD]
    result = ReviewOut(
        [
            DueOut(one.entity.item_type, one.entity.item_id, str(one.entity.value.get("text", "")), list(one.stale),
                   list(one.moved), one.expired, one.check.words() if one.check else "", one.command,
                   sorted({rival for said in one.rivals for rival in said.against(one.entity.item_id)}),
                   *([*one.late.fields], [*one.late.writers], [*one.late.successors]) if one.late is not None else ([], [], []),
                   *(one.stuck.words(), [*one.stuck.members], one.stuck.otherwise) if one.stuck is not None else ("", [], ""),
                   list(one.entity.conflict_names) if one.late is not None else [],
                   str(one.entity.value["state"]) if one.unreplaced is not None else "")
            for one in due
        ],
        is_cut,
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for one in result.due:
            yield f"{one.type} {paint.name}{one.id}{paint.end}"
            yield "  " + visible(" ".join(one.text.split()), width - 2 if width else None)
            for stale in one.stale:
                yield f"  {paint.warn}stale{paint.end}: {visible(stale)}"
            for moved in one.moved:
                yield f"  {visible(moved)}"
            if one.expired:
                yield f"  {paint.warn}expired{paint.end} {visible(one.expired[:16])}"
            if one.check:
                yield f"  {paint.warn}{visible(one.check)}{paint.end}"
            for rival in one.rivals:
                yield f"  {paint.warn}competing{paint.end}: another clone replaced the same entity by {visible(rival)}"
            if one.changed_late:
                later = f" by {', '.join(map(visible, one.superseded_by))}" if one.superseded_by else ""
                ended = (
                    "superseded" if one.superseded_by else one.command.rpartition(" ")[2]
                )  # the command ends with its current state
                what = f"{', '.join(map(visible, one.changed_late))}, by {', '.join(map(visible, one.changed_by))}"
                yield f"  {paint.warn}changed late{paint.end}: {what}, without knowing that it was {visible(ended)}{later}"
            if one.in_conflict:
                yield f"  {paint.warn}in conflict{paint.end}: {visible(', '.join(one.in_conflict))}: periplus show {one.id}"
            for name in one.superseded_by:
                yield f"  {paint.dim}to keep this change: periplus set {visible(name)} FIELD=VALUE{paint.end}"
            if one.stuck:
                yield f"  {paint.warn}stuck{paint.end}: {visible(one.stuck)}"
            if one.unreplaced:
                yield f"  {paint.warn}{visible(one.unreplaced)} without a replacement{paint.end}: the entity that replaced it was deleted or redacted; to restore it:"
            yield f"  {paint.dim}{one.command}{paint.end}"
            if one.otherwise:
                yield f"  {paint.dim}or else: {one.otherwise}{paint.end}"
            if one.unreplaced:
                yield f"  {paint.dim}to leave it as it is: periplus state {one.id} {visible(one.unreplaced)}{paint.end}"
            if one.rivals:
                yield f"  {paint.dim}if both are valid: periplus link {one.id} references {visible(one.rivals[0])}{paint.end}"
        if len(due) < count:
            yield f"… and {count - len(due):,} more: periplus review --limit {count}, or --json"
        if not result.due:
            yield "Nothing is stale, expired or fails its check."
        if is_cut:
            yield f"{paint.bad}older records are missing{paint.end}, so failed checks and conflicts may be missing from this list: periplus status"

    return face.emit(result, lines, 1 if result.due else 0)


def _confirm(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.inputs import read_time
    from periplus.cli.memory.knowledge import about_typed

    expires = read_time(arguments.expires, "--expires") if arguments.expires else ""
    about = [about_typed(face, ref) for ref in arguments.about]
    with face.open() as project:
        done = project.reviewing.confirm(arguments.ids, about=about, expires=expires, key=arguments.key)
    return changed(face, done)


def _probe(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.review_schemas import ProbedOut, ProbeOut

    with face.open() as project:
        checks = project.reviewing.checks(arguments.ids)
        runs: list[CheckRun] = []
        if arguments.allow_commands and checks:
            path = face.environment.get("PATH", "")
            progress = face.progress("running checks")
            for run in project.reviewing.run(
                checks, path=path, allow_network=arguments.allow_network, seconds_max=float(arguments.timeout)
            ):
                runs.append(run)
                progress(len(runs), len(checks))
        face.warn(project.journal.damage)
    face.clear_progress()
    was_run: dict[str, CheckRun] = {one.check.entity.item_id: one for one in runs}
    rows = []
    for check in checks:
        found = was_run.get(check.entity.item_id)
        output = found.output.decode("utf-8", "replace")[-_OUTPUT_CHARACTERS:] if found else ""
        rows.append(ProbedOut(
            check.entity.item_type, check.entity.item_id, check.command, found is not None, found is not None and not found.why,
            found.why if found else "", found.took_ms if found else 0, output,
        ))  # fmt: skip
    result = ProbeOut(rows)

    def lines() -> Iterator[str]:
        paint = face.palette
        for row in result.checks:
            said = "" if not row.run else f"  passed in {row.took_ms:,} ms" if row.passed else f"  {visible(row.why)}"
            yield f"{row.type} {paint.name}{row.id}{paint.end}{said}"
            yield f"  $ {visible(row.command)}"
            if row.run and not row.passed:
                for line in row.output.splitlines()[-_OUTPUT_LINES:]:
                    yield f"  {paint.dim}{visible(line)}{paint.end}"
        if not result.checks:
            yield "No active constraint or trap has a check. Add one: periplus remember … --type constraint --check COMMAND"
        elif not arguments.allow_commands:
            yield "Nothing was run. To run these commands as you, in the project's folder: --allow-commands"

    return face.emit(result, lines, 0 if checks and all(row.passed or not row.run for row in result.checks) else 1)
