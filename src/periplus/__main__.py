"""``python -m periplus`` is the ``periplus`` command."""

from __future__ import annotations

__all__: list[str] = []

import os
import sys

from periplus.cli.entry import run

if __name__ == "__main__":
    # What agents are told to start, and what waits at a lock is shown, is the program that was installed beside this Python.
    sys.argv[0] = os.path.join(os.path.dirname(sys.executable), "periplus")
    run()
