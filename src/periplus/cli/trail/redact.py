"""``periplus trail redact``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, number, visible
from periplus.cli.trail.inputs import named_trail, trail_readers

if TYPE_CHECKING:
    from periplus.trail.redactions.policy import RedactionRequest, RedactionResult


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or a prefix of either), or a file")
    add("--out", metavar="FILE", required=True, help="the file to write; it must not exist yet")
    add = parser.add_argument_group("what to redact (each is repeatable)").add_argument
    add(
        "--text",
        metavar="TEXT",
        action="append",
        default=[],
        help="redact every string that contains TEXT (other users may see what you type)",
    )
    add(
        "--text-file",
        metavar="FILE|-",
        action="append",
        default=[],
        help="the same with a text from a file, or from standard input",
    )
    add("--pattern", metavar="REGEX", action="append", default=[], help="redact every string in which this regular expression (Python) matches")  # fmt: skip
    add(
        "--path",
        metavar="GLOB",
        action="append",
        default=[],
        help="redact the steps with a matching path, as for `trail show`",
    )
    add(
        "--step",
        metavar="N",
        type=number(0),
        action="append",
        default=[],
        help="redact the strings of step N, counted from 0",
    )
    add("--part", metavar="N", type=number(1), help="in a concatenation: the part in which --step counts")
    add("--header", metavar="NAME", action="append", default=[], help="redact fields of the header: agent, trail_id, tool, tool_version, "
        "base, model, host, source, title, parents")  # fmt: skip
    add("--secrets", action="store_true", help="redact every string that contains a key, token or password")
    add = parser.add_argument_group("how much to redact").add_argument
    add(
        "--exactly",
        action="store_true",
        help="redact only these strings, not others that contain the same text or refer to it",
    )
    add(
        "--digests",
        action="store_true",
        help="also redact digests of files and results whose content is not available",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import FormatError, PeriplusError
    from periplus.base.files import Files, write_new
    from periplus.base.text.secrets import find_secrets
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.schemas import TrailRedactOut
    from periplus.trail import verify
    from periplus.trail.redactions.policy import redact_trail
    from periplus.trail.redactions.regex_search import find_matches

    path = face.path(arguments.out)
    check_target(path)
    wanted = _wanted(face, arguments)
    found, store = named_trail(face, arguments.trail)
    trail_readers(found)  # its errors say more

    def read(digest: bytes) -> bytes | None:
        try:
            return store.get(digest) if store is not None else None
        except PeriplusError:
            return None  # lost or damaged, so its content is unknown

    done = redact_trail(
        found.data,
        wanted,
        read_object=read,
        find_matches=find_matches,
        find_secrets=lambda text: [text[secret.start : secret.end] for secret in find_secrets(text)],
    )
    report = verify(done.data)
    if not report.ok:
        raise FormatError(f"the trail is not valid: {report.summary}", path=found.name, safe="Nothing was written.",
                          mend="See `periplus trail verify`.")  # fmt: skip
    if done.chosen:
        write_new(Files(), path, done.data)
    result = TrailRedactOut(path if done.chosen else "", report.digest.hex(), len(done.data), *done[1:])
    face.emit(result, lambda: _lines(face, result, done))
    return 0 if done.chosen else 1


def _lines(face: Face, result: object, done: RedactionResult) -> Iterator[str]:
    from periplus.cli.trail.schemas import TrailRedactOut

    assert isinstance(result, TrailRedactOut)
    paint = face.palette
    if not done.chosen:
        yield "Nothing matched, so nothing was written."
        return
    yield f"Wrote {visible(result.path)} ({result.bytes:,} bytes), digest {result.digest} (unchanged)"
    total = done.chosen + done.traces + done.digests
    yield f"  {total:,} of {counted(done.strings, 'strings')} withheld: {done.chosen:,} selected, {done.traces:,} with the same content"
    if done.digests:
        yield f"  {counted(done.digests, 'digests')} among them, which would confirm a guess"
    if done.unread:
        yield f"  {counted(done.unread, 'long texts')} withheld unread, because their content is not available"
    if done.before:
        yield f"  {counted(done.before, 'strings')} were withheld before"
    if done.left:
        yield f"{paint.warn}left{paint.end}  {counted(done.left, 'strings')} with the same content: omit --exactly to withhold them, too"
    if done.unchecked:
        yield f"{paint.warn}left{paint.end}  {counted(done.unchecked, 'digests')} of unavailable content: use --digests to withhold them, too"


def _wanted(face: Face, arguments: argparse.Namespace) -> RedactionRequest:
    from periplus.base.errors import UsageError
    from periplus.cli.common.face import plain
    from periplus.cli.common.inputs import read_secret
    from periplus.trail.integrity.step_proof_file import HEADER_NAMES
    from periplus.trail.redactions.policy import RedactionRequest

    texts = [plain(text, "--text") for text in arguments.text]
    texts += [read_secret(face.cwd, name) for name in arguments.text_file]
    if not all(text.strip() for text in texts):
        raise UsageError("--text is empty", safe="Nothing was written.", mend="Give the text to withhold.")
    wrong = sorted(set(arguments.header) - set(HEADER_NAMES))
    if wrong:
        raise UsageError(f"--header: unknown field {wrong[0][:40]!r}", safe="Nothing was written.",
                         mend=f"Fields: {', '.join(HEADER_NAMES)}.")  # fmt: skip
    wanted = RedactionRequest(
        tuple(texts),
        tuple(plain(pattern, "--pattern") for pattern in arguments.pattern),
        tuple(arguments.path),
        frozenset(arguments.step),
        arguments.part,
        frozenset(arguments.header),
        arguments.secrets,
    )
    if wanted == RedactionRequest(part=arguments.part):
        raise UsageError("nothing is selected", safe="Nothing was written.",
                         mend="Give --text, --text-file, --pattern, --path, --step, --header or --secrets.")  # fmt: skip
    return wanted._replace(is_exact=arguments.exactly, digests=arguments.digests)
