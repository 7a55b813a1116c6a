"""Importer of tasks of Roo Code in VS Code."""

from __future__ import annotations

__all__ = ["is_mine", "read"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.conversion.source import Head, Source
from periplus.interop.importers.cline_tasks.files import is_conversation, read_task
from periplus.interop.model import Imported

_EXTENSION: Final = "rooveterinaryinc.roo-cline"
_FORK: Final = "kilocode.kilo-code"
_MARK: Final = b"# Current Workspace Directory ("


def is_mine(head: Head) -> bool:
    """Detect a task by its place; elsewhere by the words of Roo Code, which Kilo Code has taken over."""
    is_told = _EXTENSION in head.path or (_MARK in head.data and _FORK not in head.path)
    return is_told and is_conversation(head)


def read(source: Source) -> Iterator[Imported]:
    yield from read_task(source, "roo-code")
