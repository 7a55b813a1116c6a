"""``log``, ``blame``, ``undo``: list records, trace fields to records, and reverse changes."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, number, plain, seq_shown, visible

if TYPE_CHECKING:
    from periplus.cli.common.schemas import LogOut, RecordOut, UndoneOut, UndoOut, UnsureOut
    from periplus.cli.journal.spooled_lists import Aside
    from periplus.journal import IndexedRecord
    from periplus.journal.history.cursors import Reader
    from periplus.journal.history.log import Gap, News, Page, RecordFilter
    from periplus.project import Project

_NARROW: Final = 96  # below this a summary would have less than 30 columns
_WITH_TIME: Final = 60
_BROWSED: Final = 20
_FOLLOWED: Final = 10
_NEW_MAX: Final = 1_000
_UNSURE_MAX: Final = 20
_UNDONE_MAX: Final = 20_000
_UNDONE_TOLD: Final = 100  # more lines than this nobody reads
_ALONG_MAX: Final = 12


class _Places(NamedTuple):
    """Seqs as typed: one seq of the selected lineage, or one per named lineage."""

    own: int | None
    of: dict[str, int]


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    {"log": _configure_log, "blame": _configure_blame, "undo": _configure_undo}[command](parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return {"log": _log, "blame": _blame, "undo": _undo}[arguments.command](face, arguments)


def _configure_log(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--limit", type=number(1), metavar="N",
        help="at most N records, a group counts as one (default: 20; 1000 with --reader; 10 with --follow)")  # fmt: skip
    add("--observations", action="store_true",
        help="print each observation of an agent's run (default: group consecutive ones, one line a session)")  # fmt: skip
    add("--before", type=_places, metavar="SEQ", help="only records before SEQ, to get the next page")
    add("--type", action="append", default=[], metavar="TYPE",
        help="only records of this type, such as decision, plan or trail (repeatable)")  # fmt: skip
    add("--id", default="", metavar="ID", help="only records of the entity with this id, or prefix of an id")
    add(
        "--writer",
        dest="by",
        action="append",
        default=[],
        metavar="NAME",
        help="only records by this person or agent (repeatable)",
    )
    add(
        "--session",
        action="append",
        default=[],
        metavar="ID",
        help="only records of this session (repeatable)",
    )
    add("--action", action="append", default=[], choices=_actions(), metavar="ACTION",
        help=f"only these actions (repeatable): {', '.join(_actions())}")  # fmt: skip
    add(
        "--since", default="", metavar="TIME", help="only what is newer: a date, RFC 3339, or an age such as 2h, 3d, 1w"
    )
    add(
        "--until", default="", metavar="TIME", help="only what is older: a date, RFC 3339, or an age such as 2h, 3d, 1w"
    )
    add(
        "--lineage",
        default="",
        metavar="ID|all",
        help="records of another lineage, or of all (default: this store's own)",
    )
    add("--reader", metavar="NAME",
        help="what this reader has not read yet, of all lineages, oldest first")  # fmt: skip
    add("--since-seq", type=_places, metavar="SEQ", help="only records after SEQ, oldest first")
    add(
        "--follow",
        action="store_true",
        help="print new records as they arrive, until Ctrl-C; with --json, one document a line",
    )


def _configure_blame(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", metavar="ID", help="an id, or a unique prefix of it")


def _configure_undo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seq", type=_range, action="append", metavar="SEQ",
                        help="a record, or FIRST-LAST (repeatable); with --session, only those of the session")  # fmt: skip
    parser.add_argument("--session", metavar="ID", help="all records of this session")
    parser.add_argument(
        "--lineage", default="", metavar="ID", help="the lineage of the records (default: this store's own)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the result for each entity, write nothing")
    parser.add_argument(
        "--key",
        default="",
        metavar="KEY",
        help="repeat a write with an unknown outcome under its key; it is written at most once",
    )


def _actions() -> tuple[str, ...]:
    from periplus.journal.records.record import ACTIONS

    return tuple(ACTIONS)


def _places(text: str) -> _Places:
    """Parse ``SEQ`` or ``LINEAGE:SEQ,…``, for argparse."""
    from periplus.base.ids import is_id

    read = number(0)
    if ":" not in text:
        return _Places(read(text), {})
    found: dict[str, int] = {}
    for part in text.split(","):
        lineage, _, seq = part.partition(":")
        if not is_id(lineage):
            raise argparse.ArgumentTypeError(f"{part[:60]!r} is not LINEAGE:SEQ")
        found[lineage] = read(seq)
    return _Places(None, found)


def _range(text: str) -> range:
    """Parse ``SEQ`` or ``FIRST-LAST``, for argparse."""
    seq, at, lineage = text.partition("@")
    if at and seq.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is a record of another clone: write {seq} --lineage {lineage[:40]}"
        )
    first, dash, last = text.partition("-")
    read = number(1)
    found = range(read(first), read(last if dash else first) + 1)
    if not found or len(found) > _UNDONE_MAX:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a range of 1 to {_UNDONE_MAX:,} records")
    return found


def _log(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.journal.history.cursors import check_reader_name
    from periplus.memory.coordination.sessions import session_named
    from periplus.project.declared_types import check_logged_type

    for option, value in _filters(arguments):
        plain(value, f"--{option}")
    if arguments.reader is not None:
        check_reader_name(arguments.reader)  # also an empty value, as from an unset variable
    is_new = bool(arguments.reader or arguments.since_seq is not None)
    if arguments.before is not None and (is_new or arguments.follow):
        raise UsageError(
            "--before cannot be combined with --reader, --since-seq or --follow", safe="Nothing was changed."
        )
    wanted = _wanted(arguments)
    with face.open() as project:
        project.journal.refresh()
        for name in arguments.type:
            check_logged_type(project, name)
        wanted = wanted._replace(sessions=tuple(session_named(project.journal, one) for one in wanted.sessions))
        lineages = _lineages(project, arguments.lineage, all_by_default=bool(arguments.reader))
        if arguments.follow:
            return _follow(face, project, arguments, wanted, lineages)
        if is_new:
            return _new(face, project, arguments, wanted, lineages)
        return _browse(face, project, arguments, wanted, lineages)


def _wanted(arguments: argparse.Namespace) -> RecordFilter:
    from periplus.cli.common.inputs import read_past_time
    from periplus.journal.history.log import RecordFilter

    return RecordFilter(
        tuple(arguments.type),
        arguments.id,
        tuple(arguments.by),
        tuple(arguments.session),
        tuple(arguments.action),
        read_past_time(arguments.since, "--since") if arguments.since else "",
        read_past_time(arguments.until, "--until") if arguments.until else "",
    )


def _lineages(project: Project, named: str, *, all_by_default: bool) -> list[str]:
    """Return the selected lineages. Raises NotFoundError, or UsageError with the candidates."""
    from periplus.base.errors import NotFoundError, UsageError

    held = project.journal.lineages()
    if named == "all" or (all_by_default and not named):
        return held
    if not named:
        return [project.journal.lineage] if project.journal.lineage else []
    found = [lineage for lineage in held if lineage.startswith(named)] or [
        lineage
        for lineage in held
        if lineage.endswith(named)  # as the listing marks records of others
    ]
    if not found:
        raise NotFoundError(
            f"there is no lineage {named[:60]!r} in the store", mend=f"Lineages: {', '.join(held) or 'none'}."
        )
    if len(found) > 1:
        raise UsageError(f"{named!r} matches several lineages: {', '.join(found[:5])}",
                         mend="Type more characters.")  # fmt: skip
    return found


def _by_lineage(places: _Places | None, lineages: Sequence[str], option: str) -> dict[str, int]:
    from periplus.base.errors import UsageError

    if places is None:
        return {}
    if places.own is None:
        return places.of
    if len(lineages) > 1:
        raise UsageError(f"{option} {places.own} is ambiguous: there are {len(lineages)} lineages",
                         mend=f"Write {option} LINEAGE:SEQ, or name one with --lineage.")  # fmt: skip
    return dict.fromkeys(lineages, places.own)


def _browse(
    face: Face, project: Project, arguments: argparse.Namespace, wanted: RecordFilter, lineages: list[str]
) -> int:
    from periplus.cli.common.schemas import GapOut, LogOut

    before = _by_lineage(arguments.before, lineages, "--before")
    records, next_seqs, gaps_found = _page(face, project, arguments, wanted, lineages, before)
    own = project.journal.lineage
    others = [name for name in project.journal.lineages() if name != own]
    earlier = project.journal.own.previous if project.journal.own is not None else ""
    face.warn(project.journal.damage)
    following = ""
    if next_seqs:
        pairs = next_seqs.items()
        is_one = len(lineages) == 1
        following = str(*next_seqs.values()) if is_one else ",".join(f"{name}:{seq}" for name, seq in pairs)
    next_before = next_seqs.get(lineages[0]) if len(lineages) == 1 else None
    gaps = [GapOut(*gap) for gap in gaps_found]
    unsure = _unsure(project) if own in lineages and not (before or any(wanted)) else []
    result = LogOut(own, _listed(records), next_before, following, "", gaps, {}, bool(next_seqs), unsure)

    def lines() -> Iterator[str]:
        yield from _gap_lines(face, gaps_found)
        yield from _unsure_lines(face, unsure)
        yield from _record_lines(face, records, own)
        if not records and not unsure:
            yield _nothing(
                own,
                others,
                is_asked=bool(before or any(wanted) or arguments.lineage),
                is_damaged=project.journal.damage is not None,
            )
        elif following:
            yield f"older: periplus log --before {following}{_said_again(arguments)}"
        elif earlier in others and lineages == [own]:
            yield f"from before the store was copied, moved or restored: periplus log --lineage {earlier}"

    _emit(face, result, records, lines)
    return 0


def _page(
    face: Face, project: Project, arguments: argparse.Namespace, wanted: RecordFilter, lineages: Sequence[str],
    before: Mapping[str, int],
) -> tuple[list[RecordOut] | Aside[RecordOut], dict[str, int], Sequence[Gap]]:  # fmt: skip
    """Return the records to show, the start of the next page, and the gaps among the records."""
    from periplus.cli.journal.log_folds import LONG, Folded, each, read_folded, rows_out

    limit = arguments.limit or _BROWSED
    is_folding = _is_folding(face, arguments)
    if limit >= LONG:
        from periplus.cli.journal.spooled_lists import read_log

        return read_log(project, wanted, lineages, before, limit, is_folding=is_folding)

    def read(before: Mapping[str, int], most: int) -> Page:
        return project.log(wanted, lineages=lineages, before=before, limit=most)

    if is_folding:
        page = read_folded(read, before, lineages, limit)
    else:
        whole = read(before, limit)
        page = Folded([*each(whole.records)], whole.before, whole.gaps)
    return rows_out(project.journal, page.rows), page.before, page.gaps


def _listed(records: list[RecordOut] | Aside[RecordOut]) -> list[RecordOut]:
    """Return the records of a result in memory; a long result spools them to a file."""
    return records if isinstance(records, list) else []


def _emit(
    face: Face, result: LogOut, records: list[RecordOut] | Aside[RecordOut], lines: Callable[[], Iterable[str]]
) -> None:
    if isinstance(records, list):
        face.emit(result, lines)
        return
    from periplus.cli.journal.spooled_lists import emit_with

    emit_with(face, result, "records", records, lines)


def _is_folding(face: Face, arguments: argparse.Namespace) -> bool:
    """Return whether consecutive observations are grouped: for people, unless --observations is given."""
    return not (face.as_json or arguments.observations or "observe" in arguments.action)


def _said_again(arguments: argparse.Namespace) -> str:
    """Repeat the filters as typed, for the command that shows the next page."""
    import shlex

    each = " --observations" if arguments.observations else ""
    return visible("".join(f" --{option} {shlex.quote(value)}" for option, value in _filters(arguments))) + each


def _filters(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Return the filters as typed: option and value."""
    for option in ("type", "id", "writer", "session", "action", "since", "until", "lineage"):
        typed = getattr(
            arguments, "by" if option == "writer" else option
        )  # the name in --as is the current writer, not a filter
        yield from ((option, word) for word in (typed if isinstance(typed, list) else [typed]) if word)


