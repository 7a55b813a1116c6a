"""Search with a user's regular expression in a separate process, which is killed when it takes too long.

An expression can take exponential time on some texts, and a process cannot reliably interrupt its own search; see
docs/decisions/0003-regular-expressions.md.
"""

from __future__ import annotations

__all__ = ["EXPRESSION_CHARS_MAX", "SEARCH_SECONDS_MAX", "find_matches"]

import json
from collections.abc import Sequence
from typing import Final

from periplus.base.errors import EnvironmentFailure, RefusedError, UsageError

EXPRESSION_CHARS_MAX: Final = 1_000
SEARCH_SECONDS_MAX: Final = 10.0


def find_matches(
    expression: str, texts: Sequence[str], *, seconds: float = SEARCH_SECONDS_MAX
) -> dict[int, tuple[str, ...]]:
    """Return what ``expression`` (in the syntax of Python's ``re``) matches in each text, by index; empty matches do
    not count.

    Raises UsageError for an invalid expression or for too many matches, RefusedError when the time is over.
    """
    import subprocess
    import sys

    from periplus.trail.redactions import regex_child

    if not 0 < len(expression) <= EXPRESSION_CHARS_MAX:
        raise UsageError(f"a pattern has 1 to {EXPRESSION_CHARS_MAX:,} characters, not {len(expression):,}",
                         safe="Nothing was written.", mend="Write it shorter, or give several.")  # fmt: skip
    command = [sys.executable, "-I", str(regex_child.__file__)]
    asked = json.dumps({"expression": expression, "texts": list(texts)}).encode()
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=seconds, check=False)  # noqa: S603 - this Python and a file of ours
    except subprocess.TimeoutExpired:
        raise RefusedError(
            f"the pattern was still searching after {seconds:g} seconds", safe="Nothing was written.",
            mend="Write one without nested repetitions, or give the text with --text-file.",
        ) from None  # fmt: skip
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot start the search process: {error.strerror}", safe="Nothing was written."
        ) from error
    if done.returncode:
        raise RefusedError(
            f"the search for the pattern ended with {done.returncode}: it took too much memory",
            safe="Nothing was written.", mend="Write a simpler one, or give the text with --text-file.",
        )  # fmt: skip
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise UsageError(
            f"the pattern: {answer['error']}", safe="Nothing was written.", mend="Use the syntax of Python's re module."
        )
    return {index: tuple(matched) for index, matched in answer["found"]}
