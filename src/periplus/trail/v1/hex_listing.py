"""Hex listing of version 1: every byte of the file once, at its offset, with its meaning and its faults."""

from __future__ import annotations

__all__ = ["flux_hex_lines"]

from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.trail.listings.hex_listing import frame_lines
from periplus.trail.listings.value_text import View, visible
from periplus.trail.opcodes import FLUX_BY_CODE, TRAIL_BEGIN, TRAIL_END, opcode_name
from periplus.trail.v1.reader import FluxReader, FluxStep

_HEADER_BYTES: Final = 10
_TABLE_BYTES: Final = 3


class _Item(NamedTuple):
    start: int
    end: int
    told: str


def flux_hex_lines(reader: FluxReader, data: bytes, view: View | None = None) -> Iterator[str]:
    """Yield the lines, without line ends; ``data`` are the bytes that ``reader`` reads. The bytes of all lines together
    are the file. A fault follows an exclamation mark on the line of the bytes in which it lies.
    """
    faults = reader.faults
    told_faults = 0
    for item in _filled(_items(reader, data), len(data)):
        told = item.told
        while told_faults < len(faults) and faults[told_faults].offset < item.end:
            told += f" ! {faults[told_faults].text}"
            told_faults += 1
        yield from frame_lines(data, item.start, item.end, visible(told), view or View())
    for fault in faults[told_faults:]:
        yield f"; {visible(fault.text)}"


def _filled(items: Iterator[_Item], size: int) -> Iterator[_Item]:
    """Yield the items, and the uninterpreted bytes between and behind them."""
    at = 0
    for item in items:
        if item.start > at:
            yield _Item(at, item.start, "not read")
        yield item
        at = item.end
    if at < size:
        yield _Item(at, size, "not read")


def _items(reader: FluxReader, data: bytes) -> Iterator[_Item]:
    for step in reader.steps():
        yield _Item(
            step.offset, step.offset + _size(step), f"{step.number} {opcode_name(step.code)} {_operands(step)}".rstrip()
        )
    for number, string in enumerate(reader.string_spans()):
        if not number:
            count = int.from_bytes(data[string.start - _TABLE_BYTES + 1 : string.start], "little")
            yield _Item(string.start - _TABLE_BYTES, string.start, f"string table of {count:,}")
        yield _Item(string.start, string.end, f'{string.key:08x} "{string.text}"')


def _size(step: FluxStep) -> int:
    if step.code == TRAIL_BEGIN.code:
        return _HEADER_BYTES
    if step.code == TRAIL_END.code:
        return 4
    return 1 if FLUX_BY_CODE.get(step.code) == FLUX_BY_CODE[0x9F] else 2 + 2 * len(step.slots)


def _operands(step: FluxStep) -> str:
    if step.code == TRAIL_END.code:
        return f"total={step.slots[0]} status={step.slots[1]}"
    known = FLUX_BY_CODE.get(step.code)
    if known is None:
        return " ".join(f"{slot:04x}" for slot in step.slots)
    return " ".join(
        f"{operand.name}={value!r}" if value is not None else f"{operand.name}=?"
        for operand, value in zip(known.operands, step.operands, strict=False)
    )
