"""``remember``, ``recall``, ``brief``, ``show``, ``log``: what the project knows."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, visible

if TYPE_CHECKING:
    from periplus.base.canonical import JSONValue

_TYPES: Final = ("decision", "constraint", "trap", "lesson", "note")
_FIELDS: Final = ("rationale", "remedy", "severity", "check", "expires")


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    {
        "remember": _configure_remember,
        "recall": _configure_recall,
        "brief": _configure_brief,
        "show": _configure_show,
        "log": _configure_log,
    }[command](parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return {"remember": _remember, "recall": _recall, "brief": _brief, "show": _show, "log": _log}[arguments.command](
        face, arguments
    )


def _configure_remember(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="what to remember; - reads it from standard input")
    add("--type", choices=_TYPES, default="note", help="default: note")
    add("--about", action="append", default=[], metavar="PATH|ID", help="what it is about (repeatable)")
    add("--tag", action="append", default=[], metavar="TAG", help="(repeatable)")
    add(
        "--evidence",
        action="append",
        default=[],
        metavar="KIND:REF",
        help="record:SEQ, step:TRAIL#N or commit:ID (repeatable)",
    )
    add("--confidence", type=int, default=100, metavar="0-100")
    add("--rationale", metavar="TEXT", help="of a decision: why")
    add(
        "--alternative",
        action="append",
        default=[],
        metavar="TEXT",
        help="of a decision: what was not chosen (repeatable)",
    )
    add("--severity", choices=("low", "medium", "high", "critical"), help="of a trap")
    add("--remedy", metavar="TEXT", help="of a trap: what to do")
    add("--check", metavar="COMMAND", help="of a constraint or trap: how to check it")
    add("--expires", metavar="TIME", help="of a note: RFC 3339")
    add("--supersedes", action="append", default=[], metavar="ID", help="what this replaces (repeatable)")
    add("--key", default="", metavar="KEY", help="repeat a write whose outcome is unknown: it is never written twice")
    add("--allow-secret", action="store_true", help="write it although it looks like a secret")


def _configure_recall(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("question", metavar="QUESTION")
    add("--type", action="append", default=[], choices=(*_TYPES, "trail"), help="only these (repeatable)")
    add("--kind", action="append", default=[], choices=("prompt", "answer", "command", "commit", "session"),
        help="of trails, only these (repeatable)")  # fmt: skip
    add("--tag", default="", metavar="TAG")
    add("--author", default="", metavar="NAME")
    add("--path", default="", metavar="PATH", help="only what touched this path")
    add("--since", default="", metavar="TIME", help="a date, or RFC 3339")
    add("--all", action="store_true", help="superseded, resolved and expired ones too")
    add("--limit", type=int, default=10, metavar="N", help="default: 10")
    add("--offset", type=int, default=0, metavar="N", help="for the next page")
    add("--budget", type=int, metavar="TOKENS", help="at most this many tokens of text")


def _configure_brief(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--budget", type=int, default=4_000, metavar="TOKENS", help="never exceeded (default: 4000)")


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", metavar="ID", help="an id, or its unique beginning")


def _configure_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--before", type=int, metavar="SEQ", help="for the next page")
    parser.add_argument("--type", choices=(*_TYPES, "trail"), default="", help="only records of this type")


def _remember(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.convert import entity_out
    from periplus.cli.schemas import RememberOut
    from periplus.memory import Memory

    text = _standard_input() if arguments.text == "-" else arguments.text
    extra: dict[str, JSONValue] = {name: getattr(arguments, name) for name in _FIELDS if getattr(arguments, name)}
    if arguments.alternative:
        extra["alternatives"] = arguments.alternative
    agent = face.environment.get("PERIPLUS_AGENT", "")
    memory = Memory(
        arguments.type,
        text,
        tags=tuple(arguments.tag),
        about=tuple(arguments.about),
        evidence=tuple(_evidence(word) for word in arguments.evidence),
        confidence=arguments.confidence,
        extra=extra,
        provenance=("agent" if agent else "person", ""),
        supersedes=tuple(arguments.supersedes),
    )
    with face.open(allow_secrets=arguments.allow_secret) as project:
        done = project.remember(memory, key=arguments.key)
    entity = done.entity
    result = RememberOut(entity_out(entity), done.is_new, done.receipt.key if done.receipt else "", list(done.near))

    def lines() -> Iterator[str]:
        if not done.is_new:
            yield f"Known already as {entity.item_id} (rev {entity.rev}, {entity.ts[:10]}); nothing was written."
            return
        yield f"Remembered the {entity.item_type} {face.palette.name}{entity.item_id}{face.palette.end} as record {entity.seq}."
        for near in done.near:
            yield f"  Says almost the same: {near}. To replace it: --supersedes {near}"

    face.emit(result, lines)
    return 0


def _standard_input() -> str:
    import sys

    return sys.stdin.read(1 << 20)


def _evidence(word: str) -> tuple[str, str]:
    from periplus.base.errors import UsageError

    kind, found, ref = word.partition(":")
    if not found or kind not in ("record", "step", "commit") or not ref:
        raise UsageError(f"{word!r} is no evidence", mend="It is record:SEQ, step:TRAIL#N or commit:ID.")
    return kind, ref


def _recall(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.convert import hit_out
    from periplus.cli.schemas import RecallOut
    from periplus.memory import Filters

    if arguments.limit < 1 or arguments.offset < 0 or (arguments.budget is not None and arguments.budget < 1):
        raise UsageError("--limit and --budget are at least 1, --offset at least 0")
    filters = Filters(
        tuple(arguments.type), tuple(arguments.kind), arguments.tag, arguments.author, arguments.path, arguments.since,
        arguments.all,
    )  # fmt: skip
    with face.open() as project:
        found = project.recall(
            arguments.question,
            limit=arguments.limit,
            offset=arguments.offset,
            budget_tokens=arguments.budget,
            filters=filters,
        )
        _warn(face, project.journal.damage)
    result = RecallOut(
        arguments.question, list(found.terms), [hit_out(hit) for hit in found.hits], found.matched, found.left_out
    )

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        if not found.hits:
            yield "Nothing is known about that."
            return
        for hit in found.hits:
            state = f", {hit.state}" if hit.state not in ("", "active", "accepted") else ""
            where = hit.item_id if hit.part < 0 else f"{hit.item_id}#{hit.part}"
            yield f"{paint.name}{hit.kind}{paint.end} {where}  {paint.dim}{hit.ts[:10]}{state}{paint.end}"
            text = " ".join(hit.text.split())
            yield "  " + visible(text if len(text) <= 300 else text[:299] + "…", width - 2 if width else None)
            if hit.stale:
                yield f"  {paint.warn}stale{paint.end}: {visible(', '.join(hit.stale))} changed since this was written"
            yield f"  {paint.dim}{visible('; '.join((*hit.why, *hit.evidence)), width - 2 if width else None)}{paint.end}"
        if found.left_out:
            yield f"{found.left_out} more: --offset {arguments.offset + len(found.hits)}"

    face.emit(result, lines)
    return 0 if found.hits else 1


def _brief(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.schemas import BriefOut, SectionOut

    with face.open() as project:
        found = project.brief(arguments.task, budget_tokens=arguments.budget)
        _warn(face, project.journal.damage)
    sections = [
        SectionOut(s.title, [line.text for line in s.lines], [line.source for line in s.lines], s.left_out, s.more)
        for s in found.sections
    ]
    result = BriefOut(found.task, found.budget, found.tokens, found.text, sections, found.left_out)
    face.emit(result, lambda: [visible(found.text.rstrip("\n"), lines=True)])
    return 0


def _show(face: Face, arguments: argparse.Namespace) -> int:
    import json

    from periplus.cli.convert import entity_out, record_out
    from periplus.cli.schemas import ShowOut
    from periplus.memory import stale_paths

    with face.open() as project:
        entity = project.show(arguments.reference)
        history = project.history(entity)
        stale = stale_paths(entity, project.folder)
    result = ShowOut(entity_out(entity), list(stale), [record_out(record) for record in history])

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"{entity.item_type} {paint.name}{entity.item_id}{paint.end}  rev {entity.rev}  version {entity.version[:12]}"
        if entity.is_in_conflict:
            yield f"{paint.warn}in conflict{paint.end}: {len(entity.heads)} versions stand beside each other"
        for name, value in entity.value.items():
            if name == "v":
                continue
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            first, *rest = text.split("\n")
            yield f"  {name:11} {visible(first)}"
            for line in rest:
                yield f"  {'':11} {visible(line)}"
        if stale:
            yield f"  {paint.warn}stale{paint.end}       {visible(', '.join(stale))} changed since this was written"
        yield "history"
        for record in history:
            yield f"  {record.seq:>6}  {record.ts}  {record.action}  by {visible(record.writer)}"

    face.emit(result, lines)
    return 0


def _log(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.convert import record_out
    from periplus.cli.schemas import LogOut

    if arguments.limit < 1:
        raise UsageError("--limit is at least 1")
    with face.open() as project:
        records = project.log(limit=arguments.limit, before=arguments.before, item_type=arguments.type)
        lineage = project.journal.lineage
        _warn(face, project.journal.damage)
    more = records[-1].seq if records and records[-1].seq > 1 else None
    result = LogOut(lineage, [record_out(record) for record in records], more)

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for record in records:
            head = f"{record.seq:>6}  {record.ts[:19]}  {record.action:10} {record.item_id or '-':20} "
            room = max(10, width - len(head)) if width else None
            yield head.replace(record.item_id, f"{paint.name}{record.item_id}{paint.end}") + visible(
                record.summary, room
            )
        if not records:
            yield "The journal is empty."
        elif more is not None:
            yield f"older: periplus log --before {more}"

    face.emit(result, lines)
    return 0


def _warn(face: Face, damage: Exception | None) -> None:
    if damage is not None:
        face.stderr.write(f"periplus: {visible(str(damage))}\nWhat is sound was read. Run `periplus doctor`.\n")
