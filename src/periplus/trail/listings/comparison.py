"""Compare two trails: the steps that both have, and the steps that differ.

Steps are compared by opcode and operands, then by outcome, exit code, error and note. Salts, times and sources are left
out, so two imports of one session in two stores are equal; digests of other trails are left out as well, because they
depend on the salts. Results are compared only on request, because the output of a command is seldom the same twice.

The steps of a long trail are never all in memory: two numbers are kept of each, and a step that differs is read again.
"""

from __future__ import annotations

__all__ = ["Difference", "HeaderChange", "Line", "compare", "header_changes", "is_same_step", "lines_of"]

import hashlib
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.trail.format.reader import TrailReader
from periplus.trail.listings.selection import Selection, Sieve
from periplus.trail.listings.sequence_alignment import Common, align
from periplus.trail.model import Digest, OperandValue, Signed, Step, TextObject, Withheld
from periplus.trail.opcodes import BY_NAME

Mark: TypeAlias = Literal[" ", "-", "+", "~"]
_FIELDS: Final = ("agent", "trail_id", "tool", "tool_version", "base", "model", "host", "source", "title")
_SPAWN: Final = BY_NAME["AGENT_SPAWN"]  # its last operand is the digest of a trail


class Line(NamedTuple):
    """A step of one trail or of both. ``a`` and ``b`` are part and number, from 0, in the order of the reader; ``~``
    marks a step that both have, with another outcome, error, note or result.
    """

    mark: Mark
    a: tuple[int, int] | None
    b: tuple[int, int] | None
    step_a: Step | None
    step_b: Step | None


class HeaderChange(NamedTuple):
    """A header field whose values differ. ``part`` counts from 0."""

    part: int
    name: str
    a: OperandValue
    b: OperandValue


class _Keys(NamedTuple):
    """For each compared step: a key of its operation, a key of all its content, and its place."""

    does: array[int]
    says: array[int]
    places: array[int]
    has_withheld: bytearray


class Difference(NamedTuple):
    """``common`` holds common stretches of the compared steps. ``unknown`` counts steps that are withheld in both."""

    first: _Keys
    second: _Keys
    common: list[Common]
    same: int
    changed: int
    removed: int
    added: int
    unknown: int

    @property
    def is_equal(self) -> bool:
        return not (self.changed or self.removed or self.added)


def compare(
    first: Sequence[TrailReader],
    second: Sequence[TrailReader],
    *,
    selection: Selection | None = None,
    results: bool = False,
) -> Difference:
    """Compare the steps of ``first`` with those of ``second``, each of them one trail or the parts of a concatenation."""
    keys_a, keys_b = (_keys(readers, selection or Selection(), is_full=results) for readers in (first, second))
    common = align(keys_a.does, keys_b.does)
    matched = changed = unknown = 0
    for a, b, length in common:
        matched += length
        for place in range(length):
            if keys_a.says[a + place] != keys_b.says[b + place]:
                changed += 1
            elif keys_a.has_withheld[a + place]:
                unknown += 1
    removed, added = len(keys_a.does) - matched, len(keys_b.does) - matched
    return Difference(keys_a, keys_b, common, matched - changed, changed, removed, added, unknown)


def _keys(readers: Sequence[TrailReader], selection: Selection, *, is_full: bool) -> _Keys:
    keys = _Keys(array("Q"), array("Q"), array("Q"), bytearray())
    for _, number, step in _selected(readers, selection):
        does = [bytes((step.code,)), *(_content(value) for value in step.operands)]
        if step.code == _SPAWN.code and isinstance(step.operands[-1], Digest):
            does[-1] = b"t"
        while len(does) > 1 and does[-1] == b"-":  # a trailing absent operand is the same as one left out
            does.pop()
        told = (step.outcome, step.exit_code, step.error, step.note)
        says = [*does, *(_content(value) for value in told)]
        if is_full:
            says += [_content(step.result), _content(step.result_size)]
        keys.does.append(_key(does))
        keys.says.append(_key(says))
        keys.places.append(number)
        values = (*step.operands, step.error, step.note, step.result if is_full else None)
        keys.has_withheld.append(any(isinstance(value, Withheld) for value in values))
    return keys


