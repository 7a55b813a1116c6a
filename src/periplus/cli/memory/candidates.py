"""``reflect`` and ``candidates``: propose memory from trails, and accept or refuse proposals."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.changes import add_insist
from periplus.cli.common.face import Face, plain, visible

if TYPE_CHECKING:
    from periplus.cli.memory.candidate_schemas import CandidateOut, ReflectOut
    from periplus.project.knowledge.reflection import Reflected

_TYPES: Final = ("constraint", "decision", "lesson", "note", "trap")


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "reflect":
        add = parser.add_argument
        add(
            "trails",
            nargs="*",
            metavar="TRAIL",
            help="the id or digest of a trail, or a prefix of it (default: the newest)",
        )
        add("--all", action="store_true", help="all trails")
        add(
            "--since",
            default="",
            metavar="TIME",
            help="trails that began later: a date, RFC 3339, or an age such as 2h, 3d, 1w",
        )
        add("--dry-run", action="store_true", help="show the proposals, write nothing")
        return
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    listing = actions.add_parser(
        "list", help="list candidates that are not decided yet", description="List candidates that are not decided yet."
    )
    listing.add_argument("--all", action="store_true", help="include accepted and refused ones")
    rows = (
        ("show", "show one candidate and its evidence"),
        ("accept", "accept a candidate into this memory, with another text if you want"),
        ("refuse", "refuse a candidate; it is not proposed again"),
    )
    for name, what in rows:
        sub = actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        sub.add_argument("id", metavar="ID", help="the id of the candidate, or a unique prefix of it")
        if name == "accept":
            sub.add_argument("--text", metavar="TEXT", help="save this text instead")
            sub.add_argument("--type", choices=_TYPES, default="", help="save it as this type instead")
        elif name == "refuse":
            sub.add_argument("--reason", metavar="TEXT", help="the reason, kept with the candidate")
        if name != "show":
            add_insist(sub)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.command == "reflect":
        return _reflect(face, arguments)
    return {"list": _list, "show": _show, "accept": _accept, "refuse": _refuse}[arguments.action](face, arguments)


def _reflect(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import read_past_time

    if sum((bool(arguments.trails), arguments.all, bool(arguments.since))) > 1:
        raise UsageError(
            "TRAIL, --all and --since cannot be combined", safe="Nothing was written.", mend="Use only one of them."
        )
    for reference in arguments.trails:
        if not plain(reference, "TRAIL").strip():
            raise UsageError("TRAIL is empty", safe="Nothing was written.", mend="See `periplus trail list`.")
    since = read_past_time(arguments.since, "--since") if arguments.since else ""
    with face.open() as project:
        done = project.reflection.reflect(
            arguments.trails, every=arguments.all, since=since, dry_run=arguments.dry_run,
            progress=face.progress("reflecting"),
        )  # fmt: skip
    face.clear_progress()
    for trail, error in done.damaged:
        face.stderr.write(f"periplus: trail {trail} cannot be read: {visible(str(error))}\n")
    result = _reflected(done, dry_run=arguments.dry_run)
    return face.emit(result, lambda: _told(face, result), 3 if done.damaged else 0 if done.trails else 1)


def _reflected(done: Reflected, *, dry_run: bool) -> ReflectOut:
    from periplus.cli.common.schemas import SkippedOut
    from periplus.cli.memory.candidate_schemas import NearOut, ProposedOut, ReflectOut, SeenOut, UnreadTrailOut

    ours = dict(done.accepted)
    return ReflectOut(
        dry_run, len(done.trails),
        [
            ProposedOut(
                made.item_id, made.proposal.item_type, made.proposal.rule, made.proposal.text, made.proposal.why,
                made.proposal.confidence, made.proposal.remedy, list(made.proposal.about),
                [SeenOut(f"{seen.trail}#{seen.step}", seen.quote) for seen in made.proposal.seen], made.is_new,
                ours[made.item_id].entity.item_id if made.item_id in ours else "",
            )
            for made in done.written
        ],
        done.known, [NearOut(one.proposal.text, one.item_id) for one in done.near],
        [SkippedOut(one.item_type, one.item_id, one.reason) for one in done.skipped],
        [UnreadTrailOut(trail, str(error)) for trail, error in done.damaged],
    )  # fmt: skip


def _told(face: Face, result: ReflectOut) -> Iterator[str]:
    paint, width = face.palette, face.width
    if not result.trails:
        yield "There are no trails. Next: periplus trail import FILE, or --all"
        return
    count, trails = len(result.candidates), f"{result.trails:,} trail{'' if result.trails == 1 else 's'}"
    rest = "".join(
        f", {number:,} {what}"
        for number, what in ((result.known, "known already"), (len(result.near), "similar to existing memory"))
        if number
    )
    would = "would be proposed" if result.dry_run else "proposed"
    yield f"{trails}: {count or 'nothing'} {would}{rest}"
    for one in result.candidates:
        accepted = f", accepted as {one.accepted_as}" if one.accepted_as else ""
        yield f"{paint.name}{one.id}{paint.end}  {one.type}, confidence {one.confidence}{accepted}"
        yield f"  {visible(one.text, width and width - 2)}"
        yield f"  {visible(one.why, width and width - 2)}"
    for skipped in result.skipped:
        yield f"skipped a {visible(skipped.type)}: {visible(skipped.reason)}"
    if count and not result.dry_run and any(not one.accepted_as for one in result.candidates):
        yield "Next: periplus candidates show ID, accept ID, or refuse ID"


def _list(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.candidate_schemas import CandidatesOut
    from periplus.cli.memory.candidate_text import candidate_out

    with face.open() as project:
        found = project.reflection.candidates(with_decided=arguments.all)
    result = CandidatesOut([candidate_out(one) for one in found])

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for one in result.candidates:
            state = "" if one.state == "pending" else f", {one.state}"
            yield f"{paint.name}{one.id}{paint.end}  {visible(one.type)}{state}, {_from(one)}"
            yield f"  {visible(one.text, width and width - 2)}"
        if not result.candidates:
            yield "There are no open candidates."
        elif not arguments.all:
            yield "Next: periplus candidates show ID, accept ID, or refuse ID"

    return face.emit(result, lines, 0 if result.candidates else 1)


def _from(one: CandidateOut) -> str:
    from periplus.cli.memory.candidate_text import between

    if one.origin == "reflection":
        return f"confidence {one.confidence}, by the rule {visible(one.rule)}"
    return f"of {visible(one.store)}{between(one)}"


def _show(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.candidate_schemas import CandidateShownOut
    from periplus.cli.memory.candidate_text import candidate_out

    with face.open() as project:
        one = candidate_out(project.reflection.candidate(arguments.id))

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"{paint.name}{one.id}{paint.end}  {visible(one.type)}, {one.state}, {_from(one)}"
        yield f"  {visible(one.text)}"
        for label, value in (
            ("remedy", one.remedy), ("why", one.why), ("about", ", ".join(one.about)),
            ("accepted as", one.accepted_as), ("refused for", one.reason),
        ):  # fmt: skip
            if value:
                yield f"{label:12}{visible(value)}"
        for seen in one.evidence:
            yield f"{'seen':12}{visible(seen.ref)}  {visible(seen.quote)}".rstrip()
        if one.state == "pending":
            yield f"Next: periplus candidates accept {one.id}, or refuse"

    face.emit(CandidateShownOut(one), lines)
    return 0


def _accept(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.candidate_schemas import CandidateDecidedOut

    text = _words(arguments.text, "--text")
    with face.open(allow_secrets=arguments.insist) as project:
        done = project.reflection.accept(arguments.id, text=text, item_type=arguments.type)
    result = CandidateDecidedOut("accepted", done.entity.item_type, done.entity.item_id, done.is_new)

    def lines() -> Iterator[str]:
        if result.new:
            yield f"Accepted as {visible(result.type)} {result.id}"
        else:
            yield f"Accepted: {visible(result.type)} {result.id} already says the same"

    face.emit(result, lines)
    return 0


def _words(text: str | None, option: str) -> str:
    """Return the text of an option, empty if it is missing. Raises UsageError for an empty text."""
    from periplus.base.errors import UsageError

    if text is not None and not plain(text, option).strip():
        raise UsageError(f"{option} is empty", safe="Nothing was written.", mend="Write a text, or omit the option.")
    return text or ""


def _refuse(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.candidate_schemas import CandidateDecidedOut

    reason = _words(arguments.reason, "--reason")
    with face.open(allow_secrets=arguments.insist) as project:
        entity = project.reflection.refuse(arguments.id, reason=reason)
    result = CandidateDecidedOut("rejected", entity.item_type, entity.item_id, new=False)
    face.emit(result, lambda: iter([f"Refused {result.id}"]))
    return 0
