"""What the commands of coordination have in common: what was typed is text, and how claims and changes are told."""

from __future__ import annotations

__all__ = ["add_insist", "changed", "check_typed", "claim_line", "claim_out", "tell_who_is_meant", "told_left"]

import argparse
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.face import Face, plain, visible

if TYPE_CHECKING:
    from periplus.cli.claim_schemas import ClaimOut
    from periplus.journal import Entity
    from periplus.memory.lifecycle import Changed
    from periplus.project import Project


def add_insist(parser: argparse.ArgumentParser) -> None:
    """Let who types a command write what looks like a secret and is none."""
    parser.add_argument("--insist", action="store_true", help="write it although it looks like a secret")


def check_typed(arguments: argparse.Namespace) -> None:
    """Raises UsageError for an argument whose bytes are no UTF-8."""
    for name, value in vars(arguments).items():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and name not in ("store", "writer"):
                plain(word, f"'{visible(word, 60)}'")


def tell_who_is_meant(face: Face, project: Project, name: str, again: str) -> None:
    """Say on standard error that nobody is called ``name``, but nearly so; ``again`` is the command for him, behind "periplus"."""
    meant = project.work.meant_by(name) if name else ""
    if meant:
        face.stderr.write(
            f"periplus: nobody has written here as {visible(name)}, and somebody has as {visible(meant)}, who is not shown it\n"
            f"If he is meant: periplus {again.format(visible(shlex.quote(meant)))}\n"
        )


def claim_out(project: Project, claim: Entity) -> ClaimOut:
    from periplus.cli.claim_schemas import ClaimOut

    value = claim.value
    scopes = value.get("scopes")
    text = {name: str(value.get(name, "")) for name in ("holder", "text", "session", "step", "created", "expires")}
    return ClaimOut(
        claim.item_id, str(value.get("mode", "exclusive")), list(map(str, scopes)) if isinstance(scopes, list) else [],
        text["holder"], project.work.is_own(claim), text["text"], text["session"], text["step"], text["created"], text["expires"],
    )  # fmt: skip


def told_left(now_ms: int, expires: str) -> str:
    from periplus.base.clock import parse_ms

    minutes = max(0, (parse_ms(expires) or now_ms) - now_ms) // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def claim_line(face: Face, claim: ClaimOut, now_ms: int) -> str:
    from periplus.memory.claims import claimed_words, told_ahead

    whose = "you" if claim.own else claim.holder
    what = claimed_words(claim.scopes, claim.step, claim.text)
    paint = face.palette
    return (
        f"{claim.id}  {paint.name}{visible(whose)}{paint.end} {visible(claim.mode)}, {told_left(now_ms, claim.expires)} left"
        f"{told_ahead(claim.created, now_ms)}: "
        f"{visible(what)}"
    )


def changed(face: Face, done: Changed) -> int:
    """Tell what a change did to which entities."""
    from periplus.cli.convert import entity_out
    from periplus.cli.work_schemas import ChangedOut

    result = ChangedOut([entity_out(one) for one in done.entities], done.receipt.key if done.receipt else "", list(done.near),
                        list(done.notes))  # fmt: skip

    def lines() -> Iterator[str]:
        if done.receipt is None:
            yield "Nothing had to change."
        for one in done.entities:
            state = visible(str(one.value.get("state", "")))
            text = visible(" ".join(str(one.value.get("text", one.value.get("name", ""))).split()))
            yield f"{one.item_type} {face.palette.name}{one.item_id}{face.palette.end}{' ' + state if state else ''}: {text}"
        for note in done.notes:
            yield f"  {visible(note)}."
        for near in done.near:
            yield f"  Says almost the same: {near}. See `periplus show {near}`."

    face.emit(result, lines)
    return 0
