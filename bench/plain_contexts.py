"""The baseline of the contexts' benchmark: a plain store of contexts, as one writes it first.

Atoms are objects with a short hexadecimal id, contexts a dictionary by such ids; whoever asks gets the whole chain walked to its
root, applied delta by delta to a dictionary, sorted by relevance, cut into chunks of ten atoms and 500 tokens (words × 13 // 10), each
of them JSON in the forms of version 1 of the protocol. Trees hash pairs of hexadecimal
nodes level by level in lists; a proof builds the tree anew, for nothing keeps it.

It is kept fast where that changes nothing of the approach: ids and prints of types are made once, when an atom is made.
"""

from __future__ import annotations

__all__ = [
    "CHUNK_ATOMS",
    "CHUNK_TOKENS",
    "PlainAtom",
    "PlainContext",
    "PlainStore",
    "PlainType",
    "dump",
    "load",
    "proof",
    "tree",
]

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

CHUNK_ATOMS: Final = 10
CHUNK_TOKENS: Final = 500


@dataclass(frozen=True)
class PlainType:
    name: str
    kind: str = "STAR"
    parameters: tuple[PlainType, ...] = ()
    constraints: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "parameters": [parameter.to_json() for parameter in self.parameters],
            "constraints": list(self.constraints),
        }

    @classmethod
    def of(cls, value: dict[str, Any]) -> PlainType:
        return cls(
            value["name"],
            value["kind"],
            tuple(cls.of(parameter) for parameter in value["parameters"]),
            tuple(value["constraints"]),
        )

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.parameters))}]" if self.parameters else self.name


class PlainAtom:
    __slots__ = ("content", "hash", "relevance", "source", "timestamp", "type", "type_print")

    def __init__(
        self, content: str, type_: PlainType, timestamp: datetime, source: str | None, relevance: float
    ) -> None:
        self.content = content
        self.type = type_
        self.timestamp = timestamp
        self.source = source
        self.relevance = relevance
        self.type_print = str(type_)
        self.hash = sha256((content + self.type_print).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        return {
            "content": self.content,
            "type_sig": self.type.to_json(),
            "timestamp": self.timestamp.isoformat(),
            "source_hash": self.source,
            "relevance_score": self.relevance,
        }

    @classmethod
    def of(cls, value: dict[str, Any]) -> PlainAtom:
        return cls(
            value["content"],
            PlainType.of(value["type_sig"]),
            datetime.fromisoformat(value["timestamp"]),
            value["source_hash"],
            value["relevance_score"],
        )


@dataclass
class PlainContext:
    base: str | None
    atoms: list[PlainAtom]
    removed: set[str] = field(default_factory=set)

    def digest(self) -> str:
        return sha256("".join([self.base or "ROOT", *(atom.hash for atom in self.atoms)]).encode()).hexdigest()[:16]


def dump(context: PlainContext) -> bytes:
    """The JSON that such a context travels as."""
    return json.dumps(
        {
            "base_hash": context.base,
            "delta_atoms": [atom.to_json() for atom in context.atoms],
            "delta_molecules": [],
            "removed_hashes": sorted(context.removed),
            "compression_metadata": {},
        }
    ).encode()


def load(data: bytes) -> PlainContext:
    value = json.loads(data)
    return PlainContext(
        value["base_hash"], [PlainAtom.of(atom) for atom in value["delta_atoms"]], set(value["removed_hashes"])
    )


class PlainStore:
    def __init__(self) -> None:
        self.contexts: dict[str, PlainContext] = {}
        self.newest = ""  # the id of the atom that came last

    def put(self, context: PlainContext) -> str:
        digest = context.digest()
        self.contexts[digest] = context
        self.newest = context.atoms[-1].hash if context.atoms else self.newest
        return digest

    def expand(self, digest: str) -> list[PlainAtom]:
        chain = []
        at: str | None = digest
        while at is not None:
            chain.append(self.contexts[at])
            at = chain[-1].base
        found: dict[str, PlainAtom] = {}
        for context in reversed(chain):
            for gone in context.removed:
                found.pop(gone, None)
            for atom in context.atoms:
                found[atom.hash] = atom
        return sorted(found.values(), key=lambda atom: atom.relevance, reverse=True)

    def stream(self, digest: str) -> Iterator[bytes]:
        """The chunks of the whole expansion, as JSON."""
        atoms = self.expand(digest)
        chunk: list[PlainAtom] = []
        tokens = cumulative = number = sent = 0
        for atom in atoms:
            count = len(atom.content.split()) * 13 // 10
            if chunk and (len(chunk) == CHUNK_ATOMS or tokens + count > CHUNK_TOKENS):
                cumulative += tokens
                sent += len(chunk)
                yield _chunk(number, chunk, cumulative, sent / len(atoms), is_final=False)
                number += 1
                chunk, tokens = [], 0
            chunk.append(atom)
            tokens += count
        yield _chunk(number, chunk, cumulative + tokens, 1.0, is_final=True)


def _chunk(number: int, atoms: list[PlainAtom], cumulative: int, progress: float, *, is_final: bool) -> bytes:
    return json.dumps(
        {
            "chunk_id": number,
            "atoms": [
                {"content": atom.content, "type": atom.type_print, "relevance": atom.relevance, "hash": atom.hash}
                for atom in atoms
            ],
            "is_final": is_final,
            "cumulative_tokens": cumulative,
            "progress": progress,
        }
    ).encode()


def tree(leaves: list[str]) -> list[list[str]]:
    """All levels of a Merkle tree over ``leaves``, hexadecimal as all ids are; a level of odd length has its last one twice."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        level = levels[-1]
        if len(level) % 2:
            level = [*level, level[-1]]
        levels.append([sha256((level[at] + level[at + 1]).encode()).hexdigest() for at in range(0, len(level), 2)])
    return levels


def proof(leaves: list[str], index: int) -> list[str]:
    """The path of leaf ``index``, from a tree that is built for it."""
    path = []
    for level in tree(leaves)[:-1]:
        path.append(level[min(index ^ 1, len(level) - 1)])
        index >>= 1
    return path
