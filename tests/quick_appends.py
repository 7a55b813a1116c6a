"""A plugin for pytest: the short way of an append is taken from the start, not when a store has been at rest for some seconds.

``python -m pytest -p quick_appends``; with the native build, for without it there is no short way. Each time it is
taken, in a forked child too, the file that QUICK_APPENDS_LOG names grows by a byte.
"""

from __future__ import annotations

import os

from periplus.base.files import FolderWatch
from periplus.journal import journal, writing
from periplus.journal.native import APPEND


def pytest_configure() -> None:
    assert APPEND is not None, "there is no native build on the path"
    FolderWatch._SETTLED_NS = 20_000_000  # two changes of a folder within a tick of its clock look like one
    writing._QUICK_FROM = 0  # type: ignore[misc]  # a constant, but not for this
    path = os.environ.get("QUICK_APPENDS_LOG")
    if path is None:
        return
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    append = journal.Journal._append_quickly

    def counted(self: journal.Journal, *given: object) -> object:
        receipt = append(self, *given)  # type: ignore[arg-type]  # handed on as they came
        if receipt is not None:
            os.write(log, b".")
        return receipt

    journal.Journal._append_quickly = counted  # type: ignore[method-assign,assignment]
