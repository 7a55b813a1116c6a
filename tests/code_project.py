"""A small project in memory, asked for its definitions and for what a place in it refers to."""

from __future__ import annotations

from typing import NamedTuple

from periplus.code.extraction.parse import parse_source
from periplus.code.languages.registry import row_of
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources


class Project(NamedTuple):
    sources: MemorySources
    resolver: Resolver

    def answers(self, path: str, line: int) -> dict[str, str]:
        """Return for each name that line refers to its target and grade, such as ``a.php:A.f proven``."""
        file = self.sources.file(path)
        assert file is not None
        found = {}
        for one in file.facts.references():
            if one.line == line:
                target = file.facts.targets[one.target]
                answer = self.resolver.resolve(path, target)
                places = ", ".join(sorted({self._place(entity) for entity in answer.found}))
                grade = answer.grade or ("external" if answer.is_external else "none")
                found[file.facts.final_name(target)] = f"{places} {grade}".strip()
        return found

    def _place(self, entity) -> str:
        file = self.sources.file(entity.path)
        if entity.symbol < 0 or file is None:
            return entity.path
        return f"{entity.path}:{file.definitions[entity.symbol].qualified}"


def project(files: dict[str, str]) -> Project:
    """Return a project of ``files``; those of no known language are only there to be read."""
    data = {path: text.encode() for path, text in files.items()}
    facts = {path: parse_source(path, one).facts for path, one in data.items() if row_of(path, one) is not None}
    assert None not in facts.values()
    sources = MemorySources(facts, {path: one for path, one in data.items() if path not in facts})
    return Project(sources, Resolver(sources))


def outline(path: str, text: str) -> list[str]:
    """Return the definitions in ``text``: kind, qualified name, line of the name, and marks of those not exported and of tests."""
    facts = parse_source(path, text.encode()).facts
    assert facts is not None
    return [
        f"{one.kind} {one.qualified} {one.line}{'' if one.is_exported else ' -'}{' test' if one.is_test else ''}"
        for one in facts.definitions()
    ]
