"""Trails named on the command line, by id, digest or file."""

from __future__ import annotations

__all__ = ["TrailsByDigest", "guarded", "named_trail", "part_of", "reading", "signed", "trail_reader", "trail_readers"]

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, plain

if TYPE_CHECKING:
    from periplus.project import TrailFile
    from periplus.trail import ObjectReader, TrailReader


class TrailsByDigest:
    """The trails of this store by digest; the store is opened when the first one is needed."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._objects: dict[str, str] | None = None
        self._store: ObjectReader | None = None

    def __call__(self, digest: bytes) -> bytes | None:
        from periplus.base.errors import DamageError, NotFoundError, PeriplusError

        if self._objects is None:
            self._objects = {}
            try:
                with self._face.open() as project:
                    self._store = project.journal.objects
                    for trail in project.trails():
                        self._objects[str(trail.value.get("digest"))] = str(trail.value.get("object"))
            except PeriplusError:
                if self._face.store_option is not None:
                    raise
        name = self._objects.get(digest.hex())
        if name is None or self._store is None:
            return None
        try:
            return self._store.get(bytes.fromhex(name))
        except (DamageError, NotFoundError, ValueError):
            return None  # doctor explains the damage


def named_trail(face: Face, name: str, *, remains: bool = False) -> tuple[TrailFile, ObjectReader | None]:
    """Return the trail, and the objects of this store. A file is read whatever the state of the store.

    ``remains``: if the trail's object in the store is damaged, return what is left of it.
    """
    from periplus.base.errors import PeriplusError
    from periplus.cli.common.inputs import read_file
    from periplus.project import TrailFile
    from periplus.project.trail_store.lookup import TRAIL_FILE_BYTES_MAX

    if not os.path.isfile(name):
        plain(name, "TRAIL")
        with face.open() as project:
            return project.trail_bytes(name, remains=remains), project.journal.objects
    found = TrailFile(name, read_file(name, TRAIL_FILE_BYTES_MAX))
    try:
        with face.open() as project:
            return found, project.journal.objects
    except PeriplusError:
        if face.store_option is not None:
            raise
        return found, None  # then long texts are shown as digests


def trail_readers(found: TrailFile) -> tuple[TrailReader, ...]:
    """Return a reader of the trail, or of each part of a concatenation. Errors name the file."""
    from periplus.base.encoding.container import KIND_TRAIL, KIND_TRAILS, kind_of
    from periplus.base.errors import DamageError, FormatError, NewerFormatError
    from periplus.trail import open_parts

    try:
        return open_parts(found.data)
    except NewerFormatError as error:
        error.path = found.name
        raise
    except FormatError as error:
        safe = "The file was only read."
        if kind_of(found.data) not in (KIND_TRAIL, KIND_TRAILS):
            mend = "Import a session with `periplus trail import`."
            if found.data[:1] == b"\xa0":
                mend = "If it is version 1 (Trail-FLUX), convert it: periplus trail encode FILE --out TRAIL"
            raise FormatError("not a trail of Periplus", path=found.name, safe=safe, mend=mend) from error
        mend = "See `periplus trail verify`; `periplus trail show --salvage` shows the intact part."
        raise DamageError(error.wrong, path=found.name, offset=error.offset, safe=safe, mend=mend) from error


def trail_reader(found: TrailFile) -> TrailReader:
    """Return a reader of a single trail. Raises UsageError for a concatenation."""
    from periplus.base.errors import UsageError

    readers = trail_readers(found)
    if len(readers) > 1:
        raise UsageError(
            f"{found.name} is a concatenation of {len(readers):,} trails, and this command takes one",
            safe="The file was only read.", mend="Name one of its trails.",
        )  # fmt: skip
    return readers[0]


def part_of(found: TrailFile, part: int | None) -> TrailReader:
    """Return a reader of the trail, or of part ``part`` of a concatenation, counted from 1."""
    from periplus.base.errors import NotFoundError, UsageError

    readers = trail_readers(found)
    if part is None and len(readers) > 1:
        raise UsageError(
            f"{found.name} is a concatenation of {len(readers):,} trails", safe="The file was only read.",
            mend="Choose one with --part.",
        )  # fmt: skip
    if part is not None and part > len(readers):
        raise NotFoundError(
            f"there is no part {part:,} in {found.name}: it has {len(readers):,}", mend="Choose another --part."
        )
    return readers[(part or 1) - 1]


def signed(face: Face, data: bytes, name: str) -> bytes:
    """Return the trail, signed with the store's key. Raises DamageError if it does not match its digest."""
    from periplus.base.errors import DamageError, FormatError

    with face.open() as project:
        try:
            return project.sign_trail(data)
        except FormatError as error:
            raise DamageError(error.wrong, path=name, offset=error.offset, safe="Nothing was signed.",
                              mend="See `periplus trail verify`.") from error  # fmt: skip


def reading(store: ObjectReader | None) -> Callable[[bytes], bytes | None]:
    """Return a function that reads an object of the store; it returns None for one that is lost or damaged, or without a
    store.
    """
    from periplus.base.errors import PeriplusError

    def read(digest: bytes) -> bytes | None:
        try:
            return store.get(digest) if store is not None else None
        except PeriplusError:
            return None  # lost or damaged: the page says that it is not here

    return read


def guarded(lines: Iterator[str], found: TrailFile) -> Iterator[str]:
    """Yield the lines up to the point of damage."""
    from periplus.base.errors import DamageError, FormatError

    try:
        yield from lines
    except FormatError as error:
        raise DamageError(error.wrong, path=found.name, offset=error.offset, safe="Everything listed before it is intact.",
                          mend="See `periplus trail verify`.") from error  # fmt: skip
