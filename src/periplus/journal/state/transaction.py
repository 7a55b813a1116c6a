"""Transactions: the records of one mutation, collected before anything is written."""

from __future__ import annotations

__all__ = ["ABSENT", "PARENTS_MAX", "Draft", "Receipt", "Said", "Transaction", "Writer", "summary_line"]

import os
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, Self

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import ConflictError, UsageError
from periplus.base.ids import derived_id, is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import ACTIONS, PAYLOAD_INLINE_MAX, version_id
from periplus.journal.state.entity import Entity, EntityType, Head

ABSENT: Final = "absent"
SUMMARY_CHARACTERS_MAX: Final = 200
PARENTS_MAX: Final = 2_500  # 67 bytes each, in a line that also holds an inline payload: see LINE_BYTES_MAX
_NAME_MAX: Final = 100


class Writer(NamedTuple):
    """The author of a record: a name for people, a lasting id, the session, and the process (for diagnosis)."""

    name: str
    id: str
    session: str = ""
    pid: int = 0

    @classmethod
    def named(cls, name: str, *, session: str = "") -> Self:
        """Return the writer ``name`` of this process; its id is the same wherever that name writes on this machine."""
        return cls(name[:_NAME_MAX], derived_id("who", name, os.uname().nodename), session[:_NAME_MAX], os.getpid())


class Draft(NamedTuple):
    """A record before it has a place in the journal."""

    action: str
    item_type: str
    item_id: str
    parents: tuple[str, ...]
    payload: bytes | None
    deleted: bool
    summary: str
    version: str
    after: tuple[str, ...] = ()
    inline_bytes_max: int = PAYLOAD_INLINE_MAX


class Receipt(NamedTuple):
    """The result of a mutation: its key, records and versions; ``repeated`` if the key had been written before."""

    key: str
    lineage: str
    first_seq: int
    last_seq: int
    versions: tuple[str, ...]
    repeated: bool

    @property
    def record_count(self) -> int:
        return self.last_seq - self.first_seq + 1


class Said(NamedTuple):
    """A text that goes into a record beside its payload: ``part`` is its summary, its key, the writer's name or the session's.

    For a summary, ``action`` and ``item_type`` say what it is about.
    """

    part: Literal["summary", "key", "writer", "session"]
    text: str
    action: str = ""
    item_type: str = ""


