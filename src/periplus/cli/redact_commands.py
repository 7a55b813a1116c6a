"""``redact``: a secret leaves the store, and nothing else does."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.face import Face, number, visible


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("--secret-file", metavar="FILE|-", help="a file that holds the text to take out, - for standard input; never typed "
        "as an argument, for others could read it there")  # fmt: skip
    add(
        "--seq",
        type=number(1),
        action="append",
        default=[],
        metavar="N",
        help="take out what this record says (repeat for more)",
    )
    add("--reason", required=True, metavar="TEXT", help="why; it stays in the journal")
    add("--dry-run", action="store_true", help="say what would be done, change nothing")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.inputs import read_secret
    from periplus.cli.schemas import RedactOut, RemainingOut, TargetOut

    if not arguments.secret_file and not arguments.seq:
        raise UsageError("name a text with --secret-file, or records with --seq", mend="See `periplus redact --help`.")
    secret = read_secret(face.cwd, arguments.secret_file) if arguments.secret_file else ""
    with face.open() as project:
        done = project.redact(
            secret=secret,
            seqs=arguments.seq,
            reason=arguments.reason,
            dry_run=arguments.dry_run,
            progress=face.progress("redacting"),
        )
        own = project.journal.lineage
    face.clear_progress()
    result = RedactOut(
        arguments.dry_run,
        [TargetOut(one.lineage, one.seq, one.action, one.item_type, one.item_id) for one in done.records],
        [f"{kind}/{item}" for kind, item in done.entities],
        [digest.hex() for digest in done.objects],
        [RemainingOut(one.where, one.mend) for one in done.remaining],
    )

    def lines() -> Iterator[str]:
        paint = face.palette
        verb = "would be redacted" if arguments.dry_run else "redacted"
        found = done.records or done.entities or done.objects
        count = f"{len(done.records):,} record{'s' if len(done.records) != 1 else ''} {verb}"
        yield count if found else f"{count}: no record, object or entity holds it"
        for one in done.records:
            where = f"  in {one.lineage}, which was left" if one.lineage != own else ""
            yield f"  seq {one.seq:<8} {visible(f'{one.action} {one.item_type} {one.item_id}'.strip())}{where}"
        for kind, item in done.entities:
            yield f"  {visible(kind)} {visible(item)}: {'would get' if arguments.dry_run else 'has'} a version without it"
        if done.objects:
            yield f"  {len(done.objects):,} object{'s' if len(done.objects) != 1 else ''} {'would go' if arguments.dry_run else 'removed'}"
        for left in done.remaining:
            yield f"{paint.warn}not reached{paint.end} {visible(left.where)}"
            yield f"            {visible(left.mend)}"

    face.emit(result, lines)
    return 0 if done.records or done.entities or done.objects else 1
