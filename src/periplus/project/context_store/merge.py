"""Merge one context or several into another, one after the other; nothing is written before all of it is known to
work.

The places where clones left a ref are merged in turn, each into the result of those before. A choice for an atom, by
the beginning of its digest, applies to all of these merges: the atom may be in conflict in any of them.
"""

from __future__ import annotations

__all__ = ["Planned", "merge_in"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.context.deltas.merge import Overlay, merge

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.context.deltas.merge import Choice, Conflict, Resolution
    from periplus.context.model import Context
    from periplus.context.store_protocol import Store

PREFIX_DIGITS_MIN: Final = 4
_PLANNED: Final = b"periplus planned\x00"


class Planned(NamedTuple):
    """The result of a merge. ``head`` is the new head of ours: an existing context, or the last of ``contexts``,
    which refer to each other by the digests given with them. With ``conflicts`` it is incomplete.
    """

    outcome: str
    head: bytes
    contexts: tuple[tuple[bytes, Context], ...]
    conflicts: tuple[Conflict, ...]
    settled: tuple[Resolution, ...]

    def commit(self, store: Store) -> bytes:
        """Commit the plan; returns the new head of ours."""
        import msgspec

        known: dict[bytes | None, bytes] = {}
        for planned, context in self.contexts:
            known[planned] = store.commit(msgspec.structs.replace(context, base=known.get(context.base, context.base)))
        return known.get(self.head, self.head)


def merge_in(
    store: Store,
    ours: bytes,
    theirs: Sequence[bytes],
    choose: Mapping[str, Choice],
    favour: Choice | None,
    metadata: dict[str, JSONValue],
) -> Planned:
    """Plan merging ``theirs`` into ``ours``; stops at the first merge with conflicts left. Raises UsageError for a
    beginning in ``choose`` that matches no atom in conflict, or several, and for two that choose differently on
    one.
    """
    overlay = Overlay(store)
    choices = _Choices(choose)
    head, outcome = ours, "already"
    contexts: list[tuple[bytes, Context]] = []
    settled: list[Resolution] = []
    for number, each in enumerate(theirs, 1):
        chosen = choices.of(overlay, head, each) if choose else {}
        if number == len(theirs):
            choices.check()
        done = merge(overlay, head, each, choose=chosen, favour=favour, metadata=metadata)
        settled += done.settled
        if done.conflicts:
            return Planned(done.outcome, ours, (), done.conflicts, tuple(settled))
        if done.outcome != "already":
            outcome = done.outcome if outcome == "already" else "merged"
        if done.context is not None:
            head = overlay.add(done.context, _PLANNED)
            contexts.append((head, done.context))
        else:
            head = done.head or head
    return Planned(outcome, head, tuple(contexts), (), tuple(settled))


class _Choices:
    """Choices by the beginnings of digests, and the atoms that each has matched so far."""

    def __init__(self, choose: Mapping[str, Choice]) -> None:
        self._choose = choose
        self._named: dict[str, set[bytes]] = {prefix: set() for prefix in choose}

    def of(self, store: Overlay, ours: bytes, theirs: bytes) -> dict[bytes, Choice]:
        """Return the choices that concern merging ``theirs`` into ``ours``. Raises UsageError."""
        found = merge(store, ours, theirs)
        open_to_choice = {each.digest for each in found.conflicts} | {each.digest for each in found.settled}
        chosen: dict[bytes, Choice] = {}
        for prefix, choice in self._choose.items():
            meant = {digest for digest in open_to_choice if digest.hex().startswith(prefix.lower())}
            self._named[prefix] |= meant
            if len(self._named[prefix]) > 1 or len(prefix) < PREFIX_DIGITS_MIN:
                raise self._wrong(prefix)
            if any(chosen.get(digest, choice) != choice for digest in meant):
                raise UsageError(f"both ours and theirs were chosen for {prefix[:80]!r}", safe="Nothing was changed.")
            chosen |= dict.fromkeys(meant, choice)
        return chosen

    def check(self) -> None:
        """Check that each choice has matched an atom, once all merges were looked at. Raises UsageError."""
        for prefix, named in self._named.items():
            if not named:
                raise self._wrong(prefix)

    def _wrong(self, prefix: str) -> UsageError:
        return UsageError(
            f"{prefix[:80]!r} names {len(self._named[prefix])} of the atoms in conflict",
            safe="Nothing was changed.",
            mend=f"Type the beginning of one of their digests, {PREFIX_DIGITS_MIN} digits or more.",
        )
