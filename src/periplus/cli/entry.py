"""The entry point of the ``periplus`` command: hooks go their own short way, everything else to ``main``."""

from __future__ import annotations

__all__ = ["run"]

import sys
from typing import NoReturn


def run() -> NoReturn:
    words = sys.argv[1:]
    if words[:1] == ["hook"] and not {"-h", "--help"} & {*words}:
        from periplus.cli.hook_entry import run_hook

        run_hook(words[1:])
    from periplus.base.lean import load_argparse

    load_argparse()
    from periplus.cli import main

    main.run()