def _new(face: Face, project: Project, arguments: argparse.Namespace, wanted: RecordFilter, lineages: list[str]) -> int:
    from periplus.cli.common.schemas import GapOut, LogOut

    reader, seen = _start(project, arguments, lineages)
    records, found = _news(face, project, arguments, wanted, lineages, seen, reader)
    own = project.journal.lineage
    face.warn(project.journal.damage)
    gaps = [GapOut(*gap) for gap in found.gaps]
    result = LogOut(own, _listed(records), None, "", arguments.reader or "", gaps, found.seen, more=found.more)

    def lines() -> Iterator[str]:
        yield from _gap_lines(face, found.gaps)
        yield from _record_lines(face, records, own)
        if not records and not gaps:
            yield "Nothing new." if arguments.reader else "No matching records."
        if found.more:
            yield "more: " + (f"periplus log --reader {reader.name}" if reader is not None else
                              f"periplus log --since-seq {_seqs(found.seen)}") + _said_again(arguments)  # fmt: skip

    _emit(face, result, records, lines)
    face.flush()  # print the records before the cursor moves
    if reader is not None:
        reader.advance(found)
    return 0


def _news(
    face: Face, project: Project, arguments: argparse.Namespace, wanted: RecordFilter, lineages: Sequence[str],
    seen: dict[str, int], reader: Reader | None,
) -> tuple[list[RecordOut] | Aside[RecordOut], News]:  # fmt: skip
    """Return the records to show, and the look they belong to."""
    from periplus.cli.journal.log_folds import LONG, each, folds, rows_out

    limit = arguments.limit or _NEW_MAX
    is_folding = _is_folding(face, arguments)
    if limit >= LONG:
        from periplus.cli.journal.spooled_lists import read_news

        return read_news(project, wanted, lineages, seen, reader, limit, is_folding=is_folding)
    found = project.news(seen, wanted, reader=reader, lineages=lineages, limit=limit)
    return rows_out(project.journal, [*(folds if is_folding else each)(found.records)]), found


