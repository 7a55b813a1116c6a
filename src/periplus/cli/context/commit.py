"""``periplus context commit``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, plain
from periplus.cli.context.text import SHORT

if TYPE_CHECKING:
    from periplus.project import Project
    from periplus.project.context_store.contexts import Committed
    from periplus.project.context_store.lines import GivenAtom


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE|-", help="atoms, one JSON object a line: content, and optionally type, relevance (0 to 1), timestamp, source, tags; - reads standard input")  # fmt: skip
    add("--from", dest="origin", nargs="+", action="append", default=[], metavar="WHERE",
        help="`--from memory`: current decisions, constraints, traps, lessons and notes; `--from trail ID`: prompts, answers and commands of a trail (repeatable)")  # fmt: skip
    add(
        "--remove",
        action="append",
        default=[],
        metavar="DIGEST",
        help="an atom or molecule to remove (repeatable)",
    )
    add("--molecules", metavar="FILE", help="molecules, one JSON object a line: atoms (digests, or line numbers of FILE), relations, type, metadata")  # fmt: skip
    add("--ref", default="main", metavar="NAME", help="the ref to move (default: main)")
    add(
        "--base",
        default="",
        metavar="CONTEXT",
        help="the context to build on, or `none` for a new ref (default: the ref's current context)",
    )
    add("-m", "--message", default="", metavar="TEXT", help="why")
    add(
        "--insist",
        "--allow-secret",
        dest="insist",
        action="store_true",
        help="commit it even if it looks like a secret",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError

    message = plain(arguments.message, "--message")
    origins = [_origin(words) for words in arguments.origin]
    if not (arguments.file or origins or arguments.remove or arguments.molecules):
        raise UsageError("nothing to commit", safe="Nothing was changed.",
                         mend="Name a FILE of atoms, --from memory, --from trail ID, or an atom to --remove.")  # fmt: skip
    with face.open(allow_secrets=arguments.insist) as project:
        given = _given(face, project, arguments, origins)
        molecules = []
        if arguments.molecules:
            from periplus.project.context_store.lines import read_molecules

            with _lines(face, arguments.molecules) as lines:
                molecules = read_molecules(lines, arguments.molecules, given, allow_secrets=arguments.insist)
        done = project.contexts.commit(
            given,
            molecules=molecules,
            removed=[plain(one, "--remove") for one in arguments.remove],
            base=plain(arguments.base, "--base"),
            ref=plain(arguments.ref, "--ref"),
            message=message,
            is_all_memory=("memory", "") in origins,
        )
    face.clear_progress()
    _tell(face, done)
    return 0


def _origin(words: list[str]) -> tuple[str, str]:
    from periplus.base.errors import UsageError

    if words == ["memory"]:
        return "memory", ""
    if len(words) == 2 and words[0] == "trail":
        return "trail", plain(words[1], "--from trail")
    raise UsageError(f"--from {' '.join(words)[:80]!r} is not a source of atoms", safe="Nothing was committed.",
                     mend="Write --from memory or --from trail ID; put FILE before these options.")  # fmt: skip


def _given(
    face: Face, project: Project, arguments: argparse.Namespace, origins: list[tuple[str, str]]
) -> list[GivenAtom]:
    """Return all atoms that were asked for. An atom given twice keeps the annotation of the first source on the command line."""
    from periplus.project.context_store.lines import read_atoms
    from periplus.project.context_store.sources import atoms_of_memory, atoms_of_trail

    given: list[GivenAtom] = []
    if arguments.file:
        name = "standard input" if arguments.file == "-" else arguments.file
        with _lines(face, arguments.file) as lines:
            given += read_atoms(lines, name, now_ms=project.journal.clock.now_ms(), allow_secrets=arguments.insist,
                                progress=face.progress("reading"))  # fmt: skip
    for kind, reference in origins:
        if kind == "memory":
            given += atoms_of_memory(project.journal, allow_secrets=arguments.insist)
        else:
            progress = face.progress("reading the trail")
            given += atoms_of_trail(project, reference, allow_secrets=arguments.insist, progress=progress)
    first: dict[bytes, GivenAtom] = {}
    for one in given:
        first.setdefault(one.digest, one)
    return list(first.values())


@contextmanager
def _lines(face: Face, name: str) -> Iterator[Iterable[bytes]]:
    from periplus.base.errors import environment_failure
    from periplus.cli.common.inputs import check_file
    from periplus.project.context_store.lines import LINE_BYTES_MAX

    if name == "-":
        face.tell_reading("atoms, one JSON object a line,")
        yield iter(lambda: sys.stdin.buffer.readline(LINE_BYTES_MAX + 1), b"")
        return
    path = os.path.join(face.cwd, name)
    check_file(path)
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below; what the reader of the lines raises is no failure to open
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    with file:
        yield iter(lambda: file.readline(LINE_BYTES_MAX + 1), b"")


def _tell(face: Face, done: Committed) -> None:
    from periplus.cli.context.schemas import ContextCommitOut

    def text(digest: bytes | None) -> str:
        return digest.hex() if digest is not None else ""

    result = ContextCommitOut(text(done.digest), text(done.base), done.ref, done.changed, done.added, done.annotated, done.removed,
                              done.molecules, done.live)  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        if not done.changed:
            nothing = f"Nothing to commit: no atoms were given, and the ref {done.ref} does not exist."
            yield f"Nothing new: {done.ref} is already at {result.context[:SHORT]}." if result.context else nothing
            return
        parts = [f"{done.added:,} new"] if done.added else []
        parts += [f"{done.annotated:,} re-annotated"] if done.annotated else []
        parts += [f"{done.removed:,} removed"] if done.removed else []
        parts += [counted(done.molecules, "molecules")] if done.molecules else []
        yield f"{paint.name}{result.context[:SHORT]}{paint.end} {done.ref}: {', '.join(parts)}; {counted(done.live, 'atoms')} now"

    face.emit(result, lines)
