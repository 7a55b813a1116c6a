"""Merge of an entity with several heads, field by field; the order of the heads does not matter. Pure.

Theory of operation
-------------------
Heads are compared with their nearest common ancestors: the versions that all of them descend from and that no other such
version descends from (several, if histories crossed). A value is *changed* in a head if none of the ancestors has it.

* If no head differs, or all that changed agree, that value is taken.
* Fields that their type declares as a group are one value: a change to one of them changes all, and they are shown from one
  head. If the heads that changed them differ only in a time, the latest is taken. If they differ only in what comes out
  differently each time it is made, there is no conflict, and the head from which most was removed is shown: a redaction
  never gives way to what it redacted.
* Several different values: sets merge by element and maps by key, by the same rules; of a field that states a last time the
  latest is taken; of a field with ranked values the first.
* Anything else is in conflict: the value of the head with the highest (rev, version) among those that changed it is shown,
  and all values are listed, so nothing is lost. The next write has all heads as parents and ends the conflict.

An ancestor that is not held, was deleted or is a stub counts as one without fields. Deleted heads take no part if there is
a live one: an update wins over a deletion, and the entity as a whole is in conflict.

The merged entity has the version id that a write of its content over all heads would have. It can be named, compared and
expected like any other version although no record holds it.
"""

from __future__ import annotations

__all__ = [
    "Ancestry",
    "History",
    "Node",
    "ancestry",
    "can_merge",
    "entity_of",
    "merge_payloads",
    "nearest_common_ancestors",
]

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

from periplus.base.encoding.canonical import JSONValue
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import version_id
from periplus.journal.state.entity import Conflict, ConflictValue, Entity, Head, MergeRules, entity_of_head


class Node(NamedTuple):
    """A version in its graph. ``below``: versions that it descends from through versions that are not held."""

    parents: tuple[str, ...]
    rev: int
    below: tuple[str, ...] = ()


class Ancestry(NamedTuple):
    """The ancestors of some versions of an entity, as far down as their merge needs them.

    ``nearest`` are their nearest common ancestors, sorted. ``versions`` are these and all other versions that one of the given
    versions descends from (or is) and none of the nearest does, by falling rev. With ``is_whole`` each of them is held.
    ``below`` names, for nearest ones, versions that they descend from and that one of ``versions`` descends from by another way.
    """

    nearest: list[str]
    versions: list[str]
    is_whole: bool
    below: dict[str, list[str]]


class History(Protocol):
    """The versions that are held, superseded ones too."""

    def node(self, item_type: str, item_id: str, version: str) -> Node | None:
        """Return None for a version that is not held."""
        ...

    def payload(self, item_type: str, item_id: str, version: str) -> bytes:
        """Return its canonical JSON; empty for a tombstone, a stub, and a version that is not held."""
        ...


class _Absent:
    """Marks a field that is not there."""


_ABSENT: Final = _Absent()
_Value = JSONValue | _Absent
_DECIMAL: Final = "$dec"  # {"$dec": "1.5"} is a number, not a map


def entity_of(heads: Iterable[Head], rules: MergeRules, history: History) -> Entity | None:
    """Return the entity that ``heads`` (all of one entity) show; None if there are none."""
    ranked = list(heads)
    if len(ranked) < 2:
        return entity_of_head(ranked[0]) if ranked else None
    ranked.sort(key=lambda head: (not head.deleted, head.rev, head.version), reverse=True)
    best = ranked[0]
    versions = tuple(sorted(head.version for head in ranked))
    live = [head for head in ranked if not head.deleted]
    payload, conflicts = best.payload, list[Conflict]()
    if live and len(live) < len(ranked):
        conflicts.append(Conflict((), tuple(_value_of(head, head.payload) for head in ranked)))
    if len(live) > 1:
        payload, inner = _merge_heads(live, rules, history)
        conflicts += inner
    version = version_id(best.item_type, best.item_id, deleted=not live, payload=payload or None, parents=versions)
    return Entity(
        best.item_type, best.item_id, version, versions, versions, 1 + max(head.rev for head in ranked), not live, payload,
        best.ts, best.writer, best.session, best.lineage, best.seq, tuple(conflicts),
    )  # fmt: skip


