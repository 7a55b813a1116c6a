"""Child program of ``periplus.agent.tools.text_pages.pattern_matching``: find the lines of texts that match an expression.

It reads one JSON document from standard input, writes one to standard output, and needs nothing but Python. The parent can end it.
"""

from __future__ import annotations

__all__ = ["main"]

import json
import re
import sys

_MEMORY_BYTES_MAX = 2 << 30


def main() -> None:
    """Write a list for each text: the numbers of its matching lines, from 1."""
    asked = json.load(sys.stdin)
    search = re.compile(asked["expression"], re.ASCII).search
    found = []
    for text in asked["texts"]:
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        found.append([number for number, line in enumerate(lines, 1) if search(line)])
    json.dump(found, sys.stdout)


def _limit_memory() -> None:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY_BYTES_MAX if most == resource.RLIM_INFINITY else min(most, _MEMORY_BYTES_MAX)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
    except (ValueError, OSError):
        pass  # a system without this limit; time is still limited


if __name__ == "__main__":
    _limit_memory()
    main()
