"""One measurement of the code map in a process of its own: prints wall clock, processor time with that of its children, and what it found.

The modules that a work needs are loaded before the clock starts, but for those that the work itself loads in processes of its own.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Final

_WAIT_S: Final = 86_400.0


def _index(root: str, index: str) -> Callable[[], object]:
    """Bring the facts of all files up to date, from nothing where there is no index."""
    from periplus.code.index.database import Database
    from periplus.code.index.refresh import Refresher

    def run() -> int:
        database = Database(index)
        try:
            return Refresher(database, root, os.environ).refresh(_WAIT_S).parsed
        finally:
            database.close()

    return run


def _link(root: str, index: str) -> Callable[[], object]:
    """Bring the facts and the graph up to date."""
    from periplus.code.code_map import CodeMap

    def run() -> bool:
        with CodeMap(root, index, environment=dict(os.environ), budget_s=_WAIT_S) as code_map:
            code_map.view(with_graph=True)
            return code_map.freshness.has_graph

    return run


def _parse(root: str, paths: str) -> Callable[[], object]:
    """Read and parse the files that the file ``paths`` lists, with nothing done to the trees."""
    import tree_sitter

    from periplus.code.extraction.grammar import grammar_of
    from periplus.code.languages.registry import row_of

    with open(paths, encoding="utf-8") as file:
        listed = json.load(file)
    work: list[tuple[str, tree_sitter.Parser]] = []
    for path in listed:
        row = row_of(path)
        if row is not None:
            work.append((os.path.join(root, path), grammar_of(row).parser))

    def run() -> int:
        for path, parser in work:
            with open(path, "rb") as file:
                parser.parse(file.read())
        return len(work)

    return run


def _map(root: str, index: str) -> Callable[[], object]:
    """Make the map of a repository, with its index as it is."""
    from periplus.code.code_map import CodeMap

    def run() -> int:
        with CodeMap(root, index, environment=dict(os.environ), budget_s=_WAIT_S) as code_map:
            return len(code_map.map("", budget_tokens=4_000).files)

    return run


_WORKS: Final[dict[str, Callable[[str, str], Callable[[], object]]]] = {
    "index": _index, "link": _link, "parse": _parse, "map": _map,
}  # fmt: skip


def _cpu_s() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for used in [resource.getrusage(who)]
    )


def main(what: str, first: str, second: str) -> None:
    work = _WORKS[what](first, second)
    begun, cpu = time.perf_counter(), _cpu_s()
    found = work()
    print(json.dumps({"wall_s": time.perf_counter() - begun, "cpu_s": _cpu_s() - cpu, "found": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
