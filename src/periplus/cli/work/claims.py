"""``claim`` and ``check``: claims on paths, and what applies to a path."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from periplus.base.errors import UsageError
from periplus.cli.common.changes import add_insist, changed, check_typed
from periplus.cli.common.face import Face, number, visible
from periplus.cli.work.text import claim_line, claim_out

if TYPE_CHECKING:
    from periplus.cli.work.claim_schemas import RuleOut
    from periplus.memory.coordination.path_check import Applying
    from periplus.project import Project

_WAIT_MAX = 86_400


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "check":
        parser.add_argument(
            "paths", nargs="+", metavar="PATH", help="a file or folder of the project, or FILE:SYMBOL (repeatable)"
        )
        return
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    what = "claim paths; refused if somebody else holds them"
    take = actions.add_parser("take", help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)
    take.add_argument(
        "scopes",
        nargs="+",
        metavar="SCOPE",
        help="a path, a glob (`src/**/x_*.py`), or PATH:SYMBOL; a folder includes everything in it",
    )
    take.add_argument(
        "--shared", action="store_true", help="share the claim with others who pass --shared, too (default: exclusive)"
    )
    take.add_argument("--text", default="", metavar="TEXT", help="what you are doing")
    take.add_argument(
        "--ttl", type=number(10, 604_800), default=7200, metavar="SECONDS",
        help="how long the claim lasts without activity of yours (default: 7200)",
    )  # fmt: skip
    take.add_argument(
        "--wait", type=number(0, _WAIT_MAX), default=0, metavar="SECONDS",
        help="wait in line for a held path, at most this long (default: 0, do not wait)",
    )  # fmt: skip
    take.add_argument(
        "--key",
        default="",
        metavar="KEY",
        help="repeat a write with an unknown outcome under its key; it is written at most once",
    )
    add_insist(take)
    what = "list current claims"
    actions.add_parser("list", help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)
    what = "release claims"
    drop = actions.add_parser("release", help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)
    drop.add_argument("ids", nargs="*", metavar="ID", help="which claims (default: all of yours)")
    drop.add_argument("--force", action="store_true", help="also claims of others; the record says that you did")
    drop.add_argument("--reason", default="", metavar="TEXT", help="why")
    add_insist(drop)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    if arguments.command == "check":
        return _check(face, arguments)
    return {"take": _take, "list": _list, "release": _release}[arguments.action](face, arguments)


def _take(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.claim_schemas import ClaimTakenOut
    from periplus.memory.claim_status import scopes_of
    from periplus.memory.coordination.claims import Asked

    told: list[str] = []

    def wait(seconds: float) -> bool:
        if not told:
            told.append(
                f"somebody else holds these paths; waiting up to {arguments.wait:,} s (see periplus claim list)"
            )
            face.tell_terminal(told[0])
        return face.wait(seconds)

    with face.open(allow_secrets=arguments.insist) as project:
        scopes = tuple(project.work.scope(word, cwd=face.cwd) for word in arguments.scopes)
        asked = Asked(scopes, "shared" if arguments.shared else "exclusive", arguments.text, arguments.ttl)
        done = project.work.claim(asked, wait_s=arguments.wait, wait=wait, key=arguments.key)
        symbols = project.work.claimed_symbols()
        claim, now_ms = claim_out(project, done.claim, symbols), project.journal.clock.now_ms()
        missing = symbols.missing(scopes_of(done.claim)) if done.is_new else []
    result = ClaimTakenOut(claim, done.is_new, done.receipt.key if done.receipt else "")
    for one in missing:
        face.stderr.write(f"periplus: {visible(one)}\n")
    face.emit(result, lambda: [("" if done.is_new else "Renewed: ") + claim_line(face, claim, now_ms)])
    return 0


def _list(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.claim_schemas import ClaimListOut

    del arguments
    with face.open() as project:
        symbols = project.work.claimed_symbols()
        claims = [claim_out(project, claim, symbols) for claim in project.work.claims()]
        waiting = [claim_out(project, claim, symbols) for claim in project.work.waiting()]
        now_ms = project.journal.clock.now_ms()

    def lines() -> Iterator[str]:
        for claim in claims:
            yield claim_line(face, claim, now_ms)
            if not claim.step:
                yield "  " + visible(" ".join(claim.text.split()), face.width and face.width - 2)
        for claim in waiting:
            who = "you wait" if claim.own else f"{face.palette.name}{visible(claim.holder)}{face.palette.end} waits"
            yield f"{claim.id}  {who} for {visible(', '.join(claim.scopes))} since {claim.created[:16]}Z"
        if not claims and not waiting:
            yield "There are no claims."

    return face.emit(ClaimListOut(claims, waiting), lines, 0 if claims else 1)


def _release(face: Face, arguments: argparse.Namespace) -> int:
    with face.open(allow_secrets=arguments.insist) as project:
        done = project.work.release(arguments.ids, force=arguments.force, reason=arguments.reason)
    return changed(face, done)


def _check(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.claim_schemas import CheckedClaimOut, CheckOut, DependentsOut

    with face.open(in_hurry=True) as project:
        inside, outside = _sorted_out(face, project, arguments.paths)
        found = project.work.check(inside)
        symbols = project.work.claimed_symbols()
        claims = [CheckedClaimOut(one.path, claim_out(project, one.entity, symbols)) for one in found.claims]
        dependents = project.most_dependents(found.paths)
        now_ms = project.journal.clock.now_ms()
    rules = [_rule_out(one) for one in found.rules]
    result = CheckOut(list(found.paths), bool(found.blocked), claims, rules, found.left_out, outside,
                      [DependentsOut(str(one.symbol), one.total, one.elsewhere, one.tests, one.calls) for one in dependents])  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        for checked in claims:
            mark = "" if checked.claim.own or checked.claim.mode == "shared" else f"{paint.bad}taken{paint.end} "
            yield f"{mark}{visible(checked.path)}: {claim_line(face, checked.claim, now_ms)}"
        for rule in rules:
            severity = f"{rule.severity} " if rule.severity else ""
            yield f"{paint.warn}{severity}{rule.type}{paint.end} {visible(rule.path)}: {visible(' '.join(rule.text.split()))} [{rule.id}]"
            if rule.remedy:
                yield f"  {visible(' '.join(rule.remedy.split()))}"
            if rule.moved_from:
                yield f"  written for {visible(rule.moved_from)}, which moved here; if it still holds: periplus confirm {rule.id}"
        if found.left_out:
            yield f"{found.left_out} more constraints and traps: check fewer paths."
        if dependents:
            from periplus.code.queries.dependents import dependents_text

            yield from (f"{visible(str(one.symbol))} is {dependents_text(one)}" for one in dependents)
        if not claims and not rules:
            yield "No claims, constraints or traps for these paths."
        for path in outside:
            yield f"{visible(path)} is outside the project, so nothing is known about it."

    return face.emit(result, lines, 1 if found.blocked else 0)


def _sorted_out(face: Face, project: Project, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split ``paths`` into those of the project, relative to it, and those outside, as typed. Raises UsageError if all are outside."""
    inside: list[str] = []
    outside: list[str] = []
    for path in paths:
        try:
            inside.append(project.work.path(path, cwd=face.cwd))
        except UsageError:
            if not path or len(outside) + 1 == len(paths):
                raise
            outside.append(path)
    return inside, outside


def _rule_out(one: Applying) -> RuleOut:
    from periplus.cli.work.claim_schemas import RuleOut

    text, severity, remedy, check = (
        str(one.entity.value.get(name, "")) for name in ("text", "severity", "remedy", "check")
    )
    return RuleOut(
        one.path, one.entity.item_type, one.entity.item_id, text, severity, remedy, check, moved_from=one.moved_from
    )
