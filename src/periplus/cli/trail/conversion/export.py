"""``periplus trail export``: write a trail as a report, as a page, as spans, or as an attestation."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, safe_json, visible
from periplus.cli.trail.inputs import guarded, named_trail, trail_readers

if TYPE_CHECKING:
    from periplus.interop.exports.trail_source import ExportSource
    from periplus.project import TrailFile
    from periplus.trail import ObjectReader

_FORMATS = ("markdown", "html", "jsonl", "otel", "atif", "agent-trace", "in-toto")

_OF_FORMAT = (
    ("content", ("otel",)),
    ("revision", ("agent-trace",)),
    ("unsigned", ("in-toto",)),
    ("all", ("html",)),
    ("with-trail", ("html",)),
    ("withhold", ("html", "atif")),
)


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "trail",
        nargs="?",
        metavar="TRAIL|DIR",
        help="an id, a digest (or a prefix of either), or a file; with --all: the folder to write",
    )
    add(
        "--format",
        choices=_FORMATS,
        default="markdown",
        help="a report for reviewers, one HTML file that needs nothing else, JSON lines, OpenTelemetry spans (OTLP JSON), a "
        "trajectory in ATIF 1.8, an Agent Trace record, or an in-toto statement in a DSSE envelope (default: markdown)",
    )
    add("-o", "--out", metavar="FILE", help="the file to write (default: standard output)")
    add("--content", action="store_true", help="with otel: include prompts, answers and arguments")
    add(
        "--revision",
        metavar="REV",
        help="with agent-trace: the commit that line numbers refer to (default: the trail's last)",
    )
    add("--unsigned", action="store_true", help="with in-toto: do not sign with the key of this store")
    add(
        "--all",
        action="store_true",
        help="with html: write every session of this store to a folder with an index, which any file server serves; "
        "unchanged sessions are not written again",
    )
    add(
        "--with-trail",
        action="store_true",
        help="with html: carry the trail in the file, for `periplus trail verify FILE`",
    )
    add("--withhold", metavar="NAME[,NAME]", help="with html and atif: fields that the file does not tell, by the names of operands as "
        "`trail show --form verbose` has them, or error, result, note, or a field of the header")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.schemas import TrailExportOut

    _check_options(arguments)
    if arguments.format == "html":
        from periplus.cli.trail.conversion.html_export import export_html

        return export_html(face, arguments)
    if arguments.format == "atif":
        from periplus.cli.trail.conversion.atif_export import export_atif

        return export_atif(face, arguments)
    if arguments.out is not None:
        check_target(os.path.join(face.cwd, arguments.out))
    found, store = named_trail(face, arguments.trail)
    source = _source(found, store)
    if arguments.json and arguments.out is None and arguments.format == "markdown":
        raise UsageError("a Markdown report cannot be printed as JSON", safe="Nothing was written.",
                         mend="Name a file with --out, or use --format jsonl.")  # fmt: skip
    lines = guarded(_exported(face, arguments, found, source, store), found)
    if arguments.out is None:
        is_json = arguments.format != "markdown"
        for line in lines:
            face.out(safe_json(line) if is_json else line)
        return 0
    data = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
    path = face.path(arguments.out)
    write_atomic(Files(), path, data)
    is_signed = arguments.format == "in-toto" and not arguments.unsigned
    result = TrailExportOut(path, arguments.format, source.digest.hex(), len(data), is_signed)

    def told() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(data):,} bytes): {arguments.format} of trail {source.digest.hex()[:16]}"
        if is_signed:
            yield "  signed with the key of this store; to check it: periplus verify"

    face.emit(result, told)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    from periplus.base.errors import UsageError

    for option, wanted in _OF_FORMAT:
        if getattr(arguments, option.replace("-", "_")) and arguments.format not in wanted:
            raise UsageError(
                f"--{option} is for --format {' and '.join(wanted)}", mend="Omit it, or change the format."
            )
    if arguments.trail is None:
        missing, mend = (
            ("the folder to write", "Name it behind --all.")
            if arguments.all
            else ("TRAIL", "See `periplus trail list`.")
        )
        raise UsageError(f"{missing} is required", safe="Nothing was written.", mend=mend)


def _source(found: TrailFile, store: ObjectReader | None) -> ExportSource:
    from periplus.base.errors import NotFoundError
    from periplus.interop.exports.trail_source import ExportSource
    from periplus.trail import Parts, is_concatenation

    def read(sha256: bytes) -> bytes:
        if store is None:
            raise NotFoundError("no store here")
        return store.get(sha256)

    readers = trail_readers(found)
    digest = readers[0].digest if not is_concatenation(found.data) else Parts(found.data).digest
    return ExportSource(os.path.basename(found.name), found.data, readers, digest, read)


def _exported(
    face: Face, arguments: argparse.Namespace, found: TrailFile, source: ExportSource, store: ObjectReader | None
) -> Iterator[str]:
    if arguments.format == "markdown":
        from periplus.interop.exports.markdown import markdown_lines
        from periplus.trail import listing, verify

        steps = (line for reader in source.readers for line in listing(reader, "compact", width=160))
        yield from markdown_lines(source, verify(found.data, store=store), steps)
    elif arguments.format == "jsonl":
        from periplus.trail import listing

        for reader in source.readers:
            yield from listing(reader, "json")
    elif arguments.format == "otel":
        from periplus.interop.exports.otel import otel_lines

        yield from otel_lines(source, with_content=arguments.content)
    elif arguments.format == "agent-trace":
        from periplus.interop.exports.agent_trace import agent_trace

        revision, read_file = _revision(face, arguments, source)
        yield agent_trace(source, read_file, revision).decode().rstrip("\n")
    else:
        from periplus.interop.exports.in_toto import envelope, statement

        key, sign = (None, None) if arguments.unsigned else _signer(face)
        yield envelope(statement(source), key, sign).decode().rstrip("\n")


def _revision(
    face: Face, arguments: argparse.Namespace, source: ExportSource
) -> tuple[str, Callable[[str], bytes | None]]:
    """Return the commit that the trail refers to, and its files; no files if the repository does not have the commit."""
    from periplus.base.errors import PeriplusError
    from periplus.interop.exports.agent_trace import FILE_BYTES_MAX, last_commit
    from periplus.interop.git_history.history_import import commit_id, file_at

    wanted = arguments.revision or last_commit(source)
    if not wanted:
        return "", lambda _: None
    try:
        commit = commit_id(face.cwd, wanted)
    except PeriplusError:
        if arguments.revision is not None:
            raise
        return wanted, lambda _: None
    return commit, lambda path: file_at(face.cwd, commit, path, FILE_BYTES_MAX)


def _signer(face: Face) -> tuple[bytes, Callable[[bytes], bytes]]:
    from periplus.base.errors import NotAStoreError, UsageError
    from periplus.journal.storage.keys import sign

    try:
        with face.open() as project:
            layout, lineage = project.journal.layout, project.journal.lineage
            return project.public_key(), lambda message: sign(layout, lineage, message)
    except NotAStoreError as error:
        raise UsageError(
            "there is no store here, so there is no key to sign with", safe="Nothing was written.",
            mend="Create one with `periplus init`, or use --unsigned.",
        ) from error  # fmt: skip
