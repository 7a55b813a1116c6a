"""What each entity is: the merge of its heads, over the records of all lineages (page: State, Entity file)."""

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .lineage import Record, canonical, version_id

_ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "absent"})()
_COMMON_SETS = ("about", "evidence", "relations", "tags")
_LATEST = ("updated", "seen", "confirmed")


@dataclass
class TypeRules:
    """What the reference says of a type."""

    sets: frozenset[str] = frozenset(_COMMON_SETS)
    latest: tuple[str, ...] = _LATEST
    groups: tuple[tuple[str, ...], ...] = ()
    ranks: dict[str, list[str]] = field(default_factory=dict)
    by_chance: tuple[str, ...] = ()
    taken_out: str = ""
    has_file: bool = False


_UNKNOWN = TypeRules(frozenset(), ())  # a type of which neither page nor settings say anything


def rules_of(reference: str, settings: dict[str, Any]) -> dict[str, TypeRules]:
    """The rules of all types, from the text of docs/reference/entities.md and what `config.toml` declares."""
    found: dict[str, TypeRules] = {}
    for part in re.split(r"^## ", reference.partition("\n## Parts\n")[0], flags=re.MULTILINE)[1:]:
        name = part.partition("\n")[0]
        rule = TypeRules(frozenset())
        for line in part.splitlines():
            said, _, names = line.removeprefix("- ").partition(": ")
            if said == "files":
                rule.has_file = names.startswith("`entities/")
            elif said == "concurrent changes are merged by element":
                rule.sets = frozenset(names.split(", "))
            elif said == "concurrent changes are merged as one value":
                rule.groups = (*rule.groups, tuple(sorted(names.split(", "))))
            elif said == "random, so differences are no conflict":
                rule.by_chance = tuple(names.split(", "))
            elif said == "redactions of all clones are kept":
                rule.taken_out = names
            elif said == "of concurrent changes the latest wins":
                rule.latest = (*rule.latest, names)
            elif said == "of concurrent changes the first of these wins":
                name_of, _, values = names.partition(": ")
                rule.ranks[name_of] = values.split(", ")
        found[name] = rule
    for name, declared in settings.get("types", {}).items():
        found[name] = TypeRules(has_file=declared.get("projected", False))
    return found


@dataclass
class Version:
    """A version of an entity; `record` is None where none is held."""

    id: str
    record: Record | None = None
    rev: int = 0
    edges: frozenset[str] = frozenset()  # `parents` and `after`: for heads and rev
    parents: tuple[str, ...] = ()  # for common ancestors

    @property
    def has_content(self) -> bool:
        """Whether it is neither a tombstone nor a stub, and held."""
        return self.record is not None and not self.record.is_stub and "deleted" not in self.record.body

    @property
    def payload(self) -> Any:
        """Its content."""
        assert self.record is not None
        return self.record.payload


