"""Histories of contexts to stream: deltas that stand in their records and deltas in pages, with long removals among them."""

from __future__ import annotations

import random
from hashlib import sha256

from periplus.context.model import Atom, Chunk, Context, atom_digest
from periplus.context.stores.memory_store import MemoryObjects, MemoryStore


class CountingObjects(MemoryObjects):
    """Says how many objects were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def get(self, digest: bytes) -> bytes:
        self.opened += 1
        return super().get(digest)


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._objects = self.counted = CountingObjects()


def some_atom(number: int, chosen: random.Random, *, padding: int = 0) -> Atom:
    """Atom ``number``, whose annotation is ``chosen``."""
    return Atom(
        f"atom {number} {'x' * (padding and number * 7919 % padding)}",
        ("String", "Decision", "List[String]")[number % 3],
        chosen.choice((0, 1_700_000_000_000, -5, chosen.randrange(10**12))),
        chosen.choice((0, 500_000, 1_000_000, chosen.randrange(1_000_001))),
        chosen.choice(("", f"src/a.py:{number}")),
        ("a", "b")[: chosen.randrange(3)],
    )


def history(
    store, chosen: random.Random, sizes: list[tuple[int, int]], *, universe: int, padding: int = 0
) -> list[bytes]:
    """A chain in which each delta adds so many atoms of the ``universe`` and removes so many; the newest is the last."""
    live: set[bytes] = set()
    chain: list[bytes] = []
    for added, removed in sizes:
        gone = chosen.sample(sorted(live), min(removed, len(live)))
        left = live - set(gone)
        atoms = [some_atom(number, chosen, padding=padding) for number in chosen.sample(range(universe), added)]
        atoms = [atom for atom in atoms if atom_digest(atom) not in gone]
        chain.append(store.commit(Context(chain[-1] if chain else None, tuple(atoms), removed=tuple(gone))))
        live = left | {atom_digest(atom) for atom in atoms}
    return chain


def entries_of(chunks: list[Chunk]) -> list:
    return [entry for chunk in chunks for entry in chunk.entries]


def head_of(records: list[bytes]) -> bytes:
    """MTH of RFC 9162 §2.1.1, word for word."""
    if not records:
        return sha256(b"").digest()
    if len(records) == 1:
        return sha256(b"\x00" + records[0]).digest()
    split = 1 << (len(records) - 1).bit_length() - 1
    return sha256(b"\x01" + head_of(records[:split]) + head_of(records[split:])).digest()