def _merge_heads(live: Sequence[Head], rules: MergeRules, history: History) -> tuple[bytes, list[Conflict]]:
    key = (live[0].item_type, live[0].item_id)
    bases = _ancestry_of(live, history).nearest
    return merge_payloads(live, [history.payload(*key, version) for version in bases], rules)


def _ancestry_of(heads: Iterable[Head], history: History) -> Ancestry:
    nodes, key = dict[str, Node](), ("", "")
    for head in heads:
        key = (head.item_type, head.item_id)
        nodes[head.version] = Node(head.parents, head.rev)
    return ancestry(nodes, lambda version: history.node(*key, version))


def can_merge(heads: Sequence[Head], history: History) -> bool:
    """Return True if all ancestors that the merge of these heads needs are held."""
    return len(heads) < 2 or _ancestry_of(heads, history).is_whole


def nearest_common_ancestors(heads: dict[str, Node], node_of: Callable[[str], Node | None]) -> list[str]:
    """Return the versions that all of ``heads`` descend from and that no other such version descends from, sorted."""
    return ancestry(heads, node_of).nearest


def ancestry(
    heads: dict[str, Node], node_of: Callable[[str], Node | None], *, is_for_keeping: bool = False
) -> Ancestry:
    """Compute the ancestry of ``heads``; ``node_of`` returns None for what is not held. ``is_for_keeping`` fills ``below``.

    A version has a higher rev than its parents. Going down by rev, all heads that descend from a version are known when its
    turn comes. The search ends when only ancestors of versions already found are left.
    """
    everyone = (1 << len(heads)) - 1
    beyond = everyone + 1  # marks a version below a common ancestor
    reached: dict[str, int] = {}
    nodes: dict[str, Node | None] = {}
    queue: list[tuple[int, str]] = []
    for number, (version, node) in enumerate(sorted(heads.items())):
        reached[version], nodes[version] = 1 << number, node
        heappush(queue, (-node.rev, version))
    found: list[str] = []
    versions: list[str] = []
    is_whole = True
    done: set[str] = set()
    waiting = len(queue)  # queued versions that are not beyond
    while waiting:
        _, version = heappop(queue)
        done.add(version)
        marks, here = reached[version], nodes[version]
        if marks < beyond:
            waiting -= 1
            versions.append(version)
            is_whole &= here is not None
        if marks == everyone:
            marks |= beyond << len(found)  # which of the found ancestors a version is below
            found.append(version)
        for parent in (*here.parents, *here.below) if here is not None else ():
            if parent in done:
                continue  # a circle, which only a forged record can make
            if parent not in reached:
                reached[parent], nodes[parent] = 0, node_of(parent)
                below = nodes[parent]
                heappush(queue, (-below.rev if below is not None else 0, parent))
                waiting += 1
            before, reached[parent] = reached[parent], reached[parent] | marks
            waiting -= before < beyond <= reached[parent]
    return Ancestry(
        sorted(found), versions, is_whole, _below(found, versions, nodes, reached, beyond) if is_for_keeping else {}
    )


def _below(
    found: Sequence[str],
    versions: Sequence[str],
    nodes: Mapping[str, Node | None],
    reached: Mapping[str, int],
    beyond: int,
) -> dict[str, list[str]]:
    below: dict[str, set[str]] = {}
    kept = set(versions)
    for version in versions:
        node = nodes[version]
        for parent in {*node.parents, *node.below} - kept if node is not None and version not in found else ():
            marks = reached[parent] // beyond
            for number, nearest in enumerate(found):
                if marks >> number & 1:
                    below.setdefault(nearest, set()).add(parent)
    return {nearest: sorted(named) for nearest, named in below.items()}