def _seqs(seen: dict[str, int]) -> str:
    return str(*seen.values()) if len(seen) == 1 else ",".join(f"{name}:{seq}" for name, seq in seen.items())


def _nothing(own: str, others: list[str], *, is_asked: bool, is_damaged: bool) -> str:
    if is_asked:
        return "No matching records."
    if others and not own and is_damaged:
        return "The lineage of this clone is unknown. To list all records: periplus log --lineage all"
    if others:
        return "This clone has no records of its own yet. Records of others: periplus log --lineage all"
    return "The journal is empty."


def _start(
    project: Project, arguments: argparse.Namespace, lineages: list[str]
) -> tuple[Reader | None, dict[str, int]]:
    """Return the reader, and the seqs up to which it has read. Raises NotFoundError for seqs that never existed."""
    from periplus.base.errors import NotFoundError
    from periplus.journal.history.cursors import Reader

    own = [project.journal.lineage] if arguments.reader and not arguments.lineage else lineages
    seen = _by_lineage(arguments.since_seq, own, "--since-seq")
    for lineage, seq in seen.items():
        end = project.journal.end(lineage).next_seq - 1
        if seq > end:
            raise NotFoundError(f"there is no record {seq:,}: the newest of {lineage or 'this store'} is {end:,}",
                                safe="Nothing was changed.", mend="See `periplus log`.")  # fmt: skip
    if not arguments.reader:
        return None, seen
    reader = Reader(project.journal, arguments.reader)
    if seen:
        reader.move(seen)
    return reader, reader.seen


