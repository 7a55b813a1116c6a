"""Values of our own in a document: digests, operands of steps, and what is known of a step beside them."""

from __future__ import annotations

__all__ = ["StepFacts", "digest_of", "facts_of", "operands_of"]

import re
from typing import Final, NamedTuple

from periplus.interop.conversion.intake import Intake
from periplus.interop.readers.json_values import integer_of, list_of, natural_of, text_of
from periplus.trail.model import DIGEST_SIZES, OUTCOMES, Digest, OperandValue, Outcome
from periplus.trail.opcodes import BY_NAME, Operand

_DIGEST: Final = re.compile(r"(sha256|git-sha1|git-sha256):([0-9a-f]{40,64})", re.ASCII)


class StepFacts(NamedTuple):
    """Facts of a step; those that the document does not give have the usual value."""

    after_ms: int
    duration_ms: int | None
    outcome: Outcome
    exit_code: int | None
    error: str | None
    note: str | None
    result: Digest | None
    result_size: int


def digest_of(value: object) -> Digest | None:
    match = _DIGEST.fullmatch(text_of(value))
    if match is None:
        return None
    for algorithm, size in DIGEST_SIZES.items():
        if algorithm == match[1] and 2 * size == len(match[2]):
            return Digest(algorithm, bytes.fromhex(match[2]))
    return None


def facts_of(intake: Intake, table: dict[str, object]) -> StepFacts:
    """Return the facts in ``table``; texts are masked, and values that no trail can hold count as absent."""
    outcome = next((one for one in OUTCOMES if one == table.get("outcome")), None)
    duration = integer_of(table.get("duration_ms"))
    result = digest_of(table.get("result"))
    error, note = table.get("error"), table.get("note")
    return StepFacts(
        integer_of(table.get("after_ms")) or 0,
        duration if duration is not None and duration >= 0 else None,
        outcome or ("unknown" if "outcome" in table else "ok"),
        integer_of(table.get("exit_code")),
        intake.mask(error) if isinstance(error, str) else None,
        intake.mask(note) if isinstance(note, str) else None,
        result,
        natural_of(table.get("result_size")) if result is not None else 0,
    )


def operands_of(
    intake: Intake, op: str, arguments: dict[str, object], table: dict[str, object]
) -> list[OperandValue] | None:
    """Return the operands of a step of ``op``, None where a required one is absent or wrong. ``table`` names the
    arguments that are digests; for others the text of the content is stored.
    """
    row = BY_NAME.get(op)
    if row is None:
        return None
    digests = list_of(table.get("digests"))
    found: list[OperandValue] = []
    for operand in row.operands:
        value = _operand(intake, operand, arguments.get(operand.name), is_digest=operand.name in digests)
        if value is None and not (operand.optional and arguments.get(operand.name) is None):
            return None
        found.append(value)
    return found


def _operand(intake: Intake, operand: Operand, value: object, *, is_digest: bool) -> OperandValue:
    if operand.kind in ("uint", "int"):
        number = integer_of(value)
        return number if number is not None and (number >= 0 or operand.kind == "int") else None
    if not isinstance(value, str):
        return None
    if operand.kind == "digest":
        return digest_of(value) if is_digest else intake.keep(value)
    return intake.mask(value)