def merge_payloads(live: Sequence[Head], bases: Sequence[bytes], rules: MergeRules) -> tuple[bytes, list[Conflict]]:
    """Merge ``live`` heads, the one shown in a conflict first, against the payloads of their ancestors."""
    merger = _Merger(live, rules)
    payload = merger.merge((), [_decoded(head.payload) for head in live], [_decoded(base) for base in bases] or [{}])
    return _encoded(payload), merger.conflicts


class _Merger:
    """Merges values that are given in the order of ``heads``."""

    def __init__(self, heads: Sequence[Head], rules: MergeRules) -> None:
        self._heads = heads
        self._rules = rules
        self._ranks = dict(rules.ranks)
        self._dated: set[str] = set()  # fields of groups for which the latest value of all heads is taken
        self._barest: int | None = None  # the head from which the redactable group is shown
        self._is_same = False  # whether the heads agree there except for what was removed
        self.conflicts: list[Conflict] = []

    def merge(self, path: tuple[str, ...], values: Sequence[_Value], bases: Sequence[_Value]) -> _Value:
        texts = [_encoded(value) for value in values]
        if len(set(texts)) == 1:
            return values[0]
        held = {_encoded(base) for base in bases}
        changed = [number for number, text in enumerate(texts) if text not in held]
        if len({texts[number] for number in changed}) == 1 and path:
            return values[changed[0]]
        rivals = changed or list(range(len(values)))
        among = set(rivals)
        others = [value for number, value in enumerate(values) if number not in among]
        if all(_is_map(values[number]) for number in rivals) and all(
            _is_map(value, or_absent=True) for value in others
        ):
            return self._merge_maps(path, values, bases)
        if len(path) == 1 and path[0] in self._rules.sets and all(_is_array(value) for value in values):
            return _merge_sets(values, bases)
        if len(path) == 1 and path[0] in self._rules.latest:
            said = [value for value in values if isinstance(value, str)]
            if said:
                return max(said)
        ranked = self._ranks.get(path[0], ()) if len(path) == 1 else ()
        if all(values[number] in ranked for number in rivals):
            return next(one for one in ranked if any(one == values[number] for number in rivals))
        barest = self._barest if len(path) == 1 and path[0] in self._rules.incidental else None
        if barest is not None and self._is_same:
            return values[barest]  # even if that is the old value: no writer can choose it
        if barest is not None and barest in rivals:
            rivals = [barest, *(number for number in rivals if number != barest)]
        self.conflicts.append(Conflict(path, tuple(_value_of(self._heads[number], texts[number]) for number in rivals)))
        return values[rivals[0]]

    def _merge_maps(self, path: tuple[str, ...], values: Sequence[_Value], bases: Sequence[_Value]) -> _Value:
        maps = [value if isinstance(value, dict) else {} for value in values]
        grounds = [base if isinstance(base, dict) else {} for base in bases]
        merged: dict[str, JSONValue] = {}
        grouped: dict[str, list[int]] = {} if path else self._rivals_of_groups(maps, grounds)
        for name in sorted(set().union(*maps)):
            of_heads = [one.get(name, _ABSENT) for one in maps]
            value = (
                self._of_group(name, of_heads, grouped[name])
                if name in grouped
                else self.merge((*path, name), of_heads, [one.get(name, _ABSENT) for one in grounds])
            )
            if not isinstance(value, _Absent):
                merged[name] = value
        return merged

    def _rivals_of_groups(
        self, maps: Sequence[Mapping[str, JSONValue]], grounds: Sequence[Mapping[str, JSONValue]]
    ) -> dict[str, list[int]]:
        """Return for each field of a group the heads that changed the group (all if none did), the one that is shown first."""
        found: dict[str, list[int]] = {}
        for group in self._rules.groups:
            texts = [_encoded(_part(one, group)) for one in maps]
            held = {_encoded(_part(one, group)) for one in grounds}
            changed = [number for number, text in enumerate(texts) if text not in held]
            rivals = changed or list(range(len(maps)))
            spared = self._spared([maps[number] for number in rivals], group)
            if self._rules.withheld in group:
                rivals.sort(key=lambda number: -len(_taken_out(maps[number], self._rules.withheld) or ()))
                self._barest, self._is_same = rivals[0], bool(spared)
            found |= dict.fromkeys(group, rivals) | dict.fromkeys(spared, rivals[:1])
            if len({_encoded(_part(maps[number], group - self._rules.latest - spared)) for number in rivals}) == 1:
                self._dated |= group & self._rules.latest
        return found

    def _spared(self, heads: Sequence[Mapping[str, JSONValue]], group: frozenset[str]) -> frozenset[str]:
        """Return the fields of ``group`` that may differ because ``heads`` said the same otherwise; an empty set if they did not."""
        name = self._rules.withheld
        gone = [_taken_out(head, name) for head in heads] if name in group else []
        known = [one for one in gone if one is not None]
        if not known or len(known) < len(heads) or set().union(*known) not in known:
            return frozenset()
        spared = group & (self._rules.incidental | {name})
        rest = {_encoded(_part(head, group - self._rules.latest - spared)) for head in heads}
        return spared if len(rest) == 1 else frozenset()

    def _of_group(self, name: str, values: Sequence[_Value], rivals: Sequence[int]) -> _Value:
        said = [value for number in rivals if isinstance(value := values[number], str)] if name in self._dated else []
        if said:
            return max(said)
        texts = {number: _encoded(values[number]) for number in rivals}
        if len(set(texts.values())) > 1:
            shown = tuple(_value_of(self._heads[number], text) for number, text in texts.items())
            self.conflicts.append(Conflict((name,), shown))
        return values[rivals[0]]


