"""Trails without what should not be shared: fields that are named, and texts that hold a secret."""

from __future__ import annotations

__all__ = ["NAMES", "Cleaned", "cleaned"]

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from periplus.trail import OPCODES, OperandValue, Step, TrailReader, Withheld, open_parts, withhold
from periplus.trail.redactions.policy import RedactionRequest, redact_trail

_HEADER: Final = ("agent", "trail_id", "tool", "tool_version", "base", "model", "host", "source", "title", "parents")
_BESIDE: Final = ("error", "result", "note")
NAMES: Final = tuple(sorted({
    *(operand.name for row in OPCODES for operand in row.operands if operand.kind not in ("uint", "int")), *_HEADER, *_BESIDE,
}))  # fmt: skip


class Cleaned(NamedTuple):
    """``withheld`` counts the strings that were taken out."""

    data: bytes
    withheld: int


def cleaned(data: bytes, read_object: Callable[[bytes], bytes | None], names: frozenset[str]) -> Cleaned:
    """Return the trail without the fields of ``names`` and without texts that hold a secret: the digest stays the same.
    Raises FormatError for bytes that are no trail.
    """
    from periplus.base.text.secrets import find_secrets

    withheld = 0
    if names:
        before = _withheld_count(data)
        doomed = {value for reader in open_parts(data) for value in _named(reader, names)}
        data = withhold(data, lambda _index, value: value in doomed)
        withheld = _withheld_count(data) - before
    done = redact_trail(
        data, RedactionRequest(secrets=True), read_object=read_object,
        find_secrets=lambda text: [text[one.start : one.end] for one in find_secrets(text)],
    )  # fmt: skip
    if done.chosen:
        data, withheld = done.data, withheld + done.chosen + done.traces + done.digests
    return Cleaned(data, withheld)


def _withheld_count(data: bytes) -> int:
    from periplus.trail.format.layout import FORM_WITHHELD

    return sum(reader.strings.forms.count(FORM_WITHHELD) for reader in open_parts(data))


def _named(reader: TrailReader, names: frozenset[str]) -> Iterator[OperandValue]:
    for name in names.intersection(_HEADER):
        value = getattr(reader.header, name)
        yield from value if isinstance(value, tuple) else (value,)
    for step in reader.steps():
        for name, value in _fields(step):
            if name in names and not isinstance(value, (int, Withheld)):
                yield value


def _fields(step: Step) -> Iterator[tuple[str, OperandValue]]:
    from periplus.trail.listings.value_text import named_operands

    yield from named_operands(step)
    yield from (("error", step.error), ("result", step.result), ("note", step.note))
