"""Pattern matching with Python alone, in a process of its own that is ended when it takes too long.

Ripgrep, where installed, gives the same answer in time linear in the text; see docs/decisions/0003-regular-expressions.md.
"""

from __future__ import annotations

__all__ = ["SEARCH_SECONDS_MAX", "LineMatch", "lines_of", "match_texts", "matching_lines"]

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from periplus.agent.tools.text_pages.search_patterns import Pattern
from periplus.base.errors import EnvironmentFailure, RefusedError

SEARCH_SECONDS_MAX: Final = 20.0
_BATCH_CHARS: Final = 8 << 20
_SHOWN_CHARS: Final = 500


class LineMatch(NamedTuple):
    """A matching line; ``line`` counts from 1."""

    name: str
    line: int
    text: str


def lines_of(text: str) -> list[str]:
    """Split into lines as both engines do: after the last line end there is a line only if it has text."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def match_texts(
    pattern: Pattern, texts: Iterable[tuple[str, str]], *, seconds: float = SEARCH_SECONDS_MAX
) -> Iterator[LineMatch]:
    """The matching lines, in the order of the texts. Raises RefusedError when the time is over."""
    import time

    deadline = time.monotonic() + seconds
    for batch in _batches(texts):
        found = matching_lines(pattern, [text for _, text in batch], seconds=max(0.0, deadline - time.monotonic()))
        for (name, text), numbers in zip(batch, found, strict=True):
            lines = lines_of(text) if numbers else []
            for number in numbers:
                yield LineMatch(name, number, lines[number - 1].rstrip("\r")[:_SHOWN_CHARS])


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for one in texts:
        batch.append(one)
        size += len(one[1]) + 100
        if size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def matching_lines(pattern: Pattern, texts: Sequence[str], *, seconds: float) -> list[list[int]]:
    """The numbers of the matching lines of each text."""
    if pattern.literal is not None:
        return [_holding(pattern.literal, text) for text in texts]
    return _asked(pattern.python, texts, seconds)


def _holding(literal: str, text: str) -> list[int]:
    if literal not in text:
        return []
    return [number for number, line in enumerate(lines_of(text), 1) if literal in line]


def _asked(expression: str, texts: Sequence[str], seconds: float) -> list[list[int]]:
    import json
    import subprocess
    import sys

    from periplus.agent.tools.text_pages import pattern_matching_child

    asked = json.dumps({"expression": expression, "texts": list(texts)}).encode()
    try:
        done = subprocess.run(  # noqa: S603 - this Python and a file of ours
            [sys.executable, "-I", str(pattern_matching_child.__file__)],
            input=asked, capture_output=True, timeout=seconds, check=False, env={},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RefusedError(
            f"the search was not done after {seconds:.0f} s",
            safe="Nothing was changed.",
            mend="Write one without repetitions within repetitions, name a smaller path, or install ripgrep.",
        ) from None
    except OSError as error:
        raise EnvironmentFailure(f"cannot search in a process of its own: {error.strerror}") from error
    if done.returncode:
        raise EnvironmentFailure(
            f"the search ended with {done.returncode}: {done.stderr[-200:].decode('utf-8', 'replace')}"
        )
    return list(json.loads(done.stdout))
