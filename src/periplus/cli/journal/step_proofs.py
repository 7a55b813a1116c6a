"""``periplus verify`` for the proof of a step, as ``trail prove`` writes it."""

from __future__ import annotations

__all__ = ["may_be_step_proof", "verify_step"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.trail import StepVerdict


def may_be_step_proof(data: bytes) -> bool:
    """Return whether the file looks like the proof of a step, before the trail code is loaded."""
    if b'"kind":"trail-step"' not in data[:1100]:
        return False
    from periplus.trail import is_step_proof

    return is_step_proof(data)


def verify_step(face: Face, data: bytes, key: bytes | None, arguments: argparse.Namespace) -> int:
    """Verify the file ``data`` with the given digest or key, or with the trails of this store; return the exit code."""
    from periplus.base.encoding.digests import parse_digest
    from periplus.base.errors import UsageError
    from periplus.cli.trail.schemas import StepProofOut
    from periplus.trail import verify_step_proof

    if arguments.head is not None:
        raise UsageError("--head is for proofs of the journal; this is the proof of a step",
                         mend="Give --trail-digest or --key.")  # fmt: skip
    digest = parse_digest(arguments.trail_digest) if arguments.trail_digest is not None else None
    verdict = verify_step_proof(data, digest=digest, key=key)
    whose = _whose(face, verdict, is_digest=digest is not None, is_key=key is not None) if verdict.holds else ""
    statement = verdict.statement
    told = (statement.digest, statement.step, statement.steps, statement.status) if statement else ("", 0, 0, "")
    header, value = _plain(verdict) if verdict.holds else ({}, {})
    result = StepProofOut(verdict.holds, verdict.reason, whose, *told, verdict.key.hex(), header, value)

    def lines() -> Iterator[str]:
        paint = face.palette
        if not verdict.holds:
            yield f"{paint.bad}does not hold{paint.end}: {visible(verdict.reason)}"
            return
        unknown = "consistent, but its trail is unknown: give --trail-digest or --key"
        yield f"{paint.good}holds{paint.end}: {visible(whose or unknown)}"
        yield from _told(face, verdict)

    face.emit(result, lines)
    return 0 if verdict.holds else 3


def _whose(face: Face, verdict: StepVerdict, *, is_digest: bool, is_key: bool) -> str:
    assert verdict.statement is not None
    parts = ["of the trail with the digest given"] if is_digest else []
    if is_key:
        parts.append(f"of a trail signed by key {verdict.key.hex()}")
    if not parts:
        held = _held(face, verdict.statement.digest)
        parts = [f"of the trail {held} in this store"] if held else []
    return ", ".join(parts)


def _held(face: Face, digest: str) -> str:
    """Return the id of the trail in this store with this digest; empty if there is none, or no store."""
    from periplus.base.errors import PeriplusError

    try:
        with face.open() as project:
            return next((trail.item_id for trail in project.trails() if trail.value.get("digest") == digest), "")
    except PeriplusError:
        if face.store_option is not None:
            raise
        return ""


def _plain(verdict: StepVerdict) -> tuple[dict[str, object], dict[str, object]]:
    from periplus.trail.listings.step_listing import plain_step, plain_value
    from periplus.trail.listings.value_text import View

    assert verdict.step is not None
    assert verdict.statement is not None
    header: dict[str, object] = {}
    parents: list[object] = []
    for name, value in verdict.header:
        if name == "parents":
            parents.append(plain_value(value, View()))
        else:
            header[name] = plain_value(value, View())
    return {**header, "parents": parents}, plain_step(verdict.statement.step, verdict.step, View())


def _told(face: Face, verdict: StepVerdict) -> Iterator[str]:
    from periplus.trail.listings.step_listing import step_lines
    from periplus.trail.listings.value_text import View, line_of, shown
    from periplus.trail.model import Withheld

    statement, step = verdict.statement, verdict.step
    assert statement is not None
    assert step is not None
    view = View(face.width, bool(face.palette.bold))
    yield f"Step {statement.step:,} of the {statement.steps:,} of a trail that ended in {statement.status}:"
    yield from step_lines(statement.step, step, view)
    yield f"The trail has the digest {statement.digest}"
    for name, value in verdict.header:
        if not isinstance(value, Withheld):
            label = name.replace("_", " ")
            yield line_of([("dim", f"  {label:<13}"), ("plain", shown(value, view, is_quoted=False))], view)
    if verdict.key:
        yield f"  {'signed by':<13}key {verdict.key.hex()}"
    hidden = sum(isinstance(value, Withheld) for value in (*step.operands, step.error, step.result, step.note))
    if hidden:
        yield f"{hidden:,} of the step's strings {'are' if hidden > 1 else 'is'} withheld: their presence is proved, not their text."
