"""Importer of sessions of Kilo Code: the database of versions since 7, which are based on opencode, and the task
folders of the extension before.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.cline_tasks.files import is_conversation, read_task
from periplus.interop.importers.opencode.files import read_as
from periplus.interop.model import Imported
from periplus.interop.readers.sqlite_reader import SQLITE_MARK

_NAME: Final = "kilo-code"
_EXTENSION: Final = "kilocode.kilo-code"


def is_mine(head: Head) -> bool:
    if head.data.startswith(SQLITE_MARK):
        from periplus.interop.importers.opencode.database import agent_of

        return agent_of(head.path) == _NAME
    return _EXTENSION in head.path and is_conversation(head)


def read(source: Source) -> Iterator[Imported]:
    if Head.of(source.path).data.startswith(SQLITE_MARK):
        yield from read_as(source, _NAME)
    else:
        yield from read_task(source, _NAME)
