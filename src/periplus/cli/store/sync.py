"""``sync``: exchange records with other clones and other projects."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.common.schemas import RefusalOut, SyncOut
    from periplus.journal import Entity
    from periplus.journal.exchange.rebase import Rebased
    from periplus.journal.exchange.sync import SyncReport, Transfer
    from periplus.memory.reflection.candidates import Recorded
    from periplus.project.exchange.sync import Synced


_SEQS_TOLD_MAX: Final = 20
_TOLD_MAX: Final = 20  # lines of each kind; more than this nobody reads


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "sync"
    add = parser.add_argument
    add("--with", dest="where", required=True, metavar="WHERE", help="the folder of another clone, an exchange folder (created if missing), or a git remote: name, URL or path")  # fmt: skip
    add("--dry-run", action="store_true", help="show what would be exchanged, change nothing")
    add(
        "--candidates",
        action="store_true",
        help="record another project's memory, and its mail to you, as candidates to accept or refuse (see inbox)",
    )
    add("--rebase", action="store_true", help="if two stores wrote one lineage (after a backup was restored): take the other's records, and rewrite ours in a new lineage")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError

    if not arguments.where or arguments.where.startswith("-"):
        raise UsageError(f"{arguments.where!r} is not a folder or git remote", mend="See `periplus sync --help`.")
    with face.open() as project:
        done = project.sync(
            arguments.where, cwd=face.cwd, environment=face.environment, dry_run=arguments.dry_run,
            candidates=arguments.candidates, rebase=arguments.rebase, progress=face.progress("syncing"),
        )  # fmt: skip
    face.clear_progress()
    report, recorded = done.report, done.recorded
    result = _document(done)
    refusals = result.refused

    def lines() -> Iterator[str]:
        paint = face.palette
        moved = [one for one in report.transfers if one.records]
        would = "would " if report.dry_run else ""
        for fork in report.rebased:
            yield f"{paint.warn}forked{paint.end}    {visible(fork.lineage)} behind record {fork.at:,}: {_rebased(fork)}"
        if result.left and not report.rebased:
            yield f"{paint.warn}This store was restored to an earlier state{paint.end}: {visible(result.left)} continues without it"
        for one in moved:
            yield _told(one, report.place, would)
        if recorded is not None:
            yield from _taken_as_candidates(recorded, would)
        elif not moved and not refusals and not report.waiting and not report.rebased:
            yield f"Nothing new on either side ({visible(report.place)})"
        for kind, item in report.conflicts[:_TOLD_MAX]:
            see = "context refs" if kind == "context_ref" else f"show {visible(item)}"
            yield f"{paint.warn}conflict{paint.end}  {visible(kind)} {visible(item)}: periplus {see}"
        yield from _more(f"{paint.warn}conflict{paint.end} ", report.conflicts, "periplus status --json names them")
        for rivalry in done.rivalries[:_TOLD_MAX]:
            ids = " and ".join(visible(one.item_id) for one in rivalry.rivals)
            both = "both" if len(rivalry.rivals) == 2 else "all"
            yield f"{paint.warn}apart{paint.end}     {ids} {both} replace {visible(rivalry.old)}"
            yield f"          {visible(rivalry.command)}"
        yield from _more(f"{paint.warn}apart{paint.end}    ", done.rivalries, "periplus review")
        for late in done.late[:_TOLD_MAX]:
            what = f"{', '.join(map(visible, late.fields))}, by {', '.join(map(visible, late.writers))}"
            ended = "superseded" if late.successors else str(late.entity.value["state"])
            yield f"{paint.warn}late{paint.end}      {visible(late.entity.item_id)} was changed ({what}) by one clone and {visible(ended)} by another: periplus review"
        yield from _more(f"{paint.warn}late{paint.end}     ", done.late, "periplus review")
        for stuck in done.stuck[:_TOLD_MAX]:
            yield f"{paint.warn}stuck{paint.end}     {visible(stuck.words())}: periplus review"
        yield from _more(f"{paint.warn}stuck{paint.end}    ", done.stuck, "periplus review")
        for clash in done.clashes[:_TOLD_MAX]:
            yield f"{paint.warn}taken{paint.end}     {_claimed(clash.mine, clash.scope)} and {_claimed(clash.other, clash.other_scope)}, by two clones"
            if clash.dispatch:
                yield f"          One of the two dispatches has to stop, here with: periplus dispatch stop {visible(clash.dispatch)}"
            else:
                yield f"          One of them has to be released, here with: periplus claim release {visible(clash.mine.item_id)}"
        yield from _more(f"{paint.warn}taken{paint.end}    ", done.clashes, "periplus claim list")
        for left in report.unsigned:
            what = f"{left.records:,} record{'s' * (left.records != 1)} of {visible(left.lineage)}"
            yield f"{paint.warn}unsigned{paint.end}  {what} stay{'s' * (left.records == 1)} here: {visible(report.place)} accepts only signed records, and this clone cannot sign them"
            yield "          The clone that writes that lineage can push them. If there is none any more, push to a clone's folder: periplus sync --with FOLDER"
        if report.returned:
            what = "1 record" if report.returned == 1 else f"{report.returned:,} records"
            how = "would be" if report.dry_run else "is"
            yield f"{paint.good}restored{paint.end}  the content of {what} of this clone, lost by damage, {how} restored from {visible(report.place)}"
        if report.emptied_out:
            what = "1 record" if report.emptied_out == 1 else f"{report.emptied_out:,} records"
            yield f"{paint.good}redacted{paint.end}  {what} in {visible(report.place)}; the next command there updates its entity files"
        yield from _redacted_there(face, report)
        yield from _waiting(face, report)
        yield from _refused(face, refusals)

    return face.emit(result, lines, max((error.exit_code for error in report.refusals), default=0))


def _refused(face: Face, refusals: Sequence[RefusalOut]) -> Iterator[str]:
    bad, end = face.palette.bad, face.palette.end
    for refusal in refusals[:_TOLD_MAX]:
        yield f"{bad}refused{end}   {visible(refusal.wrong)}"
        rest = " ".join(part for part in (refusal.safe, refusal.next) if part)
        if rest:
            yield f"          {visible(rest)}"
    yield from _more(f"{bad}refused{end}  ", refusals, "repeat with --json to list them")


def _taken_as_candidates(recorded: Recorded, would: str) -> Iterator[str]:
    count = len(recorded.written)
    yield f"{count:,} candidate{'s' if count != 1 else ''} {would and 'would be '}recorded, {recorded.known:,} already known"
    for skipped in recorded.skipped[:_TOLD_MAX]:
        yield f"  skipped {visible(skipped.item_type)} {visible(skipped.item_id)}: {visible(skipped.reason)}"
    yield from _more("  skipped", recorded.skipped, "repeat with --json to list them")
    if count and not would:
        yield "Next: periplus inbox list"


def _more(label: str, told: Sized, where: str) -> Iterator[str]:
    """Yield a line with the number of items that are not listed."""
    if len(told) > _TOLD_MAX:
        yield f"{label} … and {len(told) - _TOLD_MAX:,} more: {where}"


def _redacted_there(face: Face, report: SyncReport) -> Iterator[str]:
    """Yield lines about records that a copy redacted: only this clone can redact its own records."""
    seqs = report.emptied_there
    if not seqs:
        return
    paint = face.palette
    what = (
        "1 record of this clone lost its content"
        if len(seqs) == 1
        else f"{len(seqs):,} records of this clone lost their content"
    )
    yield f"{paint.warn}redacted{paint.end}  {what} in {visible(report.place)}: a copy of this store redacted it. It is still here:"
    named = " ".join(f"--seq {seq}" for seq in seqs[:_SEQS_TOLD_MAX])
    more = f" … ({len(seqs) - _SEQS_TOLD_MAX:,} more: --json)" if len(seqs) > _SEQS_TOLD_MAX else ""
    yield f"          periplus redact {named} --reason TEXT{more}"


def _claimed(claim: Entity, scope: str) -> str:
    return f"{visible(scope)} by {visible(str(claim.value.get('holder', '')))} [{visible(claim.item_id)}]"


def _document(done: Synced) -> SyncOut:
    from periplus.cli.common.conversion import stuck_out
    from periplus.cli.common.schemas import (
        ClashOut,
        LateChangeOut,
        RebasedOut,
        RefusalOut,
        RivalryOut,
        SkippedOut,
        SyncOut,
        TransferOut,
        UnsignedOut,
        WaitingOut,
    )  # fmt: skip

    report, recorded = done.report, done.recorded
    refusals = [
        RefusalOut(one.lineage, one.direction, one.refused.code, str(one.refused), one.refused.safe, one.refused.mend)
        for one in report.transfers
        if one.refused is not None
    ]
    return SyncOut(
        report.place, report.store, report.dry_run,
        [
            TransferOut(one.lineage, one.direction, one.records, one.first_seq, one.last_seq, one.size, one.objects,
                        one.object_bytes, one.objects_missing, one.objects_left_out, one.held, one.objects_taken_out)
            for one in report.transfers if one.refused is None
        ],
        refusals, [f"{kind}/{item}" for kind, item in report.conflicts], report.left,
        list(recorded.written) if recorded is not None else [],
        [SkippedOut(one.item_type, one.item_id, one.reason) for one in recorded.skipped] if recorded is not None else [],
        [WaitingOut(*one) for one in report.waiting],
        [RivalryOut(one.old, [rival.item_id for rival in one.rivals], one.command) for one in done.rivalries],
        [RebasedOut(*one) for one in report.rebased], [UnsignedOut(*one) for one in report.unsigned],
        [LateChangeOut(late.entity.item_id, [*late.fields], [*late.writers], [*late.successors], late.command)
         for late in done.late],
        list(report.emptied_there), report.returned, report.emptied_out, [stuck_out(one) for one in done.stuck],
        [ClashOut(one.mine.item_id, str(one.mine.value.get("holder", "")), one.scope, one.other.item_id,
                  str(one.other.value.get("holder", "")), one.other_scope) for one in done.clashes],
    )  # fmt: skip


def _waiting(face: Face, report: SyncReport) -> Iterator[str]:
    """Yield lines about lineages of stores that one side does not know as this project's, and what to do."""
    paint = face.palette
    for way, store in sorted({(one.direction, one.store) for one in report.waiting}):
        count = sum((one.direction, one.store) == (way, store) for one in report.waiting)
        what = f"{count:,} lineage{'s' * (count != 1)} of store {visible(store)}"
        if way == "in":
            yield f"{paint.warn}waiting{paint.end}   {what} at {visible(report.place)}: config.toml here does not name that store, so nothing was received"
            yield "          If both stores belong to this project and were joined, `git pull` fetches the settings. Then repeat the sync."
        else:
            yield f"{paint.warn}waiting{paint.end}   {what} here: config.toml at {visible(report.place)} does not name that store, so nothing was sent"
            yield "          Run `git pull` there to fetch the settings that join the two stores. Then repeat the sync."


