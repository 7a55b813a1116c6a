"""Loops as documents and as lines of text."""

from __future__ import annotations

__all__ = ["heading_lines", "loop_out", "show_lines", "show_out"]

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.cli.common.face import Palette, visible
from periplus.cli.dispatch.loop.schemas import ArtifactOut, CheckOut, LoopOut, LoopShowOut
from periplus.memory.entities.schemas import Loop

if TYPE_CHECKING:
    from periplus.journal import Entity, Journal

_TEXT_MAX: Final = 2_000
_OUTPUT_LINES: Final = 10
_SHORT: Final = 12


def loop_out(loop: Entity) -> LoopOut:
    one = msgspec.convert(loop.value, Loop)
    return LoopOut(
        loop.item_id, one.kind, one.state, one.phase, one.text, list(one.agents), one.branch, one.base, one.head, one.tries, one.dispatch,
        list(one.command), list(one.missing), one.created, one.reason,
    )  # fmt: skip


def show_out(journal: Journal, loop: Entity) -> LoopShowOut:
    """Return a loop with the texts of its artifacts and the outputs of its checks, as far as they are here."""
    one = msgspec.convert(loop.value, Loop)
    artifacts = [
        ArtifactOut(each.phase, each.by, each.agent, each.assignment, each.text or _object(journal, each.object), each.at, each.refused)
        for each in one.artifacts
    ]  # fmt: skip
    checks = [CheckOut(each.phase, list(each.argv), each.tip, each.code, _object(journal, each.output)) for each in one.checks]  # fmt: skip
    return LoopShowOut(loop_out(loop), artifacts, checks)


def heading_lines(loop: LoopOut, paint: Palette, width: int | None) -> Iterator[str]:
    """Yield a loop in two or three lines."""
    where = f"at {loop.phase}" if loop.state == "open" else f"closed: {loop.reason}"
    yield visible(f"{loop.id} {loop.kind}, {where}: {' '.join(loop.text.split())}", width)
    for text in loop.missing if loop.state == "open" else ():
        yield f"    {paint.warn}missing{paint.end}  {visible(' '.join(text.split()))}"


def show_lines(shown: LoopShowOut, paint: Palette, width: int | None) -> Iterator[str]:
    """Yield a loop with all that was handed in, and what a person can do now."""
    loop = shown.loop
    yield from heading_lines(loop, paint, width)
    yield f"  agents  {visible(', '.join(loop.agents))}"
    yield f"  branch  {visible(loop.branch)} from {loop.head[:_SHORT]}"
    if loop.command:
        yield f"  check   {visible(shlex.join(loop.command))}"
    for one in shown.artifacts:
        refused = f", {paint.warn}refused{paint.end}" if one.refused else ""
        yield f"{paint.name}{visible(one.phase)}{paint.end}  {visible(one.by)} ({visible(one.agent)}){refused}"
        yield f"    {visible(' '.join(one.text[:_TEXT_MAX].split()))}"
    for check in shown.checks:
        ended = "stopped at its limit" if check.code is None else f"exit code {check.code}"
        yield f"{paint.name}{visible(check.phase)}{paint.end}  $ {visible(shlex.join(check.argv))}  ({ended}, at {check.tip[:_SHORT]})"
        yield from (f"    {visible(row)}" for row in check.output.splitlines()[-_OUTPUT_LINES:])
    yield from next_lines(loop)


def next_lines(loop: LoopOut) -> Iterator[str]:
    if loop.state == "open":
        yield f"To go on: periplus loop next {loop.id}"
    elif loop.kind in ("debug", "review"):
        yield f"The work is on the branch {loop.branch}. To take it over: git merge {loop.branch}"


def _object(journal: Journal, digest: str) -> str:
    from periplus.base.errors import PeriplusError

    try:
        return journal.load_object(digest).decode("utf-8", "replace") if digest else ""
    except PeriplusError as error:
        return f"({error})"
