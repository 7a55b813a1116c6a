"""Cold starts: commands as processes, beside the interpreter that does nothing."""

from __future__ import annotations

__all__ = ["measure"]

import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

from bench.appends import WRITER
from bench.measure import Bench, Figure, Row, figure, in_turn, row
from bench.processes import checked_run, periplus_command, spend
from bench.samples import Texts
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import create_store
from periplus.memory import Memory
from periplus.project import Project

_COUNT: Final = "import atexit, sys; atexit.register(lambda: sys.stderr.write(str(len(sys.modules))))"
_RUN: Final = "; from periplus.cli.main import run; run()"


def measure(bench: Bench) -> Iterator[Row]:
    root = create_store(os.path.join(bench.folder, "start", ".periplus"), Files(), SystemClock()).root
    texts = Texts(5)
    with Project(root, WRITER) as project:
        for _ in range(bench.size(50, 3)):
            said = texts.sentence(10, 30)
            project.remember(Memory("lesson", said))
    question = texts.question(said)
    nothing = [sys.executable, "-c", "pass"]
    commands = {"periplus --help": ["--help"], "periplus status": ["status", "--store", root],
                "periplus check": ["check", "src/auth.py", "--store", root], "periplus recall": ["recall", question, "--store", root]}  # fmt: skip
    sides = {name: [*periplus_command(), *words] for name, words in commands.items()}
    for argv in (*sides.values(), nothing):
        checked_run(argv)
    rounds = bench.size(21, 2)
    bench.say(f"{rounds} rounds")
    found = in_turn(
        rounds,
        {name: partial(spend, argv) for name, argv in [*sides.items(), ("nothing", nothing)]},
        collect=False,
    )
    least = _modules([])
    for name, words in commands.items():
        for what, index in (("CPU", 1), ("wall", 0)):
            mine, theirs = (figure([spent[index] * 1e3 for spent in found[side]]) for side in (name, "nothing"))
            yield row("start", f"{name}, {what}", "ms", mine, "python -c pass", theirs)
            low, base = mine.low, theirs.low
            yield row("start", f"{name}, {what}, least", "ms", Figure(low, low, low), "python -c pass", Figure(base, base, base))  # fmt: skip
        count = _modules(words)
        yield row("start", f"{name}, modules", "", Figure(count, count, count), "python -c pass", Figure(least, least, least))  # fmt: skip


def _modules(words: list[str]) -> int:
    """Modules loaded at the end of a command; of the interpreter alone where there are no words."""
    done = checked_run([sys.executable, "-c", _COUNT + (_RUN if words else ""), *words])
    return int(done.stderr)
