"""Requests of a version 1 peer as values, with short hashes (16 hexadecimal digits).

``as_v2`` of a request returns the equivalent request of version 2, once the owner of the alias index has resolved the
short hash.
"""

from __future__ import annotations

__all__ = ["V1Expand", "V1Molecule", "V1Push", "V1Query", "V1Request", "V1Stream"]

from typing import TypeAlias

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.context.model import Atom
from periplus.context.wire.payloads import ExpandRequest, Filter, QueryRequest, StreamRequest


class _V1(msgspec.Struct, frozen=True):
    """Checked and converted to the units of version 2."""


class V1Molecule(_V1, frozen=True):
    """``atoms`` are short hashes, or atoms of its own, which are then among the atoms of the push as well."""

    atoms: tuple[str | Atom, ...]
    relations: dict[str, tuple[tuple[int, int], ...]]
    type: str
    metadata: dict[str, JSONValue]


class V1Push(_V1, frozen=True):
    """``atoms`` are in the order of the push, from which the old hash is computed. ``noted`` belongs into the context's
    metadata.
    """

    base: str | None
    atoms: tuple[Atom, ...]
    molecules: tuple[V1Molecule, ...]
    removed: tuple[str, ...]
    metadata: dict[str, JSONValue]
    noted: dict[str, JSONValue]


class V1Expand(_V1, frozen=True):
    """``context`` is a short hash, or a delta, which is expanded over its base and not stored."""

    context: str | V1Push
    min_relevance: int = 0

    def as_v2(self, digest: bytes) -> ExpandRequest:
        return ExpandRequest(digest)


class V1Stream(_V1, frozen=True):
    """The machine cuts the chunks: 10 atoms and at most 500 tokens, counted the old way. ``context`` as in V1Expand."""

    context: str | V1Push
    min_relevance: int = 0

    def as_v2(self, digest: bytes) -> StreamRequest:
        return StreamRequest(digest, filter=Filter(min_relevance=self.min_relevance) if self.min_relevance else None)


class V1Query(_V1, frozen=True):
    """``context`` is empty if the request named none."""

    filter: Filter
    text: str = ""
    limit: int = 100
    context: str = ""

    def as_v2(self, digest: bytes) -> QueryRequest:
        return QueryRequest(digest, text=self.text, filter=self.filter, limit=self.limit)


V1Request: TypeAlias = V1Expand | V1Stream | V1Query | V1Push
