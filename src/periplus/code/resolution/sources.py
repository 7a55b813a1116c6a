"""The files of one view as the resolver reads them, and an implementation in memory."""

from __future__ import annotations

__all__ = ["KnownFile", "MemorySources", "Sources"]

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from periplus.code.model import MARKS, Definition, Facts, Reference, Target, module_stem


class KnownFile:
    """The facts of one file with the look-ups that resolution repeats."""

    def __init__(self, path: str, facts: Facts) -> None:
        self.path = path
        self.facts = facts

    @cached_property
    def definitions(self) -> list[Definition]:
        return self.facts.definitions()

    @cached_property
    def outer(self) -> dict[str, list[int]]:
        """Definitions that stand in no other, by name."""
        found: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(self.definitions):
            if one.parent < 0 and one.name == one.qualified:
                found[one.name].append(index)
        return dict(found)

    @cached_property
    def members(self) -> dict[tuple[int, str], list[int]]:
        """Definitions by the first definition with the qualified name of what they stand in, and their name."""
        first: dict[str, int] = {}
        found: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, one in enumerate(self.definitions):
            first.setdefault(one.qualified, index)
            if one.parent >= 0:
                parent = first.get(self.definitions[one.parent].qualified, one.parent)
                found[parent, one.name].append(index)
        return dict(found)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """Names under which classes put values into their instances."""
        return frozenset(one.name for one in self.facts.attributes)

    @cached_property
    def qualified(self) -> dict[str, list[int]]:
        """Definitions by qualified name."""
        found: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(self.definitions):
            found[one.qualified].append(index)
        return dict(found)

    @cached_property
    def targets_by_name(self) -> dict[str, list[int]]:
        """Numbers of targets by the name that they end with; of a name that several imports bind, by what each of them takes."""
        found: dict[str, list[int]] = defaultdict(list)
        bound: dict[str, set[str]] = defaultdict(set)
        for one in self.facts.imports:
            if one.local and one.is_outer:
                bound[one.local].add(one.name or module_stem(one.module))
        for number, target in enumerate(self.facts.targets):
            names = {self.facts.final_name(target)}
            if target.root == "i" and all(step in MARKS for step in target.steps):
                names |= bound[self.facts.imports[int(target.value)].local]
            for name in names:
                found[name].append(number)
        return dict(found)

    @cached_property
    def references_by_target(self) -> dict[int, list[Reference]]:
        """References by the number of their target."""
        found: dict[int, list[Reference]] = defaultdict(list)
        for reference in self.facts.references():
            found[reference.target].append(reference)
        return dict(found)

    @cached_property
    def attribute_targets(self) -> dict[tuple[int, str], list[Target]]:
        """Targets of attributes by the first definition with the qualified name of their owner, and their name."""
        found: dict[tuple[int, str], list[Target]] = defaultdict(list)
        for one in self.facts.attributes:
            found[self.first(one.owner), one.name].append(one.target)
        return dict(found)

    def first(self, index: int) -> int:
        """Return the first definition with the qualified name of ``index``."""
        return self.qualified[self.definitions[index].qualified][0]


class Sources(Protocol):
    """The files of one view. Paths are relative to its root and use ``/``. Sequences are sorted."""

    def file(self, path: str) -> KnownFile | None:
        """Return what is known of the file; None where it is not there or was not parsed."""

    def exists(self, path: str) -> bool:
        """Return True where the view has this file, parsed or not."""

    def with_name(self, name: str) -> Sequence[str]:
        """Return the paths of the files called ``name``."""

    def folders_named(self, name: str) -> Sequence[str]:
        """Return the folders called ``name`` that directly hold a file."""

    def in_folder(self, folder: str) -> Sequence[str]:
        """Return the paths of the files directly in ``folder`` (empty: the root)."""

    def defining(self, name: str) -> Sequence[tuple[str, int]]:
        """Return path and index of the definitions with this simple name, at most DEFINING_MAX of them."""

    def in_package(self, package: str, name: str) -> Sequence[tuple[str, int]]:
        """Return path and index of the definitions called ``name`` in files of ``package``."""

    def read(self, path: str) -> bytes | None:
        """Return the contents of a small file, such as one of settings; None where it is not there or over 1 MiB."""


class MemorySources:
    """Sources over values: facts by path, other files by their contents."""

    def __init__(self, facts: Mapping[str, Facts], others: Mapping[str, bytes] | None = None) -> None:
        self._files = {path: KnownFile(path, one) for path, one in facts.items()}
        self._others = dict(others or {})
        self._paths = sorted({*self._files, *self._others})

    def file(self, path: str) -> KnownFile | None:
        return self._files.get(path)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._others

    def with_name(self, name: str) -> Sequence[str]:
        return [path for path in self._paths if os.path.basename(path) == name]

    def folders_named(self, name: str) -> Sequence[str]:
        return sorted(
            {os.path.dirname(path) for path in self._paths if os.path.basename(os.path.dirname(path)) == name}
        )

    def in_folder(self, folder: str) -> Sequence[str]:
        return [path for path in self._paths if os.path.dirname(path) == folder]

    def defining(self, name: str) -> Sequence[tuple[str, int]]:
        return [
            (path, index)
            for path in self._paths
            if path in self._files
            for index, one in enumerate(self._files[path].definitions)
            if one.name == name
        ]

    def in_package(self, package: str, name: str) -> Sequence[tuple[str, int]]:
        return [(path, index) for path, index in self.defining(name) if self._files[path].facts.package == package]

    def read(self, path: str) -> bytes | None:
        return self._others.get(path)
