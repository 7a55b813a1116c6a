"""Withhold redacted texts when a session is imported or recorded once more.

An object is known by its digest: it is not kept again, and a trail withholds its text. A short text has no digest on
record. But the trail of its session withholds it, and keeps its commitment; the clone that made that trail can
recognise the text in a later, longer trail of the same session. Any other clone recognises it by its place, where the
later trail begins like the one before.
"""

from __future__ import annotations

__all__ = ["Withholding", "withheld_places"]

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding import hashing
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, PeriplusError
from periplus.journal.care.text_removal import MASK

if TYPE_CHECKING:
    from periplus.journal import Entity, Receipt, Transaction
    from periplus.project.store import ProjectStore
    from periplus.trail import OperandValue, TrailReader

_COMMITMENTS_MAX: Final = 4_000_000  # computed for one trail: some seconds
_TRIES_MAX: Final = 8


class Withholding:
    """Keep objects and trails for ``project`` without what was redacted, also by others meanwhile.

    ``kept`` are the objects that came, redacted ones included.
    """

    def __init__(self, project: ProjectStore) -> None:
        self._project = project
        self._objects = project.journal.objects
        self.kept: set[bytes] = set()

    def is_out(self, digest: bytes) -> bool:
        """Return True where the object was redacted. To put it afterwards, ask while ``ObjectStore.keeping``."""
        return digest in self._project.taken_out.now()

    def put(self, data: bytes) -> bytes:
        """As ``ObjectStore.put``; a redacted object is not kept, and its digest is returned all the same."""
        digest = hashing.sha256(data).digest()
        self.kept.add(digest)
        with self._objects.keeping():
            return digest if self.is_out(digest) else self._objects.put(data)

    def put_wanted(self, data: bytes) -> bytes | None:
        """As ``put``, but returns None for a redacted object."""
        with self._objects.keeping():
            return None if self.is_out(hashing.sha256(data).digest()) else self.put(data)

    def announce(self, item_id: str, keep: Callable[[Entity | None], Callable[[Transaction], None]]) -> Receipt:
        """Write the trail ``item_id`` with the result of ``keep``, which keeps its objects given the present trail;
        again where the trail has changed by then.

        A redaction is done before this begins, or searches for its objects when this is done. Raises ConflictError.
        """
        journal = self._project.journal
        with self._objects.keeping():
            for _ in range(_TRIES_MAX):
                journal.refresh()
                before = journal.get("trail", item_id)
                write = keep(before)

                def checked(
                    transaction: Transaction, heads: tuple[str, ...] = _heads(before),
                    write: Callable[[Transaction], None] = write,
                ) -> None:  # fmt: skip
                    if _heads(transaction.get("trail", item_id)) != heads:
                        raise _AnotherError
                    write(transaction)

                try:
                    return journal.mutate(checked, self._project.writer)
                except _AnotherError:
                    continue
        raise ConflictError(f"trail {item_id} was written by others at each attempt",
                            safe="Nothing was written.", mend="Repeat the command.")  # fmt: skip

    def put_trail(self, card: dict[str, JSONValue], data: bytes, held: Entity | None) -> int:
        """Keep the trail that ``card`` announces, without redacted texts; returns the number of withheld texts. To be
        called while ``keeping``.

        ``card`` gets the object and its size, and a mark in the place of such a text. ``held`` is the present trail
        of the session.
        """
        from periplus.trail import TextObject, Withheld, open_parts, withhold

        readers = open_parts(data)
        known = set(self._told_again(readers[0], held)) if len(readers) == 1 and held is not None else set()

        def is_known(_index: int, value: OperandValue) -> bool:
            return value in known or (isinstance(value, TextObject) and self.is_out(value.sha256))

        values = [reader.string(at) for reader in readers for at in range(len(reader.strings))]
        count = sum(is_known(0, one) for one in values if not isinstance(one, Withheld))
        if count:
            data = withhold(data, is_known)
            _mask(card, {one for one in known if isinstance(one, str)}, held)
            readers = open_parts(data)
        del values
        name = self._objects.put(data)
        self.kept.add(name)
        card |= {"object": name.hex(), "bytes": len(data), "withheld": [*_places(readers)]}
        return count

    def _told_again(self, reader: TrailReader, held: Entity) -> Iterator[OperandValue]:
        """Yield the texts of a trail that the present trail of its session withholds."""
        from periplus.project.trail_store.keys import trail_secret
        from periplus.trail import TrailReader
        from periplus.trail.format.layout import FORM_WITHHELD
        from periplus.trail.format.salts import entry_salt

        try:
            old = TrailReader(self._objects.get(bytes.fromhex(str(held.value.get("object", "")))))
            source = bytes.fromhex(str(held.value.get("source_sha256", "")))
        except (PeriplusError, ValueError):
            return  # lost or damaged, or no plain trail: doctor reports it
        if not old.strings.is_redacted or not source:
            return
        secret = trail_secret(self._project, source)
        wanted = [at for at, form in enumerate(old.strings.forms) if form == FORM_WITHHELD]
        if any(one.salt not in (None, entry_salt(secret, at)) for at, one in enumerate(old.strings.entries())):
            last = _last_agreed(old, reader)  # another clone made it, with salts of its own
            yield from (reader.string(at) for at in wanted if at < last)
            return
        commitments = old.commitments()
        table = [_committed(reader, at) for at in range(len(reader.strings))]
        tries = 0
        for at in wanted:
            salt, commitment = entry_salt(secret, at), commitments[32 * at : 32 * at + 32]
            for place in (at, *range(len(table))):  # earlier texts keep their place
                tries += 1
                if place < len(table) and hashing.sha256(salt + table[place]).digest() == commitment:
                    yield reader.string(place)
                    break
                if tries > _COMMITMENTS_MAX:
                    return


