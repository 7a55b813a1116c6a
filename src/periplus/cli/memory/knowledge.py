"""``remember``, ``recall``, ``brief``, ``show``: write and read memory."""

from __future__ import annotations

__all__ = ["REMEMBERED", "about_typed", "configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, cut_short, number, plain, seq_shown, visible

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue

REMEMBERED: Final = ("decision", "constraint", "trap", "lesson", "note")
_KNOWN: Final = f"{', '.join(REMEMBERED)}, or one that config.toml declares"
_POSITIONALS: Final = ("text", "question", "task", "reference")
_NAMES_MAX: Final = 2_000
_INPUT_BYTES_MAX: Final = 1 << 20
_HISTORY_TOLD: Final = 50
_RIVALS_TOLD: Final = 10
_PLACEHOLDERS: Final = ("…", "...", "TEXT")  # a placeholder from our own messages and help
_FIELDS: Final = ("rationale", "remedy", "severity", "check")


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    {
        "remember": _configure_remember,
        "recall": _configure_recall,
        "brief": _configure_brief,
        "show": _configure_show,
    }[command](parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    for name, value in vars(arguments).items():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and name not in ("store", "writer"):
                plain(word, f"{name.upper() if name in _POSITIONALS else '--' + name}")
    return {"remember": _remember, "recall": _recall, "brief": _brief, "show": _show}[arguments.command](
        face, arguments
    )


def _configure_remember(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="the text to save (at most 8,000 characters); - reads standard input")
    add("--type", default="note", metavar="TYPE", help=f"the type of the entity: {_KNOWN} (default: note)")
    add("--about", action="append", default=[], metavar="PATH|ID",
        help="what it is about: a file, its lines (FILE:10-20), a symbol in it (FILE:NAME) or an id (repeatable)")  # fmt: skip
    add("--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable)")
    add(
        "--evidence",
        action="append",
        default=[],
        metavar="KIND:REF",
        help="record:SEQ, step:TRAIL#N or commit:ID (repeatable)",
    )
    add("--confidence", type=number(0, 100), default=100, metavar="0-100", help="how certain it is (default: 100)")
    add("--rationale", metavar="TEXT", help="for a decision: the reason")
    add(
        "--alternative",
        action="append",
        default=[],
        metavar="TEXT",
        help="for a decision: an alternative that was not chosen (repeatable)",
    )
    add("--severity", choices=("low", "medium", "high", "critical"), help="for a trap: how bad it is (default: medium)")
    add("--remedy", metavar="TEXT", help="for a trap: how to avoid or fix it")
    add("--check", metavar="COMMAND", help="for a constraint or trap: a command that checks it")
    add("--expires", metavar="TIME", help="for a note: when it expires, a date or RFC 3339")
    add("--set", action="append", default=[], dest="fields", metavar="FIELD=VALUE",
        help="a field of a type declared in config.toml (repeatable)")  # fmt: skip
    add("--supersedes", action="append", default=[], metavar="ID", help="an entity that this one replaces (repeatable)")
    add(
        "--key",
        default="",
        metavar="KEY",
        help="repeat a write with an unknown outcome under its key; it is written at most once",
    )
    add(
        "--insist",
        "--allow-secret",
        dest="insist",
        action="store_true",
        help="write it even if it looks like a secret",
    )


def _configure_recall(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "question", metavar="QUESTION", help='words, a sentence, or an id; "" with --type lists everything of that type'
    )
    add("--type", action="append", default=[], metavar="TYPE", help=f"only {_KNOWN}, or trail (repeatable)")
    add("--kind", action="append", default=[], choices=("prompt", "answer", "command", "commit", "session"),
        help="only these parts of trails (repeatable)")  # fmt: skip
    add("--tag", default="", metavar="TAG", help="only entities with this tag")
    add("--author", default="", metavar="NAME", help="only what this person or agent wrote")
    add("--path", default="", metavar="PATH", help="only entities about this path, or trails that touched it")
    add(
        "--since", default="", metavar="TIME", help="only what is newer: a date, RFC 3339, or an age such as 2h, 3d, 1w"
    )
    add("--all", action="store_true", help="include superseded, resolved and expired entities")
    add("--limit", type=number(1), default=10, metavar="N", help="at most N answers (default: 10)")
    add("--offset", type=number(0), default=0, metavar="N", help="skip the first N, to get the next page (default: 0)")
    add("--budget", type=number(1), metavar="TOKENS", help="at most this many tokens of text (default: no limit)")


def _configure_brief(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task, in a sentence")
    parser.add_argument(
        "--budget",
        type=number(1),
        default=4_000,
        metavar="TOKENS",
        help="at most this many tokens; 100 or more (default: 4000)",
    )


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", metavar="ID", help="an id, or a unique prefix of it")
    parser.add_argument("--at", type=number(0), metavar="SEQ", help="show it as of record SEQ of this store")


def _remember(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.conversion import entity_out
    from periplus.cli.common.inputs import read_time
    from periplus.cli.common.schemas import RememberOut
    from periplus.memory import Memory

    text = _standard_input(face) if arguments.text == "-" else arguments.text
    if text.strip() in _PLACEHOLDERS:
        from periplus.base.errors import UsageError

        raise UsageError(
            f"{text.strip()!r} is a placeholder, not the text to save", safe="Nothing was written.",
            mend='Write the text: periplus remember "Never log tokens" --type constraint',
        )  # fmt: skip
    extra: dict[str, JSONValue] = {name: getattr(arguments, name) for name in _FIELDS if getattr(arguments, name)}
    if arguments.expires:
        extra["expires"] = read_time(arguments.expires, "--expires")
    if arguments.alternative:
        extra["alternatives"] = arguments.alternative
    extra |= _fields(arguments.fields)
    agent = face.environment.get("PERIPLUS_AGENT", "")
    memory = Memory(
        arguments.type,
        text,
        tags=tuple(arguments.tag),
        about=tuple(about_typed(face, ref) for ref in arguments.about),
        evidence=tuple(_evidence(word) for word in arguments.evidence),
        confidence=arguments.confidence,
        extra=extra,
        provenance=("agent" if agent else "person", ""),
        supersedes=tuple(arguments.supersedes),
    )
    with face.open(allow_secrets=arguments.insist) as project:
        done = project.remember(memory, key=arguments.key)
        near = done.near
    entity = done.entity
    result = RememberOut(entity_out(entity), done.is_new, done.receipt.key if done.receipt else "", list(near),
                         list(done.notes))  # fmt: skip

    def lines() -> Iterator[str]:
        if not done.is_new:
            yield f"Already known as {entity.item_id} (rev {entity.rev}, {entity.ts[:10]}); nothing was written."
            for note in done.notes:
                yield f"  {visible(note)}."
                yield f"  To add it: periplus set {entity.item_id} FIELD=VALUE, or periplus confirm {entity.item_id} --about PATH"
            return
        yield f"Remembered the {entity.item_type} {face.palette.name}{entity.item_id}{face.palette.end} as record {entity.seq}."
        for note in done.notes:
            yield f"  {visible(note)}."
        for one in near:
            yield f"  Similar entity: {one}. To replace it: --supersedes {one}"

    face.emit(result, lines)
    return 0


def _fields(words: list[str]) -> dict[str, JSONValue]:
    from periplus.base.errors import UsageError

    found: dict[str, JSONValue] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name or name in found:
            wrong = f"the field {name!r} is set twice" if name in found else f"{word[:80]!r} is not FIELD=VALUE"
            raise UsageError(wrong, safe="Nothing was written.", mend="Write FIELD=VALUE, each field once.")
        found[name] = text
    return found


def _standard_input(face: Face) -> str:
    import sys

    from periplus.base.errors import UsageError

    face.tell_reading("the text")
    try:
        data = sys.stdin.buffer.read(_INPUT_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"standard input cannot be read: {error.strerror}", safe="Nothing was written.") from error
    if len(data) > _INPUT_BYTES_MAX:
        raise UsageError(f"standard input has over {_INPUT_BYTES_MAX:,} bytes", safe="Nothing was written.",
                         mend="Write a shorter text, and name a file with the rest.")  # fmt: skip
    try:
        return data.decode().removeprefix("\ufeff")  # a byte order mark from some editors
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start})", safe="Nothing was written.",
                         mend="Convert it first.") from error  # fmt: skip


def _evidence(word: str) -> tuple[str, str]:
    from periplus.base.errors import UsageError

    kind, found, ref = word.partition(":")
    if not found or kind not in ("record", "step", "commit") or not ref:
        raise UsageError(f"{word!r} is not evidence", mend="Write record:SEQ, step:TRAIL#N or commit:ID.")
    return kind, ref


def about_typed(face: Face, ref: str) -> str:
    """Return ids unchanged, and paths made absolute from the working folder, so that the project can resolve them."""
    from periplus.base.ids import is_id

    if is_id(ref) or "://" in ref:
        return ref
    from periplus.memory.code_anchors.anchor_creation import split_ref

    said, inside = split_ref(ref, lambda said: os.path.isfile(os.path.join(face.cwd, said)))
    behind = f":{inside}" if inside else ""
    path = os.path.normpath(os.path.join(face.cwd, said))
    if os.path.lexists(path):
        _warn_outside(face, path)
    else:
        face.stderr.write(
            f"periplus: {visible(cut_short(path))} does not exist; saved anyway, but it cannot become stale{_nearly(path)}\n"
        )
    return path + behind


def _nearly(path: str) -> str:
    """Suggest a similar name beside ``path``."""
    import difflib

    try:
        names = os.listdir(os.path.dirname(path))[:_NAMES_MAX]
    except OSError:
        return ""
    near = difflib.get_close_matches(os.path.basename(path), names, 1, 0.75)
    return f" (did you mean {visible(near[0])}?)" if near else ""


def _warn_outside(face: Face, path: str) -> None:
    from periplus.base.filesystem.store_location import STORE_FOLDER, find_root, name_in

    store = find_root(face.cwd, face.store)
    folder = os.path.dirname(store) if os.path.basename(store) == STORE_FOLDER else store
    if name_in(folder, path) is None:
        face.stderr.write(
            f"periplus: {visible(cut_short(path))} is outside the project; saved anyway, but it cannot become stale\n"
        )


def _asked(text: str, what: str) -> str:
    """Return the question or task. Raises UsageError if it is empty."""
    if not text.strip():
        from periplus.base.errors import UsageError

        raise UsageError(
            f"the {what} is empty",
            safe="Nothing was changed.",
            mend=f'Say it in words: periplus {"recall" if what == "question" else "brief"} "…"',
        )
    return text


def _recall(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.conversion import hit_out
    from periplus.cli.common.inputs import read_past_time
    from periplus.cli.common.schemas import NearOut, RecallOut
    from periplus.memory import Filters
    from periplus.memory.retrieval.spelling import near_words_text

    question = arguments.question if arguments.type else _asked(arguments.question, "question")
    since = read_past_time(arguments.since, "--since") if arguments.since else ""
    path = arguments.path
    if path.partition("/")[0] in (".", ".."):
        path = os.path.normpath(os.path.join(face.cwd, path))
    filters = Filters(
        tuple(arguments.type), tuple(arguments.kind), arguments.tag, arguments.author, path, since,
        arguments.all,
    )  # fmt: skip
    with face.open() as project:
        found = project.recall(
            question,
            limit=arguments.limit,
            offset=arguments.offset,
            budget_tokens=arguments.budget,
            filters=filters,
        )
        over = 0
        if not found.matched and not arguments.all:
            over = project.recall(question, limit=1, filters=filters._replace(with_ended=True)).matched
        face.warn_of_search(project.journal)
    result = RecallOut(
        arguments.question, list(found.terms), [hit_out(hit) for hit in found.hits], found.matched, found.left_out,
        [NearOut(asked, list(near)) for asked, near in found.near],
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        if not found.hits:
            yield _no_hits(found.matched, arguments.offset, over)
            return
        if found.near:
            yield f"{paint.warn}{visible(near_words_text(found.near))}{paint.end}"
        for hit in found.hits:
            state = f", {hit.state}" if hit.state not in ("", "active", "accepted") else ""
            where = hit.item_id if hit.part < 0 else f"{hit.item_id}#{hit.part}"
            when = visible(hit.ts[:10] + state)
            kind = visible(hit.kind)
            if width is not None and len(kind) + len(where) + len(when) + 3 > width:
                when = ""
            yield f"{paint.name}{kind}{paint.end} {where}  {paint.dim}{when}{paint.end}".rstrip()
            yield "  " + visible(" ".join(hit.text.split()), width - 2 if width else None)
            if hit.conflicts:
                yield f"  {paint.warn}in conflict{paint.end}: {visible(', '.join(hit.conflicts))}"
            if hit.rivals:
                yield f"  {paint.warn}competes with{paint.end} {visible(', '.join(hit.rivals))}: periplus review"
            for stale in hit.standing:
                yield f"  {paint.warn}stale{paint.end}: {visible(stale)}"
            if hit.checked:
                yield f"  {visible(hit.checked)}"
            yield f"  {paint.dim}{visible('; '.join((*hit.why, *hit.evidence)), width - 2 if width else None)}{paint.end}"
        if found.left_out:
            yield f"{found.left_out} more: --offset {arguments.offset + len(found.hits)}"

    face.emit(result, lines)
    return 0 if found.hits else 1


def _no_hits(matched: int, offset: int, over: int) -> str:
    if over:
        return f"No current results; {over:,} superseded, resolved or expired ones with --all."
    if matched > offset:
        return f"{matched - offset:,} results, but none fits the budget: use a larger --budget."
    return f"There are only {matched:,} results." if matched else "No results."


def _brief(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.schemas import BriefOut, SectionOut

    task = _asked(arguments.task, "task")
    with face.open() as project:
        found = project.brief(task, budget_tokens=arguments.budget)
        face.warn_of_search(project.journal)
    sections = [
        SectionOut(s.title, [line.text for line in s.lines], [line.source for line in s.lines], s.left_out, s.more)
        for s in found.sections
    ]
    result = BriefOut(found.task, found.budget, found.tokens, found.text, sections, found.left_out)
    face.emit(result, lambda: [visible(found.text.rstrip("\n"), lines=True)])
    return 0


def _named(about: object) -> str:
    """List what an entity is about, one name a line. The anchors in the code are for ``--json``."""
    refs = [one.get("ref") if isinstance(one, dict) else None for one in about] if isinstance(about, list) else []
    return "\n".join(ref for ref in refs if isinstance(ref, str)) if all(isinstance(ref, str) for ref in refs) else ""


def _show(face: Face, arguments: argparse.Namespace) -> int:
    import json

    from periplus.cli.common.conversion import entity_out, records_out
    from periplus.cli.common.schemas import ShowOut
    from periplus.memory.entities.validity import expired_text
    from periplus.memory.succession.conflict_settlement import settled_by
    from periplus.memory.succession.successors import rivals_of, successors

    with face.open() as project:
        if arguments.at is None:
            entity = project.show(arguments.reference)
            history = project.history(entity)
        else:
            entity, history = project.show_at(arguments.reference, arguments.at)
        is_cut = project.journal.index.has_floors
        records, own = records_out(project.journal, history), project.journal.lineage
        ground = project.ground()
        over = expired_text(project.types, entity, project.journal.clock.now_ms())
        stale, standing = ground.stale(entity) + (("expires",) if over else ()), ground.told(entity) + over
        is_now = arguments.at is None
        later = [one.item_id for one in successors(project.journal, entity.item_id)] if is_now else []
        rivals = rivals_of(project.journal, entity) if is_now else []
        ends = [settled_by(project.journal, entity, conflict) for conflict in entity.conflicts]
        face.warn(project.journal.damage)
    result = ShowOut(entity_out(entity), list(stale), records, arguments.at or 0, list(standing), later, rivals, is_cut)

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"{entity.item_type} {paint.name}{entity.item_id}{paint.end}  rev {entity.rev}  version {entity.version[:12]}"
        for conflict, name, end in zip(result.entity.conflicts, entity.conflict_names, ends, strict=True):
            yield f"{paint.warn}in conflict{paint.end}: {visible(name)}; the first is shown, {visible(end)}"
            for rival in conflict.values[:_RIVALS_TOLD]:
                text = json.dumps(rival.value, ensure_ascii=False) if rival.present else "(not there)"
                yield visible(f"  {rival.version[:12]}  by {rival.writer}  {rival.ts[:19]}  {text}", face.width)
            if len(conflict.values) > _RIVALS_TOLD:
                yield f"  … and {len(conflict.values) - _RIVALS_TOLD:,} more: --json"
        for name, value in entity.value.items():
            if name == "v":
                continue
            about = _named(value) if name == "about" else ""
            text = about or (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            first, *rest = text.split("\n")
            yield f"  {visible(name):11} {visible(first)}"
            for line in rest:
                yield f"  {'':11} {visible(line)}"
        for one in standing:
            yield f"  {paint.warn}stale{paint.end}       {visible(one)}"
        if later:
            yield f"  {'superseded by':13} {', '.join(visible(one) for one in later)}"
        if rivals:
            yield f"  {paint.warn}competes with{paint.end}  {', '.join(map(visible, rivals))}: periplus review"
        yield "history"
        told = records[:_HISTORY_TOLD]
        width = max((len(seq_shown(record, own)) for record in told), default=0)
        for record in told:
            yield visible(
                f"  {seq_shown(record, own):>{max(6, width)}}  {record.ts}  {record.action}  by {record.writer}"
            )
        if len(told) < len(records):
            yield f"  … and {len(records) - len(told):,} older: periplus log --id {entity.item_id} --lineage all, or --json"
        if is_cut:
            yield f"  {paint.bad}older records are missing{paint.end}: periplus doctor"

    face.emit(result, lines)
    return 0
