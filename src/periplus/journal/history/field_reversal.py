"""Removal of one earlier change from an entity, for ``undo``.

A change is the difference between two versions, one written upon the other, directly or with others between them. It is removed from the
present entity: field by field, sets by element, maps by key. If others changed the same field since, it cannot be separated.

Later versions show whether the change was already undone: if the newest version that allows a comparison has nothing of it, later content
of the same fields is independent of it.
"""

from __future__ import annotations

__all__ = ["Content", "Overlap", "TakenOut", "content_of", "decoded", "differing", "same", "take_out"]

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypeAlias

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.journal.state.entity import MergeRules

if TYPE_CHECKING:
    from periplus.journal.history.versions import Versions
    from periplus.journal.state.entity import Entity
    from periplus.journal.state.index_values import IndexedRecord

Content: TypeAlias = "Mapping[str, JSONValue] | None"  # None: absent or deleted


class Overlap(Exception):  # noqa: N818 - it is always caught in this package
    """The change to be removed was changed by others since."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def content_of(entity: Entity | None) -> Content:
    return None if entity is None or entity.deleted else entity.value


def decoded(payload: bytes) -> Content:
    import orjson

    if not payload:
        return None
    value: dict[str, JSONValue] = orjson.loads(payload)
    return value


def differing(one: Content, other: Content) -> tuple[str, ...]:
    """Return the names of the fields that differ."""
    one, other = one or {}, other or {}
    return tuple(name for name in sorted({*one, *other}) if _bytes(one, name) != _bytes(other, name))


def same(one: Content, other: Content, stamp: str = "") -> bool:
    return (one is None) == (other is None) and not set(differing(one, other)) - {stamp}


def take_out(now: Content, made: Content, before: Content, rules: MergeRules) -> Content:
    """Return ``now`` without the change from ``before`` to ``made``. Pure. Raises Overlap if others changed the same fields.

    A deleted entity stays deleted, unless its deletion is the change that is removed.
    """
    if made is None:
        if now is None or before is None or same(now, before):
            return before if before is not None else now
        raise Overlap("it was deleted, and written anew since")
    if before is None:
        if now is None or same(now, made):
            return None
        raise Overlap(f"it was created there, and changed since: {', '.join(differing(now, made))}")
    if now is None:
        return None
    result = dict(now)
    clashes = _take_out_names(result, made, before, rules, "")
    if clashes:
        raise Overlap(f"changed since: {', '.join(clashes)}")
    return result


def _take_out_names(
    now: dict[str, JSONValue],
    made: Mapping[str, JSONValue],
    before: Mapping[str, JSONValue],
    rules: MergeRules,
    path: str,
) -> list[str]:
    """Remove the change from ``now`` in place; return the paths that others changed too."""
    clashes: list[str] = []
    held = _held_groups(now, made, before, rules)
    for name in sorted({*made, *before}):
        old, new, there = _bytes(before, name), _bytes(made, name), _bytes(now, name)
        if old in (new, there) or (name in rules.latest and there != new):
            continue  # unchanged, already back, or updated since
        if name in held:
            clashes.append(path + name)
            continue
        if there == new:
            if old is None:
                del now[name]
            else:
                now[name] = before[name]
            continue
        current, made_value, earlier = now.get(name), made.get(name), before.get(name)
        if not path and name in rules.sets and _is_list(current) and _is_list(made_value) and _is_list(earlier):
            now[name] = _take_out_elements(_list(current), _list(made_value), _list(earlier))
            if not now[name] and name not in before:
                del now[name]
        elif isinstance(current, dict) and isinstance(made_value, dict) and isinstance(earlier, dict):
            inner = dict(current)
            clashes += _take_out_names(inner, made_value, earlier, MergeRules(), f"{path}{name}.")
            now[name] = inner
        else:
            clashes.append(path + name)
    return clashes


def _held_groups(
    now: Mapping[str, JSONValue], made: Mapping[str, JSONValue], before: Mapping[str, JSONValue], rules: MergeRules
) -> frozenset[str]:
    """Return the fields of the groups whose present values are neither those made nor those before."""
    return frozenset(
        name
        for group in rules.groups
        if any(_bytes(now, one) != _bytes(made, one) for one in group)
        and any(_bytes(now, one) != _bytes(before, one) for one in group)
        for name in group
    )


def _is_list(value: JSONValue) -> bool:
    return value is None or isinstance(value, list)


def _list(value: JSONValue) -> list[JSONValue]:
    return value if isinstance(value, list) else []


def _take_out_elements(now: list[JSONValue], made: list[JSONValue], before: list[JSONValue]) -> list[JSONValue]:
    """Remove and restore elements of a set. Texts are searched directly, since canonical forms of thousands of elements would be too slow."""
    old, new = ({one if isinstance(one, str) else canonical(one): one for one in part} for part in (before, made))
    kept = list(now)
    for key in new.keys() - old.keys():
        if isinstance(key, str):
            while key in kept:
                kept.remove(key)
        else:
            kept = [one for one in kept if canonical(one) != key]
    back = {key: one for key, one in old.items() if key not in new}
    there = {canonical(one) for one in now} if any(isinstance(key, bytes) for key in back) else set()
    return kept + [one for key, one in back.items() if key not in (now if isinstance(key, str) else there)]


def _bytes(content: Mapping[str, JSONValue], name: str) -> bytes | None:
    return canonical(content[name]) if name in content else None


class TakenOut:
    """Removes changes from an entity that is ``present``; ``undone`` are the versions of all changes to remove."""

    def __init__(self, versions: Versions, present: Entity | None, undone: AbstractSet[str], rules: MergeRules) -> None:
        self._versions = versions
        self._present = present
        self._undone = undone
        self._rules = rules

    def of(self, now: Content, made: IndexedRecord, before: Content) -> Content:
        """Return ``now`` without the change from ``before`` to the version ``made``. Raises Overlap."""
        head = self._versions.head(made.version)
        wrote = decoded(head.payload) if head is not None else None
        try:
            return take_out(now, wrote, before, self._rules)
        except Overlap:
            if not self._was_before(made.version, wrote, before):
                raise
            return now

    def _was_before(self, made: str, wrote: Content, before: Content) -> bool:
        """Return True if the newest version since ``made`` that allows a comparison has nothing of the change."""
        for version in self._since(made):
            if not self._versions.is_known(version):
                continue
            head = self._versions.head(version)
            assert head is not None
            then = decoded(head.payload)
            if self._fell_away(version, then):
                return True
            try:
                return same(take_out(then, wrote, before, self._rules), then)
            except Overlap:
                continue
        return False

    def _fell_away(self, version: str, then: Content) -> bool:
        """Return True if ``version`` merged concurrent versions and has the content they have without the undone ones."""
        parents = self._versions.parents(version)
        if len(parents) < 2 or self._undone.isdisjoint(parents):
            return False
        left = self._versions.shown(self._versions.heads_among(self._versions.ancestors(parents) - self._undone))
        return same(content_of(left), then, self._rules.stamp)

    def _since(self, version: str) -> list[str]:
        """Return the ancestors of the present entity that descend from ``version``, newest first."""
        held = self._versions.ancestors(self._present.heads if self._present is not None else ())
        children: dict[str, list[str]] = {}
        for one in held:
            for parent in self._versions.parents(one):
                children.setdefault(parent, []).append(one)
        found, todo = set[str](), [version]
        while todo:
            new = [one for one in children.get(todo.pop(), ()) if one not in found]
            found.update(new)
            todo += new
        return sorted(found, key=lambda one: (self._versions.rev_of(one), one), reverse=True)
