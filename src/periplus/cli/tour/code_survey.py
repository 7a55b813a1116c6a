"""The part of the tour about code: the symbol that most places use, what depends on it, and the tests to run."""

from __future__ import annotations

__all__ = ["survey"]

import os
import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from periplus.cli.common.face import counted

if TYPE_CHECKING:
    from periplus.cli.common.face import Face

_BUDGET_S: Final = 15.0
_SHOWN: Final = 3
_COMMAND_CHARACTERS: Final = 160


def survey(face: Face, repository: str, index: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Map the code of ``repository`` into the file ``index`` and tell of it; return the facts."""
    from periplus.code.code_map import CodeMap
    from periplus.code.listing.repository import find_repository
    from periplus.code.queries.popularity import most_used

    folder = os.path.realpath(repository)
    found = find_repository(folder)
    begun = time.monotonic()
    with CodeMap(
        found.top if found is not None else folder, index, environment=face.environment, budget_s=_BUDGET_S
    ) as code_map:
        status = code_map.status()
        symbols = sum(count for _, _, count in status.languages.values())
        files = sum(count for count, _, _ in status.languages.values())
        languages = ", ".join(sorted(status.languages, key=lambda name: -status.languages[name][1])[:4])
        seconds = time.monotonic() - begun
        if not symbols:
            tell("no code was found that a parser is installed for")
            return {"files": 0, "symbols": 0}
        tell(f"{counted(files, 'files')} ({languages}), {counted(symbols, 'symbols')}, parsed in {seconds:.1f} s")
        if code_map.freshness.waiting:
            tell(f"{counted(code_map.freshness.waiting, 'files')} more were left for later")
        facts: dict[str, Any] = {"files": files, "symbols": symbols, "seconds": round(seconds, 3)}
        for symbol, places in most_used(code_map.last_view()):
            tell(f"most used: {symbol}, at {counted(places, 'places')}")
            answer = code_map.impact([str(symbol)], depth_max=_SHOWN)
            tell(f"a change of it reaches {counted(len(answer.impact.dependents), 'symbols')} within {_SHOWN} steps, "
                 f"{counted(len(answer.tests), 'tests')} among them")  # fmt: skip
            for one in [one for one in answer.impact.dependents if one.symbol.name][:_SHOWN]:
                tell(f"  {one.symbol} ({one.grade})")
            for command in answer.commands[:1]:
                tell(f"tests to run: {shlex.join(command.words)[:_COMMAND_CHARACTERS]}")
            facts |= {
                "symbol": str(symbol),
                "places": places,
                "reached": len(answer.impact.dependents),
                "tests": len(answer.tests),
            }
        return facts