class _AnotherError(Exception):
    """The trail changed since its objects were kept."""


def _heads(trail: Entity | None) -> tuple[str, ...]:
    return trail.heads if trail is not None and not trail.deleted else ()


def withheld_places(data: bytes) -> Iterator[int]:
    """Yield the places in the string table of a trail whose texts were withheld; those of several parts are counted
    through.
    """
    from periplus.trail import open_parts

    yield from _places(open_parts(data))


def _places(readers: Sequence[TrailReader]) -> Iterator[int]:
    from periplus.trail.format.layout import FORM_WITHHELD

    before = 0
    for reader in readers:
        forms = reader.strings.forms
        yield from (before + at for at, form in enumerate(forms) if form == FORM_WITHHELD)
        before += len(forms)


def _committed(reader: TrailReader, at: int) -> bytes:
    """Return the bytes that the commitment of a string covers, after its salt: see the format of trails, Identity."""
    from periplus.trail import TextObject

    value = reader.string(at)
    if isinstance(value, str):
        return b"\0" + value.encode()
    if isinstance(value, TextObject):
        return b"\1" + value.sha256 + value.length.to_bytes(8, "big")
    return b""  # a digest is no text


def _last_agreed(old: TrailReader, reader: TrailReader) -> int:
    """Return the place of the last string in which both agree, before the first in which they do not; -1 where there
    is none.

    A text that ``old`` withholds before that place is the one that ``reader`` has there: the session begins alike.
    After it nothing is known.
    """
    from periplus.trail import Withheld

    last = -1
    for at in range(min(len(old.strings), len(reader.strings))):
        before = old.string(at)
        if isinstance(before, Withheld):
            continue
        if before != reader.string(at):
            break
        last = at
    return last


def _mask(card: dict[str, JSONValue], texts: set[str], held: Entity | None) -> None:
    title = card.get("title")
    if title in texts and held is not None:
        card["title"] = held.value.get("title", MASK)
    for name, value in card.items():
        if isinstance(value, str) and value in texts:
            card[name] = MASK
        elif isinstance(value, list):
            card[name] = [MASK if one in texts else one for one in value]
