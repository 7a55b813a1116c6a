"""The options that select steps of a trail: ``--steps``, ``--op``, ``--outcome``, ``--path``."""

from __future__ import annotations

__all__ = ["add_filters", "range_of", "selection_of"]

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from periplus.trail import Selection

_DIGITS_MAX: Final = 12


def add_filters(parser: argparse.ArgumentParser, *, steps: bool = True) -> None:
    add = parser.add_argument_group("selection of steps").add_argument
    if steps:
        add("--steps", metavar="A:B", help="steps A to B, B not included, counted from 0; A or B may be left out, or negative "
            "to count from the end (--steps=-20: is the last twenty); N alone is that one")  # fmt: skip
    add("--op", metavar="NAME[,NAME]", action="append", help="only these opcodes, by name or code: TEST_RUN, 0x95")
    add("--outcome", metavar="WORD[,WORD]", action="append",
        help="only steps with this outcome: ok, failed, denied, cancelled, unknown")  # fmt: skip
    add("--path", metavar="GLOB", action="append", help="only steps with a matching path (repeatable): src/*.py, "
        "auth.py, src/**, docs/")  # fmt: skip


def selection_of(arguments: argparse.Namespace) -> Selection:
    """Parse the options. Raises UsageError."""
    from periplus.trail import Selection
    from periplus.trail.listings.selection import path_matcher

    first, end = range_of(getattr(arguments, "steps", None))
    for glob in arguments.path or ():
        path_matcher(glob)
    return Selection(first, end, _opcodes(arguments.op), _outcomes(arguments.outcome), tuple(arguments.path or ()))


def range_of(text: str | None) -> tuple[int | None, int | None]:
    """Parse the two ends of ``--steps``. Raises UsageError."""
    from periplus.base.errors import UsageError

    if text is None:
        return None, None
    first, colon, end = text.partition(":")
    is_number = [
        part.isascii() and part.removeprefix("-").isdecimal() and len(part) <= _DIGITS_MAX for part in (first, end)
    ]
    if not (is_number[0] or (not first and colon)) or not (is_number[1] or not end):
        raise UsageError(
            f"--steps {text[:60]!r} is not a range of steps",
            mend="Write 100:200, 100:, :200, 7, or --steps=-20: for the last.",
        )
    low, high = (int(part) if part else None for part in (first, end))
    if not colon:
        assert low is not None
        return low, low + 1 if low != -1 else None
    return low, high


def _opcodes(words: list[str] | None) -> frozenset[int] | None:
    from periplus.base.errors import UsageError
    from periplus.trail import BY_NAME

    if words is None:
        return None
    found = set()
    for name in _words("--op", words):
        known = BY_NAME.get(name.upper())
        digits = name.upper().removeprefix("OP_").removeprefix("0X")
        if known is not None:
            found.add(known.code)
        elif len(digits) == 2 and digits != name.upper() and set(digits) <= set("0123456789ABCDEF"):
            found.add(int(digits, 16))
        else:
            import difflib

            near = difflib.get_close_matches(name.upper()[:40], BY_NAME, 1)
            guess = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"unknown opcode {name[:40]!r}",
                mend=f"{guess}See the table in docs/formats/trail.md; codes look like 0xC7.",
            )
    return frozenset(found)


def _outcomes(words: list[str] | None) -> frozenset[str] | None:
    from periplus.base.errors import UsageError
    from periplus.trail import OUTCOMES

    if words is None:
        return None
    found = frozenset(word.lower() for word in _words("--outcome", words))
    wrong = sorted(found - set(OUTCOMES))
    if wrong:
        raise UsageError(f"unknown outcome {wrong[0][:40]!r}", mend=f"Write one or more of {', '.join(OUTCOMES)}.")
    return found


def _words(option: str, values: list[str]) -> list[str]:
    from periplus.base.errors import UsageError

    words = [word.strip() for value in values for word in value.split(",")]
    if not all(words):
        raise UsageError(f"{option}: the list contains an empty name", mend="Separate names by commas.")
    return words
