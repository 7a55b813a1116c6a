"""Salvage of a damaged package file: truncated by a full disk, or with changed bytes.

A zip archive states twice where a member lies and how long it is: in the header before it, and in the directory at its end (PKWARE APPNOTE
6.3, 4.3). Both are read, so that a lost end or a damaged header costs no more than the member there. Of a damaged member, the part that can
be unpacked is taken. Nothing is trusted: callers check each record and object against its own checksum, as with any copy.
"""

from __future__ import annotations

__all__ = ["DamagedPackage", "has_members", "salvage"]

import hashlib
import itertools
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.errors import EnvironmentFailure, FormatError
from periplus.base.files import Files
from periplus.base.named_tuple import NamedTuple
from periplus.journal.exchange.package import (
    DAMAGED_MEMBER,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    TOP,
    Flaw,
    Manifest,
    limit_of,
)
from periplus.journal.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from zlib import _Decompress as _Unpacker  # pyright: ignore[reportPrivateUsage]

_LOCAL: Final = struct.Struct("<4sHHHHHLLLHH")  # APPNOTE 4.3.7
_SIGNATURE: Final = b"PK\x03\x04"
_NAMED: Final = re.compile(re.escape(_SIGNATURE) + rb".{26}(?=" + re.escape(TOP.encode()) + rb")", re.DOTALL)
_NAME_BYTES_MAX: Final = 200
_PLACES_MAX: Final = 4  # of one member, without duplicates
_PIECE: Final = 1 << 20
_PACKED_PIECE: Final = 1 << 16
_CLAIMED_MAX: Final = 4  # times the file's length: the limit for the stated sizes of all places


class DamagedPackage(NamedTuple):
    """The readable part of a damaged file: its manifest if readable, and its damaged members."""

    manifest: Manifest | None
    flaws: tuple[Flaw, ...]
    names: tuple[str, ...]
    bytes: int


class _Place(NamedTuple):
    """The position of a member's bytes in the file, their compression, and the CRC-32 of the unpacked bytes."""

    start: int
    method: int
    size: int
    crc: int


def salvage(path: str, place: str, files: Files, progress: Progress = no_progress) -> DamagedPackage:
    """Unpack the readable part of the package at ``path`` below the folder ``place``; damaged members as far as possible.

    Raises FormatError if it contains nothing of a store, EnvironmentFailure if the disk has too little room, OSError.
    """
    with open(path, "rb") as file:
        fd = file.fileno()
        found: dict[str, list[_Place]] = {}
        length = os.fstat(fd).st_size
        claimed = _CLAIMED_MAX * length
        for name, at in itertools.chain(_of_directory(path), _of_headers(fd)):
            places = found.get(name, [])
            if at not in places and len(places) < _PLACES_MAX and 0 <= at.start < length and at.size <= claimed:
                found[name] = [*places, at]
                claimed -= at.size
        manifest = _manifest(fd, found.pop(MANIFEST, []))
        if manifest is not None:  # drops members with damaged names
            named = {one.path for one in manifest.files}
            found = {name: places for name, places in found.items() if name in named}
        room = shutil.disk_usage(place).free
        held: dict[str, tuple[int, str, bool]] = {}
        for number, (name, places) in enumerate(found.items()):
            progress(number, len(found))
            at, is_whole = _best(fd, places, limit_of(name))
            size, digest = _write(fd, at, os.path.join(place, *name.split("/")), files, limit_of(name), room)
            room -= size
            held[name] = (size, digest, is_whole)
    if not any(size for size, _, _ in held.values()):
        raise FormatError(
            "not an exported store, and it contains nothing of one", path=path, safe="Nothing was changed."
        )
    return DamagedPackage(
        manifest, tuple(_flaws(manifest, held)), tuple(sorted(held)), sum(size for size, _, _ in held.values())
    )


def has_members(path: str) -> bool:
    """Return True if the file contains a member of a package, whatever else is damaged."""
    with open(path, "rb") as file:
        return any(True for _ in _of_headers(file.fileno()))


def _flaws(manifest: Manifest | None, held: dict[str, tuple[int, str, bool]]) -> Iterator[Flaw]:
    if manifest is None:
        yield Flaw(f"{DAMAGED_MEMBER}: what it named cannot be told any more", MANIFEST, -1)
        yield from (Flaw(DAMAGED_MEMBER, name, -1) for name, (_, _, is_whole) in sorted(held.items()) if not is_whole)
        return
    for one in manifest.files:
        if not limit_of(one.path):
            continue
        size, digest, _ = held.get(one.path, (0, "", False))
        if (size, digest) != (one.bytes, one.sha256):
            yield Flaw(
                f"{DAMAGED_MEMBER}: {size:,} of {one.bytes:,} bytes could be had"
                if size < one.bytes
                else DAMAGED_MEMBER,
                one.path,
                -1,
            )


