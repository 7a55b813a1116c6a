"""Facts from what a walk over a syntax tree found: names are looked up as far as the file decides, lines counted, rows packed."""

from __future__ import annotations

__all__ = ["Findings", "Mention", "assemble"]

import re
from operator import itemgetter
from typing import Final, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.code.extraction.parts import Draft, placed
from periplus.code.extraction.scopes import Chain, Found, Names, Scope, as_target
from periplus.code.languages.table import Language
from periplus.code.model import Attribute, Facts, Import, Target, definition_rows

_EVERYTHING: Final = "*"
_NO_END: Final = 1 << 62
_LINE_BREAK: Final = re.compile(rb"\n")


Mention: TypeAlias = tuple[int, int, Scope, int, Chain | str]
"""A reference: its byte, the definition around it, its scope, its role by number, and what it names (text for a bare name)."""


class Findings(NamedTuple):
    """Everything that the walk over one file found. ``parts`` are bases of types by their names, which other definitions may hold."""

    data: bytes
    row: Language
    drafts: list[Draft]
    imports: list[Import]
    references: list[Mention]
    types: dict[int, tuple[Scope, Chain]]
    bases: dict[int, tuple[Scope, list[Chain]]]
    parts: list[tuple[Scope, str, Chain]]
    attributes: list[tuple[int, str, Scope, Chain]]
    exports: dict[str, str]
    exported: set[str]
    package: str


def assemble(findings: Findings, *, has_errors: bool) -> Facts:
    """Return what was found, with every name looked up as far as the file decides."""
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(findings.data))]
    if findings.row.lists_exports and findings.exports and _EVERYTHING not in findings.exports:
        for draft in findings.drafts:
            if draft.parent < 0:
                draft.is_exported = draft.name in findings.exports
    definitions = placed(findings.drafts, starts, findings.exported)
    names = Names(findings.row, findings.imports)
    places = _places(findings.references, names, starts)
    for scope, name, chain in findings.parts:
        index = scope.lookup(name, with_classes=True)
        if isinstance(index, int) and index >= 0:
            findings.bases.setdefault(index, (scope, []))[1].append(chain)
    types = {
        index: as_target(found)
        for index, (scope, chain) in findings.types.items()
        if (found := names.value(scope, chain)) is not None
    }
    bases = {
        index: tuple(as_target(found) for chain in chains if (found := names.value(scope, chain)) is not None)
        for index, (scope, chains) in findings.bases.items()
    }
    attributes = _attributes(findings, names)
    return Facts(
        findings.row.name, *definition_rows(definitions), tuple(findings.imports), tuple(as_target(key) for key in names.targets), tuple(places),
        types, bases, tuple(attributes), findings.exports, findings.package, has_errors,
    )  # fmt: skip


def _attributes(findings: Findings, names: Names) -> list[Attribute]:
    """Return what is put into instances; of unknown class only what is known under no other."""
    known: dict[tuple[int, str, Found], None] = {}
    unknown: dict[tuple[int, str], None] = {}
    for owner, name, scope, chain in findings.attributes:
        found = names.value(scope, chain)
        if found is not None:
            known[owner, name, found] = None
        elif findings.row.notes_unknown:
            unknown[owner, name] = None
    told = {(owner, name) for owner, name, _ in known}
    return [
        *(Attribute(owner, name, as_target(found)) for owner, name, found in known),
        *(Attribute(owner, name, Target("?")) for owner, name in unknown if (owner, name) not in told),
    ]


def _places(references: list[Mention], names: Names, starts: list[int]) -> list[int]:
    """Return the references as numbers, in the order of the file; their targets are numbered in ``names``."""
    rows: list[tuple[int, int, int]] = []
    references.sort(key=itemgetter(0))
    ends = iter((*starts[1:], _NO_END))
    line, end = 1, next(ends)
    for byte, owner, scope, role, chain in references:
        number = scope.targets.get(chain)
        if number is None:
            number = names.number(scope, chain)
        if number < 0:
            continue
        while byte >= end:
            line += 1
            end = next(ends)
        rows.append((line, owner + 1, number << 2 | role))
    places: list[int] = []
    before = owner_before = 0
    for line, owner, what in dict.fromkeys(rows):
        places += (line - before, owner - owner_before, what)
        before, owner_before = line, owner
    return places
