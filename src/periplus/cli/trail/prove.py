"""``periplus trail prove``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import Final

from periplus.cli.common.face import Face, number, visible
from periplus.cli.trail.inputs import named_trail, part_of

_HEADER_SHOWN: Final = "agent,trail_id,tool,tool_version,base,model"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or a prefix of either), or a file")
    add("--step", type=number(0), metavar="N", required=True, help="the step to prove, counted from 0")
    add("--part", type=number(1), metavar="N", help="in a concatenation: the part of the step")
    add("--withhold", metavar="NAME[,NAME]", help="strings of the step that the file does not tell, by the names of its "
        "operands as `trail show --form verbose` has them; or error, result, note")  # fmt: skip
    add("--header", metavar="NAME[,NAME]", default=_HEADER_SHOWN, help="what the file tells of the trail's header, or none; there "
        f"are also host, source, title, parents (default: {_HEADER_SHOWN})")  # fmt: skip
    add("--out", metavar="FILE", help="the file to write; it must not exist yet (default: step-N.proof in this folder)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_new
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.schemas import TrailProveOut
    from periplus.trail import Withheld, pack_step_proof, verify_step_proof

    path = os.path.join(face.cwd, arguments.out or f"step-{arguments.step}.proof")
    check_target(path)
    found, _ = named_trail(face, arguments.trail)
    reader = part_of(found, arguments.part)
    withheld_names = _words(arguments.withhold, "--withhold")
    data = pack_step_proof(reader, arguments.step, withheld=withheld_names, header_shown=_header(arguments.header))
    verdict = verify_step_proof(data)
    if not verdict.holds or verdict.statement is None or verdict.step is None:
        from periplus.base.errors import DamageError

        raise DamageError(
            f"no proof can be made from this trail: {verdict.reason}", path=found.name, safe="Nothing was written.",
            mend="See `periplus trail verify`.",
        )  # fmt: skip
    write_new(Files(), path, data)
    step, statement = verdict.step, verdict.statement
    strings = [*step.operands, step.error, step.result, step.note]
    withheld = sum(isinstance(value, Withheld) for value in strings)
    result = TrailProveOut(
        path, statement.digest, statement.step, statement.steps, verdict.key.hex(), len(data), withheld
    )

    def lines() -> Iterator[str]:
        import shlex

        yield f"Wrote {visible(path)} ({len(data):,} bytes)"
        yield f"  step {statement.step:,} of {statement.steps:,}, of the trail with digest {statement.digest}"
        if withheld:
            yield f"  {withheld:,} of its strings {'are' if withheld > 1 else 'is'} withheld"
        name = visible(shlex.quote(os.path.basename(path)))
        vouched = f"--key {result.key}" if result.key else f"--trail-digest {statement.digest}"
        yield f"To check it without the trail: periplus verify {name} {vouched}"

    face.emit(result, lines)
    return 0


def _header(text: str) -> set[str]:
    from periplus.base.errors import UsageError
    from periplus.trail.integrity.step_proof_file import HEADER_NAMES

    names = set[str]() if text == "none" else _words(text, "--header")
    wrong = sorted(names - set(HEADER_NAMES))
    if wrong:
        raise UsageError(
            f"--header: unknown field {wrong[0][:40]!r}", safe="Nothing was written.",
            mend=f"Fields: {', '.join(HEADER_NAMES)}.",
        )  # fmt: skip
    return names


def _words(text: str | None, option: str) -> set[str]:
    from periplus.base.errors import UsageError

    words = {word.strip() for word in text.split(",")} if text is not None else set[str]()
    if "" in words:
        raise UsageError(f"{option}: a name is empty", mend="Separate names by commas.")
    return words
