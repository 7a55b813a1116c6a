"""Text about claims and unknown names, shared by the commands of coordination."""

from __future__ import annotations

__all__ = ["claim_line", "claim_out", "spent_words", "tell_who_is_meant", "told_left"]

import shlex
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.common.dispatch_schemas import SpentOut
    from periplus.cli.work.claim_schemas import ClaimOut
    from periplus.journal import Entity
    from periplus.memory.coordination.claimed_symbols import ClaimedSymbols
    from periplus.project import Project


def tell_who_is_meant(face: Face, project: Project, name: str, again: str) -> None:
    """Warn that nobody is called ``name`` but somebody has a similar name; ``again`` is the corrected command, after "periplus"."""
    meant = project.work.meant_by(name) if name else ""
    if meant:
        face.stderr.write(
            f"periplus: nobody here is called {visible(name)}, but somebody is called {visible(meant)}, who does not get this\n"
            f"If you mean {visible(meant)}: periplus {again.format(visible(shlex.quote(meant)))}\n"
        )


def claim_out(project: Project, claim: Entity, symbols: ClaimedSymbols | None = None) -> ClaimOut:
    """Return the document of a claim. ``symbols`` are those of the caller's other claims, which parse a file once."""
    from periplus.cli.work.claim_schemas import ClaimOut
    from periplus.memory.claim_status import scopes_of

    symbols = symbols or project.work.claimed_symbols()
    lines = [symbols.lines(scope) for scope in scopes_of(claim)]
    value = claim.value
    scopes = value.get("scopes")
    text = {name: str(value.get(name, "")) for name in ("holder", "text", "session", "step", "created", "expires")}
    return ClaimOut(
        claim.item_id, str(value.get("mode", "exclusive")), list(map(str, scopes)) if isinstance(scopes, list) else [],
        text["holder"], project.work.is_own(claim), text["text"], text["session"], text["step"], text["created"], text["expires"],
        [list(found) if found is not None else None for found in lines],
    )  # fmt: skip


def told_left(now_ms: int, expires: str) -> str:
    from periplus.base.clock import parse_ms

    minutes = max(0, (parse_ms(expires) or now_ms) - now_ms) // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def claim_line(face: Face, claim: ClaimOut, now_ms: int) -> str:
    from periplus.memory.coordination.claims import claimed_words, clock_skew_text

    whose = "you" if claim.own else claim.holder
    lines = [f" (lines {found[0]}-{found[1]})" if found else "" for found in claim.lines] or [""] * len(claim.scopes)
    scopes = [f"{scope}{where}" for scope, where in zip(claim.scopes, lines, strict=False)]
    what = claimed_words(scopes, claim.step, claim.text)
    paint = face.palette
    return (
        f"{claim.id}  {paint.name}{visible(whose)}{paint.end} {visible(claim.mode)}, {told_left(now_ms, claim.expires)} left"
        f"{clock_skew_text(claim.created, now_ms)}: "
        f"{visible(what)}"
    )


def spent_words(spent: SpentOut) -> str:
    """Return what work of agents cost, as text; empty where nothing is known of it."""
    from periplus.memory.coordination.dispatch_overview import Spent

    return Spent(spent.tokens_in, spent.cached, spent.out, spent.cost, spent.wall_ms).words()
