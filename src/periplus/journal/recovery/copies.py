"""Read-only copies of a store's records and objects: its archive, other clones, backups, exchange folders.

A copy is trusted as far as it proves itself: a line by its checksum and, if it is known, its leaf hash; an object by its digest.
"""

from __future__ import annotations

__all__ = ["Copies", "stores_below"]

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from periplus.base.errors import FormatError, PeriplusError
from periplus.base.files import Files, read_plain
from periplus.base.ids import is_id
from periplus.journal.records.record import RECORD_VERSION, decode_line
from periplus.journal.records.segment import HEADER_BYTES_MAX, decode_header, segment_first_seq
from periplus.journal.records.stub import audited_by, lost_by
from periplus.journal.recovery.signed_audits import audits_elsewhere
from periplus.journal.storage.lineage import SEGMENT_READ_MAX
from periplus.objects.object_forms import Packing
from periplus.objects.store import ObjectStore

_FOLDERS_MAX: Final = 200_000
_CHECKPOINT_BYTES_MAX: Final = 1 << 32
_PARKED: Final = (".parked", ".jsonl")
_STARTS: Final = re.compile(rb'\n\{"v":%d,"seq":(\d{1,15}),' % RECORD_VERSION)


class Copies:
    """The copies found below ``folders``; the folders are searched once. ``packing`` as in ``ObjectStore``."""

    def __init__(self, folders: Iterable[str], packing: Packing | None = None) -> None:
        self._packing = packing
        self._segments: dict[str, list[tuple[int, str]]] = {}
        self._objects: list[ObjectStore] = []
        self._checkpoints: dict[str, list[str]] = {}
        self._held: tuple[str, bytes] = ("", b"")
        for folder in folders:
            self._look_in(folder)
        for found in self._segments.values():
            found.sort(reverse=True)

    def segments(self, lineage: str) -> set[int]:
        """Return the first seqs of the segments of ``lineage`` that have their usual file names."""
        return {first for first, path in self._segments.get(lineage, ()) if path.endswith(".jsonl")}

    def line(self, lineage: str, seq: int) -> bytes | None:
        """Return a sound line of the record, without its newline; None if no copy has one."""
        return next(self.lines(lineage, seq), None)

    def lines(self, lineage: str, seq: int) -> Iterator[bytes]:
        """Yield every sound line of the record from all copies."""
        start = b'\n{"v":%d,"seq":%d,' % (RECORD_VERSION, seq)
        for first, path in self._segments.get(lineage, ()):
            if first > seq:
                continue
            data = self._read(path)
            place = data.find(start)
            while place >= 0:
                end = data.find(b"\n", place + 1)
                line = data[place + 1 : end if end >= 0 else len(data)]
                if _is_sound(line):
                    yield line
                place = data.find(start, place + 1)

    def lines_of(self, lineage: str, seqs: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Yield every sound line of these records, with its seq; each file is read once."""
        last = max(seqs, default=0)
        for first, path in self._segments.get(lineage, ()):
            if first > last:
                continue
            data = self._read(path)
            for start in _STARTS.finditer(data):
                seq = int(start[1])
                if seq in seqs:
                    end = data.find(b"\n", start.end())
                    line = data[start.start() + 1 : end if end >= 0 else len(data)]
                    if _is_sound(line):
                        yield seq, line

    def audited(self, lineage: str, key: bytes) -> dict[int, set[str]]:
        """Return the redacted records of ``lineage``, whose public key is ``key``, as stated by the audit records in all copies: seq →
        SHA-256 of its stubs.
        """
        found: dict[int, set[str]] = {}
        for one in audits_elsewhere(self._all_segments(), lineage, key):
            found.setdefault(one.seq, set()).add(one.stub)
        for _, path in self._segments.get(lineage, ()):
            data = self._read(path)
            for mark in re.finditer(rb'\n[^\n]*"action":"redact"[^\n]*', data):
                try:
                    record, _ = decode_line(mark[0][1:])
                except FormatError:
                    continue
                for one in audited_by(record, lineage) if not lost_by(record, lineage) else ():
                    found.setdefault(one.seq, set()).add(one.stub)
        return found

    def _all_segments(self) -> Iterator[tuple[str, int, bytes]]:
        for lineage, places in self._segments.items():
            for first, path in places:
                yield lineage, first, self._read(path)[1:]

    def object(self, digest: bytes) -> bytes | None:
        for store in self._objects:
            try:
                return store.get(digest)
            except PeriplusError:
                continue
        return None

    def checkpoint(self, name: str, sha256: str) -> bytes | None:
        """Return the checkpoint file with this name and digest, or None."""
        for path in self._checkpoints.get(name, ()):
            try:
                data = read_plain(path, _CHECKPOINT_BYTES_MAX)
            except OSError:
                continue
            if hashlib.sha256(data).hexdigest() == sha256:
                return data
        return None

    def _look_in(self, top: str) -> None:
        for count, (folder, folders, names) in enumerate(os.walk(top)):
            if count > _FOLDERS_MAX:
                break
            folders[:] = sorted(name for name in folders if name not in (".git", "node_modules"))
            if os.path.basename(folder) == "objects":
                self._objects.append(ObjectStore(folder, Files(), packing=self._packing))
                folders.clear()
                continue
            if os.path.basename(folder) == "checkpoints":
                for name in names:
                    self._checkpoints.setdefault(name, []).append(os.path.join(folder, name))
            named = next(
                (part for part in reversed(folder.split(os.sep)) if part.startswith("lin_") and is_id(part)), ""
            )
            for name in names:
                first = segment_first_seq(name.removesuffix(".parked"))
                path = os.path.join(folder, name)
                if first is not None and name.endswith(_PARKED) and (lineage := named or _lineage_in(path)):
                    self._segments.setdefault(lineage, []).append((first, path))

    def _read(self, path: str) -> bytes:
        if self._held[0] != path:
            try:
                self._held = (path, b"\n" + read_plain(path, SEGMENT_READ_MAX))
            except OSError:
                self._held = (path, b"")
        return self._held[1]


def stores_below(top: str) -> list[str]:
    """Return the folders of complete stores at or below ``top``."""
    found = []
    for count, (folder, folders, names) in enumerate(os.walk(top)):
        if count > _FOLDERS_MAX:
            break
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules"))
        if "config.toml" in names and "journal" in folders:
            found.append(folder)
            folders.clear()
    return found


def _lineage_in(path: str) -> str:
    """Return the lineage that a segment's header names, for archives moved out of their lineage's folder; empty if it is not a segment."""
    try:
        return decode_header(read_plain(path, HEADER_BYTES_MAX))[0].lineage
    except (OSError, FormatError):
        return ""


def _is_sound(line: bytes) -> bool:
    try:
        decode_line(line)
    except FormatError:
        return False
    return True
