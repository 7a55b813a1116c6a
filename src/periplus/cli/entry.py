"""The entry point of the ``periplus`` command: hooks go their own short way, everything else to ``main``."""

from __future__ import annotations

__all__ = ["run"]

import gc
import sys
from typing import Final, NoReturn

_GARBAGE_MIN: Final = (
    10_000  # what a command loads makes some 50,000 objects, none of them garbage: looked through 70 times
)


def run() -> NoReturn:
    gc.set_threshold(_GARBAGE_MIN)
    words = sys.argv[1:]
    if words[:1] == ["hook"] and not {"-h", "--help"} & {*words}:
        from periplus.cli.hook_entry import run_hook

        run_hook(words[1:])
    from periplus.base.lean import load_argparse

    load_argparse()
    from periplus.cli import main

    main.run()