def _follow(
    face: Face, project: Project, arguments: argparse.Namespace, wanted: RecordFilter, lineages: list[str]
) -> int:
    reader, seen = _start(project, arguments, lineages)
    followed = None if arguments.lineage == "all" or (reader is not None and not arguments.lineage) else lineages
    if followed == []:
        followed = None  # an empty journal: its first writer creates the lineage
    try:
        if reader is None and arguments.since_seq is None:
            page = project.log(wanted, lineages=lineages, before={}, limit=arguments.limit or _FOLLOWED)
            seen = project.looked_at()
            _show_more(face, project, page.records[::-1], ())
        for found in project.follow(seen, wanted, wait=face.wait, lineages=followed):
            _show_more(face, project, found.records, found.gaps)
            if reader is not None:
                reader.advance(found)
    except KeyboardInterrupt:
        pass  # the normal way to stop
    return 0


def _show_more(face: Face, project: Project, records: Sequence[IndexedRecord], gaps: Sequence[Gap]) -> None:
    from periplus.cli.common.conversion import records_out
    from periplus.cli.common.schemas import GapOut, LogLineOut

    out = records_out(project.journal, records)
    if face.as_json:
        for gap in gaps:
            face.emit(LogLineOut(None, GapOut(*gap)), list)
        for record in out:
            face.emit(LogLineOut(record, None), list)
    else:
        for line in (*_gap_lines(face, gaps), *_record_lines(face, out, project.journal.lineage)):
            face.out(line)
    face.flush()  # print the records before the cursor moves


def _unsure(project: Project) -> list[UnsureOut]:
    from periplus.cli.common.schemas import UnsureOut
    from periplus.journal.care.unconfirmed_records import list_unconfirmed

    return [
        UnsureOut(one.seq, one.action, one.item_type, one.item_id, one.key, one.summary)
        for one in list_unconfirmed(project.journal)
    ]