def _of_directory(path: str) -> Iterator[tuple[str, _Place]]:
    """Yield the members listed in the directory at the end of the file; none if that is damaged."""
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            for member in archive.infolist():
                name = member.filename.removeprefix(TOP)
                if name != member.filename and (limit_of(name) or name == MANIFEST):
                    length = len(member.filename.encode())
                    for start in {length, *_lengths(file.fileno(), member.header_offset)}:
                        at = member.header_offset + _LOCAL.size + start
                        yield name, _Place(at, member.compress_type, member.compress_size, member.CRC)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error, UnicodeError):
        return  # a damaged directory; the headers are read in any case


def _lengths(fd: int, offset: int) -> Iterator[int]:
    """Yield the number of bytes after the fixed part of the header at ``offset``, if it can be read."""
    head = os.pread(fd, _LOCAL.size, offset) if 0 <= offset < os.fstat(fd).st_size else b""
    if len(head) == _LOCAL.size:
        *_, name, extra = _LOCAL.unpack(head)
        yield name + extra


def _of_headers(fd: int) -> Iterator[tuple[str, _Place]]:
    """Yield the members described by the headers found anywhere in the file."""
    keep = _LOCAL.size + len(TOP)
    at, window = 0, b""
    while piece := os.pread(fd, _PIECE, at + len(window)):
        window += piece
        for found in _NAMED.finditer(window):
            yield from _header(fd, at + found.start())
        cut = max(len(window) - keep + 1, 0)
        at, window = at + cut, window[cut:]


def _header(fd: int, offset: int) -> Iterator[tuple[str, _Place]]:
    data = os.pread(fd, _LOCAL.size + _NAME_BYTES_MAX, offset)
    _, _, _, method, _, _, crc, size, _, length, extra = _LOCAL.unpack(data[: _LOCAL.size])
    name = data[_LOCAL.size : _LOCAL.size + length].decode("ascii", "replace").removeprefix(TOP)
    if limit_of(name) or name == MANIFEST:
        yield name, _Place(offset + _LOCAL.size + length + extra, method, size, crc)


def _pieces(fd: int, at: _Place, most: int) -> Iterator[bytes]:
    """Yield the bytes that can be unpacked of a member, at most ``most``."""
    if at.method == zipfile.ZIP_STORED:
        offset, left = at.start, min(at.size, most)
        while left > 0 and (piece := os.pread(fd, min(_PIECE, left), offset)):
            yield piece
            offset, left = offset + len(piece), left - len(piece)
        return
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    offset, end, rest, left = at.start, at.start + at.size, b"", most
    while left > 0 and not unpacker.eof:
        if not rest:
            rest = os.pread(fd, min(_PACKED_PIECE, end - offset), offset)
            offset += len(rest)
            if not rest:
                return
        before = unpacker.copy()
        try:
            piece = unpacker.decompress(rest, min(_PIECE, left))
        except zlib.error:
            yield _last_bytes(before, rest)[:left]
            return
        rest = unpacker.unconsumed_tail
        left -= len(piece)
        yield piece


def _last_bytes(unpacker: _Unpacker, packed: bytes) -> bytes:
    """Return the bytes before the position at which unpacking fails; ``zlib`` withholds them unless it gets one byte at a time."""
    found = b""
    for at in range(len(packed)):
        try:
            found += unpacker.decompress(packed[at : at + 1])
        except zlib.error:
            break
    return found


def _best(fd: int, places: list[_Place], limit: int) -> tuple[_Place, bool]:
    """Return the place whose bytes have the stated checksum, or else the one that gives most, and whether the checksum holds."""
    found = []
    for at in places:
        crc = size = 0
        for piece in _pieces(fd, at, limit):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
        if crc == at.crc and size:
            return at, True
        found.append((size, at))
    return max(found)[1], False


def _write(fd: int, at: _Place, target: str, files: Files, most: int, room: int) -> tuple[int, str]:
    files.make_folder(os.path.dirname(target))
    digest, size = hashlib.sha256(), 0
    out = files.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for piece in _pieces(fd, at, most):
            size += len(piece)
            if size > room:
                raise EnvironmentFailure(
                    f"{target} would be larger than the disk has room for", safe="Nothing was changed.",
                    mend="Free some space, then repeat the command.",
                )  # fmt: skip
            view = memoryview(piece)
            while view:
                view = view[files.write(out, view) :]
            digest.update(piece)
        files.sync(out)
    finally:
        files.close(out)
    return size, digest.hexdigest()


def _manifest(fd: int, places: list[_Place]) -> Manifest | None:
    for at in places:
        data = b"".join(_pieces(fd, at, MANIFEST_BYTES_MAX))
        if zlib.crc32(data) == at.crc:
            try:
                return msgspec.json.decode(data, type=Manifest)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
    return None
