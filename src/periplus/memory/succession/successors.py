"""Successors of an entity, and competing ones that clones wrote without knowing of each other.

A split puts several entities in place of one, on purpose, in one clone. Where two clones superseded the same entity
apart, both successors count after a sync, and no field is in conflict: they are separate entities. They are found by
branches: each successor begins one, each branch ends in what stands there now, and two branches compete that were
begun in different clones and meet nowhere. It is derived from the entities. Merging them, letting one supersede the
other or relating one to the other (except as its contradiction) settles it.
"""

from __future__ import annotations

__all__ = ["CompetingSuccessors", "in_place_of", "rivalries", "rivals_of", "successors"]

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.memory.entities.types import is_ended
from periplus.memory.fulltext.index_rows import SUPERSEDES, supersedes_of

_FROM_FILES: Final = "import"
_CHAIN_MAX: Final = 200
_SUCCESSORS_MAX: Final = 50


class CompetingSuccessors(NamedTuple):
    """``rivals`` (live, by id) each stand in place of the entity ``old`` (an id), in branches (ids each) that clones
    began apart.
    """

    old: str
    rivals: tuple[Entity, ...]
    branches: tuple[frozenset[str], ...]

    @property
    def command(self) -> str:
        """Return the command that settles it, to be completed with a text."""
        return f"periplus merge {' '.join(one.item_id for one in self.rivals)} --text '…'"

    def against(self, item_id: str) -> list[str]:
        """Return the ids of the rivals in other branches than ``item_id``; none where it is not a rival."""
        beside = frozenset[str]().union(*(branch for branch in self.branches if item_id in branch))
        return [one.item_id for one in self.rivals if beside and one.item_id not in beside]


def successors(journal: Journal, old: str) -> list[Entity]:
    """Return the entities that supersede ``old``, ended ones too, by id."""
    return _Chains(journal, journal.unindexed()).said(old)


def in_place_of(journal: Journal, old: str) -> list[Entity]:
    """Return what stands in place of ``old`` now, by id: the live ends of its successors. Up to date with the
    journal's newest records, also within a mutation.
    """
    chains, known, ends = _Chains(journal, journal.unindexed()), dict[str, dict[str, Entity]](), dict[str, Entity]()
    known[old] = {}
    for one in chains.said(old):
        ends.update(chains.ends(one, known))
    return [ends[item_id] for item_id in sorted(ends)]


def rivalries(journal: Journal, most: int | None = None) -> list[CompetingSuccessors]:
    """Return the competing successors that are in force, by the id of the entity that they replaced; with ``most`` only
    that many replaced entities are looked at, those with the greatest ids.
    """
    rows = journal.index.db.execute(
        "SELECT value FROM links WHERE field = ? GROUP BY value HAVING COUNT(*) > 1", (SUPERSEDES,)
    )
    named = {str(row[0]) for row in rows}
    behind = []
    for key in journal.unindexed():
        entity = journal.as_read(*key)
        if entity is not None and (old := supersedes_of(entity)):
            behind.append(key)
            named.update(old)
    chains = _Chains(journal, behind)
    looked_at = sorted(named) if most is None else sorted(named)[-most:]
    return [found for old in looked_at if (found := chains.rivalry(old)) is not None]


def rivals_of(journal: Journal, entity: Entity) -> list[str]:
    """Return the ids of what other clones put in place of the entity that ``entity`` replaced, as far as the index
    knows.
    """
    waiting, seen = supersedes_of(entity)[:_SUCCESSORS_MAX], {entity.item_id}
    if not waiting:
        return []
    chains, found = _Chains(journal, ()), set[str]()
    while waiting and len(seen) < _CHAIN_MAX:
        old = waiting.pop()
        if old in seen:
            continue
        seen.add(old)
        rivalry = chains.rivalry(old)
        found.update(rivalry.against(entity.item_id) if rivalry is not None else ())
        for key in journal.index.ids_with_prefix(old, 1):
            before = journal.as_read(*key) if key[1] == old else None
            waiting += supersedes_of(before)[:_SUCCESSORS_MAX] if before is not None else []
    return sorted(found)


