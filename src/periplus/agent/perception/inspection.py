"""Inspection of a folder without a session: its project root, its kind, its instruction files."""

from __future__ import annotations

__all__ = ["FolderInspection", "inspect_folder"]

from typing import NamedTuple

from periplus.agent.perception.instruction_files import InstructionReader
from periplus.agent.perception.project_root import Kind, find_root, is_home, kind_of
from periplus.agent.tape.shown_instructions import Instructions
from periplus.agent.tape_notes import InstructionFile
from periplus.base.filesystem.confined_folder import Confined


class FolderInspection(NamedTuple):
    """Root, kind and instruction files that a session would be told of at its first step."""

    root: str
    kind: Kind
    instructions: tuple[InstructionFile, ...]


def inspect_folder(folder: str, home: str) -> FolderInspection:
    """Inspect ``folder`` like a session that begins there. Nothing is run."""
    if is_home(folder, home):
        return FolderInspection(folder, Kind(), ())
    with Confined(folder) as held:
        files = InstructionReader(held, path_of=str).due(Instructions())
    return FolderInspection(find_root(folder, home) or folder, kind_of(folder), files)
