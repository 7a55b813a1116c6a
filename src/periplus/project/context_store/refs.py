"""Refs of contexts as records of the journal: each move has an author, a time, and a version to compare with.

Rules kept here:

* a ref is an entity ``context_ref`` whose id derives from its name, so that clones that make the same name make one ref;
* a move is a compare-and-set under the writers' lock: on the target of the ref, and on every place where clones left it;
* the target was durable before the record that names it: whoever moves a ref has written the objects already.
"""

from __future__ import annotations

__all__ = ["JournalRefs", "ref_id"]

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import ConflictError
from periplus.base.ids import derived_id
from periplus.context.stores.refs import ref_moved_error
from periplus.memory.entities.schemas import PAYLOAD_VERSION
from periplus.memory.entities.types import CONTEXT_REF

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity, Journal, Transaction, Writer
    from periplus.journal.state.entity import Head


def ref_id(name: str) -> str:
    return derived_id("ref", name)


class JournalRefs:
    """The table of refs that ``journal`` holds; ``writer`` moves them. ``descends(new, old)`` says whether a context
    descends from another: a ref that clones moved apart is brought together only by a context that descends from
    all of its places, or by ``move``.
    """

    def __init__(self, journal: Journal, writer: Writer, descends: Callable[[bytes, bytes], bool]) -> None:
        self._journal = journal
        self._writer = writer
        self._descends = descends

    def all(self) -> dict[str, bytes]:
        """Return every ref by name, ascending; for one that clones moved apart the target that the journal shows."""
        self._journal.refresh()
        found = {}
        for entity in self._journal.entities(CONTEXT_REF):
            target, name = _target(entity.value), str(entity.value.get("name"))
            if target is not None and entity.item_id == ref_id(
                name
            ):  # otherwise somebody gave another record the ref's name
                found[name] = target
        return dict(sorted(found.items()))

    def get(self, name: str) -> bytes | None:
        entity = self.entity(name)
        return _target(entity.value) if entity is not None else None

    def entity(self, name: str) -> Entity | None:
        """Return the entity of a ref that has a target, with its last writer."""
        self._journal.refresh()
        return self._journal.get(CONTEXT_REF, ref_id(name))

    def standing(self, name: str) -> tuple[bytes, ...]:
        """Return every context where a clone left the ref: one, unless clones moved it apart; the shown one first."""
        shown = self.get(name)
        return _standing(self._journal.heads_of(CONTEXT_REF, ref_id(name)), shown)

    def change(self, name: str, old: bytes | None, new: bytes | None) -> None:
        """As in ``RefTable``. Also raises ConflictError where clones moved the ref apart and ``new`` does not end
        that.
        """
        standing = self.standing(name)
        if len(standing) > 1 and (new is None or not all(one == new or self._descends(new, one) for one in standing)):
            raise self.apart(name, standing)
        self.move(name, old, new, standing=standing)

    @staticmethod
    def apart(name: str, standing: Sequence[bytes]) -> ConflictError:
        """Return the error for a ref that clones moved apart."""
        return ConflictError(
            f"the ref {name} was moved apart in two clones: it stands at {' and at '.join(map(_short, standing))}",
            safe="Nothing was moved.",
            mend=f"Bring them together: periplus context merge --ref {name}",
        )

    def places(self, name: str) -> tuple[tuple[bytes, str, str], ...]:
        """Return the same as ``standing``, each with its writer and time."""
        standing = self.standing(name)
        found: dict[bytes, tuple[str, str]] = {}
        for head in self._journal.heads_of(CONTEXT_REF, ref_id(name)):
            target = _target_of(head)
            if target is not None:
                found[target] = max(found.get(target, ("", "")), (head.ts, head.writer))
        return tuple((target, found[target][1], found[target][0]) for target in standing)

    def is_ended_apart(self, name: str) -> bool:
        """Return True where a clone ended the ref while another moved it: it stays where that one left it until
        somebody decides.
        """
        return any(head.deleted for head in self._journal.heads_of(CONTEXT_REF, ref_id(name)))

    def move(
        self,
        name: str,
        old: bytes | None,
        new: bytes | None,
        *,
        standing: tuple[bytes, ...] | None = None,
        why: str = "",
    ) -> None:
        """Move the ref wherever clones left it, or only where they left it at ``standing``. ``why`` goes into the
        log.
        """
        item_id = ref_id(name)

        def write(transaction: Transaction) -> None:
            held = transaction.get(CONTEXT_REF, item_id)
            now = _target(held.value) if held is not None and not held.deleted else None
            heads = self._journal.heads_of(CONTEXT_REF, item_id)
            if now != old or (standing is not None and set(_standing(heads, now)) != set(standing)):
                raise ref_moved_error(name, old, now)
            if now == new and len(heads) < 2:
                return
            reason = f": {why}" if why else ""
            if new is None:
                transaction.delete(CONTEXT_REF, item_id, summary=f"context ref {name} ended{reason}")
                return
            payload: dict[str, JSONValue] = {"v": PAYLOAD_VERSION, "name": name, "target": new.hex()}
            if now is not None:
                payload["previous"] = now.hex()
            way = _short(new) if now is None else f"{_short(now)} -> {_short(new)}"
            transaction.put(CONTEXT_REF, item_id, payload, summary=f"context ref {name} {way}{reason}")

        self._journal.mutate(write, self._writer)


def _target(value: dict[str, JSONValue]) -> bytes | None:
    text = str(value.get("target", ""))
    return bytes.fromhex(text) if is_digest_text(text) else None


def _target_of(head: Head) -> bytes | None:
    import orjson

    return _target(orjson.loads(head.payload)) if head.payload else None


def _standing(heads: list[Head], shown: bytes | None) -> tuple[bytes, ...]:
    targets = map(_target_of, heads)
    found = sorted({target for target in targets if target is not None and target != shown})
    return (shown, *found) if shown is not None else tuple(found)


def _short(digest: bytes) -> str:
    return digest.hex()[:12]
