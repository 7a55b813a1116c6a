"""The history of entities in a journal of segments beside a v1 folder, as versions to import before the present ones."""

from __future__ import annotations

__all__ = ["Ended", "History", "Version"]

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError
from periplus.base.text.secrets import find_secrets
from periplus.interop.version1.documents import Key, V1Entity, parse_file, read_entity
from periplus.interop.version1.folder import V1File, V1Folder, Was
from periplus.journal import EntityType


class Version(NamedTuple):
    payload: dict[str, JSONValue]
    summary: str


class Ended(NamedTuple):
    """A deleted entity with its last content; ``summary`` names the record of the deletion."""

    key: Key
    versions: list[Version]
    summary: str


class History:
    """``told`` is by the name of a kind and the old id (``read_history``). It proves nothing: records that cannot be
    read, are of another type or hold a secret are left out.
    """

    def __init__(self, told: Mapping[Key, Sequence[Was]], types: Mapping[str, EntityType]) -> None:
        self._told = told
        self._types = types

    def before(self, file: V1File) -> list[Version]:
        """Return the versions of the entity of a file, without the last one where the file says the same."""
        told = list(self._told.get((file.entity.name, file.entity.old_id), ()))
        if told and told[-1].text and parse_file(told[-1].text.encode())[1] == parse_file(file.text.encode())[1]:
            del told[-1]
        return self._versions(told, file.path, (file.entity.item_type, file.entity.item_id))

    def ended(self, folder: V1Folder) -> list[Ended]:
        """Return the deleted entities that have no file."""
        held = {(file.entity.name, file.entity.old_id) for file in folder.files.values()}
        found: list[Ended] = []
        for (name, old_id), told in sorted(self._told.items()):
            if (name, old_id) in held or told[-1].text:
                continue
            path = f"{name}s/{old_id}.json"
            last = next((one for was in reversed(told) if (one := self._read(was, path)) is not None), None)
            if last is not None and last.item_type in self._types:
                key = (last.item_type, last.item_id)
                found.append(Ended(key, self._versions(told, path, key), f"v1: deleted, says record {told[-1].seq}"))
        return found

    def _versions(self, told: Sequence[Was], path: str, key: Key) -> list[Version]:
        found = [(was, self._read(was, path)) for was in told]
        return [
            Version(one.payload, _summary(was))
            for was, one in found
            if one is not None and (one.item_type, one.item_id) == key
        ]

    def _read(self, was: Was, path: str) -> V1Entity | None:
        if not was.text:
            return None
        try:
            return read_entity(*parse_file(was.text.encode()), path, self._types)
        except PeriplusError:
            return None  # see above


def _summary(was: Was) -> str:
    said = f"v1: {was.action} of {was.ts} by {was.agent}, record {was.seq}"
    return f"v1: record {was.seq}" if find_secrets(said) else said
