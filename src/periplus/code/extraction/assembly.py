"""Facts from what a walk over a syntax tree found: names are looked up as far as the file decides, lines counted, rows packed."""

from __future__ import annotations

__all__ = ["Findings", "assemble"]

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from periplus.code.extraction.parts import Draft, placed
from periplus.code.extraction.scopes import Chain, Found, Names, Scope, as_target
from periplus.code.languages.table import Language
from periplus.code.model import Attribute, Facts, Import, Target, definition_rows

_EVERYTHING: Final = "*"
_LINE_BREAK: Final = re.compile(rb"\n")


class Findings(NamedTuple):
    """Everything that the walk over one file found. ``parts`` are bases of types by their names, which other definitions may hold."""

    data: bytes
    row: Language
    drafts: list[Draft]
    imports: list[Import]
    references: list[tuple[int, int, Scope, int, Chain]]
    types: dict[int, tuple[Scope, Chain]]
    bases: dict[int, tuple[Scope, list[Chain]]]
    parts: list[tuple[Scope, str, Chain]]
    attributes: list[tuple[int, str, Scope, Chain]]
    exports: dict[str, str]
    package: str


def assemble(findings: Findings, *, has_errors: bool) -> Facts:
    """Return what was found, with every name looked up as far as the file decides."""
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(findings.data))]
    if findings.row.lists_exports and findings.exports and _EVERYTHING not in findings.exports:
        for draft in findings.drafts:
            if draft.parent < 0:
                draft.is_exported = draft.name in findings.exports
    definitions = placed(findings.drafts, starts)
    names = Names(findings.row, findings.imports)
    targets: dict[Found, int] = {}
    rows: list[tuple[int, int, int]] = []
    findings.references.sort(key=_by_byte)
    for byte, owner, scope, role, chain in findings.references:
        found = names.target(scope, chain)
        if found is not None:
            number = targets.setdefault(found, len(targets))
            rows.append((bisect_right(starts, byte), owner + 1, number << 2 | role))
    for scope, name, chain in findings.parts:
        index = scope.lookup(name, with_classes=True)
        if isinstance(index, int) and index >= 0:
            findings.bases.setdefault(index, (scope, []))[1].append(chain)
    places: list[int] = []
    line = owner = 0
    for row in dict.fromkeys(rows):
        places += (row[0] - line, row[1] - owner, row[2])
        line, owner = row[0], row[1]
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
        findings.row.name, *definition_rows(definitions), tuple(findings.imports), tuple(as_target(key) for key in targets), tuple(places),
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


def _by_byte(reference: tuple[int, int, Scope, int, Chain]) -> int:
    return reference[0]