def _taken_out(value: Mapping[str, JSONValue], name: str) -> set[bytes] | None:
    """Return what a head lists as removed, or None if it has no such list: an earlier version made it."""
    said = value.get(name)
    return {_encoded(one) for one in said} if isinstance(said, list) else None


def _part(value: Mapping[str, JSONValue], names: Iterable[str]) -> dict[str, JSONValue]:
    return {name: value[name] for name in names if name in value}


def _merge_sets(values: Sequence[_Value], bases: Sequence[_Value]) -> _Value:
    """Keep an element that some head added or that no head removed.

    If the ancestors disagree about an element, any head that has it keeps it. The order is that of the first head, then of
    the next for elements that it lacks.
    """
    arrays = [_elements(value) for value in values]
    grounds = [_elements(base) for base in bases]
    counts: dict[bytes, int] = {}  # how many heads have each, in order of first appearance
    first: dict[bytes, JSONValue] = {}
    for elements in arrays:
        for text, element in elements.items():
            counts[text] = counts.get(text, 0) + 1
            first.setdefault(text, element)
    merged: list[JSONValue] = []
    for text, count in counts.items():
        was_there = all(text in ground for ground in grounds)
        if not was_there or count == len(arrays):
            merged.append(first[text])
    if not merged and any(isinstance(value, _Absent) for value in values):
        return _ABSENT
    return merged


def _elements(value: _Value) -> dict[bytes, JSONValue]:
    return {_encoded(element): element for element in value} if isinstance(value, list) else {}


def _is_map(value: _Value, *, or_absent: bool = False) -> bool:
    return (isinstance(value, dict) and _DECIMAL not in value) or (or_absent and isinstance(value, _Absent))


def _is_array(value: _Value) -> bool:
    return isinstance(value, list | _Absent)


def _value_of(head: Head, text: bytes) -> ConflictValue:
    return ConflictValue(head.version, head.writer, head.ts, text)


def _decoded(payload: bytes) -> _Value:
    import orjson

    value: JSONValue = orjson.loads(payload) if payload else {}
    return value


def _encoded(value: _Value) -> bytes:
    """Return sorted JSON: canonical if the value is; a foreign record may hold values without a canonical form."""
    import orjson

    return b"" if isinstance(value, _Absent) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