class Transaction:
    """Passed to the function that ``Journal.mutate`` runs under the lock; sees its own writes."""

    def __init__(
        self,
        types: Mapping[str, EntityType],
        heads_of: Callable[[str, str], list[Head]],
        shown: Callable[[str, list[Head]], Entity | None],
        check_said: Callable[[Said], None] | None = None,
    ) -> None:
        self._types = types
        self._check_said = check_said
        self._heads_of = heads_of
        self._shown = shown
        self._pending: dict[tuple[str, str], list[Head]] = {}
        self._latest: dict[tuple[str, str], tuple[Draft, list[Head]]] = {}  # written over these heads, not read since
        self._held: dict[tuple[str, str], list[Head]] = {}  # unchanged while the lock is held
        self.drafts: list[Draft] = []

    def get(self, item_type: str, item_id: str) -> Entity | None:
        """Return the entity as it is now, tombstones included; None if it never existed."""
        return self._shown(item_type, self._heads(item_type, item_id))

    def put(
        self,
        item_type: str,
        item_id: str,
        payload: dict[str, JSONValue],
        *,
        action: str = "",
        expect: str | None = None,
        summary: str = "",
        is_of_before: bool = False,
        carried: Collection[str] = (),
        is_admitted: bool = False,
    ) -> str:
        """Write the whole entity and return its version id.

        ``expect`` makes it a compare-and-set: the version that the caller read, or ABSENT. ``is_of_before``: the content existed
        before, so a list that a merge made longer may be as long again. ``carried`` names lists that come whole from entities
        which this one replaces; they may be as long as they were there. ``is_admitted``: the type has admitted the payload already.

        Raises ConflictError if the entity changed since (a second head is a change, too), UsageError (or what the type's check
        raises) for a bad payload.
        """
        kind = self._types.get(item_type)
        if kind is None:
            raise UsageError(f"unknown entity type {item_type!r}", mend=f"Known are: {', '.join(sorted(self._types))}.")
        if not is_id(item_id):
            raise UsageError(f"{item_id!r} is not an id", mend="An id is a prefix, an underscore and 16 characters.")
        if is_of_before:
            kind.check(payload)
        elif not is_admitted:
            kind.admit(payload, lambda: self.get(item_type, item_id), carried)
        heads = self._heads(item_type, item_id)
        if expect is not None and (heads or expect != ABSENT):
            self._check(item_type, item_id, heads, expect)
        if not action:
            action = "update" if heads and any(not head.deleted for head in heads) else "create"
        if ACTIONS.get(action) != "state":
            raise UsageError(f"{action!r} is not an action that writes an entity")
        if summary and self._check_said is not None:
            self._check_said(Said("summary", summary, action, item_type))
        if len(heads) > PARENTS_MAX:
            heads = self._joined(item_type, item_id, heads)
        parents = _versions(heads) if heads else ()
        return self._draft(heads, action, item_type, item_id, parents, canonical(payload), summary)

    def place(
        self,
        action: str,
        item_type: str,
        item_id: str,
        payload: dict[str, JSONValue],
        parents: tuple[str, ...],
        *,
        after: tuple[str, ...] = (),
        summary: str = "",
        is_of_before: bool = False,
    ) -> str:
        """Write a version that was made elsewhere, from ``parents`` and not from the heads; return its version id.

        ``after`` names versions that it descends from through others that are not held; ``is_of_before`` as in ``put``.
        """
        kind = self._types.get(item_type)
        if kind is None or not is_id(item_id) or ACTIONS.get(action) != "state":
            raise UsageError(f"{action} of {item_type!r} {item_id!r} cannot be written")
        if is_of_before:
            kind.check(payload)
        else:
            kind.admit(payload, lambda: self.get(item_type, item_id))
        heads = self._heads(item_type, item_id)
        mine = [head for head in heads if head.version not in {*parents, *after}]
        version = self._draft(heads, action, item_type, item_id, parents, canonical(payload), summary, after)
        both = [*self._heads(item_type, item_id), *(head for head in mine if head.version != version)]
        self._pending[item_type, item_id] = both
        return version

    def delete(self, item_type: str, item_id: str, *, expect: str | None = None, summary: str = "") -> str:
        """Write a tombstone and return its version id. Raises ConflictError as ``put`` does, UsageError if there is no entity."""
        heads = self._heads(item_type, item_id)
        if expect is not None:
            self._check(item_type, item_id, heads, expect)
        if all(head.deleted for head in heads):
            raise UsageError(f"there is no {item_type} {item_id} to delete")
        if summary and self._check_said is not None:
            self._check_said(Said("summary", summary, "delete", item_type))
        heads = self._joined(item_type, item_id, heads)
        return self._draft(heads, "delete", item_type, item_id, _versions(heads), None, summary)

    def observe(
        self,
        payload: dict[str, JSONValue],
        *,
        item_type: str = "",
        item_id: str = "",
        summary: str = "",
        inline_bytes_max: int = PAYLOAD_INLINE_MAX,
    ) -> None:
        """Write a record of an event. It is no state: nothing is rebuilt from it.

        A payload of more than ``inline_bytes_max`` bytes is kept as an object beside the journal.
        """
        draft = Draft("observe", item_type, item_id, (), canonical(payload), deleted=False, summary=summary_line(summary), version="",
                      inline_bytes_max=min(inline_bytes_max, PAYLOAD_INLINE_MAX))  # fmt: skip
        self.drafts.append(draft)

    def meta(self, action: str, payload: dict[str, JSONValue], *, summary: str = "") -> None:
        """Write a record about the journal itself: ``checkpoint``, ``redact`` or ``note``. It is no state either."""
        if ACTIONS.get(action) != "meta":
            raise UsageError(f"{action!r} is not an action for records about the journal")
        if summary and self._check_said is not None:
            self._check_said(Said("summary", summary, action))
        self.drafts.append(
            Draft(action, "", "", (), canonical(payload), deleted=False, summary=summary_line(summary), version="")
        )

    def _joined(self, item_type: str, item_id: str, heads: list[Head]) -> list[Head]:
        """Reduce ``heads`` to as many as one record can name, by first writing versions that join some of them as they are shown.

        A clone with the same heads writes the same versions.
        """
        heads = sorted(heads, key=lambda head: head.version)
        while len(heads) > PARENTS_MAX:
            part, heads = heads[:PARENTS_MAX], heads[PARENTS_MAX:]
            shown = self._shown(item_type, part)
            payload = None if shown is None or shown.deleted else shown.payload
            summary = f"{len(part):,} versions that stood beside each other, as they are shown together"
            self._draft(
                part, "delete" if payload is None else "update", item_type, item_id, _versions(part), payload, summary
            )
            heads.append(_head_of(self.drafts[-1], part))
        return heads

    def _heads(self, item_type: str, item_id: str) -> list[Head]:
        key = (item_type, item_id)
        latest = self._latest.pop(key, None) if self._latest else None
        if latest is not None:
            self._pending[key] = [_head_of(*latest)]
        found = self._pending.get(key) or self._held.get(key)
        if found is None:
            found = self._held[key] = self._heads_of(item_type, item_id)
        return found

    def _check(self, item_type: str, item_id: str, heads: list[Head], expect: str) -> None:
        """Raise ConflictError if the entity is not at the version that the caller read."""
        now = self._shown(item_type, heads)
        held = ABSENT if now is None or now.deleted else now.version
        if expect != held:
            if now is None or now.deleted:
                state = "it does not exist"
            elif len(now.heads) > 1:
                state = f"{len(now.heads)} heads exist now"
            else:
                state = f"it is at version {now.version[:12]} (rev {now.rev}, written by {now.writer} at {now.ts})"
            raise ConflictError(
                f"{item_type} {item_id} changed since you read it: {state}",
                safe="Nothing was written.",
                mend=f"Read it again (`periplus show {item_id}`) and repeat the change.",
            )

    def _draft(
        self, heads: list[Head], action: str, item_type: str, item_id: str, parents: tuple[str, ...],
        payload: bytes | None, summary: str, after: tuple[str, ...] = (),
    ) -> str:  # fmt: skip
        """Add a version of the entity with these ``heads`` to the drafts; return its id."""
        parents = tuple(sorted(parents))
        deleted = payload is None
        version = version_id(item_type, item_id, deleted=deleted, payload=payload, parents=parents)
        after = tuple(sorted(one for one in after if one != version))
        draft = Draft(action, item_type, item_id, parents, payload, deleted, summary_line(summary), version, after)
        self.drafts.append(draft)
        self._latest[item_type, item_id] = (draft, heads)
        return version


def _head_of(draft: Draft, held: list[Head]) -> Head:
    """Return the head that ``draft`` becomes over the heads ``held``."""
    before = {*draft.parents, *draft.after}
    rev = 1 + max((head.rev for head in held if head.version in before), default=0)
    return Head(draft.item_type, draft.item_id, draft.version, draft.parents, rev, draft.deleted, draft.payload or b"",
                "", "", "", "", 0)  # fmt: skip


def _versions(heads: list[Head]) -> tuple[str, ...]:
    return tuple([head.version for head in heads])


def summary_line(text: str) -> str:
    """Return ``text`` as one line, cut to SUMMARY_CHARACTERS_MAX."""
    line = " ".join(text.split())
    return line if len(line) <= SUMMARY_CHARACTERS_MAX else line[: SUMMARY_CHARACTERS_MAX - 1] + "…"