def _selected(readers: Sequence[TrailReader], selection: Selection) -> Iterator[tuple[int, int, Step]]:
    for part, reader in enumerate(readers):
        sieve = Sieve(selection, reader.step_count)
        for number, step in enumerate(reader.steps()):
            if sieve.is_behind(number):
                break
            if sieve.takes(number, step):
                yield part, number, step


def _key(pieces: list[bytes]) -> int:
    hashed = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        hashed.update(len(piece).to_bytes(4, "big"))
        hashed.update(piece)
    return int.from_bytes(hashed.digest(), "big")


def _content(value: OperandValue) -> bytes:
    if value is None:
        return b"-"
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, TextObject):
        return b"o" + value.sha256 + value.length.to_bytes(8, "big")
    if isinstance(value, Digest):
        return b"d" + value.algorithm.encode() + value.value
    if isinstance(value, Withheld):
        return b"w"
    return (b"n" if isinstance(value, Signed) else b"u") + str(int(value)).encode()


def header_changes(first: Sequence[TrailReader], second: Sequence[TrailReader]) -> Iterator[HeaderChange]:
    """Yield the fields of headers and statuses that differ between parts of the same place; withheld fields are not
    compared.
    """
    for part, (a, b) in enumerate(zip(first, second, strict=False)):
        for name in _FIELDS:
            value_a, value_b = getattr(a.header, name), getattr(b.header, name)
            if value_a != value_b and not any(isinstance(value, Withheld) for value in (value_a, value_b)):
                yield HeaderChange(part, name, value_a, value_b)
        if a.status != b.status:
            yield HeaderChange(part, "status", a.status, b.status)


def is_same_step(first: TrailReader, second: TrailReader) -> bool:
    """Return whether two trails agree in every step and in their headers, as far as neither withholds it."""
    if first.step_count != second.step_count or next(header_changes([first], [second]), None) is not None:
        return False
    return all(_agree(a, b) for a, b in zip(first.steps(), second.steps(), strict=True))


def _agree(a: Step, b: Step) -> bool:
    if a.code != b.code or len(a.operands) != len(b.operands):
        return False
    does_a, does_b = list(a.operands), list(b.operands)
    if a.code == _SPAWN.code:
        del does_a[-1], does_b[-1]
    said_a = (*does_a, a.outcome, a.exit_code, a.error, a.note, a.result, a.result_size)
    said_b = (*does_b, b.outcome, b.exit_code, b.error, b.note, b.result, b.result_size)
    return all(one == other or isinstance(one, Withheld) or isinstance(other, Withheld)
               for one, other in zip(said_a, said_b, strict=True))  # fmt: skip


def lines_of(
    found: Difference,
    first: Sequence[TrailReader],
    second: Sequence[TrailReader],
    *,
    selection: Selection | None = None,
    context: int = 3,
) -> Iterator[Line | None]:
    """Yield the steps that differ with ``context`` steps around them; None stands for a gap."""
    held: deque[Line] = deque(maxlen=context or None)
    after = 0
    has_gap = False
    for line in _all_lines(found, first, second, selection or Selection()):
        if line.mark == " ":
            if after:
                after -= 1
                yield line
                continue
            has_gap = has_gap or len(held) == context
            if context:
                held.append(line)
            continue
        if has_gap:
            yield None
            has_gap = False
        yield from held
        held.clear()
        yield line
        after = context


def _all_lines(
    found: Difference, first: Sequence[TrailReader], second: Sequence[TrailReader], selection: Selection
) -> Iterator[Line]:
    steps_a, steps_b = _selected(first, selection), _selected(second, selection)
    at_a = at_b = 0
    end = Common(len(found.first.does), len(found.second.does), 0)
    for a, b, length in [*found.common, end]:
        for _ in range(a - at_a):
            part, number, step = next(steps_a)
            yield Line("-", (part, number), None, step, None)
        for _ in range(b - at_b):
            part, number, step = next(steps_b)
            yield Line("+", None, (part, number), None, step)
        for place in range(length):
            part_a, number_a, step_a = next(steps_a)
            part_b, number_b, step_b = next(steps_b)
            is_same = found.first.says[a + place] == found.second.says[b + place]
            yield Line(" " if is_same else "~", (part_a, number_a), (part_b, number_b), step_a, step_b)
        at_a, at_b = a + length, b + length
