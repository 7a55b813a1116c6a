"""The trail of a replay: the same steps with their new outcomes, and the digest of the original as its parent."""

from __future__ import annotations

__all__ = ["replay_trail"]

from collections.abc import Callable, Sequence
from typing import Final

from periplus.trail.format.builder import TrailBuilder
from periplus.trail.format.layout import INLINE_TEXT_BYTES_MAX
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import Digest, Header, OperandValue, Outcome, Status, Step, Text, Withheld
from periplus.trail.opcodes import BY_CODE, opcode_name
from periplus.trail.replay.executor import Replay, ReplayReport, StepCursor

_STATUS: Final[dict[str, Status]] = {"same": "success", "diverged": "error", "paused": "partial", "limit": "partial"}
_WITHHELD: Final = "(withheld)"


def replay_trail(
    readers: Sequence[TrailReader],
    digest: bytes,
    replay: Replay,
    report: ReplayReport,
    *,
    world: str,
    secret: bytes,
    put_text: Callable[[bytes], bytes],
) -> bytes:
    """Return the bytes of the trail of ``replay``. A step that was not performed has the outcome ``unknown`` and a
    note; a step whose content was redacted becomes a comment.
    """
    builder = TrailBuilder(secret, put_text)
    steps = StepCursor(readers)
    for done in replay.outcomes:
        step = steps.at(done.index)
        is_performed = done.state in ("done", "denied")
        error = done.error or (None if is_performed else "not performed")
        result = Digest("sha256", bytes.fromhex(done.result)) if done.result else None
        _add(builder, step, outcome=done.outcome, exit_code=done.exit_code, error=error, result=result,
             result_size=done.size if result else 0, at_ms=done.at_ms, duration_ms=done.duration_ms)  # fmt: skip
    original = readers[0].header
    base = original.base if not isinstance(original.base, Withheld) else None
    title = f"replay in a {world} world of {_shown(original.title or original.trail_id)}"
    header = Header(
        "periplus replay", f"replay of {digest.hex()[:16]}", base=base, title=title[:200],
        parents=(Digest("sha256", digest),),
    )  # fmt: skip
    return builder.finish(header, _STATUS[report.verdict])


def _add(
    builder: TrailBuilder,
    step: Step,
    *,
    outcome: Outcome,
    exit_code: int | None,
    error: str | None,
    result: Digest | None,
    result_size: int,
    at_ms: int,
    duration_ms: int,
) -> None:
    row = BY_CODE.get(step.code)
    operands: list[OperandValue] = []
    for place, value in enumerate(step.operands):
        is_digest = row is not None and row.operands[place].kind == "digest"
        if isinstance(value, Withheld) and is_digest:
            builder.add("COMMENT", f"{opcode_name(step.code)} {_WITHHELD}", outcome=outcome, error=error, at_ms=at_ms)
            return
        operands.append(_WITHHELD if isinstance(value, Withheld) else value)
    note: Text | None = _WITHHELD if isinstance(step.note, Withheld) else step.note
    add = builder.add if row is not None else builder.add_unknown
    add(step.code, *operands, outcome=outcome, exit_code=exit_code, error=error, result=result,
        result_size=result_size, note=note, at_ms=at_ms, duration_ms=duration_ms)  # fmt: skip


def _shown(text: Text) -> str:
    return text if isinstance(text, str) and len(text.encode("utf-8", "replace")) < INLINE_TEXT_BYTES_MAX else "a trail"
