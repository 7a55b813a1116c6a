"""Child process of ``periplus.trail.redactions.regex_search``: search texts for a regular expression.

It reads one JSON document from standard input, writes one to standard output and needs only Python. The parent can kill
it, while a search in its own process cannot be interrupted.
"""

from __future__ import annotations

__all__ = ["main"]

import json
import re
import sys
from typing import Any

_MEMORY_BYTES_MAX = 2 << 30
_FOUND_MAX = 10_000


def main() -> None:
    """Answer ``{"found": [[index, [text, …]], …]}``, or ``{"error": …}`` for an invalid expression."""
    asked = json.load(sys.stdin)
    json.dump(_answer(asked["expression"], asked["texts"]), sys.stdout)


def _answer(expression: str, texts: list[str]) -> dict[str, Any]:
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        return {"error": str(error)}
    found: list[tuple[int, list[str]]] = []
    count = 0
    for index, text in enumerate(texts):
        matched = list(dict.fromkeys(match.group() for match in pattern.finditer(text) if match.group()))
        if matched:
            found.append((index, matched))
            count += len(matched)
        if count > _FOUND_MAX:
            return {"error": f"it finds more than {_FOUND_MAX:,} different texts"}
    return {"found": found}


def _limit_memory() -> None:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY_BYTES_MAX if most == resource.RLIM_INFINITY else min(most, _MEMORY_BYTES_MAX)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
    except (ValueError, OSError):
        pass  # a system without this limit; the time limit still holds


if __name__ == "__main__":
    _limit_memory()
    main()
