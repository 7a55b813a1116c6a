"""Sessions of Kilo Code, which is made from opencode and keeps its database."""

from __future__ import annotations

__all__ = ["is_mine", "read"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.opencode.files import read_as
from periplus.interop.model import Imported
from periplus.interop.readers.sqlite_reader import SQLITE_MARK

_AGENT: Final = "kilo-code"


def is_mine(head: Head) -> bool:
    if not head.data.startswith(SQLITE_MARK):
        return False
    from periplus.interop.importers.opencode.database import agent_of

    return agent_of(head.path) == _AGENT


def read(source: Source) -> Iterator[Imported]:
    return read_as(source, _AGENT)