class _Chains:
    """Chains of successors, each looked up once. ``behind`` are entities that the index may not have yet."""

    def __init__(self, journal: Journal, behind: Sequence[tuple[str, str]]) -> None:
        self._journal = journal
        self._behind = behind
        self._known: dict[str, list[Entity]] = {}

    def rivalry(self, old: str) -> CompetingSuccessors | None:
        begun = self.said(old)
        if len(begun) < 2:
            return None
        known: dict[str, dict[str, Entity]] = {old: {}}
        branches = [(_origin(self._journal, one), self.ends(one, known)) for one in begun]
        apart: dict[frozenset[str], dict[str, Entity]] = {}
        for (here, one), (there, other) in combinations(branches, 2):
            if one and other and here != there and not _is_settled(one, other):
                apart[frozenset(one)], apart[frozenset(other)] = one, other
        rivals = {item_id: entity for ends in apart.values() for item_id, entity in ends.items()}
        return (
            CompetingSuccessors(old, tuple(rivals[item_id] for item_id in sorted(rivals)), tuple(apart))
            if rivals
            else None
        )

    def said(self, old: str) -> list[Entity]:
        """Return the entities that supersede ``old``, by id."""
        if old not in self._known:
            rows = self._journal.index.db.execute(
                "SELECT item_type, item_id FROM links WHERE field = ? AND value = ? ORDER BY item_id, item_type LIMIT ?",
                (SUPERSEDES, old, _SUCCESSORS_MAX),
            )
            keys = {(str(kind), str(item_id)) for kind, item_id in rows} | set(self._behind)
            held = [self._journal.as_read(*key) for key in sorted(keys, key=lambda key: key[::-1])]
            self._known[old] = [one for one in held if one is not None and old in supersedes_of(one)]
        return self._known[old]

    def ends(self, entity: Entity, known: dict[str, dict[str, Entity]]) -> dict[str, Entity]:
        """Return the ends of the chains that begin with ``entity``, by id; ``known`` has the ends of those looked at
        before.
        """
        if entity.item_id in known:
            return known[entity.item_id]
        known[entity.item_id] = {}  # chains may form a circle
        ends: dict[str, Entity] = {}
        for one in self.said(entity.item_id) if len(known) < _CHAIN_MAX else ():
            ends.update(self.ends(one, known))
        if not ends and not is_ended(entity.item_type, entity.value.get("state"), self._journal.types):
            ends = {entity.item_id: entity}
        known[entity.item_id] = ends
        return ends


def _is_settled(one: dict[str, Entity], other: dict[str, Entity]) -> bool:
    """Return True where two branches meet, or an entity in one names an entity in the other."""
    if one.keys() & other.keys():
        return True
    return any(_named(entity) & other.keys() for entity in one.values()) or any(
        _named(entity) & one.keys() for entity in other.values()
    )


def _named(entity: Entity) -> set[str]:
    relations = entity.value.get("relations")
    said = [one for one in relations if isinstance(one, dict)] if isinstance(relations, list) else []
    return {str(one.get("target")) for one in said if one.get("kind") != "contradicts"}


def _origin(journal: Journal, entity: Entity) -> str:
    """Return the lineage in which it was first written; empty where it came with files, or that record is not here."""
    where = "item_type = ? AND item_id = ? AND action <> ? AND rev = 1 ORDER BY lineage, seq"
    wanted = (entity.item_type, entity.item_id, _FROM_FILES)
    rows = journal.index.records(where, wanted, 1)
    if not rows and journal.index.has_floors and fill_history_if_present(journal):
        rows = journal.index.records(where, wanted, 1)
    return rows[0].lineage if rows else ""