def _rebased(one: Rebased) -> str:
    if not one.into:
        return f"of {one.cut:,} records here {one.written:,} would be rewritten in a new lineage"
    return f"of {one.cut:,} records here {one.written:,} were rewritten in {visible(one.into)}; the old files are in parked/"


def _told(one: Transfer, place: str, would: str) -> str:
    verb = (
        ("comes" if one.records == 1 and not would else "come")
        if one.direction == "in"
        else ("goes" if one.records == 1 and not would else "go")
    )
    way = f"{would}{verb} {'from' if one.direction == 'in' else 'to'}"
    numbers = f"{one.first_seq:,}" if one.records == 1 else f"{one.first_seq:,} to {one.last_seq:,}"
    objects = f", {one.objects:,} object{'s' if one.objects != 1 else ''}" if one.objects else ""
    missing = f", {one.objects_missing:,} missing there" if one.objects_missing else ""
    missing += (
        f", {one.objects_left_out:,} left out that {'was' if one.objects_left_out == 1 else 'were'} redacted"
        if one.objects_left_out
        else ""
    )
    if gone := one.objects_taken_out:
        where = "here" if one.direction == "in" else "there"
        missing += f", {gone:,} taken out {where} that {'it says was' if gone == 1 else 'it says were'} redacted"
    record = f"record{'s' if one.records != 1 else ''} {numbers}"
    return f"{visible(one.lineage)}: {record} {way} {visible(place)} ({one.size:,} bytes{objects}{missing})"
