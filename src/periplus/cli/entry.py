"""The entry point of the ``periplus`` command: hooks go to ``hook_entry``, everything else to ``main``."""

from __future__ import annotations

__all__ = ["run"]

import gc
import os
import sys

TYPE_CHECKING = False  # in place of the one of `typing`, which is not loaded: see `periplus`
if TYPE_CHECKING:
    from typing import Final, NoReturn

_GARBAGE_MIN: Final = (
    10_000  # loading a command makes some 50,000 objects, none of them garbage; the default would scan them 70 times
)


def run() -> NoReturn:
    gc.set_threshold(_GARBAGE_MIN)
    words = sys.argv[1:]
    is_hook = words[:1] == ["hook"] and not {"-h", "--help"} & {*words}
    is_json = "--json" in words
    try:
        if is_hook:
            from periplus.cli.hook_entry import run_hook

            run_hook(words[1:])
        from periplus.base.import_trimming import load_argparse
        from periplus.cli.common.interrupts import hold_while_loading

        hold_while_loading()
        load_argparse()
        from periplus.cli import main

        is_json = False  # from here on the command prints its own document
        main.run()
    except KeyboardInterrupt:  # before the command started, or after its end
        _leave_interrupted(is_hook=is_hook, is_json=is_json)


def _leave_interrupted(*, is_hook: bool, is_json: bool) -> NoReturn:
    """Exit without a traceback. A hook exits with 0: see ``hook_entry``."""
    if is_hook:
        os._exit(0)
    from periplus.cli.common.interrupts import EXIT_INTERRUPTED, INTERRUPTED, INTERRUPTED_DOCUMENT

    try:
        if is_json:
            os.write(1, INTERRUPTED_DOCUMENT.encode())
    except OSError:
        pass  # nobody reads it
    try:
        os.write(2, INTERRUPTED.encode())
    except OSError:
        pass  # nobody reads it
    os._exit(EXIT_INTERRUPTED)