@dataclass
class Shown:
    """An entity as it is shown."""

    item_type: str
    item_id: str
    heads: list[Version]  # the highest (rev, version id) first
    deleted: bool
    payload: Any
    version: str
    rev: int
    parents: list[str]
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, Version] = field(default_factory=dict, repr=False)  # all that are held or named

    def file_bytes(self) -> bytes:
        """The bytes of its file."""
        said = {
            "entity": self.payload, "format": 1, "heads": sorted(head.id for head in self.heads), "id": self.item_id,
            "parents": self.parents, "type": self.item_type, "version": self.version,
        }  # fmt: skip
        if self.conflicts:
            said["conflicts"] = self.conflicts
        return json.dumps(said, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def entities(records: Iterable[Record], rules: dict[str, TypeRules]) -> dict[tuple[str, str], Shown]:
    """Every entity of which there is a version, by type and id."""
    held: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        if record.version is not None:
            place = (record.body["item_type"], record.body["item_id"])
            held.setdefault(place, {}).setdefault(record.version, []).append(record)
    return {
        place: _shown(*place, graph(versions), rules.get(place[0], _UNKNOWN))
        for place, versions in sorted(held.items())
    }


def graph(versions: dict[str, list[Record]]) -> dict[str, Version]:
    """The versions of one entity, those that are only named with them."""
    found: dict[str, Version] = {}
    for version, records in versions.items():
        speaks = min(records, key=lambda r: (r.is_stub, r.body["ts"], r.lineage, r.seq))
        edges = frozenset(edge for r in records for edge in (*r.body.get("parents", ()), *r.body.get("after", ())))
        found[version] = Version(version, speaks, edges=edges, parents=tuple(speaks.body.get("parents", ())))
    for edge in [edge for version in found.values() for edge in version.edges]:
        found.setdefault(edge, Version(edge))
    hashed = {
        version: frozenset(p for r in records for p in r.body.get("parents", ()))
        for version, records in versions.items()
    }
    if any(r.is_stub or "after" in r.body for records in versions.values() for r in records):
        _break_circles(found, lambda version, edge: edge not in hashed[version])
        _break_circles(found, lambda version, edge: True)

    @functools.cache
    def rev(version: str) -> int:
        one = found[version]
        return 1 + max(map(rev, one.edges), default=0) if one.record else 0

    for version in sorted(found.values(), key=lambda v: _order(v.record)):
        version.rev = rev(version.id)
    return found


def _break_circles(found: dict[str, Version], is_weak: Callable[[str, str], bool]) -> None:
    """Weak edges between versions that descend from each other count for nothing."""
    above = {version: _above(found, version) for version in found}
    for version, one in found.items():
        one.edges = frozenset(
            edge for edge in one.edges if not (is_weak(version, edge) and (edge == version or version in above[edge]))
        )


def _above(found: dict[str, Version], version: str) -> set[str]:
    """What a version descends from, by all edges."""
    seen: set[str] = set()
    left = list(found[version].edges)
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += found[one].edges
    return seen


def _order(record: Record | None) -> tuple[str, int]:
    return (record.body["ts"], record.seq) if record else ("", 0)


def heads_of(versions: dict[str, Version]) -> list[Version]:
    """The heads, the highest (rev, version id) first."""
    named = {edge for version in versions.values() for edge in version.edges}
    heads = [version for version in versions.values() if version.record and version.id not in named]
    return sorted(heads, key=lambda v: (v.rev, v.id), reverse=True)


def _shown(item_type: str, item_id: str, versions: dict[str, Version], rule: TypeRules) -> Shown:
    heads = heads_of(versions)
    if len(heads) == 1:
        (head,) = heads
        assert head.record is not None
        payload = head.payload if head.has_content else None
        parents = head.record.body.get("parents", [])
        return Shown(item_type, item_id, heads, not head.has_content, payload, head.id, head.rev, parents, [], versions)
    parents = sorted(head.id for head in heads)
    live = [head for head in heads if head.has_content]
    merge = Merge(rule, live)
    payload = None
    if live:
        ancestors = nearest_common_ancestors(versions, live)
        bases = [a.payload if a.has_content else {} for a in ancestors] or [{}]
        payload = merge.whole(bases)
        if len(live) < len(heads):
            dead = [head for head in heads if not head.has_content]
            values = [*(_value(head, head.payload) for head in live), *(_value(head, _ABSENT) for head in dead)]
            merge.conflicts.insert(0, {"path": [], "values": values})
    version = version_id(item_type, item_id, parents, payload, not live)
    rev = 1 + heads[0].rev
    return Shown(item_type, item_id, heads, not live, payload, version, rev, parents, merge.conflicts, versions)


@dataclass
class Kept:
    """What of an entity with several heads is kept besides them: by rev and version id, and what is said to lie below."""

    versions: list[Version]
    below: dict[str, set[str]]  # for each nearest common ancestor, all that may be named with it
    is_owed: bool  # whether nothing stands against keeping it but its size


def kept_of(shown: Shown) -> Kept:
    """What a checkpoint keeps of the versions that the heads are merged over."""
    versions, heads = shown.versions, {head.id for head in shown.heads}
    nearest = {one.id: _ancestors(versions, one.id) for one in nearest_common_ancestors(versions, shown.heads)}
    beneath = set().union(*nearest.values())
    kept = set().union(*(_ancestors(versions, head) for head in heads)) - beneath - heads
    around = {parent for one in (kept | heads) - set(nearest) for parent in versions[one].parents} & beneath
    named = (version for version in versions.values() if version.record is not None)
    is_plain = all(version.edges == set(version.parents) and not version.record.is_stub for version in named)
    is_held = all(versions[one].record is not None for one in kept)
    order = sorted((versions[one] for one in kept), key=lambda one: (one.rev, one.id))
    return Kept(order, {one: around & above for one, above in nearest.items()}, is_held and is_plain)


def nearest_common_ancestors(versions: dict[str, Version], heads: list[Version]) -> list[Version]:
    """The versions that all *heads* descend from and no other such version descends from."""
    common = set.intersection(*(_ancestors(versions, head.id) for head in heads))
    below = {above for one in common for above in _ancestors(versions, one)}
    return [versions[one] for one in sorted(common - below)]


def _ancestors(versions: dict[str, Version], version: str) -> set[str]:
    found: set[str] = set()
    left = list(versions[version].parents)
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += versions[one].parents
    return found


def _same(value: Any) -> bytes:
    """What two equal values have in common, also `1` and `true` apart."""
    return b"" if value is _ABSENT else canonical(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and "$dec" not in value


def _value(head: Version, value: Any) -> dict[str, Any]:
    assert head.record is not None
    said = {"ts": head.record.body["ts"], "version": head.id, "writer": head.record.body["writer"]}
    return said if value is _ABSENT else {**said, "value": value}


class Merge:
    """The merge of several heads with content, the highest (rev, version id) first."""

    def __init__(self, rule: TypeRules, heads: list[Version]) -> None:
        self.rule, self.heads = rule, heads
        self.conflicts: list[dict[str, Any]] = []
        self.least: Version | None = None  # of which the group with what was taken out is shown
        self.agreed = False

    def whole(self, bases: list[dict[str, Any]]) -> dict[str, Any]:
        """The merged payload, over the payloads of the nearest common ancestors."""
        return self._object([], bases, [(head, head.payload) for head in self.heads])

    def _object(self, path: list[str], bases: list[Any], values: list[tuple[Version, Any]]) -> dict[str, Any]:
        places = [value if isinstance(value, dict) else {} for value in bases]
        objects = [(head, value if isinstance(value, dict) else {}) for head, value in values]
        merged: dict[str, Any] = {}
        in_groups = {name for group in self.rule.groups for name in group} if not path else set()
        for group in self.rule.groups if not path else ():
            self._group(group, places, objects, merged)
        for name in sorted({name for _, value in objects for name in value} | {n for b in places for n in b}):
            if name in in_groups:
                continue
            value = self._field(
                [*path, name], [b.get(name, _ABSENT) for b in places], [(h, v.get(name, _ABSENT)) for h, v in objects]
            )
            if value is not _ABSENT:
                merged[name] = value
        self.conflicts.sort(key=lambda conflict: conflict["path"])
        return merged

    def _group(
        self, group: tuple[str, ...], bases: list[Any], values: list[tuple[Version, Any]], merged: dict[str, Any]
    ) -> None:
        def of(value: dict[str, Any]) -> bytes:
            return canonical({name: value[name] for name in group if name in value})

        known = {of(base) for base in bases}
        changed = [(head, value) for head, value in values if of(value) not in known] or values
        free: set[str] = set()
        if self.rule.taken_out in group:
            gone = [value.get(self.rule.taken_out) for _, value in changed]
            sets = [{_same(one) for one in said} if isinstance(said, list) else set() for said in gone]
            order = sorted(range(len(changed)), key=lambda at: (-len(sets[at]), at))
            fullest = sets[order[0]]
            changed = [changed[at] for at in order]
            may_differ = {*self.rule.by_chance, self.rule.taken_out}
            rest = {
                canonical(
                    {k: v for k, v in value.items() if k in group and k not in may_differ | set(self.rule.latest)}
                )
                for _, value in changed
            }
            self.least = changed[0][0]
            self.agreed = (
                all(isinstance(one, list) for one in gone) and len(rest) == 1 and all(s <= fullest for s in sets)
            )
            free = may_differ & set(group) if self.agreed else set()
        chosen = changed[0][1]
        merged.update({name: chosen[name] for name in group if name in chosen})
        dates = [name for name in group if name in self.rule.latest]
        others = [
            {name: value[name] for name in group if name in value and name not in dates and name not in free}
            for _, value in changed
        ]
        for name in group:
            if name in free:
                continue
            texts = [value[name] for _, value in changed if isinstance(value.get(name), str)]
            if name in dates and texts and len({canonical(other) for other in others}) == 1:
                merged[name] = max(texts)
                continue
            if len({_same(value.get(name, _ABSENT)) for _, value in changed}) > 1:
                self._conflict([name], [(head, value.get(name, _ABSENT)) for head, value in changed])

    def _field(self, path: list[str], bases: list[Any], values: list[tuple[Version, Any]]) -> Any:
        if len({_same(value) for _, value in values}) == 1:
            return values[0][1]
        known = {_same(base) for base in bases}
        changed = [(head, value) for head, value in values if _same(value) not in known]
        if len({_same(value) for _, value in changed}) == 1:
            return changed[0][1]
        rivals = changed or values
        if all(_is_object(v) for _, v in rivals) and all(v is _ABSENT or _is_object(v) for _, v in values):
            return self._object(path, bases, values)
        if len(path) == 1 and path[0] in self.rule.sets and all(v is _ABSENT or isinstance(v, list) for _, v in values):
            return self._elements(bases, [value for _, value in values])
        texts = [value for _, value in values if isinstance(value, str)]
        if len(path) == 1 and path[0] in self.rule.latest and texts:
            return max(texts)
        ranks = self.rule.ranks.get(path[0], []) if len(path) == 1 else []
        if all(value in ranks for _, value in rivals):
            return min((value for _, value in rivals), key=ranks.index)
        first = [value for value in values if value[0] is self.least]
        if len(path) == 1 and path[0] in self.rule.by_chance and first:
            if self.agreed:
                return first[0][1]
            first = [rival for rival in rivals if rival[0] is self.least]
            rivals = first + [rival for rival in rivals if rival[0] is not self.least]
        return self._conflict(path, rivals)

    @staticmethod
    def _elements(bases: list[Any], values: list[Any]) -> list[Any]:
        in_bases = [{_same(e) for e in base} if isinstance(base, list) else set() for base in bases]
        kept_by_all = set.intersection(*in_bases)
        lists = [value if value is not _ABSENT else [] for value in values]
        in_heads = [{_same(e) for e in value} for value in lists]
        merged: dict[bytes, Any] = {}
        for element in (element for value in lists for element in value):
            key = _same(element)
            if key not in kept_by_all or all(key in head for head in in_heads):
                merged.setdefault(key, element)
        return _ABSENT if not merged and any(value is _ABSENT for value in values) else list(merged.values())

    def _conflict(self, path: list[str], values: list[tuple[Version, Any]]) -> Any:
        self.conflicts.append({"path": path, "values": [_value(head, value) for head, value in values]})
        return values[0][1]


def digest(data: bytes) -> str:
    """SHA-256, as the formats write it."""
    return hashlib.sha256(data).hexdigest()
