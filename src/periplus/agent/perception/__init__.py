"""Perception of a project before the agent looks into files: instruction files, kind and checks, a map, symbols, git."""

from __future__ import annotations

__all__ = ["FolderInspection", "Kind", "find_root", "inspect_folder", "kind_of"]

from periplus.agent.perception.inspection import FolderInspection, inspect_folder
from periplus.agent.perception.project_root import Kind, find_root, kind_of
