"""``periplus context bisect``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, plain
from periplus.cli.context.text import SHORT, context_argument, entry_out, line_out, line_text, refs_at

if TYPE_CHECKING:
    from periplus.project.context_store.contexts import ProjectContexts

_STANDARD_ERROR: Final = 2  # the output of the command is not part of the result
_ABORTS_FROM: Final = 125  # exit codes above this are no verdict, as in `git bisect run`


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--has", metavar="TEXT", help="the test: an atom contains this text, ignoring case")
    what.add_argument("--atom", metavar="DIGEST", help="the test: the context has this atom")
    what.add_argument("--run", nargs=argparse.REMAINDER, metavar="COMMAND", help="the test: this command (all words that follow) exits with 0; it reads atoms as lines of JSON, and PERIPLUS_CONTEXT has the digest")  # fmt: skip
    parser.add_argument(
        "--lacks", default="", metavar="CONTEXT", help="an older context that is known to fail the test (default: none)"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextBisectOut
    from periplus.context.deltas.log import bisect

    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        lacks = contexts.resolve(plain(arguments.lacks, "--lacks")) if arguments.lacks else None
        holds = _test(face, contexts, digest, arguments)
        found = bisect(contexts.library, digest, holds, lacks=lacks)
        first = None
        if found is not None:
            first = line_out(contexts.library.header(found.first.context), refs_at(contexts.table.all()))
    result = ContextBisectOut(digest.hex(), first, found.asked if found is not None else 1)

    def lines() -> Iterator[str]:
        if result.first is None:
            yield f"The test fails for {result.context[:SHORT]}."
            return
        yield f"{line_text(face, result.first)}"
        yield f"is the first context that passes; {result.tested:,} tested."

    return face.emit(result, lines, 0 if first is not None else 1)


def _test(
    face: Face, contexts: ProjectContexts, digest: bytes, arguments: argparse.Namespace
) -> Callable[[bytes], bool]:
    from periplus.base.encoding.digests import is_digest_text
    from periplus.base.errors import UsageError
    from periplus.context.deltas.log import has_atom, has_text

    if arguments.has is not None:
        if not arguments.has:
            raise UsageError("--has: the text is empty", safe="Nothing was changed.")
        return has_text(contexts.library, plain(arguments.has, "--has"))
    if arguments.atom is not None:
        named = plain(arguments.atom, "--atom").lower()
        atom = (
            bytes.fromhex(named)
            if is_digest_text(named)
            else contexts.atom_named(contexts.library.expand(digest), named)
        )
        return has_atom(contexts.library, atom)
    if not arguments.run or not arguments.run[0]:
        raise UsageError("--run: the command is missing", safe="Nothing was changed.")
    return lambda context: _run(face, contexts, context, arguments.run)


def _run(face: Face, contexts: ProjectContexts, context: bytes, command: list[str]) -> bool:
    """Run the command on the atoms of ``context``; return whether it exits with 0. It may exit before reading all of them."""
    import subprocess

    import msgspec

    from periplus.base.errors import UsageError

    environment = {**face.environment, "PERIPLUS_CONTEXT": context.hex()}
    try:
        process = subprocess.Popen(  # noqa: S603 - the command that the person typed, as words, not for a shell
            command, cwd=face.cwd, env=environment, stdin=subprocess.PIPE, stdout=_STANDARD_ERROR
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--run: {command[0][:100]} cannot be run: {why}", safe="Nothing was changed.") from error
    assert process.stdin is not None
    try:
        for entry in contexts.entries(context):
            process.stdin.write(msgspec.json.encode(entry_out(entry)) + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it does not need the rest
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        code = process.wait()
    if code < 0 or code >= _ABORTS_FROM:
        raise UsageError(f"--run: {command[0][:100]} exited with {code}, which is neither pass nor fail", safe="Nothing was changed.",
                         mend="Exit code 0 means pass, 1 to 124 fail.")  # fmt: skip
    return code == 0