def _unsure_lines(face: Face, unsure: Sequence[UnsureOut]) -> Iterator[str]:
    """Yield records that may not be on disk, for a person who got "outcome unknown" and looks here."""
    for one in reversed(unsure[-_UNSURE_MAX:]):
        what = " ".join(filter(None, (one.action, one.id, one.summary)))
        yield (
            f"{face.palette.warn}unsure{face.palette.end}: record {one.seq:,}, {visible(what)}: was written but may not be on disk yet, because a sync failed. The next write retries the sync"
        )


def _gap_lines(face: Face, gaps: Sequence[Gap]) -> Iterator[str]:
    paint = face.palette
    for gap in gaps:
        seqs = f"record {gap.first:,}" if gap.first == gap.last else f"records {gap.first:,} to {gap.last:,}"
        yield f"{paint.bad}gap{paint.end}: {seqs} of {visible(gap.lineage)} cannot be read. Next: periplus doctor"
        if gap.counts:
            known = ", ".join(f"{count:,} {visible(what)}" for what, count in gap.counts.items())
            yield f"     entities last written there: {known}"


def _record_lines(face: Face, records: Iterable[RecordOut], own: str) -> Iterator[str]:
    paint, width = face.palette, face.width
    has_foreign = any(record.lineage != own for record in records)
    for record in records:
        seq = f"{record.seq:>6}"
        if has_foreign:  # ids differ in their ends
            seq = f"{seq_shown(record, own):>13}" if record.lineage != own else f"{seq}{'':7}"
        action, name = visible(f"{record.action:10}"), visible(f"{record.id or '-':20}")
        rev = f"r{record.rev}" if record.rev else ""
        mark = f"{paint.warn}!{paint.end}" if record.conflict else " "
        if width is not None and width < _NARROW:
            rest = width - len(seq) - len(action) - 3
            yield f"{seq}  {action} {paint.name}{visible(record.id or '-', rest)}{paint.end}"
            time = record.ts[: 16 if width >= _WITH_TIME else 10]
            head = f"{'':8}{visible(time)}  {rev}{mark} "
            yield f"{head}{visible(record.summary, max(1, width - 12 - len(time) - len(rev)))}".rstrip()
            continue
        head = f"{seq}  {visible(record.ts[:19])}  {action} "
        room = width - len(head) - len(name) - 6 if width else None
        yield f"{head}{paint.name}{name}{paint.end} {rev:>3}{mark} {visible(record.summary, room)}".rstrip()


# -- blame -------------------------------------------------------------------------------------------------------------


def _blame(face: Face, arguments: argparse.Namespace) -> int:
    import msgspec

    from periplus.cli.common.conversion import entity_out, records_out
    from periplus.cli.common.schemas import BlamedOut, BlameOut, OriginOut

    with face.open() as project:
        entity, fields = project.blame(plain(arguments.reference, "ID"))
        found = []
        for field in fields:
            records = records_out(project.journal, [origin.record for origin in field.origins])
            origins = [
                OriginOut(record, origin.is_certain) for record, origin in zip(records, field.origins, strict=True)
            ]
            found.append(BlamedOut(field.name, msgspec.json.decode(field.value), origins))
        own, is_cut = project.journal.lineage, any(field.is_cut for field in fields)
        face.warn(project.journal.damage)
    result = BlameOut(entity_out(entity), found, is_cut)

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        yield f"{entity.item_type} {paint.name}{entity.item_id}{paint.end}  rev {entity.rev}"
        if entity.is_in_conflict:
            yield f"{paint.warn}in conflict{paint.end}: {len(entity.heads)} versions exist side by side"
        for field in found:
            if field.name == "v":  # the schema version does not matter to a person
                continue
            for origin in field.origins:
                record = origin.record
                seq = seq_shown(record, own)
                session = f" ({record.session})" if record.session else ""
                doubt = "" if origin.certain else "or earlier (older records cannot be read); "
                line = (
                    f"{seq:>6}  {record.ts[:10]}  {record.action} by {record.writer}{session}  {doubt}{record.summary}"
                )
                yield f"  {visible(field.name, 11):11} {visible(line, width - 14 if width else None)}"
            if not field.origins:
                yield f"  {visible(field.name, 11):11} {'?':>6}  by a record that is not available"
            text = field.value if isinstance(field.value, str) else _json_text(field.value)
            yield f"  {'':11} {paint.dim}{visible(text, width - 14 if width else None)}{paint.end}"
        if is_cut:
            yield f"  {paint.bad}older records are missing or unreadable{paint.end}: periplus doctor"

    face.emit(result, lines)
    return 0


def _json_text(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


# -- undo --------------------------------------------------------------------------------------------------------------


def _undo(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.schemas import UndoneOut, UndoOut
    from periplus.memory.coordination.sessions import session_named

    if arguments.session is not None and not arguments.session.strip():  # as from an unset variable
        raise UsageError("--session is empty, which would undo records of others, too", safe="Nothing was changed.",
                         mend="See `periplus who`, or `periplus log`.")  # fmt: skip
    arguments.session = arguments.session or ""
    for name in ("session", "lineage", "key"):
        plain(getattr(arguments, name), f"--{name}")
    seqs = sorted({seq for part in arguments.seq or () for seq in part})
    if not seqs and not arguments.session:
        raise UsageError("one of the arguments --seq --session is required",
                         mend="For example `periplus undo --seq 12 --dry-run`. See `periplus undo --help`.")  # fmt: skip
    with face.open() as project:
        lineage = _lineages(project, arguments.lineage, all_by_default=False)[0] if arguments.lineage else ""
        session = session_named(project.journal, arguments.session) if arguments.session else ""
        done = project.undo(seqs=seqs, session=session, lineage=lineage, key=arguments.key,
                            dry_run=arguments.dry_run, progress=face.progress("looking at entities"))  # fmt: skip
    face.clear_progress()
    entities = [
        UndoneOut(one.item_type, one.item_id, one.outcome, list(one.seqs), list(one.fields), list(one.kept), one.reason)
        for one in done.entities
    ]
    written = done.receipt if done.receipt is not None and done.receipt.last_seq >= done.receipt.first_seq else None
    result = UndoOut(
        arguments.dry_run, done.lineage, list(done.seqs), entities, written.first_seq if written else 0,
        written.last_seq if written else 0, written.key if written else "", list(done.along),
    )  # fmt: skip
    conflicts = sum(one.outcome == "conflict" for one in entities)
    return face.emit(result, lambda: _undo_lines(face, result, conflicts), 5 if conflicts else 0)


def _undo_lines(face: Face, result: UndoOut, conflicts: int) -> Iterator[str]:
    paint, width = face.palette, face.width
    colours = {"restored": paint.good, "deleted": paint.good, "unchanged": paint.dim, "conflict": paint.bad}
    told = result.entities
    if len(told) > _UNDONE_TOLD:  # first those that need attention, then some of the others
        told = sorted(told, key=lambda one: one.outcome != "conflict")[:_UNDONE_TOLD]
    for one in told:
        said = one.reason or ", ".join(one.fields if one.outcome == "restored" else ())
        said += f" (changed since and kept: {', '.join(one.kept)})" if one.kept else ""
        room = max(1, width - 12 - len(visible(one.id))) if width else None
        yield f"{colours[one.outcome]}{one.outcome:9}{paint.end} {paint.name}{visible(one.id)}{paint.end}  {visible(said, room)}".rstrip()
    if len(told) < len(result.entities):
        yield _untold(result.entities, told)
    if result.along:
        named = ", ".join(f"{seq}" for seq in result.along[:_ALONG_MAX]) + (
            " …" if len(result.along) > _ALONG_MAX else ""
        )
        is_one = len(result.along) == 1
        yield f"Record{'s' * (not is_one)} {named} belong{'s' * is_one} to the same change and {'is' if is_one else 'are'} undone with it."
    if conflicts:
        yield f"{conflicts:,} in conflict: not changed. See `periplus blame ID`."
    if result.dry_run:
        yield "Dry run: nothing was written."
    elif result.first_seq:
        span = f"{result.first_seq}-{result.last_seq}" if result.last_seq > result.first_seq else f"{result.first_seq}"
        yield f"Undone by record {span}. To redo the change: periplus undo --seq {span}"
    elif all(one.outcome == "unchanged" for one in result.entities):
        yield "Nothing was written: there is nothing left to undo."
    else:
        yield "Nothing was written."


def _untold(entities: Sequence[UndoneOut], told: Sequence[UndoneOut]) -> str:
    left: dict[str, int] = {}
    for one in entities:
        left[one.outcome] = left.get(one.outcome, 0) + 1
    for one in told:
        left[one.outcome] -= 1
    counts = {"conflict": "in conflict"}
    said = ", ".join(f"{count:,} {counts.get(outcome, outcome)}" for outcome, count in sorted(left.items()) if count)
    return f"… and {len(entities) - len(told):,} more ({said}); each of them: --dry-run --json"
